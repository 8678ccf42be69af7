//! What one client holds on lease and has not used yet: which blocks, and which nodes are to get none, is in
//! [`xfer::small::Stock`]. Who asks for more is in `small`.

use io::Clock;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wire::client::{BlockNode, LEASE_COUNT_MAX, LeaseBlocksResponse};
use xfer::small::stock::{Leased, Wish, sure_until};

/// A block that is ours to write, once.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) batch: Arc<Batch>,
    pub(crate) block: u64,
    pub(crate) file: u64,
    pub(crate) token: bytes::Bytes,
    /// What proves the token.
    pub(crate) password: bytes::Bytes,
}

/// What the blocks of one answer have in common.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) pool: String,
    pub(crate) generation: u64,
    pub(crate) nodes: Vec<BlockNode>,
    /// They are ours for sure until then.
    pub(crate) until: Duration,
}

impl Lease {
    /// The blocks of an answer, which were asked for at `asked`.
    pub(crate) fn all_of(asked: Duration, answer: LeaseBlocksResponse) -> Vec<Self> {
        let LeaseBlocksResponse { pool, generation, blocks, nodes, limit_ms } = answer;
        let until = sure_until(asked, Duration::from_millis(limit_ms));
        let batch = Arc::new(Batch { pool, generation, nodes, until });
        let leases = blocks.into_iter().map(|leased| Self {
            batch: Arc::clone(&batch),
            block: leased.block,
            file: leased.file,
            token: leased.token,
            password: leased.password,
        });
        leases.collect()
    }
}

impl Leased for Lease {
    type Node = String;

    fn block(&self) -> u64 {
        self.block
    }

    fn until(&self) -> Duration {
        self.batch.until
    }

    fn is_on(&self, node: &String) -> bool {
        self.batch.nodes.iter().any(|known| known.id == *node)
    }
}

/// Blocks that a request gives back. Unless it is answered, the next one gives them back again; a server does not mind
/// those that it has back already.
#[derive(Debug)]
pub(crate) struct Returning<'a> {
    stock: &'a Stock,
    blocks: Vec<u64>,
}

/// A server refuses a request that gives back more than a client can hold, so what is given back again must not grow
/// without end. The lease of the rest ends by itself.
const RETURNED_AGAIN_COUNT_MAX: usize = 4 * LEASE_COUNT_MAX as usize;

impl Returning<'_> {
    pub(crate) fn answered(mut self) {
        self.blocks.clear();
    }
}

impl Drop for Returning<'_> {
    fn drop(&mut self) {
        let mut state = self.stock.state();
        self.blocks.drain(..).take(RETURNED_AGAIN_COUNT_MAX).for_each(|block| state.give_back(block));
    }
}

#[derive(Debug)]
pub(crate) struct Stock {
    clock: Arc<dyn Clock>,
    state: Mutex<xfer::small::Stock<Lease>>,
    /// Held by who asks; the others wait for what it brings.
    pub(crate) asking: tokio::sync::Mutex<()>,
}

impl Stock {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: Mutex::default(), asking: tokio::sync::Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, xfer::small::Stock<Lease>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn pop(&self, replication: u16) -> (Option<Lease>, bool) {
        let now = self.now();
        self.state().pop(now, replication)
    }

    /// This node failed: for a while it is to get no more blocks of ours.
    pub(crate) fn exclude(&self, node: &str) {
        let now = self.now();
        self.state().exclude(now, node.to_owned());
    }

    /// The metadata server names this node, though it failed here a moment ago: it is back.
    pub(crate) fn readmit(&self, node: &String) {
        self.state().readmit(node);
    }

    /// The time by which leases are measured.
    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Ids of the nodes that failed lately.
    pub(crate) fn excluded(&self) -> Vec<String> {
        let now = self.now();
        self.state().excluded(now)
    }

    /// The block was not put and will not be.
    pub(crate) fn give_back(&self, block: u64) {
        self.state().give_back(block);
    }

    /// A request gives these back.
    pub(crate) fn returning(&self, blocks: Vec<u64>) -> Returning<'_> {
        Returning { stock: self, blocks }
    }

    /// The server does not honour our leases any more.
    pub(crate) fn forget_all(&self) {
        self.state().forget_all();
    }

    /// What to ask for, for new files.
    pub(crate) fn wish(&self, replication: u16) -> Wish<String> {
        let now = self.now();
        self.state().wish(now, replication)
    }

    /// To ask for one block, on none of these nodes nor of those that failed lately.
    pub(crate) fn wish_for_one(&self, excluded: &[String]) -> Wish<String> {
        let now = self.now();
        let mut state = self.state();
        let excluded = excluded.iter().cloned().chain(state.excluded(now)).collect();
        Wish { count: 1, excluded, returned: state.take_returned() }
    }

    pub(crate) fn fill(&self, replication: u16, asked: Duration, leases: Vec<Lease>) {
        self.state().fill(replication, asked, leases);
    }

    pub(crate) fn refilled(&self, replication: u16) {
        self.state().refilled(replication);
    }
}
