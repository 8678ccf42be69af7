//! How much containers hold, counted from their rows: what is deleted makes them smaller, and nobody else tells them.
//!
//! Promise: a few pages a round, whatever the store holds; a container's length is right but for what was written and
//! deleted while it was counted.

use crate::core::Core;
use namespace::read::{self, Place};
use std::sync::Arc;
use types::ContainerId;
use types::rows::RowsError;

/// Blocks of one page.
const PAGE_COUNT: usize = 1000;
/// Pages of one round: with one round in ten seconds, ten million blocks in about half an hour.
const ROUND_PAGE_COUNT: usize = 50;

/// How far it is.
#[derive(Debug, Default)]
pub(crate) struct Measure {
    home: Option<ContainerId>,
    /// Where the next page of that container begins; `None`: all its pages were counted.
    next: Option<Place>,
    len: u64,
}

pub(crate) async fn round(core: &Arc<Core>, measure: &mut Measure) -> Result<(), RowsError> {
    // The one before those that are begun in this round: once it comes again, all were counted.
    let first = measure.home.filter(|_| measure.next.is_none());
    for _ in 0..ROUND_PAGE_COUNT {
        let Some((home, place)) = begin(core, measure) else { return Ok(()) };
        let page = core.chore_rows(move |rows| read::container_page(rows, home, place, PAGE_COUNT)).await?;
        measure.len = types::len::total(page.blocks.iter().map(|view| view.len).chain([measure.len]));
        assert!(page.blocks.len() <= PAGE_COUNT, "a page of {home} has {} blocks", page.blocks.len());
        measure.next = page.next;
        if measure.next.is_none() {
            core.with_cluster(|cluster, _| cluster.on_measured(home, measure.len));
            if first == Some(home) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The page that is to be counted.
fn begin(core: &Core, measure: &mut Measure) -> Option<(ContainerId, Place)> {
    if let (Some(home), Some(place)) = (measure.home, measure.next) {
        return Some((home, place));
    }
    let home = core.with_cluster(|cluster, _| cluster.container_after(measure.home))?;
    *measure = Measure { home: Some(home), next: None, len: 0 };
    Some((home, Place::start(home)))
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
        let mut measure = Measure::default();
        let len = |at: usize| core.with_cluster(|cluster, _| cluster.container(homes[at]).unwrap().len_about());
        let path = FsPath::parse("/first").unwrap();
        core.change_unasked(Delete { path, recursive: false, examined: None }).await.unwrap();
        crate::block_deletion::round(&core).await.unwrap();
        assert_eq!((len(0), len(1)), (LEN, LEN), "nobody has looked");
        round(&core, &mut measure).await.unwrap();
        assert_eq!((len(0), len(1)), (0, LEN));
        round(&core, &mut measure).await.unwrap();
        assert_eq!((len(0), len(1)), (0, LEN), "and once more");
        drop(core);
        metad.shutdown().await;
    }
}
