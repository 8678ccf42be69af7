//! The last step of a full container: once no open file writes into it, it is sealed for good.

use crate::core::Core;
use blocks::{Command, ContainerState};
use namespace::read;
use raft::RaftError;
use std::collections::BTreeSet;
use types::rows::RowsError;
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
    let mut quiet: BTreeSet<ContainerId> = core.with_cluster(|cluster, _| {
        let sealing = cluster.containers().filter(|(_, container)| container.state == ContainerState::Sealing);
        sealing.map(|(id, _)| id).collect()
    });
    let mut after = Some(InodeId(0));
    while let Some(from) = after.filter(|_| !quiet.is_empty()) {
        let view = core.machine.store().view();
        let (files, next) = read::open_files(&view, from, PAGE_COUNT)?;
        for file in files {
            // Only the last block of a file can be under construction.
            let Ok(path) = FsPath::parse(&file.path) else { continue };
            let located = read::located(&view, &namespace::Caller::system(), &path, u64::MAX, 0)?;
            if let Some(last) = located.ok().and_then(|file| file.last) {
                quiet.remove(&last.home);
            }
        }
        after = next;
    }
    for container in quiet {
        if let Err(refused) = core.change_blocks(Command::FinishSeal { container }).await? {
            tracing::debug!(%refused, "a container was not sealed");
        }
    }
    Ok(())
}
