//! A job that this node carries out ([`datanode::Job`]), behind its lock: at the rate that was ordered, until the node
//! stops.
//!
//! Promise: however work ends, a panic included, its report says so and another one may begin.

use crate::rate_limit::RateLimit;
use crate::stop::Stop;
use datanode::job::{Order, Report};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Job<O: Order> {
    job: Mutex<datanode::Job<O>>,
    rate: RateLimit,
    stop: Arc<Stop>,
}

impl<O: Order> Job<O> {
    pub(crate) fn new(stop: Arc<Stop>) -> Self {
        Self { job: Mutex::default(), rate: RateLimit::default(), stop }
    }

    /// Takes note of an order, and has its work begin if it is to begin now. The work calls [`Self::at_work`] first.
    pub(crate) fn order<W>(&self, order: O, name: &'static str, work: impl FnOnce(u64) -> W)
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let begins = self.lock().order(order);
        if begins {
            io::task::spawn(name, work(order.number()));
        }
    }

    /// For the heartbeat.
    pub(crate) fn report(&self) -> Option<O::Report> {
        self.lock().report()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.lock().is_running()
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut O::Report)) {
        self.lock().update(change);
    }

    /// The order with this number, as long as its work has not ended and is not to be stopped, and the node is not
    /// either.
    pub(crate) fn standing(&self, number: u64) -> Option<O> {
        if self.stop.is_set() { None } else { self.lock().standing(number) }
    }

    /// Waits until so many more bytes may be read or moved at the rate of the order. Answers the order, if it stands.
    /// Blocks.
    pub(crate) fn wait(&self, number: u64, now: Duration, len: u64) -> Option<O> {
        let order = self.standing(number)?;
        self.rate.wait_while(now, len, order.len_per_s(), || self.standing(number).is_some());
        self.standing(number)
    }

    /// As [`Self::wait`], for a task.
    pub(crate) async fn rest(&self, number: u64, now: Duration, len: u64) -> Option<O> {
        let order = self.standing(number)?;
        self.rate.rest_while(now, len, order.len_per_s(), || self.standing(number).is_some()).await;
        self.standing(number)
    }

    /// Dropped when the work ends, in whatever way.
    pub(crate) fn at_work(&self, number: u64) -> AtWork<'_, O> {
        self.rate.begin();
        let job = self.lock();
        let is_its_own = job.report().is_some_and(|report| report.number() == number);
        assert!(job.is_running() && is_its_own, "work begins when an order is taken, with a report of its own");
        AtWork(self)
    }

    fn lock(&self) -> MutexGuard<'_, datanode::Job<O>> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(crate) struct AtWork<'a, O: Order>(&'a Job<O>);

impl<O: Order> Drop for AtWork<'_, O> {
    fn drop(&mut self) {
        self.0.lock().end();
    }
}
