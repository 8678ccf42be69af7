//! Where the bytes come from: a reader of the store. In tests, what answers when it is told to.

use crate::error::Result;
use crate::read::{FirstWindow, Opening, RangeRead, Reader};

pub(super) trait Origin: Send + Sync + 'static {
    /// Bytes of the file.
    fn len(&self) -> u64;

    fn path(&self) -> &str;

    /// Fills all of `reads`, which lie within the file.
    fn fill<'a>(&'a self, reads: &'a mut [RangeRead<'_>]) -> impl Future<Output = Result<()>> + Send + 'a;

    /// Where the columns lie, with so many bytes of some of them on their way, if the store says so. `opening`: what
    /// comes before them.
    fn first_window(
        &self,
        columns: Vec<(u32, u32)>,
        len: u64,
        opening: Opening,
    ) -> impl Future<Output = Result<Option<FirstWindow>>> + Send;
}

impl Origin for Reader {
    fn len(&self) -> u64 {
        Reader::len(self)
    }

    fn path(&self) -> &str {
        Reader::path(self)
    }

    async fn fill<'a>(&'a self, reads: &'a mut [RangeRead<'_>]) -> Result<()> {
        match reads {
            // A short one is asked of a second node as well, should the first be slow.
            [read] => self.read_at(read.offset, read.dest).await.map(drop),
            reads => self.read_ranges(reads).await,
        }
    }

    async fn first_window(&self, columns: Vec<(u32, u32)>, len: u64, opening: Opening) -> Result<Option<FirstWindow>> {
        Reader::first_window(self, columns, len, opening).await
    }
}
