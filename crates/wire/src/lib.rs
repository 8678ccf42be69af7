//! The frames of data transfer, and the messages our own nodes exchange.
//!
//! ```text
//! one op on a connection:   OpHeader · delimited message · then packets one way, acks or a status the other way
//!   [`op`]        the three bytes and the message that open an operation
//!   [`delimited`] a message behind its length, with a bound on the length
//!   [`packet`]    sums and data, of reads and of writes
//!   [`abilities`] what another program of ours can do beyond HDFS's protocols
//!   [`ack`]       what a write chain answers, packet by packet
//!   [`routing`]   which node of a stream sends to which
//!   [`token`]     what of ours rides in a block token
//!   [`small`]     a whole small block in one request, and its answer
//!   [`ranges`]    many ranges of blocks in one request, and the parts that answer it
//!   [`layouts`]   where the columns of a file lie, as a datanode says
//!   [`client`]    our client → metad: blocks on lease, a small file put in one call
//!   [`node`]      datanode ↔ metad: registration, heartbeats, catalogue, recovery
//!   [`admin`]     what people ask of a store
//!   [`meter`]     what a server has used: processor time, waits for a disk
//! ```
//!
//! Promise: every length that a stranger chose is held against a bound before anybody takes memory for it, and no
//! input whatever makes a decoder panic. Our messages are in
//! `crates/wire/proto`; HDFS's own protobuf messages live in the crate `hdfs`.

pub mod abilities;
pub mod ack;
pub mod admin;
pub mod client;
pub mod delimited;
mod error;
#[cfg(test)]
mod golden;
pub mod joining;
pub mod layouts;
pub mod meter;
pub mod node;
pub mod op;
pub mod packet;
/// Messages of ours; made by `cargo run -p xtask -- generate` from `crates/wire/proto`.
#[rustfmt::skip]
#[allow(clippy::all)]
mod proto;
pub mod raft;
pub mod ranges;
pub mod routing;
pub mod small;
pub mod token;
pub mod tree;

pub use abilities::Abilities;
pub use ack::{PipelineAck, Status};
pub use error::WireError;
pub use op::{Op, OpHeader};
pub use packet::{PacketFrame, PacketHeader, PacketPrefix};
pub use routing::Routing;
pub use token::BlockScope;
