//! Reading a file: which block, which replica, and what to do when one fails.
//!
//! ```text
//!   Reader ──▶ Blocks: where is offset n?     refetched when every replica of a block has failed
//!      │
//!      └─────▶ BlockReader: one READ_BLOCK    dropped at the first fault; the next replica goes on at the same byte
//! ```
//!
//! A node that is slower than usual is not waited for: a positioned read is asked of a second one beside it, and
//! whoever is first counts; a stream goes on at the next one.

mod block;
mod blocks;

use crate::client::Client;
use crate::datanode::tried;
use crate::error::{Error, Result};
use crate::namespace::LEN_ALL;
use crate::options::READ_ROUNDS;
use block::{BlockReader, Range};
use blocks::Blocks;
use hdfs::proto;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use xfer::fault::Fault;

/// A file open for reading. [`Reader::read`] goes on where it ended; [`Reader::read_at`] may be called by many at once.
#[derive(Debug)]
pub struct Reader {
    client: Client,
    path: String,
    blocks: tokio::sync::RwLock<Blocks>,
    len: u64,
    /// Nodes that failed this reader; tried last from then on.
    bad: Mutex<HashSet<String>>,
    position: u64,
    current: Option<BlockReader>,
}

/// Bytes skipped by reading them rather than by a new connection. A guess: a round trip's worth on a fast network.
const SKIP_LEN_MAX: u64 = 128 << 10;
/// A longer positioned read is not asked of two nodes: the second needs a buffer as long.
const HEDGE_LEN_MAX: usize = 4 << 20;

impl Client {
    /// Opens a file for reading. A file that is being written has the length its datanodes show at this moment.
    pub async fn open(&self, path: &str) -> Result<Reader> {
        let blocks = Blocks::open(self, path).await?;
        Ok(Reader {
            client: self.clone(),
            path: path.into(),
            len: blocks.len(),
            blocks: tokio::sync::RwLock::new(blocks),
            bad: Mutex::default(),
            position: 0,
            current: None,
        })
    }
}

impl Reader {
    /// Bytes of the file, as of its opening.
    #[expect(clippy::len_without_is_empty, reason = "a length, not a collection")]
    pub fn len(&self) -> u64 {
        self.len
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
        let wanted = dest.len().min(usize::try_from(self.len.saturating_sub(self.position)).unwrap_or(usize::MAX));
        let mut done = 0;
        // Out of its place until all is there: a connection that is left in the middle of a packet is of no more use.
        let mut current = self.current.take();
        while done < wanted {
            done += self.read_some(&mut current, self.position + done as u64, &mut dest[done..wanted]).await?;
        }
        self.current = current;
        self.position += done as u64;
        Ok(done)
    }

    /// Fills `dest` from `offset`; fewer bytes only at the end of the file. Does not touch the position.
    pub async fn read_at(&self, offset: u64, dest: &mut [u8]) -> Result<usize> {
        let wanted = dest.len().min(usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX));
        let mut done = 0;
        while done < wanted {
            let at = offset + done as u64;
            let mut attempt = Attempt::default();
            loop {
                let block = self.blocks_at(at).await?;
                let within = at - block.offset;
                let len = ((wanted - done) as u64).min(block.len - within);
                let dest = &mut dest[done..done + len as usize];
                let mut good = 0;
                match self.read_range(&block.located, within, dest, &mut attempt, &mut good).await {
                    Ok(()) => {
                        done += dest.len();
                        break;
                    }
                    Err(error) => {
                        done += good;
                        if good > 0 {
                            break; // what was verified is kept; the rest begins anew, with all replicas
                        }
                        error?;
                    }
                }
            }
        }
        Ok(done)
    }

    /// Some bytes at `at`, at least one; the caller knows that the file goes on there.
    async fn read_some(&self, current: &mut Option<BlockReader>, at: u64, dest: &mut [u8]) -> Result<usize> {
        let mut attempt = Attempt::default();
        loop {
            if let Some(mut reader) = current.take() {
                let ahead = at.checked_sub(reader.file_position());
                if at < reader.file_end() && ahead.is_some_and(|ahead| ahead <= SKIP_LEN_MAX) {
                    reader.skip_to(at);
                    let (got, fault) = reader.read(dest).await;
                    match fault {
                        Some(fault) => self.note(&reader, &mut attempt, fault).await,
                        // The end of its block: its connection may serve another.
                        None if at + got as u64 == reader.file_end() => reader.finish(&self.client).await,
                        None => *current = Some(reader),
                    }
                    if got > 0 {
                        return Ok(got);
                    }
                    continue;
                }
            }
            let block = self.blocks_at(at).await?;
            let range = Range { block_offset: block.offset, from: at - block.offset, end: block.len };
            match self.choose(&block.located, &attempt) {
                Some(Choice { node, others }) => {
                    let stall = self.client.inner.pace.stall().filter(|_| others);
                    let stall = stall.unwrap_or(self.client.options().timeout);
                    match BlockReader::open(&self.client, &block.located, &node, range, stall).await {
                        Ok(reader) => *current = Some(reader),
                        Err(fault) => self.blame(&mut attempt, node.id.xfer_addr(), fault),
                    }
                }
                None => self.refetch(&block.located, &mut attempt).await?,
            }
        }
    }

    /// One positioned read within one block, from one replica after the other. `good` counts verified bytes also when
    /// it fails.
    async fn read_range(
        &self,
        located: &proto::LocatedBlockProto,
        from: u64,
        dest: &mut [u8],
        attempt: &mut Attempt,
        good: &mut usize,
    ) -> Result<(), Result<()>> {
        let Some(Choice { node, others }) = self.choose(located, attempt) else {
            return Err(self.refetch(located, attempt).await);
        };
        let (got, fault) = if others && dest.len() <= HEDGE_LEN_MAX {
            self.fetch_hedged(located, &node, from, dest, attempt).await
        } else {
            self.fetch(located, &node, from, dest).await
        };
        *good = got;
        let Some(fault) = fault else { return Ok(()) };
        self.report(located, &node, &fault).await;
        self.blame(attempt, node.id.xfer_addr(), fault);
        Err(Ok(()))
    }

    /// Fills `dest` from one node. The count holds also beside a fault.
    async fn fetch(
        &self,
        located: &proto::LocatedBlockProto,
        node: &proto::DatanodeInfoProto,
        from: u64,
        dest: &mut [u8],
    ) -> (usize, Option<Fault>) {
        let range = Range { block_offset: located.offset, from, end: from + dest.len() as u64 };
        let timeout = self.client.options().timeout;
        let mut reader = match BlockReader::open(&self.client, located, node, range, timeout).await {
            Ok(reader) => reader,
            Err(fault) => return (0, Some(fault)),
        };
        let (got, fault) = reader.read(dest).await;
        if fault.is_none() {
            reader.finish(&self.client).await;
        }
        (got, fault)
    }

    /// As `fetch`; if the node takes longer than usual, another one is asked beside it, and whoever is first counts.
    async fn fetch_hedged(
        &self,
        located: &proto::LocatedBlockProto,
        node: &proto::DatanodeInfoProto,
        from: u64,
        dest: &mut [u8],
        attempt: &Attempt,
    ) -> (usize, Option<Fault>) {
        let len = dest.len();
        let patience = self.client.inner.pace.patience(len as u64);
        let mut beside = Vec::new();
        {
            let mut first = std::pin::pin!(self.fetch(located, node, from, dest));
            if let Ok(done) = tokio::time::timeout(patience, &mut first).await {
                return done;
            }
            let mut tried = attempt.this_round.clone();
            tried.insert(node.id.xfer_addr());
            let Some(Choice { node: other, .. }) = self.choose_but(located, &tried) else { return first.await };
            if !self.client.inner.pace.take_spare() {
                return first.await;
            }
            beside.resize(len, 0);
            let mut second = std::pin::pin!(self.fetch(located, &other, from, &mut beside));
            tokio::select! {
                (got, fault) = &mut first => match fault {
                    None => return (got, None),
                    Some(fault) => {
                        let (_, others_fault) = second.await;
                        if let Some(others_fault) = others_fault {
                            self.report(located, &other, &others_fault).await;
                            return (0, Some(fault));
                        }
                        // The caller hears of no fault; whoever heals must.
                        self.report(located, node, &fault).await;
                    }
                },
                (_, fault) = &mut second => if let Some(fault) = fault {
                    self.report(located, &other, &fault).await;
                    return first.await;
                },
            }
        }
        tracing::debug!(path = self.path, node = node.id.xfer_addr(), "slower than usual; another replica was faster");
        self.client.inner.pace.note_slow(&node.id.xfer_addr());
        dest.copy_from_slice(&beside);
        (len, None)
    }

    /// The sequential reader failed.
    async fn note(&self, reader: &BlockReader, attempt: &mut Attempt, fault: Fault) {
        self.report(&reader.located, &reader.node, &fault).await;
        self.blame(attempt, reader.node.id.xfer_addr(), fault);
    }

    /// The first node that has not failed in this round; slow ones come later, and those that failed this reader last.
    fn choose(&self, located: &proto::LocatedBlockProto, attempt: &Attempt) -> Option<Choice> {
        self.choose_but(located, &attempt.this_round)
    }

    fn choose_but(&self, located: &proto::LocatedBlockProto, tried: &HashSet<String>) -> Option<Choice> {
        let bad = self.bad.lock().unwrap_or_else(PoisonError::into_inner);
        let rank = |addr: &String| (bad.contains(addr), self.client.inner.pace.is_slow(addr));
        let untried =
            located.locs.iter().map(|node| (node, node.id.xfer_addr())).filter(|(_, addr)| !tried.contains(addr));
        let mut ranked: Vec<_> = untried.map(|(node, addr)| (rank(&addr), node)).collect();
        ranked.sort_by_key(|(rank, _)| *rank); // stable: among equals the server's order, the nearest first
        let others = ranked.get(1).is_some_and(|(rank, _)| *rank == (false, false));
        ranked.first().map(|(_, node)| Choice { node: (*node).clone(), others })
    }

    fn blame(&self, attempt: &mut Attempt, addr: String, fault: Fault) {
        tracing::info!(path = self.path, node = addr, %fault, "a replica could not be read; trying the next");
        if let Fault::Silent = fault {
            let _counted = self.client.inner.pace.take_spare();
            self.client.inner.pace.note_slow(&addr);
        } else {
            self.bad.lock().unwrap_or_else(PoisonError::into_inner).insert(addr.clone());
        }
        attempt.this_round.insert(addr.clone());
        attempt.faults.push((addr, fault));
    }

    /// Tells the server about a replica that is not what it was, so that it is replaced.
    async fn report(&self, located: &proto::LocatedBlockProto, node: &proto::DatanodeInfoProto, fault: &Fault) {
        if !matches!(fault, Fault::Corrupt { .. }) {
            return;
        }
        let place = located.locs.iter().position(|other| other.id.xfer_addr() == node.id.xfer_addr());
        let mut only = located.clone();
        only.locs = vec![node.clone()];
        only.is_cached = Vec::new();
        only.storage_types = place.and_then(|place| located.storage_types.get(place)).copied().into_iter().collect();
        only.storage_i_ds = place.and_then(|place| located.storage_i_ds.get(place)).cloned().into_iter().collect();
        let request = proto::ReportBadBlocksRequestProto { blocks: vec![only] };
        let answer: Result<proto::ReportBadBlocksResponseProto> = self.client.call("reportBadBlocks", &request).await;
        if let Err(error) = answer {
            tracing::warn!(%error, "a bad replica could not be reported");
        }
    }

    /// All replicas of a block failed: wait a little, ask anew where they are, and go round again.
    async fn refetch(&self, located: &proto::LocatedBlockProto, attempt: &mut Attempt) -> Result<()> {
        attempt.rounds += 1;
        if attempt.rounds >= READ_ROUNDS {
            return Err(Error::NoReplica { block: located.b.block_id, tried: tried(&attempt.faults) });
        }
        tokio::time::sleep(self.client.options().retry_pause * attempt.rounds).await;
        attempt.this_round.clear();
        attempt.faults.clear();
        self.blocks.write().await.refetch(&self.client, &self.path, located.offset).await
    }

    async fn blocks_at(&self, offset: u64) -> Result<blocks::Block> {
        if let Some(block) = self.blocks.read().await.at(offset) {
            return Ok(block);
        }
        let mut blocks = self.blocks.write().await;
        blocks.fetch(&self.client, &self.path, offset, LEN_ALL).await?;
        blocks.at(offset).ok_or(Error::Protocol {
            addr: self.client.url().authority.clone(),
            reason: format!("it names no block of {} at offset {offset}", self.path),
        })
    }
}

/// Whom to ask.
struct Choice {
    node: proto::DatanodeInfoProto,
    /// There is another one, of which nothing bad is known.
    others: bool,
}

/// What one read has gone through so far.
#[derive(Debug, Default)]
struct Attempt {
    this_round: HashSet<String>,
    faults: Vec<(String, Fault)>,
    rounds: u32,
}
