//! The catalogue of a session: all replicas that are here, page by page.

use super::broken::Broken;
use super::session::Session;
use crate::replicas::held;
use container::ReplicaInfo;
use datanode::Held;
use datanode::catalogue::{self, HELD_BACK_MAX, PAGE_COUNT};
use datanode::session::HEARTBEAT_EACH;
use types::BlockId;
use wire::node::{CATALOGUE, CatalogueRequest};

impl Session {
    /// A page of what is here, from this block on. Heartbeats go on while a disk does not answer: what changed is told
    /// behind a page that was looked up before it changed, or else the page is looked up again. `None`: the server is
    /// something else now.
    async fn page(&self, from: BlockId, session: &mut datanode::Session) -> Result<Option<Vec<ReplicaInfo>>, Broken> {
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
                let now = self.heartbeat(session.standing(), sends_changes).await?;
                if self.replicas.disks.failed_disks() != failed_disks {
                    return Err(Broken::DiskFailed);
                }
                if !session.is_still(now) {
                    return Ok(None);
                }
            };
            match found {
                Ok(infos) if !sent_changes => return Ok(Some(infos?)),
                Ok(_outdated) => {}
                Err(_hangs) => tokio::time::sleep(HEARTBEAT_EACH).await,
            }
        }
    }

    /// Reports all replicas, in pages. False: the server is something else than it was, and not all has been reported.
    pub(super) async fn catalogue(&self, session: &mut datanode::Session) -> Result<bool, Broken> {
        let mut from = BlockId(0);
        loop {
            let Some(infos) = self.page(from, session).await? else { return Ok(false) };
            let held: Vec<Held> = infos.iter().map(held).collect();
            let page = catalogue::page(from, &held, PAGE_COUNT, |block| self.replicas.is_writing(block));
            let node = self.replicas.disks.node_id().to_string();
            let request = CatalogueRequest { node, sender: self.sender(), ..page };
            let orders = self.orders(CATALOGUE, &request).await?;
            self.obey(orders);
            match request.through.checked_add(1) {
                Some(next) => from = BlockId(next),
                None => return Ok(true),
            }
        }
    }
}
