//! Files whose replication was changed, by the time of their next visit. The rows say which files these are.
//!
//! Promise: all files have their turn. A file that waits for copies, or for its writer, does not delay the others.

use std::collections::BTreeMap;
use std::time::Duration;
use types::FileId;

/// Files listed at a time.
const PAGE_COUNT: usize = 100;
/// A file that waits for copies, or for its writer.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(300);

/// Where the next round goes on.
#[derive(Debug, Default)]
pub struct ResizeQueue {
    after: Option<FileId>,
    /// Files whose copies are under way, and when they are looked at again.
    resting: BTreeMap<FileId, Duration>,
}

impl ResizeQueue {
    /// Up to how many files behind which one are to be listed.
    pub fn page(&self) -> (Option<FileId>, usize) {
        (self.after, PAGE_COUNT)
    }

    /// These are the files of that page. True: there are more.
    pub fn on_page(&mut self, files: &[FileId]) -> bool {
        assert!(files.len() <= PAGE_COUNT, "{} files are listed at a time", files.len());
        self.after = files.last().copied().filter(|_| files.len() == PAGE_COUNT);
        self.after.is_some()
    }

    /// Whether a file that was listed has its turn.
    pub fn is_due(&self, file: FileId, now: Duration) -> bool {
        self.resting.get(&file).is_none_or(|until| *until <= now)
    }

    pub fn on_looked(&mut self, file: FileId, is_done: bool, now: Duration) {
        self.resting.retain(|_, until| *until > now);
        if !is_done {
            self.resting.insert(file, now + LOOK_AGAIN_AFTER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::InodeId;

    #[test]
    fn files_have_their_turn_page_by_page_and_rest_while_they_wait() {
        let (mut queue, at) = (ResizeQueue::default(), Duration::from_millis);
        let files: Vec<FileId> = (1..=PAGE_COUNT as u64).map(InodeId).collect();
        assert_eq!(queue.page(), (None, PAGE_COUNT));
        assert!(queue.on_page(&files));
        assert_eq!(queue.page().0, files.last().copied());
        queue.on_looked(files[0], false, at(10));
        queue.on_looked(files[1], true, at(20));
        assert!(!queue.is_due(files[0], at(309)) && queue.is_due(files[0], at(310)) && queue.is_due(files[1], at(20)));
        queue.on_looked(files[2], true, at(310));
        assert!(queue.resting.is_empty(), "what is over is forgotten");
        assert!(!queue.on_page(&files[..5]));
        assert_eq!(queue.page().0, None, "from the beginning again");
    }
}
