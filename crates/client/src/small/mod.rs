//! Small files: one request to a datanode, one call to the metadata server.
//!
//! ```text
//!   Stock: blocks on lease, taken ahead of time       (leaseBlocks, in batches)
//!     │ one
//!     ▼
//!   small write ──▶ the nearest of its nodes, which brings it to the others
//!     │ all have it, or most
//!     ▼
//!   putFile ──▶ metadata server: the file is there
//! ```
//!
//! Promise: a file is there whole or not at all. Whatever goes wrong with a block, another one is taken, and after a
//! few the file is streamed; what the server says about the *file* (it exists, it may not be written) ends the attempt.
//! Only a server that states the ability (`wire::abilities`) is asked.

mod put;
mod stock;

pub(crate) use put::Wish;
use stock::Stock;
pub(crate) use stock::sure_until;

use hdfs::proto;
use io::asking::{AskOptions, Links, Waiter};
use std::time::Duration;
use wire::small::SmallAnswer;
use xfer::small::{Caller, CallerLimits};

/// Connections for small writes: one to a datanode, shared by all who write small blocks there, and kept.
type SmallLinks = Links<Caller<Waiter<SmallAnswer>>>;

/// What one client keeps for small files.
#[derive(Debug)]
pub(crate) struct Small {
    stock: Stock,
    links: SmallLinks,
}

impl Small {
    pub(crate) fn new(connect_time_max: Duration) -> Self {
        let options = AskOptions { connect_time_max, ..AskOptions::default() };
        Self { stock: Stock::default(), links: SmallLinks::new(options, CallerLimits::default()) }
    }

    /// This node failed: for a while it is to get no more blocks of ours.
    pub(crate) fn avoid(&self, node: &proto::DatanodeInfoProto) {
        self.stock.exclude(&node.id.datanode_uuid);
    }

    /// Ids of the nodes that failed lately.
    pub(crate) fn avoided(&self) -> Vec<String> {
        self.stock.excluded()
    }

    /// The time by which leases are measured.
    pub(crate) fn now(&self) -> Duration {
        self.stock.now()
    }

    /// A block on lease is not wanted any more.
    pub(crate) fn give_back(&self, block: u64) {
        self.stock.give_back(block);
    }

    /// What the next request for leases gives back.
    pub(crate) fn take_returned(&self) -> Vec<u64> {
        self.stock.take_returned()
    }
}
