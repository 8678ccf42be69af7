//! A directory as text, in parts.
//!
//! Each line ends with `\n`, but for the last of all, which ends with NUL. With statuses, the line of each follows its
//! name, and two lines that no entry has say so at the beginning.

use crate::answer;
use crate::frame::{ResponseHeader, StreamId};
use crate::limits::LISTING_PART_LEN_MAX;
use crate::stat::Info;

/// How the text begins that has statuses in it.
const WITH_STATUS: &[u8] = b".\n0 0 0 0\n";

/// A response that is full, as bytes to send.
pub type ListedPart = Vec<u8>;

/// Entries in, parts out. A part has whole entries alone, as some clients read each by itself.
#[derive(Debug)]
pub struct ListingText {
    stream: StreamId,
    with_status: bool,
    /// What is not sent yet, behind the room for a header.
    part: Vec<u8>,
}

impl ListingText {
    pub fn new(stream: StreamId, with_status: bool) -> Self {
        let mut part = vec![0; ResponseHeader::LEN];
        if with_status {
            part.extend_from_slice(WITH_STATUS);
        }
        Self { stream, with_status, part }
    }

    /// One more entry; and the part before it, if that is full. An entry with a line break in its name is left out:
    /// there is no way to tell of it.
    pub fn push(&mut self, name: &str, info: &Info) -> Option<ListedPart> {
        if name.contains(['\n', '\0']) || name.is_empty() {
            return None;
        }
        let full = (self.part.len() >= LISTING_PART_LEN_MAX).then(|| {
            let next = vec![0; ResponseHeader::LEN];
            let mut full = std::mem::replace(&mut self.part, next);
            answer::seal(self.stream, false, &mut full);
            full
        });
        self.part.extend_from_slice(name.as_bytes());
        self.part.push(b'\n');
        if self.with_status {
            self.part.extend_from_slice(info.line().as_bytes());
            self.part.push(b'\n');
        }
        full
    }

    /// The last part, which is empty if the directory is.
    pub fn finish(mut self) -> ListedPart {
        if self.part.len() > ResponseHeader::LEN
            && let Some(last) = self.part.last_mut()
        {
            *last = 0;
        }
        answer::seal(self.stream, true, &mut self.part);
        self.part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: StreamId = StreamId([0, 3]);

    #[test]
    fn the_last_line_ends_with_a_nul() {
        let mut text = ListingText::new(STREAM, false);
        for name in ["a", "b\nc", "d e"] {
            assert_eq!(text.push(name, &Info::default()), None);
        }
        assert_eq!(text.finish()[8..], *b"a\nd e\0");
        assert_eq!(ListingText::new(STREAM, false).finish().len(), 8);
    }

    #[test]
    fn statuses_follow_their_names() {
        let mut text = ListingText::new(STREAM, true);
        text.push("a", &Info { owner: "o".into(), group: "g".into(), ..Info::default() });
        assert_eq!(text.finish()[8..], *b".\n0 0 0 0\na\n1 0 16 0 0 0 0000 o g\0");
    }

    #[test]
    fn a_long_listing_comes_in_parts_of_whole_lines() {
        let mut text = ListingText::new(STREAM, false);
        let mut parts: Vec<_> =
            (0..30_000).filter_map(|number| text.push(&format!("f{number}"), &Info::default())).collect();
        parts.push(text.finish());
        assert!(parts.len() > 2 && parts.iter().all(|part| part.len() < LISTING_PART_LEN_MAX + 100));
        let all: Vec<u8> = parts.iter().flat_map(|part| part[8..].to_vec()).collect();
        assert_eq!(all.iter().filter(|byte| **byte == b'\n').count(), 29_999);
        assert!(all.starts_with(b"f0\nf1\n") && all.ends_with(b"f29999\0"));
        assert!(parts[..parts.len() - 1].iter().all(|part| part.ends_with(b"\n") && part[2..4] == [0x0f, 0xa0]));
    }
}
