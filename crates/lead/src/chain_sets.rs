//! How many new sets of nodes the writers of a file may have made, as their chains lose nodes and gain others.
//!
//! ```text
//! updatePipeline: there is a set of these nodes ──▶ accepted
//!                 they are a new set           ──▶ one of the file's allowance, as it is a row for ever
//! ```
//!
//! Promise: a chain is not refused for who is in it. A block's members change while it is written, and nobody can say
//! later which nodes its writer was given, or what of them still holds the bytes. Only how many sets a file costs is
//! bounded, far above what failing nodes cause.

use std::collections::BTreeMap;
use std::time::Duration;
use types::FileId;

/// Sets that one file may need at once: a guess. A chain that loses a node and gets another one makes two, if nobody
/// had them before; clients give up after five failures without progress.
const SET_COUNT_MAX: u32 = 32;
/// After so long a file may have one more.
const SET_EACH: Duration = Duration::from_secs(60);
/// Files remembered; beyond that those that spent longest ago are forgotten.
const FILE_COUNT_MAX: usize = 10_000;

/// What the files that are written have spent. Not durable: a leader begins anew.
#[derive(Debug, Default)]
pub struct ChainSets {
    /// Sets made that are not earned back yet, and up to when that was reckoned.
    spent: BTreeMap<FileId, (u32, Duration)>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the chains of file {file} needed {SET_COUNT_MAX} new sets of datanodes within a short time; one more is \
     accepted each minute: try again in a minute, or close the file and write another one"
)]
pub struct TooManySets {
    pub file: FileId,
}

impl ChainSets {
    /// A chain of `file` needs a set of nodes that is not there yet.
    pub fn spend(&mut self, file: FileId, now: Duration) -> Result<(), TooManySets> {
        let (spent, at) = self.left(file, now);
        if spent >= SET_COUNT_MAX {
            return Err(TooManySets { file });
        }
        if self.spent.len() >= FILE_COUNT_MAX && !self.spent.contains_key(&file) {
            let files: Vec<FileId> = self.spent.keys().copied().collect();
            let free: Vec<FileId> = files.into_iter().filter(|file| self.left(*file, now).0 == 0).collect();
            free.iter().for_each(|file| _ = self.spent.remove(file));
        }
        if self.spent.len() >= FILE_COUNT_MAX && !self.spent.contains_key(&file) {
            let oldest = self.spent.iter().min_by_key(|(_, (_, at))| *at).map(|(file, _)| *file);
            oldest.and_then(|oldest| self.spent.remove(&oldest));
        }
        self.spent.insert(file, (spent + 1, at));
        Ok(())
    }

    pub(crate) fn check(&self) {
        assert!(self.spent.len() <= FILE_COUNT_MAX, "the sets of {} files are remembered", self.spent.len());
        assert!(self.spent.values().all(|(spent, _)| *spent <= SET_COUNT_MAX), "a file has spent more than it may");
    }

    /// What a file has spent and not earned back, and up to when that is reckoned.
    fn left(&self, file: FileId, now: Duration) -> (u32, Duration) {
        let Some((spent, at)) = self.spent.get(&file).copied() else { return (0, now) };
        let earned = u32::try_from(now.saturating_sub(at).as_secs() / SET_EACH.as_secs()).unwrap_or(u32::MAX);
        if earned >= spent { (0, now) } else { (spent - earned, at + SET_EACH * earned) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::InodeId;

    #[test]
    fn a_file_has_some_sets_at_once_and_one_each_minute() {
        let (file, other, mut sets) = (InodeId(7), InodeId(8), ChainSets::default());
        let made = |sets: &mut ChainSets, file, at| (0..100).filter(|_| sets.spend(file, at).is_ok()).count();
        let at = Duration::from_secs(1000);
        assert_eq!(made(&mut sets, file, at), SET_COUNT_MAX as usize);
        assert_eq!(made(&mut sets, other, at), SET_COUNT_MAX as usize, "each file has its own");
        assert_eq!(made(&mut sets, file, at + SET_EACH / 2), 0);
        assert_eq!(made(&mut sets, file, at + SET_EACH * 3), 3);
        assert_eq!(made(&mut sets, file, at + SET_EACH * 3), 0);
        assert_eq!(made(&mut sets, file, at + SET_EACH * 1000), SET_COUNT_MAX as usize);
    }

    #[test]
    fn files_that_spend_are_remembered_up_to_a_limit() {
        let mut sets = ChainSets::default();
        let at = Duration::from_secs(1000);
        (0..FILE_COUNT_MAX as u64 + 10).for_each(|file| sets.spend(InodeId(file), at).unwrap());
        assert_eq!(sets.spent.len(), FILE_COUNT_MAX);
        sets.spend(InodeId(1 << 40), at + SET_EACH).unwrap();
        assert_eq!(sets.spent.len(), 1, "the others have earned back what they spent");
    }
}
