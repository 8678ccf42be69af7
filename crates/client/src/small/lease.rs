//! Blocks on lease, taken ahead of time.

use super::wish::Wish;
use crate::client::{Client, Session};
use crate::error::{Error, Result};
use crate::lease_blocks::{Kind, WantedFor, lease_blocks};
use crate::stock::Lease;
use hdfs::exception::{RPC_NO_SUCH_METHOD, RPC_NO_SUCH_PROTOCOL};
use std::sync::{Arc, Weak};

/// A block for such a file. `None`: there is none to be had, so the file is to be streamed.
pub(super) async fn take(client: &Client, wish: Wish<'_>) -> Option<Lease> {
    let replication = wish.replication;
    let stock = &client.session.stock;
    if let Some(lease) = at_hand(client, wish) {
        return Some(lease);
    }
    let _asking = stock.asking.lock().await;
    // Whoever held the lock may have brought enough.
    if let Some(lease) = at_hand(client, wish) {
        return Some(lease);
    }
    if let Err(error) = ask(client, wish.path, replication, wish.block_len).await {
        tracing::debug!(%error, "no blocks on lease; the file is streamed");
        return None;
    }
    stock.pop(replication).0
}

fn at_hand(client: &Client, Wish { path, replication, block_len, .. }: Wish<'_>) -> Option<Lease> {
    let (lease, refill) = client.session.stock.pop(replication);
    if refill {
        let refill = refill_shelf(Arc::downgrade(&client.session), path.to_owned(), replication, block_len);
        client.session.store.scope().spawn_detached("leases of blocks", refill);
    }
    lease
}

/// Fills a shelf up before it is empty, while writers go on.
async fn refill_shelf(session: Weak<Session>, path: String, replication: u16, block_len: u64) {
    let Some(session) = session.upgrade() else { return };
    let client = Client { session };
    let stock = &client.session.stock;
    let _asking = stock.asking.lock().await;
    if let Err(error) = ask(&client, &path, replication, block_len).await {
        tracing::debug!(%error, "no blocks on lease ahead of time");
    }
    stock.refilled(replication);
}

async fn ask(client: &Client, path: &str, replication: u16, block_len: u64) -> Result<()> {
    let stock = &client.session.stock;
    let asked = stock.now();
    let kind = Kind { replication, block_len, wanted_for: WantedFor::NewFiles(path) };
    let leases = lease_blocks(client, kind, stock.wish(replication)).await?;
    if leases.is_empty() {
        return Err(client.not_understood("a lease without blocks or nodes"));
    }
    stock.fill(replication, asked, leases);
    Ok(())
}

/// The server does not have this call: an older one leads since its abilities were looked up.
pub(super) fn is_unknown(error: &Error) -> bool {
    error.is_class(RPC_NO_SUCH_PROTOCOL) || error.is_class(RPC_NO_SUCH_METHOD)
}
