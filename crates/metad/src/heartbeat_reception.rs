//! Reception of heartbeats by this server ([`Reception`]), by the clock of its decisions and the clock of its machine.

use io::{Clock, SystemClock};
use lead::{QUIET_MAX, Reception};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct HeartbeatReception {
    /// By which this process lives, whatever clock its decisions go by.
    machine: Arc<dyn Clock>,
    receptions: Mutex<Receptions>,
}

#[derive(Debug)]
struct Receptions {
    /// For the loss of nodes: a short gap must not delay a repair.
    of_lost: Reception,
    /// For the takeover of a datanode's process.
    of_claims: Reception,
}

impl HeartbeatReception {
    /// `lost_gap_max`: a longer gap counts for the loss of nodes.
    pub(crate) fn new(now: Duration, lost_gap_max: Duration) -> Self {
        Self::by(Arc::new(SystemClock::new()), now, lost_gap_max)
    }

    fn by(machine: Arc<dyn Clock>, now: Duration, lost_gap_max: Duration) -> Self {
        let at = machine.monotonic();
        let of_lost = Reception::new(now, at, lost_gap_max);
        // A process that lives sends heartbeats more often than this, so at least one of them is counted between two
        // gaps.
        let of_claims = Reception::new(now, at, QUIET_MAX);
        Self { machine, receptions: Mutex::new(Receptions { of_lost, of_claims }) }
    }

    fn with<T>(&self, run: impl FnOnce(&mut Receptions, Duration) -> T) -> T {
        let machine = self.machine.monotonic();
        run(&mut self.receptions.lock().unwrap_or_else(PoisonError::into_inner), machine)
    }

    /// This server is sure to lead at this moment. To be called more often than gaps may be long.
    pub(crate) fn confirm(&self, now: Duration) {
        let was_gap = self.with(|receptions, machine| {
            receptions.of_lost.confirm(now, machine);
            receptions.of_claims.confirm(now, machine)
        });
        if was_gap {
            tracing::warn!("heartbeat reception interrupted: process suspended, or no majority confirmed this leader");
        }
    }

    /// Since when a datanode's silence counts towards its loss.
    pub(crate) fn since(&self, now: Duration) -> Duration {
        self.with(|receptions, machine| receptions.of_lost.since(now, machine))
    }

    /// Since when a datanode's silence lets another process take its place.
    pub(crate) fn claims_since(&self, now: Duration) -> Duration {
        self.with(|receptions, machine| receptions.of_claims.since(now, machine))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A leader that cannot be sure to lead for longer than datanodes are waited for takes none of them for silent.
    #[test]
    fn a_server_that_was_cut_off_begins_anew() {
        let second = Duration::from_secs;
        let machine = Arc::new(io::ManualClock::at(types::Millis(0)));
        let reception = HeartbeatReception::by(Arc::clone(&machine) as Arc<dyn Clock>, second(10), second(30));
        machine.advance(second(11));
        assert_eq!(reception.claims_since(second(21)), second(21));
        reception.confirm(second(21));
        machine.advance(second(1));
        assert_eq!(reception.claims_since(second(22)), second(21));
        assert_eq!(reception.since(second(22)), second(10), "a repair is not put off");
        machine.advance(second(31));
        reception.confirm(second(53));
        assert_eq!(reception.since(second(53)), second(53));
    }
}
