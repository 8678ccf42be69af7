//! Methods of a writer: open a file, get blocks for it, repair a broken chain, close.

use super::absent::no_policy;
use super::changing::{mode, yes};
use super::leases::grant;
use super::length_claim::is_outgrown_and_seen;
use crate::block_tokens;
use crate::core::{Core, make_path, must_find};
use crate::session::Session;
use crate::to_hdfs::{self, Locator, MINUS_ONE, block_ref};
use crate::{recovery, refusal};
use hdfs::Exception;
use hdfs::exception::HADOOP_ILLEGAL_ARGUMENT;
use hdfs::proto::*;
use lead::Ask;
use namespace::error::held::Opening;
use namespace::{
    AbandonBlock, AddBlock, Allocated, Append, BlockRef, BlockView, BumpGeneration, Complete, Create, Fsync, Recovery,
    Reply, Truncate, UpdatePipeline, read,
};
use security::block_token::Mode;
use std::sync::Arc;
use types::limits::REPLICATION_MAX;
use types::{BlockId, FileId, FsPath, InodeId, NodeId};

/// As HDFS writes a block in a message.
fn shown(block: &ExtendedBlockProto) -> String {
    format!("{}:{}_{}", block.pool_id, block.block(), block.generation_stamp)
}

/// What most tokens of writers allow.
const WRITE: &[Mode] = &[Mode::Write];

/// Further nodes one call may ask for; clients ask for one.
const ADDITIONAL_COUNT_MAX: u32 = 16;

fn has(flags: u32, flag: CreateFlagProto) -> bool {
    flags & flag as u32 != 0
}

/// 0 stands for "not given".
fn file_id(id: Option<u64>) -> Option<FileId> {
    id.filter(|id| *id != 0).map(InodeId)
}

fn surprise(reply: &Reply) -> Exception {
    tracing::error!(?reply, "unexpected reply to a request");
    Exception::io("internal error: unexpected reply; see the metadata server's log")
}

pub(super) async fn create(
    core: &Arc<Core>,
    session: &Session,
    request: CreateRequestProto,
) -> Result<CreateResponseProto, Exception> {
    let path = make_path("create", &request.src)?;
    let ec_policy = request.ec_policy_name.unwrap_or_default();
    if has(request.create_flag, CreateFlagProto::ShouldReplicate) && !ec_policy.is_empty() {
        let message = "SHOULD_REPLICATE flag and ecPolicyName are exclusive parameters. Set both is not allowed!";
        return Err(Exception::new(HADOOP_ILLEGAL_ARGUMENT, message));
    }
    if !ec_policy.is_empty() {
        return Err(no_policy(&ec_policy));
    }
    let create = Create {
        takeover: silent_holder(core, &path).await?,
        client: session.lease_holder(&request.client_name),
        client_host: session.host(),
        mode: mode(&request.masked),
        unmasked: request.unmasked.as_ref().map(mode),
        create: has(request.create_flag, CreateFlagProto::Create),
        overwrite: has(request.create_flag, CreateFlagProto::Overwrite),
        create_parent: request.create_parent,
        replication: u16::try_from(request.replication).unwrap_or(REPLICATION_MAX + 1),
        block_len: request.block_size,
        block_len_min: core.config.block_len_min,
        path,
    };
    match grant(core, session, &session.lease_holder(&request.client_name), create).await? {
        Reply::Status(status) => Ok(CreateResponseProto { fs: Some(to_hdfs::status(&status, None)) }),
        Reply::Recovery(recovery) => {
            let refused = refusal::recovering(Opening::Create, &request.src, &request.client_name, &session.host());
            Err(wait_for(core, recovery, refused))
        }
        reply => Err(surprise(&reply)),
    }
}

pub(super) async fn append(
    core: &Arc<Core>,
    session: &Session,
    request: AppendRequestProto,
) -> Result<AppendResponseProto, Exception> {
    let path = must_find("append", &request.src)?;
    let append = Append {
        takeover: silent_holder(core, &path).await?,
        client: session.lease_holder(&request.client_name),
        client_host: session.host(),
        new_block: has(request.flag.unwrap_or(0), CreateFlagProto::NewBlock),
        path,
    };
    let (last, status) = match grant(core, session, &session.lease_holder(&request.client_name), append).await? {
        Reply::Append { last, status } => (last, status),
        Reply::Recovery(recovery) => {
            let refused = refusal::recovering(Opening::Append, &request.src, &request.client_name, &session.host());
            return Err(wait_for(core, recovery, refused));
        }
        reply => return Err(surprise(&reply)),
    };
    // Right after a start only some nodes are known to live, and a Java client with too short a chain gives up.
    core.nodes_arrived(status.replication).await;
    let host = session.host();
    let locator = Locator::new(core, &host);
    let block = match last {
        None => None,
        Some(view) => {
            let token = block_tokens::to_write(core, session, &view, WRITE).await?;
            Some(core.with_cluster(|cluster, random| match view.complete {
                // The client wanted a new block: this one only gives the position.
                true => locator.with_nodes(cluster, &view, token, &[]),
                false => locator.for_append(cluster, random, &view, token),
            }))
        }
    };
    Ok(AppendResponseProto { block, stat: Some(to_hdfs::status(&status, None)) })
}

/// False: the last block is still being cut, and the file open until it is.
pub(super) async fn truncate(
    core: &Arc<Core>,
    session: &Session,
    request: TruncateRequestProto,
) -> Result<TruncateResponseProto, Exception> {
    let path = must_find("truncate", &request.src)?;
    let len = i64::try_from(request.new_length).map_err(|_| {
        let message = format!("Cannot truncate to a negative file size: {}.", request.new_length as i64);
        Exception::new(HADOOP_ILLEGAL_ARGUMENT, message)
    })?;
    let truncate = Truncate {
        takeover: silent_holder(core, &path).await?,
        client: session.lease_holder(&request.client_name),
        client_host: session.host(),
        len: len.unsigned_abs(),
        path,
    };
    match core.change(session, truncate).await? {
        Reply::Bool(result) => Ok(TruncateResponseProto { result }),
        Reply::Cutting { file, last, generation } => {
            recovery::start(core, file, last, generation);
            Ok(TruncateResponseProto { result: false })
        }
        Reply::Recovery(recovery) => {
            let refused = refusal::recovering(Opening::Truncate, &request.src, &request.client_name, &session.host());
            Err(wait_for(core, recovery, refused))
        }
        reply => Err(surprise(&reply)),
    }
}

/// The holder of the file at `path`, if it was silent for so long that others may take the file.
pub(crate) async fn silent_holder(core: &Core, path: &FsPath) -> Result<Option<String>, Exception> {
    let path = path.clone();
    let holder = core.rows(move |rows| read::holder_of(rows, &path)).await?;
    let holder = holder.filter(|holder| !holder.recovering).map(|holder| holder.holder);
    let (now, limit) = (core.monotonic(), core.config.lease_soft());
    Ok(holder.filter(|holder| core.leader().writer_leases.is_silent(holder, now, limit)))
}

/// What a new block of the file would be, if the client may have one.
pub(crate) async fn plan_block(
    core: &Core,
    session: &Session,
    path: &FsPath,
    file: Option<FileId>,
    client: &str,
    previous: Option<BlockRef>,
) -> Result<read::BlockPlan, Exception> {
    let (caller, path, client) = (session.caller.clone(), path.clone(), client.to_owned());
    core.read(move |rows| read::plan_block(rows, &caller, &path, file, &client, previous.as_ref())).await
}

/// The file as its writer has it, if the client is that.
async fn writing_of(
    core: &Core,
    session: &Session,
    path: &FsPath,
    file: Option<FileId>,
    client: &str,
) -> Result<read::Writing, Exception> {
    let (caller, path, client) = (session.caller.clone(), path.clone(), client.to_owned());
    core.read(move |rows| read::writing(rows, &caller, &path, file, &client)).await
}

/// The file's last writer is being shut out; the client retries later, as `refused` says.
pub(crate) fn wait_for(core: &Arc<Core>, recovery: Recovery, refused: Exception) -> Exception {
    match recovery {
        Recovery::Started { file, last, generation } => {
            recovery::start(core, file, last, generation);
            refused
        }
        Recovery::Closed { .. } | Recovery::NotHeld { .. } => surprise(&Reply::Recovery(recovery)),
    }
}

pub(super) async fn add_block(
    core: &Arc<Core>,
    session: &Session,
    request: AddBlockRequestProto,
) -> Result<AddBlockResponseProto, Exception> {
    let path = must_find("addBlock", &request.src)?;
    to_hdfs::bounded("excludeNodes", &request.exclude_nodes)?;
    to_hdfs::bounded("favoredNodes", &request.favored_nodes)?;
    core.must_be_changeable(|| format!("Cannot add block to {path}"))?;
    let file = file_id(request.file_id);
    let previous = request.previous.as_ref().map(block_ref);
    let client = session.lease_holder(&request.client_name);
    let plan = plan_block(core, session, &path, file, &client, previous).await?;
    let host = session.host();
    if let Some(view) = plan.existing {
        let token = block_tokens::to_write(core, session, &view, WRITE).await?;
        let locator = Locator::new(core, &host);
        let block = core.with_cluster(|cluster, random| locator.for_append(cluster, random, &view, token));
        return Ok(AddBlockResponseProto { block });
    }
    let anywhere = request.flags.iter().any(|flag| {
        *flag == AddBlockFlagProto::NoLocalWrite as i32 || *flag == AddBlockFlagProto::IgnoreClientLocality as i32
    });
    let ask = core.with_cluster(|cluster, _| Ask {
        replication: plan.replication,
        block_len: plan.block_len,
        client_host: (!anywhere).then(|| host.clone()),
        excluded: to_hdfs::named(cluster, request.exclude_nodes.iter().map(|node| &node.id)),
        favored: to_hdfs::favored(cluster, &request.favored_nodes),
    });
    let allocation = core.allocate(&path, &ask, session.address()).await?;
    let allocated = Allocated { block: allocation.block, home: allocation.home };
    let reply = core.change(session, AddBlock { path, client, file, previous, allocated }).await?;
    let Reply::Block(view) = reply else { return Err(surprise(&reply)) };
    let token = block_tokens::to_write(core, session, &view, WRITE).await?;
    let locator = Locator::new(core, &host);
    let block = core.with_cluster(|cluster, random| {
        // Another request for the same block may have been faster; then its block is the answer.
        if view.block == allocation.block {
            locator.with_nodes(cluster, &view, token, &allocation.nodes)
        } else {
            locator.for_append(cluster, random, &view, token)
        }
    });
    Ok(AddBlockResponseProto { block })
}

pub(super) async fn abandon_block(
    core: &Core,
    session: &Session,
    request: AbandonBlockRequestProto,
) -> Result<AbandonBlockResponseProto, Exception> {
    let path = must_find("abandonBlock", &request.src)?;
    let client = session.lease_holder(&request.holder);
    let abandon = AbandonBlock { path, client, file: file_id(request.file_id), block: request.b.block() };
    core.change(session, abandon).await?;
    Ok(AbandonBlockResponseProto {})
}

pub(super) async fn get_additional_datanode(
    core: &Core,
    session: &Session,
    request: GetAdditionalDatanodeRequestProto,
) -> Result<GetAdditionalDatanodeResponseProto, Exception> {
    let path = must_find("getAdditionalDatanode", &request.src)?;
    to_hdfs::bounded("existings", &request.existings)?;
    to_hdfs::bounded("excludes", &request.excludes)?;
    core.must_be_changeable(|| format!("Cannot add datanode; src={path}, blk={}", shown(&request.blk)))?;
    let file = file_id(request.file_id);
    let writing = writing_of(core, session, &path, file, &session.lease_holder(&request.client_name)).await?;
    let asked = block_ref(&request.blk);
    let last = writing.last.filter(|last| last.block == asked.block);
    let last = last.ok_or_else(|| Exception::io(format!("{} is not the last block of {path}", asked.block)))?;
    let now = core.monotonic();
    let host = session.host();
    // A node of the chain sends its replica to the new one, and both are asked with this.
    let token = block_tokens::to_write(core, session, &last, &[Mode::Write, Mode::Copy]).await?;
    let locator = Locator::new(core, &host);
    let block = core.with_cluster(|cluster, random| {
        let ids = |nodes: &[DatanodeInfoProto]| to_hdfs::named(cluster, nodes.iter().map(|node| &node.id));
        let existing = ids(&request.existings);
        let ask = Ask {
            block_len: writing.status.block_len,
            client_host: Some(host.clone()),
            excluded: ids(&request.excludes),
            ..Ask::default()
        };
        let count = request.num_additional_nodes.min(ADDITIONAL_COUNT_MAX) as usize;
        let more = cluster.additional(&existing, count, &ask, now, random);
        let nodes: Vec<NodeId> = existing.into_iter().chain(more).collect();
        locator.with_nodes(cluster, &last, token, &nodes)
    });
    Ok(GetAdditionalDatanodeResponseProto { block: LocatedBlockProto { b: request.blk, ..block } })
}

pub(super) async fn update_block_for_pipeline(
    core: &Core,
    session: &Session,
    request: UpdateBlockForPipelineRequestProto,
) -> Result<UpdateBlockForPipelineResponseProto, Exception> {
    let block = request.block.block();
    let reply =
        core.change(session, BumpGeneration { block, client: session.lease_holder(&request.client_name) }).await?;
    let Reply::Generation(generation) = reply else { return Err(surprise(&reply)) };
    let view = block_of_file(core, request.block.block()).await?;
    Ok(UpdateBlockForPipelineResponseProto {
        block: LocatedBlockProto {
            b: ExtendedBlockProto { generation_stamp: generation.0, ..request.block },
            offset: MINUS_ONE,
            locs: Vec::new(),
            corrupt: false,
            block_token: block_tokens::to_write(core, session, &view, WRITE).await?,
            is_cached: Vec::new(),
            storage_types: Vec::new(),
            storage_i_ds: Vec::new(),
            block_indices: None,
            block_tokens: Vec::new(),
        },
    })
}

async fn block_of_file(core: &Core, block: BlockId) -> Result<BlockView, Exception> {
    let found = core.rows(move |rows| read::file_of_block(rows, block)).await?;
    found.map(|(_, view)| view).ok_or_else(|| Exception::io(format!("{block} does not exist.")))
}

/// The beginning of names of clients that report in updatePipeline what their programs have written, sent or not.
/// hdfs-native does so, even for a chain that was never set up. Others report acknowledged bytes, which are recorded,
/// and a recovery looks for them until they are found. For bytes that never left the client it would look without end,
/// and the file would stay open.
const COUNTS_UNSENT: &str = "hdfs_native_client-";

pub(super) async fn update_pipeline(
    core: &Core,
    session: &Session,
    request: UpdatePipelineRequestProto,
) -> Result<UpdatePipelineResponseProto, Exception> {
    let (old, new) = (block_ref(&request.old_block), block_ref(&request.new_block));
    if old.block != new.block {
        return Err(Exception::io(format!("{} can not become {}", old.block, new.block)));
    }
    to_hdfs::bounded("newNodes", &request.new_nodes)?;
    // A caller without the right to write must not cause a pipeline either.
    let client = session.lease_holder(&request.client_name);
    let holder = client.clone();
    let written = core.read(move |rows| read::written_block(rows, old.block, &holder)).await?;
    let current = written.home;
    let len = if request.client_name.starts_with(COUNTS_UNSENT) { new.len.min(written.len) } else { new.len };
    let (mut home, mut dropped) = (None, Vec::new());
    if !request.new_nodes.is_empty() {
        let nodes: Option<Vec<NodeId>> = core
            .with_cluster(|cluster, _| request.new_nodes.iter().map(|node| to_hdfs::node_id(cluster, node)).collect());
        let nodes = nodes.ok_or_else(|| Exception::io("the new chain has a datanode that is not registered"))?;
        core.with_cluster(|cluster, _| {
            dropped.extend(cluster.member_ids(current).iter().copied().filter(|member| !nodes.contains(member)));
        });
        let found = core.home_for(old.block, written.file, &nodes, current, session.address()).await?;
        home = (found != current).then_some(found);
    }
    let update = UpdatePipeline { client, block: new.block, old: old.generation, new: new.generation, len, home };
    core.change(session, update).await?;
    // A writer detects a dead node seconds before heartbeats are missed. Its next block must not go there: hdfs-native
    // gives a file up when the first node of a block does not answer. Only from a client that may write the block, and
    // has recovered it.
    core.with_cluster(|cluster, _| dropped.into_iter().for_each(|node| cluster.on_dropped_from_chain(node)));
    Ok(UpdatePipelineResponseProto {})
}

/// The chain put the last block before its last ack, so there is nothing to wait for.
pub(super) async fn complete(
    core: &Core,
    session: &Session,
    request: CompleteRequestProto,
) -> Result<CompleteResponseProto, Exception> {
    let path = must_find("complete", &request.src)?;
    let (client, last) = (session.lease_holder(&request.client_name), request.last.as_ref().map(block_ref));
    let seen = match last {
        Some(last) => is_outgrown_and_seen(core, &client, last).await?,
        None => false,
    };
    let complete = Complete { path, client, file: file_id(request.file_id), last, seen };
    Ok(CompleteResponseProto { result: yes(&core.change(session, complete).await?) })
}

pub(super) async fn fsync(
    core: &Core,
    session: &Session,
    request: FsyncRequestProto,
) -> Result<FsyncResponseProto, Exception> {
    let path = must_find("fsync", &request.src)?;
    core.must_be_changeable(|| format!("Cannot fsync file {path}"))?;
    let last_len = request.last_block_length.and_then(|len| u64::try_from(len).ok());
    let (client, file) = (session.lease_holder(&request.client), file_id(request.file_id));
    if last_len.is_none() {
        // The block list is durable since addBlock; what is left of the call is its check of the lease.
        writing_of(core, session, &path, file, &client).await?;
        return Ok(FsyncResponseProto {});
    }
    core.change(session, Fsync { path, client, file, last_len }).await?;
    Ok(FsyncResponseProto {})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container_sealing::tests::with_node;
    use hdfs::proto::DatanodeIdProto;

    /// Each entry is looked for while all others wait, and one frame has room for hundreds of thousands.
    #[tokio::test]
    async fn lists_of_datanodes_are_bounded() {
        const MAX: usize = 1024;
        let (_dir, metad, core) = with_node().await;
        let session = Session::example("root", true);
        let request = CreateRequestProto {
            src: "/f".into(),
            client_name: "writer".into(),
            create_flag: CreateFlagProto::Create as u32,
            replication: 1,
            block_size: 1 << 20,
            ..CreateRequestProto::default()
        };
        create(&core, &session, request).await.unwrap();
        let id = DatanodeIdProto { ip_addr: "127.0.0.1".into(), xfer_port: 1, ..DatanodeIdProto::default() };
        let node = DatanodeInfoProto { id, ..DatanodeInfoProto::default() };
        let class = |error: Exception| error.class;
        let add = async |excluded, favored| {
            let request = AddBlockRequestProto {
                src: "/f".into(),
                client_name: "writer".into(),
                exclude_nodes: vec![DatanodeInfoProto::default(); excluded],
                favored_nodes: vec!["no:1".into(); favored],
                ..AddBlockRequestProto::default()
            };
            add_block(&core, &session, request).await.map_err(class)
        };
        let illegal = hdfs::exception::ILLEGAL_ARGUMENT;
        assert_eq!(add(MAX + 1, 0).await.unwrap_err(), illegal);
        assert_eq!(add(0, MAX + 1).await.unwrap_err(), illegal);
        let block = add(MAX, MAX).await.unwrap().block.b;
        let more = async |existing, excluded| {
            let request = GetAdditionalDatanodeRequestProto {
                src: "/f".into(),
                client_name: "writer".into(),
                blk: block.clone(),
                existings: vec![node.clone(); existing],
                excludes: vec![node.clone(); excluded],
                num_additional_nodes: 1,
                ..GetAdditionalDatanodeRequestProto::default()
            };
            get_additional_datanode(&core, &session, request).await.map_err(class)
        };
        assert_eq!(more(MAX + 1, 0).await.unwrap_err(), illegal);
        assert_eq!(more(0, MAX + 1).await.unwrap_err(), illegal);
        assert_eq!(more(MAX, MAX).await.unwrap().block.locs.len(), 1, "each node once");
        drop(core);
        metad.shutdown().await;
    }
}
