//! How fast a group notices that its leader is gone.

use std::time::Duration;

/// All members have the same. A leader's loss is noticed after `election_max_ms` without a word of it, and then some
/// member stands for election after a further time between `election_min_ms` and `election_max_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    pub heartbeat_ms: u64,
    pub election_min_ms: u64,
    pub election_max_ms: u64,
}

impl Default for Timing {
    /// Five heartbeats may be lost or late. A new leader is there within some two seconds, so that a client can write
    /// again within five also where an election has to be repeated.
    fn default() -> Self {
        Self { heartbeat_ms: 200, election_min_ms: 700, election_max_ms: 1_000 }
    }
}

impl Timing {
    /// For so long after its start a member neither votes nor stands for election: answers it gave before it was
    /// restarted may still make a leader sure of itself.
    pub(crate) fn silence(self) -> Duration {
        Duration::from_millis(self.election_min_ms)
    }

    /// For so long after it asked a majority that answered, a leader may be sure that there is no other. Less than the
    /// members' silence, for clocks that run at different speeds.
    pub(crate) fn lease(self) -> Duration {
        Duration::from_millis(self.election_min_ms * 3 / 4)
    }

    /// One that would lead a group of its own waits so long for messages of others that take it for one of theirs: a
    /// leader asks a member that does not answer again within a second.
    pub(crate) fn solitude(self) -> Duration {
        Duration::from_millis(25 * self.heartbeat_ms)
    }

    /// Members' rows are compared so often. A guess: soon after the fault, and a message in ten heartbeats.
    pub(crate) fn comparison(self) -> Duration {
        Duration::from_millis(10 * self.heartbeat_ms)
    }

    /// A leader that heard no majority for so long gives up what it was asked to do.
    pub(crate) fn patience(self) -> Duration {
        Duration::from_millis(2 * self.election_max_ms)
    }
}
