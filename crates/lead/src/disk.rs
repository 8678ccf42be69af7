//! The disks of a node, as it last reported them. They are shown to users; no decision depends on them.

/// Bytes of a text that is kept of what a node reports of a disk.
const TEXT_LEN_MAX: usize = 300;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// The volume's id, a UUID; empty if it was never known.
    pub volume: String,
    /// Where it lies on the node.
    pub dir: String,
    /// Why nothing is written there any more; empty for a sound one.
    pub failure: String,
    pub capacity_len: u64,
    /// By replicas.
    pub used_len: u64,
    pub free_len: u64,
    pub replica_count: u64,
    /// Replicas that are being written there.
    pub stream_count: u64,
    /// For so long the replica was not read that waits longest for the background scrub.
    pub unread_ms: Option<u64>,
}

/// What is kept of a text for as long as its node is known: no longer than people read, and in memory of its own.
pub fn kept_text(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT_LEN_MAX)].to_owned()
}

/// Of those reported now, disks that failed since they were reported `before`.
pub(crate) fn failed_since<'a>(before: &'a [Disk], now: &'a [Disk]) -> impl Iterator<Item = &'a Disk> {
    let was_known = |disk: &Disk| before.iter().any(|was| was.dir == disk.dir && !was.failure.is_empty());
    now.iter().filter(move |disk| !disk.failure.is_empty() && !was_known(disk))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_news_once() {
        let disk = |dir: &str, failure: &str| Disk { dir: dir.into(), failure: failure.into(), ..Disk::default() };
        let before = [disk("/a", ""), disk("/b", "cannot sync")];
        let now = [disk("/a", "cannot read"), disk("/b", "cannot sync"), disk("/c", ""), disk("/d", "gone")];
        let failed: Vec<&str> = failed_since(&before, &now).map(|disk| &*disk.dir).collect();
        assert_eq!(failed, ["/a", "/d"]);
    }

    #[test]
    fn a_text_is_cut_between_letters() {
        let text = "ß".repeat(TEXT_LEN_MAX);
        let kept = kept_text(&text);
        assert_eq!((kept.len(), kept.chars().count()), (TEXT_LEN_MAX, TEXT_LEN_MAX / 2));
    }
}
