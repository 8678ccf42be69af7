//! Datanodes register, tell what they have, and are told what to delete: `org.levada.NodeProtocol`.
//!
//! What becomes of a replica is decided by `Cluster::judge`; here it is looked up, told and done.

use crate::core::Core;
use crate::heard::Heard;
use crate::refusal;
use crate::seat::Seat;
use blocks::{Fate, Judgement, Node, Told, Usage, Wanted};
use bytes::Bytes;
use hdfs::Exception;
use namespace::read;
use prost::Message;
use rpc::Call;
use std::sync::Arc;
use std::time::Duration;
use types::rows::{Rows, RowsError};
use types::{BlockId, NodeId};
use wire::node::{
    CATALOGUE, CatalogueRequest, Deletion, HEARTBEAT, HeartbeatRequest, Orders, Owner, PAGE_COUNT_MAX,
    PROTOCOL_VERSION, REGISTER, RegisterRequest, RegisterResponse, Replica,
};

/// Texts of a registration: names and addresses are shorter.
const TEXT_LEN_MAX: usize = 256;
/// Replicas looked up under one view.
const VIEW_COUNT: usize = 500;

pub(crate) async fn call(core: &Arc<Core>, heard: &Heard, call: Call) -> Result<Bytes, Exception> {
    call.check_version(PROTOCOL_VERSION)?;
    match call.method.as_str() {
        REGISTER => {
            let request: RegisterRequest = call.request()?;
            note(heard, &request, core.monotonic())?;
            register(core, request).await.map(|answer| encode(&answer))
        }
        HEARTBEAT => {
            let request: HeartbeatRequest = call.request()?;
            heard.beat(node_id(&request.node)?, usage(&request.usage, request.transfer_count), core.monotonic());
            heartbeat(core, request).await.map(|orders| encode(&Orders { term: core.term, ..orders }))
        }
        CATALOGUE => {
            let orders = catalogue(core, call.request()?).await;
            orders.map(|orders| encode(&Orders { term: core.term, ..orders }))
        }
        _ => Err(call.no_such_method()),
    }
}

/// What a server that stands by answers: it remembers who lives, and gives no orders.
pub(crate) fn stand_by(seat: &Seat, call: &Call) -> Result<Bytes, Exception> {
    call.check_version(PROTOCOL_VERSION)?;
    let now = seat.clock.monotonic();
    match call.method.as_str() {
        REGISTER => {
            // Before the first leader there is no pool to join.
            let founding = seat.machine.founding().map_err(refusal::rows)?;
            let block_pool = founding.ok_or_else(|| seat.standby())?.pool;
            note(&seat.heard, &call.request()?, now)?;
            Ok(encode(&RegisterResponse { block_pool, standby: true, term: 0 }))
        }
        HEARTBEAT => {
            let request: HeartbeatRequest = call.request()?;
            let usage = usage(&request.usage, request.transfer_count);
            let known = seat.heard.beat(node_id(&request.node)?, usage, now);
            Ok(encode(&Orders { known, standby: true, ..Orders::default() }))
        }
        CATALOGUE => Ok(encode(&Orders { known: true, standby: true, ..Orders::default() })),
        _ => Err(call.no_such_method()),
    }
}

fn note(heard: &Heard, request: &RegisterRequest, now: Duration) -> Result<(), Exception> {
    heard.registered(described(request.clone())?, usage(&request.usage, 0), now);
    Ok(())
}

fn encode(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

fn node_id(text: &str) -> Result<NodeId, Exception> {
    NodeId::parse(text).ok_or_else(|| refusal::illegal(format!("{text:.80} is no id of a datanode")))
}

async fn register(core: &Core, request: RegisterRequest) -> Result<RegisterResponse, Exception> {
    let usage = usage(&request.usage, 0);
    let node = described(request)?;
    let known = core.with_cluster(|cluster, _| cluster.node(node.id).is_some_and(|member| member.node == node));
    let (id, addr) = (node.id, node.xfer_addr());
    if !known {
        let answer = core.change_blocks(blocks::Command::Register(node)).await.map_err(refusal::raft)?;
        answer.map_err(|refused| Exception::io(refused.to_string()))?;
    }
    let now = core.monotonic();
    core.with_cluster(|cluster, _| cluster.on_registered(now, id, usage));
    tracing::info!(node = %id, addr, "a datanode registered");
    core.prepare.notify_one();
    Ok(RegisterResponse { block_pool: core.pool.clone(), standby: false, term: core.term })
}

fn described(request: RegisterRequest) -> Result<Node, Exception> {
    let port = |port: u32| u16::try_from(port).map_err(|_| refusal::illegal(format!("{port} is no port")));
    let texts = [&request.ip, &request.host, &request.storage, &request.rack];
    if texts.iter().any(|text| text.len() > TEXT_LEN_MAX) || request.ip.is_empty() {
        return Err(refusal::illegal("a datanode's address, name or rack is empty or too long"));
    }
    let or = |text: String, other: &str| if text.is_empty() { other.to_owned() } else { text };
    Ok(Node {
        id: node_id(&request.node)?,
        host: or(request.host, &request.ip),
        ip: request.ip,
        xfer_port: port(request.xfer_port)?,
        ipc_port: port(request.ipc_port)?,
        info_port: port(request.info_port)?,
        storage: or(request.storage, &request.node),
        // Java takes an empty rack for none at all, and fails.
        rack: if request.rack.starts_with('/') { request.rack } else { "/default-rack".to_owned() },
    })
}

fn usage(usage: &wire::node::Usage, transfer_count: u32) -> Usage {
    Usage { capacity_len: usage.capacity_len, used_len: usage.used_len, free_len: usage.free_len, transfer_count }
}

async fn heartbeat(core: &Arc<Core>, request: HeartbeatRequest) -> Result<Orders, Exception> {
    let node = node_id(&request.node)?;
    let now = core.monotonic();
    let usage = usage(&request.usage, request.transfer_count);
    if !core.with_cluster(|cluster, _| cluster.on_heartbeat(now, node, usage)) {
        return Ok(Orders::default());
    }
    let told = request.put.iter().chain(&request.stale).map(told).collect();
    let mut orders = reconcile(core, node, told).await?;
    let undecided = core.undecided().take(node);
    if !undecided.is_empty() {
        let later = reconcile(core, node, undecided).await?;
        orders.delete.extend(later.delete);
        orders.owners.extend(later.owners);
    }
    let mut doomed = core.doomed();
    let confirms = !request.deleted.is_empty();
    for block in request.deleted {
        doomed.on_deleted(node, BlockId(block));
    }
    let owed = doomed.orders(node, now);
    drop(doomed);
    orders.delete.extend(
        owed.into_iter().map(|(block, generation)| Deletion { block: block.0, generation_at_most: generation.0 }),
    );
    if confirms {
        core.reap.notify_one();
    }
    Ok(orders)
}

/// A page of all that a node has. What it lacks is a matter of repair.
async fn catalogue(core: &Arc<Core>, request: CatalogueRequest) -> Result<Orders, Exception> {
    let node = node_id(&request.node)?;
    let registered = core.with_cluster(|cluster, _| cluster.node(node).is_some_and(|member| member.seen().is_some()));
    if !registered {
        return Ok(Orders::default());
    }
    reconcile(core, node, request.replicas.iter().map(told).collect()).await
}

fn told(replica: &Replica) -> Told {
    let (block, generation) = (replica.block_id(), replica.generation_stamp());
    Told { block, generation, len: replica.len, file: replica.file_id(), home: replica.home_id() }
}

/// What to do with replicas a node told of.
async fn reconcile(core: &Arc<Core>, node: NodeId, replicas: Vec<Told>) -> Result<Orders, Exception> {
    if replicas.len() > 2 * PAGE_COUNT_MAX {
        return Err(refusal::illegal(format!(
            "{} replicas in one message; send at most {PAGE_COUNT_MAX}",
            replicas.len()
        )));
    }
    let mut orders = Orders { known: true, ..Orders::default() };
    if replicas.is_empty() {
        return Ok(orders);
    }
    let core = Arc::clone(core);
    io::task::blocking(move || {
        for page in replicas.chunks(VIEW_COUNT) {
            let now = core.monotonic();
            // Before the rows: what is nobody's at this moment can only have an owner already.
            let leased: Vec<bool> = {
                let leased = core.leased();
                page.iter().map(|told| leased.may_be_put(told.block, now)).collect()
            };
            let found = core.rows(|rows| look_up(rows, page))?;
            let mut undecided = core.undecided();
            core.with_cluster(|cluster, _| {
                for ((told, wanted), may_be_put) in page.iter().zip(found).zip(leased) {
                    let judgement = cluster.judge(now, node, told, wanted.as_ref(), may_be_put);
                    order(node, told, wanted.as_ref(), judgement, &mut orders);
                    if judgement.again {
                        undecided.keep(node, *told);
                    }
                }
            });
        }
        Ok(orders)
    })
    .await
}

fn look_up(rows: &dyn Rows, replicas: &[Told]) -> Result<Vec<Option<Wanted>>, RowsError> {
    let find = |told: &Told| {
        let found = read::file_of_block(rows, told.block)?.map(|(_, view)| view);
        Ok(found.map(|view| Wanted {
            file: view.file,
            generation: view.generation,
            home: view.home,
            complete: view.complete,
        }))
    };
    replicas.iter().map(find).collect()
}

fn order(node: NodeId, told: &Told, wanted: Option<&Wanted>, judgement: Judgement, orders: &mut Orders) {
    let block = told.block;
    match (judgement.fate, wanted) {
        (Fate::Goes, _) => {
            orders.delete.push(Deletion { block: block.0, generation_at_most: told.generation.0 });
        }
        (Fate::Owned, Some(wanted)) => {
            orders.owners.push(Owner { block: block.0, file: wanted.file.0, home: wanted.home.0 });
        }
        (Fate::Strange, _) => {
            tracing::warn!(%block, %node, "a replica of a block that was never given out here; it is left alone");
        }
        (Fate::Stays | Fate::Owned, _) => {}
    }
}
