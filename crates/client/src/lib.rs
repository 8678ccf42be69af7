//! The client of the store: it speaks what stock HDFS clients speak, so it reads and writes any HDFS.
//!
//! ```text
//!            ┌──────── Client ────────┐
//!   names ───┤ status list rename …   ├─── RPC ──▶ metadata server
//!            │                        │
//!   bytes ───┤ Reader        Writer   ├─── packets ──▶ datanodes
//!            └────────────────────────┘
//! ```
//!
//! Promise: a byte that a [`Reader`] gives was held against its checksum, and came from whichever replica was whole; a
//! byte that [`Writer::flush`] returned for is in the memory of every node of the chain, and survives the loss of all
//! but one; a file that [`Writer::close`] returned for is complete. Nothing here takes a path apart but [`Url`].
//!
//! Any future may be dropped before it is ready. A [`Reader`] stays where it was, and what became of a [`Writer`]'s
//! bytes is told there; a call about names may have been done or not, as after a connection that broke.
//!
//! What people ask of the store itself, not of its files, is in [`admin`].
//!
//! A file that is closed before it grew is not streamed: it goes to the datanodes in one request and to the metadata
//! server in one call (`small/`), where the store knows how to. Whatever is in the way is told by `close` then, not by
//! `create`.
//!
//! A file that others are to see whole or not at all, also when it replaces another, is a [`Staged`] one.
//!
//! Who reads from far away gets what it will read next before it asks ([`Ahead`]; `ahead/`).
//!
//! What all users of a process share (sockets, latencies, locations) is in a [`Store`]; a [`Client`] is one user of it.
//! Whatever waits does so in a scope (`scope`), which [`Store::close`] ends. HDFS's messages about blocks end in
//! `messages` and `calls` (docs/adr/0018).
//!
//! Start reading at [`Client::connect`]; a read goes through `read/`, a write through `write/`.

mod acting;
pub mod admin;
mod ahead;
mod calls;
mod checksum;
mod choice;
mod client;
mod content;
mod create;
mod datanode;
mod descriptors;
mod dial;
mod encryption_key;
mod error;
pub mod explain;
mod forward;
mod hedge;
mod layout_memory;
mod lease_blocks;
mod leases;
mod listing;
mod local_nodes;
mod local_replica;
mod located;
mod locations;
mod login;
mod messages;
mod meter;
mod nameservice;
mod namespace;
mod on_connection;
mod options;
mod profile_calls;
mod profile_dir;
mod profiles;
mod protection;
mod read;
mod retry;
mod scope;
mod shared_profiles;
mod small;
mod socket;
mod sockets;
mod staged;
mod status;
mod stock;
mod store;
mod ticket;
mod url;
mod verified_chunks;
mod warm;
mod write;

pub use acting::Acting;
pub use ahead::{Ahead, AheadOptions, AheadStatistics, DataSet, Rehearsal};
pub use checksum::FileChecksum;
pub use client::Client;
pub use content::Content;
pub use create::Create;
pub use error::{Error, ErrorKind, Refusal, Result, reason_of};
pub use forward::Refused;
pub use layout::{self, Wanted as LayoutWanted};
pub use listing::Listing;
pub use meter::{Meter, Role};
pub use options::{Options, Routing};
pub use read::{LayoutReport, LayoutWindow, RangeRead, Reader};
pub use rpc::Patience;
pub use staged::{Existing, Staged, is_unfinished};
pub use status::{BlockLocation, FileVersion, FsStats, Kind, ServerDefaults, Status, Summary};
pub use store::Store;
pub use url::{PORT_DEFAULT, Url, default_fs};
pub use write::{OpenFile, Writer};
