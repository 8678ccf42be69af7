//! Datanodes register, tell what they have, and are told what to delete: `org.levada.NodeProtocol`.
//!
//! Which process is a datanode is decided by `Cluster::claim` and `Cluster::standing`.
//! What a report leads to is decided by `lead::Leader`; here it is converted, and replicas are looked up in the rows.

use crate::core::Core;
use crate::racks;
use crate::refusal;
use crate::repair;
use crate::seat::Seat;
use crate::topology_script::DEFAULT_RACK;
use crate::words;
use blocks::{Incarnation, Node};
use bytes::Bytes;
use hdfs::Exception;
use lead::{Claim, CopyFailure, CopyOrder, Crowded, Heartbeat, Leader, LookedUp, Standing, Told, Usage};
use namespace::{BlockView, read};
use prost::Message;
use rpc::Call;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use types::mutation::{self, Mutation};
use types::rows::{Rows, RowsError};
use types::{BlockId, ContainerId, FileId, Generation, Millis, NodeId, ReplicaState};
use wire::node::{
    CATALOGUE, CatalogueRequest, Copy, DISK_COUNT_MAX, Deletion, HEARTBEAT, HeartbeatRequest, NODE_IN_USE,
    NODE_SUPERSEDED, Orders, Owner, PAGE_COUNT_MAX, REGISTER, RegisterRequest, RegisterResponse, Replica, Sender,
    Source,
};

/// Texts of a registration: names and addresses are shorter.
const TEXT_LEN_MAX: usize = 256;
/// Letters of a program's version that are shown.
const VERSION_LEN_MAX: usize = 64;
/// Bytes of a text of strangers that go into the log.
const LOGGED_LEN_MAX: usize = 100;
/// By which a datanode's clock may be ahead of this server's when it begins. A guess, far above what clocks differ by.
const CLOCK_AHEAD_MAX_MS: u64 = 24 * 3600 * 1000;
/// Replicas that a message may tell of: a page of those that were put, and one of stale ones.
const REPORT_COUNT_MAX: usize = 2 * PAGE_COUNT_MAX;
/// Replicas looked up under one view.
const VIEW_COUNT: usize = 500;

pub(crate) async fn call(core: &Arc<Core>, seat: &Seat, call: &Call) -> Result<Bytes, Exception> {
    match call.method.as_str() {
        REGISTER => register(core, seat, call.peer, call.request()?).await.map(|answer| encode(&answer)),
        HEARTBEAT => {
            let request: HeartbeatRequest = call.request()?;
            let node = node_id(&request.node)?;
            let usage = usage(request.usage, request.transfer_count);
            let is_known = admit(core, seat, node, request.sender.as_ref(), Some(usage)).await?;
            let (id, members) = seat.members();
            let orders = if is_known { heartbeat(core, request).await? } else { Orders::default() };
            if is_known {
                seat.heard.beat(node, usage, core.monotonic());
                seat.beat(call.peer, node);
            }
            command(core, node, Orders { id, members, ..orders }).await
        }
        CATALOGUE => {
            let request: CatalogueRequest = call.request()?;
            let node = node_id(&request.node)?;
            let is_known = admit(core, seat, node, request.sender.as_ref(), None).await?;
            let orders = if is_known { catalogue(core, request).await? } else { Orders::default() };
            command(core, node, orders).await
        }
        _ => Err(call.no_such_method()),
    }
}

/// Whether a message counts. False: its sender is to register. A newcomer becomes a node by its first heartbeat, which
/// has a `usage`.
async fn admit(
    core: &Arc<Core>,
    seat: &Seat,
    node: NodeId,
    sender: Option<&Sender>,
    usage: Option<Usage>,
) -> Result<bool, Exception> {
    let sender = sender.ok_or_else(no_incarnation)?;
    let (now, incarnation) = (core.monotonic(), incarnation(sender.incarnation)?);
    match core.with_cluster(|cluster, _| cluster.standing(now, node, incarnation, &sender.addr)) {
        Standing::Superseded { .. } if mutation::is(Mutation::BelieveCopies) => Ok(true),
        Standing::Current => Ok(true),
        Standing::Superseded { addr } => {
            tracing::warn!(%node, was = short(&sender.addr), is = addr, "a process is refused: another one has its node's id");
            Err(Exception::new(
                NODE_SUPERSEDED,
                format!(
                    "another process has registered as datanode {node}, at {addr}. Two cannot have one id: if a disk or machine was \
                     copied, empty the directories of one of them, and start it again as a new datanode"
                ),
            ))
        }
        Standing::Unknown => {
            let Some(usage) = usage else { return Ok(false) };
            let newcomer = core.leader().newcomers.take(now, node, incarnation, &sender.addr);
            let Some((newcomer, version)) = newcomer else { return Ok(false) };
            // Another process may have become the node since this one registered.
            let since = core.claims_since();
            match core.with_cluster(|cluster, _| cluster.claim(now, since, &newcomer)) {
                Claim::InUse { .. } => Ok(false),
                _ => accept(core, seat, newcomer, usage, version, true).await.map(|()| true),
            }
        }
    }
}

/// Orders to delete leave only if this server led still when they were thought of: a leader that slept in the middle of
/// it knows nothing of what another one has let happen since. Nor do they leave in safe mode, which may have come since.
pub(crate) async fn command(core: &Core, node: NodeId, mut orders: Orders) -> Result<Bytes, Exception> {
    if !orders.delete.is_empty() {
        let confirmed = core.raft.confirm().await;
        let leads = matches!(confirmed, Ok(term) if term == core.term) && !core.is_broken();
        let is_safe_mode = core.safe_mode().map_err(refusal::rows)?.is_some();
        if !leads || is_safe_mode {
            let dropped = std::mem::take(&mut orders.delete);
            if let Some(mut leader) = core.leader_unless_broken() {
                leader.on_orders_dropped(node, dropped.iter().map(|deletion| BlockId(deletion.block)));
            }
        }
        confirmed.map_err(refusal::raft)?;
        if !leads {
            return Err(refusal::standby(None));
        }
    }
    Ok(encode(&Orders { term: core.term, ..orders }))
}

/// What a server that stands by answers: it remembers who lives, and gives no orders.
pub(crate) fn stand_by(seat: &Seat, call: &Call) -> Result<Bytes, Exception> {
    let now = seat.clock.monotonic();
    match call.method.as_str() {
        REGISTER => {
            // Before the first leader there is no pool to join.
            let founding = seat.machine.founding().map_err(refusal::rows)?;
            let block_pool = founding.ok_or_else(|| seat.standby())?.pool;
            let request: RegisterRequest = call.request()?;
            if !is_foreign(&request, &block_pool) {
                let (usage, version) = (usage(request.usage, 0), version(&request));
                let node = described(request, call.peer)?;
                // Who is a datanode is decided by the leader, and read in the rows; of others nothing is remembered.
                let row = blocks::tables::node(&seat.machine.store().view(), node.id).map_err(refusal::rows)?;
                if row.is_some_and(|row| row.incarnation == node.incarnation) {
                    seat.heard.registered(node, usage, version, now);
                }
            }
            Ok(encode(&RegisterResponse { block_pool, standby: true, term: 0, new: false }))
        }
        HEARTBEAT => {
            let request: HeartbeatRequest = call.request()?;
            let usage = usage(request.usage, request.transfer_count);
            let incarnation = incarnation(request.sender.and_then(|sender| sender.incarnation))?;
            let known = seat.heard.beat_of(node_id(&request.node)?, incarnation, usage, now);
            let (id, members) = seat.members();
            Ok(encode(&Orders { known, standby: true, id, members, ..Orders::default() }))
        }
        CATALOGUE => Ok(encode(&Orders { known: true, standby: true, ..Orders::default() })),
        _ => Err(call.no_such_method()),
    }
}

fn encode(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

fn node_id(text: &str) -> Result<NodeId, Exception> {
    NodeId::parse(text).ok_or_else(|| refusal::illegal(format!("{text:.80} is no id of a datanode")))
}

/// The beginning of a text that is logged before anything else of it was checked.
fn short(text: &str) -> &str {
    &text[..text.floor_char_boundary(LOGGED_LEN_MAX)]
}

/// A node of another cluster. It is told which pool is ours, and refuses by that; until then nobody here shall believe
/// in it.
fn is_foreign(request: &RegisterRequest, pool: &str) -> bool {
    let foreign = !request.pool.is_empty() && request.pool != pool;
    if foreign {
        tracing::warn!(
            node = short(&request.node),
            ip = short(&request.ip),
            pool = short(&request.pool),
            "a datanode of another cluster asks to be taken"
        );
    }
    foreign
}

async fn register(
    core: &Arc<Core>,
    seat: &Seat,
    peer: SocketAddr,
    request: RegisterRequest,
) -> Result<RegisterResponse, Exception> {
    let answer = RegisterResponse { block_pool: core.pool.clone(), standby: false, term: core.term, new: false };
    if is_foreign(&request, &core.pool) {
        return Ok(answer);
    }
    let (usage, version) = (usage(request.usage, 0), version(&request));
    let node = described(request, peer)?;
    must_have_begun(&node, core.now())?;
    // This call was served, so this server leads at this moment.
    core.confirm_hearing();
    let (now, since) = (core.monotonic(), core.claims_since());
    match core.with_cluster(|cluster, _| cluster.claim(now, since, &node)) {
        Claim::New => {
            let entered =
                core.with_leader(|Leader { newcomers, cluster, .. }, _| newcomers.enter(now, node, version, cluster));
            entered.map_err(crowded)?;
            Ok(RegisterResponse { new: true, ..answer })
        }
        Claim::InUse { .. } if mutation::is(Mutation::BelieveCopies) => {
            accept(core, seat, node, usage, version, true).await?;
            Ok(answer)
        }
        Claim::InUse { addr } => {
            let (id, new) = (node.id, node.xfer_addr());
            tracing::warn!(node = %id, addr, refused = new, from = node.from, "a second process registers with a datanode's id");
            Err(Exception::new(
                NODE_IN_USE,
                format!(
                    "datanode {id} is at {addr} and sends heartbeats, so the process at {new} is refused. If its disk or machine is a copy, \
                     empty its directories, and it is a new datanode; if it is to take the other's place, stop that one"
                ),
            ))
        }
        claim @ (Claim::Known | Claim::Takes) => {
            accept(core, seat, node, usage, version, claim == Claim::Takes).await?;
            Ok(answer)
        }
    }
}

fn crowded(crowded: Crowded) -> Exception {
    tracing::warn!(%crowded, "a datanode is not registered");
    Exception::io(crowded.to_string())
}

/// The process is the node from now on. `must_write`: also if its row says so already, as that of another process may
/// be under way.
async fn accept(
    core: &Arc<Core>,
    seat: &Seat,
    mut node: Node,
    usage: Usage,
    version: String,
    must_write: bool,
) -> Result<(), Exception> {
    seat.heard.registered(node.clone(), usage, version, core.monotonic());
    // What a datanode's own configuration says stands above the script.
    if node.rack == DEFAULT_RACK {
        node.rack = racks::of_node(core, &node).await;
    }
    let is_written = core.with_cluster(|cluster, _| cluster.node(node.id).is_some_and(|member| member.node == node));
    let (id, addr, claimed) = (node.id, node.xfer_addr(), node.clone());
    if !is_written || must_write {
        let now = core.monotonic();
        let spent = core.with_leader(|Leader { newcomers, cluster, .. }, _| newcomers.spend(now, &node, cluster));
        spent.map_err(crowded)?;
        let answer = core.change_blocks(blocks::Command::Register(node)).await.map_err(refusal::raft)?;
        answer.map_err(|refused| Exception::io(refused.to_string()))?;
    }
    let now = core.monotonic();
    let Some(has_complaint) = core.leader().on_registered(&claimed, usage, now) else {
        return Err(Exception::io(format!("another process registers as datanode {id}; try again in a second")));
    };
    if has_complaint {
        core.reported.notify_one();
    }
    core.repair_wake.notify_one();
    tracing::info!(node = %id, addr, "a datanode registered");
    core.prepare.notify_one();
    Ok(())
}

fn version(request: &RegisterRequest) -> String {
    request.version.chars().take(VERSION_LEN_MAX).collect()
}

fn incarnation(told: Option<wire::node::Incarnation>) -> Result<Incarnation, Exception> {
    let told = told.filter(|told| told.nonce != 0).ok_or_else(no_incarnation)?;
    Ok(Incarnation { start_ms: told.start_ms, nonce: told.nonce })
}

fn no_incarnation() -> Exception {
    refusal::illegal("a datanode's message names no incarnation: run the same version of levada on it as here")
}

/// Of two processes on a port the later one is the datanode: one that begins in the year 3000 would be it for ever.
fn must_have_begun(node: &Node, now: Millis) -> Result<(), Exception> {
    let start_ms = node.incarnation.start_ms;
    if start_ms <= now.0.saturating_add(CLOCK_AHEAD_MAX_MS) {
        return Ok(());
    }
    Err(refusal::illegal(format!(
        "the datanode says that it began at {start_ms} ms, and here it is {} ms: its clock is more than a day ahead; correct the one that \
         is wrong, and start it again",
        now.0
    )))
}

/// The node as its registration describes it. Nothing of it goes anywhere before it was checked.
fn described(request: RegisterRequest, peer: SocketAddr) -> Result<Node, Exception> {
    let port = |port: u32| u16::try_from(port).map_err(|_| refusal::illegal(format!("{port} is no port")));
    let texts = [&request.ip, &request.host, &request.storage, &request.rack];
    if texts.iter().any(|text| text.len() > TEXT_LEN_MAX) {
        return Err(refusal::illegal(format!(
            "a datanode's address, name or rack is longer than {TEXT_LEN_MAX} bytes; shorten it in its configuration"
        )));
    }
    let from = peer.ip().to_canonical();
    let ip = request.ip.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
    let Some(ip) = ip.filter(|ip| !ip.is_unspecified() && !ip.is_multicast()) else {
        return Err(refusal::illegal(format!("{:.80} is no address of a datanode", request.ip)));
    };
    let is_same = ip == from || (ip.is_loopback() && from.is_loopback());
    if !is_same && !request.advertised {
        return Err(refusal::illegal(format!(
            "the datanode calls from {from} and takes its address for {ip}; if clients reach it there, set ip = \"{ip}\" in its configuration"
        )));
    }
    let or = |text: String, other: &str| if text.is_empty() { other.to_owned() } else { text };
    Ok(Node {
        id: node_id(&request.node)?,
        host: or(request.host, &request.ip),
        ip: ip.to_string(),
        xfer_port: port(request.xfer_port)?,
        ipc_port: port(request.ipc_port)?,
        info_port: port(request.info_port)?,
        storage: or(request.storage, &request.node),
        rack: if request.rack.starts_with('/') { request.rack } else { DEFAULT_RACK.to_owned() },
        incarnation: incarnation(request.incarnation)?,
        from: from.to_string(),
    })
}

fn usage(told: Option<wire::node::Usage>, transfer_count: u32) -> Usage {
    let usage = told.unwrap_or_default();
    Usage { capacity_len: usage.capacity_len, used_len: usage.used_len, free_len: usage.free_len, transfer_count }
}

pub(crate) async fn heartbeat(core: &Arc<Core>, request: HeartbeatRequest) -> Result<Orders, Exception> {
    let node = node_id(&request.node)?;
    check_lists(&request)?;
    let now = core.monotonic();
    let heartbeat = reported(&request);
    let Some(came) = core.leader().on_heartbeat(node, &heartbeat, now) else { return Ok(Orders::default()) };
    for CopyFailure { number, block, .. } in came.failures {
        let told = request.copy_failures.iter().find(|failure| failure.number == number);
        let (source, reason) = told.map_or(("", ""), |failure| (short(&failure.source), short(&failure.reason)));
        tracing::warn!(%block, %node, source, reason, "a replica was not copied");
    }
    if came.wakes_repair {
        core.repair_wake.notify_one();
    }
    if came.has_complaint {
        core.reported.notify_one();
    }
    bad(core, node, request.bad).await?;
    let told = request.put.iter().chain(&request.stale).map(told).collect();
    let mut orders = reconcile(core, node, told).await?;
    let is_safe_mode = core.safe_mode().map_err(refusal::rows)?.is_some();
    let again = core.leader().to_judge_again(node, is_safe_mode, core.monotonic());
    let later = reconcile(core, node, again).await?;
    orders.delete.extend(later.delete);
    orders.owners.extend(later.owners);
    let deleted: Vec<BlockId> = request.deleted.into_iter().map(BlockId).collect();
    let owed = core.leader().on_deleted(node, &deleted, is_safe_mode, now);
    orders.delete.extend(owed.into_iter().map(deletion));
    if !deleted.is_empty() {
        core.reap.notify_one();
    }
    if !is_safe_mode {
        orders.delete.extend(surplus(core, node, now).await?);
    }
    let mut leader = core.leader();
    orders.copy = leader.copy_orders(node, now).into_iter().map(copy).collect();
    orders.tell_all = leader.surplus.take_ask(node);
    orders.scrub = repair::scrub::report(&mut leader, node, request.scrub.as_ref());
    orders.disk_balance = repair::disks::report(&mut leader, node, request.disk_balance.as_ref());
    for disk in leader.on_disks(node, request.disks.iter().map(words::kept_disk).collect()) {
        tracing::warn!(%node, dir = disk.dir, why = disk.failure, "a disk of a datanode has failed");
    }
    Ok(orders)
}

/// What a heartbeat says of the node, and of its copies.
fn reported(request: &HeartbeatRequest) -> Heartbeat {
    let failure = |failure: &wire::node::CopyFailure| CopyFailure {
        number: failure.number,
        block: BlockId(failure.block),
        source: NodeId::parse(&failure.source),
        is_corrupt: failure.corrupt,
    };
    Heartbeat {
        usage: usage(request.usage, request.transfer_count),
        is_diskless: has_no_disk(request),
        put: request.put.iter().map(|replica| (replica.block_id(), replica.generation_stamp())).collect(),
        copy_failures: request.copy_failures.iter().map(failure).collect(),
        copying: request.copying.iter().map(|block| BlockId(*block)).collect(),
    }
}

fn deletion((block, at_most): (BlockId, Generation)) -> Deletion {
    Deletion { block: block.0, generation_at_most: at_most.0 }
}

/// Whatever a heartbeat lists is gone through under locks that others wait for.
fn check_lists(request: &HeartbeatRequest) -> Result<(), Exception> {
    let HeartbeatRequest { put, stale, deleted, copying, copy_failures, bad, disks, .. } = request;
    let replicas = put.len() + stale.len();
    let others = [deleted.len(), copying.len(), copy_failures.len(), bad.len()];
    check_replicas(replicas)?;
    if others.into_iter().any(|count| count > PAGE_COUNT_MAX) {
        return Err(refusal::illegal(format!(
            "a list in a heartbeat is too long; send at most {PAGE_COUNT_MAX} entries"
        )));
    }
    if disks.len() > DISK_COUNT_MAX {
        return Err(refusal::illegal(format!("{} disks are too many; a node may have {DISK_COUNT_MAX}", disks.len())));
    }
    Ok(())
}

fn check_replicas(count: usize) -> Result<(), Exception> {
    if count > REPORT_COUNT_MAX {
        return Err(refusal::illegal(format!("{count} replicas in one message; send at most {REPORT_COUNT_MAX}")));
    }
    Ok(())
}

/// Surplus replicas that others have, as they said a moment ago. Each is looked up again.
async fn surplus(core: &Arc<Core>, node: NodeId, now: Duration) -> Result<Vec<Deletion>, Exception> {
    let going = core.leader().take_surplus(node, now);
    if going.is_empty() {
        return Ok(Vec::new());
    }
    let at = core;
    let core = Arc::clone(core);
    at.chore(move || {
        let found = core.rows_here(|rows| look_up(rows, &going))?;
        assert_eq!(found.len(), going.len(), "each replica is deleted by its own block");
        let found: Vec<(Told, Option<BlockView>)> = going.into_iter().zip(found).collect();
        Ok(core.leader().confirm_surplus(node, &found, now).into_iter().map(deletion).collect())
    })
    .await
}

/// All disks of the node have failed, and nothing counts that is there: it lives for nobody.
fn has_no_disk(request: &HeartbeatRequest) -> bool {
    let disks = &request.disks;
    request.usage.is_none_or(|usage| usage.capacity_len == 0)
        && !disks.is_empty()
        && disks.iter().all(|disk| !disk.failure.is_empty())
}

/// Replicas that a node has found damaged, by its own reading of them.
async fn bad(core: &Arc<Core>, node: NodeId, replicas: Vec<Replica>) -> Result<(), Exception> {
    if replicas.is_empty() {
        return Ok(());
    }
    let at = core;
    let core = Arc::clone(core);
    at.chore(move || {
        let told: Vec<Told> = replicas.iter().map(told).collect();
        for page in told.chunks(VIEW_COUNT) {
            let found = owners(&core, page, core.monotonic())?;
            core.heal(|healing| {
                for (told, wanted, may_be_put) in found {
                    healing.on_bad_reported((told.block, told.generation), node, wanted.as_ref(), may_be_put);
                }
            });
        }
        core.repair_wake.notify_one();
        Ok(())
    })
    .await
}

fn copy(order: CopyOrder) -> Copy {
    let CopyOrder { copy, sources } = order;
    let source = |(id, addr): (NodeId, String)| Source { node: id.to_string(), addr };
    Copy {
        block: copy.block.0,
        generation: copy.generation.0,
        len: copy.len,
        file: copy.file.0,
        home: copy.home.0,
        sources: sources.into_iter().map(source).collect(),
        replaces: copy.unfit,
    }
}

/// A page of all that a node has. What it lacks is a matter of repair.
async fn catalogue(core: &Arc<Core>, request: CatalogueRequest) -> Result<Orders, Exception> {
    let node = node_id(&request.node)?;
    if !core.leader().on_catalogue(node, request.from == 0, core.monotonic()) {
        return Ok(Orders::default());
    }
    check_replicas(request.replicas.len())?;
    let orders = reconcile(core, node, request.replicas.iter().map(told).collect()).await?;
    if request.through == u64::MAX {
        core.leader().surplus.on_told_all(node);
    }
    Ok(orders)
}

pub(crate) fn told(replica: &Replica) -> Told {
    let (block, generation) = (replica.block_id(), replica.generation_stamp());
    // One in a state that this program does not know is no source.
    let finalized = ReplicaState::try_from(replica.state) == Ok(ReplicaState::Finalized);
    Told { block, generation, len: replica.len, file: replica.file_id(), home: replica.home_id(), finalized }
}

/// What to do with replicas a node told of.
async fn reconcile(core: &Arc<Core>, node: NodeId, replicas: Vec<Told>) -> Result<Orders, Exception> {
    let mut orders = Orders { known: true, ..Orders::default() };
    if replicas.is_empty() {
        return Ok(orders);
    }
    let at = core;
    let core = Arc::clone(core);
    at.chore(move || {
        let mut strange = Vec::new();
        let is_safe_mode = core.safe_mode().map_err(refusal::rows)?.is_some();
        for page in replicas.chunks(VIEW_COUNT) {
            let now = core.monotonic();
            let found = owners(&core, page, now)?;
            let judged = core.leader().judge(node, &found, is_safe_mode, now);
            if judged.has_surplus {
                core.repair_wake.notify_one();
            }
            let owner = |(block, file, home): (BlockId, FileId, ContainerId)| Owner {
                block: block.0,
                file: file.0,
                home: home.0,
            };
            orders.delete.extend(judged.delete.into_iter().map(deletion));
            orders.owners.extend(judged.owners.into_iter().map(owner));
            strange.extend(judged.strange);
        }
        if let Some(block) = strange.first() {
            let count = strange.len();
            tracing::warn!(%block, count, %node, "replicas of blocks that were never given out here, such as this; they are left alone");
        }
        Ok(orders)
    })
    .await
}

/// What the rows have of each of these replicas, and whether a client may still put it.
fn owners(core: &Core, page: &[Told], now: Duration) -> Result<Vec<LookedUp>, Exception> {
    // Before the rows: what nobody may put at this moment can only have an owner already.
    let may_be_put = core.leader().may_be_put(page, now);
    let found = core.rows_here(|rows| look_up(rows, page))?;
    assert_eq!((found.len(), may_be_put.len()), (page.len(), page.len()), "each replica is judged by its own block");
    let found = page.iter().zip(found).zip(may_be_put);
    Ok(found.map(|((told, wanted), may_be_put)| (*told, wanted, may_be_put)).collect())
}

fn look_up(rows: &dyn Rows, replicas: &[Told]) -> Result<Vec<Option<BlockView>>, RowsError> {
    let find = |told: &Told| Ok(read::file_of_block(rows, told.block)?.map(|(_, view)| view));
    replicas.iter().map(find).collect()
}
