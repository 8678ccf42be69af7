//! What the machine's decisions become: bytes kept, tasks begun, readers served.
//!
//! Promise, as the machine wants it: what is held is copied before what it decided is done, and what arrives is in the
//! hands of all who wait for it before the machine hears of it. The lock is held over no await.

use super::by_name;
use super::flight::{Flight, Pilot, grouped};
use super::landing::Flying;
use super::learned::Learned;
use super::origin::Origin;
use super::state::{Shared, State, told};
use super::statistics::AheadStatistics;
use super::tasks::Tasks;
use crate::client::Client;
use crate::error::Result;
use crate::read::{ComingPart, LayoutWindow, RangeRead};
use futures_util::future::join;
use prefetch::{Action, Fetch, FetchId, Index, Link, Part, Profile, Settings, Source, Span};
use std::sync::{Arc, MutexGuard};

/// Of one file, for all who read it ahead.
#[derive(Debug)]
pub(super) struct Shell<O> {
    pub(super) origin: Arc<O>,
    pub(super) client: Client,
    link: Link,
    state: Arc<Shared>,
    /// Never locked together with the state: a task that is dropped locks that.
    tasks: Tasks,
    /// Its parser is at work on bytes that are here.
    pub(super) is_parsing: tokio::sync::watch::Sender<bool>,
    /// The store was asked where columns lie, and what of them comes is not known yet.
    pub(super) is_asking: tokio::sync::watch::Sender<bool>,
}

/// Columns that are asked of the store by their numbers.
pub(super) struct WantedColumns<O: Origin> {
    /// Table and column.
    pub(super) columns: Vec<(u32, u32)>,
    pub(super) len: u64,
    /// What comes before them.
    pub(super) opening: Option<Flying<O>>,
}

/// A part of a read that is not there yet.
struct Awaited<'a> {
    offset: u64,
    dest: &'a mut [u8],
    from: From,
}

enum From {
    Flight(Flight),
    /// Past the cache: its reader fetches it itself.
    Through(FetchId),
    /// The machine expects it of a fetch that is gone.
    Nowhere,
}

/// Fetches past the cache. Dropped before they are done, they have failed.
struct Through<'s, O: Origin> {
    shell: &'s Shell<O>,
    fetches: Vec<FetchId>,
}

impl<O: Origin> Drop for Through<'_, O> {
    fn drop(&mut self) {
        self.fetches.drain(..).for_each(|fetch| self.shell.lock().failed(fetch));
    }
}

impl<O: Origin> Shell<O> {
    pub(super) fn new(origin: O, client: Client, settings: Settings, link: Link, learned: Learned) -> Arc<Self> {
        let state = Arc::new(Shared::new(State::new(origin.len(), settings, link, learned)));
        Arc::new(Self {
            origin: Arc::new(origin),
            client,
            link,
            state,
            tasks: Tasks::default(),
            is_parsing: tokio::sync::watch::Sender::new(false),
            is_asking: tokio::sync::watch::Sender::new(false),
        })
    }

    /// Nothing is left half done while it is held.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// What a profile knows of the opening is asked for. Answers the columns that are to be asked for by their names.
    pub(super) fn open(self: &Arc<Self>, profile: Option<&Profile>) -> Option<WantedColumns<O>> {
        let mut state = self.lock();
        state.has_profile = profile.is_some_and(|profile| !profile.is_empty());
        // What may be asked for unread follows from it.
        state.machine.link(self.measured());
        let mut actions = Vec::new();
        state.machine.open(None, profile, &mut actions);
        if !state.has_profile {
            state.machine.open_by_name(&by_name::opening_of(self.origin.path(), self.origin.len()), &mut actions);
        }
        let has_runtime = self.client.store().scope().has_runtime();
        let wanted = profile.and_then(Profile::first_window).filter(|_| has_runtime);
        let wanted = wanted.map(|wanted| {
            let len = state.machine.expect(wanted.len.min(LayoutWindow::LEN_MAX));
            WantedColumns { columns: wanted.columns, len, opening: None }
        });
        let wanted = wanted.filter(|wanted| wanted.len > 0);
        let fetches = self.decided(&mut state, actions);
        state.turn_around_count += u64::from(fetches.is_empty() && wanted.is_some());
        // All of it is one flight: apart, some would wait for what connections the others leave.
        let opening = (!fetches.is_empty()).then(|| self.flying(&mut state, fetches));
        drop(state);
        match wanted {
            Some(wanted) => Some(WantedColumns { opening, ..wanted }),
            None => {
                self.launch(opening.into_iter().collect());
                None
            }
        }
    }

    /// The layout was found, and what earlier runs read of such tables. `parts`: what of them is on its way.
    pub(super) fn learned_layout(
        self: &Arc<Self>,
        index: Arc<Index>,
        profile: Option<&Profile>,
        parts: Vec<ComingPart>,
    ) {
        let mut state = self.lock();
        state.has_layout = true;
        state.has_profile |= profile.is_some_and(|profile| !profile.is_empty());
        state.machine.link(self.measured());
        let mut actions = Vec::new();
        let spans = |part: &ComingPart| part.spans.iter().map(|(offset, len)| Span::new(*offset, *len)).collect();
        let spans: Vec<Vec<Span>> = parts.iter().map(spans).collect();
        let wanted = if parts.is_empty() { Vec::new() } else { state.machine.came(&spans, &mut actions) };
        let landing: Vec<_> = wanted
            .into_iter()
            .zip(parts)
            .filter_map(|(fetch, part)| Some((self.flying(&mut state, vec![fetch?]), part.bytes)))
            .collect();
        state.machine.layout(index, profile, &mut actions);
        let leaving = self.obey(&mut state, actions);
        drop(state);
        for (flying, bytes) in landing {
            self.keep_task("window", flying.land_with(async { bytes.await? }));
        }
        self.launch(leaving);
    }

    /// Nothing comes of what the store was asked for.
    pub(super) fn learned_nothing(&self) {
        self.lock().machine.expect(0);
    }

    /// Fills all of `reads`, which lie within the file.
    pub(super) async fn read(self: &Arc<Self>, reads: &mut [RangeRead<'_>]) -> Result<()> {
        // What is parsed now says what to fetch with this read; it takes milliseconds, a further round trip many.
        self.parsed().await;
        let spans: Vec<Span> = reads.iter().map(|read| Span::new(read.offset, read.dest.len() as u64)).collect();
        // It may be among what comes in a moment, and would travel twice.
        if spans.iter().any(|span| self.missing_len(*span) > 0) {
            self.asked().await;
        }
        let awaited = self.begin(reads, &spans);
        self.settle(awaited).await
    }

    async fn parsed(&self) {
        let mut is_parsing = self.is_parsing.subscribe();
        // An error says that the sender is gone, which lies beside this.
        let _done = is_parsing.wait_for(|is_parsing| !is_parsing).await;
    }

    /// Until it is known what the store sends of columns, or that it sends none: that has a limit of some round trips.
    pub(super) async fn asked(&self) {
        let mut is_asking = self.is_asking.subscribe();
        let _done = is_asking.wait_for(|is_asking| !is_asking).await;
    }

    /// The bytes of a span for the search of the layout. `beside` is fetched in the same flight.
    pub(super) async fn bring(self: &Arc<Self>, span: Span, beside: &[Span]) -> Result<Vec<u8>> {
        let mut bytes = vec![0; span.len as usize];
        let mut reads = [RangeRead { offset: span.offset, dest: &mut bytes }];
        let (awaited, leaving) = {
            let mut state = self.lock();
            let mut actions = Vec::new();
            let parts = state.machine.bring(&[span], &mut actions);
            if !beside.is_empty() {
                state.machine.bring(beside, &mut actions);
            }
            self.serve(&mut state, &mut reads, parts, actions)
        };
        self.launch(leaving);
        self.settle(awaited).await?;
        Ok(bytes)
    }

    /// How much of it was not asked for yet.
    pub(super) fn missing_len(&self, span: Span) -> u64 {
        self.lock().machine.missing_len(span)
    }

    fn begin<'a>(self: &Arc<Self>, reads: &'a mut [RangeRead<'_>], spans: &[Span]) -> Vec<Awaited<'a>> {
        let mut state = self.lock();
        state.machine.link(self.measured());
        let mut actions = Vec::new();
        let parts = state.machine.read_all(spans, &mut actions);
        if state.search.wake(spans) {
            // What comes now is parsed before the program's next read.
            self.is_parsing.send_replace(true);
        }
        // What lies beside it and will be asked for next, in the same flight. A profile knows that better.
        let beside = state.search.beside(spans);
        if !beside.is_empty() && !state.has_profile {
            state.machine.bring(&beside, &mut actions);
        }
        let (awaited, leaving) = self.serve(&mut state, reads, parts, actions);
        drop(state);
        self.launch(leaving);
        awaited
    }

    fn measured(&self) -> Link {
        let round_trip_us = self.client.store().round_trip().as_micros();
        Link { round_trip_us: u64::try_from(round_trip_us).unwrap_or(u64::MAX), ..self.link }
    }

    /// Copies what is held of each read, does what was decided, and says what is to be waited for.
    fn serve<'a>(
        self: &Arc<Self>,
        state: &mut State,
        reads: &'a mut [RangeRead<'_>],
        parts: Vec<Vec<Part>>,
        actions: Vec<Action>,
    ) -> (Vec<Awaited<'a>>, Vec<Flying<O>>) {
        let through = |action: &Action| match action {
            Action::Fetch(Fetch { id, is_kept: false, .. }) => Some(*id),
            Action::Fetch(_) | Action::Drop(_) | Action::Decided(_) => None,
        };
        let through: Vec<FetchId> = actions.iter().filter_map(through).collect();
        let mut coming = Vec::new();
        for (read, parts) in reads.iter_mut().zip(parts) {
            let mut dest = &mut *read.dest;
            for Part { span, source } in parts {
                let (own, rest) = std::mem::take(&mut dest).split_at_mut(span.len as usize);
                dest = rest;
                match source {
                    Source::Held => state.kept.copy(span.offset, own),
                    Source::Coming(fetch) => coming.push((span.offset, own, Some(fetch))),
                    Source::Missing => coming.push((span.offset, own, None)),
                }
            }
        }
        let leaving = self.obey(state, actions);
        let awaited = coming.into_iter().map(|(offset, dest, fetch)| {
            let flight = fetch.and_then(|fetch| state.flights.get(&fetch)).cloned();
            let from = match (flight, fetch) {
                (Some(flight), _) => From::Flight(flight),
                (None, Some(fetch)) if through.contains(&fetch) => From::Through(fetch),
                (None, _) => From::Nowhere,
            };
            Awaited { offset, dest, from }
        });
        (awaited.collect(), leaving)
    }

    /// Does what was decided. Answers what is to leave as soon as the lock is free.
    #[must_use]
    fn obey(self: &Arc<Self>, state: &mut State, actions: Vec<Action>) -> Vec<Flying<O>> {
        let fetches = self.decided(state, actions);
        grouped(fetches).into_iter().map(|fetches| self.flying(state, fetches)).collect()
    }

    /// As [`Self::obey`], up to what is to be fetched: of that nothing is begun yet.
    fn decided(&self, state: &mut State, actions: Vec<Action>) -> Vec<Fetch> {
        let mut fetches = Vec::new();
        let mut leaves = false;
        for action in actions {
            match action {
                Action::Fetch(fetch) => {
                    leaves = true;
                    fetches.extend(Some(fetch).filter(|fetch| fetch.is_kept));
                }
                Action::Drop(span) => state.kept.remove(span),
                decided @ Action::Decided(_) => told(decided),
            }
        }
        state.turn_around_count += u64::from(leaves);
        fetches
    }

    fn flying(self: &Arc<Self>, state: &mut State, fetches: Vec<Fetch>) -> Flying<O> {
        let mut pilots = Vec::with_capacity(fetches.len());
        for fetch in fetches {
            let (pilot, flight) = Pilot::new(fetch);
            state.flights.insert(pilot.id(), flight);
            pilots.push(pilot);
        }
        Flying { origin: Arc::clone(&self.origin), state: Arc::clone(&self.state), pilots }
    }

    /// Where nothing can be begun any more, they have failed.
    fn launch(&self, leaving: Vec<Flying<O>>) {
        if self.client.store().scope().has_runtime() {
            leaving.into_iter().for_each(|flying| self.keep_task("read ahead", flying.land()));
        }
    }

    /// Begins what ends with the file, or with the store.
    pub(super) fn keep_task(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.begin(&self.client, name, work);
    }

    /// Waits for the parts of a read. What does not come is read as it was asked for.
    async fn settle(&self, awaited: Vec<Awaited<'_>>) -> Result<()> {
        let (mut through, mut flights, mut fetches) = (Vec::new(), Vec::new(), Vec::new());
        for Awaited { offset, dest, from } in awaited {
            match from {
                From::Flight(flight) => flights.push((offset, dest, Some(flight))),
                From::Nowhere => flights.push((offset, dest, None)),
                From::Through(fetch) => {
                    fetches.push(fetch);
                    through.push(RangeRead { offset, dest });
                }
            }
        }
        fetches.dedup();
        let beside_cache = async {
            let mut fetches = Through { shell: self, fetches };
            if !through.is_empty() {
                self.origin.fill(&mut through).await?;
            }
            let mut state = self.lock();
            fetches.fetches.drain(..).for_each(|fetch| state.machine.arrived(fetch));
            Ok(())
        };
        let of_flights = async {
            let mut failed = Vec::new();
            for (offset, dest, flight) in flights {
                let came = match flight {
                    Some(flight) => flight.fill(offset, dest).await,
                    None => false,
                };
                if !came {
                    failed.push(RangeRead { offset, dest });
                }
            }
            if failed.is_empty() { Ok(()) } else { self.origin.fill(&mut failed).await }
        };
        let (through, flown) = join(beside_cache, of_flights).await;
        through.and(flown)
    }

    /// No task runs from now on.
    pub(super) fn close(&self) {
        self.tasks.close();
    }

    pub(super) fn statistics(&self) -> AheadStatistics {
        let state = self.lock();
        let (counts, accounts) = (state.machine.counts(), state.machine.accounts());
        AheadStatistics {
            read_count: counts.reads,
            read_len: counts.read_len,
            hit_count: counts.hits,
            asked_len: accounts.asked_len,
            used_len: accounts.used_len,
            wasted_len: accounts.waste_len(),
            turn_around_count: state.turn_around_count,
            fetch_count: counts.fetches,
            range_count: counts.ranges,
            failure_count: state.failure_count,
            memory_len: state.machine.memory_len(),
            memory_len_max: state.machine.cache_len(),
            has_layout: state.has_layout,
            has_profile: state.has_profile,
        }
    }

    /// Every relation between the machine and what is kept for it.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let state = self.lock();
        state.machine.check();
        assert!(state.kept.memory_len() <= 2 * state.machine.memory_len());
    }
}
