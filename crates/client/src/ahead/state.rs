//! What is known of one file: the machine, what it has kept, and what is on its way.

use super::flight::Flight;
use super::kept::Kept;
use super::learned::Learned;
use super::search::Search;
use crate::layout_memory::LayoutRoom;
use prefetch::{Action, FetchId, Link, Prefetcher, Settings};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(super) struct State {
    pub(super) machine: Prefetcher,
    pub(super) kept: Kept,
    pub(super) flights: HashMap<FetchId, Flight>,
    pub(super) search: Search,
    /// Memory of the layout that is known.
    pub(super) layout_room: Option<LayoutRoom>,
    pub(super) learned: Learned,
    pub(super) turn_around_count: u64,
    pub(super) failure_count: u64,
    pub(super) has_layout: bool,
    pub(super) has_profile: bool,
}

/// For all who read the file. The lock is held over no await.
#[derive(Debug)]
pub(super) struct Shared(Mutex<State>);

impl Shared {
    pub(super) fn new(state: State) -> Self {
        Self(Mutex::new(state))
    }

    /// Nothing is left half done while it is held.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    pub(super) fn new(file_len: u64, settings: Settings, link: Link, learned: Learned) -> Self {
        Self {
            machine: Prefetcher::new(settings, link, file_len),
            kept: Kept::default(),
            flights: HashMap::new(),
            search: Search::new(file_len),
            layout_room: None,
            learned,
            turn_around_count: 0,
            failure_count: 0,
            has_layout: false,
            has_profile: false,
        }
    }

    pub(super) fn failed(&mut self, fetch: FetchId) {
        self.flights.remove(&fetch);
        self.failure_count += 1;
        let mut actions = Vec::new();
        self.machine.failed(fetch, &mut actions);
        actions.into_iter().for_each(told);
    }
}

/// Says why, to whoever looks.
pub(super) fn told(action: Action) {
    if let Action::Decided(decision) = action {
        tracing::debug!(%decision, "reading ahead");
    }
}
