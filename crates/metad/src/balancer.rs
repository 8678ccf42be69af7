//! Calls of HDFS's balancing tools: which blocks a node has, and which other nodes have them.
//!
//! These tools cannot move blocks here: the store balances by itself (`levada admin balance`). `hdfs balancer` asks for
//! a server's version first, and is refused with that advice.

use crate::answer::Encoded;
use crate::core::Core;
use crate::refusal;
use crate::to_hdfs;
use crate::visit::Visit;
use hdfs::Exception;
use hdfs::exception::{HADOOP_ILLEGAL_ARGUMENT, ILLEGAL_ARGUMENT};
use hdfs::proto::*;
use lead::{Cluster, Member};
use namespace::BlockView;
use namespace::read::{Place, container_page};
use std::sync::Arc;
use types::random::Random;
use types::{ContainerId, NodeId};

/// Blocks in one answer, whatever size is asked for: about a megabyte.
const BLOCK_COUNT_MAX: usize = 10_000;
/// Blocks looked at for one answer: those that are too small count as well.
const LOOK_COUNT_MAX: usize = 200_000;
/// Read from the rows at once.
const PAGE_COUNT: usize = 1000;

pub(crate) async fn blocks_of(
    visit: &Visit,
    request: GetBlocksRequestProto,
) -> Result<GetBlocksResponseProto, Exception> {
    let core = Arc::clone(visit.core());
    let blocks = visit.core().look(move || get_blocks(&core, &request)).await?;
    Ok(GetBlocksResponseProto { blocks: BlocksWithLocationsProto { blocks } })
}

pub(crate) async fn version(_visit: &Visit) -> Result<Encoded, Exception> {
    Err(refusal::balances_itself())
}

/// Blocks of a node that are not too small, until they have the size asked for. As in HDFS a new call begins at a
/// random place, so that repeated calls return others.
fn get_blocks(core: &Core, request: &GetBlocksRequestProto) -> Result<Vec<BlockWithLocationsProto>, Exception> {
    if request.size == 0 || i64::try_from(request.size).is_err() {
        let message = format!("Unexpected not positive size: {}", request.size.cast_signed());
        return Err(Exception::new(ILLEGAL_ARGUMENT, message));
    }
    let found = core.with_cluster(|cluster, random| {
        let node = to_hdfs::node_id(cluster, &request.datanode)?;
        let of_node = cluster.pipelines_of(node).iter().flat_map(|id| cluster.containers_of(*id));
        let mut homes: Vec<ContainerId> = of_node.collect();
        homes.sort_unstable();
        let first = if homes.is_empty() { 0 } else { random.below(homes.len()) };
        homes.rotate_left(first);
        Some((node, homes))
    });
    let Some((node, homes)) = found else {
        let id = &request.datanode;
        let message = format!("Datanode {}:{} not found.", id.ip_addr, id.xfer_port);
        return Err(Exception::new(HADOOP_ILLEGAL_ARGUMENT, message));
    };
    let (mut blocks, mut len, mut looked) = (Vec::new(), 0u64, 0);
    for home in homes {
        let mut place = Some(Place::start(home));
        while let Some(from) = place {
            let page = core.rows_here(|rows| container_page(rows, home, from, PAGE_COUNT))?;
            looked += page.blocks.len();
            let large = page.blocks.iter().filter(|view| view.len >= request.min_block_size());
            for view in large {
                blocks.extend(core.with_cluster(|cluster, _| located(cluster, node, view)));
                len = len.saturating_add(view.len);
                assert!(blocks.len() <= BLOCK_COUNT_MAX, "{} blocks in one answer", blocks.len());
                if len >= request.size || blocks.len() >= BLOCK_COUNT_MAX {
                    return Ok(blocks);
                }
            }
            if looked >= LOOK_COUNT_MAX {
                return Ok(blocks);
            }
            place = page.next;
        }
    }
    Ok(blocks)
}

/// `None`: the node has not got all of the container yet.
fn located(cluster: &Cluster, node: NodeId, view: &BlockView) -> Option<BlockWithLocationsProto> {
    let has = |member: &&Member| cluster.is_whole(view.home, member.node.id);
    let members: Vec<&Member> = cluster.members(view.home).into_iter().filter(has).collect();
    members.iter().find(|member| member.node.id == node)?;
    Some(BlockWithLocationsProto {
        block: BlockProto { block_id: view.block.0, gen_stamp: view.generation.0, num_bytes: Some(view.len) },
        datanode_uuids: members.iter().map(|member| member.node.id.to_string()).collect(),
        storage_uuids: members.iter().map(|member| member.node.storage.clone()).collect(),
        storage_types: members.iter().map(|_| StorageTypeProto::Disk.into()).collect(),
    })
}
