//! Where an operation on replicas is admitted, or refused before it is begun: the one place that says who may do what.
//!
//! ```text
//! data transfer ── place among the operations under way ── block it names: of this pool, its token ──▶ Named
//! RPC port ─────── who calls (ipc: a row for each call) ── block it names: of this pool
//! ```
//!
//! As many operations are under way as there are places. When there is none left, the one whose peer has been waited
//! for longest makes room: readers that stop reading keep nobody out. So it is with memory.
//!
//! Promise: no operation of data transfer reads or changes a replica whose block was not admitted here: only this file
//! makes a [`Named`]. A replica's record says whose it is, which is known once it was found: whoever opens one asks
//! [`Admission::must_cover`] before anything else.

use crate::config::Limits;
use crate::operations::Operations;
use crate::replicas::Replicas;
use datanode::tokens::{Ask, Grant};
use hdfs::proto;
use io::{ConnectionLimit, ConnectionPermit, RequestGuard};
use security::block_token::Mode;
use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use types::{BlockId, FileId, Generation, excerpt};
use wire::layouts::ReadLayout;
use wire::ranges::{RangesToken, ReadRanges};
use wire::small::SmallWrite;
use wire::{BlockScope, Status, node};
use xfer::answer::Refusal;
use xfer::small::Checked;

#[derive(Debug)]
pub(crate) struct Admission {
    /// For the block pool of this node, once it is known, and the rules about tokens.
    replicas: Arc<Replicas>,
    operations: Arc<Operations>,
    transfers: Arc<ConnectionLimit>,
    transfer_count_max: usize,
    /// Of each operation one, until the node ends.
    running: Arc<Semaphore>,
    /// See [`Transfer::wait_for_peer`].
    slow_after: Duration,
    /// For connections of write streams to nodes below: a stream may name several.
    onward: Arc<Semaphore>,
}

/// A block that an operation was admitted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    block: BlockId,
    generation: Generation,
    grant: Grant,
}

impl Named {
    pub(crate) fn block(&self) -> BlockId {
        self.block
    }

    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    /// The file that a signed token is for.
    pub(crate) fn file(&self) -> Option<FileId> {
        self.grant.file()
    }

    /// Whose block it is, if its token tells.
    pub(crate) fn scope(&self) -> Option<BlockScope> {
        self.grant.scope()
    }
}

/// The asker gets the status on which it asks for a new token, and no reason. Not of a node that no leader has told
/// anything yet: there no token helps, and another node may.
fn not_admitted(refused: &datanode::tokens::Refusal) -> Refusal {
    tracing::debug!(why = %refused, "a block token was refused");
    if let datanode::tokens::Refusal::Unknown = refused {
        return Refusal::error(refused.to_string());
    }
    Refusal {
        status: Status::ERROR_ACCESS_TOKEN,
        ..Refusal::error("the block token is not valid here; ask for a new one")
    }
}

/// More than there are places: [`ConnectionLimit`] counts those, and one that is ended for another one runs on for a
/// moment.
const RUNNING_COUNT_MAX: u32 = u32::MAX >> 4;

/// A place among the operations under way; free again when dropped.
#[derive(Debug)]
pub(crate) struct Transfer {
    place: Arc<ConnectionPermit>,
    slow_after: Duration,
    _held: (RequestGuard, OwnedSemaphorePermit),
}

impl Transfer {
    /// Waits for what is the peer's part: to take a packet, or to say its last word. Once that takes long (a packet may
    /// wait for its disk, too), it fails if another operation needs the place, and has got it: this one is to end.
    pub(crate) async fn wait_for_peer<T, E: From<Error>>(
        &self,
        part: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let mut part = std::pin::pin!(part);
        if let Ok(done) = tokio::time::timeout(self.slow_after, &mut part).await {
            return done;
        }
        let _slow = self.place.response_stalled();
        tokio::select! {
            done = part => done,
            () = self.place.evicted() => {
                Err(Error::new(ErrorKind::TimedOut, "another operation needs its place").into())
            }
        }
    }
}

/// A place among the connections to other nodes; free again when dropped.
#[derive(Debug)]
pub(crate) struct Onward(#[expect(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

impl Admission {
    pub(crate) fn new(replicas: Arc<Replicas>, operations: Arc<Operations>, limits: &Limits) -> Self {
        let transfer_count_max = limits.transfer_count_max;
        let (transfers, slow_after) =
            (ConnectionLimit::new(transfer_count_max), Duration::from_millis(limits.slow_reader_ms));
        let running = Arc::new(Semaphore::new(RUNNING_COUNT_MAX as usize));
        let onward = Arc::new(Semaphore::new(limits.connection_count_max.min(Semaphore::MAX_PERMITS)));
        Self { replicas, operations, transfers, transfer_count_max, running, slow_after, onward }
    }

    /// `None` when as many operations are under way as may be, and the peer of none has been waited for long.
    pub(crate) fn transfer(&self) -> Option<Transfer> {
        let running = Arc::clone(&self.running).try_acquire_owned().ok()?;
        let (place, request) = self.transfers.admit_request()?;
        Some(Transfer { place, slow_after: self.slow_after, _held: (request, running) })
    }

    /// Ends the operation whose peer has been waited for longest, for the memory that it holds. False: the peer of none
    /// has been waited for long.
    pub(crate) fn end_slowest(&self) -> bool {
        self.transfers.evict_one()
    }

    /// For a connection of a write stream to a node below.
    pub(crate) fn onward(&self) -> Result<Onward, Refusal> {
        let place = Arc::clone(&self.onward).try_acquire_owned().map(Onward);
        place.map_err(|_| Refusal::error("this node has as many connections to others as it allows; try another node"))
    }

    pub(crate) fn transfer_count(&self) -> usize {
        self.transfers.count()
    }

    pub(crate) fn transfer_count_max(&self) -> usize {
        self.transfer_count_max
    }

    /// Returns when no operation is under way; none can begin after it.
    pub(crate) async fn transfers_ended(&self) {
        if let Ok(all) = self.running.acquire_many(RUNNING_COUNT_MAX).await {
            all.forget();
        }
    }

    /// The block that an operation of data transfer names, if the operation may be done with it.
    /// `makes`: it may make a replica where there is none.
    pub(crate) fn block(&self, header: &proto::BaseHeaderProto, mode: Mode, makes: bool) -> Result<Named, Refusal> {
        self.replica(&header.block)?;
        let block = BlockId(header.block.block_id);
        let (identifier, password) =
            header.token.as_ref().map_or((&[][..], &[][..]), |token| (&token.identifier, &token.password));
        let grant = self.token(Ask { block, mode, makes }, identifier, password)?;
        Ok(Named { block, generation: Generation(header.block.generation_stamp), grant })
    }

    /// What a token grants. That of a handshake, if there was one, may be of another block.
    fn token(&self, ask: Ask, identifier: &[u8], password: &[u8]) -> Result<Grant, Refusal> {
        let rules = self.replicas.node.with(|node| node.tokens.rules());
        rules.admit(self.replicas.wall(), ask, identifier, password).map_err(|refused| {
            self.operations.token_refused(&refused);
            not_admitted(&refused)
        })
    }

    /// Refuses what a metadata server asks for without a token of the leader.
    pub(crate) fn order(&self, block: BlockId, token: Option<&node::BlockToken>) -> Result<(), Refusal> {
        let (identifier, password) = token.map_or((&[][..], &[][..]), |token| (&token.identifier, &token.password));
        let named = Named {
            block,
            generation: Generation(0),
            grant: self.token(Ask { block, mode: Mode::Write, makes: false }, identifier, password)?,
        };
        match self.replicas.disks.find(block)? {
            Some(info) => self.must_cover(&named, info.identity.file),
            None => Ok(()),
        }
    }

    /// Refuses an operation on a replica of this file, if its token is for another one's.
    pub(crate) fn must_cover(&self, named: &Named, file: FileId) -> Result<(), Refusal> {
        named.grant.covers(file).map_err(|refused| {
            self.operations.token_refused(&refused);
            not_admitted(&refused)
        })
    }

    /// The block at `place` of a request for ranges, if it may be read.
    pub(crate) fn ranges(&self, request: &ReadRanges, place: usize) -> Result<Named, Refusal> {
        let of = &request.blocks[place];
        self.to_read(&request.pool, of.block, of.generation, &request.tokens[of.token as usize])
    }

    /// The block at `place` of a request for a layout, if it may be read.
    pub(crate) fn layout(&self, request: &ReadLayout, place: usize) -> Result<Named, Refusal> {
        let of = &request.blocks[place];
        self.to_read(&request.pool, of.block, of.generation, &request.tokens[of.token as usize])
    }

    fn to_read(&self, pool: &str, block: u64, generation: u64, token: &RangesToken) -> Result<Named, Refusal> {
        let id = proto::ExtendedBlockProto {
            pool_id: pool.to_owned(),
            block_id: block,
            generation_stamp: generation,
            num_bytes: None,
        };
        self.replica(&id)?;
        let (block, generation) = (BlockId(block), Generation(generation));
        let grant = self.token(Ask { block, mode: Mode::Read, makes: false }, &token.identifier, &token.password)?;
        Ok(Named { block, generation, grant })
    }

    /// What a small write asks for, if it may be done. Its bytes are not here yet.
    pub(crate) fn small(&self, header: &SmallWrite) -> Result<Checked, Refusal> {
        let ask = Ask { block: BlockId(header.block), mode: Mode::Put, makes: true };
        let grant = self.token(ask, &header.token, &header.password)?;
        Checked::of(header, self.replicas.disks.pool().as_deref(), grant.scope())
    }

    /// Whether a call of the RPC port may ask about this block.
    pub(crate) fn replica(&self, block: &proto::ExtendedBlockProto) -> Result<(), Refusal> {
        if block.block_id >> 63 != 0 {
            return Err(Refusal::unsupported("erasure-coded blocks are not served"));
        }
        match self.replicas.disks.pool() {
            Some(pool) if pool != block.pool_id => {
                let named = excerpt(&block.pool_id);
                Err(Refusal::error(format!("block pool {named} is not here, this node is of {pool:?}")))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use container::Options;
    use metrics::Registry;

    /// Of a node that asks for no tokens.
    fn admission(disks: disks::Disks, transfers: usize) -> Admission {
        let replicas = Arc::new(Replicas::new(disks, 1, io::SystemClock::new()));
        replicas.node.with(|node| node.tokens.hear(&node::TokenRules::default())).unwrap();
        let limits = Limits { transfer_count_max: transfers, slow_reader_ms: 0, ..Limits::default() };
        Admission::new(replicas, Arc::new(Operations::new(&mut Registry::default())), &limits)
    }

    #[test]
    fn a_block_of_another_pool_or_an_erasure_coded_one_is_refused_and_so_is_a_token_that_does_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let disks = disks::open(&[dir.path().to_owned()], &Options::default()).unwrap();
        let admission = admission(disks.clone(), 1);
        let header = |pool: &str, block: u64, token: &[u8]| proto::BaseHeaderProto {
            block: proto::ExtendedBlockProto {
                pool_id: pool.to_owned(),
                block_id: block,
                generation_stamp: 1001,
                num_bytes: None,
            },
            token: Some(proto::TokenProto { identifier: token.to_vec().into(), ..proto::TokenProto::none() }),
            ..Default::default()
        };
        let block = |header: &proto::BaseHeaderProto| admission.block(header, Mode::Read, false);
        let refusal = |header| block(&header).unwrap_err().message;
        // The node has not joined a pool yet: it serves what it has.
        assert_eq!(block(&header("BP-2", 7, &[])).unwrap().block, BlockId(7));
        disks.join_pool("BP-1").unwrap();
        assert_eq!(block(&header("BP-1", 7, &[])).unwrap().generation, Generation(1001));
        assert!(refusal(header("BP-2", 7, &[])).contains("BP-2"));
        assert!(refusal(header(&"\u{1b}".repeat(1 << 20), 7, &[])).len() < 1000, "no more than is needed is repeated");
        assert!(refusal(header("BP-1", 1 << 63, &[])).contains("erasure-coded"));
        assert!(!refusal(header("BP-1", 7, &[0x08, 0xff])).is_empty());
        assert!(admission.replica(&header("BP-2", 7, &[]).block).is_err(), "the RPC port has the same rule");
    }

    #[tokio::test]
    async fn no_more_operations_are_admitted_than_there_are_places_and_none_after_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let disks = disks::open(&[dir.path().to_owned()], &Options::default()).unwrap();
        let admission = admission(disks, 2);
        let places = [admission.transfer().unwrap(), admission.transfer().unwrap()];
        assert!(admission.transfer().is_none());
        assert_eq!(admission.transfer_count(), 2);
        drop(places);
        admission.transfers_ended().await;
        assert!(admission.transfer().is_none());
    }

    #[tokio::test]
    async fn an_operation_whose_peer_is_waited_for_makes_room_and_one_that_works_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let disks = disks::open(&[dir.path().to_owned()], &Options::default()).unwrap();
        let admission = admission(disks, 2);
        let [_working, reading] = [(); 2].map(|()| admission.transfer().unwrap());
        let mut taken = std::pin::pin!(reading.wait_for_peer(std::future::pending::<std::io::Result<()>>()));
        let other = loop {
            // It counts as slow from a turn of the runtime on.
            assert!(tokio::time::timeout(Duration::from_millis(1), &mut taken).await.is_err(), "nobody needs it");
            if let Some(other) = admission.transfer() {
                break other;
            }
        };
        assert_eq!(taken.await.unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(admission.transfer_count(), 2);
        assert!(admission.transfer().is_none(), "both work");
        drop(other);
        assert_eq!(admission.transfer_count(), 1, "one that made room has none to give back");
    }
}
