//! The call that asks for blocks on lease, for small files and for the next block of an open one.

use crate::client::Client;
use crate::error::Result;
use crate::stock::Lease;
use wire::client::{CLIENT_PROTOCOL, LEASE_BLOCKS, LeaseBlocksRequest, LeaseBlocksResponse};
use xfer::small::stock::Wish;

/// Of what kind the blocks are to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind<'a> {
    pub(crate) replication: u16,
    pub(crate) block_len: u64,
    pub(crate) wanted_for: WantedFor<'a>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum WantedFor<'a> {
    /// Each for one. The path of one of them, as the server asks whether we may make it.
    NewFiles(&'a str),
    /// The one that we write.
    OpenFile(u64),
}

/// The server may give fewer than are wished for, or none.
pub(crate) async fn lease_blocks(client: &Client, kind: Kind<'_>, wish: Wish<String>) -> Result<Vec<Lease>> {
    let stock = &client.session.stock;
    let asked = stock.now();
    let Wish { count, excluded, returned } = wish;
    let returning = stock.returning(returned.clone());
    let (file, path) = match kind.wanted_for {
        WantedFor::NewFiles(path) => (0, path.to_owned()),
        WantedFor::OpenFile(file) => (file, String::new()),
    };
    let request = LeaseBlocksRequest {
        holder: client.session.holder.clone(),
        replication: kind.replication.into(),
        block_len: kind.block_len,
        count,
        excluded,
        returned,
        file,
        path,
    };
    let answer: LeaseBlocksResponse = client.call_in(CLIENT_PROTOCOL, LEASE_BLOCKS, &request).await?;
    returning.answered();
    let leases = Lease::all_of(asked, answer);
    if leases.first().is_some_and(|lease| lease.batch.nodes.is_empty()) {
        leases.iter().for_each(|lease| stock.give_back(lease.block));
        return Ok(Vec::new());
    }
    Ok(leases)
}
