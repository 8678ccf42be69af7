//! Calls about names, and of readers.

use super::{Answer, Metad, Refused};
use crate::tokens;
use crate::world::World;
use hdfs::proto::*;
use namespace::{BlockView, RetryKey};
use std::rc::Rc;
use types::{FileId, FsPath, InodeId, NodeId};
use wire::BlockScope;

/// A block with the nodes to write it to, or to read it from.
#[derive(Clone, Debug)]
pub(crate) struct Located {
    pub(crate) view: BlockView,
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) token: TokenProto,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Status {
    pub(crate) id: FileId,
    pub(crate) len: u64,
    pub(crate) mode: u16,
    pub(crate) replication: u16,
}

pub(super) fn status(status: &HdfsFileStatusProto) -> Status {
    let id = InodeId(status.file_id.expect("a file has an id"));
    let replication = status.block_replication.unwrap_or_default() as u16;
    Status { id, len: status.length, mode: status.permission.perm as u16, replication }
}

pub(super) fn located(block: &LocatedBlockProto, complete: bool) -> Located {
    let scope = BlockScope::decode(&block.block_token.identifier).expect("a token of ours").expect("and not empty");
    let view = BlockView {
        file: scope.file,
        block: block.b.block(),
        generation: block.b.generation(),
        len: block.b.num_bytes.unwrap_or(0),
        offset: block.offset,
        home: scope.home,
        complete,
        written_for: None,
    };
    let nodes = block.locs.iter().map(|node| World::node_of_addr(&node.id.ip_addr)).collect();
    Located { view, nodes, token: block.block_token.clone() }
}

fn permission(mode: u16) -> FsPermissionProto {
    FsPermissionProto { perm: mode.into() }
}

impl Metad {
    pub(crate) async fn delete(self: Rc<Self>, retry: RetryKey, path: FsPath) -> Answer<bool> {
        let request = DeleteRequestProto { src: path.to_string(), recursive: true };
        let answer: DeleteResponseProto = self.ask("delete", Some(retry), request).await?;
        Ok(answer.result)
    }

    pub(crate) async fn rename(
        self: Rc<Self>,
        retry: RetryKey,
        from: FsPath,
        to: FsPath,
        overwrite: bool,
    ) -> Answer<()> {
        let request = Rename2RequestProto {
            src: from.to_string(),
            dst: to.to_string(),
            overwrite_dest: overwrite,
            ..Rename2RequestProto::default()
        };
        self.ask::<Rename2ResponseProto>("rename2", Some(retry), request).await.map(|_| ())
    }

    pub(crate) async fn mkdirs(self: Rc<Self>, path: FsPath) -> Answer<()> {
        let (src, masked) = (path.to_string(), permission(0o755));
        let request = MkdirsRequestProto { src, masked, create_parent: true, unmasked: None };
        self.ask::<MkdirsResponseProto>("mkdirs", None, request).await.map(|_| ())
    }

    pub(crate) async fn status(self: Rc<Self>, path: FsPath) -> Answer<Option<Status>> {
        let request = GetFileInfoRequestProto { src: path.to_string() };
        let answer: GetFileInfoResponseProto = self.ask("getFileInfo", None, request).await?;
        Ok(answer.fs.as_ref().map(status))
    }

    /// The id of a file and all its blocks with their nodes; the last one may be under construction.
    pub(crate) async fn located(self: Rc<Self>, path: FsPath) -> Answer<(FileId, Vec<Located>)> {
        let request = GetLocatedFileInfoRequestProto { src: Some(path.to_string()), ..Default::default() };
        let answer: GetLocatedFileInfoResponseProto = self.ask("getLocatedFileInfo", None, request).await?;
        let found = answer.fs.ok_or(Refused::NotFound)?;
        let file = status(&found).id;
        let Some(locations) = found.locations else { return Ok((file, Vec::new())) };
        let last = locations.last_block.filter(|_| !locations.is_last_block_complete);
        let open = last.as_ref().map(|last| last.b.block());
        let complete = locations.blocks.iter().filter(|block| Some(block.b.block()) != open);
        let mut all: Vec<Located> = complete.map(|block| located(block, true)).collect();
        all.extend(last.as_ref().map(|last| located(last, false)));
        if self.world.plan.has_tokens {
            let mut seen = self.world.tokens_seen.borrow_mut();
            all.iter().filter(|located| located.view.complete).for_each(|located| tokens::note(&mut seen, located));
        }
        Ok((file, all))
    }

    pub(crate) async fn is_closed(self: Rc<Self>, path: FsPath) -> Answer<bool> {
        let request = IsFileClosedRequestProto { src: path.to_string() };
        let answer: IsFileClosedResponseProto = self.ask("isFileClosed", None, request).await?;
        Ok(answer.result)
    }

    pub(crate) async fn set_replication(
        self: Rc<Self>,
        retry: RetryKey,
        path: FsPath,
        replication: u16,
    ) -> Answer<bool> {
        let request = SetReplicationRequestProto { src: path.to_string(), replication: replication.into() };
        let answer: SetReplicationResponseProto = self.ask("setReplication", Some(retry), request).await?;
        Ok(answer.result)
    }
}
