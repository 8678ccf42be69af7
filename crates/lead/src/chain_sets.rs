//! Limits on the new pipelines that writers cause. A file causes some as its chains lose and gain nodes, and a host as
//! its clients exclude nodes.
//!
//! ```text
//! updatePipeline:        a pipeline of these nodes exists ──▶ accepted
//!                        it is a new one                  ──▶ counts against the file's allowance, as its row is kept,
//!                                                            and against the allowance for chains of the writer's host
//! addBlock, leaseBlocks: a pipeline exists without the excluded nodes ──▶ used
//!                        there is none                                ──▶ counts against the host's allowance
//! ```
//!
//! Promise: a chain is never refused for its members. A block's members change while it is written. Later it is not
//! known which nodes its writer was given, or which of them still have the bytes. Only the number of pipelines of a
//! file or a host is limited, far above what failing nodes cause. Ten nodes have thousands of sets, and every round of
//! repair visits each pipeline.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;
use types::FileId;

/// Sets that one file may need at once: a guess. A chain that loses a node and gets another one makes two, if nobody
/// had them before; clients give up after five failures without progress.
const SET_COUNT_MAX: u32 = 32;
/// Sets that the clients on one host may need at once: a guess. They exclude nodes that failed just now, and those that
/// are left have a set as a rule.
const HOST_SET_COUNT_MAX: u32 = 4 * SET_COUNT_MAX;
/// Sets that the chains of all files which the clients on one host write may need at once: a guess. A host may write
/// hundreds of files as a rack fails; files cost nothing, so that their own allowances bound nothing.
const HOST_CHAIN_COUNT_MAX: u32 = 1024;
/// After so long a file or a host may have one more.
const SET_EACH: Duration = Duration::from_secs(60);
/// Files and hosts remembered; beyond that those that spent longest ago are forgotten.
const SPENDER_COUNT_MAX: usize = 10_000;

/// The cause of a new pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spender {
    File(FileId),
    /// Its clients exclude nodes, or want another replication than the usual one.
    Host(IpAddr),
    /// The chains of its clients change.
    HostChains(IpAddr),
}

impl Spender {
    fn set_count_max(self) -> u32 {
        match self {
            Self::File(_) => SET_COUNT_MAX,
            Self::Host(_) => HOST_SET_COUNT_MAX,
            Self::HostChains(_) => HOST_CHAIN_COUNT_MAX,
        }
    }
}

/// What files and hosts have spent. Not durable: a leader begins anew.
#[derive(Debug, Default)]
pub struct ChainSets {
    /// Sets made that are not earned back yet, and up to when that was reckoned.
    spent: BTreeMap<Spender, (u32, Duration)>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooManySets {
    #[error(
        "the chains of file {0} needed {SET_COUNT_MAX} new sets of datanodes within a short time; one more is accepted \
         each minute: try again in a minute, or close the file and write another one"
    )]
    File(FileId),
    #[error(
        "clients on {0} excluded so many datanodes that {HOST_SET_COUNT_MAX} new sets of datanodes were needed within \
         a short time; one more is accepted each minute: try again in a minute, or exclude fewer"
    )]
    Host(IpAddr),
    #[error(
        "the chains of files that clients on {0} write needed {HOST_CHAIN_COUNT_MAX} new sets of datanodes within a \
         short time; one more is accepted each minute: try again in a minute"
    )]
    HostChains(IpAddr),
}

impl ChainSets {
    /// It needs a set of nodes that is not there yet.
    pub fn may_spend(&self, spender: Spender, now: Duration) -> Result<(), TooManySets> {
        if self.left(spender, now).0 < spender.set_count_max() {
            return Ok(());
        }
        Err(match spender {
            Spender::File(file) => TooManySets::File(file),
            Spender::Host(host) => TooManySets::Host(host),
            Spender::HostChains(host) => TooManySets::HostChains(host),
        })
    }

    /// A set of nodes was made for it, as [`ChainSets::may_spend`] allowed.
    pub fn spend(&mut self, spender: Spender, now: Duration) {
        let (spent, at) = self.left(spender, now);
        if self.spent.len() >= SPENDER_COUNT_MAX && !self.spent.contains_key(&spender) {
            let all: Vec<Spender> = self.spent.keys().copied().collect();
            let free: Vec<Spender> = all.into_iter().filter(|spender| self.left(*spender, now).0 == 0).collect();
            free.iter().for_each(|spender| _ = self.spent.remove(spender));
        }
        if self.spent.len() >= SPENDER_COUNT_MAX && !self.spent.contains_key(&spender) {
            let oldest = self.spent.iter().min_by_key(|(_, (_, at))| *at).map(|(spender, _)| *spender);
            oldest.and_then(|oldest| self.spent.remove(&oldest));
        }
        // Several may have been allowed the last one at the same time.
        self.spent.insert(spender, ((spent + 1).min(spender.set_count_max()), at));
    }

    pub(crate) fn check(&self) {
        assert!(
            self.spent.len() <= SPENDER_COUNT_MAX,
            "the sets of {} files and hosts are remembered",
            self.spent.len()
        );
        for (spender, (spent, _)) in &self.spent {
            assert!(*spent <= spender.set_count_max(), "{spender:?} has spent {spent} sets");
        }
    }

    /// What one has spent and not earned back, and up to when that is reckoned.
    fn left(&self, spender: Spender, now: Duration) -> (u32, Duration) {
        let Some((spent, at)) = self.spent.get(&spender).copied() else { return (0, now) };
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
        let [file, other] = [7, 8].map(|file| Spender::File(InodeId(file)));
        let mut sets = ChainSets::default();
        let make = |sets: &mut ChainSets, spender, at| {
            let may = sets.may_spend(spender, at);
            may.inspect(|()| sets.spend(spender, at)).is_ok()
        };
        let made = |sets: &mut ChainSets, file, at| (0..100).filter(|_| make(sets, file, at)).count();
        let at = Duration::from_secs(1000);
        assert_eq!(made(&mut sets, file, at), SET_COUNT_MAX as usize);
        assert_eq!(made(&mut sets, other, at), SET_COUNT_MAX as usize, "each file has its own");
        let host = Spender::Host([10, 0, 0, 1].into());
        let of_host = (0..1000).filter(|_| make(&mut sets, host, at)).count();
        assert_eq!(of_host, HOST_SET_COUNT_MAX as usize);
        sets.check();
        assert_eq!(made(&mut sets, file, at + SET_EACH / 2), 0);
        assert_eq!(made(&mut sets, file, at + SET_EACH * 3), 3);
        assert_eq!(made(&mut sets, file, at + SET_EACH * 3), 0);
        assert_eq!(made(&mut sets, file, at + SET_EACH * 1000), SET_COUNT_MAX as usize);
    }

    #[test]
    fn files_that_spend_are_remembered_up_to_a_limit() {
        let mut sets = ChainSets::default();
        let at = Duration::from_secs(1000);
        (0..SPENDER_COUNT_MAX as u64 + 10).for_each(|file| sets.spend(Spender::File(InodeId(file)), at));
        assert_eq!(sets.spent.len(), SPENDER_COUNT_MAX);
        sets.spend(Spender::File(InodeId(1 << 40)), at + SET_EACH);
        assert_eq!(sets.spent.len(), 1, "the others have earned back what they spent");
    }
}
