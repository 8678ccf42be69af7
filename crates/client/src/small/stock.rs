//! Blocks on lease that are not used yet: which there are is in [`xfer::small::Stock`]; this asks for more.

use crate::client::{Client, Inner};
use crate::error::{Error, Result};
use hdfs::exception::{RPC_NO_SUCH_METHOD, RPC_NO_SUCH_PROTOCOL};
use io::Clock;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use wire::client::{BlockNode, CLIENT_PROTOCOL, LEASE_BLOCKS, LeaseBlocksRequest, LeaseBlocksResponse};
use xfer::small::stock::{self, Leased, Wish};

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
    until: Duration,
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

#[derive(Debug, Default)]
pub(crate) struct Stock {
    clock: io::SystemClock,
    state: Mutex<xfer::small::Stock<Lease>>,
    /// Held by who asks; the others wait for what it brings.
    asking: tokio::sync::Mutex<()>,
}

impl Stock {
    fn state(&self) -> MutexGuard<'_, xfer::small::Stock<Lease>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pop(&self, replication: u16) -> (Option<Lease>, bool) {
        let now = self.now();
        self.state().pop(now, replication)
    }

    /// This node did not take a block.
    pub(super) fn exclude(&self, node: &str) {
        let now = self.now();
        self.state().exclude(now, node.to_owned());
    }

    pub(super) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    pub(super) fn excluded(&self) -> Vec<String> {
        let now = self.now();
        self.state().excluded(now)
    }

    /// The block was not put and will not be.
    pub(super) fn give_back(&self, block: u64) {
        self.state().give_back(block);
    }

    pub(super) fn take_returned(&self) -> Vec<u64> {
        self.state().take_returned()
    }

    /// The server does not honour our leases any more.
    pub(super) fn forget_all(&self) {
        self.state().forget_all();
    }

    fn request(&self, holder: &str, replication: u16, block_len: u64) -> LeaseBlocksRequest {
        let now = self.now();
        let Wish { count, excluded, returned } = self.state().wish(now, replication);
        let (holder, replication) = (holder.to_owned(), replication.into());
        LeaseBlocksRequest { holder, replication, block_len, count, excluded, returned, file: 0 }
    }

    fn fill(&self, replication: u16, asked: Duration, answer: LeaseBlocksResponse) {
        let LeaseBlocksResponse { pool, generation, blocks, nodes, limit_ms } = answer;
        let until = sure_until(asked, limit_ms);
        let batch = Arc::new(Batch { pool, generation, nodes, until });
        let leases = blocks.into_iter().map(|leased| Lease {
            batch: Arc::clone(&batch),
            block: leased.block,
            file: leased.file,
            token: leased.token,
        });
        self.state().fill(replication, asked, leases.collect());
    }

    fn refilled(&self, replication: u16) {
        self.state().refilled(replication);
    }
}

/// Until when a lease that was asked for at `asked` is to be used.
pub(crate) fn sure_until(asked: Duration, limit_ms: u64) -> Duration {
    stock::sure_until(asked, Duration::from_millis(limit_ms))
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
