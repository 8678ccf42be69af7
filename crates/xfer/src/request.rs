//! What opens an operation: its header and its message.
//!
//! Promise: both are one piece, to be sent with one call. Some servers misread a message whose length comes in a segment
//! of its own.

use prost::Message;
use types::limits::OP_MESSAGE_LEN_MAX;
use wire::{Op, OpHeader, delimited};

/// The bytes that ask for `op`.
pub fn encode(op: Op, message: &impl Message) -> Vec<u8> {
    let mut bytes = OpHeader { op }.encode().to_vec();
    delimited::put(message, &mut bytes);
    assert!(bytes.len() <= OP_MESSAGE_LEN_MAX as usize, "a request of {} bytes, which no server takes", bytes.len());
    bytes
}
