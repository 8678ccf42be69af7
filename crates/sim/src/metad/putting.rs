//! Blocks on lease, and small files put whole: our own protocol for clients.

use super::{Answer, Metad};
use crate::world::World;
use hdfs::proto::TokenProto;
use lead::Grant;
use namespace::{BlockRef, RetryKey};
use std::rc::Rc;
use std::time::Duration;
use types::{BlockId, FileId, FsPath, Generation, InodeId, NodeId};
use wire::client::{
    ADD_LEASED, AddLeasedRequest, AddLeasedResponse, CLIENT_PROTOCOL, LEASE_BLOCKS, LeaseBlocksRequest,
    LeaseBlocksResponse, PROTOCOL_VERSION, PUT_FILE, PreviousBlock, PutBlock, PutFileRequest, PutFileResponse,
};

/// Blocks of one answer, the oldest in front.
#[derive(Clone, Debug)]
pub(crate) struct LeasedBlocks {
    pub(crate) grants: Vec<Grant>,
    /// One for each.
    pub(crate) tokens: Vec<TokenProto>,
    pub(crate) generation: Generation,
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) limit: Duration,
}

/// Which blocks a client wants on lease.
#[derive(Clone, Debug)]
pub(crate) struct LeaseAsk {
    pub(crate) holder: String,
    pub(crate) replication: u16,
    pub(crate) count: u32,
    pub(crate) excluded: Vec<NodeId>,
    pub(crate) returned: Vec<BlockId>,
    /// For this open file; for new ones if there is none.
    pub(crate) open: Option<FileId>,
}

/// A small file, as its client asks for it.
#[derive(Clone, Debug)]
pub(crate) struct Put {
    pub(crate) path: FsPath,
    pub(crate) holder: String,
    pub(crate) replication: u16,
    pub(crate) block_len: u64,
    pub(crate) grant: Grant,
    /// That came with it.
    pub(crate) token: TokenProto,
    pub(crate) generation: Generation,
    pub(crate) len: u64,
    /// Not all of its nodes have said that they put the block.
    pub(crate) short: bool,
}

impl Metad {
    pub(crate) async fn lease_blocks(self: Rc<Self>, asked: LeaseAsk) -> Answer<LeasedBlocks> {
        let LeaseAsk { holder, replication, count, excluded, returned, open } = asked;
        let request = LeaseBlocksRequest {
            holder,
            replication: replication.into(),
            block_len: 1,
            count,
            excluded: excluded.iter().map(NodeId::to_string).collect(),
            returned: returned.iter().map(|block| block.0).collect(),
            file: open.map_or(0, |file| file.0),
            path: "/file".to_owned(),
        };
        let answer = self.ask_in(CLIENT_PROTOCOL, PROTOCOL_VERSION, LEASE_BLOCKS, None, request).await?;
        let LeaseBlocksResponse { generation, blocks, nodes, limit_ms, .. } = answer;
        let grant =
            |leased: wire::client::LeasedBlock| Grant { block: BlockId(leased.block), file: InodeId(leased.file) };
        let token = |leased: &wire::client::LeasedBlock| {
            let (identifier, password) = (leased.token.clone(), leased.password.clone());
            TokenProto { identifier, password, ..TokenProto::none() }
        };
        let tokens = blocks.iter().map(token).collect();
        let grants: Vec<Grant> = blocks.into_iter().map(grant).collect();
        grants.iter().for_each(|grant| self.world.was_given(grant.block, grant.file));
        Ok(LeasedBlocks {
            grants,
            tokens,
            generation: Generation(generation),
            nodes: nodes.iter().map(|node| World::node_of_addr(&node.addr)).collect(),
            limit: Duration::from_millis(limit_ms),
        })
    }

    /// The file's id.
    pub(crate) async fn put_file(self: Rc<Self>, retry: RetryKey, put: Put) -> Answer<FileId> {
        let Put { path, holder, replication, block_len, grant, token, generation, len, short } = put;
        let TokenProto { identifier: token, password, .. } = token;
        let request = PutFileRequest {
            path: path.to_string(),
            holder,
            mode: 0o644,
            overwrite: false,
            create_parent: true,
            replication: replication.into(),
            block_len,
            block: Some(PutBlock {
                block: grant.block.0,
                file: grant.file.0,
                generation: generation.0,
                len,
                token,
                password,
            }),
            unmasked: None,
            short,
        };
        let answer = self.ask_in(CLIENT_PROTOCOL, PROTOCOL_VERSION, PUT_FILE, Some(retry), request).await?;
        let PutFileResponse { file } = answer;
        Ok(InodeId(file))
    }

    /// A block that was on lease becomes the next of its file.
    pub(crate) async fn add_leased(
        self: Rc<Self>,
        client: String,
        path: FsPath,
        file: FileId,
        previous: Option<BlockRef>,
        (block, generation, token): (BlockId, Generation, TokenProto),
    ) -> Answer<()> {
        let before =
            |BlockRef { block, generation, len }| PreviousBlock { block: block.0, generation: generation.0, len };
        let request = AddLeasedRequest {
            path: path.to_string(),
            holder: client,
            file: file.0,
            block: block.0,
            generation: generation.0,
            previous: previous.map(before),
            token: token.identifier,
            password: token.password,
        };
        let done = self.ask_in::<AddLeasedResponse>(CLIENT_PROTOCOL, PROTOCOL_VERSION, ADD_LEASED, None, request);
        done.await.map(|_| ())
    }
}
