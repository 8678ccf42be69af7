//! Where the bytes come from: a reader of the store. In tests, what answers when it is told to.

use crate::error::Result;
use crate::read::{RangeRead, Reader};

pub(super) trait Origin: Send + Sync + 'static {
    /// Bytes of the file.
    fn len(&self) -> u64;

    /// Fills all of `reads`, which lie within the file.
    fn fill<'a>(&'a self, reads: &'a mut [RangeRead<'_>]) -> impl Future<Output = Result<()>> + Send + 'a;
}

impl Origin for Reader {
    fn len(&self) -> u64 {
        Reader::len(self)
    }

    async fn fill<'a>(&'a self, reads: &'a mut [RangeRead<'_>]) -> Result<()> {
        match reads {
            // A short one is asked of a second node as well, should the first be slow.
            [read] => self.read_at(read.offset, read.dest).await.map(drop),
            reads => self.read_ranges(reads).await,
        }
    }
}
