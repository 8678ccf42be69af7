//! A scrub: a datanode reads all it has against the checksums, and tells what is damaged; as `datad`'s.

use crate::datanode::Datanode;
use crate::executor::Notify;
use lead::ScrubReport;
use std::cell::Cell;
use std::rc::Rc;
use types::{Fitness, Generation, ReplicaState};

#[derive(Default)]
pub(crate) struct Scrubber {
    /// By number, so that none is done twice.
    ordered: Cell<u64>,
    report: Cell<Option<(u64, ScrubReport)>>,
    came: Notify,
}

impl Scrubber {
    pub(crate) fn order(&self, number: u64) {
        if self.ordered.replace(number) != number {
            self.report.set(Some((number, ScrubReport::default())));
            self.came.notify();
        }
    }

    pub(crate) fn report(&self) -> Option<(u64, ScrubReport)> {
        self.report.get()
    }
}

impl Datanode {
    pub(crate) async fn scrub_always(self: Rc<Self>) {
        let scrubber = &self.scrubber;
        loop {
            let number = scrubber.ordered.get();
            if scrubber.report.get().is_none_or(|(known, done)| known != number || done.ended) {
                scrubber.came.notified().await;
                continue;
            }
            let all = self.volume.replicas().into_iter().filter(|info| info.state == ReplicaState::Finalized);
            let all: Vec<_> = all.collect();
            let mut done = ScrubReport { total_count: all.len() as u64, ..ScrubReport::default() };
            for info in all {
                let fitness = self.verify(info.identity.block, Generation(0)).await;
                done.checked_count += 1;
                done.checked_len += info.len as u64;
                done.bad_count += u64::from(fitness == Fitness::Unfit);
                if scrubber.ordered.get() == number {
                    scrubber.report.set(Some((number, done)));
                }
            }
            if scrubber.ordered.get() == number {
                scrubber.report.set(Some((number, ScrubReport { ended: true, ..done })));
                self.tell_soon();
            }
        }
    }
}
