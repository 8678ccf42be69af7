//! Calls of writers.

use super::names::{located, status};
use super::{Answer, Located, Metad, Refused, Status};
use hdfs::proto::*;
use namespace::{BlockRef, BlockView, RetryKey};
use std::rc::Rc;
use types::{BlockId, FileId, FsPath, Generation, NodeId};

/// How a new file is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) overwrite: bool,
    pub(crate) mode: u16,
    pub(crate) replication: u16,
    pub(crate) block_len: u64,
}

/// As HDFS's messages name a block.
fn extended(block: BlockRef) -> ExtendedBlockProto {
    ExtendedBlockProto::of("", block.block, block.generation, block.len)
}

/// As HDFS's messages name a node.
fn named(id: NodeId) -> DatanodeIdProto {
    DatanodeIdProto { datanode_uuid: id.to_string(), ..DatanodeIdProto::default() }
}

impl Metad {
    pub(crate) async fn create(
        self: Rc<Self>,
        retry: RetryKey,
        client: String,
        path: FsPath,
        wish: Wish,
    ) -> Answer<Status> {
        let Wish { overwrite, mode, replication, block_len } = wish;
        let overwrite = if overwrite { CreateFlagProto::Overwrite as u32 } else { 0 };
        let request = CreateRequestProto {
            src: path.to_string(),
            masked: FsPermissionProto { perm: mode.into() },
            client_name: client,
            create_flag: CreateFlagProto::Create as u32 | overwrite,
            create_parent: true,
            replication: replication.into(),
            block_size: block_len,
            ..CreateRequestProto::default()
        };
        let answer: CreateResponseProto = self.ask("create", Some(retry), request).await?;
        Ok(status(&answer.fs.expect("a file that was made has a status")))
    }

    /// The last block, which is whole, and the length.
    pub(crate) async fn append(
        self: Rc<Self>,
        retry: RetryKey,
        client: String,
        path: FsPath,
    ) -> Answer<(Option<BlockView>, Status)> {
        let flags = CreateFlagProto::Append as u32 | CreateFlagProto::NewBlock as u32;
        let request = AppendRequestProto { src: path.to_string(), client_name: client, flag: Some(flags) };
        let answer: AppendResponseProto = self.ask("append", Some(retry), request).await?;
        let stat = status(&answer.stat.expect("a file that is open has a status"));
        Ok((answer.block.map(|block| located(&block, true).view), stat))
    }

    pub(crate) async fn add_block(
        self: Rc<Self>,
        client: String,
        path: FsPath,
        file: FileId,
        previous: Option<BlockRef>,
        excluded: Vec<NodeId>,
    ) -> Answer<Located> {
        let excluded = excluded.into_iter().map(|id| DatanodeInfoProto { id: named(id), ..Default::default() });
        let request = AddBlockRequestProto {
            src: path.to_string(),
            client_name: client,
            previous: previous.map(extended),
            exclude_nodes: excluded.collect(),
            file_id: Some(file.0),
            ..AddBlockRequestProto::default()
        };
        let answer: AddBlockResponseProto = self.ask("addBlock", None, request).await?;
        let located = located(&answer.block, false);
        self.world.was_given(located.view.block, file);
        Ok(located)
    }

    pub(crate) async fn abandon(
        self: Rc<Self>,
        client: String,
        path: FsPath,
        file: FileId,
        block: BlockId,
    ) -> Answer<()> {
        let b = extended(BlockRef { block, generation: Generation(0), len: 0 });
        let request = AbandonBlockRequestProto { b, src: path.to_string(), holder: client, file_id: Some(file.0) };
        self.ask::<AbandonBlockResponseProto>("abandonBlock", None, request).await.map(|_| ())
    }

    /// The generation that comes next, and whose the block is and where it lives.
    pub(crate) async fn bump(self: Rc<Self>, client: String, block: BlockId) -> Answer<(Generation, Located)> {
        let block = extended(BlockRef { block, generation: Generation(0), len: 0 });
        let request = UpdateBlockForPipelineRequestProto { block, client_name: client };
        let answer: UpdateBlockForPipelineResponseProto = self.ask("updateBlockForPipeline", None, request).await?;
        let located = located(&answer.block, false);
        Ok((located.view.generation, located))
    }

    /// Nodes that could join those of a block's chain.
    pub(crate) async fn additional_nodes(
        self: Rc<Self>,
        client: String,
        path: FsPath,
        file: FileId,
        block: BlockRef,
        nodes: Vec<NodeId>,
        count: usize,
    ) -> Answer<Vec<NodeId>> {
        let existings = nodes.iter().map(|node| DatanodeInfoProto { id: named(*node), ..Default::default() });
        let request = GetAdditionalDatanodeRequestProto {
            src: path.to_string(),
            blk: extended(block),
            existings: existings.collect(),
            num_additional_nodes: count as u32,
            client_name: client,
            file_id: Some(file.0),
            ..GetAdditionalDatanodeRequestProto::default()
        };
        let answer: GetAdditionalDatanodeResponseProto = self.ask("getAdditionalDatanode", None, request).await?;
        let mut more = located(&answer.block, false).nodes;
        more.retain(|node| !nodes.contains(node));
        Ok(more)
    }

    pub(crate) async fn update_pipeline(
        self: Rc<Self>,
        retry: RetryKey,
        client: String,
        old: BlockRef,
        new: BlockRef,
        nodes: Vec<NodeId>,
    ) -> Answer<()> {
        let request = UpdatePipelineRequestProto {
            client_name: client,
            old_block: extended(old),
            new_block: extended(new),
            new_nodes: nodes.into_iter().map(named).collect(),
            ..UpdatePipelineRequestProto::default()
        };
        let done = self.ask::<UpdatePipelineResponseProto>("updatePipeline", Some(retry), request).await;
        // Clients here go on with nodes that they were given.
        if let Err(Refused::Odd(why)) = &done
            && (why.contains("sets of datanodes") || why.contains("no member"))
        {
            self.world.fail(|| format!("an honest writer of {} is refused: {why}", new.block));
        }
        done.map(|_| ())
    }

    pub(crate) async fn complete(
        self: Rc<Self>,
        client: String,
        path: FsPath,
        file: FileId,
        last: Option<BlockRef>,
    ) -> Answer<bool> {
        let (src, last, file_id) = (path.to_string(), last.map(extended), Some(file.0));
        let request = CompleteRequestProto { src, client_name: client, last, file_id };
        let answer: CompleteResponseProto = self.ask("complete", None, request).await?;
        Ok(answer.result)
    }

    pub(crate) async fn fsync(self: Rc<Self>, client: String, path: FsPath, file: FileId) -> Answer<()> {
        let (src, file_id) = (path.to_string(), Some(file.0));
        let request = FsyncRequestProto { src, client, last_block_length: None, file_id };
        self.ask::<FsyncResponseProto>("fsync", None, request).await.map(|_| ())
    }

    pub(crate) async fn renew(self: Rc<Self>, client: String) -> Answer<()> {
        let request = RenewLeaseRequestProto { client_name: client, ..RenewLeaseRequestProto::default() };
        self.ask::<RenewLeaseResponseProto>("renewLease", None, request).await.map(|_| ())
    }

    pub(crate) async fn recover_lease(self: Rc<Self>, path: FsPath) -> Answer<bool> {
        let request = RecoverLeaseRequestProto { src: path.to_string(), client_name: "administrator".to_owned() };
        let answer: RecoverLeaseResponseProto = self.ask("recoverLease", None, request).await?;
        Ok(answer.result)
    }

    /// False: the last block is still being cut, and the file open until it is.
    pub(crate) async fn truncate(
        self: Rc<Self>,
        retry: RetryKey,
        client: String,
        path: FsPath,
        len: u64,
    ) -> Answer<bool> {
        let request = TruncateRequestProto { src: path.to_string(), new_length: len, client_name: client };
        let answer: TruncateResponseProto = self.ask("truncate", Some(retry), request).await?;
        Ok(answer.result)
    }

    /// A reader met a replica that does not match its checksums.
    pub(crate) async fn report_bad(self: Rc<Self>, block: BlockId, node: NodeId) -> Answer<()> {
        let b = extended(BlockRef { block, generation: Generation(0), len: 0 });
        let locs = vec![DatanodeInfoProto { id: named(node), ..Default::default() }];
        let block = LocatedBlockProto { b, locs, ..LocatedBlockProto::default() };
        let request = ReportBadBlocksRequestProto { blocks: vec![block] };
        self.ask::<ReportBadBlocksResponseProto>("reportBadBlocks", None, request).await.map(|_| ())
    }
}
