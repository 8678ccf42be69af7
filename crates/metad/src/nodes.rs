//! Datanodes register, tell what they have, and are told what to delete: `org.levada.NodeProtocol`.
//!
//! Which process is a datanode is decided by `Cluster::claim` and `Cluster::standing`.
//! What becomes of a replica is decided by `Cluster::judge`; here it is looked up, told and done.

use crate::core::Core;
use crate::racks::{self, DEFAULT_RACK};
use crate::refusal;
use crate::repair;
use crate::seat::Seat;
use blocks::{Incarnation, Node};
use bytes::Bytes;
use hdfs::Exception;
use lead::{Claim, Cluster, Complainant, Crowded, Fate, Judgement, Standing, Told, Usage, Wanted};
use namespace::read;
use prost::Message;
use rpc::Call;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use types::rows::{Rows, RowsError};
use types::{BlockId, Millis, NodeId, ReplicaState};
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
/// A node that registered tells first what it has.
const CATALOGUE_WAIT: Duration = Duration::from_secs(2);
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
            let usage = usage(&request.usage, request.transfer_count);
            let is_known = admit(core, seat, node, &request.sender, Some(usage)).await?;
            let (id, members) = seat.members();
            let orders = if is_known { heartbeat(core, request).await? } else { Orders::default() };
            if is_known {
                seat.heard.beat(node, usage, core.monotonic());
                seat.beat(call.peer, node);
            }
            command(core, Orders { id, members, ..orders }).await
        }
        CATALOGUE => {
            let request: CatalogueRequest = call.request()?;
            let is_known = admit(core, seat, node_id(&request.node)?, &request.sender, None).await?;
            let orders = if is_known { catalogue(core, request).await? } else { Orders::default() };
            command(core, orders).await
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
    sender: &Sender,
    usage: Option<Usage>,
) -> Result<bool, Exception> {
    let (now, incarnation) = (core.monotonic(), incarnation(&sender.incarnation)?);
    match core.with_cluster(|cluster, _| cluster.standing(now, node, incarnation, &sender.addr)) {
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
            let newcomer = core.newcomers().take(now, node, incarnation, &sender.addr);
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
/// it knows nothing of what another one has let happen since.
async fn command(core: &Core, orders: Orders) -> Result<Bytes, Exception> {
    if !orders.delete.is_empty() {
        let term = core.raft.confirm().await.map_err(refusal::raft)?;
        if term != core.term {
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
                let (usage, version) = (usage(&request.usage, 0), version(&request));
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
            let usage = usage(&request.usage, request.transfer_count);
            let incarnation = incarnation(&request.sender.incarnation)?;
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
    let (usage, version) = (usage(&request.usage, 0), version(&request));
    let node = described(request, peer)?;
    must_have_begun(&node, core.now())?;
    // This call was served, so this server leads at this moment.
    core.confirm_hearing();
    let (now, since) = (core.monotonic(), core.claims_since());
    match core.with_cluster(|cluster, _| cluster.claim(now, since, &node)) {
        Claim::New => {
            let entered = core.with_cluster(|cluster, _| core.newcomers().enter(now, node, version, cluster));
            entered.map_err(crowded)?;
            Ok(RegisterResponse { new: true, ..answer })
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
        let spent = core.with_cluster(|cluster, _| core.newcomers().spend(now, &node, cluster));
        spent.map_err(crowded)?;
        let answer = core.change_blocks(blocks::Command::Register(node)).await.map_err(refusal::raft)?;
        answer.map_err(|refused| Exception::io(refused.to_string()))?;
    }
    let now = core.monotonic();
    core.speaks(id);
    let called_bad = core.with_cluster(|cluster, _| {
        if !cluster.on_claimed(&claimed) {
            return None;
        }
        cluster.on_registered(now, id, usage);
        // What it lacks, or brings back.
        let mut repair = core.repair();
        let called_bad = repair.on_registered(id);
        for pipeline in cluster.pipelines_of(id) {
            cluster.containers_of(*pipeline).for_each(|home| repair.suspect(home, now + CATALOGUE_WAIT));
        }
        Some(called_bad)
    });
    let Some(called_bad) = called_bad else {
        return Err(Exception::io(format!("another process registers as datanode {id}; try again in a second")));
    };
    called_bad.into_iter().for_each(|block| core.note_bad(block, id, Complainant::Ours));
    core.repair_wake.notify_one();
    tracing::info!(node = %id, addr, "a datanode registered");
    core.prepare.notify_one();
    Ok(())
}

fn version(request: &RegisterRequest) -> String {
    request.version.chars().take(VERSION_LEN_MAX).collect()
}

fn incarnation(told: &wire::node::Incarnation) -> Result<Incarnation, Exception> {
    if told.nonce == 0 {
        return Err(refusal::illegal(
            "a datanode's message names no incarnation: run the same version of levada on it as here",
        ));
    }
    Ok(Incarnation { start_ms: told.start_ms, nonce: told.nonce })
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
        incarnation: incarnation(&request.incarnation)?,
        from: from.to_string(),
    })
}

fn usage(usage: &wire::node::Usage, transfer_count: u32) -> Usage {
    Usage { capacity_len: usage.capacity_len, used_len: usage.used_len, free_len: usage.free_len, transfer_count }
}

pub(crate) async fn heartbeat(core: &Arc<Core>, request: HeartbeatRequest) -> Result<Orders, Exception> {
    let node = node_id(&request.node)?;
    check_lists(&request)?;
    let now = core.monotonic();
    let usage = usage(&request.usage, request.transfer_count);
    let known = core.with_cluster(|cluster, _| {
        if has_no_disk(&request) { cluster.on_diskless(node, usage) } else { cluster.on_heartbeat(now, node, usage) }
    });
    if !known {
        return Ok(Orders::default());
    }
    tell_repair(core, node, &request, now);
    bad(core, node, request.bad).await?;
    let told = request.put.iter().chain(&request.stale).map(told).collect();
    let mut orders = reconcile(core, node, told).await?;
    let frozen = core.safe_mode().map_err(refusal::rows)?.is_some();
    let undecided = core.undecided().of(node);
    let kept_back = if frozen { Vec::new() } else { core.kept_back().of(node) };
    for again in [undecided, kept_back] {
        let later = reconcile(core, node, again).await?;
        orders.delete.extend(later.delete);
        orders.owners.extend(later.owners);
    }
    let confirms = !request.deleted.is_empty();
    let owed = {
        let mut doomed = core.doomed();
        for block in request.deleted {
            doomed.on_deleted(node, BlockId(block));
            core.repair().forget_bad(BlockId(block), node);
            core.surplus().stays(node, BlockId(block));
        }
        if frozen { Vec::new() } else { doomed.orders(node, now) }
    };
    orders.delete.extend(
        owed.into_iter().map(|(block, generation)| Deletion { block: block.0, generation_at_most: generation.0 }),
    );
    if confirms {
        core.reap.notify_one();
    }
    if !frozen {
        orders.delete.extend(surplus(core, node, now).await?);
    }
    orders.copy = copies(core, node, now);
    orders.tell_all = core.surplus().take_ask(node);
    orders.scrub = repair::scrub::beat(core, node, request.scrub.as_ref());
    orders.disk_balance = repair::disks::beat(core, node, request.disk_balance.as_ref());
    repair::disks::told(core, node, request.disks);
    Ok(orders)
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

/// Surplus replicas that others have said to have. Each is judged again: its block may have moved here since.
async fn surplus(core: &Arc<Core>, node: NodeId, now: Duration) -> Result<Vec<Deletion>, Exception> {
    let going = core.surplus().orders(node, now);
    if going.is_empty() {
        return Ok(Vec::new());
    }
    let at = core;
    let core = Arc::clone(core);
    at.chore(move || {
        let found = core.rows_here(|rows| look_up(rows, &going))?;
        let mut orders = Vec::new();
        core.with_cluster(|cluster, _| {
            for (told, wanted) in going.iter().zip(found) {
                // It had a file when it was kept. If it has none now, that was deleted, and no other ever gets the
                // block.
                let goes = wanted.is_none() || cluster.judge(node, told, wanted.as_ref(), true).fate == Fate::Surplus;
                let is_doubtful = |wanted: &&Wanted| {
                    let repair = core.repair();
                    let members = cluster.member_ids(wanted.home).iter();
                    members
                        .filter(|member| **member != node)
                        .any(|member| repair.is_bad(told.block, *member, wanted.generation))
                };
                if let Some(wanted) = wanted.as_ref().filter(is_doubtful) {
                    // One of those who said that they have it has not: all of them are asked again.
                    core.surplus().stays(node, told.block);
                    core.surplus().keep(node, *told, wanted.home, now);
                } else if goes && !comes_here(&core, cluster, node, told.block) {
                    orders.push(Deletion { block: told.block.0, generation_at_most: told.generation.0 });
                } else {
                    core.surplus().stays(node, told.block);
                }
            }
        });
        Ok(orders)
    })
    .await
}

/// True if the block is being copied to a container that `node` is a member of.
fn comes_here(core: &Core, cluster: &Cluster, node: NodeId, block: BlockId) -> bool {
    let repair = core.repair();
    repair.wants(node, block) || repair.moving_to(block).is_some_and(|home| cluster.is_member(home, node))
}

/// All disks of the node have failed, and nothing counts that is there: it lives for nobody.
fn has_no_disk(request: &HeartbeatRequest) -> bool {
    let disks = &request.disks;
    request.usage.capacity_len == 0 && !disks.is_empty() && disks.iter().all(|disk| !disk.failure.is_empty())
}

/// What a node copied, could not copy, and found damaged.
fn tell_repair(core: &Core, node: NodeId, request: &HeartbeatRequest, now: Duration) {
    let mut complaints = Vec::new();
    let mut repair = core.repair();
    for replica in &request.put {
        core.surplus().stays(node, replica.block_id());
        repair.on_put(node, replica.block_id(), replica.generation_stamp(), now);
    }
    for failure in &request.copy_failures {
        if !repair.is_news(node, failure.number) {
            continue;
        }
        let (block, source) = (BlockId(failure.block), NodeId::parse(&failure.source));
        tracing::warn!(%block, %node, source = short(&failure.source), why = short(&failure.reason), "a replica was not copied");
        repair.on_failed(node, block, source, now);
        complaints.extend(source.filter(|_| failure.corrupt).map(|source| (block, source)));
    }
    let working = request.copying.iter().map(|block| BlockId(*block)).collect();
    repair.on_working(node, &working, now);
    if !(request.put.is_empty() && request.copy_failures.is_empty()) {
        core.repair_wake.notify_one();
    }
    drop(repair);
    for (block, source) in complaints {
        core.note_bad(block, source, Complainant::Ours);
    }
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
            let owners = owners(&core, page, core.monotonic())?;
            core.heal(|healing| {
                for (told, wanted, may_be_put) in owners {
                    healing.on_bad_reported((told.block, told.generation), node, wanted.as_ref(), may_be_put);
                }
            });
        }
        core.repair_wake.notify_one();
        Ok(())
    })
    .await
}

fn copies(core: &Core, node: NodeId, now: Duration) -> Vec<Copy> {
    core.with_cluster(|cluster, _| {
        let source = |id: &NodeId| {
            let member = cluster.node(*id)?;
            Some(Source { node: id.to_string(), addr: member.node.xfer_addr() })
        };
        let orders = core.repair().orders(node, now).into_iter();
        let copy = |order: lead::Copy| Copy {
            block: order.block.0,
            generation: order.generation.0,
            len: order.len,
            file: order.file.0,
            home: order.home.0,
            sources: order.sources.iter().filter_map(source).collect(),
            replaces: order.unfit,
        };
        orders.map(copy).collect()
    })
}

/// A page of all that a node has. What it lacks is a matter of repair.
async fn catalogue(core: &Arc<Core>, request: CatalogueRequest) -> Result<Orders, Exception> {
    let node = node_id(&request.node)?;
    let now = core.monotonic();
    let registered = core.with_cluster(|cluster, _| {
        // A long catalogue stands in the way of heartbeats: each part of it says that the node lives.
        cluster.on_sign(now, node);
        cluster.node(node).is_some_and(|member| member.seen().is_some())
    });
    if !registered {
        return Ok(Orders::default());
    }
    if request.from == 0 {
        core.surplus().on_telling(node, core.monotonic());
    }
    check_replicas(request.replicas.len())?;
    let orders = reconcile(core, node, request.replicas.iter().map(told).collect()).await?;
    if request.through == u64::MAX {
        core.surplus().on_told_all(node);
    }
    Ok(orders)
}

fn told(replica: &Replica) -> Told {
    let (block, generation) = (replica.block_id(), replica.generation_stamp());
    let finalized = replica.state() == ReplicaState::Finalized;
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
        let frozen = core.safe_mode().map_err(refusal::rows)?.is_some();
        for page in replicas.chunks(VIEW_COUNT) {
            let now = core.monotonic();
            let owners = owners(&core, page, now)?;
            let (mut undecided, mut kept_back) = (core.undecided(), core.kept_back());
            core.with_cluster(|cluster, _| {
                for (told, wanted, may_be_put) in owners {
                    let judgement = cluster.judge(node, told, wanted.as_ref(), may_be_put);
                    if told.finalized {
                        cluster.on_confirmed_len(told.block, told.len);
                    }
                    strange.extend((judgement.fate == Fate::Strange).then_some(told.block));
                    if frozen && judgement.fate == Fate::Goes {
                        // Nothing is deleted in safe mode. The node reports it no second time, so it is judged again
                        // when safe mode ends: until then nothing changes that could decide otherwise.
                        kept_back.keep(node, *told);
                        undecided.settle(node, told);
                        continue;
                    }
                    kept_back.settle(node, told);
                    order(told, wanted.as_ref(), judgement, &mut orders);
                    let mut again = judgement.again;
                    if let (Fate::Surplus, Some(wanted)) = (judgement.fate, &wanted) {
                        if comes_here(&core, cluster, node, told.block) {
                            again = true;
                        } else {
                            core.surplus().keep(node, *told, wanted.home, now);
                            core.repair().on_surplus(told.block);
                            core.repair_wake.notify_one();
                        }
                    }
                    if again {
                        undecided.keep(node, *told);
                    } else {
                        undecided.settle(node, told);
                    }
                }
            });
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
fn owners<'a>(
    core: &Core,
    page: &'a [Told],
    now: Duration,
) -> Result<impl Iterator<Item = (&'a Told, Option<Wanted>, bool)> + use<'a>, Exception> {
    // Before the rows: what is nobody's at this moment can only have an owner already.
    let leased: Vec<bool> = {
        let leased = core.leased();
        page.iter().map(|told| leased.may_be_put(told.block, now)).collect()
    };
    let found = core.rows_here(|rows| look_up(rows, page))?;
    Ok(page.iter().zip(found).zip(leased).map(|((told, wanted), may_be_put)| (told, wanted, may_be_put)))
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

fn order(told: &Told, wanted: Option<&Wanted>, judgement: Judgement, orders: &mut Orders) {
    let block = told.block;
    match (judgement.fate, wanted) {
        (Fate::Goes, _) => {
            orders.delete.push(Deletion { block: block.0, generation_at_most: told.generation.0 });
        }
        (Fate::Owned, Some(wanted)) => {
            orders.owners.push(Owner { block: block.0, file: wanted.file.0, home: wanted.home.0 });
        }
        (Fate::Stays | Fate::Owned | Fate::Surplus | Fate::Strange, _) => {}
    }
}
