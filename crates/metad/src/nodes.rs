//! Datanodes register, tell what they have, and are told what to delete: `org.levada.NodeProtocol`.
//!
//! Promise: a replica is ordered away only when the namespace says that no file owns its block, or that a younger one took its
//! place, or that its home is elsewhere; in the last two cases only while somebody of its home is there, since otherwise it may
//! be the best that is left. What the namespace cannot know yet (a block of a container or an index that
//! was never given out here) is left alone and told to the log. What is told while its block is still written is judged again
//! with each heartbeat until the block is complete.

use crate::core::Core;
use crate::refusal;
use blocks::{Cluster, Node, Usage};
use bytes::Bytes;
use hdfs::Exception;
use namespace::{BlockView, read};
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

pub(crate) async fn call(core: &Arc<Core>, call: Call) -> Result<Bytes, Exception> {
    call.check_version(PROTOCOL_VERSION)?;
    match call.method.as_str() {
        REGISTER => register(core, call.request()?).await.map(|answer| encode(&answer)),
        HEARTBEAT => heartbeat(core, call.request()?).await.map(|orders| encode(&orders)),
        CATALOGUE => catalogue(core, call.request()?).await.map(|orders| encode(&orders)),
        _ => Err(call.no_such_method()),
    }
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
    Ok(RegisterResponse { block_pool: core.pool.clone() })
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
    let mut told = request.put;
    told.extend(request.stale);
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
    reconcile(core, node, request.replicas).await
}

/// What to do with replicas a node told of.
async fn reconcile(core: &Arc<Core>, node: NodeId, replicas: Vec<Replica>) -> Result<Orders, Exception> {
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
            let found = core.rows(|rows| look_up(rows, page))?;
            let now = core.monotonic();
            let mut undecided = core.undecided();
            core.with_cluster(|cluster, _| {
                for (replica, view) in page.iter().zip(found) {
                    if judge(cluster, now, node, replica, view, &mut orders) == Verdict::Later {
                        undecided.keep(node, *replica);
                    }
                }
            });
        }
        Ok(orders)
    })
    .await
}

fn look_up(rows: &dyn Rows, replicas: &[Replica]) -> Result<Vec<Option<BlockView>>, RowsError> {
    let find = |replica: &Replica| Ok(read::file_of_block(rows, replica.block_id())?.map(|(_, view)| view));
    replicas.iter().map(find).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Said,
    /// It depends on what becomes of the block, or on who comes back.
    Later,
}

fn judge(
    cluster: &Cluster,
    now: Duration,
    node: NodeId,
    replica: &Replica,
    view: Option<BlockView>,
    orders: &mut Orders,
) -> Verdict {
    let block = replica.block_id();
    let delete = Deletion { block: block.0, generation_at_most: replica.generation };
    let Some(view) = view else {
        if cluster.was_given_out(block) {
            orders.delete.push(delete);
        } else {
            // It may be from a time this store has forgotten: a log that was put back from an old copy, for example.
            tracing::warn!(%block, %node, "a replica of a block that was never given out here; it is left alone");
        }
        return Verdict::Said;
    };
    let stale = view.complete && replica.generation_stamp() < view.generation;
    // While a block is written its chain may have nodes that its home has not yet.
    let elsewhere = view.complete && !cluster.is_member(view.home, node);
    if stale || elsewhere {
        let others = cluster.members(view.home).into_iter().filter(|member| member.node.id != node);
        if !others.into_iter().any(|member| member.is_live(now)) {
            return Verdict::Later;
        }
        orders.delete.push(delete);
    } else if replica.file_id() != Some(view.file) || replica.home_id() != Some(view.home) {
        orders.owners.push(Owner { block: block.0, file: view.file.0, home: view.home.0 });
    }
    if view.complete { Verdict::Said } else { Verdict::Later }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blocks::{Command, apply};
    use types::rows::MemoryRows;
    use types::{ContainerId, Generation, InodeId, PipelineId};
    use wire::node::ReplicaState;

    const HOME: ContainerId = ContainerId(1);

    /// Nodes 1 and 2 hold container 1, of which 10 indexes were given out.
    fn cluster() -> Cluster {
        let node = |number: u8| Node {
            id: NodeId([number; 16]),
            ip: "10.0.0.1".into(),
            host: "a".into(),
            xfer_port: 1,
            ipc_port: 2,
            info_port: 0,
            storage: "s".into(),
            rack: "/r".into(),
        };
        let mut rows = MemoryRows::default();
        let members = vec![node(1).id, node(2).id];
        for command in [
            Command::Register(node(1)),
            Command::Register(node(2)),
            Command::CreatePipeline { members, planned: true },
            Command::OpenContainer { pipeline: PipelineId(1) },
            Command::LeaseIndexes { container: HOME, from: 0, up_to: 10, lessee: 1, len: 0 },
        ] {
            apply(&mut rows, &command).unwrap().unwrap();
        }
        Cluster::load(&rows, 1).unwrap()
    }

    fn check(node: u8, replica: Replica, view: Option<BlockView>) -> (bool, bool) {
        let mut cluster = cluster();
        for number in [1, 2] {
            cluster.on_registered(Duration::ZERO, NodeId([number; 16]), Usage::default());
        }
        let mut orders = Orders::default();
        judge(&cluster, Duration::ZERO, NodeId([node; 16]), &replica, view, &mut orders);
        (!orders.delete.is_empty(), !orders.owners.is_empty())
    }

    /// Nodes 1 and 2 wrote the end of the block without node 3, and are gone: what node 3 has is the best there is.
    #[test]
    fn an_old_replica_stays_until_somebody_with_a_younger_one_is_there() {
        let block = BlockId::new(HOME, 3);
        let (file, generation) = (InodeId(16_386), Generation(1005));
        let view = BlockView { file, block, generation, len: 5, offset: 0, home: HOME, complete: true };
        let replica = Replica { block: block.0, generation: 1004, len: 4, ..Replica::default() };
        let mut cluster = cluster();
        let tell = |cluster: &Cluster, number: u8| {
            let mut orders = Orders::default();
            let verdict = judge(cluster, Duration::ZERO, NodeId([number; 16]), &replica, Some(view), &mut orders);
            (verdict, orders.delete.len())
        };
        assert_eq!(tell(&cluster, 3), (Verdict::Later, 0));
        cluster.on_registered(Duration::ZERO, NodeId([1; 16]), Usage::default());
        assert_eq!(tell(&cluster, 1), (Verdict::Later, 0), "it does not speak for itself");
        assert_eq!(tell(&cluster, 2), (Verdict::Said, 1));
        assert_eq!(tell(&cluster, 3), (Verdict::Said, 1));
    }

    #[test]
    fn a_replica_goes_only_when_the_namespace_says_so() {
        let block = BlockId::new(HOME, 3);
        let view = BlockView {
            file: InodeId(16_386),
            block,
            generation: Generation(1005),
            len: 5,
            offset: 0,
            home: HOME,
            complete: true,
        };
        let replica = Replica {
            block: block.0,
            generation: 1005,
            len: 5,
            file: 16_386,
            home: 1,
            state: ReplicaState::Finalized as i32,
        };
        let open = BlockView { complete: false, ..view };
        let stale = Replica { generation: 1004, ..replica };
        assert_eq!(check(1, replica, Some(view)), (false, false));
        assert_eq!(check(1, Replica { file: 0, ..replica }, Some(view)), (false, true), "told whose it is");
        assert_eq!(check(1, stale, Some(view)), (true, false));
        assert_eq!(check(1, stale, Some(open)), (false, false), "the chain may be mended under it");
        assert_eq!(check(3, replica, Some(view)), (true, false), "the home is elsewhere");
        assert_eq!(check(3, replica, Some(open)), (false, false), "the home may follow");
        assert_eq!(check(1, replica, None), (true, false));
        let future = Replica { block: BlockId::new(HOME, 10).0, ..replica };
        assert_eq!(check(1, future, None), (false, false), "never given out");
        let strange = Replica { block: BlockId::new(ContainerId(9), 0).0, ..replica };
        assert_eq!(check(1, strange, None), (false, false));
    }
}
