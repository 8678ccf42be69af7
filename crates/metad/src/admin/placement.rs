//! Reports on pipelines, containers, and under-replicated blocks.

use crate::core::Core;
use crate::refusal;
use crate::repair::census;
use blocks::ContainerState;
use hdfs::Exception;
use lead::{Cluster, LackingBlock, TreesCompared, UnsoundReplicas};
use namespace::read;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{BlockId, ContainerId, NodeId, PipelineId};
use wire::admin::placement::{self as message, PAGE_COUNT_MAX, PageRequest, Trouble};

pub(super) fn pipelines(core: &Core, request: PageRequest) -> message::ListPipelinesResponse {
    let now = core.monotonic();
    core.with_cluster(|cluster, _| {
        let behind = cluster.pipelines().skip_while(|(id, _)| *id <= PipelineId(request.after));
        let mut pipelines: Vec<_> = behind
            .take(PAGE_COUNT_MAX + 1)
            .map(|(id, pipeline)| {
                let row = &pipeline.row;
                let joining = row.joining.iter().map(|(node, _)| name(cluster, *node)).collect();
                let live = |node: &&NodeId| cluster.node(**node).is_some_and(|member| member.is_live(now));
                message::Pipeline {
                    id: id.0,
                    epoch: row.epoch.0,
                    wanted: row.wanted.into(),
                    planned: row.planned,
                    members: row.members.iter().map(|node| name(cluster, *node)).collect(),
                    joining,
                    container_count: row.container_count,
                    len: pipeline.len_about(),
                    live_count: row.members.iter().filter(live).count() as u32,
                }
            })
            .collect();
        let more = pipelines.len() > PAGE_COUNT_MAX;
        pipelines.truncate(PAGE_COUNT_MAX);
        message::ListPipelinesResponse { pipelines, more }
    })
}

pub(super) fn containers(core: &Core, request: PageRequest) -> message::ListContainersResponse {
    let mut page = placed(core, request);
    let leader = core.leader();
    for container in &mut page.containers {
        let (compared, root) = match leader.hash_trees.of(ContainerId(container.id)) {
            TreesCompared::Never => (message::Compared::Never, String::new()),
            TreesCompared::Alike(root) => (message::Compared::Alike, format!("{:016x}{:016x}", root.high, root.low)),
            TreesCompared::Differ => (message::Compared::Differ, String::new()),
        };
        (container.compared, container.root) = (compared.into(), root);
    }
    page
}

fn placed(core: &Core, request: PageRequest) -> message::ListContainersResponse {
    core.with_cluster(|cluster, _| {
        let behind = cluster.containers_behind(ContainerId(request.after));
        let mut containers: Vec<_> = behind
            .take(PAGE_COUNT_MAX + 1)
            .map(|(id, container)| message::Container {
                id: id.0,
                pipeline: container.pipeline.0,
                state: match container.state {
                    ContainerState::Open => message::ContainerState::Open,
                    ContainerState::Sealing => message::ContainerState::Sealing,
                    ContainerState::Sealed => message::ContainerState::Sealed,
                }
                .into(),
                leased: container.leased_index_count(),
                len: container.len_about(),
                members: cluster.member_ids(id).iter().map(|node| name(cluster, *node)).collect(),
                whole: cluster.member_ids(id).iter().all(|node| cluster.is_whole(id, *node)),
                ..message::Container::default()
            })
            .collect();
        let more = containers.len() > PAGE_COUNT_MAX;
        containers.truncate(PAGE_COUNT_MAX);
        message::ListContainersResponse { containers, more }
    })
}

fn name(cluster: &Cluster, node: NodeId) -> String {
    cluster.node(node).map_or_else(|| node.to_string(), |member| member.node.xfer_addr())
}

/// What of one block is told.
struct Found {
    block: BlockId,
    home: ContainerId,
    trouble: Trouble,
    node: Option<NodeId>,
}

/// The worst first: missing blocks, contradictory ones, corrupt ones, under-replicated ones.
pub(crate) async fn under_replicated(
    core: &Arc<Core>,
    _request: message::UnderReplicatedRequest,
) -> Result<message::UnderReplicatedResponse, Exception> {
    let census = census::latest(core).await.map_err(refusal::rows)?;
    let (progress, found) = {
        let leader = core.leader();
        let repair = &leader.repair;
        let copying: BTreeMap<BlockId, NodeId> = repair.lacks().map(|lack| (lack.block, lack.node)).collect();
        let poor = |poor: &LackingBlock, trouble| {
            let block = poor.view.block;
            Found { block, home: poor.view.home, trouble, node: copying.get(&block).copied() }
        };
        let of = |block, home, trouble, node| Found { block, home, trouble, node };
        let (missing, short) = census.named.split_at(census.named.partition_point(|poor| poor.live == 0));
        let missing = missing.iter().map(|one| poor(one, Trouble::Missing));
        let at_odds =
            leader.hash_trees.contradictions().map(|(block, home)| of(block, home, Trouble::Contradictory, None));
        let damaged = repair.bad().map(|(block, node)| of(block, ContainerId(0), Trouble::Damaged, Some(node)));
        let short = short.iter().map(|one| poor(one, Trouble::Short));
        let found: Vec<Found> = missing.chain(at_odds).chain(damaged).chain(short).take(PAGE_COUNT_MAX).collect();
        (repair.progress(), found)
    };
    let at = core;
    let core = Arc::clone(core);
    at.look(move || {
        let known = census::unsound(&core);
        let blocks = found.into_iter().map(|found| named(&core, &known, found)).collect::<Result<_, _>>()?;
        Ok(message::UnderReplicatedResponse {
            blocks,
            short_count: progress.lack_count as u64,
            missing_count: census.missing,
            damaged_count: progress.bad_count as u64,
            suspect_count: progress.suspect_count as u64,
            under_replicated_count: census.under_replicated,
            corrupt_count: census.corrupt,
            pending_count: census.pending,
            room_lacking_len: core.leader().shortage.len,
        })
    })
    .await
}

fn named(core: &Core, known: &UnsoundReplicas, found: Found) -> Result<message::ShortBlock, Exception> {
    let Found { block, home, trouble, node } = found;
    let (path, view, wanted) = core.rows_here(|rows| match read::file_of_block(rows, block)? {
        Some((file, view)) => Ok((read::path_of_inode(rows, file)?, Some(view), read::replication(rows, view.file)?)),
        None => Ok((None, None, None)),
    })?;
    let datanode = core.with_cluster(|cluster, _| node.map(|node| name(cluster, node)));
    Ok(message::ShortBlock {
        block: block.0,
        container: view.map_or(home, |view| view.home).0,
        path: path.unwrap_or_default(),
        trouble: trouble.into(),
        datanode: datanode.unwrap_or_default(),
        source_count: view.map_or(0, |view| census::holders(core, known, &view).len() as u32),
        wanted_count: wanted.unwrap_or_default().into(),
        len: view.map_or(0, |view| view.len),
    })
}
