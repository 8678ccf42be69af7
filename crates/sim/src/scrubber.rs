//! A scrub: a datanode reads all it has against the checksums, and tells what is damaged; as `datad`'s. When one begins
//! and ends is decided by [`datanode::Job`].

use crate::datanode::Datanode;
use datanode::Job;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use types::{Fitness, Generation, ReplicaState};
use wire::node::{ScrubOrder, ScrubReport};

/// Between looks whether there is room again for reports of damage.
const REPORT_WAIT: Duration = Duration::from_millis(200);

#[derive(Default)]
pub(crate) struct Scrubber {
    job: RefCell<Job<ScrubOrder>>,
}

impl Scrubber {
    pub(crate) fn report(&self) -> Option<ScrubReport> {
        self.job.borrow().report()
    }

    fn is_wanted(&self, number: u64) -> bool {
        self.job.borrow().standing(number).is_some()
    }
}

impl Datanode {
    pub(crate) fn order_scrub(self: &Rc<Self>, order: ScrubOrder) {
        let begins = self.scrubber.job.borrow_mut().order(order);
        if begins {
            let node = Rc::clone(self);
            self.spawn(async move {
                node.scrub(order.number).await;
                let mut job = node.scrubber.job.borrow_mut();
                job.end();
                job.check();
            });
        }
    }

    async fn scrub(&self, number: u64) {
        let (all, job) = (self.volume.replicas(), &self.scrubber.job);
        let all: Vec<_> = all.into_iter().filter(|info| info.state == ReplicaState::Finalized).collect();
        job.borrow_mut().update(|report| report.total_count = all.len() as u64);
        for info in all {
            while self.scrubber.is_wanted(number) && self.with(|node| node.damage.is_full()) {
                self.sim.sleep(REPORT_WAIT).await;
            }
            if !self.scrubber.is_wanted(number) {
                return;
            }
            let fitness = self.verify(info.identity.block, Generation(0)).await;
            job.borrow_mut().update(|report| {
                report.checked_count += 1;
                report.checked_len += info.len as u64;
                report.bad_count += u64::from(fitness == Fitness::Unfit);
            });
        }
    }
}
