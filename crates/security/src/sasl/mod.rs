//! SASL as HDFS uses it, each end of each exchange as a machine without I/O.
//!
//! ```text
//! digest      DIGEST-MD5 (RFC 2831): tokens prove themselves with it; what it negotiates protects what follows
//! rpc         which mechanism, on RPC connections
//! transfer    the handshake of data transfer, and the channel behind it
//! ```

pub mod digest;
pub mod rpc;
pub mod transfer;
