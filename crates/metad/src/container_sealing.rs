//! Sealing of full containers: open files are read page by page; `lead::Sealing` decides.

use crate::core::Core;
use namespace::read;
use raft::RaftError;
use types::rows::{Rows, RowsError};
use types::{ContainerId, FsPath, InodeId};

/// Open files looked at under one view.
const PAGE_COUNT: usize = 200;

#[derive(Debug, thiserror::Error)]
pub(crate) enum SealError {
    #[error(transparent)]
    Rows(#[from] RowsError),
    #[error(transparent)]
    Raft(#[from] RaftError),
}

pub(crate) async fn round(core: &Core) -> Result<(), SealError> {
    let now = core.monotonic();
    let begun = core.leader().begin_sealing(now);
    let Some(mut sealing) = begun else { return Ok(()) };
    let mut after = Some(InodeId(0));
    while let Some(from) = after.filter(|_| sealing.goes_on()) {
        let (homes, next) = core.chore_rows(move |rows| open_homes(rows, from)).await?;
        homes.into_iter().for_each(|home| sealing.on_open(home));
        after = next;
    }
    for command in sealing.end() {
        if let Err(refused) = core.change_blocks(command).await? {
            tracing::debug!(%refused, "container not sealed");
        }
    }
    Ok(())
}

/// Containers of the last blocks of a page of open files, and where the next page begins.
fn open_homes(rows: &dyn Rows, from: InodeId) -> Result<(Vec<ContainerId>, Option<InodeId>), RowsError> {
    let (files, next) = read::open_files(rows, from, PAGE_COUNT)?;
    let mut homes = Vec::new();
    for file in files {
        let Ok(path) = FsPath::parse(&file.path) else { continue };
        let located = read::located_unasked(rows, &path, u64::MAX, 0)?;
        homes.extend(located.ok().and_then(|file| file.last).map(|last| last.home));
    }
    Ok((homes, next))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Config;
    use blocks::{Command, ContainerState, Node};
    use lead::{Ask, NodeUsage};
    use namespace::{AddBlock, Allocated, BlockRef, Complete, Create, Reply};
    use std::sync::Arc;
    use types::{ContainerId, NodeId, StorageUsage};

    pub(crate) const LEN: u64 = 6 << 30;

    pub(crate) async fn write_block(core: &Core, path: &FsPath) -> (BlockRef, ContainerId) {
        let (last, home) = add_block(core, path).await;
        core.with_cluster(|cluster, _| cluster.on_written(home, LEN));
        (last, home)
    }

    /// A block that nobody has written to.
    pub(crate) async fn add_block(core: &Core, path: &FsPath) -> (BlockRef, ContainerId) {
        let ask = Ask { replication: 1, block_len: 1, ..Ask::default() };
        let allocation = core.allocate(path, &ask, [127, 0, 0, 1].into()).await.unwrap();
        let allocated = Allocated { block: allocation.block, home: allocation.home };
        let add = AddBlock { path: path.clone(), client: "writer".into(), file: None, previous: None, allocated };
        let reply = core.change_unasked(add).await.unwrap();
        let Reply::Block(view) = reply else { panic!("{reply:?}") };
        (BlockRef { block: view.block, generation: view.generation, len: LEN }, view.home)
    }

    pub(crate) async fn create(core: &Core, path: &FsPath) {
        let create = Create {
            path: path.clone(),
            client: "writer".into(),
            client_host: "here".into(),
            mode: 0o644,
            unmasked: None,
            create: true,
            overwrite: false,
            create_parent: true,
            replication: 1,
            block_len: LEN,
            block_len_min: 1 << 20,
            takeover: None,
        };
        core.change_unasked(create).await.unwrap();
    }

    /// A server that leads, and one datanode that it has heard.
    pub(crate) async fn with_node() -> (tempfile::TempDir, crate::Metad, Arc<Core>) {
        with_config(|_| {}).await
    }

    pub(crate) async fn with_config(set: impl FnOnce(&mut Config)) -> (tempfile::TempDir, crate::Metad, Arc<Core>) {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::new(dir.path().into(), "127.0.0.1:0".parse().unwrap());
        set(&mut config);
        let metad = crate::start(config).await.unwrap();
        let core = metad.running().as_ref().unwrap().server.leadership.core().unwrap();
        let node = Node {
            id: NodeId([1; 16]),
            ip: "127.0.0.1".into(),
            host: "localhost".into(),
            xfer_port: 1,
            ipc_port: 1,
            info_port: 0,
            storage: "s".into(),
            rack: "/r".into(),
            incarnation: blocks::Incarnation::default(),
            from: "127.0.0.1".into(),
            outside: None,
        };
        let usage = NodeUsage {
            storage: StorageUsage { capacity_len: 1 << 50, used_len: 0, free_len: 1 << 50 },
            transfer_count: 0,
        };
        core.change_blocks(Command::Register(node)).await.unwrap().unwrap();
        let now = core.monotonic();
        core.with_cluster(|cluster, _| cluster.on_registered(now, NodeId([1; 16]), usage));
        (dir, metad, core)
    }

    /// A container with six gigabytes takes no more; it is sealed once its last writer has closed.
    #[tokio::test]
    async fn a_full_container_is_sealed_when_nobody_writes_into_it() {
        let (_dir, metad, core) = with_node().await;
        let state = |id| core.with_cluster(|cluster, _| cluster.container(id).unwrap().state);
        let (first, second) = (FsPath::parse("/first").unwrap(), FsPath::parse("/second").unwrap());
        create(&core, &first).await;
        create(&core, &second).await;
        let (last, full) = write_block(&core, &first).await;
        assert_eq!(state(full), ContainerState::Open);
        let (_, next) = write_block(&core, &second).await;
        assert_ne!(next, full);
        round(&core).await.unwrap();
        assert_eq!(state(full), ContainerState::Sealing, "its file is still open");
        let complete = Complete { path: first, client: "writer".into(), file: None, last: Some(last), seen: false };
        core.change_unasked(complete).await.unwrap();
        round(&core).await.unwrap();
        assert_eq!(state(full), ContainerState::Sealed);
        drop(core);
        metad.shutdown().await;
    }
}
