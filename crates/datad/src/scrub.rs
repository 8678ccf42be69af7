//! All replicas are read against their checksums, now and then: what a disk has lost is to be found before the last copy is.
//!
//! ```text
//! the metadata server's order ──▶ a pass at the rate it names, told of with each heartbeat ──▶ damaged ones: Copier::found_bad
//! nobody asks                 ──▶ a slow pass in the background, for ever
//! ```
//!
//! Promise: at most so many bytes a second are read; one pass at a time, and the background one waits for one that was ordered; no more
//! damaged replicas are found than can be told. Nothing is deleted here.

use crate::node::Node;
use crate::pace::{PAUSE_MAX, Pace};
use container::{ReplicaError, ReplicaInfo, ReplicaState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use types::BlockId;
use wire::node::{ScrubOrder, ScrubReport};

/// Replicas looked up at a time.
const STEP_COUNT: usize = 500;
/// Between looks whether somebody took what was found.
const TOLD_PAUSE: Duration = Duration::from_millis(200);
/// Until the first background pass begins, and between two of them at least.
const REST: Duration = Duration::from_secs(300);
#[derive(Debug, Default)]
pub(crate) struct Scrubber {
    state: Mutex<State>,
    pace: Pace,
}

#[derive(Debug, Default)]
struct State {
    order: Option<ScrubOrder>,
    report: Option<ScrubReport>,
    running: bool,
}

impl Scrubber {
    /// What the metadata server wants; the same order comes with each of its answers.
    pub(crate) fn order(&self, node: &Arc<Node>, order: ScrubOrder) {
        let mut state = self.lock();
        let known = state.report.as_ref().is_some_and(|report| report.number == order.number);
        state.order = Some(order);
        if known || state.running {
            return; // the pass that runs looks at the order; the next one begins when it has ended
        }
        if order.stop {
            state.report = Some(ScrubReport { number: order.number, ended: true, ..ScrubReport::default() });
            return;
        }
        let of_thread = Arc::clone(node);
        match io::task::thread("scrub", move || of_thread.scrubber.pass(&of_thread, order.number)) {
            Ok(_) => {
                state.running = true;
                state.report = Some(ScrubReport { number: order.number, ..ScrubReport::default() });
            }
            Err(error) => tracing::error!(%error, "no thread to scrub"),
        }
    }

    /// What a heartbeat tells.
    pub(crate) fn report(&self) -> Option<ScrubReport> {
        self.lock().report
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One pass that was ordered.
    fn pass(&self, node: &Arc<Node>, number: u64) {
        /// A panic ends the pass, and lets another one begin.
        struct AtWork<'a>(&'a Scrubber, u64);
        impl Drop for AtWork<'_> {
            fn drop(&mut self) {
                let mut state = self.0.lock();
                state.running = false;
                if let Some(report) = state.report.as_mut().filter(|report| report.number == self.1) {
                    report.ended = true;
                }
            }
        }
        let _at_work = AtWork(self, number);
        self.pace.begin();
        let update = |change: &dyn Fn(&mut ScrubReport)| {
            if let Some(report) = self.lock().report.as_mut() {
                change(report);
            }
        };
        let measured = self.walk(node, &mut |info| {
            update(&|report| {
                report.total_count += 1;
                report.total_len += info.len;
            });
            !node.stop.is_set()
        });
        let read = measured.and_then(|()| {
            self.walk(node, &mut |info| {
                if !self.wait_for_turn(node, info, number) {
                    return false;
                }
                let verified = node.copier.verify(node, info.identity.block);
                let bad = verified.is_err_and(|error| is_damage(&error));
                update(&|report| {
                    report.checked_count += 1;
                    report.checked_len += info.len;
                    report.bad_count += u64::from(bad);
                });
                !node.stop.is_set()
            })
        });
        match read {
            Ok(()) => node.contents.forget_all(node),
            Err(error) => tracing::error!(%error, "a scrub was broken off"),
        }
    }

    /// Shows every finalized replica, until `look` has seen enough.
    fn walk(&self, node: &Node, look: &mut dyn FnMut(&ReplicaInfo) -> bool) -> Result<(), ReplicaError> {
        let mut from = BlockId(0);
        loop {
            let infos = node.disks.replicas(from, STEP_COUNT)?;
            for info in infos.iter().filter(|info| info.state == ReplicaState::Finalized) {
                if !look(info) {
                    return Ok(());
                }
            }
            match infos.last().and_then(|last| last.identity.block.0.checked_add(1)) {
                Some(next) if infos.len() == STEP_COUNT => from = BlockId(next),
                _ => return Ok(()),
            }
        }
    }

    /// Returns when the rate allows to read a replica, and what was found has been told. False if the pass is to end.
    fn wait_for_turn(&self, node: &Node, info: &ReplicaInfo, number: u64) -> bool {
        let rate = || {
            let order =
                self.lock().order.filter(|order| order.number == number && !order.stop && !node.stop.is_set())?;
            Some(order.len_per_s)
        };
        while rate().is_some() && node.copier.is_bad_full() {
            io::task::sleep(TOLD_PAUSE);
        }
        let Some(len_per_s) = rate() else { return false };
        self.pace.wait_while(node.now(), info.len, len_per_s, || rate().is_some());
        rate().is_some()
    }
}

/// A replica that cannot be read is as bad as one that reads wrong.
pub(crate) fn is_damage(error: &ReplicaError) -> bool {
    matches!(error, ReplicaError::Corrupt { .. } | ReplicaError::Io { .. }) && !error.is_momentary()
}

/// Reads everything, slowly, again and again.
pub(crate) async fn background(node: Arc<Node>) {
    let len_per_s = node.config.limits.scrub_len_per_s;
    if len_per_s == 0 {
        return;
    }
    let mut from = BlockId(0);
    loop {
        if from == BlockId(0) {
            tokio::time::sleep(REST).await;
        }
        let step = node.disks.for_all(move |disks| disks.replicas(from, STEP_COUNT)).await;
        let Ok(Ok(infos)) = step else {
            from = BlockId(0);
            continue;
        };
        for info in infos.iter().filter(|info| info.state == ReplicaState::Finalized) {
            while node.scrubber.lock().running || node.copier.is_bad_full() {
                tokio::time::sleep(PAUSE_MAX).await;
            }
            let (at, info) = (Arc::clone(&node), *info);
            let block = info.identity.block;
            // Nor is a disk that hangs waited for once it was given up.
            let _damage_is_told = node.disks.for_block(block, move |_| at.copier.verify(&at, block)).await;
            // Behind, not before: a node that was just started reads nothing yet.
            tokio::time::sleep(Duration::from_secs_f64(info.len as f64 / len_per_s as f64)).await;
        }
        let next = infos.last().and_then(|last| last.identity.block.0.checked_add(1));
        from = BlockId(next.filter(|_| infos.len() == STEP_COUNT).unwrap_or_default());
        if from == BlockId(0) {
            node.contents.forget_all(&node);
        }
    }
}
