//! The network: calls and streams between hosts, with delays, cuts in either direction, and hosts that fall silent.
//!
//! A call is a connection's request and answer: it arrives late, or never if the way is cut for longer than its caller
//! waits; two calls may overtake each other. A stream keeps its order, as TCP does, and stands still while its way is
//! cut. The process of a host that was killed closes its connections; one that lost power says nothing until it is up
//! again.

use crate::executor::{Boxed, HostId, Sim, oneshot};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// TCP sends again after this at first, then each time after twice as long, up to the second.
const RETRANSMIT_FIRST: Duration = Duration::from_millis(200);
const RETRANSMIT_LAST: Duration = Duration::from_secs(5);

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
    async fn travel(&self, from: HostId, to: HostId) {
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

    /// A stream from one host to another.
    pub(crate) fn pipe<M: 'static>(&self, from: HostId, to: HostId) -> (Tx<M>, Rx<M>) {
        let pipe = Rc::new(Pipe {
            net: self.clone(),
            from,
            to,
            to_life: self.host(to).life,
            under_way: RefCell::default(),
            last: Cell::default(),
            pumping: Cell::default(),
            inbox: RefCell::default(),
            waker: RefCell::default(),
            ended: Cell::default(),
            broken: Cell::default(),
        });
        (Tx(Rc::clone(&pipe)), Rx(pipe))
    }
}

struct Pipe<M> {
    net: Net,
    from: HostId,
    to: HostId,
    to_life: u64,
    /// With the time when each is due; `None` is the end.
    under_way: RefCell<VecDeque<(Duration, Option<M>)>>,
    last: Cell<Duration>,
    pumping: Cell<bool>,
    inbox: RefCell<VecDeque<M>>,
    waker: RefCell<Option<Waker>>,
    ended: Cell<bool>,
    /// The sender knows that nobody takes its messages.
    broken: Cell<bool>,
}

pub(crate) struct Tx<M: 'static>(Rc<Pipe<M>>);
pub(crate) struct Rx<M: 'static>(Rc<Pipe<M>>);

impl<M: 'static> Pipe<M> {
    fn push(self: &Rc<Self>, item: Option<M>) {
        let due = (self.net.0.sim.now() + self.net.latency()).max(self.last.get());
        self.last.set(due);
        self.under_way.borrow_mut().push_back((due, item));
        if !self.pumping.replace(true) {
            let pipe = Rc::clone(self);
            self.net.0.sim.spawn(HostId::NOBODY, async move { pipe.pump().await });
        }
    }

    async fn pump(self: Rc<Self>) {
        let sim = self.net.0.sim.clone();
        let mut retransmit = RETRANSMIT_FIRST;
        loop {
            let due = self.under_way.borrow().front().map(|(due, _)| *due);
            let Some(due) = due else { break };
            sim.sleep_until(due).await;
            let host = self.net.host(self.to);
            if self.net.is_cut(self.from, self.to) || (!host.up && host.silent) {
                sim.sleep(retransmit).await;
                retransmit = (retransmit * 2).min(RETRANSMIT_LAST);
                continue;
            }
            retransmit = RETRANSMIT_FIRST;
            if !host.up || host.life != self.to_life {
                self.under_way.borrow_mut().clear();
                self.broken.set(true);
                break;
            }
            match self.under_way.borrow_mut().pop_front() {
                Some((_, Some(message))) => self.inbox.borrow_mut().push_back(message),
                _ => self.ended.set(true),
            }
            if let Some(waker) = self.waker.borrow_mut().take() {
                waker.wake();
            }
        }
        self.pumping.set(false);
    }
}

impl<M: 'static> Tx<M> {
    /// False once it is known that nobody takes it.
    pub(crate) fn send(&self, message: M) -> bool {
        if self.0.broken.get() {
            return false;
        }
        self.0.push(Some(message));
        true
    }
}

impl<M: 'static> Drop for Tx<M> {
    fn drop(&mut self) {
        if !self.0.net.host(self.0.from).silent {
            self.0.push(None);
        }
    }
}

impl<M: 'static> Rx<M> {
    /// `None`: the other end closed.
    pub(crate) fn recv(&mut self) -> impl Future<Output = Option<M>> + '_ {
        std::future::poll_fn(|context| {
            if let Some(message) = self.0.inbox.borrow_mut().pop_front() {
                return Poll::Ready(Some(message));
            }
            if self.0.ended.get() {
                return Poll::Ready(None);
            }
            *self.0.waker.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
    }
}

impl<M: 'static> Drop for Rx<M> {
    fn drop(&mut self) {
        if !self.0.net.host(self.0.to).silent {
            let pipe = Rc::clone(&self.0);
            let net = pipe.net.clone();
            net.0.sim.clone().spawn(HostId::NOBODY, async move {
                net.travel(pipe.to, pipe.from).await;
                pipe.broken.set(true);
            });
        }
    }
}
