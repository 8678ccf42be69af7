//! Damaged replicas of this node, until the metadata server has heard of them.
//!
//! Promise: each is told until the metadata server that leads has answered, and for some seconds more; to one that
//! leads anew, again.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use types::BlockId;
use wire::node::Replica;

/// One is reported for so long: several heartbeats, should an answer be lost or the leader change.
const REPORTED_FOR: Duration = Duration::from_secs(5);
/// Damaged replicas that are reported at a time.
const REPORT_COUNT_MAX: usize = 1000;

#[derive(Debug, Default)]
pub struct Damage {
    known: VecDeque<Bad>,
}

/// A damaged replica: since when it is known, and whether the metadata server has acknowledged the report.
#[derive(Debug)]
struct Bad {
    at: Duration,
    replica: Replica,
    is_acknowledged: bool,
}

impl Bad {
    fn report_again(&mut self, now: Duration) {
        (self.is_acknowledged, self.at) = (false, now);
    }
}

impl Damage {
    /// For the heartbeat.
    pub fn report(&self, now: Duration) -> Vec<Replica> {
        let old = |at: Duration| now.saturating_sub(at) > REPORTED_FOR;
        self.known.iter().filter(|bad| !bad.is_acknowledged || !old(bad.at)).map(|bad| bad.replica).collect()
    }

    /// So many damaged replicas are to be reported that others should be found later.
    pub fn is_full(&self) -> bool {
        self.known.iter().filter(|bad| !bad.is_acknowledged).count() >= REPORT_COUNT_MAX / 2
    }

    /// The metadata server that leads has heard a report.
    pub(crate) fn acknowledge(&mut self, bad: &[Replica]) {
        for known in &mut self.known {
            known.is_acknowledged |= bad.contains(&known.replica);
        }
    }

    /// Another metadata server leads, or this one has lost what it knew: it is to hear of all damage that is known.
    pub(crate) fn report_again(&mut self, now: Duration) {
        self.known.iter_mut().for_each(|known| known.report_again(now));
    }

    /// The server hears of this replica as of one that was put: what it knew of its damage is forgotten with that.
    pub(crate) fn report_once_more(&mut self, now: Duration, block: BlockId) {
        let of_block = self.known.iter_mut().filter(|known| known.replica.block == block.0);
        of_block.for_each(|known| known.report_again(now));
    }

    /// A replica of this node was found damaged: the metadata server is to hear of it.
    pub(crate) fn found(&mut self, now: Duration, replica: Replica) {
        self.forget(replica.block_id());
        if self.known.len() >= REPORT_COUNT_MAX {
            // One that was reported already, if there is one.
            let at = self.known.iter().position(|bad| bad.is_acknowledged).unwrap_or(0);
            self.known.remove(at);
        }
        self.known.push_back(Bad { at: now, replica, is_acknowledged: false });
        assert!(self.known.len() <= REPORT_COUNT_MAX, "no more damage is known than can be reported");
    }

    /// A damaged replica is no more: it was deleted, a good copy has its place, or it reads well again. A metadata
    /// server that had a report of it once more would believe that.
    pub(crate) fn forget(&mut self, block: BlockId) {
        self.known.retain(|known| known.replica.block != block.0);
    }

    pub(crate) fn check(&self) {
        let blocks: BTreeSet<u64> = self.known.iter().map(|bad| bad.replica.block).collect();
        assert_eq!(blocks.len(), self.known.len(), "a block has one report of damage");
        assert!(self.known.len() <= REPORT_COUNT_MAX, "no more damage is known than can be reported");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A leader forgets with its memory, and a scrub that the next one takes up would call the damage repaired.
    #[test]
    fn the_next_leader_hears_of_damage_too() {
        let mut damage = Damage::default();
        let (at, replica) = (Duration::from_secs(100), Replica { block: 7, ..Replica::default() });
        damage.found(at, replica);
        assert_eq!(damage.report(at + REPORTED_FOR * 2), [replica], "nobody has heard of it");
        damage.acknowledge(&[replica]);
        assert_eq!(damage.report(at + REPORTED_FOR * 2), []);
        assert!(!damage.is_full());
        damage.report_again(at + REPORTED_FOR * 3);
        assert_eq!(damage.report(at + REPORTED_FOR * 9), [replica]);
        damage.forget(BlockId(7));
        damage.report_again(at + REPORTED_FOR * 10);
        assert_eq!(damage.report(at + REPORTED_FOR * 10), []);
    }

    #[test]
    fn what_nobody_has_heard_of_is_kept_before_what_was_acknowledged() {
        let mut damage = Damage::default();
        let replica = |block: u64| Replica { block, ..Replica::default() };
        (0..REPORT_COUNT_MAX as u64).for_each(|block| damage.found(Duration::ZERO, replica(block)));
        assert!(damage.is_full());
        damage.acknowledge(&[replica(500)]);
        damage.found(Duration::from_secs(1), replica(5000));
        damage.check();
        let told = damage.report(Duration::from_secs(1));
        assert!(told.contains(&replica(0)) && told.contains(&replica(5000)) && !told.contains(&replica(500)));
    }
}
