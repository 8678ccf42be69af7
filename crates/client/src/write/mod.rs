//! Writing a file: bytes become packets, packets fill a block, blocks make the file.
//!
//! ```text
//!   Writer ──▶ Packer: bytes to packets         checksums are computed while the bytes are in cache
//!      │
//!      ├─────▶ Block: one block                  drives xfer::writer::Block: calls to the metadata server
//!      │         └──▶ Chain: one connection      drives xfer::writer::Stream: a socket, and a task for the acks
//!      ├─────▶ Ahead: the next block             while this one streams; this one is finished while that one begins
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
mod open;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::namespace::permission;
use crate::small::Wish;
use crate::status::unusable;
use add::{Adding, NewBlock, add_block};
use ahead::{Ahead, Ask, Closed, Closing, ended, register};
use block::Block;
use hdfs::proto;
use open::complete;
use std::time::Duration;
use types::ChecksumSpec;
use wire::Abilities;
use xfer::writer::{Packer, Plan};

pub use open::OpenFile;

/// How a new file is to be. The default is what the server proposes, and refuses to replace.
#[derive(Clone, Debug)]
pub struct Create {
    /// Replace a file that is there.
    pub overwrite: bool,
    /// Make missing directories above.
    pub parents: bool,
    pub mode: u16,
    pub replication: Option<u16>,
    pub block_len: Option<u64>,
    pub checksum: Option<ChecksumSpec>,
    /// How long the file will be, if that is known: then each next block can be made ready in time. Nothing breaks if
    /// it becomes another length.
    pub len: Option<u64>,
}

impl Default for Create {
    fn default() -> Self {
        Self {
            overwrite: false,
            parents: true,
            mode: MODE,
            replication: None,
            block_len: None,
            checksum: None,
            len: None,
        }
    }
}

/// What a file grants if nobody says otherwise, and what that is without the usual umask.
const MODE: u16 = 0o644;
const MODE_UNMASKED: u16 = 0o666;

impl Create {
    /// What the default access list of the directory may make of a mode that nobody chose.
    pub(crate) fn unmasked(&self) -> Option<u16> {
        (self.mode == MODE).then_some(MODE_UNMASKED)
    }
}

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
    previous: Option<proto::ExtendedBlockProto>,
    /// The block before is being put; it becomes `previous`.
    closing: Option<Closing>,
    /// The server gives blocks on lease, and this one's next was not looked for yet.
    may_look_ahead: bool,
    ahead: Option<Ahead>,
    /// The next block is asked for.
    adding: Option<Adding>,
    replication: u16,
    /// What it will be, if that is known.
    len: Option<u64>,
    packer: Packer,
    /// Nodes that could not be reached; not to be given again.
    excluded: Vec<proto::DatanodeInfoProto>,
    failed: bool,
    /// Of an open file.
    lease: Option<Lease>,
    start: Start,
}

#[derive(Debug)]
enum Start {
    /// The file as it shall be; not made yet, since it may be small.
    Pending(Pending),
    /// The server is asked to make it.
    Making(io::task::Owned<Result<Made>>),
    Made,
}

#[derive(Clone, Debug)]
struct Pending {
    create: Create,
    replication: u16,
}

/// A file that the server has made.
#[derive(Debug)]
struct Made {
    file: u64,
    lease: Lease,
}

/// HDFS's flags of create and append.
const FLAG_CREATE: u32 = 1;
const FLAG_OVERWRITE: u32 = 2;
const FLAG_APPEND: u32 = 4;
const FLAG_NEW_BLOCK: u32 = 32;
/// First pause before a call that the server was not ready for is made again, and how often it is: HDFS's client waits
/// 400 ms at first, ours less, since our servers are ready almost at once.
const PAUSE_FIRST: Duration = Duration::from_millis(25);
const PAUSE_COUNT: u32 = 10;
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
        writer.start = Start::Pending(Pending { create: create.clone(), replication });
        if self.options().small_len_max == 0 || !defaults.abilities.has(Abilities::SMALL_FILES) {
            writer.begin().await?;
        }
        Ok(writer)
    }

    /// Opens a file to write on at its end. The new bytes begin a block of their own, so no block that is whole is
    /// touched.
    pub async fn append(&self, path: &str) -> Result<Writer> {
        let defaults = self.defaults().await?;
        let request = proto::AppendRequestProto {
            src: path.into(),
            client_name: self.inner.holder.clone(),
            flag: Some(FLAG_APPEND | FLAG_NEW_BLOCK),
        };
        let lease = Lease::hold(self);
        let answer: proto::AppendResponseProto = self.call("append", &request).await?;
        let status = match answer.stat {
            Some(status) => status,
            None => {
                let request = proto::GetFileInfoRequestProto { src: path.into() };
                let answer: proto::GetFileInfoResponseProto = self.call("getFileInfo", &request).await?;
                answer.fs.ok_or(Error::NotFound)?
            }
        };
        if unusable(&status).is_some() {
            return Err(Error::Unsupported("appending to an erasure coded or encrypted file"));
        }
        let block_len = status.blocksize.filter(|len| *len > 0).unwrap_or(defaults.block_len);
        let mut writer = self.writer(path, block_len, defaults.checksum);
        (writer.file, writer.lease) = (status.file_id.unwrap_or(0), Some(lease));
        writer.replication = status.block_replication.unwrap_or(0).try_into().unwrap_or(0);
        writer.may_look_ahead = defaults.abilities.has(Abilities::LEASED_BLOCKS) && writer.replication > 0;
        writer.block_offset = status.length;
        // The last block is whole; the server wants it named before it gives the next.
        writer.previous = match answer.block {
            Some(last) => Some(last.b),
            None => self.located(path, 0, 0).await?.last_block.map(|last| last.b),
        };
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
            len: None,
            packer: Packer::new(plan),
            excluded: Vec::new(),
            failed: false,
            lease: None,
            start: Start::Made,
        }
    }

    fn not_understood(&self, reason: &str) -> Error {
        Error::Protocol { addr: self.url().authority.clone(), reason: reason.into() }
    }
}

impl Writer {
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
        if self.packer.is_full() || self.packer.position() > u64::from(self.client.options().small_len_max) {
            self.begin().await?;
        }
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
        self.flush_with(false).await
    }

    /// As `flush`, and the bytes of the current block are on the disks of all its nodes. Blocks before it are as
    /// durable as the store makes every finished block.
    pub async fn sync(&mut self) -> Result<()> {
        self.flush_with(true).await
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
            self.announce().await?;
            self.block.iter_mut().for_each(|block| block.known_to_server = true);
        }
        Ok(())
    }

    /// Has the server write down that the block exists, so that a crash of this process does not lose it.
    async fn announce(&mut self) -> Result<()> {
        let request = proto::FsyncRequestProto {
            src: self.path.clone(),
            client: self.client.inner.holder.clone(),
            last_block_length: None,
            file_id: Some(self.file),
        };
        let answer: Result<proto::FsyncResponseProto> = self.client.call("fsync", &request).await;
        self.settle(answer.map(|_| ()))
    }

    /// Ends the file: when this returns, it is complete and all its blocks are put.
    pub async fn close(mut self) -> Result<()> {
        self.guard()?;
        if self.put_whole().await? {
            return Ok(());
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
        complete(&self.client, &self.path, self.file, self.previous.clone()).await
    }

    /// Puts a file that is still small in one request. False: it is streamed, or was all the while.
    async fn put_whole(&mut self) -> Result<bool> {
        let Start::Pending(Pending { create, replication }) = &self.start else { return Ok(false) };
        let whole = self.packer.take_whole();
        let (path, replication, block_len) = (&*self.path, *replication, self.block_len);
        if self.client.put_small(Wish { path, create, replication, block_len }, &whole).await? {
            return Ok(true);
        }
        self.begin().await?;
        self.write(&whole.body[whole.body.len() - whole.data_len as usize..]).await?;
        Ok(false)
    }

    /// Makes the file at the server, if that was not done yet.
    async fn begin(&mut self) -> Result<()> {
        if let Start::Pending(pending) = &self.start {
            let make = make(self.client.clone(), self.path.clone(), self.block_len, pending.clone());
            self.start = Start::Making(io::task::spawn_owned("making of a file", make));
        }
        let Start::Making(making) = &mut self.start else { return Ok(()) };
        let made = ended(making.await);
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
        self.settle(sent.map(|_| ()))
    }

    /// Ends the current block, while the next one may begin.
    fn close_block(&mut self) {
        let Some(mut block) = self.block.take() else { return };
        assert!(self.closing.is_none(), "a block was begun before the one before it was put");
        let end = self.packer.end(block.next_seqno(), self.client.options().sync_blocks);
        let (client, len) = (self.client.clone(), self.packer.position());
        self.closing = Some(io::task::spawn_owned("end of a block", async move {
            block.finish(&client, end).await?;
            Ok(proto::ExtendedBlockProto { num_bytes: Some(len), ..block.id() })
        }));
        self.block_offset += len;
        self.packer.start_block();
    }

    /// Returns when the block before is put.
    async fn settle_closing(&mut self) -> Result<()> {
        if let Some(closing) = &mut self.closing {
            let closed = ended(closing.await);
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
        let ask = Ask {
            path: self.path.clone(),
            file: self.file,
            replication: self.replication,
            block_len: self.block_len,
            spec: self.spec,
            excluded: self.excluded.iter().map(|node| node.id.datanode_uuid.clone()).collect(),
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
        let adding = self.adding.get_or_insert_with(|| {
            let new = NewBlock {
                path: self.path.clone(),
                file: self.file,
                spec: self.spec,
                previous: self.previous.clone(),
                excluded: self.excluded.clone(),
            };
            io::task::spawn_owned("a new block", add_block(self.client.clone(), new))
        });
        let added = ended(adding.await);
        self.adding = None;
        let (block, excluded) = self.settle(added)?;
        (self.block, self.excluded) = (Some(block), excluded);
        Ok(())
    }

    /// The next block is this one, which was on lease; the server is told so when the one before is put.
    fn go_on_with(&mut self, mut block: Block) {
        let before = match self.closing.take() {
            Some(closing) => Closed::Soon(closing),
            None => Closed::Already(self.previous.clone()),
        };
        let (client, path, id) = (self.client.clone(), self.path.clone(), block.id());
        let register = register(client, path, self.file, id, before);
        block.set_before(io::task::spawn_owned("registration of a block", register));
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

async fn make(client: Client, path: String, block_len: u64, pending: Pending) -> Result<Made> {
    let Pending { create, replication } = pending;
    let request = proto::CreateRequestProto {
        src: path.clone(),
        masked: permission(create.mode),
        unmasked: create.unmasked().map(permission),
        client_name: client.inner.holder.clone(),
        create_flag: if create.overwrite { FLAG_CREATE | FLAG_OVERWRITE } else { FLAG_CREATE },
        create_parent: create.parents,
        replication: replication.into(),
        block_size: block_len,
        ..Default::default()
    };
    // Held first: were the renewals late, the lease could be lost between.
    let lease = Lease::hold(&client);
    let answer: proto::CreateResponseProto = client.call("create", &request).await?;
    let status = answer.fs.ok_or_else(|| client.not_understood("create without a file status"))?;
    if unusable(&status).is_some() {
        let _ = client.delete(&path, false).await;
        return Err(Error::Unsupported("writing into an erasure coded or encrypted directory"));
    }
    Ok(Made { file: status.file_id.unwrap_or(0), lease })
}
