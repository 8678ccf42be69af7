//! Work on replicas that no client waits for: what metadata servers order beside deletions, and the background scrub.

use crate::config::Limits;
use crate::contents::{self, Contents};
use crate::copier::Copier;
use crate::deleter;
use crate::disk_balance::DiskBalance;
use crate::operations::Operations;
use crate::outward::Outward;
use crate::owner_recorder::OwnerRecorder;
use crate::replicas::Replicas;
use crate::scrub::{self, Rate, Scrubber};
use crate::stop::Stop;
use datanode::Rest;
use io::task::{Owned, spawn_owned};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Maintenance {
    replicas: Arc<Replicas>,
    pub(crate) contents: Arc<Contents>,
    pub(crate) copier: Arc<Copier>,
    owner_recorder: Arc<OwnerRecorder>,
    pub(crate) scrubber: Arc<Scrubber>,
    pub(crate) disk_balance: Arc<DiskBalance>,
    scrub_rate: Rate,
    /// How long a disk may be silent.
    disk_answer_max: Duration,
}

impl Maintenance {
    pub(crate) fn new(
        replicas: &Arc<Replicas>,
        operations: &Arc<Operations>,
        stop: &Arc<Stop>,
        limits: &Limits,
        outward: &Arc<Outward>,
    ) -> Self {
        let contents = Arc::new(Contents::new(Arc::clone(replicas), Arc::clone(stop)));
        let copier = Copier::new(
            Arc::clone(replicas),
            Arc::clone(&contents),
            Arc::clone(operations),
            limits.clone(),
            Arc::clone(stop),
            Arc::clone(outward),
        );
        Self {
            copier: Arc::new(copier),
            owner_recorder: Arc::new(OwnerRecorder::new(replicas.disks.clone())),
            scrubber: Arc::new(Scrubber::new(Arc::clone(replicas), Arc::clone(&contents), Arc::clone(stop))),
            disk_balance: Arc::new(DiskBalance::new(Arc::clone(replicas), Arc::clone(stop))),
            scrub_rate: Rate {
                period: Duration::from_millis(limits.scrub_period_ms),
                len_per_s: limits.scrub_len_per_s,
            },
            disk_answer_max: Duration::from_millis(limits.disk_answer_ms),
            replicas: Arc::clone(replicas),
            contents,
        }
    }

    /// Begins what goes on for ever, until the tasks are dropped.
    pub(crate) fn start(&self) -> Vec<Owned<()>> {
        let owner_recorder = Arc::clone(&self.owner_recorder);
        let mut tasks = vec![
            spawn_owned("contents", contents::run(Arc::clone(&self.contents))),
            spawn_owned("owners", async move { owner_recorder.run().await }),
        ];
        for number in 0..self.replicas.disks.disks().len() {
            let node = Arc::clone(&self.replicas.node);
            let on_failure = move || node.report_soon();
            let watch = disks::watch(self.replicas.disks.clone(), number, self.disk_answer_max, on_failure);
            tasks.push(spawn_owned("disk", watch));
            tasks.push(spawn_owned("deleter", deleter::run(Arc::clone(&self.replicas), number)));
            let (replicas, contents) = (Arc::clone(&self.replicas), Arc::clone(&self.contents));
            let scrub = scrub::background(replicas, contents, Arc::clone(&self.scrubber), self.scrub_rate, number);
            tasks.push(spawn_owned("scrub", scrub));
        }
        tasks.push(spawn_owned("resolve duplicates", disks::resolve_duplicates(self.replicas.disks.clone())));
        tasks
    }

    /// What the metadata server wants, but for deletions: there may be copies to begin with.
    pub(crate) fn order(&self, Rest { owners, scrub, disk_balance, keys_refused: _ }: Rest) {
        self.copier.begin();
        if let Some(scrub) = scrub {
            self.scrubber.order(scrub);
        }
        if let Some(balance) = disk_balance {
            self.disk_balance.order(balance);
        }
        self.owner_recorder.order(owners);
    }
}
