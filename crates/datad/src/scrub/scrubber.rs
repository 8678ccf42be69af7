//! A pass over all replicas of this node, as the metadata server orders it.

use super::pages::{after, finalized, page, patient, verify};
use crate::contents::Contents;
use crate::job::Job;
use crate::replicas::Replicas;
use crate::stop::Stop;
use container::{ReplicaError, ReplicaInfo};
use std::sync::Arc;
use std::time::Duration;
use types::BlockId;
use wire::node::{ScrubOrder, ScrubReport};

/// Between looks whether there is room again for reports of damage.
const REPORT_WAIT: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Scrubber {
    replicas: Arc<Replicas>,
    contents: Arc<Contents>,
    job: Job<ScrubOrder>,
}

impl Scrubber {
    pub(crate) fn new(replicas: Arc<Replicas>, contents: Arc<Contents>, stop: Arc<Stop>) -> Self {
        Self { replicas, contents, job: Job::new(stop) }
    }

    /// What the metadata server wants.
    pub(crate) fn order(self: &Arc<Self>, order: ScrubOrder) {
        let scrubber = Arc::clone(self);
        self.job.order(order, "scrub", |number| async move { scrubber.pass(number).await });
    }

    /// For the heartbeat.
    pub(crate) fn report(&self) -> Option<ScrubReport> {
        self.job.report()
    }

    /// A pass that was ordered is under way.
    pub(crate) fn is_running(&self) -> bool {
        self.job.is_running()
    }

    /// One pass that was ordered.
    async fn pass(&self, number: u64) {
        let _at_work = self.job.at_work(number);
        let read = match self.measure(number).await {
            Ok(()) => self.read(number).await,
            Err(error) => Err(error),
        };
        match read {
            Ok(()) => self.contents.forget_all(),
            Err(error) => tracing::error!(%error, "a scrub was broken off"),
        }
    }

    /// Counts what there is to be read.
    async fn measure(&self, number: u64) -> Result<(), ReplicaError> {
        let mut next = Some(BlockId(0));
        while let Some(from) = next.filter(|_| self.job.standing(number).is_some()) {
            let Some(infos) = patient(page(&self.replicas, from).await).await? else { continue };
            self.job.update(|report| {
                report.total_count += finalized(&infos).count() as u64;
                report.total_len += finalized(&infos).map(|info| info.len).sum::<u64>();
            });
            next = after(&infos);
        }
        Ok(())
    }

    async fn read(&self, number: u64) -> Result<(), ReplicaError> {
        let mut next = Some(BlockId(0));
        while let Some(from) = next.filter(|_| self.job.standing(number).is_some()) {
            let Some(infos) = patient(page(&self.replicas, from).await).await? else { continue };
            for info in finalized(&infos) {
                let Some(bad) = self.look(info, number).await else { return Ok(()) };
                self.job.update(|report| {
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
    async fn look(&self, info: &ReplicaInfo, number: u64) -> Option<bool> {
        while self.job.standing(number).is_some() && self.replicas.node.with(|node| node.damage.is_full()) {
            tokio::time::sleep(REPORT_WAIT).await;
        }
        self.job.rest(number, self.replicas.now(), info.len).await?;
        loop {
            self.job.standing(number)?;
            let looked = patient(verify(&self.replicas, info.identity.block).await).await;
            match looked {
                Ok(None) => {}
                looked => return Some(looked.is_err_and(|error| error.is_damage())),
            }
        }
    }
}
