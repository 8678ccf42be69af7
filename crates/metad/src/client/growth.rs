//! What a writer's call adds to a container, by what the rows say before and after it.
//!
//! The length that a call names counts for nothing here: it may be refused, and a call that is repeated adds nothing
//! again.

use crate::core::Core;
use hdfs::Exception;
use namespace::{BlockView, read};
use types::BlockId;

/// A block whose recorded length a call may change.
#[derive(Debug)]
pub(crate) struct Growth {
    pub(super) block: BlockId,
    pub(super) before: Option<BlockView>,
}

async fn recorded(core: &Core, block: BlockId) -> Result<Option<BlockView>, Exception> {
    Ok(core.rows(move |rows| read::file_of_block(rows, block)).await?.map(|(_, view)| view))
}

impl Growth {
    /// To be called before the change is proposed.
    pub(crate) async fn begin(core: &Core, block: BlockId) -> Result<Self, Exception> {
        Ok(Self { block, before: recorded(core, block).await? })
    }

    /// As [`Growth::begin`], of a block that may not be named.
    pub(crate) async fn begin_of(core: &Core, block: Option<BlockId>) -> Result<Option<Self>, Exception> {
        match block {
            Some(block) => Self::begin(core, block).await.map(Some),
            None => Ok(None),
        }
    }

    /// The change was made: its container is longer now by what the block has grown. The block as it is recorded.
    pub(crate) async fn end(self, core: &Core) -> Result<Option<BlockView>, Exception> {
        let after = recorded(core, self.block).await?;
        if let Some(view) = after {
            let counted = self.before.filter(|before| before.home == view.home).map_or(0, |before| before.len);
            let (now, grown) = (core.monotonic(), view.len.saturating_sub(counted));
            core.with_cluster(|cluster, _| cluster.on_claimed_len(now, view.home, (self.block, view.len), grown));
        }
        Ok(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sealing::tests::{LEN, add_block, create, with_node};
    use namespace::Complete;
    use types::FsPath;

    /// A client that repeats its call, or names another length in it, makes no container longer.
    #[tokio::test]
    async fn a_container_grows_once_by_what_is_recorded() {
        let (_dir, metad, core) = with_node().await;
        let path = FsPath::parse("/f").unwrap();
        create(&core, &path).await;
        let (last, home) = add_block(&core, &path).await;
        let len = || core.with_cluster(|cluster, _| cluster.container(home).unwrap().len_about());
        for claimed in [LEN + 1, LEN, LEN, LEN - 1, u64::MAX] {
            let growth = Growth::begin(&core, last.block).await.unwrap();
            let last = Some(namespace::BlockRef { len: claimed, ..last });
            let complete = Complete { path: path.clone(), client: "writer".into(), file: None, last, seen: false };
            let answer = core.change_unasked(complete).await;
            assert_eq!(answer.is_ok(), claimed == LEN, "{claimed}: {answer:?}");
            growth.end(&core).await.unwrap();
            assert_eq!(len(), if claimed > LEN && len() == 0 { 0 } else { LEN }, "{claimed}");
        }
        drop(core);
        metad.shutdown().await;
    }
}
