//! How many connections a port has at most, or operations a node under way, and which one is closed when there are too
//! many.
//!
//! Promise: no more than `max` connections stay, and none that is being answered is closed for a new one.
//! The one that is closed has waited longest for its peer: for a request, or until its response is read; and those that
//! have proven who they are stay as long as there are others. So thousands of silent clients evict each other, and a
//! client that sends a request at once is served.

use crate::clock::{Clock, SystemClock};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

#[derive(Debug)]
pub struct ConnectionLimit {
    max: usize,
    clock: SystemClock,
    connections: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    count: usize,
    /// Numbers the waits, in the order in which they began.
    next: u64,
    /// Those whose peer is waited for, in the order in which they are closed.
    waiting: BTreeMap<Wait, Arc<Notify>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wait {
    is_proven: bool,
    number: u64,
    /// By the clock of the limit.
    began: Duration,
}

/// The right of one connection to stay, given back when this is dropped.
#[derive(Debug)]
pub struct ConnectionPermit {
    limit: Arc<ConnectionLimit>,
    state: Mutex<State>,
    eviction: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    /// Requests under way, and those of them whose response is not being read.
    request_count: usize,
    stalled_count: usize,
    /// Who the peer is was proven.
    is_proven: bool,
    /// Its wait, if its peer is waited for.
    wait: Option<Wait>,
}

/// A request that is under way.
#[derive(Debug)]
pub struct RequestGuard(Arc<ConnectionPermit>);

/// A response that its peer does not read at the moment.
#[derive(Debug)]
pub struct StalledResponse(Arc<ConnectionPermit>);

impl ConnectionLimit {
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, clock: SystemClock::new(), connections: Mutex::default() })
    }

    /// A permit for one more, whose first request is waited for. `None`: all others are being answered.
    pub fn admit(self: &Arc<Self>) -> Option<Arc<ConnectionPermit>> {
        let permit = self.permit()?;
        permit.change(|_| {});
        Some(permit)
    }

    /// As [`Self::admit`], for one whose request is here: it is never one that may be closed before it is begun.
    pub fn admit_request(self: &Arc<Self>) -> Option<(Arc<ConnectionPermit>, RequestGuard)> {
        let permit = self.permit()?;
        let request = permit.begin_request();
        Some((permit, request))
    }

    /// One that waits for nobody yet.
    fn permit(self: &Arc<Self>) -> Option<Arc<ConnectionPermit>> {
        let mut connections = self.connections();
        if connections.count >= self.max {
            let (_, eviction) = connections.waiting.pop_first()?;
            connections.count -= 1; // it will close at once
            eviction.notify_one();
        }
        connections.count += 1;
        drop(connections);
        let permit = ConnectionPermit { limit: Arc::clone(self), state: Mutex::default(), eviction: Arc::default() };
        Some(Arc::new(permit))
    }

    /// Closes the one that has waited longest for its peer, for what it holds beside its place here. False: all are
    /// being answered.
    pub fn evict_one(&self) -> bool {
        let mut connections = self.connections();
        let Some((_, eviction)) = connections.waiting.pop_first() else { return false };
        connections.count -= 1; // it will close at once
        eviction.notify_one();
        true
    }

    /// How many are connected.
    pub fn count(&self) -> usize {
        self.connections().count
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionPermit {
    /// A request begins; it ends when what is returned is dropped. There may be several at a time.
    pub fn begin_request(self: &Arc<Self>) -> RequestGuard {
        self.change(|state| state.request_count += 1);
        RequestGuard(Arc::clone(self))
    }

    /// The response of a request waits to be read, until what is returned is dropped.
    pub fn response_stalled(self: &Arc<Self>) -> StalledResponse {
        self.change(|state| state.stalled_count += 1);
        StalledResponse(Arc::clone(self))
    }

    /// The peer has proven who it is.
    pub fn prove(&self) {
        // As if it had sent a request: its wait is another one from now on.
        self.change(|state| state.request_count += 1);
        self.change(|state| {
            state.is_proven = true;
            state.request_count -= 1;
        });
    }

    /// For how long the peer has been waited for. `None`: it is not, or the connection is being closed.
    pub fn waited(&self) -> Option<Duration> {
        let wait = self.state().wait?;
        let is_open = self.limit.connections().waiting.contains_key(&wait);
        is_open.then(|| self.limit.clock.monotonic().saturating_sub(wait.began))
    }

    /// Closes this connection, if its peer is still waited for: for what it holds beside its place here.
    pub fn evict(&self) -> bool {
        let state = self.state();
        let Some(wait) = state.wait else { return false };
        let mut connections = self.limit.connections();
        let is_open = connections.waiting.remove(&wait).is_some();
        if is_open {
            connections.count -= 1; // it will close at once
            self.eviction.notify_one();
        }
        is_open
    }

    /// Returns when this connection is to be closed for another.
    pub async fn evicted(&self) {
        self.eviction.notified().await;
    }

    fn change(&self, how: impl FnOnce(&mut State)) {
        let mut state = self.state();
        how(&mut state);
        match (state.request_count == 0 || state.stalled_count > 0, state.wait) {
            (true, None) => {
                let began = self.limit.clock.monotonic();
                let mut connections = self.limit.connections();
                let wait = Wait { is_proven: state.is_proven, number: connections.next, began };
                connections.next += 1;
                connections.waiting.insert(wait, Arc::clone(&self.eviction));
                state.wait = Some(wait);
            }
            // One that was evicted stays so: its wait remains with it, so that it is not counted off twice.
            (false, Some(wait)) if self.limit.connections().waiting.remove(&wait).is_some() => state.wait = None,
            _ => {}
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let wait = self.state().wait;
        let mut connections = self.limit.connections();
        let is_counted = wait.is_none_or(|wait| connections.waiting.remove(&wait).is_some());
        connections.count -= usize::from(is_counted);
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.change(|state| state.request_count -= 1);
    }
}

impl Drop for StalledResponse {
    fn drop(&mut self) {
        self.0.change(|state| state.stalled_count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_evicted(permit: &ConnectionPermit) -> bool {
        pin!(permit.evicted()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn a_new_connection_evicts_the_one_that_waits_longest() {
        let limit = ConnectionLimit::new(3);
        let permits: Vec<_> = (0..3).map(|_| limit.admit().unwrap()).collect();
        drop(permits[0].begin_request()); // its wait has begun anew
        let fourth = limit.admit().unwrap();
        assert_eq!(permits.iter().map(|permit| is_evicted(permit)).collect::<Vec<_>>(), [false, true, false]);
        drop(permits[1].begin_request()); // too late
        drop(permits);
        assert_eq!(limit.count(), 1);
        drop(fourth);
        assert_eq!((limit.count(), limit.connections().waiting.len()), (0, 0));
    }

    /// Silent connections, however many, close no datanode's between two heartbeats.
    #[test]
    fn a_connection_that_proved_who_it_is_outlasts_those_that_did_not() {
        let limit = ConnectionLimit::new(3);
        let permits: Vec<_> = (0..2).map(|_| limit.admit().unwrap()).collect();
        permits[0].prove();
        let strangers: Vec<_> = (0..50).map(|_| limit.admit().unwrap()).collect();
        assert_eq!(strangers.iter().filter(|permit| is_evicted(permit)).count(), 48);
        drop(permits[0].begin_request());
        assert!(!is_evicted(&permits[0]) && is_evicted(&permits[1]));
        drop(strangers);
        let others: Vec<_> = (0..2).map(|_| limit.admit().unwrap()).collect();
        others.iter().for_each(|permit| permit.prove());
        let last = limit.admit().unwrap();
        assert!(is_evicted(&permits[0]) && !is_evicted(&last), "when all have, the one that waits longest goes");
        drop((permits, others, last));
        assert_eq!((limit.count(), limit.connections().waiting.len()), (0, 0));
    }

    /// For what it holds: then its place is free, too.
    #[test]
    fn one_connection_is_closed_if_its_peer_is_waited_for() {
        let limit = ConnectionLimit::new(2);
        let [idle, busy] = [limit.admit().unwrap(), limit.admit().unwrap()];
        let request = busy.begin_request();
        assert!(idle.waited().is_some() && busy.waited().is_none());
        assert!(!busy.evict() && idle.evict() && is_evicted(&idle) && !is_evicted(&busy));
        assert_eq!((idle.waited(), idle.evict(), limit.count()), (None, false, 1));
        let _third = limit.admit().unwrap();
        drop((idle, request));
        assert_eq!(limit.count(), 2);
        assert!(busy.waited().is_some(), "it was answered");
    }

    #[test]
    fn a_connection_that_is_being_answered_stays() {
        let limit = ConnectionLimit::new(2);
        let permits: Vec<_> = (0..2).map(|_| limit.admit().unwrap()).collect();
        let [_first, second, third] = [&permits[0], &permits[1], &permits[1]].map(ConnectionPermit::begin_request);
        assert!(limit.admit().is_none());
        drop(second);
        assert!(limit.admit().is_none());
        drop(third);
        let third = limit.admit().unwrap();
        assert!(is_evicted(&permits[1]) && !is_evicted(&permits[0]) && !is_evicted(&third));
    }

    #[test]
    fn one_that_comes_with_its_request_is_not_closed_before_it_begins() {
        let limit = ConnectionLimit::new(1);
        let (permit, request) = limit.admit_request().unwrap();
        assert!(limit.admit_request().is_none() && !is_evicted(&permit));
        let _stalled = permit.response_stalled();
        let other = limit.admit_request().unwrap();
        assert!(is_evicted(&permit) && !is_evicted(&other.0));
        drop(request);
        assert_eq!(limit.count(), 1);
        assert!(!limit.evict_one(), "it is being answered");
        let _stalled = other.0.response_stalled();
        assert!(limit.evict_one() && is_evicted(&other.0) && limit.count() == 0);
    }

    #[test]
    fn a_connection_whose_response_is_not_read_is_evicted() {
        let limit = ConnectionLimit::new(1);
        let permit = limit.admit().unwrap();
        let _request = permit.begin_request();
        drop(permit.response_stalled());
        assert!(limit.admit().is_none());
        let _stalled = permit.response_stalled();
        assert!(limit.admit().is_some() && is_evicted(&permit));
    }
}
