//! What a plan costs: a recorded trace of reads, played against a model of a link.
//!
//! ```text
//!   a fetch sent at t brings its first byte at t + round trip, or when the link is free, and its last one after
//!   len / bandwidth; the program goes on when all that its read needs is there
//! ```
//!
//! Promise: the machine that is played is the one that ships. What the model leaves out: slow start, losses, servers.

use crate::action::{Action, Fetch};
use crate::counts::Counts;
use crate::decision::{Decision, Why};
use crate::holdings::{Accounts, Source};
use crate::id::FetchId;
use crate::index::Index;
use crate::prefetcher::Prefetcher;
use crate::profile::Profile;
use crate::settings::{Link, Settings};
use crate::span::Span;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A read of a program, and how long it worked before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    pub span: Span,
    pub after_us: u64,
}

/// Where a trace is played.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    pub settings: Settings,
    pub link: Link,
    pub file_len: u64,
    pub index: Option<Arc<Index>>,
    pub profile: Option<Profile>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Times at which the program waited for the link.
    pub stalls: u64,
    pub stalled_us: u64,
    /// The same in round trips of the link, the rest of one counted as one.
    pub round_trips_waited: u64,
    /// From the opening to the end of the last read.
    pub elapsed_us: u64,
    /// Flights of requests: those that leave at the same time are one.
    pub round_trips: u64,
    pub requests: u64,
    pub asked_len: u64,
    pub used_len: u64,
    /// Dropped unread, or unread at the end.
    pub wasted_len: u64,
    pub memory_len_max: u64,
    pub counts: Counts,
    /// Bytes asked for, by reason.
    pub asked_by: BTreeMap<Why, u64>,
    /// What was decided, with the number of the read at which it was.
    pub decisions: Vec<(u64, Decision)>,
    /// What was learned.
    pub observed: Profile,
}

/// Decisions of one trace that are kept; a program that jumps at each read makes as many as it reads.
pub const DECISION_COUNT_MAX: usize = 10_000;

/// Plays a trace. `each` sees the machine after every read, as a test does that checks it.
pub fn replay(trace: &[Read], scene: &Scene, mut each: impl FnMut(&Prefetcher)) -> Score {
    let mut played = Played::new(scene);
    let mut actions = Vec::new();
    played.machine.open(scene.index.clone(), scene.profile.as_ref(), &mut actions);
    played.obey(0, &mut actions);
    for (number, read) in trace.iter().enumerate() {
        played.now_us = played.now_us.saturating_add(read.after_us);
        played.settle(played.now_us);
        let parts = played.machine.read(read.span, &mut actions);
        played.obey(number as u64 + 1, &mut actions);
        let waits = parts.iter().filter_map(|part| match part.source {
            Source::Coming(fetch) => played.arrivals.get(&fetch).copied(),
            Source::Held | Source::Missing => None,
        });
        let ready_us = waits.max().unwrap_or(played.now_us).max(played.now_us);
        if ready_us > played.now_us {
            played.score.stalls += 1;
            played.score.stalled_us += ready_us - played.now_us;
            played.now_us = ready_us;
        }
        played.settle(played.now_us);
        each(&played.machine);
    }
    played.finish()
}

/// What was decided, line by line, and what it cost.
impl fmt::Display for Score {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, decision) in &self.decisions {
            writeln!(out, "{number:>8}  {decision}")?;
        }
        for (why, len) in &self.asked_by {
            writeln!(out, "{len:>12} bytes  {why}")?;
        }
        let Counts { reads, read_len, hits, .. } = self.counts;
        writeln!(out, "{reads} reads of {read_len} bytes, {hits} from memory")?;
        writeln!(out, "{} round trips, {} requests, waited {} times", self.round_trips, self.requests, self.stalls)?;
        let (asked, wasted, memory) = (self.asked_len, self.wasted_len, self.memory_len_max);
        write!(out, "{asked} bytes asked for, {wasted} of them in vain; {memory} in memory at most")
    }
}

struct Played<'a> {
    scene: &'a Scene,
    machine: Prefetcher,
    score: Score,
    now_us: u64,
    /// When the link has brought all that was asked for.
    free_us: u64,
    /// What is on its way, and when it is there.
    arrivals: BTreeMap<FetchId, u64>,
    last_flight_us: Option<u64>,
}

impl<'a> Played<'a> {
    fn new(scene: &'a Scene) -> Self {
        let machine = Prefetcher::new(scene.settings, scene.link, scene.file_len);
        let (score, arrivals) = (Score::default(), BTreeMap::new());
        Self { scene, machine, score, now_us: 0, free_us: 0, arrivals, last_flight_us: None }
    }

    fn obey(&mut self, number: u64, actions: &mut Vec<Action>) {
        for action in actions.drain(..) {
            match action {
                Action::Fetch(fetch) => self.send(&fetch),
                Action::Drop(_) => {}
                Action::Decided(decision) if self.score.decisions.len() < DECISION_COUNT_MAX => {
                    self.score.decisions.push((number, decision));
                }
                Action::Decided(_) => {}
            }
        }
        self.score.memory_len_max = self.score.memory_len_max.max(self.machine.memory_len());
    }

    fn send(&mut self, fetch: &Fetch) {
        let link = self.scene.link;
        let transfer_us = u128::from(fetch.len) * 1_000_000 / u128::from(link.bytes_per_s.max(1));
        let begins_us = self.now_us.saturating_add(link.round_trip_us).max(self.free_us);
        self.free_us = begins_us.saturating_add(transfer_us.try_into().unwrap_or(u64::MAX));
        self.arrivals.insert(fetch.id, self.free_us);
        let requests = (fetch.ranges.len() as u64).div_ceil(u64::from(link.ranges_per_request.max(1)));
        self.score.requests += requests;
        if self.last_flight_us.replace(self.now_us) != Some(self.now_us) {
            self.score.round_trips += 1;
        }
        *self.score.asked_by.entry(fetch.why).or_default() += fetch.len;
    }

    /// What has arrived by now.
    fn settle(&mut self, now_us: u64) {
        let there: Vec<FetchId> =
            self.arrivals.iter().filter(|(_, at)| **at <= now_us).map(|(fetch, _)| *fetch).collect();
        for fetch in there {
            self.arrivals.remove(&fetch);
            self.machine.arrived(fetch);
        }
    }

    fn finish(mut self) -> Score {
        self.score.elapsed_us = self.now_us;
        self.score.round_trips_waited = self.score.stalled_us.div_ceil(self.scene.link.round_trip_us.max(1));
        let Accounts { asked_len, used_len, .. } = self.machine.accounts();
        let wasted_len = self.machine.accounts().waste_len();
        let (counts, observed) = (self.machine.counts(), self.machine.observed());
        Score { asked_len, used_len, wasted_len, counts, observed, ..self.score }
    }
}
