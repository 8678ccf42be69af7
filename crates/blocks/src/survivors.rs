//! What is left of a block whose writer is gone, and the length all agree on.
//!
//! Promise: bytes that were acknowledged are kept as long as one of the replicas shown has them. An acknowledged byte is on every
//! node of the chain as it was then, and each change of the chain raises the generation; so the youngest replicas that are not
//! damaged by a restart all have it, and the shortest of them is long enough. If all are, the longest of them is.

use std::time::Duration;
use types::{Generation, NodeId};

/// How long members that do not answer are waited for when others have what is needed. A restart takes about as long.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same when those who answer may lack bytes that were acknowledged: they lost power, or have less than is recorded.
const PATIENCE_IN_DOUBT: Duration = Duration::from_secs(60);

/// The order is that of trust: what a node put is whole; what a node was writing has all it acknowledged; what a node found after
/// its own crash may lack the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReplicaState {
    WaitingForRecovery,
    Open,
    Finalized,
}

/// A replica, fenced: nobody writes to it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survivor {
    pub node: NodeId,
    pub state: ReplicaState,
    pub generation: Generation,
    pub len: u64,
}

/// What the block becomes, and the replicas to cut to that; others are too short or stale, and go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    pub len: u64,
    pub nodes: Vec<NodeId>,
}

/// Finds the length. `generation` and `len` are what the namespace has recorded. `None`: nothing of the block is left.
pub fn agree(survivors: &[Survivor], generation: Generation, len: u64) -> Option<Agreed> {
    let usable: Vec<&Survivor> = survivors.iter().filter(|survivor| survivor.generation >= generation).collect();
    // A put replica has all that was ever sent for the block under its generation; nothing can be beyond it. If something is,
    // the block was opened again under the same generation, as some clients do, and this node was not there.
    let is_old = |put: &Survivor| {
        let beyond = |other: &Survivor| other.generation == put.generation && other.len > put.len;
        put.state == ReplicaState::Finalized && survivors.iter().any(beyond)
    };
    let usable: Vec<&Survivor> = usable.into_iter().filter(|survivor| !is_old(survivor)).collect();
    let best_state = usable.iter().map(|survivor| survivor.state).max()?;
    let of_state = usable.iter().filter(|survivor| survivor.state == best_state);
    let youngest = of_state.clone().map(|survivor| survivor.generation).max()?;
    let of_youngest = of_state.filter(|survivor| survivor.generation == youngest).map(|survivor| survivor.len);
    let mut agreed = match best_state {
        // Each may lack acknowledged bytes, and none can have bytes that were not sent: only the longest is long enough for sure,
        // of whichever chain; the younger one may never have come about.
        ReplicaState::WaitingForRecovery => usable.iter().map(|survivor| survivor.len).max()?,
        ReplicaState::Open | ReplicaState::Finalized => of_youngest.min()?,
    };
    if agreed < len {
        // Recorded lengths were acknowledged by every node at some time (or a little more than that was recorded). Whoever has
        // that much is believed before those who have not.
        agreed = usable.iter().map(|survivor| survivor.len).filter(|have| *have >= len).min().unwrap_or(agreed);
    }
    let nodes = usable.iter().filter(|survivor| survivor.len >= agreed).map(|survivor| survivor.node).collect();
    Some(Agreed { len: agreed, nodes })
}

/// What a recovery does after it has asked every member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask them again.
    Wait(&'static str),
    /// Nothing of the block is left.
    Nothing,
    /// Have these finish their replicas at this length.
    Finish(Agreed),
}

/// Decides on the answers of the members: `survivors` showed a replica, `silent_count` did not answer, the others have none.
/// `waited` is the time since the recovery began.
pub fn next_step(
    survivors: &[Survivor],
    silent_count: usize,
    waited: Duration,
    generation: Generation,
    len: u64,
) -> Step {
    let agreed = agree(survivors, generation, len);
    if silent_count > 0 && agreed.is_none() {
        // Whoever is silent may have all of it. Somebody must bring it back, or delete the file.
        return Step::Wait("no replica was found, and not all nodes answer");
    }
    if silent_count > 0 && waited < patience(survivors, agreed.as_ref(), len) {
        return Step::Wait("not all nodes answer");
    }
    match agreed.filter(|agreed| agreed.len > 0) {
        Some(agreed) => Step::Finish(agreed),
        None => Step::Nothing,
    }
}

fn patience(survivors: &[Survivor], agreed: Option<&Agreed>, recorded: u64) -> Duration {
    let sound = agreed.is_some_and(|agreed| {
        let never_fell = |survivor: &Survivor| survivor.state != ReplicaState::WaitingForRecovery;
        let mut taken = survivors.iter().filter(|survivor| agreed.nodes.contains(&survivor.node));
        agreed.len >= recorded && taken.any(never_fell)
    });
    if sound { PATIENCE } else { PATIENCE_IN_DOUBT }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ReplicaState::{Finalized, Open, WaitingForRecovery};

    /// Replicas on nodes 1, 2, …; the block is recorded with generation 10.
    fn check(recorded: u64, replicas: &[(ReplicaState, u64, u64)], len: u64, nodes: &[u8]) {
        let survivors: Vec<Survivor> = replicas
            .iter()
            .zip(1..)
            .map(|((state, generation, len), number)| Survivor {
                node: NodeId([number; 16]),
                state: *state,
                generation: Generation(*generation),
                len: *len,
            })
            .collect();
        let nodes = nodes.iter().map(|number| NodeId([*number; 16])).collect();
        assert_eq!(agree(&survivors, Generation(10), recorded), Some(Agreed { len, nodes }), "{replicas:?}");
    }

    #[test]
    fn open_replicas_meet_at_the_shortest() {
        check(0, &[(Open, 10, 700), (Open, 10, 500), (Open, 10, 600)], 500, &[1, 2, 3]);
    }

    #[test]
    fn a_put_replica_wins() {
        check(0, &[(Open, 10, 700), (Finalized, 10, 900), (Open, 10, 900)], 900, &[2, 3]);
    }

    #[test]
    fn a_restarted_node_counts_only_if_nobody_else_is_there() {
        check(0, &[(WaitingForRecovery, 10, 300), (Open, 10, 500)], 500, &[2]);
        check(0, &[(WaitingForRecovery, 10, 300), (WaitingForRecovery, 10, 500)], 500, &[2]);
    }

    /// Node 1 was to go on alone, its chain did not come about, and then it lost power in mid-write.
    #[test]
    fn a_younger_generation_does_not_outweigh_bytes_when_all_fell() {
        check(0, &[(WaitingForRecovery, 11, 64), (WaitingForRecovery, 10, 75)], 75, &[2]);
        check(0, &[(WaitingForRecovery, 11, 80), (WaitingForRecovery, 10, 75)], 80, &[1]);
    }

    /// Node 1 left the chain before the rest was written.
    #[test]
    fn who_left_the_chain_does_not_shorten_the_block() {
        check(0, &[(Open, 10, 100), (Open, 11, 800), (Open, 11, 900)], 800, &[2, 3]);
        check(0, &[(Open, 9, 100), (Open, 10, 800)], 800, &[2]);
    }

    #[test]
    fn what_was_recorded_is_not_lost_if_somebody_has_it() {
        check(400, &[(Open, 10, 100), (Open, 10, 500), (Open, 10, 450)], 450, &[2, 3]);
        check(400, &[(Open, 10, 100), (WaitingForRecovery, 10, 400)], 400, &[2]);
        // Some writers record what they sent.
        check(400, &[(Open, 10, 100), (Open, 10, 150)], 100, &[1, 2]);
    }

    /// Node 1 was down when an append began that took no new generation.
    #[test]
    fn what_was_put_before_an_append_does_not_shorten_it() {
        check(500, &[(Finalized, 10, 500), (Open, 10, 800), (Open, 10, 900)], 800, &[2, 3]);
        check(500, &[(Finalized, 10, 500), (Finalized, 10, 900), (Open, 10, 900)], 900, &[2, 3]);
        check(500, &[(Finalized, 10, 500), (WaitingForRecovery, 10, 700)], 700, &[2]);
        check(500, &[(Finalized, 10, 500), (Open, 10, 500)], 500, &[1, 2]);
    }

    #[test]
    fn stale_replicas_are_nothing() {
        let stale = Survivor { node: NodeId([1; 16]), state: Finalized, generation: Generation(9), len: 5 };
        assert_eq!(agree(&[stale], Generation(10), 0), None);
        assert_eq!(agree(&[], Generation(10), 0), None);
    }

    #[test]
    fn who_may_lack_acknowledged_bytes_is_not_believed_soon() {
        let check = |state, len, recorded, wanted| {
            let survivors = [Survivor { node: NodeId([1; 16]), state, generation: Generation(1001), len }];
            let agreed = agree(&survivors, Generation(1001), recorded);
            assert_eq!(patience(&survivors, agreed.as_ref(), recorded), wanted, "{state:?} {len} of {recorded}");
        };
        check(Open, 5, 0, PATIENCE);
        check(Finalized, 5, 5, PATIENCE);
        check(Open, 5, 6, PATIENCE_IN_DOUBT);
        check(WaitingForRecovery, 5, 5, PATIENCE_IN_DOUBT);
    }

    #[test]
    fn silent_members_are_waited_for_and_forever_if_nobody_has_anything() {
        let open = Survivor { node: NodeId([1; 16]), state: Open, generation: Generation(10), len: 5 };
        let step = |survivors: &[Survivor], silent, seconds| {
            next_step(survivors, silent, Duration::from_secs(seconds), Generation(10), 0)
        };
        assert!(matches!(step(&[open], 1, 4), Step::Wait(_)));
        assert!(matches!(step(&[open], 1, 5), Step::Finish(_)));
        assert!(matches!(step(&[open], 0, 0), Step::Finish(_)));
        assert!(matches!(step(&[], 1, 1_000_000), Step::Wait(_)));
        assert_eq!(step(&[], 0, 0), Step::Nothing);
        assert_eq!(step(&[Survivor { len: 0, ..open }], 0, 0), Step::Nothing);
    }
}
