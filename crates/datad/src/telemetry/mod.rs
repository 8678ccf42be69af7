//! What this datanode counts, and what a scraper of `/metrics` reads of it: docs/metrics.md has all of it.

mod node;
mod operations;
#[cfg(test)]
mod page;

pub(crate) use operations::{Operation, Operations};

use crate::ipc;
use crate::node::Node;
use metrics::{Registry, RpcCalls};
use std::sync::Arc;

/// Handles of what is counted, made once.
#[derive(Debug)]
pub(crate) struct Telemetry {
    pub(crate) operations: Operations,
    /// By the place of a row in [`ipc::calls`].
    pub(crate) calls: RpcCalls,
}

impl Telemetry {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        Self { operations: Operations::new(registry), calls: RpcCalls::new(registry, ipc::calls()) }
    }
}

/// Shown nowhere.
impl Default for Telemetry {
    fn default() -> Self {
        Self::new(&mut Registry::default())
    }
}

/// Adds what is read of the datanode at the moment of a scrape.
pub(crate) fn read(registry: &mut Registry, node: &Arc<Node>) {
    host::process::register(registry, env!("CARGO_PKG_VERSION"), "datanode");
    node::register(registry, node);
}
