//! A writer who closes its file says how long the last block became. More than the length of the file's blocks takes a
//! datanode's word.

use super::growth::Growth;
use crate::core::Core;
use crate::repair::has_whole;
use hdfs::Exception;
use namespace::{BlockRef, BlockView, read};

/// What a writer says that its last block became, and whether it needs more than his word.
#[derive(Debug)]
pub(crate) struct Claimed {
    growth: Growth,
    claim: BlockRef,
    is_outgrown: bool,
}

impl Claimed {
    /// To be called before the change is proposed.
    pub(crate) async fn begin(core: &Core, client: &str, claim: BlockRef) -> Result<Self, Exception> {
        let client = client.to_owned();
        let found = core.rows(move |rows| {
            let Some((_, view)) = read::file_of_block(rows, claim.block)? else { return Ok((None, false)) };
            Ok((Some(view), read::is_outgrown(rows, &view, &client, claim.len)?))
        });
        let (before, is_outgrown) = found.await?;
        Ok(Self { growth: Growth { block: claim.block, before }, claim, is_outgrown })
    }

    /// True if the block is said to be longer than the blocks of its file, and a datanode has it whole at that length.
    /// So it is with HBase's logs: their writer goes on in one block until it begins another file.
    pub(crate) async fn is_seen(&self, core: &Core) -> bool {
        let Some(view) = self.growth.before.filter(|_| self.is_outgrown) else { return false };
        let BlockRef { block, generation, len } = self.claim;
        has_whole(core, &BlockView { block, generation, len, ..view }).await
    }

    /// As [`Growth::end`].
    pub(crate) async fn end(self, core: &Core) -> Result<Option<BlockView>, Exception> {
        self.growth.end(core).await
    }
}
