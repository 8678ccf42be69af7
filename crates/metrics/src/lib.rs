//! Counters, gauges and histograms of one server, and their text for scrapers.
//!
//! ```text
//!  a call ends ──▶ handle: relaxed atomic adds        (made once, kept by whoever counts)
//!                     │ shared
//!                  Registry ◀── a scrape: what is counted, and what is read at that moment ──▶ text
//! ```
//!
//! Promise: who counts takes no lock and allocates nothing. A registry is a value that a server owns, so that several
//! servers in one process do not count into each other. Labels have few values: a family has at most [`SERIES_MAX`]
//! series, and no label is a path, a user or an address of a client. Every family is declared before the server serves,
//! so that docs/metrics.md can be compared with [`Registry::families`].

mod described;
mod family;
mod histogram;
mod labels;
mod reading;
mod registry;
mod rpc_calls;
mod text;

pub use described::{Described, Kind};
pub use family::{Family, SERIES_MAX};
pub use histogram::{Buckets, Histogram};
pub use prometheus_client::metrics::counter::Counter;
pub use prometheus_client::metrics::gauge::Gauge;
pub use reading::{Readings, counter, gauge};
pub use registry::Registry;
pub use rpc_calls::{RpcCalls, class_name};
pub use text::Format;
