//! The heartbeat of a session: what changed on this node, and what its parts are at.

use super::broken::Broken;
use super::session::Session;
use datanode::session::HEARTBEAT_EACH;
use datanode::{Held, Standing, Told};
use io::{Clock, SystemClock};
use std::sync::Arc;
use std::time::Duration;
use wire::node::{DISK_COUNT_MAX, Disk, HEARTBEAT, HeartbeatRequest};

const _: () = assert!(disks::DISK_COUNT_MAX <= DISK_COUNT_MAX);

impl Session {
    /// Tells that the node lives, and to who leads what changed, if that is to be told now; answers what the server is
    /// now.
    pub(super) async fn heartbeat(&self, standing: Standing, sends_changes: bool) -> Result<Standing, Broken> {
        let (replicas, node) = (&self.replicas, &self.replicas.node);
        let beat = node.heartbeats().begin();
        let usage = Some(self.usage());
        if !standing.leads() {
            let node = self.replicas.disks.node_id().to_string();
            let transfer_count = self.admission.transfer_count() as u32;
            let sender = self.sender();
            let request = HeartbeatRequest { node, usage, transfer_count, sender, ..HeartbeatRequest::default() };
            let orders = self.orders(HEARTBEAT, &request).await?;
            let standing = Standing::of_answer(&orders);
            self.obey(orders);
            return Ok(standing);
        }
        self.maintenance.copier.tend();
        let left_for = Duration::from_millis(self.registration.config.limits.left_open_ms);
        let mut told = node.with(|node| node.begin_heartbeat(replicas.now(), sends_changes, left_for));
        let left_open = self.left_open(&mut told).await;
        let (changes, copy_count) =
            node.with(|node| (node.heartbeat(replicas.now(), &mut told, &left_open), node.copies.running_count()));
        let request = HeartbeatRequest {
            node: replicas.disks.node_id().to_string(),
            usage,
            transfer_count: (self.admission.transfer_count() + copy_count) as u32,
            scrub: self.maintenance.scrubber.report(),
            disks: replicas.disks.reports().into_iter().map(Disk::from).collect(),
            disk_balance: self.maintenance.disk_balance.report(),
            sender: self.sender(),
            clock_ms: SystemClock::new().now().0,
            ..changes
        };
        match self.orders(HEARTBEAT, &request).await {
            Ok(orders) => {
                let standing = Standing::of_answer(&orders);
                let leads = standing.leads();
                node.with(|node| node.answered(told, leads));
                if leads {
                    node.heartbeats().answered(beat);
                }
                self.obey(orders);
                Ok(standing)
            }
            Err(broken) => {
                node.with(|node| node.unanswered(told));
                Err(broken)
            }
        }
    }

    /// Those that were left open and are so still. If a disk does not say so at once, that is told later.
    async fn left_open(&self, told: &mut Told) -> Vec<Held> {
        if told.left().is_empty() {
            return Vec::new();
        }
        let (at, left) = (Arc::clone(&self.replicas), told.left().to_vec());
        let look =
            self.replicas.disks.for_all(move |_| left.into_iter().filter_map(|block| at.left_open(block)).collect());
        match tokio::time::timeout(HEARTBEAT_EACH, look).await {
            Ok(Ok(left_open)) => left_open,
            Ok(Err(_)) | Err(_) => {
                self.replicas.node.with(|node| node.did_not_look(told));
                Vec::new()
            }
        }
    }
}
