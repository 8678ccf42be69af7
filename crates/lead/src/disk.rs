//! The disks of a node, as it last reported them. They are shown to users; no decision depends on them.
//!
//! Promise: one heartbeat brings few failed disks into the log, however many its node reports, and under whatever
//! names. Further ones of the same node are held back for a while, and logged after that.

use std::collections::BTreeSet;
use std::time::Duration;
use types::DiskReport;

/// Bytes of a text that is kept of what a node reports of a disk.
const TEXT_LEN_MAX: usize = 300;
/// Failed disks of one heartbeat that are logged by name. A guess: more fail at a time only with their controller.
const LOGGED_COUNT_MAX: usize = 8;
/// After failures of a node were logged, no further ones of it are for so long. A guess.
const LOGGED_EACH: Duration = Duration::from_secs(60);

/// What is kept of a text for as long as its node is known: no longer than people read, and in memory of its own.
pub fn kept_text(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT_LEN_MAX)].to_owned()
}

/// Disks of which the failure is to be logged.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FailedDisks {
    pub shown: Vec<DiskReport>,
    /// Failed as well, and are not named.
    pub more_count: usize,
}

/// Which failures of a node's disks were logged.
#[derive(Debug, Default)]
pub(crate) struct LoggedFailures {
    /// By `dir`, as long as the disk is reported as failed.
    dirs: BTreeSet<String>,
    at: Option<Duration>,
}

impl LoggedFailures {
    /// Of the disks that are reported now, those whose failure was not logged yet and is now.
    pub(crate) fn take_news(&mut self, disks: &[DiskReport], now: Duration) -> FailedDisks {
        let failed = || disks.iter().filter(|disk| !disk.failure.is_empty());
        let failed_dirs: BTreeSet<&str> = failed().map(|disk| &*disk.dir).collect();
        self.dirs.retain(|dir| failed_dirs.contains(&**dir));
        if self.at.is_some_and(|at| now < at + LOGGED_EACH) {
            return FailedDisks::default();
        }
        let news: Vec<&DiskReport> = failed().filter(|disk| !self.dirs.contains(&disk.dir)).collect();
        if news.is_empty() {
            return FailedDisks::default();
        }
        self.at = Some(now);
        self.dirs.extend(news.iter().map(|disk| disk.dir.clone()));
        assert_eq!(self.dirs.len(), failed_dirs.len(), "each failed disk was logged or counted");
        let shown: Vec<DiskReport> = news.iter().take(LOGGED_COUNT_MAX).map(|disk| DiskReport::clone(disk)).collect();
        FailedDisks { more_count: news.len() - shown.len(), shown }
    }

    /// Nothing of it matters any more.
    pub(crate) fn is_forgettable(&self, now: Duration) -> bool {
        self.dirs.is_empty() && self.at.is_none_or(|at| now >= at + LOGGED_EACH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_news_once() {
        let disk =
            |dir: &str, failure: &str| DiskReport { dir: dir.into(), failure: failure.into(), ..DiskReport::default() };
        let before = [disk("/a", ""), disk("/b", "cannot sync")];
        let after = [disk("/a", "cannot read"), disk("/b", "cannot sync"), disk("/c", ""), disk("/d", "gone")];
        let mut logged = LoggedFailures::default();
        let mut news = |disks: &[DiskReport], seconds| -> Vec<String> {
            let news = logged.take_news(disks, Duration::from_secs(seconds));
            assert_eq!(news.more_count, 0);
            news.shown.into_iter().map(|disk| disk.dir).collect()
        };
        assert_eq!(news(&before, 0), ["/b"]);
        assert_eq!(news(&after, 1), [""; 0], "not so soon");
        assert_eq!(news(&after, 60), ["/a", "/d"]);
        assert_eq!(news(&after, 200), [""; 0]);
        assert_eq!(news(&before, 201), [""; 0]);
        assert_eq!(news(&after, 202), ["/a", "/d"], "they had recovered");
    }

    /// A node that has two hundred disks, with other names in each heartbeat.
    #[test]
    fn however_many_fail_few_are_logged() {
        let mut logged = LoggedFailures::default();
        let mut shown_count = 0;
        for beat in 0..60u64 {
            let disk = |number: u64| DiskReport {
                dir: format!("/{beat}/{number}"),
                failure: "gone".into(),
                ..DiskReport::default()
            };
            let news = logged.take_news(&(0..200).map(disk).collect::<Vec<_>>(), Duration::from_secs(beat));
            assert_eq!(news.more_count, if beat == 0 { 200 - LOGGED_COUNT_MAX } else { 0 });
            shown_count += news.shown.len();
        }
        assert_eq!(shown_count, LOGGED_COUNT_MAX);
        assert!(logged.take_news(&[], Duration::from_secs(60)).shown.is_empty());
        assert!(logged.is_forgettable(Duration::from_secs(60)));
    }

    #[test]
    fn a_text_is_cut_between_letters() {
        let text = "ß".repeat(TEXT_LEN_MAX);
        let kept = kept_text(&text);
        assert_eq!((kept.len(), kept.chars().count()), (TEXT_LEN_MAX, TEXT_LEN_MAX / 2));
    }
}
