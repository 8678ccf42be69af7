//! Conversion of our types to HDFS's messages.
//!
//! Required fields are always filled, as are optional ones that old clients misread when absent (documented in HDFS's
//! .proto).

use crate::block_tokens::ReadTokens;
use crate::core::Core;
use crate::refusal;
use blocks::Service;
use hdfs::Exception;
use hdfs::listing::Entry;
use hdfs::located::{Block, Located, LocatedWriter, Place};
use hdfs::proto::datanode_info_proto::AdminState;
use hdfs::proto::hdfs_file_status_proto::FileType;
use hdfs::proto::{
    DatanodeIdProto, DatanodeInfoProto, ExtendedBlockProto, HdfsFileStatusProto, LocatedBlockProto, StorageTypeProto,
    TokenProto,
};
use io::OsRandom;
use lead::{Cluster, Leader, LivenessRules, Member};
use namespace::BlockRef;
use namespace::{BlockView, FileBlocks, Kind, Status, StatusRow};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::limits::{MODE_MASK, REPLICATION_MAX};
use types::{Millis, NodeId};

/// −1 as Java's signed number travels: an offset that means nothing.
pub(crate) const MINUS_ONE: u64 = u64::MAX;

/// A bit of a status's flags.
const HAS_ACL: u32 = 1;

/// A mode as it travels.
pub(crate) fn mode(bits: u32) -> u16 {
    bits as u16 & MODE_MASK
}

/// `locations`: for listings and calls that ask for them; every file must have them then.
pub(crate) fn status(status: &Status, locations: Option<&Located>) -> HdfsFileStatusProto {
    entry(status.row(), locations).into()
}

/// As [`status`], for a page.
pub(crate) fn entry<'a>(status: StatusRow<'a>, locations: Option<&'a Located>) -> Entry<'a> {
    Entry {
        kind: match status.kind {
            Kind::File => FileType::IsFile,
            Kind::Directory => FileType::IsDir,
        },
        path: status.name,
        len: status.len,
        perm: u32::from(status.mode & MODE_MASK),
        owner: status.owner,
        group: status.group,
        modified_ms: status.modified.0,
        accessed_ms: status.accessed.0,
        replication: status.replication.into(),
        block_len: status.block_len,
        file_id: status.id.0,
        child_count: i32::try_from(status.child_count).unwrap_or(i32::MAX),
        flags: if status.acl { HAS_ACL } else { 0 },
        locations: locations.map(Located::message),
    }
}

/// The block a client names.
pub(crate) fn block_ref(block: &ExtendedBlockProto) -> BlockRef {
    BlockRef { block: block.block(), generation: block.generation(), len: block.num_bytes.unwrap_or(0) }
}

/// Blocks whose nodes are looked up while the cluster is locked once: some tenths of a millisecond.
pub(crate) const DRAWN_COUNT: usize = 100;

/// Draws blocks with their nodes, each as of one moment.
pub(crate) struct Locator<'a> {
    pub(crate) pool: &'a str,
    /// The client's address; near nodes come first.
    pub(crate) host: &'a str,
    /// The client is on the datanodes' network.
    is_inside: bool,
    pub(crate) wall: Millis,
    pub(crate) now: Duration,
}

impl<'a> Locator<'a> {
    pub(crate) fn new(core: &'a Core, host: &'a str) -> Self {
        let is_inside = host.parse().is_ok_and(|address| core.inside.has(address));
        Self { pool: &core.pool, host, is_inside, wall: core.now(), now: core.monotonic() }
    }

    /// For readers: every member, live ones first, or who else has it.
    fn readers<'l>(&self, leader: &'l Leader, random: &mut OsRandom, view: &BlockView) -> Vec<&'l Member> {
        leader.readers_order(view, Some(self.host), self.now, random)
    }

    /// For a writer that continues: members that can take part.
    pub(crate) fn for_append(
        &self,
        cluster: &Cluster,
        random: &mut OsRandom,
        view: &BlockView,
        token: TokenProto,
    ) -> LocatedBlockProto {
        let mut members = cluster.readers_order(view.home, false, Some(self.host), self.now, random);
        if members.iter().any(|member| member.is_live(self.now)) {
            members.retain(|member| member.is_live(self.now));
        }
        self.located(view, token, members)
    }

    /// With just these nodes, in their order.
    pub(crate) fn with_nodes(
        &self,
        cluster: &Cluster,
        view: &BlockView,
        token: TokenProto,
        nodes: &[NodeId],
    ) -> LocatedBlockProto {
        self.located(view, token, nodes.iter().filter_map(|id| cluster.node(*id)).collect())
    }

    fn located(&self, view: &BlockView, token: TokenProto, members: Vec<&Member>) -> LocatedBlockProto {
        let storage_types = vec![StorageTypeProto::Disk.into(); members.len()];
        let place = |member: &Member| (self.location(member), member.node.storage.clone());
        let (locs, storage_i_ds) = members.into_iter().map(place).unzip();
        LocatedBlockProto {
            b: ExtendedBlockProto::of(self.pool, view.block, view.generation, view.len),
            offset: view.offset,
            corrupt: false,
            block_token: token,
            is_cached: Vec::new(),
            storage_types,
            storage_i_ds,
            locs,
            block_indices: None,
            block_tokens: Vec::new(),
        }
    }

    /// For readers: every member of each block, live ones first. Under the leader's lock a piece of the blocks gets
    /// its order of nodes, and no more; others may change the cluster in between.
    pub(crate) fn located_blocks(
        &self,
        core: &Core,
        file: &FileBlocks,
        mut tokens: ReadTokens<'_>,
    ) -> Result<Located, Exception> {
        let mut places = Places::default();
        let mut order = |piece: &[BlockView]| -> Vec<Vec<usize>> {
            core.with_leader(|leader, random| {
                let mut order = |view| {
                    let members = self.readers(leader, random, view).into_iter();
                    members.map(|member| places.number(member, || self.place(member))).collect()
                };
                piece.iter().map(&mut order).collect()
            })
        };
        let mut orders = Vec::with_capacity(file.blocks.len());
        for piece in file.blocks.chunks(DRAWN_COUNT) {
            orders.append(&mut order(piece));
        }
        let last_order = file.last.as_ref().map(|last| order(std::slice::from_ref(last)).remove(0));
        let mut writer = LocatedWriter::new(self.pool, file.file_len);
        for (view, order) in file.blocks.iter().zip(&orders) {
            writer.push(&told(view, tokens.token(view)?), order.iter().map(|number| &places.all[*number]));
        }
        let last = match (&file.last, &last_order) {
            (Some(view), Some(order)) => Some((told(view, tokens.token(view)?), order)),
            _ => None,
        };
        let last = last.as_ref().map(|(block, order)| (block, order.iter().map(|number| &places.all[*number])));
        Ok(writer.finish(file.under_construction, last, file.last_complete()))
    }

    fn place(&self, member: &Member) -> Place {
        Place::new(&self.location(member), &member.node.storage)
    }

    /// Where a node is, and nothing of how it fares: an answer says this three times for each block, and what a node
    /// has stored is a quarter of the bytes, which no client looks at here.
    fn location(&self, member: &Member) -> DatanodeInfoProto {
        let node = &member.node;
        let place = node.place(self.is_inside);
        DatanodeInfoProto {
            id: DatanodeIdProto {
                ip_addr: place.ip.to_owned(),
                host_name: place.host.to_owned(),
                datanode_uuid: node.id.to_string(),
                xfer_port: place.xfer_port.into(),
                info_port: place.info_port.into(),
                ipc_port: place.ipc_port.into(),
                info_secure_port: None,
            },
            location: Some(node.rack.clone()),
            admin_state: admin_state(member).map(Into::into),
            ..DatanodeInfoProto::default()
        }
    }

    pub(crate) fn datanode(&self, member: &Member) -> DatanodeInfoProto {
        let usage = &member.usage;
        let age = member.seen().map(|seen| self.now.saturating_sub(seen).as_millis() as u64);
        DatanodeInfoProto {
            capacity: Some(usage.capacity_len),
            dfs_used: Some(usage.used_len),
            remaining: Some(usage.free_len),
            block_pool_used: Some(usage.used_len),
            last_update: Some(age.map_or(0, |age| self.wall.0.saturating_sub(age))),
            xceiver_count: Some(member.transfer_count),
            non_dfs_used: Some(usage.capacity_len.saturating_sub(usage.used_len).saturating_sub(usage.free_len)),
            cache_capacity: Some(0),
            cache_used: Some(0),
            last_update_monotonic: Some(member.seen().map_or(0, |seen| seen.as_millis() as u64)),
            // Each heartbeat tells the changes since the last one, and is checked against all there is.
            last_block_report_time: Some(age.map_or(0, |age| self.wall.0.saturating_sub(age))),
            num_blocks: Some(0),
            ..self.location(member)
        }
    }
}

/// As HDFS calls it; `None` for a node that serves as usual. Whether a maintenance has only just begun is told in
/// reports alone: it takes a look at all that the node has.
fn admin_state(member: &Member) -> Option<AdminState> {
    match member.service {
        Service::Draining => Some(AdminState::DecommissionInprogress),
        Service::Serving => member.is_in_maintenance().then_some(AdminState::InMaintenance),
    }
}

/// The same for pages, which anybody asks for: a drain that has ended is told as well.
pub(crate) fn shown_admin_state(leader: &Leader, member: &Member, rules: &LivenessRules) -> Option<AdminState> {
    let has_drained = leader.has_drained(member, rules);
    if has_drained { Some(AdminState::Decommissioned) } else { admin_state(member) }
}

/// The same for reports, which take that look.
pub(crate) fn reported_admin_state(leader: &Leader, member: &Member, rules: &LivenessRules) -> Option<AdminState> {
    match shown_admin_state(leader, member, rules) {
        Some(AdminState::InMaintenance) => {
            // As in HDFS, one that is down has no way left to be entered.
            let may_go = !member.is_live(rules.now) || leader.may_be_away(member.node.id, rules);
            Some(if may_go { AdminState::InMaintenance } else { AdminState::EnteringMaintenance })
        }
        state => state,
    }
}

/// The nodes of an answer, each encoded once. They are few, or many blocks share them.
#[derive(Default)]
struct Places {
    all: Vec<Place>,
    numbers: BTreeMap<NodeId, usize>,
}

impl Places {
    fn number(&mut self, member: &Member, place: impl FnOnce() -> Place) -> usize {
        *self.numbers.entry(member.node.id).or_insert_with(|| {
            self.all.push(place());
            self.all.len() - 1
        })
    }
}

fn told<'t>(view: &BlockView, token: &'t [u8]) -> Block<'t> {
    Block { block: view.block, generation: view.generation, len: view.len, offset: view.offset, token }
}

/// The node a client means: by its id, or by where it is dialled.
pub(crate) fn node_id(cluster: &Cluster, id: &DatanodeIdProto) -> Option<NodeId> {
    by_uuid(cluster, id).or_else(|| {
        let same = |member: &&Member| member.node.is_dialled_at(&id.ip_addr, id.xfer_port);
        cluster.nodes().find(same).map(|member| member.node.id)
    })
}

/// Datanodes that a client may name in one call: the chain of a block, and as many that failed in it. Each is looked
/// for among all nodes while others wait for the leader's lock.
const NAMED_COUNT_MAX: usize = 2 * REPLICATION_MAX as usize;

/// Refuses a list of datanodes that is too long, before anything is done with it.
pub(crate) fn bounded<T>(what: &str, named: &[T]) -> Result<(), Exception> {
    if named.len() <= NAMED_COUNT_MAX {
        return Ok(());
    }
    let count = named.len();
    Err(refusal::illegal(format!("{what} names {count} datanodes; name at most {NAMED_COUNT_MAX}")))
}

/// The nodes that a client names, each once.
pub(crate) fn named<'a>(cluster: &Cluster, ids: impl IntoIterator<Item = &'a DatanodeIdProto>) -> Vec<NodeId> {
    let mut by_addr = None;
    let mut nodes: Vec<NodeId> = Vec::new();
    for id in ids {
        let node = by_uuid(cluster, id).or_else(|| {
            // Made once: there may be thousands of nodes.
            let by_addr = by_addr.get_or_insert_with(|| {
                let addrs = |node: &blocks::Node| {
                    [true, false].map(|is_inside| {
                        let place = node.place(is_inside);
                        ((place.ip.to_owned(), u32::from(place.xfer_port)), node.id)
                    })
                };
                cluster.nodes().flat_map(|member| addrs(&member.node)).collect::<BTreeMap<_, _>>()
            });
            by_addr.get(&(id.ip_addr.clone(), id.xfer_port)).copied()
        });
        if let Some(node) = node.filter(|node| !nodes.contains(node)) {
            nodes.push(node);
        }
    }
    nodes
}

fn by_uuid(cluster: &Cluster, id: &DatanodeIdProto) -> Option<NodeId> {
    NodeId::parse(&id.datanode_uuid).filter(|id| cluster.node(*id).is_some())
}

/// The nodes behind `host:port` or `ip:port` hints.
pub(crate) fn favored(cluster: &Cluster, hints: &[String]) -> Vec<NodeId> {
    if hints.is_empty() {
        return Vec::new();
    }
    let hints: BTreeSet<&str> = hints.iter().map(String::as_str).collect();
    let matches = |member: &&Member| {
        let node = &member.node;
        [true, false].map(|is_inside| node.place(is_inside)).iter().any(|place| {
            hints.contains(&*place.xfer_addr()) || hints.contains(&*format!("{}:{}", place.host, place.xfer_port))
        })
    };
    cluster.nodes().filter(matches).map(|member| member.node.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container_sealing::tests::{add_block, create, with_node};
    use hdfs::proto::LocatedBlocksProto;
    use prost::Message;
    use types::FsPath;

    /// Whoever needs the leader's memory gets it while a long file's blocks are located.
    #[tokio::test]
    async fn a_long_file_is_located_in_pieces() {
        const COUNT: usize = 30_000;
        let (_dir, metad, core) = with_node().await;
        let path = FsPath::parse("/f").unwrap();
        create(&core, &path).await;
        add_block(&core, &path).await;
        let system = namespace::Caller::system();
        let file = core.read_here(|rows| namespace::read::located(rows, &system, &path, 0, u64::MAX)).unwrap();
        let file = FileBlocks { blocks: vec![file.last.unwrap(); COUNT], ..file };
        let locator = Locator::new(&core, "127.0.0.1");
        let before = core.leader().release_count();
        let drawn = locator.located_blocks(&core, &file, ReadTokens::none()).unwrap();
        let released = core.leader().release_count() - before;
        let drawn = LocatedBlocksProto::decode(drawn.message()).unwrap();
        assert_eq!(drawn.blocks.len(), COUNT);
        assert!(drawn.blocks.iter().all(|block| block.locs.len() == 1 && block.storage_i_ds == ["s"]));
        assert!(released as usize > COUNT / DRAWN_COUNT, "its lock was released {released} times");
        drop(core);
        metad.shutdown().await;
    }
}
