//! Reading a file: which block, which replica, and what to do when one fails.
//!
//! ```text
//!   Reader ──▶ Source: bytes at any offset     chooses a replica, asks a second one, tries again
//!                │
//!                ├──▶ File: where is offset n?     asked anew when every replica of a block has failed
//!                ├──▶ local: a replica's file      of a datanode on this machine; at any fault all goes on below
//!                └──▶ BlockReader: one READ_BLOCK  dropped at the first fault; the next replica goes on at that byte
//! ```
//!
//! A node that is slower than usual is not waited for: a positioned read is asked of a second one beside it, and
//! whoever is first counts; a stream goes on at the next one.

mod block;
mod file;
mod first_window;
mod found;
mod layout;
mod local;
mod local_replicas;
mod opening;
mod ranges;
mod source;
mod traffic;

use crate::client::Client;
use crate::content::Content;
use crate::error::Result;
use crate::status::Status;
use ::layout::{Layout, Wanted};
use block::BlockReader;
use file::File;
pub(crate) use first_window::{ComingPart, FirstWindow};
use futures_util::{Stream, StreamExt, stream};
pub(crate) use layout::Pieces;
pub use layout::{LayoutReport, LayoutWindow};
pub(crate) use opening::{ComingOpening, Opening};
pub use ranges::RangeRead;
use source::Source;

/// A file open for reading. [`Reader::read`] goes on where it ended; [`Reader::read_at`] may be called by many at once.
#[derive(Debug)]
pub struct Reader {
    source: Source,
    position: u64,
    current: Option<BlockReader>,
}

/// Bytes skipped by reading them rather than by a new connection. A guess: a round trip's worth on a fast network.
const SKIP_LEN_MAX: u64 = 128 << 10;

/// Files that are opened at a time. A guess: as many answers as a server keeps waiting for one connection.
const OPEN_COUNT_MAX: usize = 64;

impl Client {
    /// Opens a file for reading. A file that is being written has the length its datanodes show at this moment.
    pub async fn open(&self, path: &str) -> Result<Reader> {
        self.run(async { Ok(Reader::new(File::open(self, path).await?)) }).await
    }

    /// As [`Client::open`], of the bytes that the path names now and of no others: once they were replaced, cut or
    /// written on, a read brings bytes of before, or fails. They have a name, by which they can be kept:
    /// [`Reader::content`].
    pub async fn open_pinned(&self, path: &str) -> Result<Reader> {
        self.run(async { Ok(Reader::new(File::open_pinned(self, path).await?)) }).await
    }

    /// Opens many files, which come as they are open. The questions go out together, so far away all of them cost one
    /// round trip.
    pub fn open_each(&self, paths: impl IntoIterator<Item = String>) -> impl Stream<Item = (String, Result<Reader>)> {
        let open = |path: String| async {
            let reader = self.open(&path).await;
            (path, reader)
        };
        stream::iter(paths).map(open).buffer_unordered(OPEN_COUNT_MAX)
    }

    /// As [`Client::open`], of a file whose status the caller has, say from a listing. Blocks of a complete file that
    /// this user opened so before are known for some minutes: then no server is asked. The status must not be older
    /// than what is to be read.
    pub async fn open_listed(&self, path: &str, status: &Status) -> Result<Reader> {
        self.run(async { Ok(Reader::new(File::open_listed(self, path, status).await?)) }).await
    }
}

impl Reader {
    fn new(file: File) -> Self {
        Self { source: Source::new(file), position: 0, current: None }
    }

    /// Bytes of the file, as of its opening.
    #[expect(clippy::len_without_is_empty, reason = "a length, not a collection")]
    pub fn len(&self) -> u64 {
        self.source.file.len
    }

    /// Which file this is, as in [`Status::id`]. `None`: the server did not say, as HDFS's do not; nor does any of a
    /// file without blocks.
    pub async fn file_id(&self) -> Option<u64> {
        self.source.file.id().await
    }

    /// Which bytes these are. `None`: it was not opened by [`Client::open_pinned`], or is being written, or empty.
    pub fn content(&self) -> Option<&Content> {
        self.source.file.content.as_deref()
    }

    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next `read` begins here; beyond the end it finds nothing.
    pub fn seek(&mut self, position: u64) {
        self.position = position;
    }

    /// Fills `dest` with what comes next; fewer bytes only at the end of the file. After an error, or if the future is
    /// dropped, the position is where it was.
    pub async fn read(&mut self, dest: &mut [u8]) -> Result<usize> {
        let wanted = self.wanted(self.position, dest.len());
        // Out of its place until all is there: a connection that is left in the middle of a packet is of no more use.
        let mut current = self.current.take();
        let reading = async {
            let mut done = 0;
            while done < wanted {
                done += self.read_some(&mut current, self.position + done as u64, &mut dest[done..wanted]).await?;
            }
            Ok(())
        };
        self.client().run(reading).await?;
        self.current = current;
        self.position += wanted as u64;
        Ok(wanted)
    }

    /// Fills `dest` from `offset`; fewer bytes only at the end of the file. Does not touch the position.
    pub async fn read_at(&self, offset: u64, dest: &mut [u8]) -> Result<usize> {
        let wanted = self.wanted(offset, dest.len());
        let dest = &mut dest[..wanted];
        let reading = async {
            match self.source.is_worth_several(wanted) {
                true => self.source.read_ranges(&mut [RangeRead { offset, dest }]).await,
                false => self.source.read_exact_at(offset, dest).await,
            }
        };
        self.client().run(reading).await?;
        Ok(wanted)
    }

    /// Fills all of `reads`, which may lie anywhere in the file and overlap. What one datanode has of them comes by one
    /// request, in whatever order is best for its disks: far away the whole costs one round trip beside the opening.
    /// An error if one reaches beyond the end of the file; then, or if the future is dropped, some may be filled.
    pub async fn read_ranges(&self, reads: &mut [RangeRead<'_>]) -> Result<()> {
        self.client().run(self.source.read_ranges(reads)).await
    }

    /// As [`Reader::read_ranges`], for who begins with what is there: each read comes back as soon as it is filled, in
    /// any order, and a long one in parts, each with its own offset and part of `dest`; an empty one does not.
    /// After an error nothing comes any more.
    pub fn stream_ranges<'a>(&'a self, reads: Vec<RangeRead<'a>>) -> impl Stream<Item = Result<RangeRead<'a>>> + 'a {
        self.source.stream_ranges(reads)
    }

    /// Where the columns of the file lie, if the store says so: names of all columns, pieces of
    /// those that are wanted (of all, if more are than a request can name). `None`:
    /// the file is of no format that the store knows, or the store has no layouts.
    pub async fn layout(&self, wanted: &Wanted) -> Result<Option<Layout>> {
        match self.layout_report(wanted, LayoutWindow::default()).await? {
            LayoutReport::Found { layout, .. } => Ok(Some(layout)),
            LayoutReport::None { .. } => Ok(None),
        }
    }

    /// As [`Self::layout`], with who says so, or why there is none. First bytes of the wanted columns can come along,
    /// in the same flight.
    pub async fn layout_report(&self, wanted: &Wanted, window: LayoutWindow) -> Result<LayoutReport> {
        self.client().run(self.source.layout(wanted, window)).await
    }

    /// Where the columns of the file lie, with the first bytes of those that are wanted on their way, over as many
    /// connections as bring them soon. `opening`: what comes before them. `None`: the store, or the node that was
    /// asked, does not say.
    pub(crate) async fn first_window(
        &self,
        columns: Vec<(u32, u32)>,
        len: u64,
        opening: Opening,
    ) -> Result<Option<FirstWindow>> {
        let source = std::sync::Arc::new(self.again().source);
        self.client().run(source.first_window(columns, len, opening)).await
    }

    /// Another one of the same file, which shares what is known of its blocks. Nobody is asked.
    pub fn again(&self) -> Self {
        Self::new(self.source.file.clone())
    }

    /// The same bytes, asked for anew, from the position on: for who goes on where no node had them for a while. An
    /// error if the path names another file by now, or this one was cut or written on since: what was read before is of
    /// other bytes than what would come.
    pub async fn reopened(&self) -> Result<Self> {
        let file = self.client().run(self.source.file.reopened()).await?;
        Ok(Self { position: self.position, ..Self::new(file) })
    }

    /// Opens connections for what will be read of it: as many as bring this much at once. Nobody waits for them.
    pub(crate) async fn warm(&self, len: u64) {
        self.source.warm(len).await;
    }

    pub(crate) fn path(&self) -> &str {
        &self.source.file.path
    }

    pub(crate) fn client(&self) -> &Client {
        &self.source.file.client
    }

    /// As much of `len` as the file has behind `offset`.
    fn wanted(&self, offset: u64, len: usize) -> usize {
        len.min(usize::try_from(self.len().saturating_sub(offset)).unwrap_or(usize::MAX))
    }

    /// Some bytes at `at`, at least one; the caller knows that the file goes on there.
    async fn read_some(&self, current: &mut Option<BlockReader>, at: u64, dest: &mut [u8]) -> Result<usize> {
        let mut attempt = self.source.attempt();
        loop {
            if let Some(mut reader) = current.take() {
                let ahead = at.checked_sub(reader.file_position());
                if at < reader.file_end() && ahead.is_some_and(|ahead| ahead <= SKIP_LEN_MAX) {
                    reader.skip_to(at);
                    let (got, fault) = reader.read(dest).await;
                    match fault {
                        Some(fault) => {
                            self.source.on_fault(&reader.block, &reader.node, &mut attempt, fault).await?;
                        }
                        // The end of its block: its connection may serve another.
                        None if at + got as u64 == reader.file_end() => reader.finish(self.client()).await,
                        None => *current = Some(reader),
                    }
                    if got > 0 {
                        return Ok(got);
                    }
                    continue;
                }
            }
            let block = self.source.file.block_at(at).await?;
            let from = at - block.offset;
            let len = (dest.len() as u64).min(block.len - from) as usize;
            if self.source.read_local(&block, from, &mut dest[..len]).await {
                return Ok(len);
            }
            *current = self.source.open_stream(&block, from, &mut attempt).await?;
        }
    }
}
