//! A job that this node carries out: the metadata server orders it by a number, and each heartbeat reports its
//! progress.
//!
//! ```text
//! order n ──▶ begins ──▶ at work, update … ──▶ ended        the same order comes with every answer to a heartbeat
//!    └─ while other work runs: begins with a later answer   an order to stop: ended at once, or as soon as it is seen
//! ```
//!
//! Promise: one piece of work runs at a time, and one that has a report does not begin again. When it ends its report
//! says so, and another one may begin.

use wire::node::{DiskBalanceOrder, DiskBalanceReport, ScrubOrder, ScrubReport};

pub trait Order: Copy + std::fmt::Debug {
    type Report: Report;

    /// A later order has a higher one.
    fn number(&self) -> u64;
    fn is_to_stop(&self) -> bool;
    fn len_per_s(&self) -> u64;
}

pub trait Report: Clone + std::fmt::Debug {
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
pub struct Job<O: Order> {
    order: Option<O>,
    report: Option<O::Report>,
    is_running: bool,
}

impl<O: Order> Default for Job<O> {
    fn default() -> Self {
        Self { order: None, report: None, is_running: false }
    }
}

impl<O: Order> Job<O> {
    /// Takes note of an order; true if its work is to begin now. Whoever is told so calls [`Self::end`] after it.
    #[must_use = "the work is to begin"]
    pub fn order(&mut self, order: O) -> bool {
        self.order = Some(order);
        let is_known = self.report.as_ref().is_some_and(|report| report.number() == order.number());
        if is_known || self.is_running {
            return false;
        }
        let mut report = O::Report::of(order.number());
        self.is_running = !order.is_to_stop();
        if order.is_to_stop() {
            report.end();
        }
        self.report = Some(report);
        self.is_running
    }

    /// For the heartbeat.
    pub fn report(&self) -> Option<O::Report> {
        self.report.clone()
    }

    pub fn is_running(&self) -> bool {
        self.is_running
    }

    pub fn update(&mut self, change: impl FnOnce(&mut O::Report)) {
        if let Some(report) = &mut self.report {
            change(report);
        }
    }

    /// The order with this number, as long as its work has not ended and is not to be stopped. Work that comes back
    /// from a disk that was given up finds that it has ended.
    pub fn standing(&self, number: u64) -> Option<O> {
        let at_work = self.report.as_ref().is_some_and(|report| report.number() == number && !report.has_ended());
        self.order.filter(|order| at_work && order.number() == number && !order.is_to_stop())
    }

    /// The work ends, in whatever way.
    pub fn end(&mut self) {
        self.is_running = false;
        self.update(Report::end);
    }

    pub fn check(&self) {
        let is_open = self.report.as_ref().is_some_and(|report| !report.has_ended());
        assert_eq!(is_open, self.is_running, "a report is open as long as its work runs");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(number: u64, stop: bool) -> ScrubOrder {
        ScrubOrder { number, len_per_s: 1, stop }
    }

    fn shown(job: &Job<ScrubOrder>) -> Option<(u64, bool)> {
        job.check();
        job.report().map(|report| (report.number, report.ended))
    }

    #[test]
    fn work_begins_once_and_a_later_order_waits_for_its_end() {
        let mut job = Job::default();
        assert!(job.order(order(1, false)));
        assert!(!job.order(order(1, false)), "the same order comes again and again");
        assert!(!job.order(order(2, false)) && shown(&job) == Some((1, false)));
        assert!(job.standing(1).is_none(), "another one is wanted now");
        job.end();
        assert_eq!(shown(&job), Some((1, true)));
        assert!(job.order(order(2, false)) && job.standing(2).is_some());
        job.end();
        assert!(!job.order(order(2, false)), "it was done");
    }

    #[test]
    fn an_order_to_stop_ends_what_runs_and_begins_nothing() {
        let mut job = Job::default();
        assert!(!job.order(order(1, true)) && shown(&job) == Some((1, true)));
        assert!(job.order(order(2, false)));
        assert!(!job.order(order(2, true)) && job.standing(2).is_none() && job.is_running());
        job.end();
        assert!(shown(&job) == Some((2, true)) && !job.is_running());
    }
}
