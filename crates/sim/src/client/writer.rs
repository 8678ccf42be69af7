//! A file open for writing: its blocks one after the other, and what may be promised of them when.

use super::block::{Before, Block, Shape};
use super::short_chain::ChainWatch;
use super::{BLOCK_LEN, Client, Error, Result};
use crate::metad::{Located, Status};
use crate::platter::SPEC;
use crate::small::Lease;
use crate::world::content;
use namespace::{BlockRef, BlockView};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use types::{BlockId, FileId, FsPath, NodeId};
use xfer::writer::{Packer, Plan};

const PAUSE_FIRST: Duration = Duration::from_millis(25);
const PAUSE_COUNT: u32 = 10;
const BLOCK_RETRIES: u32 = 3;
const SAFE_MODE_PAUSE: Duration = Duration::from_secs(1);
pub(crate) const PACKET_LEN: u32 = 4 * SPEC.chunk_len;
/// Longer than any block here.
const LEN_CLAIMED: u64 = 1 << 16;
/// The next block is looked for when this part of a block is left.
const AHEAD_SHARE: usize = 4;

/// A file open for writing.
pub(crate) struct Writer {
    client: Rc<Client>,
    path: FsPath,
    pub(crate) file: FileId,
    tag: u64,
    block_offset: usize,
    packer: Packer,
    block: Option<Block>,
    previous: Option<BlockRef>,
    excluded: Vec<NodeId>,
    shape: Shape,
    /// The replication of the file, if its blocks are taken on lease while those before them are written.
    pub(super) ahead_of: Option<u16>,
    ahead: Option<Lease>,
    /// All nodes have put the block before; nobody said yet that it is still this writer's.
    unconfirmed: Option<Unconfirmed>,
    /// Ends blocks early whose chain lost nodes. HBase's writer of logs has one block.
    chain_watch: Option<ChainWatch>,
}

/// What is promised once a metadata server has taken the block's length.
struct Unconfirmed {
    block: BlockId,
    range: Range<usize>,
    holders: Vec<(NodeId, u64)>,
}

impl Writer {
    pub(super) fn new(
        client: Rc<Client>,
        path: FsPath,
        status: &Status,
        tag: u64,
        previous: Option<BlockRef>,
        shape: Shape,
    ) -> Self {
        let block_len = if shape == Shape::FanOut { u64::MAX } else { BLOCK_LEN as u64 };
        let chain_watch = (shape != Shape::FanOut).then(|| ChainWatch::new(&client, status.replication));
        Self {
            client,
            path,
            file: status.id,
            tag,
            block_offset: status.len as usize,
            packer: Packer::new(Plan::new(SPEC, PACKET_LEN, block_len)),
            block: None,
            previous,
            excluded: Vec::new(),
            shape,
            ahead_of: None,
            ahead: None,
            unconfirmed: None,
            chain_watch,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.block_offset + self.position()
    }

    /// Bytes of the present block.
    fn position(&self) -> usize {
        self.packer.position() as usize
    }

    /// The nodes of the present block.
    pub(crate) fn nodes(&self) -> Vec<NodeId> {
        self.block.as_ref().map_or(Vec::new(), Block::nodes)
    }

    fn block_len_max(&self) -> usize {
        if self.shape == Shape::FanOut { usize::MAX } else { BLOCK_LEN }
    }

    /// A write of so much neither begins nor ends a block. Only such may be given up here; in the client tasks of their
    /// own do the rest.
    pub(crate) fn stays_in_block(&self, len: usize) -> bool {
        self.block.is_some() && self.position() + len < self.block_len_max() && self.chain_is_over().is_none()
    }

    pub(crate) async fn write(&mut self, mut len: usize) -> Result<()> {
        // Only here: what may be given up stays in its block, and said so before it began.
        self.leave_short_chain().await?;
        while len > 0 {
            let take = self.packer.space().len().min(len);
            self.send(take, false).await?;
            len -= take;
            if self.position() == self.block_len_max() {
                self.finish_block().await?;
            } else {
                self.look_ahead().await;
            }
        }
        Ok(())
    }

    /// Nodes that could make it whole.
    fn chain_is_over(&self) -> Option<&[NodeId]> {
        self.chain_watch.as_ref()?.over()
    }

    async fn leave_short_chain(&mut self) -> Result<()> {
        let Some(more) = self.chain_is_over().map(<[NodeId]>::to_vec) else { return Ok(()) };
        self.client.sim.say(|| format!("{} ends a block of {} early for {more:?}", self.client.name, self.file));
        self.excluded.retain(|excluded| !more.contains(excluded));
        self.finish_block().await
    }

    async fn look_ahead(&mut self) {
        let late = self.block_len_max() - self.position() <= BLOCK_LEN / AHEAD_SHARE;
        if let (Some(replication), None, true) = (self.ahead_of, &self.ahead, late) {
            self.ahead = self.client.lease_next(self.file, replication).await.ok();
        }
    }

    async fn send(&mut self, len: usize, sync: bool) -> Result<()> {
        if self.block.is_none() {
            self.block = Some(self.next_block().await?);
        }
        let start = self.len();
        let Some(block) = &mut self.block else { return Err(Error::NoNodeLeft) };
        block.room(&self.client).await?;
        // From here to the window nothing is waited for: the call may be given up wherever it waits.
        let space = self.packer.space()[..len].iter_mut();
        space.zip(start..).for_each(|(byte, at)| *byte = content(self.tag, at));
        self.packer.filled(len);
        self.client.world.oracle.borrow_mut().sent(self.file, start + len);
        let packet = self.packer.pack(block.next_seqno(), sync);
        block.push(packet);
        block.write(&self.client).await?;
        if let Some(watch) = &mut self.chain_watch {
            watch.look(&self.client, (&self.path, self.file), block);
        }
        self.packer.recycle(&mut block.take_spent());
        // In the client this goes on beside the stream, and takes as long as it takes.
        if block.before.is_none() || self.client.sim.one_in(3) {
            self.settle_before().await?;
        }
        Ok(())
    }

    /// Returns when a server knows that the block is the file's; so it has taken the length of the one before.
    async fn settle_before(&mut self) -> Result<()> {
        if let Some(block) = &mut self.block {
            block.settle_before(&self.client).await?;
            self.confirm();
        }
        Ok(())
    }

    /// When this returns, new readers see all bytes so far.
    pub(crate) async fn flush(&mut self, sync: bool) -> Result<()> {
        if sync && self.block.is_some() {
            self.send(0, true).await?;
        }
        self.settle_before().await?;
        let Some(block) = &mut self.block else { return Ok(()) };
        block.drain(&self.client).await?;
        let (client, path, file) = (self.client.name.clone(), self.path.clone(), self.file);
        self.client.call(move |metad, _| Box::pin(metad.fsync(client.clone(), path.clone(), file))).await?;
        let Some(block) = &self.block else { return Ok(()) };
        let range = self.block_offset..self.len();
        self.client.world.promise(self.file, block.view.block, range, &block.holders.borrow(), sync);
        Ok(())
    }

    async fn finish_block(&mut self) -> Result<()> {
        self.settle_before().await?;
        let Some(mut block) = self.block.take() else { return Ok(()) };
        self.chain_watch.iter_mut().for_each(|watch| watch.on_ended(&self.client));
        block.drain(&self.client).await?;
        block.room(&self.client).await?;
        let end = self.packer.end(block.next_seqno(), false);
        block.push(end);
        block.drain(&self.client).await?;
        let len = self.position();
        let range = self.block_offset..self.block_offset + len;
        let (view, holders) = (block.view, block.holders.take());
        // If its lease was taken meanwhile, the nodes may have made the replicas after the recovery had asked for them.
        self.unconfirmed = Some(Unconfirmed { block: view.block, range, holders });
        self.previous = Some(BlockRef { block: view.block, generation: view.generation, len: len as u64 });
        self.block_offset += len;
        self.packer.start_block();
        Ok(())
    }

    fn confirm(&mut self) {
        let synced = self.client.world.plan.synced;
        if let Some(Unconfirmed { block, range, holders }) = self.unconfirmed.take() {
            self.client.world.promise(self.file, block, range, &holders, synced);
        }
    }

    pub(crate) async fn close(mut self) -> Result<usize> {
        if self.block.is_some() {
            self.finish_block().await?;
        }
        if let Some(lease) = self.ahead.take() {
            self.client.give_back(&lease);
        }
        if self.claim_too_much().await {
            return Ok(self.block_offset);
        }
        let (mut pause, mut pauses_left) = (PAUSE_FIRST, PAUSE_COUNT);
        while pauses_left > 0 {
            match self.complete(self.previous).await {
                Ok(true) => {
                    self.confirm();
                    self.client.world.oracle.borrow_mut().closed(self.file, self.block_offset);
                    return Ok(self.block_offset);
                }
                Ok(false) => {
                    self.client.sim.sleep(pause).await;
                    (pause, pauses_left) = (pause * 2, pauses_left - 1);
                }
                Err(error) if error.is_safe_mode() => self.client.sim.sleep(SAFE_MODE_PAUSE).await,
                Err(error) => return Err(error),
            }
        }
        Err(Error::NotComplete)
    }

    async fn complete(&self, last: Option<BlockRef>) -> Result<bool> {
        let (client, path, file) = (self.client.name.clone(), self.path.clone(), self.file);
        let call = self.client.call(move |metad, _| Box::pin(metad.complete(client.clone(), path.clone(), file, last)));
        call.await
    }

    /// A client may claim any length for its last block. One beyond the file's blocks must be refused, since no node
    /// has so much. A shorter one costs the client its own block, and nobody else anything. True if that was believed.
    async fn claim_too_much(&self) -> bool {
        let Some(last) = self.previous.filter(|_| !self.client.is_honest.get() && self.client.sim.one_in(20)) else {
            return false;
        };
        let is_within = self.client.sim.one_in(2);
        if is_within && last.len >= BLOCK_LEN as u64 {
            return false;
        }
        let len = if is_within { BLOCK_LEN as u64 } else { last.len + LEN_CLAIMED };
        self.client.sim.say(|| format!("{} claims {len} bytes for {last:?} of {}", self.client.name, self.file));
        if is_within {
            self.client.world.oracle.borrow_mut().doom(self.file);
        }
        let is_believed = matches!(self.complete(Some(BlockRef { len, ..last })).await, Ok(true));
        if is_believed && !is_within {
            self.client.world.fail(|| format!("{} was believed that {last:?} has {len} bytes", self.client.name));
        }
        is_believed
    }

    /// The block that was taken on lease, or one that is asked for now.
    async fn next_block(&mut self) -> Result<Block> {
        if let Some(lease) = self.ahead.take() {
            if lease.until > self.client.sim.now() {
                let view = BlockView {
                    file: self.file,
                    block: lease.grant.block,
                    generation: lease.generation,
                    len: 0,
                    offset: self.block_offset as u64,
                    home: lease.grant.block.born_in(),
                    complete: false,
                    written_for: None,
                };
                let before = Before { path: self.path.clone(), previous: self.previous };
                let located = Located { view, nodes: lease.nodes.clone(), token: lease.token.clone() };
                match Block::create(&self.client, located, self.shape, Some(before)).await {
                    Ok(block) => return Ok(block),
                    Err(bad) => self.client.exclude(bad),
                }
            }
            self.client.give_back(&lease);
        }
        self.add_block().await
    }

    async fn add_block(&mut self) -> Result<Block> {
        for _ in 0..=BLOCK_RETRIES {
            let (client, path, file) = (self.client.name.clone(), self.path.clone(), self.file);
            let (previous, excluded) = (self.previous, self.excluded.clone());
            let located = self
                .client
                .call(move |metad, _| {
                    Box::pin(metad.add_block(client.clone(), path.clone(), file, previous, excluded.clone()))
                })
                .await?;
            self.confirm();
            let block = located.view.block;
            match Block::create(&self.client, located, self.shape, None).await {
                Ok(block) => return Ok(block),
                Err(bad) => self.excluded.push(bad),
            }
            let (client, path) = (self.client.name.clone(), self.path.clone());
            self.client
                .call(move |metad, _| Box::pin(metad.abandon(client.clone(), path.clone(), file, block)))
                .await?;
        }
        Err(Error::NoNodeLeft)
    }
}
