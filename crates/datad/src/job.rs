//! A job that this node carries out: the metadata server orders it by a number, and each heartbeat reports its
//! progress.
//!
//! ```text
//! order n ──▶ begins ──▶ at work, update … ──▶ ended        the same order comes with every answer to a heartbeat
//!    └─ while other work runs: begins with a later answer   an order to stop: ended at once, or as soon as it is seen
//! ```
//!
//! Promise: one piece of work runs at a time, and one that has a report does not begin again. However it ends, a panic
//! included, its report says so and another one may begin.

use crate::rate_limit::RateLimit;
use crate::stop::Stop;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wire::node::{DiskBalanceOrder, DiskBalanceReport, ScrubOrder, ScrubReport};

pub(crate) trait Order: Copy + std::fmt::Debug {
    type Report: Report;

    /// A later order has a higher one.
    fn number(&self) -> u64;
    fn is_to_stop(&self) -> bool;
    fn len_per_s(&self) -> u64;
}

pub(crate) trait Report: Clone + std::fmt::Debug {
    fn of(number: u64) -> Self;
    fn number(&self) -> u64;
    fn has_ended(&self) -> bool;
    fn end(&mut self);
}

macro_rules! ordered {
    ($($order:ident: $report:ident),*) => {$(
        impl Order for $order {
            type Report = $report;

            fn number(&self) -> u64 {
                self.number
            }

            fn is_to_stop(&self) -> bool {
                self.stop
            }

            fn len_per_s(&self) -> u64 {
                self.len_per_s
            }
        }

        impl Report for $report {
            fn of(number: u64) -> Self {
                Self { number, ..Self::default() }
            }

            fn number(&self) -> u64 {
                self.number
            }

            fn has_ended(&self) -> bool {
                self.ended
            }

            fn end(&mut self) {
                self.ended = true;
            }
        }
    )*};
}

ordered!(ScrubOrder: ScrubReport, DiskBalanceOrder: DiskBalanceReport);

/// What was ordered last, and how far it is.
#[derive(Debug)]
pub(crate) struct Job<O: Order> {
    state: Mutex<State<O, O::Report>>,
    rate: RateLimit,
    stop: Arc<Stop>,
}

#[derive(Debug)]
struct State<O, R> {
    order: Option<O>,
    report: Option<R>,
    running: bool,
}

impl<O, R: Report> State<O, R> {
    /// Work that runs has a report, which says so.
    fn check(&self) {
        let is_reported = self.report.as_ref().is_some_and(|report| !report.has_ended());
        assert!(!self.running || is_reported, "work runs that is reported as ended: {:?}", self.report);
    }
}

impl<O: Order> Job<O> {
    pub(crate) fn new(stop: Arc<Stop>) -> Self {
        let state = Mutex::new(State { order: None, report: None, running: false });
        Self { state, rate: RateLimit::default(), stop }
    }

    /// Takes note of an order, and has its work begin if it is to begin now. The work calls [`Self::at_work`] first.
    pub(crate) fn order<W>(&self, order: O, name: &'static str, work: impl FnOnce(u64) -> W)
    where
        W: Future<Output = ()> + Send + 'static,
    {
        if self.take(order) {
            io::task::spawn(name, work(order.number()));
        }
    }

    /// Takes note of an order; true if its work is to begin now. Whoever is told so calls [`Self::at_work`].
    fn take(&self, order: O) -> bool {
        let mut state = self.lock();
        state.order = Some(order);
        let is_known = state.report.as_ref().is_some_and(|report| report.number() == order.number());
        if is_known || state.running {
            return false;
        }
        let mut report = O::Report::of(order.number());
        state.running = !order.is_to_stop();
        if order.is_to_stop() {
            report.end();
        }
        state.report = Some(report);
        state.check();
        state.running
    }

    /// For the heartbeat.
    pub(crate) fn report(&self) -> Option<O::Report> {
        self.lock().report.clone()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.lock().running
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut O::Report)) {
        let mut state = self.lock();
        if let Some(report) = state.report.as_mut() {
            change(report);
        }
        state.check();
    }

    /// The order with this number, as long as its work has not ended and is not to be stopped, and the node is not
    /// either. Work that comes back from a disk that was given up finds that it has ended.
    pub(crate) fn standing(&self, number: u64) -> Option<O> {
        if self.stop.is_set() {
            return None;
        }
        let state = self.lock();
        let at_work = state.report.as_ref().is_some_and(|report| report.number() == number && !report.has_ended());
        state.order.filter(|order| at_work && order.number() == number && !order.is_to_stop())
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
        let state = self.lock();
        self.rate.begin();
        assert!(state.running, "work begins when an order is taken");
        assert!(state.report.as_ref().is_some_and(|report| report.number() == number), "the report is the work's own");
        AtWork(self)
    }

    fn lock(&self) -> MutexGuard<'_, State<O, O::Report>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(crate) struct AtWork<'a, O: Order>(&'a Job<O>);

impl<O: Order> Drop for AtWork<'_, O> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.running = false;
        if let Some(report) = &mut state.report {
            report.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(number: u64, stop: bool) -> ScrubOrder {
        ScrubOrder { number, len_per_s: 1, stop }
    }

    fn shown(job: &Job<ScrubOrder>) -> Option<(u64, bool)> {
        job.report().map(|report| (report.number, report.ended))
    }

    #[test]
    fn work_begins_once_and_a_later_order_waits_for_its_end() {
        let job = Job::new(Arc::new(Stop::new().unwrap()));
        assert!(job.take(order(1, false)));
        let work = job.at_work(1);
        assert!(!job.take(order(1, false)), "the same order comes again and again");
        assert!(!job.take(order(2, false)) && shown(&job) == Some((1, false)));
        assert!(job.standing(1).is_none(), "another one is wanted now");
        drop(work);
        assert_eq!(shown(&job), Some((1, true)));
        assert!(job.take(order(2, false)) && job.standing(2).is_some());
        drop(job.at_work(2));
        assert!(!job.take(order(2, false)), "it was done");
    }

    #[test]
    fn an_order_to_stop_ends_what_runs_and_begins_nothing() {
        let job = Job::new(Arc::new(Stop::new().unwrap()));
        assert!(!job.take(order(1, true)) && shown(&job) == Some((1, true)));
        assert!(job.take(order(2, false)));
        let work = job.at_work(2);
        assert!(!job.take(order(2, true)) && job.standing(2).is_none() && job.is_running());
        drop(work);
        assert!(shown(&job) == Some((2, true)) && !job.is_running());
    }
}
