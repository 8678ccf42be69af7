//! What a node says of its replicas when containers are compared: has it what it should have?

use crate::held::Held;
use types::{ContainerId, Fitness, Generation, ReplicaState};
use wire::node::Replica;

/// Whether the node can serve the replica that is asked for. `is_ordered_away`: what it has is to be deleted.
pub fn fitness(held: Option<&Held>, wanted: &Replica, is_ordered_away: bool) -> Fitness {
    let Some(held) = held else { return Fitness::Absent };
    let is_whole = match held.state {
        ReplicaState::Finalized => held.len >= wanted.len,
        // Under an append, or in the hands of whoever writes it.
        ReplicaState::Open if held.has_writer || held.generation > wanted.generation_stamp() => return Fitness::Busy,
        ReplicaState::Open | ReplicaState::WaitingForRecovery => false,
        ReplicaState::Copying => return Fitness::Absent,
    };
    match () {
        () if held.generation < wanted.generation_stamp() => Fitness::Absent,
        // It is as good as gone.
        () if is_ordered_away => Fitness::Absent,
        () if is_whole => Fitness::Fit,
        () => Fitness::Unfit,
    }
}

/// Whether a replica may be said to be fit, if it reads well: it is as young as is asked for, and stays.
pub fn is_worth_reading(held: &Held, generation: Generation, is_ordered_away: bool) -> bool {
    held.generation >= generation && !is_ordered_away
}

/// Whether a replica counts in the digest of a container.
pub fn counts_in(held: &Held, home: ContainerId, is_ordered_away: bool) -> bool {
    let home_fits = held.home == home || held.home == ContainerId(0);
    held.state == ReplicaState::Finalized && home_fits && !is_ordered_away
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: Held = Held { home: ContainerId(3), ..Held::EXAMPLE };

    fn asked(held: Held, generation: u64, len: u64) -> Fitness {
        fitness(Some(&held), &Replica { block: 7, generation, len, ..Replica::default() }, false)
    }

    #[test]
    fn a_replica_is_fit_if_it_has_all_that_is_asked_for() {
        let open = Held { state: ReplicaState::Open, ..HELD };
        assert_eq!(asked(HELD, 1002, 100), Fitness::Fit);
        assert_eq!(asked(HELD, 1002, 101), Fitness::Unfit, "too short");
        assert_eq!(asked(HELD, 1003, 100), Fitness::Absent, "too old");
        assert_eq!(asked(open, 1002, 100), Fitness::Unfit, "left open");
        assert_eq!(asked(open, 1001, 100), Fitness::Busy, "under an append");
        assert_eq!(asked(Held { has_writer: true, ..open }, 1002, 100), Fitness::Busy);
        assert_eq!(asked(Held { state: ReplicaState::Copying, ..HELD }, 1002, 100), Fitness::Absent);
        assert_eq!(fitness(Some(&HELD), &HELD.report(), true), Fitness::Absent, "as good as gone");
        assert_eq!(fitness(None, &HELD.report(), false), Fitness::Absent);
    }

    #[test]
    fn what_is_too_old_or_to_be_deleted_is_not_read() {
        let is_worth = |generation, is_ordered_away| is_worth_reading(&HELD, Generation(generation), is_ordered_away);
        assert!(is_worth(1002, false) && !is_worth(1003, false) && !is_worth(1002, true));
    }

    #[test]
    fn a_digest_counts_what_is_finalized_at_home() {
        assert!(counts_in(&HELD, ContainerId(3), false) && !counts_in(&HELD, ContainerId(4), false));
        assert!(!counts_in(&HELD, ContainerId(3), true));
        assert!(counts_in(&Held { home: ContainerId(0), ..HELD }, ContainerId(4), false), "its home is not known");
        assert!(!counts_in(&Held { state: ReplicaState::Open, ..HELD }, ContainerId(3), false));
    }
}
