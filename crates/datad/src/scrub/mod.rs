//! All replicas are read against their checksums, now and then: what a disk has lost is to be found before the last
//! copy is.
//!
//! ```text
//! the metadata server's order ──▶ a pass at the rate it names, told of with each heartbeat ──▶ damaged ones: Copier::found_bad
//! nobody asks                 ──▶ each disk in rounds of three weeks ([`background`]), whose place survives restarts ([`round`])
//! ```
//!
//! Promise: at most so many bytes a second are read; one pass at a time, and the background waits for one that was
//! ordered; no more damaged replicas are found than can be told. Nothing is deleted here. A disk that does not answer
//! is waited for until it is given up, and then the pass goes on with the others.

mod background;
mod round;

pub(crate) use background::run as background;

use crate::node::Node;
use crate::ordered::Ordered;
use crate::pace::{PAUSE_MAX, Pace};
use container::{ReplicaError, ReplicaInfo};
use std::sync::Arc;
use std::time::Duration;
use types::{BlockId, ReplicaState};
use wire::node::{ScrubOrder, ScrubReport};

/// Replicas looked up at a time.
const STEP_COUNT: usize = 500;
/// Between looks whether somebody took what was found.
const TOLD_PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
pub(crate) struct Scrubber {
    ordered: Ordered<ScrubOrder>,
    pace: Pace,
}

impl Scrubber {
    /// What the metadata server wants.
    pub(crate) fn order(&self, node: &Arc<Node>, order: ScrubOrder) {
        if self.ordered.take(order) {
            let at = Arc::clone(node);
            io::task::spawn("scrub", async move { at.scrubber.pass(&at, order.number).await });
        }
    }

    /// For the heartbeat.
    pub(crate) fn report(&self) -> Option<ScrubReport> {
        self.ordered.report()
    }

    /// A pass that was ordered is under way.
    fn is_running(&self) -> bool {
        self.ordered.is_running()
    }

    /// The order of a pass, as long as it stands.
    fn standing(&self, node: &Node, number: u64) -> Option<ScrubOrder> {
        self.ordered.standing(number).filter(|_| !node.stop.is_set())
    }

    /// One pass that was ordered.
    async fn pass(&self, node: &Arc<Node>, number: u64) {
        let _at_work = self.ordered.at_work(number);
        self.pace.begin();
        let read = match self.measure(node, number).await {
            Ok(()) => self.read(node, number).await,
            Err(error) => Err(error),
        };
        match read {
            Ok(()) => node.contents.forget_all(),
            Err(error) => tracing::error!(%error, "a scrub was broken off"),
        }
    }

    /// Counts what there is to be read.
    async fn measure(&self, node: &Arc<Node>, number: u64) -> Result<(), ReplicaError> {
        let mut next = Some(BlockId(0));
        while let Some(from) = next.filter(|_| self.standing(node, number).is_some()) {
            let Some(infos) = patient(page(node, from).await).await? else { continue };
            self.ordered.update(|report| {
                report.total_count += finalized(&infos).count() as u64;
                report.total_len += finalized(&infos).map(|info| info.len).sum::<u64>();
            });
            next = after(&infos);
        }
        Ok(())
    }

    async fn read(&self, node: &Arc<Node>, number: u64) -> Result<(), ReplicaError> {
        let mut next = Some(BlockId(0));
        while let Some(from) = next.filter(|_| self.standing(node, number).is_some()) {
            let Some(infos) = patient(page(node, from).await).await? else { continue };
            for info in finalized(&infos) {
                let Some(bad) = self.look(node, info, number).await else { return Ok(()) };
                self.ordered.update(|report| {
                    report.checked_count += 1;
                    report.checked_len += info.len;
                    report.bad_count += u64::from(bad);
                });
            }
            next = after(&infos);
        }
        Ok(())
    }

    /// Reads one replica; true if it is damaged. `None`: the order does not stand any more.
    async fn look(&self, node: &Arc<Node>, info: &ReplicaInfo, number: u64) -> Option<bool> {
        let stands = || self.standing(node, number).is_some();
        while stands() && node.copier.is_bad_full() {
            tokio::time::sleep(TOLD_PAUSE).await;
        }
        let ScrubOrder { len_per_s, .. } = self.standing(node, number)?;
        self.pace.rest_while(node.now(), info.len, len_per_s, stands).await;
        loop {
            self.standing(node, number)?;
            let looked = patient(verify(node, info.identity.block).await).await;
            match looked {
                Ok(None) => {}
                looked => return Some(looked.is_err_and(|error| error.is_damage())),
            }
        }
    }
}

/// What comes of work that may wait for a disk. `None`: a disk does not answer, or has just been given up; it is to be
/// tried again, and is then told from one that is out.
async fn patient<T>(done: Result<T, ReplicaError>) -> Result<Option<T>, ReplicaError> {
    match done {
        Err(ReplicaError::Hangs) => {
            tokio::time::sleep(PAUSE_MAX).await;
            Ok(None)
        }
        done => done.map(Some),
    }
}

/// Some replicas. No thread waits for a disk that was given up.
async fn page(node: &Node, from: BlockId) -> Result<Vec<ReplicaInfo>, ReplicaError> {
    node.disks.for_all(move |disks| disks.replicas(from, STEP_COUNT)).await?
}

/// Where the next page begins.
fn after(infos: &[ReplicaInfo]) -> Option<BlockId> {
    let next = infos.last().and_then(|last| last.identity.block.0.checked_add(1));
    next.filter(|_| infos.len() == STEP_COUNT).map(BlockId)
}

fn finalized(infos: &[ReplicaInfo]) -> impl Iterator<Item = &ReplicaInfo> {
    infos.iter().filter(|info| info.state == ReplicaState::Finalized)
}

/// Reads one replica. Damage is told.
async fn verify(node: &Arc<Node>, block: BlockId) -> Result<(), ReplicaError> {
    let at = Arc::clone(node);
    node.disks.for_block(block, move |_| at.copier.verify(&at, block)).await?
}
