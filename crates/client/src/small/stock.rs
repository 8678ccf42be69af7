//! Blocks on lease that are not used yet, by replication.
//!
//! They are asked for in batches that grow with the demand, before the last one is gone; what is not used soon enough
//! for its lease to be sure is given back.

use crate::client::{Client, Inner};
use crate::error::{Error, Result};
use hdfs::exception::{RPC_NO_SUCH_METHOD, RPC_NO_SUCH_PROTOCOL};
use io::Clock;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use wire::client::{
    BlockNode, CLIENT_PROTOCOL, LEASE_BLOCKS, LEASE_COUNT_MAX, LeaseBlocksRequest, LeaseBlocksResponse,
};

/// The first batch: most programs write a few files.
const COUNT_FIRST: u32 = 4;
/// A batch that was used up within this is followed by one twice as large.
const SOON: Duration = Duration::from_secs(5);
/// A node that failed is not asked for again for so long; the server finds out in the meantime.
const EXCLUDED_FOR: Duration = Duration::from_secs(30);

/// A block that is ours to write, once.
#[derive(Clone, Debug)]
pub(super) struct Lease {
    pub(super) batch: Arc<Batch>,
    pub(super) block: u64,
    pub(super) file: u64,
    pub(super) token: bytes::Bytes,
}

/// What the blocks of one answer have in common.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) pool: String,
    pub(super) generation: u64,
    pub(super) nodes: Vec<BlockNode>,
    /// The lease is sure until then.
    until: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Stock {
    clock: io::SystemClock,
    state: Mutex<State>,
    /// Held by who asks; the others wait for what it brings.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    shelves: HashMap<u16, Shelf>,
    /// Nodes that failed, and until when they are avoided.
    excluded: HashMap<String, Duration>,
    /// Blocks to be given back with the next request.
    returned: Vec<u64>,
}

/// Blocks of one replication.
#[derive(Debug, Default)]
struct Shelf {
    leases: VecDeque<Lease>,
    /// Of the last batch: how many, and when.
    asked_count: u32,
    asked: Duration,
    refilling: bool,
}

impl Shelf {
    fn next_count(&self, now: Duration) -> u32 {
        match self.asked_count {
            0 => COUNT_FIRST,
            count if now.saturating_sub(self.asked) <= SOON => (2 * count).min(LEASE_COUNT_MAX),
            _ => COUNT_FIRST,
        }
    }
}

impl Stock {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block from the shelf, and whether the shelf should be filled up.
    fn pop(&self, replication: u16) -> (Option<Lease>, bool) {
        let now = self.clock.monotonic();
        let mut state = self.state();
        let State { shelves, returned, .. } = &mut *state;
        let shelf = shelves.entry(replication).or_default();
        // The oldest are in front.
        let mut lease = shelf.leases.pop_front();
        while let Some(stale) = lease.take_if(|lease| lease.batch.until <= now) {
            returned.push(stale.block);
            lease = shelf.leases.pop_front();
        }
        let low = shelf.leases.len() as u32 <= shelf.asked_count / 4;
        let refill = lease.is_some() && low && shelf.asked_count > COUNT_FIRST && !shelf.refilling;
        shelf.refilling |= refill;
        (lease, refill)
    }

    /// This node did not take a block: those that would go there are given back.
    pub(super) fn exclude(&self, node: &str) {
        let until = self.clock.monotonic() + EXCLUDED_FOR;
        let mut state = self.state();
        let State { shelves, excluded, returned } = &mut *state;
        excluded.insert(node.to_owned(), until);
        for shelf in shelves.values_mut() {
            shelf.leases.retain(|lease| {
                let well = lease.batch.nodes.iter().all(|known| known.id != node);
                if !well {
                    returned.push(lease.block);
                }
                well
            });
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    pub(super) fn excluded(&self) -> Vec<String> {
        let now = self.clock.monotonic();
        let mut state = self.state();
        state.excluded.retain(|_, until| *until > now);
        state.excluded.keys().cloned().collect()
    }

    /// The block was not put and will not be.
    pub(super) fn give_back(&self, block: u64) {
        self.state().returned.push(block);
    }

    pub(super) fn take_returned(&self) -> Vec<u64> {
        std::mem::take(&mut self.state().returned)
    }

    /// The server does not honour our leases any more.
    pub(super) fn forget_all(&self) {
        self.state().shelves.clear();
    }

    fn request(&self, holder: &str, replication: u16, block_len: u64) -> LeaseBlocksRequest {
        let now = self.clock.monotonic();
        let mut state = self.state();
        state.excluded.retain(|_, until| *until > now);
        let count = state.shelves.entry(replication).or_default().next_count(now);
        LeaseBlocksRequest {
            holder: holder.to_owned(),
            replication: replication.into(),
            block_len,
            count,
            excluded: state.excluded.keys().cloned().collect(),
            returned: std::mem::take(&mut state.returned),
            file: 0,
        }
    }

    fn fill(&self, replication: u16, asked: Duration, answer: LeaseBlocksResponse) {
        let LeaseBlocksResponse { pool, generation, blocks, nodes, limit_ms } = answer;
        let until = sure_until(asked, limit_ms);
        let batch = Arc::new(Batch { pool, generation, nodes, until });
        let mut state = self.state();
        let shelf = state.shelves.entry(replication).or_default();
        (shelf.asked_count, shelf.asked) = (blocks.len() as u32, asked);
        shelf.leases.extend(blocks.into_iter().map(|leased| Lease {
            batch: Arc::clone(&batch),
            block: leased.block,
            file: leased.file,
            token: leased.token,
        }));
    }

    fn refilled(&self, replication: u16) {
        self.state().shelves.entry(replication).or_default().refilling = false;
    }
}

/// Until when a lease that was asked for at `asked` is to be used: a quarter of its time is for the write and the call
/// behind it.
pub(crate) fn sure_until(asked: Duration, limit_ms: u64) -> Duration {
    asked + Duration::from_millis(limit_ms / 4 * 3)
}

/// A block for a file of this replication. `None`: there is none to be had, so the file is to be streamed.
pub(super) async fn take(client: &Client, replication: u16, block_len: u64) -> Option<Lease> {
    let stock = &client.inner.small.stock;
    if let Some(lease) = at_hand(client, replication, block_len) {
        return Some(lease);
    }
    let _asking = stock.asking.lock().await;
    // Whoever held the lock may have brought enough.
    if let Some(lease) = at_hand(client, replication, block_len) {
        return Some(lease);
    }
    if let Err(error) = ask(client, replication, block_len).await {
        tracing::debug!(%error, "no blocks on lease; the file is streamed");
        return None;
    }
    stock.pop(replication).0
}

fn at_hand(client: &Client, replication: u16, block_len: u64) -> Option<Lease> {
    let (lease, refill) = client.inner.small.stock.pop(replication);
    if refill {
        let inner = Arc::downgrade(&client.inner);
        io::task::spawn("leases of blocks", refill_shelf(inner, replication, block_len));
    }
    lease
}

/// Fills a shelf up before it is empty, while writers go on.
async fn refill_shelf(inner: Weak<Inner>, replication: u16, block_len: u64) {
    let Some(inner) = inner.upgrade() else { return };
    let client = Client { inner };
    let stock = &client.inner.small.stock;
    let _asking = stock.asking.lock().await;
    if let Err(error) = ask(&client, replication, block_len).await {
        tracing::debug!(%error, "no blocks on lease ahead of time");
    }
    stock.refilled(replication);
}

async fn ask(client: &Client, replication: u16, block_len: u64) -> Result<()> {
    let stock = &client.inner.small.stock;
    let asked = stock.clock.monotonic();
    let request = stock.request(&client.inner.holder, replication, block_len);
    let answer: LeaseBlocksResponse = client.call_in(CLIENT_PROTOCOL, LEASE_BLOCKS, &request).await?;
    if answer.nodes.is_empty() || answer.blocks.is_empty() {
        let (addr, reason) = (client.url().authority.clone(), "a lease without blocks or nodes".to_owned());
        return Err(Error::Protocol { addr, reason });
    }
    stock.fill(replication, asked, answer);
    Ok(())
}

/// The server does not have this call: an older one leads since its abilities were looked up.
pub(super) fn is_unknown(error: &Error) -> bool {
    error.is_class(RPC_NO_SUCH_PROTOCOL) || error.is_class(RPC_NO_SUCH_METHOD)
}
