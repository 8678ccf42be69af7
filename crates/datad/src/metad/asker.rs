//! Asks the metadata server that leads who has a block: other nodes are connected to on its word alone. And tells it
//! goodbye.

use rpc::{CallError, Client};
use wire::node::{HEARTBEAT, HeartbeatRequest, Orders, SOURCES, Sender, SourcesRequest, SourcesResponse};

/// Over the connection on which this node registered: another one would have to register, too.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    /// Of the session.
    pub(super) number: usize,
    pub(super) metad: Client,
    pub(super) node: String,
    pub(super) sender: Option<Sender>,
}

impl Asker {
    /// The process ends now, and the node is to be back within so long.
    pub(crate) async fn goodbye(self, leaving_ms: u64) -> Result<(), CallError> {
        let Self { metad, node, sender, .. } = self;
        let request = HeartbeatRequest { node, sender, leaving_ms, ..HeartbeatRequest::default() };
        let _orders: Orders = metad.call(HEARTBEAT, &request).await?;
        Ok(())
    }

    /// Addresses of nodes that have a block, as the leader knows them.
    pub(crate) async fn sources(self, block: u64) -> Result<Vec<String>, CallError> {
        let Self { metad, node, sender, .. } = self;
        let request = SourcesRequest { node, sender, blocks: vec![block] };
        let SourcesResponse { blocks, .. } = metad.call(SOURCES, &request).await?;
        let of_block = blocks.into_iter().filter(|found| found.block == block);
        Ok(of_block.flat_map(|found| found.sources).map(|source| source.addr).collect())
    }
}
