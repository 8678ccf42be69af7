//! HDFS's words: its messages, the framing of its RPC and SASL, its exceptions.
//!
//! Promise: pure. Bytes come in, values go out, and no length a stranger chose is believed before it was bounded.
//! This is the one place where HDFS's words and ours meet.

#[rustfmt::skip]
#[allow(missing_docs, clippy::all)]
pub mod proto;
