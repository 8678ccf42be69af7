//! The heartbeat of a session: what changed on this node, and what its parts are at.

use super::broken::Broken;
use super::session::{HEARTBEAT_EACH, Session};
use super::standing::Standing;
use crate::changes::Batch;
use crate::copier::Report;
use std::sync::Arc;
use std::time::Duration;
use types::DiskReport;
use wire::node::{DISK_COUNT_MAX, Disk, HEARTBEAT, HeartbeatRequest, Replica};

const _: () = assert!(disks::DISK_COUNT_MAX <= DISK_COUNT_MAX);

impl Session {
    /// Tells that the node lives, and to who leads what changed, if that is to be told now; answers what the server is
    /// now.
    pub(super) async fn heartbeat(&self, standing: Standing, sends_changes: bool) -> Result<Standing, Broken> {
        let beat = self.replicas.changes.heartbeats().begin();
        let usage = Some(self.usage());
        if standing == Standing::Standby {
            let node = self.replicas.disks.node_id().to_string();
            let transfer_count = self.admission.transfer_count() as u32;
            let sender = self.sender();
            let request = HeartbeatRequest { node, usage, transfer_count, sender, ..HeartbeatRequest::default() };
            let orders = self.orders(HEARTBEAT, &request).await?;
            let standing = Standing::of(orders.standby, orders.term);
            self.obey(orders);
            return Ok(standing);
        }
        self.maintenance.copier.tend();
        let left_for = Duration::from_millis(self.registration.config.limits.left_open_ms);
        let mut batch = if sends_changes {
            self.replicas.changes.take(self.replicas.now().checked_sub(left_for))
        } else {
            Batch::default()
        };
        let stale = self.left_open(&mut batch).await;
        let Batch { put, deleted, left: _ } = batch.clone();
        let node = self.replicas.disks.node_id().to_string();
        let transfer_count = (self.admission.transfer_count() + self.maintenance.copier.running_count()) as u32;
        let Report { copying, failures: copy_failures } = self.maintenance.copier.report(self.replicas.now());
        let bad = self.replicas.damage.report(self.replicas.now());
        let deletions_waiting = u32::try_from(self.replicas.deletions.len()).unwrap_or(u32::MAX);
        let request = HeartbeatRequest {
            node,
            usage,
            transfer_count,
            put,
            deleted,
            stale,
            copying,
            copy_failures,
            bad,
            deletions_waiting,
            scrub: self.maintenance.scrubber.report(),
            disks: self.replicas.disks.reports().into_iter().map(disk_message).collect(),
            disk_balance: self.maintenance.disk_balance.report(),
            sender: self.sender(),
        };
        let told_bad = request.bad.clone();
        match self.orders(HEARTBEAT, &request).await {
            Ok(orders) => {
                let standing = Standing::of(orders.standby, orders.term);
                if standing == Standing::Standby {
                    self.replicas.changes.give_back(batch);
                } else {
                    self.replicas.changes.heartbeats().answered(beat);
                    self.replicas.damage.acknowledge(&told_bad);
                }
                self.obey(orders);
                Ok(standing)
            }
            Err(broken) => {
                self.replicas.changes.give_back(batch);
                Err(broken)
            }
        }
    }

    /// Those of the batch that were left open and are so still. If a disk does not say so at once, that is told later.
    async fn left_open(&self, batch: &mut Batch) -> Vec<Replica> {
        if batch.left.is_empty() {
            return Vec::new();
        }
        let (at, left) = (Arc::clone(&self.replicas), batch.left.clone());
        let look =
            self.replicas.disks.for_all(move |_| left.into_iter().filter_map(|block| at.left_open(block)).collect());
        match tokio::time::timeout(HEARTBEAT_EACH, look).await {
            Ok(Ok(stale)) => stale,
            Ok(Err(_)) | Err(_) => {
                let left = std::mem::take(&mut batch.left);
                self.replicas.changes.give_back(Batch { left, ..Batch::default() });
                Vec::new()
            }
        }
    }
}

/// A disk as it is reported to the metadata server.
fn disk_message(disk: DiskReport) -> Disk {
    Disk {
        volume: disk.volume,
        dir: disk.dir,
        failure: disk.failure,
        capacity_len: disk.capacity_len,
        used_len: disk.used_len,
        free_len: disk.free_len,
        replica_count: disk.replica_count,
        stream_count: disk.stream_count,
        unread_ms: disk.unread_ms,
    }
}
