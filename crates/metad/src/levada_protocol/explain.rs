//! Where the blocks of a file are, why there, and what is being done about them: `levada explain`.

use crate::core::{Core, must_find};
use crate::refusal;
use crate::repair::{self, census};
use crate::session::Session;
use crate::to_wire;
use blocks::{ContainerState, Service};
use hdfs::Exception;
use lead::{Lack, Leader, LivenessRules, UnsoundReplicas};
use namespace::{BlockView, read};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use types::{BlockId, Millis, NodeId};
use wire::client::{
    ContainerState as StateSent, EXPLAINED_COUNT_MAX, ExplainFileRequest, ExplainFileResponse, ExplainedBlock,
    ExplainedReplica, PlaceState,
};

/// Longer than any block: a page of it has blocks enough.
const LOOK_LEN: u64 = i64::MAX as u64;

pub(crate) async fn explain_file(
    core: &Arc<Core>,
    session: &Session,
    request: ExplainFileRequest,
) -> Result<ExplainFileResponse, Exception> {
    if request.offset > LOOK_LEN {
        return Err(refusal::illegal("no file has that byte"));
    }
    let path = must_find("explainFile", &request.path)?;
    let caller = session.caller.clone();
    let file = core.read(move |rows| read::located(rows, &caller, &path, request.offset, LOOK_LEN)).await?;
    let its_core = Arc::clone(core);
    core.walk(session, move || {
        let (known, rules, wall) = (census::unsound(&its_core), repair::rules(&its_core), its_core.now());
        let (more, leader) = (file.blocks.len() > EXPLAINED_COUNT_MAX, its_core.leader());
        let shown = || file.blocks.iter().take(EXPLAINED_COUNT_MAX);
        let mut lacks: BTreeMap<(BlockId, NodeId), &Lack> = BTreeMap::new();
        if let (Some(first), Some(last)) = (shown().map(|view| view.block).min(), shown().map(|view| view.block).max())
        {
            let of_file = leader.repair.lacks().filter(|lack| (first..=last).contains(&lack.block));
            lacks.extend(of_file.map(|lack| ((lack.block, lack.node), lack)));
        }
        let blocks = shown().map(|view| explained(&leader, &known, &lacks, (&rules, wall), view)).collect();
        Ok(ExplainFileResponse {
            len: file.status.len,
            replication: file.status.replication.into(),
            blocks,
            more,
            room_lacking_len: leader.shortage.len,
        })
    })
    .await
}

fn explained(
    leader: &Leader,
    known: &UnsoundReplicas,
    lacks: &BTreeMap<(BlockId, NodeId), &Lack>,
    (rules, wall): (&LivenessRules, Millis),
    view: &BlockView,
) -> ExplainedBlock {
    let (cluster, now) = (&leader.cluster, rules.now);
    let holders: BTreeSet<NodeId> = known.holders(cluster, rules, view).collect();
    let container = cluster.container(view.home);
    let pipeline = container.and_then(|container| cluster.pipeline(container.pipeline));
    let members = cluster.member_ids(view.home).iter();
    let state = |node: NodeId| {
        if known.is_bad(view.block, node) {
            return PlaceState::Damaged;
        }
        if cluster.node(node).is_none_or(|member| !member.is_up(now)) {
            return PlaceState::Down;
        }
        if holders.contains(&node) { PlaceState::Here } else { PlaceState::Copying }
    };
    let replicas = members.map(|node| {
        let member = cluster.node(*node);
        let sources = lacks.get(&(view.block, *node)).map_or(&[][..], |lack| &lack.sources);
        let (leave, leave_left_ms) = to_wire::leave(member.and_then(|member| member.leave), wall);
        ExplainedReplica {
            datanode: name(leader, *node),
            rack: member.map_or_else(String::new, |member| member.node.rack.clone()),
            state: state(*node).into(),
            silent_ms: member.and_then(|member| member.seen()).map(|seen| now.saturating_sub(seen).as_millis() as u64),
            draining: member.is_some_and(|member| member.service == Service::Draining),
            sources: sources.iter().map(|node| name(leader, *node)).collect(),
            leave: leave.into(),
            leave_left_ms,
        }
    });
    assert!(holders.iter().all(|node| cluster.node(*node).is_some()), "who holds a block is a datanode");
    let elsewhere = leader.sources_outside(view, now).into_iter();
    ExplainedBlock {
        block: view.block.0,
        generation: view.generation.0,
        offset: view.offset,
        len: view.len,
        complete: view.complete,
        container: view.home.0,
        container_state: match container.map(|container| container.state) {
            Some(ContainerState::Open) | None => StateSent::Open,
            Some(ContainerState::Sealing) => StateSent::Sealing,
            Some(ContainerState::Sealed) => StateSent::Sealed,
        }
        .into(),
        pipeline: container.map_or(0, |container| container.pipeline.0),
        epoch: pipeline.map_or(0, |pipeline| pipeline.row.epoch.0),
        replicas: replicas.collect(),
        elsewhere: elsewhere.map(|member| member.node.xfer_addr()).collect(),
        waits_for_comparison: leader.repair.is_suspected(view.home),
    }
}

fn name(leader: &Leader, node: NodeId) -> String {
    leader.cluster.node(node).map_or_else(|| node.to_string(), |member| member.node.xfer_addr())
}
