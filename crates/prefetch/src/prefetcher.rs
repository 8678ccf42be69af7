//! The machine: reads in, fetches and drops out. See the drawing in `lib.rs`.
//!
//! What the shell promises: it copies what is held to the reader before it obeys the actions of a call, and what
//! arrives to all who wait for it before it reports the arrival. So a drop harms no reader, and nothing is pinned. Two
//! fetches of one call travel in one flight.
//!
//! What may be fetched, and how it is asked for, is `fetcher`'s.

use crate::action::{Action, Fetch};
use crate::columns::{Columns, Moment};
use crate::counts::Counts;
use crate::decision::{Decision, Why};
use crate::fetcher::Fetcher;
use crate::holdings::{Accounts, Part, Source};
use crate::id::FetchId;
use crate::index::{Index, Touched};
use crate::opening::Opening;
use crate::profile::Profile;
use crate::settings::{Link, Settings};
use crate::span::{Span, merge, sum_len};
use crate::stream::Tag;
use crate::streams::{COLUMN_CHANGES_MIN, Streams};
use crate::window::Window;
use std::collections::BTreeMap;
use std::sync::Arc;
/// A window of less than this part of what a lane may have, or of the stake, waits until there is more room, unless a
/// read waits anyway.
const WINDOW_PART_LEAST: u64 = 8;
/// Windows of columns leave this part of the stake to the rest of the pieces at hand, of columns that came just now.
const NEAR_PART: u64 = 8;
/// While columns are learned, their windows may bring the waste to this part of the stake, and take this part of the
/// cache: the rest is for the window of all of them.
const LEARNING_PART: u64 = 2;

#[derive(Debug)]
pub struct Prefetcher {
    file_len: u64,
    columns: Option<Columns>,
    streams: Streams,
    opening: Opening,
    fetcher: Fetcher,
}

impl Prefetcher {
    pub fn new(settings: Settings, link: Link, file_len: u64) -> Self {
        Self {
            file_len,
            columns: None,
            streams: Streams::default(),
            opening: Opening::new(file_len),
            fetcher: Fetcher::new(settings, link),
        }
    }

    /// The memory that is in use at most. A faster link may enlarge it (see [`Settings::cache_len_least`]).
    pub fn cache_len(&self) -> u64 {
        self.fetcher.cache_len
    }

    /// Memory in use: in flight and held.
    pub fn memory_len(&self) -> u64 {
        self.fetcher.holdings.len()
    }

    pub fn accounts(&self) -> Accounts {
        self.fetcher.holdings.accounts()
    }

    pub fn counts(&self) -> Counts {
        self.fetcher.counts
    }

    /// The link as it was measured anew.
    pub fn link(&mut self, link: Link) {
        self.fetcher.link(link);
    }

    /// The file is opened. What a profile of it knows goes out at once, with the opening itself.
    pub fn open(&mut self, index: Option<Arc<Index>>, profile: Option<&Profile>, actions: &mut Vec<Action>) {
        let stake_len = self.fetcher.stake_len();
        let (set_len, cache_len) = (self.fetcher.settings.cache_len, self.fetcher.cache_len);
        actions.push(Action::Decided(Decision::Opened { set_len, cache_len, stake_len }));
        if let Some(index) = index {
            self.set_index(index);
        }
        let Some(profile) = profile.filter(|_| self.fetcher.cache_len > 0) else { return };
        self.open_headers(profile, actions);
        self.open_columns(profile, actions);
    }

    /// What the name of a file says of its opening: in the place of a profile, where there is none.
    pub fn open_by_name(&mut self, spans: &[Span], actions: &mut Vec<Action>) {
        if self.fetcher.cache_len > 0 {
            self.open_spans(Why::Name, spans.iter().map(|span| span.before(self.file_len)).collect(), actions);
        }
    }

    /// What earlier runs read before any column.
    fn open_headers(&mut self, profile: &Profile, actions: &mut Vec<Action>) {
        self.open_spans(Why::Profile, Opening::spans(profile, self.file_len).collect(), actions);
    }

    fn open_spans(&mut self, why: Why, spans: Vec<Span>, actions: &mut Vec<Action>) {
        let mut room = self.fetcher.room();
        let mut window = Window::default();
        for span in spans {
            let before = window.missing.len();
            self.fetcher.holdings.missing(span, &mut window.missing);
            let len = sum_len(&window.missing[before..]);
            if len > room {
                window.missing.truncate(before);
                continue;
            }
            room -= len;
        }
        self.fetcher.fetch_ahead(why, window, actions);
    }

    /// The first window of the columns that earlier runs read, or of their patterns of offsets.
    fn open_columns(&mut self, profile: &Profile, actions: &mut Vec<Action>) {
        let mut decided = Vec::new();
        let mut room = self.fetcher.room();
        let mut window = Window::default();
        if let Some(columns) = &mut self.columns {
            let known = profile.known();
            let lanes: Vec<usize> = known.iter().filter_map(|table| columns.know(table, &mut decided)).collect();
            for (at, lane) in lanes.iter().enumerate() {
                let part = room / (lanes.len() - at) as u64;
                let ranges_max = self.fetcher.settings.ranges_max.saturating_sub(window.missing.len());
                let (settings, holdings) = (&self.fetcher.settings, &mut self.fetcher.holdings);
                let mut moment = Moment { number: 0, was_unread: false, settings, holdings, decided: &mut decided };
                let listed = columns.list(*lane, part, ranges_max, &mut moment);
                room = room.saturating_sub(sum_len(&listed.missing));
                let is_by_name = !listed.runs.is_empty() && (at == 0 || !window.runs.is_empty());
                window.missing.extend(listed.missing);
                window.runs.extend(listed.runs);
                if !is_by_name {
                    window.runs.clear();
                }
            }
        } else {
            for pattern in profile.patterns() {
                self.streams.know(pattern);
            }
            let delay_len = self.fetcher.link.bandwidth_delay_len();
            for at in 0..self.streams.known_count() {
                let (_, spans) =
                    self.streams.list(at, room, delay_len, self.fetcher.cache_len, self.file_len, &mut decided);
                let before = window.missing.len();
                spans.into_iter().for_each(|span| self.fetcher.holdings.missing(span, &mut window.missing));
                room = room.saturating_sub(sum_len(&window.missing[before..]));
            }
        }
        actions.extend(decided.into_iter().map(Action::Decided));
        self.fetcher.fetch_ahead(Why::Profile, window, actions);
    }

    /// So many bytes of columns are wanted by their names, from a store that knows where they lie. Answers how many may
    /// be asked for: they count as a fetch ahead from now on, until [`Self::came`] says which they are, or that none
    /// comes.
    pub fn expect(&mut self, len: u64) -> u64 {
        self.fetcher.expect(len)
    }

    /// What was expected is on its way, each of `parts` by itself. Answers a fetch for each, with what of it is wanted:
    /// the rest is there already, or overlaps. None: there is no room for it any more.
    pub fn came(&mut self, parts: &[Vec<Span>], actions: &mut Vec<Action>) -> Vec<Option<Fetch>> {
        self.fetcher.expect_no_more();
        let part = |part: &Vec<Span>| {
            let mut spans: Vec<Span> = part.iter().map(|span| span.before(self.file_len)).collect();
            merge(&mut spans, 0, 0);
            let mut ranges = Vec::new();
            spans.into_iter().for_each(|span| self.fetcher.holdings.missing(span, &mut ranges));
            self.fetcher.ask_ahead(Why::Profile, ranges, actions)
        };
        parts.iter().map(part).collect()
    }

    /// The layout became known while the file was open, and the profile with it.
    pub fn layout(&mut self, index: Arc<Index>, profile: Option<&Profile>, actions: &mut Vec<Action>) {
        self.set_index(index);
        if let Some(profile) = profile.filter(|_| self.fetcher.cache_len > 0 && self.columns.is_some()) {
            self.open_columns(profile, actions);
        }
    }

    fn set_index(&mut self, index: Arc<Index>) {
        // Offsets of another file would be those of other bytes.
        if index.file_len() == self.file_len {
            self.columns = Some(Columns::new(index));
        }
    }

    /// The program reads `span`. Answers of what parts it consists, none of them [`Source::Missing`]: the shell copies
    /// what is held, obeys the actions, and waits for the fetches that bring the rest.
    pub fn read(&mut self, span: Span, actions: &mut Vec<Action>) -> Vec<Part> {
        self.read_all(&[span], actions).pop().unwrap_or_default()
    }

    /// The program reads all of these at once, which may overlap: what is missing of them comes by one fetch, or as
    /// many as its ranges need.
    pub fn read_all(&mut self, spans: &[Span], actions: &mut Vec<Action>) -> Vec<Vec<Part>> {
        let (mut read, mut missing, mut plans) = (Vec::with_capacity(spans.len()), Vec::new(), Vec::new());
        // From the beginning to the end of each that is missing: what is asked for twice is on its way the second time.
        let mut asked: BTreeMap<u64, u64> = BTreeMap::new();
        for span in spans {
            let span = span.before(self.file_len);
            self.fetcher.counts.reads += 1;
            self.fetcher.counts.read_len = self.fetcher.counts.read_len.saturating_add(span.len);
            let number = self.fetcher.counts.reads;
            self.fetcher.holdings.at(number);
            let parts = self.fetcher.holdings.parts(span);
            let is_asked =
                |span: &Span| asked.range(..=span.offset).next_back().is_some_and(|(_, end)| *end >= span.end());
            let absent: Vec<Span> = missing_of(&parts).filter(|span| !is_asked(span)).collect();
            asked.extend(absent.iter().map(|span| (span.offset, span.end())));
            let missed = !absent.is_empty();
            self.fetcher.counts.hits += u64::from(parts.iter().all(|part| part.source == Source::Held));
            self.fetcher.counts.waits += u64::from(!missed);
            read.push(parts);
            if span.is_empty() {
                continue;
            }
            let was_unread = self.fetcher.holdings.read(span);
            let met = Met { missed, was_unread, number };
            let plan = if self.fetcher.cache_len > 0 { self.note(span, met, actions) } else { Plan::default() };
            if let Some(stream) = plan.stream.filter(|_| absent == [span]) {
                self.streams.predict_again(stream);
            }
            missing.extend(absent);
            Plan { missed, ..plan }.put_to(&mut plans);
        }
        self.bring_missing(missing, &mut read, actions);
        for plan in plans {
            self.go_on(plan, actions);
        }
        read
    }

    /// What the shell needs itself, to find the layout: nothing is learned from that, and what it brings counts as
    /// used.
    pub fn bring(&mut self, spans: &[Span], actions: &mut Vec<Action>) -> Vec<Vec<Part>> {
        let spans: Vec<Span> = spans.iter().map(|span| span.before(self.file_len)).collect();
        let mut read: Vec<Vec<Part>> = spans.iter().map(|span| self.fetcher.holdings.parts(*span)).collect();
        for span in spans.iter().filter(|span| !span.is_empty()) {
            self.fetcher.holdings.read(*span);
        }
        let missing = read.iter().flat_map(|parts| missing_of(parts)).collect();
        self.bring_missing(missing, &mut read, actions);
        read
    }

    /// Fetches what reads miss, and says of their parts which fetch brings them.
    fn bring_missing(&mut self, mut missing: Vec<Span>, read: &mut [Vec<Part>], actions: &mut Vec<Action>) {
        merge(&mut missing, 0, 0);
        let mut coming: Vec<(Span, FetchId)> = Vec::with_capacity(missing.len());
        for ranges in missing.chunks(self.fetcher.settings.ranges_max.max(1)) {
            let id = self.fetcher.fetch_now(ranges, actions);
            coming.extend(ranges.iter().map(|span| (*span, id)));
        }
        for part in read.iter_mut().flatten().filter(|part| part.source == Source::Missing) {
            let behind = coming.partition_point(|(span, _)| span.offset <= part.span.offset);
            let brings = behind.checked_sub(1).and_then(|at| coming.get(at));
            let (_, id) = brings.expect("all that is missing was asked for");
            part.source = Source::Coming(*id);
        }
    }

    /// How many of its bytes are neither held nor on their way.
    pub fn missing_len(&self, span: Span) -> u64 {
        let parts = self.fetcher.holdings.parts(span.before(self.file_len));
        missing_of(&parts).map(|span| span.len).sum()
    }

    /// What `fetch` brings is all there.
    pub fn arrived(&mut self, fetch: FetchId) {
        self.fetcher.arrived(fetch);
    }

    /// It will not come. Who waits for it is told by the shell, and may read again.
    pub fn failed(&mut self, fetch: FetchId, actions: &mut Vec<Action>) {
        self.fetcher.failed(fetch, actions);
    }

    /// What this run has learned so far. [`Profile::after`] puts it to what earlier ones did.
    pub fn observed(&self) -> Profile {
        let waste_percent = self.fetcher.settings.waste_percent;
        let tables = self.columns.as_ref().map(|columns| columns.observed(waste_percent)).unwrap_or_default();
        Profile::of_run(&tables, self.opening.reads(), &self.streams.patterns())
    }

    /// Every relation between the parts. For tests and simulations: it looks at all that is held.
    pub fn check(&self) {
        self.fetcher.check();
    }

    /// Learns from a read, and answers who may want a window now.
    fn note(&mut self, span: Span, Met { missed, was_unread, number }: Met, actions: &mut Vec<Action>) -> Plan {
        let (mut decided, mut ended) = (Vec::new(), Vec::new());
        let mut touched = self.columns.as_ref().and_then(|columns| columns.index().touched(span)).unwrap_or_default();
        let passes = self.columns.as_ref().is_some_and(|columns| columns.passes(&touched, span));
        if passes {
            touched.truncate(1);
        }
        let columns = touched.iter().map(|touched| touched.column);
        let further = columns.clone().zip(columns.skip(1)).filter(|(one, next)| one != next).count() as u32;
        let piece = |touched: Option<&Touched>| {
            let touched = touched?;
            Some(self.columns.as_ref()?.index().span(touched.column, touched.piece))
        };
        let (first, last) = (piece(touched.first()), piece(touched.last()));
        let is_cut =
            first.is_some_and(|piece| piece.offset < span.offset) || last.is_some_and(|piece| piece.end() > span.end());
        let tag = Tag { column: touched.first().map(|touched| touched.column.0), further, is_cut };
        let stream = self.streams.note(span, tag, number, &mut ended, &mut decided);
        ended.into_iter().for_each(|span| self.fetcher.holdings.doubt(span));
        let is_copy = stream.is_some_and(|stream| self.streams.is_copy(stream));
        let mut lane = None;
        if let Some(columns) = self.columns.as_mut().filter(|_| !is_copy) {
            columns.retire(number, &mut self.fetcher.holdings);
            for touched in touched {
                // Of a piece that does not fit a window, parts are read in order or not at all.
                if columns.index().span(touched.column, touched.piece).len > self.fetcher.cache_len / 2 {
                    continue;
                }
                let (settings, holdings) = (&self.fetcher.settings, &mut self.fetcher.holdings);
                let mut moment = Moment { number, was_unread, settings, holdings, decided: &mut decided };
                lane = columns.note(touched, span, passes, missed, &mut moment).or(lane);
            }
        }
        if tag.column.is_none() {
            self.opening.note(span, number);
        }
        let mut dropped = Vec::new();
        self.fetcher.holdings.thin(&mut dropped);
        actions.extend(dropped.into_iter().map(Action::Drop));
        actions.extend(decided.into_iter().map(Action::Decided));
        let is_learning = self.columns.as_ref().zip(lane).is_some_and(|(columns, lane)| columns.is_learning(lane));
        // Who reads a piece in parts will read it to its end; behind it lies another column, which may be one of those
        // that are still to be learned.
        let goes_on = stream.is_some_and(|stream| is_learning && self.streams.goes_through_columns(stream));
        let stream_end = last.filter(|_| !is_copy && !goes_on).map_or(self.file_len, Span::end);
        let stream = stream.filter(|_| stream_end > span.end());
        // One across many columns is a copy or a row rather than a column, and says nothing of what follows before more
        // is known.
        let lane = lane.filter(|_| !is_learning || further < COLUMN_CHANGES_MIN);
        Plan { lane, stream, stream_end, missed }
    }

    /// The next windows of who read.
    fn go_on(&mut self, plan: Plan, actions: &mut Vec<Action>) {
        let missed = plan.missed;
        let lane = plan.lane.filter(|lane| {
            self.columns.as_ref().is_some_and(|columns| columns.is_due(*lane, missed, &self.fetcher.settings))
        });
        let stream = plan.stream.filter(|stream| self.streams.is_due(*stream, missed));
        if lane.is_none() && stream.is_none() || !self.fetcher.may_go_on(actions) {
            return;
        }
        // The rest of a piece that is read in parts, and then the pieces that follow.
        if let Some(stream) = stream {
            self.go_on_stream(stream, plan.stream_end, actions);
        }
        if let Some(lane) = lane {
            self.go_on_lane(lane, missed, actions);
        }
    }

    fn go_on_stream(&mut self, stream: usize, end: u64, actions: &mut Vec<Action>) {
        let (room, ranges_max, delay_len) =
            (self.fetcher.room(), self.fetcher.ranges_max(), self.fetcher.link.bandwidth_delay_len());
        let mut decided = Vec::new();
        let (why, spans) = self.streams.list(stream, room, delay_len, self.fetcher.cache_len, end, &mut decided);
        let mut window = Window::default();
        for span in spans.into_iter().take(ranges_max) {
            self.fetcher.holdings.missing(span, &mut window.missing);
        }
        actions.extend(decided.into_iter().map(Action::Decided));
        self.fetcher.fetch_ahead(why, window, actions);
    }

    fn go_on_lane(&mut self, lane: usize, missed: bool, actions: &mut Vec<Action>) {
        let (stake_len, ranges_max) = (self.fetcher.stake_len(), self.fetcher.ranges_max());
        let mut room = self.fetcher.budget().saturating_sub(stake_len / NEAR_PART).min(self.fetcher.memory_left());
        let Some(columns) = &mut self.columns else { return };
        let is_learning = columns.is_learning(lane);
        if is_learning {
            let waste_len = self.fetcher.holdings.accounts().waste_len();
            room = room.min((stake_len / LEARNING_PART).saturating_sub(waste_len));
        }
        let mut allowance = self.fetcher.cache_len / columns.lane_count().max(1);
        if is_learning {
            allowance /= LEARNING_PART;
        }
        let amount = room.min(allowance.saturating_sub(columns.backlog(lane)));
        let least = allowance.min(stake_len) / WINDOW_PART_LEAST;
        if !missed && amount < least {
            return;
        }
        let mut decided = Vec::new();
        let (number, settings, holdings) =
            (self.fetcher.counts.reads, &self.fetcher.settings, &mut self.fetcher.holdings);
        let mut moment = Moment { number, was_unread: false, settings, holdings, decided: &mut decided };
        let window = columns.list(lane, amount, ranges_max, &mut moment);
        actions.extend(decided.into_iter().map(Action::Decided));
        self.fetcher.fetch_ahead(Why::Columns, window, actions);
    }
}

/// How the cache met a read.
#[derive(Clone, Copy, Debug)]
struct Met {
    /// Something of it was neither held nor on its way.
    missed: bool,
    /// Some of it was fetched ahead, and nobody had read it.
    was_unread: bool,
    /// The read's number.
    number: u64,
}

/// Who read, and may want to go on.
#[derive(Clone, Copy, Debug, Default)]
struct Plan {
    lane: Option<usize>,
    stream: Option<usize>,
    /// Where the stream ends, as far as it is known.
    stream_end: u64,
    /// Something of the read was neither held nor on its way.
    missed: bool,
}

impl Plan {
    /// Of several reads at once each reader goes on once, from the last of its reads.
    fn put_to(self, plans: &mut Vec<Self>) {
        let same = plans.iter_mut().find(|plan| (plan.lane, plan.stream) == (self.lane, self.stream));
        match same {
            Some(plan) => *plan = Self { missed: plan.missed || self.missed, ..self },
            None => plans.push(self),
        }
    }
}

fn missing_of(parts: &[Part]) -> impl Iterator<Item = Span> {
    parts.iter().filter(|part| part.source == Source::Missing).map(|part| part.span)
}
