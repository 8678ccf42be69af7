//! Looks after the chains of a file: where one has lost nodes and others are to be had, its block ends early.
//!
//! The metadata server is asked beside the stream, which never waits for the answer. What follows from it is decided in
//! [`xfer::writer::Shortfall`].

use super::block::Block;
use crate::client::Client;
use crate::located::Node;
use crate::scope::Task;
use std::time::Duration;
use xfer::writer::{Identity, Member, Shortfall};

#[derive(Debug)]
pub(super) struct ChainWatch {
    shortfall: Shortfall,
    /// Nodes that could join the chain.
    asking: Option<Task<Vec<Node>>>,
}

/// Whose chain is short.
struct Short {
    path: String,
    file: u64,
    block: Identity,
    members: Vec<Member>,
    missing_count: usize,
}

impl ChainWatch {
    /// `replication`: nodes that a chain should have.
    pub(super) fn new(client: &Client, replication: u16) -> Self {
        Self { shortfall: Shortfall::new(client.options().clock.monotonic(), replication.into()), asking: None }
    }

    /// To be called behind each packet. `Some`: the block is to end here. The next one may go to these nodes, even if
    /// some failed a while ago: they are back.
    pub(super) async fn look(&mut self, client: &Client, file: (&str, u64), block: &Block) -> Option<Vec<Node>> {
        let clock = &client.options().clock;
        let mut found = Vec::new();
        if let Some(asking) = self.asking.as_mut().filter(|asking| asking.is_finished()) {
            found = asking.await.unwrap_or_default();
            self.asking = None;
            self.shortfall.on_answer(clock.monotonic(), found.len());
        }
        let members = block.members();
        self.shortfall.on_chain(clock.monotonic(), members.len());
        if !self.shortfall.is_asking() {
            self.asking = None; // it has all its nodes again
        }
        if let Some(until) = self.shortfall.poll_timeout() {
            let (path, file) = (file.0.to_owned(), file.1);
            let missing_count = self.shortfall.missing_count(members.len());
            let short = Short { path, file, block: block.id().clone(), members: members.to_vec(), missing_count };
            self.shortfall.on_asked();
            self.asking = Some(client.spawn("nodes for a short chain", ask(client.clone(), until, short)));
        }
        self.shortfall.is_over().then_some(found)
    }

    /// The block is being ended.
    pub(super) fn on_ended(&mut self, client: &Client) {
        self.asking = None;
        self.shortfall.on_ended(client.options().clock.monotonic());
    }
}

async fn ask(client: Client, until: Duration, short: Short) -> Vec<Node> {
    let Short { path, file, block, members, missing_count } = short;
    tokio::time::sleep(until.saturating_sub(client.options().clock.monotonic())).await;
    match client.additional_nodes(&path, file, &block, &members, missing_count).await {
        Ok(nodes) => nodes,
        Err(error) => {
            tracing::debug!(path, block = block.block.0, %error, "no further nodes for a chain that lost some");
            Vec::new()
        }
    }
}
