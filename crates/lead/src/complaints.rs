//! Complaints: replicas reported as damaged that their own nodes have not verified yet.
//!
//! Promise: no complainant displaces another one. Each complainant has a few places of its own, and all are served in
//! turn. A replica that was just verified as sound is not verified again because of another complaint.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{BlockId, NodeId};

/// Complaints that wait, of all together.
const COUNT_MAX: usize = 10_000;
/// Of one machine. Its programs read hundreds of replicas in a second, but find few of them bad.
const COUNT_OF_ONE_MAX: usize = 100;
/// How long complaints are ignored about a replica that its node verified as sound: the complainant's memory or network
/// may be bad.
const WELL_FOR: Duration = Duration::from_secs(300);
/// A node that could not read a replica when it was asked is asked again, each time after twice as long; some hours in
/// all. It may have been restarting.
const UNREAD_FIRST: Duration = Duration::from_secs(20);
const UNREAD_TRIES: u32 = 10;

type Replica = (BlockId, NodeId);

/// The source of a complaint: a client's machine, or this server and the datanodes themselves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Complainant {
    Ours,
    Client(String),
}

#[derive(Debug, Default)]
pub struct Complaints {
    all: BTreeSet<Replica>,
    by: BTreeMap<Complainant, BTreeSet<Replica>>,
    /// Whose complaint was taken last.
    last: Option<Complainant>,
    /// Replicas that were verified as sound, and until when that is relied on.
    well: BTreeMap<Replica, Duration>,
    /// Replicas that their nodes did not read when they were asked: how often, and until when they are left in peace.
    unread: BTreeMap<Replica, (u32, Duration)>,
}

impl Complaints {
    /// False: it waits already, or takes no place, since there is none, or is known to be wrong.
    pub fn note(&mut self, block: BlockId, node: NodeId, by: Complainant, now: Duration) -> bool {
        let replica = (block, node);
        if self.all.contains(&replica) {
            return false;
        }
        let is_client = by != Complainant::Ours;
        if is_client && self.well.get(&replica).is_some_and(|until| now < *until) {
            return false;
        }
        let of_one = self.by.get(&by).map_or(0, BTreeSet::len);
        if self.all.len() >= COUNT_MAX || is_client && of_one >= COUNT_OF_ONE_MAX {
            return false;
        }
        self.by.entry(by).or_default().insert(replica);
        self.all.insert(replica)
    }

    /// The next replica to be read, of a node that is `free`.
    pub fn take(&mut self, now: Duration, free: impl Fn(NodeId) -> bool) -> Option<(BlockId, NodeId)> {
        let is_due = |replica: &Replica| self.unread.get(replica).is_none_or(|(_, until)| *until <= now);
        let after = self.by.iter().filter(|(by, _)| Some(*by) > self.last.as_ref());
        let up_to = self.by.iter().filter(|(by, _)| Some(*by) <= self.last.as_ref());
        let mut next = after.chain(up_to).filter_map(|(by, replicas)| {
            let replica = replicas.iter().find(|replica| free(replica.1) && is_due(replica))?;
            Some((by.clone(), *replica))
        });
        let (by, replica) = next.next()?;
        if let Some(replicas) = self.by.get_mut(&by) {
            replicas.remove(&replica);
            if replicas.is_empty() {
                self.by.remove(&by);
            }
        }
        self.all.remove(&replica);
        self.last = Some(by);
        Some(replica)
    }

    /// It was taken, and its node did not report its state.
    pub fn on_unread(&mut self, block: BlockId, node: NodeId, now: Duration) {
        let replica = (block, node);
        let tries = self.unread.get(&replica).map_or(0, |(tries, _)| *tries) + 1;
        if tries > UNREAD_TRIES || self.all.len() >= COUNT_MAX || self.unread.len() >= COUNT_MAX {
            self.unread.remove(&replica);
            return;
        }
        self.unread.insert(replica, (tries, now + UNREAD_FIRST * (1 << (tries - 1))));
        if self.all.insert(replica) {
            self.by.entry(Complainant::Ours).or_default().insert(replica);
        }
    }

    /// It was taken, and it is known how the replica is.
    pub fn on_read(&mut self, block: BlockId, node: NodeId) {
        self.unread.remove(&(block, node));
    }

    /// Its node has read the replica: it is as it should be.
    pub fn on_verified(&mut self, block: BlockId, node: NodeId, now: Duration) {
        if self.well.len() >= COUNT_MAX {
            self.well.retain(|_, until| now < *until);
        }
        if self.well.len() < COUNT_MAX {
            self.well.insert((block, node), now + WELL_FOR);
        }
    }

    /// Each complaint waits in the place of one complainant.
    pub(crate) fn check(&self) {
        let waiting: usize = self.by.values().map(BTreeSet::len).sum();
        let all: BTreeSet<Replica> = self.by.values().flatten().copied().collect();
        assert_eq!((&self.all, self.all.len()), (&all, waiting), "a replica waits in one place");
        assert!(self.all.len() <= COUNT_MAX && self.well.len() <= COUNT_MAX, "complaints are bounded");
        for (by, replicas) in &self.by {
            let is_bounded = *by == Complainant::Ours || replicas.len() <= COUNT_OF_ONE_MAX;
            assert!(is_bounded && !replicas.is_empty(), "{by:?} has {} places", replicas.len());
        }
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1000);

    fn node(number: u8) -> NodeId {
        NodeId([number; 16])
    }

    fn by(name: &str) -> Complainant {
        Complainant::Client(name.into())
    }

    /// A client that calls everything bad has a hundred places; what others say is heard, and read next.
    #[test]
    fn one_who_complains_of_everything_is_in_nobodys_way() {
        let mut complaints = Complaints::default();
        assert!(complaints.note(BlockId(1 << 40), node(1), by("honest"), NOW));
        let taken = (0..100_000).filter(|block| complaints.note(BlockId(*block), node(1), by("liar"), NOW)).count();
        assert_eq!((taken, complaints.len()), (COUNT_OF_ONE_MAX, COUNT_OF_ONE_MAX + 1));
        assert!(complaints.note(BlockId(1 << 41), node(2), Complainant::Ours, NOW));
        let next: Vec<u64> = (0..3).map(|_| complaints.take(NOW, |_| true).unwrap().0.0).collect();
        assert!(next.contains(&(1 << 40)) && next.contains(&(1 << 41)), "{next:?}");
        assert_eq!(complaints.take(NOW, |id| id == node(2)), None);
        let left = std::iter::from_fn(|| complaints.take(NOW, |_| true)).count();
        assert_eq!((left, complaints.len()), (COUNT_OF_ONE_MAX - 1, 0));
    }

    #[test]
    fn what_was_just_read_is_not_read_again_for_a_client() {
        let mut complaints = Complaints::default();
        let block = BlockId(7);
        assert!(complaints.note(block, node(1), by("a"), NOW));
        assert!(!complaints.note(block, node(1), by("b"), NOW), "that is no news");
        assert_eq!(complaints.take(NOW, |_| true), Some((block, node(1))));
        assert_eq!(complaints.take(NOW, |_| true), None, "two said the same");
        complaints.on_verified(block, node(1), NOW);
        assert!(!complaints.note(block, node(1), by("a"), NOW + WELL_FOR / 2));
        assert!(complaints.note(block, node(2), by("a"), NOW), "another replica of it");
        assert!(complaints.note(block, node(1), Complainant::Ours, NOW), "a datanode saw it itself");
        complaints.take(NOW, |id| id == node(1)).unwrap();
        assert!(complaints.note(block, node(1), by("a"), NOW + WELL_FOR));
    }

    /// It may have been restarting: what a reader saw of it is not forgotten for that.
    #[test]
    fn a_node_that_does_not_answer_is_asked_again() {
        let (mut complaints, block) = (Complaints::default(), BlockId(7));
        assert!(complaints.note(block, node(1), by("a"), NOW));
        let mut now = NOW;
        for tries in 0..UNREAD_TRIES {
            assert_eq!(complaints.take(now, |_| true), Some((block, node(1))));
            complaints.on_unread(block, node(1), now);
            complaints.check();
            now += UNREAD_FIRST * (1 << tries);
            assert_eq!(complaints.take(now - Duration::from_millis(1), |_| true), None);
        }
        complaints.take(now, |_| true).unwrap();
        complaints.on_unread(block, node(1), now);
        assert_eq!((complaints.take(now + WELL_FOR * 1000, |_| true), complaints.len()), (None, 0), "in the end it is");
        assert!(complaints.note(block, node(1), by("a"), now));
        assert!(complaints.take(now, |_| true).is_some());
        complaints.on_unread(block, node(1), now);
        complaints.take(now + UNREAD_FIRST, |_| true).unwrap();
        complaints.on_read(block, node(1));
        assert!(complaints.is_empty());
    }
}
