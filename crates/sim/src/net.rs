//! The network: calls between hosts, with delays, cuts in either direction, and hosts that fall silent. Connections
//! that carry bytes are in [`crate::socket`].
//!
//! A call is a connection's request and answer: it arrives late, or never if the way is cut for longer than its caller
//! waits; two calls may overtake each other. The process of a host that was killed closes its connections; one that
//! lost power says nothing until it is up again.

use crate::executor::{Boxed, HostId, Sim, oneshot};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// TCP sends again after this at first, then each time after twice as long, up to the second.
pub(crate) const RETRANSMIT_FIRST: Duration = Duration::from_millis(200);
pub(crate) const RETRANSMIT_LAST: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallError {
    /// Certainly not done.
    Connect,
    /// May or may not have happened.
    Broken,
    TimedOut,
}

#[derive(Clone)]
pub(crate) struct Net(Rc<State>);

struct State {
    sim: Sim,
    /// Ways that are cut, from → to.
    cut: RefCell<BTreeSet<(HostId, HostId)>>,
    hosts: RefCell<BTreeMap<HostId, Host>>,
    /// Of a thousand messages, so many are lost and sent again.
    lossy: Cell<usize>,
    /// Of a thousand messages, so many are long under way.
    slow: Cell<usize>,
}

#[derive(Clone, Copy, Default)]
struct Host {
    up: bool,
    /// It lost power: nobody hears that its connections are gone.
    silent: bool,
    life: u64,
}

impl Net {
    pub(crate) fn new(sim: Sim) -> Self {
        Self(Rc::new(State {
            sim,
            cut: RefCell::default(),
            hosts: RefCell::default(),
            lossy: Cell::default(),
            slow: Cell::default(),
        }))
    }

    pub(crate) fn set_rough(&self, lossy: usize, slow: usize) {
        self.0.lossy.set(lossy);
        self.0.slow.set(slow);
    }

    pub(crate) fn up(&self, host: HostId) {
        let mut hosts = self.0.hosts.borrow_mut();
        let host = hosts.entry(host).or_default();
        *host = Host { up: true, silent: false, life: host.life + 1 };
    }

    /// To be called before the tasks of the host are killed.
    pub(crate) fn down(&self, host: HostId, silent: bool) {
        let mut hosts = self.0.hosts.borrow_mut();
        let host = hosts.entry(host).or_default();
        *host = Host { up: false, silent, life: host.life };
    }

    pub(crate) fn is_up(&self, host: HostId) -> bool {
        self.host(host).up
    }

    /// It lost power: nobody hears that its connections are gone.
    pub(crate) fn is_silent(&self, host: HostId) -> bool {
        let host = self.host(host);
        !host.up && host.silent
    }

    /// How often it was up, so that a connection to an earlier process is none to this one.
    pub(crate) fn life(&self, host: HostId) -> u64 {
        self.host(host).life
    }

    pub(crate) fn sim(&self) -> &Sim {
        &self.0.sim
    }

    fn host(&self, host: HostId) -> Host {
        self.0.hosts.borrow().get(&host).copied().unwrap_or_default()
    }

    pub(crate) fn cut(&self, from: HostId, to: HostId) {
        self.0.cut.borrow_mut().insert((from, to));
    }

    pub(crate) fn heal(&self, from: HostId, to: HostId) {
        self.0.cut.borrow_mut().remove(&(from, to));
    }

    pub(crate) fn is_cut(&self, from: HostId, to: HostId) -> bool {
        self.0.cut.borrow().contains(&(from, to))
    }

    pub(crate) fn latency(&self) -> Duration {
        let sim = &self.0.sim;
        let mut time = sim.between(Duration::from_micros(80), Duration::from_micros(700));
        let luck = sim.below(1000);
        if luck < self.0.lossy.get() {
            time += RETRANSMIT_FIRST;
        } else if luck < self.0.lossy.get() + self.0.slow.get() {
            time += sim.between(Duration::from_millis(1), Duration::from_millis(120));
        }
        time
    }

    /// Returns when a message is there. Never, while the way is cut.
    pub(crate) async fn travel(&self, from: HostId, to: HostId) {
        let time = self.latency();
        self.0.sim.sleep(time).await;
        let mut retransmit = RETRANSMIT_FIRST;
        while self.is_cut(from, to) {
            self.0.sim.sleep(retransmit).await;
            retransmit = (retransmit * 2).min(RETRANSMIT_LAST);
        }
    }

    /// Runs `serve` on host `to` and brings its answer back.
    pub(crate) async fn call<T: 'static>(
        &self,
        from: HostId,
        to: HostId,
        limit: Duration,
        serve: impl FnOnce() -> Option<Boxed<T>> + 'static,
    ) -> Result<T, CallError> {
        let (answer, answered) = oneshot();
        let net = self.clone();
        let deadline = self.0.sim.now() + limit;
        self.0.sim.spawn(HostId::NOBODY, async move {
            net.travel(from, to).await;
            if net.0.sim.now() > deadline {
                return; // the caller hung up; the request dies with the connection
            }
            let host = net.host(to);
            let work = if host.up { serve() } else { None };
            let Some(work) = work else {
                if host.silent {
                    return net.0.sim.sleep_until(deadline).await; // until the caller gives up, and its end with it
                }
                net.travel(to, from).await;
                return answer.send(Err(CallError::Connect));
            };
            let (done, result) = oneshot();
            net.0.sim.spawn(to, async move { done.send(work.await) });
            let result = result.await;
            if result.is_none() && net.host(to).silent {
                return net.0.sim.sleep_until(deadline).await; // until the caller gives up, and its end with it
            }
            net.travel(to, from).await;
            answer.send(result.ok_or(CallError::Broken));
        });
        match self.0.sim.timeout(limit, answered).await {
            Some(Some(result)) => result,
            Some(None) => Err(CallError::Broken),
            None => Err(CallError::TimedOut),
        }
    }
}
