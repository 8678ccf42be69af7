//! Calls about names, and of readers.

use super::{Answer, Located, Metad, Refused};
use namespace::{BlockView, Caller, Delete, FileBlocks, Mkdirs, Rename2, RetryKey, SetReplication, Status, read};
use std::rc::Rc;
use types::FsPath;

impl Metad {
    pub(super) fn locate(&self, view: BlockView, live_only: bool) -> Answer<Located> {
        let now = self.now();
        let nodes = self.with_cluster(|cluster, random| {
            let mut members = cluster.readers_order(view.home, view.complete && !live_only, None, now, random);
            if live_only && members.iter().any(|member| member.is_live(now)) {
                members.retain(|member| member.is_live(now));
            }
            members.into_iter().map(|member| member.node.id).collect()
        })?;
        Ok(Located { view, nodes })
    }

    pub(crate) async fn delete(self: Rc<Self>, retry: RetryKey, path: FsPath) -> Answer<bool> {
        let reply = self.change(Some(retry), Delete { path, recursive: true, examined: None }).await?;
        Ok(reply == namespace::Reply::Bool(true))
    }

    pub(crate) async fn rename(
        self: Rc<Self>,
        retry: RetryKey,
        from: FsPath,
        to: FsPath,
        overwrite: bool,
    ) -> Answer<()> {
        self.change(Some(retry), Rename2 { from, to, overwrite, to_trash: false, examined: None }).await?;
        Ok(())
    }

    pub(crate) async fn mkdirs(self: Rc<Self>, path: FsPath) -> Answer<()> {
        self.change(None, Mkdirs { path, mode: 0o755, unmasked: None, create_parent: true }).await.map(|_| ())
    }

    pub(crate) async fn status(self: Rc<Self>, path: FsPath) -> Answer<Option<Status>> {
        self.group.read_barrier().await?;
        let status = read::status(&*self.group.rows(), &Caller::system(), &path);
        status.expect("memory can be read").map_err(Refused::Namespace)
    }

    /// All blocks of a file with their nodes; the last one may be under construction.
    pub(crate) async fn located(self: Rc<Self>, path: FsPath) -> Answer<(FileBlocks, Vec<Located>)> {
        self.group.read_barrier().await?;
        let file = read::located(&*self.group.rows(), &Caller::system(), &path, 0, u64::MAX);
        let file = file.expect("memory can be read").map_err(Refused::Namespace)?;
        let mut views: Vec<BlockView> = file.blocks.iter().filter(|view| view.complete).copied().collect();
        views.extend(file.last.filter(|last| !last.complete));
        let located = views.into_iter().map(|view| self.locate(view, false)).collect::<Answer<Vec<_>>>()?;
        Ok((file, located))
    }

    pub(crate) async fn is_closed(self: Rc<Self>, path: FsPath) -> Answer<bool> {
        self.group.read_barrier().await?;
        let closed = read::is_closed(&*self.group.rows(), &Caller::system(), &path);
        closed.expect("memory can be read").map_err(Refused::Namespace)
    }

    pub(crate) async fn set_replication(
        self: Rc<Self>,
        retry: RetryKey,
        path: FsPath,
        replication: u16,
    ) -> Answer<bool> {
        let reply = self.change(Some(retry), SetReplication { path, replication }).await?;
        Ok(reply == namespace::Reply::Bool(true))
    }
}
