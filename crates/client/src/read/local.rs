//! What of a file is read from replicas on this machine: the one place where that is decided.

use super::source::Source;
use crate::local_replica::LocalReplica;
use crate::located::{Located, Node};
use std::sync::Arc;
use wire::Abilities;

/// Shorter replicas share files, which are not passed; and a request for the bytes takes no longer than one for
/// descriptors. `container::Options::pack_len_max`.
const LEN_MIN: u64 = (256 << 10) + 1;

impl Source {
    /// Fills `dest` with bytes of a block, if a replica on this machine has them: verified. False: they are to be read
    /// over TCP, and whatever is wrong is said there.
    pub(super) async fn read_local(&self, block: &Located, from: u64, dest: &mut [u8]) -> bool {
        let local = self.local_replica(block).await;
        // A server may say that the block has more by now.
        let Some((node, replica)) = local.filter(|(_, replica)| replica.len() >= block.len) else { return false };
        let Err(failed) = replica.read_at(from, dest).await else {
            self.file.client.store().local_nodes().count_read(dest.len() as u64);
            return true;
        };
        // Not reported, even where the bytes are wrong: open files may have been recovered to another generation in
        // place. The read over TCP that follows verifies what the datanode says that it has.
        tracing::info!(path = %self.file.path, node = %node.addr, error = %failed, "a replica on this machine failed");
        self.local.set(block, None);
        false
    }

    async fn local_replica(&self, block: &Located) -> Option<(Node, Arc<LocalReplica>)> {
        let client = &self.file.client;
        let options = client.options();
        if !options.local_reads || options.gateway.is_some() || block.len < LEN_MIN {
            return None;
        }
        if let Some(known) = self.local.find(block) {
            return known.replica;
        }
        let _asking = self.local.asking.lock().await;
        if let Some(known) = self.local.find(block) {
            return known.replica;
        }
        let is_able = client.defaults().await.is_ok_and(|defaults| defaults.abilities.has(Abilities::LOCAL_READS));
        let replica = if is_able { client.local_replica(block).await } else { None };
        let replica = replica.map(|(node, replica)| (node, Arc::new(replica)));
        self.local.set(block, replica.clone());
        replica
    }
}
