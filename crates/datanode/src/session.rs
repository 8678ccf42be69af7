//! The session with one metadata server: what the node does next.
//!
//! ```text
//!        ┌────────────── unknown, or no answer ──────────────┐
//!        ▼                                                   │
//!   register ──▶ catalogue, page by page ──▶ heartbeats ─────┘     a catalogue again every ten minutes
//! ```
//!
//! Where there are several servers the node has a session with each, so that all know that it lives. What is here is
//! told to the one that leads, all of it to one that leads anew.

use std::time::Duration;
use wire::node::Orders;

/// Between heartbeats when nothing happens.
pub const HEARTBEAT_EACH: Duration = Duration::from_secs(1);
/// What was put is told after so long, together with what is put meanwhile.
pub const BATCH_WAIT: Duration = Duration::from_millis(50);
pub const CATALOGUE_EACH: Duration = Duration::from_secs(600);
/// A replica whose chain broke off is reported after so long, unless it is configured: clients recover in seconds.
pub const LEFT_OPEN: Duration = Duration::from_secs(10);
/// A process whose registration is refused, as another one with the node's id sends heartbeats, tries for so long,
/// unless it is configured: three times what a metadata server needs to notice that the other one is gone.
pub const IN_USE_MAX: Duration = Duration::from_secs(30);
/// Where another server may lead, one that does not answer is not waited for as long as usual.
pub const CALL_WAIT_OF_SEVERAL: Duration = Duration::from_secs(15);
/// After a failure: doubling from the first to the second.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LAST: Duration = Duration::from_secs(5);
/// One that comes back may lead within two seconds, and should know by then who lives.
const RETRY_LAST_OF_SEVERAL: Duration = Duration::from_millis(800);
/// After the refusal of a certificate that was revoked. Each attempt is a handshake for the server, and perhaps a line
/// of its audit log; a new certificate that somebody puts there is used as late as that.
const RETRY_REVOKED: Duration = Duration::from_secs(60);

/// What the server of a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Leads { term: u64 },
    Standby,
}

impl Standing {
    pub fn of(standby: bool, term: u64) -> Self {
        if standby { Self::Standby } else { Self::Leads { term } }
    }

    pub fn of_answer(orders: &Orders) -> Self {
        Self::of(orders.standby, orders.term)
    }

    pub fn leads(self) -> bool {
        self != Self::Standby
    }
}

/// From a registration to the first failure.
#[derive(Debug)]
pub struct Session {
    number: usize,
    catalogue_each: Duration,
    standing: Standing,
    /// As what the server was greeted, and since when it knows all that is here.
    greeted: Option<Greeted>,
}

#[derive(Debug)]
struct Greeted {
    standing: Standing,
    /// How often changes had been dropped when all that is here was begun to be told.
    began: u64,
    /// When that was told from end to end, and how often changes had been dropped when it began.
    told: Option<(Duration, u64)>,
}

/// What a node does next in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The server is something else than it was: it is to be known whether it leads, and then asked for again.
    Greet { leads: bool },
    /// All that is here is to be told; then [`Session::told_all`].
    Catalogue,
    /// Until [`HEARTBEAT_EACH`] is over or, where `leads`, [`BATCH_WAIT`] after there is something to report.
    Rest { leads: bool },
}

impl Session {
    /// `number`: which of the node's sessions this is.
    pub fn new(number: usize, standing: Standing, catalogue_each: Duration) -> Self {
        Self { number, catalogue_each, standing, greeted: None }
    }

    pub fn number(&self) -> usize {
        self.number
    }

    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// The server answered a heartbeat. False: it is something else than it was, and what was being told to it is to be
    /// told anew.
    pub fn is_still(&mut self, now: Standing) -> bool {
        std::mem::replace(&mut self.standing, now) == now
    }

    /// All that is here was told from end to end.
    pub fn told_all(&mut self, now: Duration) {
        if let Some(greeted) = self.greeted.as_mut().filter(|greeted| greeted.standing == self.standing) {
            greeted.told = Some((now, greeted.began));
        }
    }

    /// What comes after an answer. `overflow_count`: how often changes were dropped, which a server that leads is told
    /// by a catalogue alone. Each session does that: which of two servers leads may be known late.
    pub fn next(&mut self, now: Duration, overflow_count: u64) -> Step {
        let (standing, leads) = (self.standing, self.standing.leads());
        match &mut self.greeted {
            Some(greeted) if greeted.standing == standing => {
                let is_due = |(at, count)| now >= at + self.catalogue_each || count != overflow_count;
                if leads && greeted.told.is_none_or(is_due) {
                    greeted.began = overflow_count;
                    return Step::Catalogue;
                }
                Step::Rest { leads }
            }
            _ => {
                self.greeted = Some(Greeted { standing, began: overflow_count, told: None });
                Step::Greet { leads }
            }
        }
    }
}

/// Attempts to come to a session with one server.
#[derive(Debug)]
pub struct Attempts {
    wait: Duration,
    /// Since when another process is said to have this node's id.
    refused_since: Option<Duration>,
}

impl Default for Attempts {
    fn default() -> Self {
        Self { wait: RETRY_FIRST, refused_since: None }
    }
}

impl Attempts {
    /// This node's certificate was revoked: how long to wait before the next attempt. Only an administrator changes
    /// that.
    pub fn revoked_wait(&mut self) -> Duration {
        *self = Self::default();
        RETRY_REVOKED
    }

    pub fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// Another process has this node's id, and is alive. False: that is so for `in_use_max`, and this process ends.
    pub fn may_try_again(&mut self, now: Duration, in_use_max: Duration) -> bool {
        now < *self.refused_since.get_or_insert(now) + in_use_max
    }

    /// It failed for another reason.
    pub fn failed(&mut self) {
        self.refused_since = None;
    }

    /// How long to wait before the next one.
    pub fn wait(&mut self, server_count: usize) -> Duration {
        let last = if server_count > 1 { RETRY_LAST_OF_SEVERAL } else { RETRY_LAST };
        let wait = self.wait;
        self.wait = (wait * 2).min(last);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACH: Duration = Duration::from_secs(100);
    const LEADS: Standing = Standing::Leads { term: 3 };

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// What comes next, and has come to its end.
    fn step(session: &mut Session, now: u64, overflow_count: u64) -> Step {
        let step = session.next(at(now), overflow_count);
        if step == Step::Catalogue {
            session.told_all(at(now));
        }
        step
    }

    #[test]
    fn a_leader_is_told_all_once_and_now_and_then() {
        let mut session = Session::new(0, LEADS, EACH);
        assert_eq!(step(&mut session, 1, 7), Step::Greet { leads: true });
        assert_eq!(step(&mut session, 1, 7), Step::Catalogue);
        assert_eq!(step(&mut session, 1, 7), Step::Rest { leads: true });
        assert!(session.is_still(LEADS));
        assert_eq!(step(&mut session, 100, 7), Step::Rest { leads: true });
        assert_eq!(step(&mut session, 101, 7), Step::Catalogue);
        assert_eq!(step(&mut session, 102, 8), Step::Catalogue, "changes were dropped");
        assert_eq!(step(&mut session, 102, 8), Step::Rest { leads: true });
    }

    #[test]
    fn a_server_that_stands_by_is_told_nothing_until_it_leads() {
        let mut session = Session::new(0, Standing::Standby, EACH);
        assert_eq!(step(&mut session, 1, 0), Step::Greet { leads: false });
        assert_eq!(step(&mut session, 500, 1), Step::Rest { leads: false }, "what was dropped is the leader's");
        assert!(!session.is_still(LEADS));
        assert_eq!(step(&mut session, 501, 0), Step::Greet { leads: true });
        assert_eq!(step(&mut session, 501, 0), Step::Catalogue);
        // It leads in a term that is another one: it has forgotten.
        assert!(!session.is_still(Standing::Leads { term: 5 }));
        assert_eq!(step(&mut session, 502, 0), Step::Greet { leads: true });
        assert_eq!(step(&mut session, 502, 0), Step::Catalogue);
    }

    /// The server is another's successor in the middle of a catalogue: its beginning was told to nobody.
    #[test]
    fn a_catalogue_that_was_begun_under_another_term_does_not_count() {
        let mut session = Session::new(0, LEADS, EACH);
        session.next(at(1), 0);
        assert_eq!(session.next(at(1), 0), Step::Catalogue);
        assert!(!session.is_still(Standing::Leads { term: 4 }));
        session.told_all(at(2));
        assert_eq!(session.next(at(2), 0), Step::Greet { leads: true });
        assert_eq!(session.next(at(2), 0), Step::Catalogue);
    }

    #[test]
    fn who_is_refused_for_long_ends() {
        let mut attempts = Attempts::default();
        assert!(attempts.may_try_again(at(10), at(30)) && attempts.may_try_again(at(39), at(30)));
        assert!(!attempts.may_try_again(at(40), at(30)));
        attempts.failed();
        assert!(attempts.may_try_again(at(41), at(30)));
    }

    #[test]
    fn one_of_several_is_tried_more_often() {
        let waits = |server_count| {
            let mut attempts = Attempts::default();
            (0..8).map(|_| attempts.wait(server_count).as_millis()).collect::<Vec<_>>()
        };
        assert_eq!(waits(1), [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(waits(3), [100, 200, 400, 800, 800, 800, 800, 800]);
    }

    #[test]
    fn who_was_revoked_waits_a_minute_each_time() {
        let mut attempts = Attempts::default();
        assert_eq!([attempts.revoked_wait(), attempts.revoked_wait()], [Duration::from_secs(60); 2]);
        assert_eq!(attempts.wait(3), RETRY_FIRST, "another failure is no such refusal");
    }
}
