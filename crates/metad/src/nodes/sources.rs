//! Who has a block, for a datanode that reads a file's layout: it connects to nobody whom a client alone names.

use super::binding::listed;
use super::messages::node_id;
use crate::refusal;
use crate::visit::Visit;
use hdfs::Exception;
use namespace::read::file_of_block;
use types::BlockId;
use wire::node::{BlockSources, SOURCE_BLOCK_COUNT_MAX, Source, SourcesRequest, SourcesResponse};

pub(crate) async fn sources(visit: &Visit, request: SourcesRequest) -> Result<SourcesResponse, Exception> {
    let core = visit.core();
    let node = node_id(&request.node)?;
    if listed(visit, &request.node, request.sender.as_ref())?.is_none() {
        return Ok(SourcesResponse::default());
    }
    if request.blocks.len() > SOURCE_BLOCK_COUNT_MAX {
        let count = request.blocks.len();
        return Err(refusal::illegal(format!("{count} blocks in one request; name at most {SOURCE_BLOCK_COUNT_MAX}")));
    }
    let blocks: Vec<BlockId> = request.blocks.into_iter().map(BlockId).collect();
    let views =
        core.rows(move |rows| blocks.iter().map(|block| file_of_block(rows, *block)).collect::<Result<Vec<_>, _>>());
    let now = core.monotonic();
    let mut found = Vec::new();
    for (_, view) in views.await?.into_iter().flatten() {
        let sources = core.with_leader(|leader, random| {
            let members = leader.readers_order(&view, None, now, random).into_iter();
            let others = members.filter(|member| member.node.id != node && member.is_live(now));
            others.map(|member| Source { node: member.node.id.to_string(), addr: member.node.xfer_addr() }).collect()
        });
        found.push(BlockSources { block: view.block.0, sources });
    }
    Ok(SourcesResponse { known: true, blocks: found })
}
