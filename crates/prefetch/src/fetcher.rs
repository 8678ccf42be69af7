//! What is fetched: how much may be on its way and in memory, and in vain.
//!
//! Promise: what is in flight and held is never longer than the cache. `lost + risk` of [`Accounts`] never exceed
//! `waste_floor_len` and `waste_percent` of what is used, since both rise by fetches ahead alone, which are cut to what
//! is left. What a read misses is always fetched.

use crate::action::{Action, Fetch};
use crate::counts::Counts;
use crate::decision::{Decision, Why};
use crate::holdings::{Accounts, Class, Holdings};
use crate::id::FetchId;
use crate::settings::{Link, Settings};
use crate::span::{Span, merge, sum_len};
use crate::window::Window;

/// Fetches ahead on their way at a time. A guess: two halves of the cache for each reader and stream, and some.
const FETCHES_AHEAD_MAX: usize = 32;
/// So many failures in a row, and nothing is fetched ahead until a fetch succeeds.
const FAILURES_MAX: u32 = 3;
/// A read longer than this part of the cache goes past it.
const KEPT_PART: u64 = 4;
/// Read-ahead leaves this part of the cache to what was read last: readers of lines and of records take its end again.
const READ_PART: u64 = 16;
/// With less than this part of the stake left, windows would be too short to save a round trip.
const BUDGET_PART_SPENT: u64 = 32;
/// A plan that has spent its budget goes on when this part of the stake is there again.
const BUDGET_PART_BACK: u64 = 8;

#[derive(Debug)]
pub(crate) struct Fetcher {
    pub(crate) settings: Settings,
    pub(crate) link: Link,
    pub(crate) cache_len: u64,
    pub(crate) holdings: Holdings,
    pub(crate) counts: Counts,
    next_fetch: u64,
    failures: u32,
    is_spent: bool,
    /// Bytes that were asked for by names, of which it is not known yet where they lie.
    expected_len: u64,
}

impl Fetcher {
    pub(crate) fn new(settings: Settings, link: Link) -> Self {
        Self {
            settings,
            link,
            cache_len: link.cache_len(&settings),
            holdings: Holdings::default(),
            counts: Counts::default(),
            next_fetch: 0,
            failures: 0,
            is_spent: false,
            expected_len: 0,
        }
    }

    /// The link as it was measured anew.
    pub(crate) fn link(&mut self, link: Link) {
        self.link = link;
        self.cache_len = self.cache_len.max(link.cache_len(&self.settings));
    }

    /// So many bytes are wanted by names. Answers how many may be asked for: they count as a fetch ahead from now on,
    /// until [`Self::expect_no_more`].
    pub(crate) fn expect(&mut self, len: u64) -> u64 {
        self.expected_len = 0;
        let is_on = self.cache_len > 0 && self.failures < FAILURES_MAX;
        self.expected_len = if is_on { len.min(self.room()) } else { 0 };
        self.expected_len
    }

    pub(crate) fn expect_no_more(&mut self) {
        self.expected_len = 0;
    }

    /// What `fetch` brings is all there.
    pub(crate) fn arrived(&mut self, fetch: FetchId) {
        if self.holdings.settle(fetch, true) {
            self.failures = 0;
        }
    }

    /// It will not come.
    pub(crate) fn failed(&mut self, fetch: FetchId, actions: &mut Vec<Action>) {
        if !self.holdings.settle(fetch, false) {
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures == FAILURES_MAX {
            actions.push(Action::Decided(Decision::Paused { failures: self.failures }));
        }
    }

    /// Whether anything may be fetched ahead now.
    pub(crate) fn may_go_on(&mut self, actions: &mut Vec<Action>) -> bool {
        self.failures < FAILURES_MAX && self.has_budget(actions) && self.holdings.fetch_count() < FETCHES_AHEAD_MAX
    }

    /// Every relation between the parts.
    pub(crate) fn check(&self) {
        self.holdings.check(self.cache_len);
        let accounts = self.holdings.accounts();
        let allowed = self.settings.waste_floor_len.saturating_add(self.settings.share_of(accounts.used_len));
        assert!(accounts.waste_len() + self.expected_len <= allowed, "{accounts:?}, {allowed} allowed");
    }

    /// What may still be fetched ahead: by what may be in vain, and by memory.
    pub(crate) fn room(&self) -> u64 {
        self.budget().min(self.memory_left())
    }

    pub(crate) fn stake_len(&self) -> u64 {
        self.link.stake_len(&self.settings)
    }

    pub(crate) fn budget(&self) -> u64 {
        let accounts = self.holdings.accounts();
        let allowed = self.stake_len().saturating_add(self.settings.share_of(accounts.used_len));
        allowed.saturating_sub(accounts.waste_len()).saturating_sub(self.expected_len)
    }

    pub(crate) fn memory_left(&self) -> u64 {
        let memory = self.cache_len - self.cache_len / READ_PART;
        memory.saturating_sub(self.holdings.kept_len()).saturating_sub(self.expected_len)
    }

    pub(crate) fn ranges_max(&self) -> usize {
        self.settings.ranges_max.min(self.holdings.segments_left() / 4)
    }

    /// Whether anything may be fetched ahead, and what became of that.
    fn has_budget(&mut self, actions: &mut Vec<Action>) -> bool {
        let Accounts { used_len, .. } = self.holdings.accounts();
        let waste_len = self.holdings.accounts().waste_len();
        let (stake_len, left) = (self.stake_len(), self.budget());
        if left < stake_len / BUDGET_PART_SPENT && !self.is_spent {
            self.is_spent = true;
            actions.push(Action::Decided(Decision::BudgetSpent { waste_len, used_len }));
        } else if self.is_spent && left > stake_len / BUDGET_PART_BACK {
            self.is_spent = false;
            actions.push(Action::Decided(Decision::BudgetBack { waste_len, used_len }));
        }
        !self.is_spent
    }

    /// Fetches what a read misses: into the cache if there is room, else past it.
    pub(crate) fn fetch_now(&mut self, missing: &[Span], actions: &mut Vec<Action>) -> FetchId {
        let id = self.next_id();
        let len = sum_len(missing);
        let mut dropped = Vec::new();
        let is_kept = len <= self.cache_len / KEPT_PART
            && missing.len() < self.holdings.segments_left()
            && self.holdings.make_room(len, self.cache_len, Class::Doubtful, &mut dropped);
        actions.extend(dropped.into_iter().map(Action::Drop));
        if is_kept {
            self.holdings.ask(id, missing, Class::Spent);
        } else {
            self.holdings.ask_through(id, len);
        }
        self.send(Fetch { id, ranges: missing.to_vec(), len, why: Why::Demand, is_kept, runs: Vec::new() }, actions);
        id
    }

    pub(crate) fn ask_ahead(&mut self, why: Why, ranges: Vec<Span>, actions: &mut Vec<Action>) -> Option<Fetch> {
        let len = sum_len(&ranges);
        let mut dropped = Vec::new();
        let fits = len > 0
            && len <= self.room()
            && ranges.len() <= self.holdings.segments_left()
            && self.holdings.make_room(len, self.cache_len, Class::Doubtful, &mut dropped);
        actions.extend(dropped.into_iter().map(Action::Drop));
        if !fits {
            return None;
        }
        let id = self.next_id();
        self.holdings.ask(id, &ranges, Class::Wanted);
        self.counts.fetches += 1;
        self.counts.ranges += ranges.len() as u64;
        Some(Fetch { id, ranges, len, why, is_kept: true, runs: Vec::new() })
    }

    /// Asks for a window. Its parts are missing, and no longer than [`Self::room`] together.
    pub(crate) fn fetch_ahead(&mut self, why: Why, mut window: Window, actions: &mut Vec<Action>) {
        let room = self.room();
        merge(&mut window.missing, 0, 0);
        if window.missing.len() > self.settings.ranges_max {
            // What is left out here is asked for when it is read.
            window.missing.truncate(self.settings.ranges_max);
            window.runs.clear();
        }
        let len = sum_len(&window.missing);
        let mut dropped = Vec::new();
        let fits = len > 0
            && len <= room
            && window.missing.len() <= self.holdings.segments_left()
            && self.holdings.make_room(len, self.cache_len, Class::Doubtful, &mut dropped);
        actions.extend(dropped.drain(..).map(Action::Drop));
        if !fits {
            return;
        }
        let id = self.next_id();
        self.holdings.ask(id, &window.missing, Class::Wanted);
        // Short gaps are cheaper to fetch than to name; they are waste, and take half of its share at most.
        let gaps_len_max = (self.settings.share_of(len) / 2).min(room - len);
        let mut covered = window.missing.clone();
        let gap_max = if self.link.takes_runs && !window.runs.is_empty() { 0 } else { self.link.gap_len() };
        merge(&mut covered, gap_max, gaps_len_max);
        let mut gaps = Vec::new();
        for span in covered {
            self.holdings.missing(span, &mut gaps);
        }
        // One that touches what is held saves no range.
        let listed = &window.missing;
        gaps.retain(|gap| {
            let next = listed.partition_point(|span| span.offset < gap.offset);
            let before = next.checked_sub(1).and_then(|before| listed.get(before));
            before.is_some_and(|before| before.end() == gap.offset)
                && listed.get(next).is_some_and(|next| next.offset == gap.end())
        });
        let gaps_len = sum_len(&gaps);
        let has_gaps = gaps.len() <= self.holdings.segments_left() / 2
            && self.holdings.make_room(gaps_len, self.cache_len, Class::Spent, &mut dropped);
        actions.extend(dropped.into_iter().map(Action::Drop));
        let mut ranges = window.missing;
        if has_gaps {
            self.holdings.ask(id, &gaps, Class::Doubtful);
            ranges.extend(gaps);
            merge(&mut ranges, 0, 0);
        }
        let len = sum_len(&ranges);
        self.send(Fetch { id, ranges, len, why, is_kept: true, runs: window.runs }, actions);
    }

    fn next_id(&mut self) -> FetchId {
        self.next_fetch += 1;
        FetchId(self.next_fetch)
    }

    fn send(&mut self, fetch: Fetch, actions: &mut Vec<Action>) {
        self.counts.fetches += 1;
        self.counts.ranges += fetch.ranges.len() as u64;
        actions.push(Action::Fetch(fetch));
    }
}
