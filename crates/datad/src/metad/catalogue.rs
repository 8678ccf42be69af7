//! The catalogue of a session: all replicas that are here, page by page.

use super::broken::Broken;
use super::session::{HEARTBEAT_EACH, Session};
use super::standing::Standing;
use crate::replicas::report;
use container::ReplicaInfo;
use std::time::Duration;
use types::{BlockId, ReplicaState};
use wire::node::{CATALOGUE, CatalogueRequest, PAGE_COUNT_MAX};

/// What changed is not told for so long while a disk does not say what it has.
const HELD_BACK_MAX: Duration = Duration::from_secs(20);
/// Replicas in a page: small enough that a page is looked up and sent in a blink.
const PAGE_COUNT: usize = 2000;

const _: () = assert!(PAGE_COUNT <= PAGE_COUNT_MAX);

impl Session {
    /// A page of what is here, from this block on. Heartbeats go on while a disk does not answer: what changed is told
    /// behind a page that was looked up before it changed, or else the page is looked up again. `Err` inside: the
    /// server is something else now.
    async fn page(&self, from: BlockId, standing: Standing) -> Result<Result<Vec<ReplicaInfo>, Standing>, Broken> {
        let failed_disks = self.replicas.disks.failed_disks();
        loop {
            let lookup = self.replicas.disks.for_all(move |disks| disks.replicas(from, PAGE_COUNT));
            let mut lookup = std::pin::pin!(lookup);
            let (began, mut sent_changes) = (self.replicas.now(), false);
            let found = loop {
                if let Ok(found) = tokio::time::timeout(HEARTBEAT_EACH, &mut lookup).await {
                    break found;
                }
                let sends_changes = self.replicas.now() >= began + HELD_BACK_MAX;
                sent_changes |= sends_changes;
                let now = self.heartbeat(standing, sends_changes).await?;
                if self.replicas.disks.failed_disks() != failed_disks {
                    return Err(Broken::DiskFailed);
                }
                if now != standing {
                    return Ok(Err(now));
                }
            };
            match found {
                Ok(infos) if !sent_changes => return Ok(Ok(infos?)),
                Ok(_outdated) => {}
                Err(_hangs) => tokio::time::sleep(HEARTBEAT_EACH).await,
            }
        }
    }

    /// Reports all replicas, in pages that together cover all block ids.
    /// Answers what the server is then: if it is something else than it was, not all has been reported.
    pub(super) async fn catalogue(&self, standing: Standing) -> Result<Standing, Broken> {
        let mut from = 0;
        loop {
            let infos = match self.page(BlockId(from), standing).await? {
                Ok(infos) => infos,
                Err(now) => return Ok(now),
            };
            let through = match infos.last() {
                Some(last) if infos.len() == PAGE_COUNT => last.identity.block.0,
                _ => u64::MAX,
            };
            let busy = |block| self.replicas.is_writing(block);
            let (writing, reported): (Vec<_>, Vec<_>) = infos.iter().partition(|info| {
                info.state != ReplicaState::Finalized && (info.has_writer || busy(info.identity.block))
            });
            let request = CatalogueRequest {
                node: self.replicas.disks.node_id().to_string(),
                from,
                through,
                replicas: reported.into_iter().map(report).collect(),
                writing: writing.into_iter().map(|info| info.identity.block.0).collect(),
                sender: self.sender(),
            };
            let orders = self.orders(CATALOGUE, &request).await?;
            self.obey(orders);
            match through.checked_add(1) {
                Some(next) => from = next,
                None => return Ok(standing),
            }
        }
    }
}
