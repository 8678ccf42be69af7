//! From our words to HDFS's messages.
//!
//! Required fields are always filled, optional ones that old clients misread when absent too (docs of the fields: HDFS's .proto).

use crate::core::Core;
use blocks::{Cluster, Member, Service};
use hdfs::proto::datanode_info_proto::AdminState;
use hdfs::proto::hdfs_file_status_proto::FileType;
use hdfs::proto::{
    DatanodeIdProto, DatanodeInfoProto, ExtendedBlockProto, FsPermissionProto, HdfsFileStatusProto, LocatedBlockProto,
    LocatedBlocksProto, StorageTypeProto, TokenProto,
};
use io::OsRandom;
use namespace::ops::BlockRef;
use namespace::{BlockView, FileBlocks, Kind, Status};
use std::time::Duration;
use types::{ContainerId, FileId, Millis, NodeId};
use wire::BlockScope;

/// −1 as Java's signed number travels: an offset that means nothing.
pub(crate) const MINUS_ONE: u64 = u64::MAX;

/// A bit of a status's flags.
const HAS_ACL: u32 = 1;

/// `locations`: for listings and calls that ask for them; every file must have them then.
pub(crate) fn status(status: Status, locations: Option<LocatedBlocksProto>) -> HdfsFileStatusProto {
    let kind = match status.kind {
        Kind::File => FileType::IsFile,
        Kind::Directory => FileType::IsDir,
    };
    HdfsFileStatusProto {
        file_type: kind.into(),
        path: status.name.into(),
        length: status.len,
        permission: FsPermissionProto { perm: u32::from(status.mode & 0o1777) },
        owner: status.owner,
        group: status.group,
        modification_time: status.modified.0,
        access_time: status.accessed.0,
        symlink: None,
        block_replication: Some(status.replication.into()),
        blocksize: Some(status.block_len),
        locations,
        file_id: Some(status.id.0),
        children_num: Some(i32::try_from(status.child_count).unwrap_or(i32::MAX)),
        storage_policy: Some(0),
        flags: Some(if status.acl { HAS_ACL } else { 0 }),
        namespace: None,
    }
}

/// The block a client names.
pub(crate) fn block_ref(block: &ExtendedBlockProto) -> BlockRef {
    BlockRef { block: block.block(), generation: block.generation(), len: block.num_bytes.unwrap_or(0) }
}

/// The token the client brings to the datanodes, which tells them whose the block is.
pub(crate) fn token(file: FileId, home: ContainerId) -> TokenProto {
    TokenProto {
        identifier: BlockScope { file, home }.encode().into(),
        kind: wire::token::KIND.to_owned(),
        ..TokenProto::none()
    }
}

/// Draws blocks with their nodes, at one moment.
pub(crate) struct Locator<'a> {
    pub(crate) pool: &'a str,
    /// The client's address; near nodes come first.
    pub(crate) host: &'a str,
    pub(crate) wall: Millis,
    pub(crate) now: Duration,
}

impl<'a> Locator<'a> {
    pub(crate) fn new(core: &'a Core, host: &'a str) -> Self {
        Self { pool: &core.pool, host, wall: core.now(), now: core.monotonic() }
    }

    /// For readers: every member, live ones first.
    pub(crate) fn for_reader(&self, cluster: &Cluster, random: &mut OsRandom, view: &BlockView) -> LocatedBlockProto {
        self.located(view, cluster.readers_order(view.home, view.complete, Some(self.host), self.now, random))
    }

    /// For somebody who goes on writing: members that can take part.
    pub(crate) fn for_append(&self, cluster: &Cluster, random: &mut OsRandom, view: &BlockView) -> LocatedBlockProto {
        let mut members = cluster.readers_order(view.home, false, Some(self.host), self.now, random);
        if members.iter().any(|member| member.is_live(self.now)) {
            members.retain(|member| member.is_live(self.now));
        }
        self.located(view, members)
    }

    /// With just these nodes, in their order.
    pub(crate) fn with_nodes(&self, cluster: &Cluster, view: &BlockView, nodes: &[NodeId]) -> LocatedBlockProto {
        self.located(view, nodes.iter().filter_map(|id| cluster.node(*id)).collect())
    }

    fn located(&self, view: &BlockView, members: Vec<&Member>) -> LocatedBlockProto {
        LocatedBlockProto {
            b: ExtendedBlockProto::of(self.pool, view.block, view.generation, view.len),
            offset: view.offset,
            corrupt: false,
            block_token: token(view.file, view.home),
            is_cached: Vec::new(),
            storage_types: vec![StorageTypeProto::Disk.into(); members.len()],
            storage_i_ds: members.iter().map(|member| member.node.storage.clone()).collect(),
            locs: members.into_iter().map(|member| self.datanode(member)).collect(),
            block_indices: None,
            block_tokens: Vec::new(),
        }
    }

    pub(crate) fn located_blocks(
        &self,
        cluster: &Cluster,
        random: &mut OsRandom,
        file: &FileBlocks,
    ) -> LocatedBlocksProto {
        let mut draw = |view: &BlockView| self.for_reader(cluster, random, view);
        LocatedBlocksProto {
            file_length: file.file_len,
            blocks: file.blocks.iter().map(&mut draw).collect(),
            under_construction: file.under_construction,
            last_block: file.last.as_ref().map(draw),
            is_last_block_complete: file.last_complete(),
        }
    }

    pub(crate) fn datanode(&self, member: &Member) -> DatanodeInfoProto {
        let (node, usage) = (&member.node, &member.usage);
        let age = member.seen().map(|seen| self.now.saturating_sub(seen).as_millis() as u64);
        DatanodeInfoProto {
            id: DatanodeIdProto {
                ip_addr: node.ip.clone(),
                host_name: node.host.clone(),
                datanode_uuid: node.id.to_string(),
                xfer_port: node.xfer_port.into(),
                info_port: node.info_port.into(),
                ipc_port: node.ipc_port.into(),
                info_secure_port: Some(0),
            },
            capacity: Some(usage.capacity_len),
            dfs_used: Some(usage.used_len),
            remaining: Some(usage.free_len),
            block_pool_used: Some(usage.used_len),
            last_update: Some(age.map_or(0, |age| self.wall.0.saturating_sub(age))),
            xceiver_count: Some(usage.transfer_count),
            location: Some(node.rack.clone()),
            non_dfs_used: Some(usage.capacity_len.saturating_sub(usage.used_len).saturating_sub(usage.free_len)),
            admin_state: (member.service == Service::Draining).then(|| AdminState::DecommissionInprogress.into()),
            cache_capacity: Some(0),
            cache_used: Some(0),
            last_update_monotonic: Some(member.seen().map_or(0, |seen| seen.as_millis() as u64)),
            upgrade_domain: None,
            // Each heartbeat tells the changes since the last one, and is checked against all there is.
            last_block_report_time: Some(age.map_or(0, |age| self.wall.0.saturating_sub(age))),
            last_block_report_monotonic: None,
            num_blocks: Some(0),
            software_version: None,
        }
    }
}

/// The node a client means: by its id, or by where it is dialled.
pub(crate) fn node_id(cluster: &Cluster, id: &DatanodeIdProto) -> Option<NodeId> {
    let by_id = NodeId::parse(&id.datanode_uuid).filter(|id| cluster.node(*id).is_some());
    by_id.or_else(|| {
        let same = |member: &&Member| member.node.ip == id.ip_addr && u32::from(member.node.xfer_port) == id.xfer_port;
        cluster.nodes().find(same).map(|member| member.node.id)
    })
}

/// The nodes behind `host:port` or `ip:port` hints.
pub(crate) fn favored(cluster: &Cluster, hints: &[String]) -> Vec<NodeId> {
    let matches = |member: &&Member| {
        let node = &member.node;
        hints.iter().any(|hint| *hint == node.xfer_addr() || *hint == format!("{}:{}", node.host, node.xfer_port))
    };
    if hints.is_empty() { Vec::new() } else { cluster.nodes().filter(matches).map(|member| member.node.id).collect() }
}
