//! Check of the length that a writer claims for its last block. A length above the limit of the file's blocks needs a
//! datanode's report.

use crate::core::Core;
use crate::repair::has_whole;
use hdfs::Exception;
use namespace::{BlockRef, BlockView, read};
use types::mutation::{self, Mutation};

/// True if the claimed length is greater than that of the file's blocks, and a datanode has the block whole at that
/// length. HBase's logs are like that: their writer stays in one block until it begins another file.
pub(super) async fn is_outgrown_and_seen(core: &Core, client: &str, claim: BlockRef) -> Result<bool, Exception> {
    if mutation::is(Mutation::BelieveLengths) {
        return Ok(true);
    }
    let client = client.to_owned();
    let BlockRef { block, generation, len } = claim;
    let found = core.rows(move |rows| {
        let Some((_, view)) = read::file_of_block(rows, block)? else { return Ok(None) };
        Ok(read::is_outgrown(rows, &view, &client, len)?.then_some(view))
    });
    match found.await? {
        Some(view) => Ok(has_whole(core, &BlockView { block, generation, len, ..view }).await),
        None => Ok(false),
    }
}
