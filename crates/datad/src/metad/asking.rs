//! Asks the metadata server that leads who has a block: other nodes are connected to on its word alone.

use super::leader::Leader;
use rpc::{CallError, Client};
use std::sync::PoisonError;
use wire::node::{SOURCES, Sender, SourcesRequest, SourcesResponse};

/// Over the connection on which this node registered: another one would have to register, too.
#[derive(Clone, Debug)]
pub(super) struct Asker {
    /// Of the session.
    pub(super) number: usize,
    pub(super) metad: Client,
    pub(super) node: String,
    pub(super) sender: Option<Sender>,
}

/// Why nothing is known of it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error("no metadata server leads, as far as this node knows")]
    NoLeader,
    #[error(transparent)]
    Call(#[from] CallError),
}

impl Leader {
    /// There is a session with one that leads.
    pub(super) fn note_asker(&self, asker: Asker) {
        *self.asker.lock().unwrap_or_else(PoisonError::into_inner) = Some(asker);
    }

    /// That session broke.
    pub(super) fn forget_asker(&self, number: usize) {
        let mut asker = self.asker.lock().unwrap_or_else(PoisonError::into_inner);
        asker.take_if(|asker| asker.number == number);
    }

    /// Addresses of nodes that have a block, as the leader knows them.
    pub(crate) async fn sources(&self, block: u64) -> Result<Vec<String>, AskError> {
        let asker = self.asker.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or(AskError::NoLeader)?;
        let Asker { metad, node, sender, .. } = asker;
        let request = SourcesRequest { node, sender, blocks: vec![block] };
        let SourcesResponse { blocks, .. } = metad.call(SOURCES, &request).await?;
        let of_block = blocks.into_iter().filter(|found| found.block == block);
        Ok(of_block.flat_map(|found| found.sources).map(|source| source.addr).collect())
    }
}
