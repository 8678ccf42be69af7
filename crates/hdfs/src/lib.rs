//! HDFS's words: its messages, the framing of its RPC, its exceptions.
//!
//! Promise: pure. Bytes come in, values go out, and no length a stranger chose is believed before it was bounded.
//! This is the one place where HDFS's words and ours meet. Start reading at [`frame`], which draws the wire.

pub mod call_id;
mod encoding;
pub mod exception;
pub mod fields;
pub mod frame;
pub mod listing;
pub mod located;
pub mod opening;
pub mod protocol;
mod version;
mod words;

/// HDFS's messages by its own names, flat; made by `cargo run -p xtask -- generate` from `crates/hdfs/proto`.
#[rustfmt::skip]
#[allow(missing_docs, clippy::all)]
pub mod proto;

pub use exception::Exception;
pub use frame::FrameError;
