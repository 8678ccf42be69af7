//! Reading of the rows by which `lead::ContainerSizes` counts the lengths of containers: a few pages a round, whatever
//! the size of the store.

use crate::core::Core;
use lead::Leader;
use namespace::read;
use std::sync::Arc;
use types::rows::RowsError;

/// Blocks of one page.
const PAGE_COUNT: usize = 1000;
/// Pages of one round: with one round in ten seconds, ten million blocks in about half an hour.
const ROUND_PAGE_COUNT: usize = 50;

pub(crate) async fn round(core: &Arc<Core>) -> Result<(), RowsError> {
    for _ in 0..ROUND_PAGE_COUNT {
        let next = core.with_leader(|Leader { cluster, container_sizes, .. }, _| container_sizes.next(cluster));
        let Some((home, place)) = next else { return Ok(()) };
        let page = core.chore_rows(move |rows| read::container_page(rows, home, place, PAGE_COUNT)).await?;
        assert!(page.blocks.len() <= PAGE_COUNT, "a page of {home} has {} blocks", page.blocks.len());
        let len = types::len::total(page.blocks.iter().map(|view| view.len));
        let all_counted = core
            .with_leader(|Leader { cluster, container_sizes, .. }, _| container_sizes.on_page(len, page.next, cluster));
        if all_counted {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container_sealing::tests::{LEN, add_block, create, with_node};
    use namespace::{Complete, Delete};
    use types::FsPath;

    #[tokio::test]
    async fn what_is_deleted_makes_its_container_smaller() {
        let (_dir, metad, core) = with_node().await;
        let mut homes = Vec::new();
        for path in ["/first", "/second"].map(|path| FsPath::parse(path).unwrap()) {
            create(&core, &path).await;
            let (last, home) = add_block(&core, &path).await;
            let complete = Complete { path, client: "writer".into(), file: None, last: Some(last), seen: false };
            core.change_unasked(complete).await.unwrap();
            core.with_cluster(|cluster, _| cluster.on_confirmed_len(last.block, LEN));
            homes.push(home);
        }
        let len = |at: usize| core.with_cluster(|cluster, _| cluster.container(homes[at]).unwrap().len_about());
        let path = FsPath::parse("/first").unwrap();
        core.change_unasked(Delete { path, recursive: false, examined: None }).await.unwrap();
        crate::block_deletion::round(&core).await.unwrap();
        assert_eq!((len(0), len(1)), (LEN, LEN), "nobody has looked");
        round(&core).await.unwrap();
        assert_eq!((len(0), len(1)), (0, LEN));
        round(&core).await.unwrap();
        assert_eq!((len(0), len(1)), (0, LEN), "and once more");
        drop(core);
        metad.shutdown().await;
    }
}
