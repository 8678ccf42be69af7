//! Metrics that are counted where the event happens; docs/metrics.md lists them.
//!
//! ```text
//!   door ──▶ calls       core ──▶ queues                 counted where it happens
//!               └── Registry ──┘ ◀── readings, process   read when a scraper asks
//! ```

mod authentications;
mod queues;

pub(crate) use authentications::Authentications;
pub(crate) use queues::{Queue, Queues};

use metrics::{Registry, RpcCalls};

/// The place of a row in the door's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowNumber(pub(crate) usize);

/// Handles of what is counted, made once.
#[derive(Debug)]
pub(crate) struct Telemetry {
    /// By [`RowNumber`].
    pub(crate) calls: RpcCalls,
    pub(crate) queues: Queues,
    pub(crate) authentications: Authentications,
}

impl Telemetry {
    /// `rows`: protocol and method of each row of the door's table, in its order.
    pub(crate) fn new(registry: &mut Registry, rows: impl Iterator<Item = (&'static str, &'static str)>) -> Self {
        let (calls, queues) = (RpcCalls::new(registry, rows), Queues::new(registry));
        Self { calls, queues, authentications: Authentications::new(registry) }
    }
}

/// Shown nowhere, and without the rows.
impl Default for Telemetry {
    fn default() -> Self {
        Self::new(&mut Registry::default(), std::iter::empty())
    }
}
