//! Writing a file: bytes become packets, packets fill a block, blocks make the file.
//!
//! ```text
//!   Writer ──▶ Packer: bytes to packets         checksums are computed while the bytes are in cache
//!      │
//!      ├─────▶ Block: one block                  drives xfer::writer::Block: calls to the metadata server
//!      │         └──▶ Chain: one connection      drives xfer::writer::Stream: a socket, and a task for the acks
//!      ├─────▶ Ahead: the next block             while this one streams; this one is finished while that one begins
//!      ├─────▶ ChainWatch: chains that are short ends a block early, where the next one can have more nodes
//!      └─────▶ metadata server: create, addBlock, complete
//! ```
//!
//! As long as a new file fits in one packet the server does not hear of it: if it is closed by then, it goes as
//! `small/` has it.
//!
//! A program may drop any future of a writer that it still has. So what a writer waits for stands in the writer before
//! it waits: a task that goes on by itself, a chain's window that has the packet, a recovery that is begun anew.
//! Nothing is taken out of its place across an `await`.

mod add;
mod ahead;
mod block;
mod chain;
mod ended;
mod open;
mod short_chain;

use crate::calls::Appended;
use crate::client::Client;
use crate::create::Create;
use crate::error::{Error, Result};
use crate::leases::Lease;
use crate::located::Node;
use crate::scope::Task;
use crate::small::Wish;
use add::{Adding, NewBlock, add_block};
use ahead::{Ahead, Ask, Closed, Closing, register};
use block::Block;
use open::{Made, NewFile, complete, make};
use short_chain::ChainWatch;
use std::time::Duration;
use types::ChecksumSpec;
use wire::Abilities;
use xfer::writer::{Identity, Packer, Plan};

pub(crate) use ended::{Ended, Name};
pub use open::OpenFile;

/// So long a node that failed a writer gets no block of it. A guess: a process starts anew in less, and who is still
/// down is not named by the server. HDFS's clients wait ten minutes.
const EXCLUDED_FOR: Duration = Duration::from_secs(30);

/// A file open for writing. Dropped without [`Writer::close`] it stays open at the server until its lease runs out;
/// what was flushed is kept. Of a file that is still small the server may know nothing before it is flushed or closed.
///
/// # Dropped futures
///
/// The future of each method may be dropped before it is ready, say by a deadline around it, and the writer be used on:
///
/// - Of [`Writer::write`]: a first part of the bytes is the file's, and will be sent; [`Writer::position`] tells how
///   far. The others were not taken.
/// - Of [`Writer::filled`]: the bytes are the file's. [`Writer::space`] may be empty then; `filled(0)` goes on with the
///   sending.
/// - Of [`Writer::flush`] and [`Writer::sync`]: nothing is promised. The next one goes on where the first was, and
///   promises all bytes up to then.
/// - Of [`Writer::close`]: nothing is promised, and the writer is gone with it. The file may be complete, or be as if
///   the writer had been dropped. A small file is there whole or not at all.
#[derive(Debug)]
pub struct Writer {
    client: Client,
    path: String,
    file: u64,
    block_len: u64,
    spec: ChecksumSpec,
    /// Where the current block begins in the file.
    block_offset: u64,
    block: Option<Block>,
    /// The block before, with its final length: the server wants to hear of it with the next.
    previous: Option<Identity>,
    /// The block before is being put; it becomes `previous`.
    closing: Option<Closing>,
    /// The server gives blocks on lease, and this one's next was not looked for yet.
    may_look_ahead: bool,
    ahead: Option<Ahead>,
    /// The next block is asked for.
    adding: Option<Adding>,
    replication: u16,
    /// Of the chains so far. There is one once there was a block.
    chain_watch: Option<ChainWatch>,
    /// What it will be, if that is known.
    len: Option<u64>,
    packer: Packer,
    /// Nodes that could not be reached; not to be given again for [`EXCLUDED_FOR`].
    excluded: Vec<Node>,
    /// When the last of them could not be reached.
    excluded_at: Duration,
    failed: bool,
    /// Of an open file.
    lease: Option<Lease>,
    start: Start,
}

#[derive(Debug)]
enum Start {
    /// Not made yet, since it may be small.
    Pending(NewFile),
    /// The server is asked to make it.
    Making(Task<Result<Made>>),
    Made,
}

/// The next block is made ready when this part of a block is left: 32 MB of the usual 128, at 1 GB/s 30 ms.
const AHEAD_SHARE: u64 = 4;

impl Client {
    pub async fn create(&self, path: &str, create: &Create) -> Result<Writer> {
        let defaults = self.defaults().await?;
        let spec = create.checksum.unwrap_or(defaults.checksum);
        let block_len = create.block_len.unwrap_or(defaults.block_len);
        if block_len == 0 || !block_len.is_multiple_of(u64::from(spec.chunk_len)) {
            let message =
                format!("the block size {block_len} is not a multiple of the checksum's {} bytes", spec.chunk_len);
            return Err(Error::Invalid(message));
        }
        let replication = create.replication.unwrap_or(defaults.replication);
        let mut writer = self.writer(path, block_len, spec);
        (writer.replication, writer.len) = (replication, create.len);
        writer.may_look_ahead = defaults.abilities.has(Abilities::LEASED_BLOCKS);
        writer.start = Start::Pending(NewFile { path: path.into(), create: create.clone(), replication, block_len });
        if self.options().small_len_max == 0 || !defaults.abilities.has(Abilities::SMALL_FILES) {
            writer.begin().await?;
        }
        Ok(writer)
    }

    /// Opens a file to write on at its end. The new bytes begin a block of their own, so no block that is whole is
    /// touched.
    pub async fn append(&self, path: &str) -> Result<Writer> {
        let defaults = self.defaults().await?;
        let lease = self.hold_lease();
        let Appended { file, len, block_len, replication, last } = self.append_file(path).await?;
        let mut writer = self.writer(path, block_len.unwrap_or(defaults.block_len), defaults.checksum);
        (writer.file, writer.lease) = (file, Some(lease));
        writer.replication = replication;
        writer.may_look_ahead = defaults.abilities.has(Abilities::LEASED_BLOCKS) && replication > 0;
        writer.block_offset = len;
        // The last block is whole; the server wants it named before it gives the next.
        writer.previous = last;
        Ok(writer)
    }

    fn writer(&self, path: &str, block_len: u64, spec: ChecksumSpec) -> Writer {
        let plan = Plan::new(spec, self.options().packet_len, block_len);
        Writer {
            client: self.clone(),
            path: path.into(),
            file: 0,
            block_len,
            spec,
            block_offset: 0,
            block: None,
            previous: None,
            closing: None,
            may_look_ahead: false,
            ahead: None,
            adding: None,
            replication: 0,
            chain_watch: None,
            len: None,
            packer: Packer::new(plan),
            excluded: Vec::new(),
            excluded_at: Duration::ZERO,
            failed: false,
            lease: None,
            start: Start::Made,
        }
    }
}

impl Writer {
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Bytes of the file so far, those still in this process included.
    pub fn position(&self) -> u64 {
        self.block_offset + self.packer.position()
    }

    /// Room for the next bytes: fill some of it, and say with [`Writer::filled`] how many. Spares the copy that `write`
    /// makes. It is empty only behind a `write` or `filled` whose future was dropped.
    pub fn space(&mut self) -> &mut [u8] {
        self.packer.space()
    }

    /// The first `len` bytes of `space` are the file's next. Sends a packet when one is full.
    pub async fn filled(&mut self, len: usize) -> Result<()> {
        self.guard()?;
        self.packer.filled(len);
        let is_small = self.packer.position() <= u64::from(self.client.options().small_len_max);
        if !self.packer.is_full() && (is_small || matches!(self.start, Start::Made)) {
            return Ok(());
        }
        self.client.clone().run(self.send_full()).await
    }

    async fn send_full(&mut self) -> Result<()> {
        self.begin().await?;
        if self.packer.is_full() {
            self.send(false).await?;
            if self.block.is_some() {
                self.look_ahead();
            }
        }
        Ok(())
    }

    /// The next bytes of the file. They are sent when a packet is full; [`Writer::flush`] sends all.
    pub async fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let space = self.space();
            let len = space.len().min(bytes.len());
            space[..len].copy_from_slice(&bytes[..len]);
            self.filled(len).await?;
            bytes = &bytes[len..];
        }
        Ok(())
    }

    /// When this returns, new readers see all bytes so far, and they survive the loss of this process.
    pub async fn flush(&mut self) -> Result<()> {
        self.client.clone().run(self.flush_with(false)).await
    }

    /// As `flush`, and the bytes of the current block are on the disks of all its nodes. Blocks before it are as
    /// durable as the store makes every finished block.
    pub async fn sync(&mut self) -> Result<()> {
        self.client.clone().run(self.flush_with(true)).await
    }

    async fn flush_with(&mut self, sync: bool) -> Result<()> {
        self.guard()?;
        self.begin().await?;
        if !self.packer.is_empty() || (sync && self.block.is_some()) {
            self.send(sync).await?;
        }
        let Some(block) = &mut self.block else { return self.settle_closing().await };
        let mut drained = block.settle_before().await;
        if drained.is_ok() {
            drained = block.drain(&self.client).await;
        }
        let is_known = block.known_to_server;
        self.settle(drained)?;
        if !is_known {
            let announced = self.client.announce(&self.path, self.file).await;
            self.settle(announced)?;
            self.block.iter_mut().for_each(|block| block.known_to_server = true);
        }
        // Waiting for its acks it may have lost a node, and a slow writer is not here again for long.
        self.leave_short_chain().await;
        Ok(())
    }

    /// Ends the file: when this returns, it is complete and all its blocks are put.
    pub async fn close(mut self) -> Result<()> {
        let client = self.client.clone();
        client.run(async move { self.end(None).await.map(|_| ()) }).await
    }

    /// Ends the file. If it is small and `name` says so, it is put under that name.
    pub(crate) async fn end(&mut self, name: Option<Name<'_>>) -> Result<Ended> {
        self.guard()?;
        if let Some(file) = self.put_whole(name).await? {
            return Ok(Ended { file, has_name: name.is_some() });
        }
        self.begin().await?;
        if !self.packer.is_empty() {
            self.send(false).await?;
        }
        if self.block.is_some() {
            self.close_block();
        }
        self.settle_closing().await?;
        if let Some(ahead) = self.ahead.take() {
            ahead.leave().await;
        }
        complete(&self.client, &self.path, self.file, self.previous.as_ref()).await?;
        Ok(Ended { file: self.file, has_name: false })
    }

    /// Puts a file that is still small in one request. `None`: it is streamed, or was all the while.
    async fn put_whole(&mut self, name: Option<Name<'_>>) -> Result<Option<u64>> {
        let Start::Pending(NewFile { path, create, replication, block_len }) = &self.start else { return Ok(None) };
        let whole = self.packer.take_whole();
        let (mut path, mut create) = (path.as_str(), create.clone());
        if let Some(name) = name {
            (path, create.overwrite) = (name.path, name.overwrite);
        }
        let wish = Wish { path, create: &create, replication: *replication, block_len: *block_len };
        if let Some(file) = self.client.put_small(wish, &whole).await? {
            (self.start, self.file) = (Start::Made, file);
            return Ok(Some(file));
        }
        self.begin().await?;
        self.write(&whole.body[whole.body.len() - whole.data_len as usize..]).await?;
        Ok(None)
    }

    /// The server was not asked to make the file.
    pub(crate) fn is_unknown_to_server(&self) -> bool {
        matches!(self.start, Start::Pending(_))
    }

    /// Deletes the file. Nothing is written any more.
    pub(crate) async fn remove(&mut self) -> Result<()> {
        self.failed = true;
        if self.is_unknown_to_server() {
            return Ok(());
        }
        // Not before it is made, or it would be made behind us.
        let _ = self.begin().await;
        (self.block, self.closing, self.adding) = (None, None, None);
        if let Some(ahead) = self.ahead.take() {
            ahead.leave().await;
        }
        self.client.delete(&self.path, false).await.map(|_| ())
    }

    /// Makes the file at the server, if that was not done yet.
    async fn begin(&mut self) -> Result<()> {
        if let Start::Pending(new) = &self.start {
            let make = make(self.client.clone(), new.clone());
            self.start = Start::Making(self.client.spawn("making of a file", make));
        }
        let Start::Making(making) = &mut self.start else { return Ok(()) };
        let made = making.await.flatten();
        self.start = Start::Made;
        let Made { file, lease } = self.settle(made)?;
        (self.file, self.lease) = (file, Some(lease));
        Ok(())
    }

    /// Sends what the packer holds, on a new block if there is none. A block that is full with it is ended.
    async fn send(&mut self, sync: bool) -> Result<()> {
        self.need_block().await?;
        let Some(block) = &mut self.block else { return Ok(()) };
        let room = block.room(&self.client).await;
        self.settle(room)?;
        // From the packer into the window at once: whoever waits after this waits for a packet that cannot get lost.
        let Some(block) = &mut self.block else { return Ok(()) };
        let packet = self.packer.pack(block.next_seqno(), sync);
        block.push(packet);
        if self.packer.position() == self.block_len {
            self.close_block(); // that sends it
            return Ok(());
        }
        let mut sent = block.write(&self.client).await;
        if let Ok(spent) = &mut sent {
            self.packer.recycle(spent);
        }
        self.settle(sent.map(|_| ()))?;
        self.leave_short_chain().await;
        Ok(())
    }

    /// Ends the block if its chain lost nodes, and the next one can have more.
    async fn leave_short_chain(&mut self) {
        let Some(block) = &self.block else { return };
        let watch = self.chain_watch.get_or_insert_with(|| ChainWatch::new(&self.client, self.replication));
        let Some(more) = watch.look(&self.client, (&self.path, self.file), block).await else { return };
        let (path, block, nodes) = (&self.path, block.id().block.0, block.members().len());
        tracing::info!(path, block, nodes, "a chain lost nodes, and there are others: its block ends early");
        for node in more {
            self.client.session.stock.readmit(&node.id);
            self.excluded.retain(|excluded| excluded.id != node.id);
        }
        self.close_block();
    }

    /// Ends the current block, while the next one may begin.
    fn close_block(&mut self) {
        let Some(mut block) = self.block.take() else { return };
        assert!(self.closing.is_none(), "a block was begun before the one before it was put");
        self.chain_watch.iter_mut().for_each(|watch| watch.on_ended(&self.client));
        let end = self.packer.end(block.next_seqno(), self.client.options().sync_blocks);
        let (client, len) = (self.client.clone(), self.packer.position());
        self.closing = Some(self.client.spawn("end of a block", async move {
            block.finish(&client, end).await?;
            Ok(Identity { len, ..block.id().clone() })
        }));
        self.block_offset += len;
        self.packer.start_block();
    }

    /// Returns when the block before is put.
    async fn settle_closing(&mut self) -> Result<()> {
        if let Some(closing) = &mut self.closing {
            let closed = closing.await.flatten();
            self.closing = None;
            self.previous = Some(self.settle(closed)?);
        }
        Ok(())
    }

    /// Begins to look for the next block, late enough that files which end before are rare.
    fn look_ahead(&mut self) {
        let left = self.block_len - self.packer.position();
        if !self.may_look_ahead || left > self.block_len / AHEAD_SHARE {
            return;
        }
        let block_end = self.block_offset + self.block_len;
        if self.len.is_some_and(|len| len <= block_end) {
            return;
        }
        self.forget_excluded();
        let ask = Ask {
            path: self.path.clone(),
            file: self.file,
            replication: self.replication,
            block_len: self.block_len,
            spec: self.spec,
            excluded: self.excluded.iter().map(|node| node.id.clone()).collect(),
            // A file of unknown length that has two blocks is likely to have more.
            sure: self.len.is_some() || self.block_offset > 0,
        };
        self.may_look_ahead = false;
        self.ahead = Some(Ahead::begin(&self.client, ask));
    }

    /// If there is no block: takes the one that was made ready, or one that is asked for now.
    async fn need_block(&mut self) -> Result<()> {
        if self.block.is_some() {
            return Ok(());
        }
        if let Some(ahead) = &mut self.ahead {
            let ready = ahead.take().await;
            (self.ahead, self.may_look_ahead) = (None, true);
            if let Some(block) = ready {
                self.go_on_with(block);
                return Ok(());
            }
        }
        self.settle_closing().await?;
        self.forget_excluded();
        let adding = self.adding.get_or_insert_with(|| {
            let new = NewBlock {
                path: self.path.clone(),
                file: self.file,
                spec: self.spec,
                previous: self.previous.clone(),
                excluded: self.excluded.clone(),
            };
            self.client.spawn("a new block", add_block(self.client.clone(), new))
        });
        let added = adding.await.flatten();
        self.adding = None;
        let (block, excluded) = self.settle(added)?;
        if excluded.len() > self.excluded.len() {
            self.excluded_at = self.client.options().clock.monotonic();
        }
        (self.block, self.excluded) = (Some(block), excluded);
        Ok(())
    }

    /// Nodes that failed a while ago may be back. Those that are not the server does not name.
    fn forget_excluded(&mut self) {
        let now = self.client.options().clock.monotonic();
        if now.saturating_sub(self.excluded_at) >= EXCLUDED_FOR {
            self.excluded.clear();
        }
    }

    /// The next block is this one, which was on lease; the server is told so when the one before is put.
    fn go_on_with(&mut self, mut block: Block) {
        let before = match self.closing.take() {
            Some(closing) => Closed::Soon(closing),
            None => Closed::Already(self.previous.clone()),
        };
        let (client, path, id) = (self.client.clone(), self.path.clone(), (block.id().clone(), block.token().clone()));
        let register = register(client, path, self.file, id, before);
        block.set_before(self.client.spawn("registration of a block", register));
        self.block = Some(block);
    }

    /// A writer that failed once stays failed: nobody knows what became of the bytes under way.
    fn settle<T>(&mut self, result: Result<T>) -> Result<T> {
        self.failed |= result.is_err();
        result
    }

    fn guard(&self) -> Result<()> {
        if self.failed { Err(Error::LeaseLost("an earlier write failed".into())) } else { Ok(()) }
    }
}
