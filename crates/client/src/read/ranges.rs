//! Many ranges of a file at once: what each datanode has of them comes by one request (op 201).
//!
//! ```text
//! ranges ──▶ pieces, none over the end of a block ──▶ a node for each block ──▶ a request a node, all at a time
//!                ▲                                                                 │
//!                ├──── what did not come, of other replicas, or with new tokens ◀──┤
//!                └ to who asked, as they come ◀────────────────────────────────────┘
//! ```
//!
//! A store that cannot do this is read the old way, several ranges at a time.
//!
//! From far away a request is cut in several, each on a connection of its own: what a new connection brings in a round
//! trip is ten segments, and doubles with each, so a hundred of them save six round trips. What they have grown to
//! is of use to the next call: so a node is asked again that was asked before, if it has the block.

use super::source::Source;
use super::traffic::Traffic;
use crate::choice::Choice;
use crate::datanode::Connection;
use crate::error::{Error, Result};
use crate::located::{Located, Node};
use crate::retry::Attempt;
use crate::warm;
use futures_util::future::{FutureExt, join_all};
use futures_util::stream::{self, Stream, StreamExt};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use types::BlockId;
use wire::ranges::{Asked, RangesBlock, RangesToken, ReadRanges, put_ranges};
use wire::{Abilities, Status as WireStatus};
use xfer::fault::Fault;
use xfer::ranges::{Dests, Event, Receiver};

/// Bytes of a file, and where they go.
#[derive(Debug)]
pub struct RangeRead<'a> {
    /// First byte, from the beginning of the file.
    pub offset: u64,
    pub dest: &'a mut [u8],
}

impl RangeRead<'_> {
    /// An error if one reaches beyond the end of a file of this length.
    pub fn must_lie_within(reads: &[Self], file_len: u64) -> Result<()> {
        let end = |read: &Self| read.offset.checked_add(read.dest.len() as u64);
        match reads.iter().find(|read| end(read).is_none_or(|end| end > file_len)) {
            None => Ok(()),
            Some(Self { offset, dest }) => {
                Err(Error::Invalid(format!("{} bytes at {offset}, in a file of {file_len}", dest.len())))
            }
        }
    }
}

/// What fails comes again as a whole: so a long range is several pieces. A guess.
const PIECE_LEN_MAX: u64 = 16 << 20;
/// Pieces of one request. A guess: 80 kB upwards.
const REQUEST_COUNT_MAX: usize = 16 << 10;
/// Blocks of one request: each may have a token of its own, and an operation has its longest message.
const BLOCK_COUNT_MAX: usize = wire::ranges::BLOCK_COUNT_MAX / 4;
/// From there on a round trip is dearer than a connection. A guess: farther than any two machines of one site.
const FAR: Duration = Duration::from_millis(5);
/// Bytes that are worth a connection: what a new one brings in its first round trip, nine segments behind the answer.
const SHARE_LEN_MIN: u64 = 12 << 10;
/// Connections of one call. Fewer than are kept for the next call.
const SHARE_COUNT_MAX: u64 = warm::COUNT_MAX as u64;
/// Connections of one call at the nearest of what is far: together they send no more at once than the link takes.
const SHARE_COUNT_LEAST: u64 = 8;
/// Ranges that are read at a time, each by a request of its own, where there is nothing better. A guess.
const SINGLE_COUNT_MAX: usize = 16;

/// Bytes of one block.
struct Piece<'a> {
    block: Arc<Located>,
    /// From the block's beginning.
    from: u64,
    dest: &'a mut [u8],
}

/// Which node is asked for a block, by the token that it has now.
struct Chosen {
    block: Arc<Located>,
    node: Node,
    has_other: bool,
}

impl<'a> Piece<'a> {
    /// Its first bytes, and the others.
    fn split(self, len: usize) -> (Self, Self) {
        let Self { block, from, dest } = self;
        let (own, rest) = dest.split_at_mut(len);
        let behind = Self { block: Arc::clone(&block), from: from + len as u64, dest: rest };
        (Self { block, from, dest: own }, behind)
    }

    /// It is whole.
    fn arrived(self, arrivals: &Arrivals<'a>) {
        arrivals.put(RangeRead { offset: self.block.offset + self.from, dest: self.dest });
    }
}

/// Where that goes which is whole.
struct Arrivals<'a>(Option<mpsc::UnboundedSender<RangeRead<'a>>>);

impl<'a> Arrivals<'a> {
    fn put(&self, read: RangeRead<'a>) {
        // Who hears nothing of them any more has dropped the reading, too.
        let _ = self.0.as_ref().map(|sender| sender.send(read));
    }
}

/// What a node is asked for, and what became of it.
struct Asking<'a> {
    node: Node,
    /// Each of its blocks is on another one, too.
    has_other: bool,
    pieces: Vec<Piece<'a>>,
    block_count: usize,
    /// Of the node, over all connections of the call.
    traffic: Arc<Traffic>,
    /// One of a block.
    faults: Vec<(Arc<Located>, Fault)>,
}

impl<'a> Asking<'a> {
    fn of(node: Node, has_other: bool, pieces: Vec<Piece<'a>>) -> Self {
        let blocks = pieces.chunk_by(|one, next| one.block.offset == next.block.offset);
        let block_count = blocks.count();
        Self { node, has_other, block_count, pieces, traffic: Arc::default(), faults: Vec::new() }
    }

    fn len(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.dest.len() as u64).sum()
    }

    /// The same in `count_max` parts at most, each of as many bytes, and worth a connection: the longest is waited for.
    fn shared(self, count_max: u64) -> Vec<Self> {
        let all_len = self.len();
        let Self { node, has_other, pieces, traffic, .. } = self;
        let of = |pieces| Self { traffic: Arc::clone(&traffic), ..Self::of(node.clone(), has_other, pieces) };
        let count = all_len.div_ceil(SHARE_LEN_MIN).clamp(1, count_max);
        let share_len = all_len.div_ceil(count).max(1);
        let (mut shares, mut share, mut room) = (Vec::new(), Vec::new(), share_len);
        for mut piece in pieces {
            while piece.dest.len() as u64 > room {
                let (own, rest) = piece.split(room as usize);
                share.push(own);
                piece = rest;
                shares.push(of(std::mem::take(&mut share)));
                room = share_len;
            }
            room -= piece.dest.len() as u64;
            share.push(piece);
            if room == 0 {
                shares.push(of(std::mem::take(&mut share)));
                room = share_len;
            }
        }
        if !share.is_empty() {
            shares.push(of(share));
        }
        shares
    }

    /// Whatever else comes of a block: that its replica is damaged has to be told.
    fn failed(&mut self, block: &Arc<Located>, fault: Fault) {
        match self.faults.iter_mut().find(|(known, _)| known.offset == block.offset) {
            Some((_, known)) if matches!(fault, Fault::Corrupt { .. }) => *known = fault,
            Some(_) => {}
            None => self.faults.push((Arc::clone(block), fault)),
        }
    }

    /// What is still missing did not come.
    fn all_failed(mut self, fault: &Fault) -> Self {
        let mut blocks: Vec<_> = self.pieces.iter().map(|piece| Arc::clone(&piece.block)).collect();
        blocks.dedup_by_key(|block| block.offset);
        blocks.iter().for_each(|block| self.failed(block, fault.clone()));
        self
    }
}

impl Source {
    /// They come back as they are filled, in any order and in parts of any length; then, maybe, an error.
    pub(super) fn stream_ranges<'a>(
        &'a self,
        reads: Vec<RangeRead<'a>>,
    ) -> impl Stream<Item = Result<RangeRead<'a>>> + 'a {
        let (sender, arrived) = mpsc::unbounded_channel();
        let arrived = stream::unfold(arrived, |mut arrived| async { Some((arrived.recv().await?, arrived)) });
        // It has the sender, so what has arrived ends with it.
        let reading = self.file.client.run(async move { self.fill(reads, &Arrivals(Some(sender))).await });
        let failed = stream::once(reading).filter_map(|done| async { done.err().map(Err) });
        stream::select(arrived.map(Ok), failed)
    }

    pub(super) async fn read_ranges(&self, reads: &mut [RangeRead<'_>]) -> Result<()> {
        let reads = reads.iter_mut().map(|RangeRead { offset, dest }| RangeRead { offset: *offset, dest });
        // Boxed as what it is: the types below are so many that the compiler gives up within the futures of callers.
        self.fill(reads.collect(), &Arrivals(None)).boxed().await
    }

    async fn fill<'a>(&self, reads: Vec<RangeRead<'a>>, arrivals: &Arrivals<'a>) -> Result<()> {
        RangeRead::must_lie_within(&reads, self.file.len)?;
        if !self.file.client.defaults().await?.abilities.has(Abilities::RANGES) {
            return self.read_each(reads, arrivals).await;
        }
        let mut pieces = Vec::with_capacity(reads.len());
        for read in reads {
            self.cut(read, &mut pieces).await?;
        }
        pieces = self.without_local(pieces, arrivals).await;
        let mut attempts = HashMap::new();
        while !pieces.is_empty() {
            let mut left = Vec::new();
            let askings = self.shared_out(pieces, &mut attempts).await?.into_iter();
            for asking in join_all(askings.map(|asking| self.ask(asking, arrivals))).await {
                for (block, fault) in &asking.faults {
                    let attempt = attempts.get_mut(&block.identity.block).expect("it was asked for");
                    self.on_fault(block, &asking.node, attempt, fault.clone()).await?;
                }
                left.extend(asking.pieces);
            }
            // Where its blocks are may have changed, and their tokens.
            for piece in &mut left {
                piece.block = self.file.block_at(piece.block.offset + piece.from).await?;
            }
            pieces = left;
        }
        Ok(())
    }

    /// Reads what lies on this machine; the rest remains.
    async fn without_local<'a>(&self, pieces: Vec<Piece<'a>>, arrivals: &Arrivals<'a>) -> Vec<Piece<'a>> {
        let mut left = Vec::new();
        for piece in pieces {
            match self.read_local(&piece.block, piece.from, piece.dest).await {
                true => piece.arrived(arrivals),
                false => left.push(piece),
            }
        }
        left
    }

    /// Some at a time, and the others as those are done.
    async fn read_each<'a>(&self, reads: Vec<RangeRead<'a>>, arrivals: &Arrivals<'a>) -> Result<()> {
        let mut left = reads.into_iter();
        loop {
            let some = left.by_ref().take(SINGLE_COUNT_MAX).map(|read| self.read_one(read));
            let some = join_all(some).await;
            if some.is_empty() {
                return Ok(());
            }
            for read in some {
                arrivals.put(read?);
            }
        }
    }

    async fn read_one<'a>(&self, read: RangeRead<'a>) -> Result<RangeRead<'a>> {
        self.read_exact_at(read.offset, read.dest).await?;
        Ok(read)
    }

    /// Cuts a range where blocks end, and into pieces that are not too long.
    async fn cut<'a>(&self, read: RangeRead<'a>, pieces: &mut Vec<Piece<'a>>) -> Result<()> {
        let (mut at, mut dest) = (read.offset, read.dest);
        while !dest.is_empty() {
            let block = self.file.block_at(at).await?;
            let from = at - block.offset;
            let len = (dest.len() as u64).min(block.len - from).min(PIECE_LEN_MAX);
            let (own, rest) = std::mem::take(&mut dest).split_at_mut(len as usize);
            pieces.push(Piece { block, from, dest: own });
            (at, dest) = (at + len, rest);
        }
        Ok(())
    }

    /// What each node is asked for. A block goes to one of its nodes.
    async fn shared_out<'a>(
        &self,
        mut pieces: Vec<Piece<'a>>,
        attempts: &mut HashMap<BlockId, Attempt>,
    ) -> Result<Vec<Asking<'a>>> {
        pieces.sort_by_key(|piece| (piece.block.offset, piece.from));
        let mut askings: Vec<Asking<'a>> = Vec::new();
        let mut chosen: Option<Chosen> = None;
        for mut piece in pieces {
            let id = piece.block.identity.block;
            let is_next = chosen.as_ref().is_none_or(|last| last.block.identity.block != id);
            if is_next {
                let attempt = attempts.entry(id).or_insert_with(|| self.attempt());
                let before = askings.last().map(|asking| Arc::clone(&asking.node.addr));
                chosen = Some(self.node_for(&piece.block, attempt, before.as_deref()).await?);
            }
            let Chosen { block, node, has_other } = chosen.as_ref().expect("one was chosen");
            // It may have another token by now.
            piece.block = Arc::clone(block);
            let has_room = |asking: &&mut Asking<'_>| {
                asking.node.addr == node.addr
                    && asking.pieces.len() < REQUEST_COUNT_MAX
                    && asking.block_count + usize::from(is_next) <= BLOCK_COUNT_MAX
            };
            match askings.iter_mut().rev().find(has_room) {
                Some(asking) => {
                    asking.has_other &= has_other;
                    asking.block_count += usize::from(is_next);
                    asking.pieces.push(piece);
                }
                None => {
                    askings.push(Asking::of(node.clone(), *has_other, vec![piece]));
                }
            }
        }
        if !self.is_far() {
            return Ok(askings);
        }
        let count_max = (self.share_count_max() / askings.len().max(1) as u64).max(1);
        let shares = askings.into_iter().flat_map(|asking| {
            let (store, addr) = (self.file.client.store(), Arc::clone(&asking.node.addr));
            let idle_count = store.idle_count(&addr) as u64;
            // New ones beside them would be waited for.
            let is_enough = 2 * idle_count >= count_max.min(asking.len().div_ceil(SHARE_LEN_MIN));
            let shares = asking.shared(if is_enough { idle_count.clamp(1, count_max) } else { count_max });
            store.note_reached(&addr, shares.len());
            shares
        });
        Ok(shares.collect())
    }

    /// The nodes of a block, the best first: as the server names them, but from far away those before the others to
    /// which connections have grown, or will in this call.
    pub(super) fn in_order(&self, block: &Located, before: Option<&str>) -> Vec<Node> {
        let mut nodes = block.nodes.to_vec();
        if self.is_far() {
            let store = self.file.client.store();
            let of_use = |node: &Node| (before == Some(&*node.addr), store.idle_count(&node.addr));
            nodes.sort_by_cached_key(|node| std::cmp::Reverse(of_use(node)));
        }
        nodes
    }

    pub(super) fn is_far(&self) -> bool {
        self.file.client.store().round_trip() >= FAR
    }

    /// New connections send [`SHARE_LEN_MIN`] each at once.
    fn share_count_max(&self) -> u64 {
        let at_once = self.file.client.store().round_trip().as_micros() * u128::from(warm::BYTES_PER_S) / 1_000_000;
        let count = u64::try_from(at_once).unwrap_or(u64::MAX) / SHARE_LEN_MIN;
        count.clamp(SHARE_COUNT_LEAST, SHARE_COUNT_MAX)
    }

    /// Connections for so many bytes.
    pub(super) fn shares_of(&self, len: u64) -> u64 {
        len.div_ceil(SHARE_LEN_MIN).min(self.share_count_max())
    }

    /// Opens connections to the node that will be asked for the end of the file, as many as bring this much in few
    /// round trips. Nobody waits for them.
    pub(super) async fn warm(&self, len: u64) {
        let Some(last) = self.file.len.checked_sub(1).filter(|_| self.is_far()) else { return };
        let Ok(block) = self.file.block_at(last).await else { return };
        let count = self.shares_of(len);
        if let Some(Choice { node, .. }) = self.choose_of(&self.in_order(&block, None), &HashSet::new()) {
            self.file.client.store().warm(&node.addr, count as usize);
        }
    }

    /// Whether a range of this length would be cut, to come by several connections.
    pub(super) fn is_worth_several(&self, len: usize) -> bool {
        len as u64 > SHARE_LEN_MIN && self.is_far()
    }

    /// `before`: the node that is asked for the block before.
    async fn node_for(&self, block: &Arc<Located>, attempt: &mut Attempt, before: Option<&str>) -> Result<Chosen> {
        let mut block = Arc::clone(block);
        loop {
            let nodes = self.in_order(&block, before);
            if let Some(Choice { node, has_other }) = self.choose_of(&nodes, attempt.tried()) {
                let node = node.clone();
                return Ok(Chosen { block, node, has_other });
            }
            self.next_round(&block, attempt).await?;
            block = self.file.block_at(block.offset).await?;
        }
    }

    /// Asks one node. What did not come stays among the pieces.
    async fn ask<'a>(&self, mut asking: Asking<'a>, arrivals: &Arrivals<'a>) -> Asking<'a> {
        let client = &self.file.client;
        let Some(first) = asking.pieces.first().map(|piece| Arc::clone(&piece.block)) else { return asking };
        let (stall, begun) = (self.stall(asking.has_other), client.store().now());
        let (mut connection, mut receiver) = match self.begin(&first, &asking, stall).await {
            Ok(begun) => begun,
            Err(fault) => return asking.all_failed(&fault),
        };
        client.store().hedging().took(client.store().now().saturating_sub(begun));
        // By their numbers in the request; none: it is whole.
        let mut pieces: Vec<_> = std::mem::take(&mut asking.pieces).into_iter().map(Some).collect();
        let ended = loop {
            let mut places = Places(&mut pieces);
            match receiver.poll(&mut places) {
                Ok(Event::Nothing) => {
                    let bringing = self.bring(&mut connection, &mut receiver, &mut places, &asking.traffic, stall);
                    if let Err(fault) = bringing.await {
                        break Err(fault);
                    }
                }
                Ok(Event::Whole(range)) => {
                    pieces[range as usize].take().into_iter().for_each(|piece| piece.arrived(arrivals));
                }
                Ok(Event::Corrupt { range, offset }) => {
                    if let Some(Piece { block, from, .. }) = &pieces[range as usize] {
                        asking.failed(block, Fault::Corrupt { offset: from + offset });
                    }
                }
                Ok(Event::Refused { range, status, message }) => {
                    if let Some(Piece { block, from, .. }) = &pieces[range as usize] {
                        let fault = match status {
                            WireStatus::ERROR_CHECKSUM => Fault::Corrupt { offset: *from },
                            _ => Fault::Refused { status, message },
                        };
                        asking.failed(block, fault);
                    }
                }
                Ok(Event::End) => break Ok(()),
                Err(fault) => break Err(fault),
            }
        };
        asking.pieces = pieces.into_iter().flatten().collect();
        match ended {
            Ok(()) => {
                connection.put_back(receiver.into_front());
                connection.allow(client.options().timeout);
                client.store().put_idle(connection);
                let is_told =
                    |piece: &Piece<'_>| asking.faults.iter().any(|(block, _)| block.offset == piece.block.offset);
                match asking.pieces.iter().all(is_told) {
                    true => asking,
                    false => asking.all_failed(&Fault::Protocol("its answer ended before all was there".to_owned())),
                }
            }
            Err(fault) => asking.all_failed(&fault),
        }
    }

    /// Sends a request, and hears that it is served.
    async fn begin(
        &self,
        first: &Located,
        asking: &Asking<'_>,
        stall: Duration,
    ) -> Result<(Connection, Receiver), Fault> {
        let (request, asked) = self.request(&asking.pieces);
        let (request, asked) = (&request, &asked);
        let start = async |mut connection: Connection| {
            connection.allow(stall);
            connection.send(request).await?;
            let mut receiver = connection.ranges_receiver(asked.iter().map(|range| range.len));
            while !receiver.is_answered()? {
                self.bring(&mut connection, &mut receiver, &mut Places(&mut []), &asking.traffic, stall).await?;
            }
            Ok((connection, receiver))
        };
        self.file.client.on_connection(first, &asking.node, stall, start).await
    }

    /// Something more of an answer, or a while longer: where the node brings much by other connections, a silence is
    /// the link's.
    async fn bring(
        &self,
        connection: &mut Connection,
        receiver: &mut Receiver,
        places: &mut Places<'_, '_>,
        traffic: &Traffic,
        stall: Duration,
    ) -> Result<(), Fault> {
        let brought = connection.bring(receiver, places).await;
        let (now, limit) = (self.file.client.store().now(), self.file.client.options().timeout);
        match brought {
            Ok(len) => traffic.add(len, now),
            Err(Fault::Silent) if traffic.is_busy(now, stall) && receiver.excuse(now, limit) => {}
            Err(fault) => return Err(fault),
        }
        Ok(())
    }

    /// For pieces that are sorted by block.
    fn request(&self, pieces: &[Piece<'_>]) -> (Vec<u8>, Vec<Asked>) {
        let mut request = ReadRanges { client: self.file.client.session.holder.clone(), ..ReadRanges::default() };
        let (mut ranges, mut all) = (Vec::new(), Vec::with_capacity(pieces.len()));
        for of_block in pieces.chunk_by(|one, next| one.block.offset == next.block.offset) {
            let Located { identity, token, .. } = &*of_block[0].block;
            request.pool.clone_from(&identity.pool);
            let own = RangesToken { identifier: token.identifier.clone(), password: token.password.clone() };
            if request.tokens.last() != Some(&own) {
                request.tokens.push(own);
            }
            let asked: Vec<_> =
                of_block.iter().map(|piece| Asked { from: piece.from, len: piece.dest.len() as u32 }).collect();
            put_ranges(&asked, &mut ranges);
            request.blocks.push(RangesBlock {
                block: identity.block.0,
                generation: identity.generation.0,
                token: request.tokens.len() as u32 - 1,
                range_count: asked.len() as u32,
            });
            all.extend(asked);
        }
        request.ranges = ranges.into();
        (request.encode_op(), all)
    }
}

struct Places<'p, 'a>(&'p mut [Option<Piece<'a>>]);

impl Dests for Places<'_, '_> {
    fn dest(&mut self, range: u32) -> &mut [u8] {
        self.0[range as usize].as_mut().map_or(&mut [], |piece| piece.dest)
    }
}
