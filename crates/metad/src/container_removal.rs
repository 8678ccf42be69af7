//! Removal of sealed, empty containers: each round visits some of them; `Leader::next_removable` and the rows decide.

use crate::container_sealing::SealError;
use crate::core::Core;
use blocks::Command;
use namespace::read;
use std::sync::Arc;
use types::ContainerId;
use types::mutation::{self, Mutation};

pub(crate) async fn round(core: &Arc<Core>) -> Result<(), SealError> {
    if core.safe_mode()?.is_some() {
        return Ok(());
    }
    let now = core.monotonic();
    let some = core.leader().next_removable(now);
    let empty = core.chore_rows(move |rows| {
        let looked = some.into_iter().map(|home| {
            let is_empty = read::is_empty(rows, home)? || mutation::is(Mutation::RemoveUnemptied);
            Ok(is_empty.then_some(home))
        });
        looked.filter_map(Result::transpose).collect::<Result<Vec<ContainerId>, types::rows::RowsError>>()
    });
    for container in empty.await? {
        match core.change_blocks(Command::RemoveContainer { container }).await? {
            Ok(_) => tracing::info!(%container, "container removed: all its blocks were deleted"),
            Err(refused) => tracing::debug!(%refused, "container not removed"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change_error::ChangeError;
    use crate::container_sealing::tests::{create, with_node, write_block};
    use namespace::NsError;
    use namespace::error::block_fault::BlockFault;
    use namespace::{Complete, Delete, ForgetDoomed};
    use types::FsPath;

    /// Full, sealed, emptied: it goes when the last replica was deleted, and a block that was on its way there is
    /// refused.
    #[tokio::test]
    async fn a_sealed_container_goes_when_its_last_block_is_deleted() {
        let (_dir, metad, core) = with_node().await;
        let (first, second) = (FsPath::parse("/first").unwrap(), FsPath::parse("/second").unwrap());
        create(&core, &first).await;
        create(&core, &second).await;
        let (last, full) = write_block(&core, &first).await;
        let is_there = || core.with_cluster(|cluster, _| cluster.container(full).is_some());
        write_block(&core, &second).await;
        let complete =
            Complete { path: first.clone(), client: "writer".into(), file: None, last: Some(last), seen: false };
        core.change_unasked(complete).await.unwrap();
        crate::container_sealing::round(&core).await.unwrap();
        round(&core).await.unwrap();
        assert!(is_there(), "it holds a block");
        core.change_unasked(Delete { path: first, recursive: false, examined: None }).await.unwrap();
        crate::block_deletion::round(&core).await.unwrap();
        round(&core).await.unwrap();
        assert!(is_there(), "the datanode is still to delete its replica");
        let doomed = core.rows_here(|rows| read::doomed_blocks(rows, None, 9)).unwrap();
        let now = core.monotonic();
        let orders = core.leader().doomed.orders(types::NodeId([1; 16]), now);
        for (block, _) in orders {
            core.leader().doomed.on_deleted(types::NodeId([1; 16]), block);
        }
        core.change_unasked(ForgetDoomed { blocks: doomed }).await.unwrap();
        core.leader().doomed.take_forgettable(9);
        round(&core).await.unwrap();
        assert!(!is_there());
        // Somebody decided before that the next block of the other file comes here.
        let allocated = namespace::Allocated { block: types::BlockId::new(full, 1000), home: full };
        let add = namespace::AddBlock { path: second, client: "writer".into(), file: None, previous: None, allocated };
        let refused = core.change_unasked(add).await.unwrap_err();
        let is_gone = |fault: &BlockFault| *fault == BlockFault::HomeGone(full);
        assert!(matches!(&refused, ChangeError::Refused(NsError::Block(fault)) if is_gone(fault)), "{refused}");
        drop(core);
        metad.shutdown().await;
    }
}
