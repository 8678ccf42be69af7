//! The bytes of a file at any offset, from whichever replica is good: what a reader of one range does, and what one of
//! many ranges can do for each.
//!
//! Who is asked is chosen by [`Selection`], when a second node is asked beside it is said by
//! [`Hedging`](crate::hedge::Hedging), and how often it is tried by [`Attempt`].

use super::block::BlockReader;
use super::file::File;
use super::local_replicas::LocalReplicas;
use crate::choice::{Choice, Selection};
use crate::error::{Error, Result};
use crate::located::{Located, Node};
use crate::retry::Attempt;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use xfer::fault::Fault;
use xfer::read::Range;

/// A longer positioned read is not asked of two nodes: the second needs a buffer as long.
const HEDGE_LEN_MAX: usize = 4 << 20;

/// May be used by many at once.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) file: File,
    /// Nodes that failed whoever reads here; tried last from then on.
    failed: Mutex<HashSet<Arc<str>>>,
    pub(super) local: LocalReplicas,
}

impl Source {
    pub(super) fn new(file: File) -> Self {
        Self { file, failed: Mutex::default(), local: LocalReplicas::default() }
    }

    pub(super) fn attempt(&self) -> Attempt {
        Attempt::new(self.file.client.options().retry_pause)
    }

    /// Fills `dest` from `offset`. All of that must lie in the file.
    pub(super) async fn read_exact_at(&self, offset: u64, dest: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < dest.len() {
            // What was verified is kept; the rest begins anew, with all replicas.
            done += self.read_some_at(offset + done as u64, &mut dest[done..]).await?;
        }
        Ok(())
    }

    /// Fills a first part of `dest`, at least one byte, and all of it that lies in one block, unless a replica fails.
    async fn read_some_at(&self, offset: u64, dest: &mut [u8]) -> Result<usize> {
        let mut attempt = self.attempt();
        loop {
            let block = self.file.block_at(offset).await?;
            let from = offset - block.offset;
            let len = (dest.len() as u64).min(block.len - from) as usize;
            let dest = &mut dest[..len];
            if self.read_local(&block, from, dest).await {
                return Ok(len);
            }
            let Some(Choice { node, has_other }) = self.choose(&block, attempt.tried()) else {
                self.next_round(&block, &mut attempt).await?;
                continue;
            };
            let (got, fault) = if has_other && len <= HEDGE_LEN_MAX {
                self.fetch_hedged(&block, node, from, dest, &attempt).await
            } else {
                self.fetch(&block, node, from, dest).await
            };
            if let Some(fault) = fault {
                self.on_fault(&block, node, &mut attempt, fault).await?;
            }
            if got > 0 {
                return Ok(got);
            }
        }
    }

    /// A stream of the block from `from` to its end. `None`: a node was asked, and failed.
    pub(super) async fn open_stream(
        &self,
        block: &Arc<Located>,
        from: u64,
        attempt: &mut Attempt,
    ) -> Result<Option<BlockReader>> {
        let Some(Choice { node, has_other }) = self.choose(block, attempt.tried()) else {
            self.next_round(block, attempt).await?;
            return Ok(None);
        };
        let (client, stall) = (&self.file.client, self.stall(has_other));
        match BlockReader::open(client, block, node, Range { from, end: block.len }, stall).await {
            Ok(reader) => Ok(Some(reader)),
            Err(fault) => {
                self.go_on_after(block, node, attempt, fault).await?;
                Ok(None)
            }
        }
    }

    /// How long a node may bring nothing.
    pub(super) fn stall(&self, has_other: bool) -> Duration {
        let client = &self.file.client;
        let stall = client.store().hedging().stall(client.store().round_trip()).filter(|_| has_other);
        stall.unwrap_or(client.options().timeout)
    }

    /// Fills `dest` from one node. The count holds also beside a fault.
    async fn fetch(&self, block: &Arc<Located>, node: &Node, from: u64, dest: &mut [u8]) -> (usize, Option<Fault>) {
        let client = &self.file.client;
        let range = Range { from, end: from + dest.len() as u64 };
        let mut reader = match BlockReader::open(client, block, node, range, client.options().timeout).await {
            Ok(reader) => reader,
            Err(fault) => return (0, Some(fault)),
        };
        let (got, fault) = reader.read(dest).await;
        if fault.is_none() {
            reader.finish(client).await;
        }
        (got, fault)
    }

    /// As `fetch`; if the node takes longer than usual, another one is asked beside it, and whoever is first counts.
    async fn fetch_hedged(
        &self,
        block: &Arc<Located>,
        node: &Node,
        from: u64,
        dest: &mut [u8],
        attempt: &Attempt,
    ) -> (usize, Option<Fault>) {
        let (store, len) = (self.file.client.store(), dest.len());
        let patience = store.hedging().patience(len as u64, store.round_trip());
        let mut beside = Vec::new();
        {
            let mut first = std::pin::pin!(self.fetch(block, node, from, dest));
            if let Ok(done) = tokio::time::timeout(patience, &mut first).await {
                return done;
            }
            let mut tried = attempt.tried().clone();
            tried.insert(Arc::clone(&node.addr));
            let Some(Choice { node: other, .. }) = self.choose(block, &tried) else { return first.await };
            if !store.hedging().take_spare() {
                return first.await;
            }
            beside.resize(len, 0);
            let mut second = std::pin::pin!(self.fetch(block, other, from, &mut beside));
            tokio::select! {
                (got, fault) = &mut first => match fault {
                    None => return (got, None),
                    Some(fault) => {
                        let (_, others_fault) = second.await;
                        if let Some(others_fault) = others_fault {
                            self.report(block, other, &others_fault).await;
                            return (0, Some(fault));
                        }
                        // The caller hears of no fault; whoever repairs must.
                        self.report(block, node, &fault).await;
                    }
                },
                (_, fault) = &mut second => if let Some(fault) = fault {
                    self.report(block, other, &fault).await;
                    return first.await;
                },
            }
        }
        tracing::debug!(path = %self.file.path, node = %node.addr, "slower than usual; another replica was faster");
        store.note_slow(&node.addr);
        dest.copy_from_slice(&beside);
        (len, None)
    }

    fn choose<'b>(&self, block: &'b Located, tried: &HashSet<Arc<str>>) -> Option<Choice<'b>> {
        self.choose_of(&block.nodes, tried)
    }

    /// Among equals the first.
    pub(super) fn choose_of<'n>(&self, nodes: &'n [Node], tried: &HashSet<Arc<str>>) -> Option<Choice<'n>> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let choose = |slow: &_, now: Duration| Selection { tried, failed: &failed, slow, now }.choose(nodes);
        self.file.client.store().with_slow(choose)
    }

    /// A node failed in the middle of a read.
    pub(super) async fn on_fault(
        &self,
        block: &Located,
        node: &Node,
        attempt: &mut Attempt,
        fault: Fault,
    ) -> Result<()> {
        self.report(block, node, &fault).await;
        self.go_on_after(block, node, attempt, fault).await
    }

    /// The node is not asked again in this round, unless all that it lacked was a token.
    async fn go_on_after(&self, block: &Located, node: &Node, attempt: &mut Attempt, fault: Fault) -> Result<()> {
        if attempt.wants_token(&fault) {
            tracing::debug!(path = %self.file.path, node = %node.addr, "the block's token is not valid any more");
            match self.file.refetch(block).await {
                Ok(()) => return Ok(()),
                // Another node may take the token that there is, or no metadata server leads for a moment.
                Err(error) => tracing::info!(path = %self.file.path, %error, "no new token; trying the next replica"),
            }
        }
        self.blame(attempt, &node.addr, fault);
        Ok(())
    }

    fn blame(&self, attempt: &mut Attempt, addr: &Arc<str>, fault: Fault) {
        tracing::info!(path = %self.file.path, node = %addr, %fault, "a replica could not be read; trying the next");
        if let Fault::Silent = fault {
            let store = self.file.client.store();
            let _counted = store.hedging().take_spare();
            store.note_slow(addr);
        } else {
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(addr));
        }
        attempt.on_fault(addr, fault);
    }

    /// Tells the server about a replica that is not what it was, so that it is replaced.
    pub(super) async fn report(&self, block: &Located, node: &Node, fault: &Fault) {
        if let Fault::Corrupt { .. } = fault
            && let Err(error) = self.file.client.report_bad(block, node).await
        {
            tracing::warn!(%error, "a bad replica could not be reported");
        }
    }

    /// All replicas of a block failed: waits a little, asks anew where they are, and goes round again.
    pub(super) async fn next_round(&self, block: &Located, attempt: &mut Attempt) -> Result<()> {
        let told = attempt.told();
        let failed = || Error::NoReplica { block: block.identity.block.0, tried: told };
        tokio::time::sleep(attempt.next_round().ok_or_else(failed)?).await;
        self.file.refetch(block).await
    }
}
