//! Whether a session waits for its client, and since when: it is idle, or its client does not take its answers.

use io::{Clock, ConnectionPermit, RequestGuard, StalledResponse, SystemClock};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

#[derive(Debug)]
pub(super) struct Presence {
    /// Knows the same, but neither since when nor what the session holds.
    permit: Arc<ConnectionPermit>,
    clock: Arc<SystemClock>,
    state: Mutex<State>,
    eviction: Notify,
}

#[derive(Debug, Default)]
struct State {
    request_count: usize,
    stalled_count: usize,
    /// When the session began to wait for its client; `None`: it does not.
    wait_began: Option<Duration>,
    is_evicted: bool,
}

/// A request that is under way, or an answer that was not taken yet.
#[derive(Debug)]
pub(super) struct Request {
    presence: Arc<Presence>,
    _guard: RequestGuard,
}

/// An answer that its client does not take at the moment.
#[derive(Debug)]
pub(super) struct Stall {
    presence: Arc<Presence>,
    _guard: StalledResponse,
}

impl Presence {
    pub(super) fn new(permit: Arc<ConnectionPermit>, clock: Arc<SystemClock>) -> Arc<Self> {
        let state = Mutex::new(State { wait_began: Some(clock.monotonic()), ..State::default() });
        Arc::new(Self { permit, clock, state, eviction: Notify::new() })
    }

    pub(super) fn begin_request(self: &Arc<Self>) -> Request {
        self.change(|state| state.request_count += 1);
        Request { presence: Arc::clone(self), _guard: self.permit.begin_request() }
    }

    pub(super) fn stall(self: &Arc<Self>) -> Stall {
        self.change(|state| state.stalled_count += 1);
        Stall { presence: Arc::clone(self), _guard: self.permit.response_stalled() }
    }

    /// The client has said who it is.
    pub(super) fn prove(&self) {
        self.permit.prove();
    }

    /// How long the client has been waited for. `None`: it is not, or the session is being closed.
    pub(super) fn waited(&self) -> Option<Duration> {
        let state = self.state();
        let began = state.wait_began.filter(|_| !state.is_evicted)?;
        Some(self.clock.monotonic().saturating_sub(began))
    }

    /// Closes the session, if it still waits for its client.
    pub(super) fn evict(&self) -> bool {
        let mut state = self.state();
        let is_waiting = state.wait_began.is_some() && !state.is_evicted;
        if is_waiting {
            state.is_evicted = true;
            self.eviction.notify_one();
        }
        is_waiting
    }

    /// Returns when this session is to be closed for another, or for what it holds.
    pub(super) async fn evicted(&self) {
        tokio::select! {
            () = self.permit.evicted() => {}
            () = self.eviction.notified() => {}
        }
    }

    fn change(&self, how: impl FnOnce(&mut State)) {
        let mut state = self.state();
        how(&mut state);
        match (state.request_count == 0 || state.stalled_count > 0, state.wait_began) {
            (true, None) => state.wait_began = Some(self.clock.monotonic()),
            (false, Some(_)) => state.wait_began = None,
            _ => {}
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.presence.change(|state| state.request_count -= 1);
    }
}

impl Drop for Stall {
    fn drop(&mut self) {
        self.presence.change(|state| state.stalled_count -= 1);
    }
}
