//! Registration of datanode processes, and the check whether a process's message counts.
//!
//! `Cluster::claim` and `Cluster::standing` decide.

use super::binding::{bind, must_be_free, process_of};
use super::messages::{described, short, usage, version};
use crate::block_tokens;
use crate::command;
use crate::core::Core;
use crate::leadership::Leadership;
use crate::principal::RegisteredNode;
use crate::rack_lookup;
use crate::refusal;
use crate::topology_script::DEFAULT_RACK;
use blocks::Node;
use hdfs::Exception;
use lead::{Claim, Crowded, Leader, NodeUsage, Standing};
use rpc::Call;
use std::sync::Arc;
use types::Millis;
use types::mutation::{self, Mutation};
use wire::node::{NODE_IN_USE, NODE_SUPERSEDED, RegisterRequest, RegisterResponse};

/// By which a datanode's clock may be ahead of this server's when it begins. A guess, far above what clocks differ by.
const CLOCK_AHEAD_MAX_MS: u64 = 24 * 3600 * 1000;

/// Whether a message counts of a process that registered over its connection. False: it is to register again. A
/// newcomer becomes a node by its first heartbeat, which has a `usage`.
pub(super) async fn admit(
    core: &Arc<Core>,
    leadership: &Leadership,
    call: &Call,
    RegisteredNode { id: node, incarnation }: RegisteredNode,
    xfer_addr: &str,
    usage: Option<NodeUsage>,
) -> Result<bool, Exception> {
    let now = core.monotonic();
    match core.with_cluster(|cluster, _| cluster.standing(now, node, incarnation, xfer_addr)) {
        Standing::Superseded { .. } if mutation::is(Mutation::BelieveCopies) => Ok(true),
        Standing::Current => Ok(true),
        Standing::Superseded { addr } => {
            if let Some(passed_over) = leadership.refusals.superseded.due() {
                let was = short(xfer_addr);
                tracing::warn!(
                    %node, was, is = addr, passed_over,
                    "a process is refused: another one has its node's id"
                );
            }
            Err(Exception::new(
                NODE_SUPERSEDED,
                format!(
                    "another process has registered as datanode {node}, at {addr}. Two cannot have one id: if a disk \
                     or machine was copied, empty the directories of one of them, and start it again as a new \
                     datanode"
                ),
            ))
        }
        Standing::Unknown => {
            let Some(usage) = usage else { return Ok(false) };
            let newcomer = core.leader().newcomers.take(now, node, incarnation, xfer_addr);
            let Some((newcomer, version)) = newcomer else { return Ok(false) };
            // Another process may have become the node since this one registered.
            let since = core.claims_since();
            match core.with_cluster(|cluster, _| cluster.claim(now, since, &newcomer)) {
                Claim::InUse { .. } | Claim::MayBeInUse { .. } => Ok(false),
                Claim::New | Claim::Known | Claim::Takes => {
                    accept(core, leadership, call, newcomer, usage, version, true).await.map(|()| true)
                }
            }
        }
    }
}

/// A node of another cluster. It is told which pool is ours, and refuses by that; until then nobody here shall believe
/// in it.
pub(super) fn is_foreign(leadership: &Leadership, request: &RegisterRequest, pool: &str) -> bool {
    let foreign = !request.pool.is_empty() && request.pool != pool;
    if foreign && let Some(passed_over) = leadership.refusals.foreign.due() {
        tracing::warn!(
            node = short(&request.node),
            ip = short(&request.ip),
            pool = short(&request.pool),
            passed_over,
            "a datanode of another cluster asks to be taken"
        );
    }
    foreign
}

pub(super) async fn register(
    core: &Arc<Core>,
    leadership: &Leadership,
    call: &Call,
    request: RegisterRequest,
) -> Result<RegisterResponse, Exception> {
    let (peer, block_pool) = (call.peer, core.pool.clone());
    let answer = RegisterResponse { block_pool, standby: false, term: core.node_term(), new: false, tokens: None };
    if is_foreign(leadership, &request, &core.pool) {
        return Ok(answer);
    }
    // This call was served, so this server leads at this moment.
    core.confirm_reception();
    // A node that has registered is used at once: it is to have the keys.
    block_tokens::ready(core).await;
    let answer = RegisterResponse { tokens: Some(block_tokens::rules(core, 0)), ..answer };
    let (usage, version) = (usage(request.usage, 0), version(&request));
    let mut node = described(request, peer)?;
    // Members of the version before know no such row.
    if node.outside.is_some() && !core.raise_level(command::LEAVES).await.map_err(refusal::raft)? {
        node.outside = None;
    }
    must_be_free(leadership, call, node.id)?;
    must_have_begun(&node, core.now())?;
    must_be_listed(core, &node)?;
    let process = process_of(&node);
    let (now, since) = (core.monotonic(), core.claims_since());
    match core.with_cluster(|cluster, _| cluster.claim(now, since, &node)) {
        Claim::New => {
            let entered =
                core.with_leader(|Leader { newcomers, cluster, .. }, _| newcomers.enter(now, node, version, cluster));
            entered.map_err(|refused| crowded(leadership, &refused))?;
            bind(leadership, call, process);
            Ok(RegisterResponse { new: true, ..answer })
        }
        Claim::InUse { .. } | Claim::MayBeInUse { .. } if mutation::is(Mutation::BelieveCopies) => {
            accept(core, leadership, call, node, usage, version, true).await?;
            bind(leadership, call, process);
            Ok(answer)
        }
        Claim::InUse { addr } => {
            let (id, new) = (node.id, node.xfer_addr());
            if let Some(passed_over) = leadership.refusals.in_use.due() {
                let from = node.from;
                tracing::warn!(
                    node = %id, addr, refused = new, from, passed_over,
                    "a second process registers with a datanode's id"
                );
            }
            Err(Exception::new(
                NODE_IN_USE,
                format!(
                    "datanode {id} is at {addr} and sends heartbeats, so the process at {new} is refused. If it is to \
                     take the other's place, stop that one; if its disk or machine is a copy, give it other, empty \
                     directories, and it is a new datanode. Empty none that may be the other's, or alone have a block"
                ),
            ))
        }
        Claim::MayBeInUse { addr } => {
            let (id, new) = (node.id, node.xfer_addr());
            if let Some(passed_over) = leadership.refusals.in_use.due() {
                tracing::info!(
                    node = %id, addr, waiting = new, passed_over,
                    "a datanode is asked to wait: this server will hear within seconds whether another process has its \
                     id"
                );
            }
            Err(Exception::new(
                NODE_IN_USE,
                format!(
                    "datanode {id} was last registered at {addr}. This server hears datanodes since a moment ago: it \
                     lets the process at {new} in if the other one stays silent for ten seconds. Wait, or stop the \
                     other"
                ),
            ))
        }
        claim @ (Claim::Known | Claim::Takes) => {
            accept(core, leadership, call, node, usage, version, claim == Claim::Takes).await?;
            bind(leadership, call, process);
            Ok(answer)
        }
    }
}

fn crowded(leadership: &Leadership, refused: &Crowded) -> Exception {
    if let Some(passed_over) = leadership.refusals.crowded.due() {
        tracing::warn!(%refused, passed_over, "a datanode is not registered");
    }
    Exception::io(refused.to_string())
}

/// The process is the node from now on. `must_write`: also if its row says so already, as that of another process may
/// be under way.
async fn accept(
    core: &Arc<Core>,
    leadership: &Leadership,
    call: &Call,
    mut node: Node,
    usage: NodeUsage,
    version: String,
    must_write: bool,
) -> Result<(), Exception> {
    let described = node.clone();
    // What a datanode's own configuration says stands above the script.
    if node.rack == DEFAULT_RACK {
        node.rack = rack_lookup::of_node(core, &node).await;
    }
    let is_written = core.with_cluster(|cluster, _| cluster.node(node.id).is_some_and(|member| member.node == node));
    let is_new = core.with_cluster(|cluster, _| cluster.node(node.id).is_none());
    let (id, addr, claimed) = (node.id, node.xfer_addr(), node.clone());
    if !is_written || must_write {
        let now = core.monotonic();
        let spent = core.with_leader(|Leader { newcomers, cluster, .. }, _| newcomers.spend(now, &node, cluster));
        spent.map_err(|refused| crowded(leadership, &refused))?;
        let answer = core.change_blocks(blocks::Command::Register(node)).await.map_err(refusal::raft)?;
        answer.map_err(|refused| Exception::io(refused.to_string()))?;
    }
    let now = core.monotonic();
    let Some(has_complaint) = core.leader().on_registered(&claimed, usage, now) else {
        return Err(Exception::io(format!("another process registers as datanode {id}; try again in a second")));
    };
    // It may have been revoked since the call passed the door, and the leader may have heard of that before this.
    leadership.must_count(&call.user.proof).inspect_err(|_| core.with_cluster(|cluster, _| cluster.on_revoked(id)))?;
    // Not before: it has a place for each datanode and forgets none, and a process that was refused is none.
    leadership.heard.registered(described, usage, version, now);
    if has_complaint {
        core.complaint_wake.notify_one();
    }
    core.repair_wake.notify_one();
    if is_new {
        core.leader().is_newcomer_empty = true;
    }
    tracing::info!(node = %id, addr, "a datanode registered");
    core.prepare.notify_one();
    Ok(())
}

/// HDFS's class, and nearly its words.
fn must_be_listed(core: &Core, node: &Node) -> Result<(), Exception> {
    if core.host_lists.as_ref().is_none_or(|lists| lists.admits(node)) {
        return Ok(());
    }
    let (host, addr) = (&node.host, node.xfer_addr());
    let message = format!(
        "Datanode denied communication with namenode because the host is not in the include-list: {host} ({addr})"
    );
    Err(Exception::new("org.apache.hadoop.hdfs.server.protocol.DisallowedDatanodeException", message))
}

/// Of two processes on a port the later one is the datanode: one that begins in the year 3000 would be it for ever.
fn must_have_begun(node: &Node, now: Millis) -> Result<(), Exception> {
    let start_ms = node.incarnation.start_ms;
    if start_ms <= now.0.saturating_add(CLOCK_AHEAD_MAX_MS) {
        return Ok(());
    }
    Err(refusal::illegal(format!(
        "the datanode says that it began at {start_ms} ms, and here it is {} ms: its clock is more than a day ahead; \
         correct the one that is wrong, and start it again",
        now.0
    )))
}
