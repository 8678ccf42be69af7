//! What opens an operation: its header and its message.
//!
//! Promise: both are one piece, to be sent with one call. Some servers misread a message whose length comes in a
//! segment of its own.

use crate::fault::Fault;
use prost::Message;
use types::limits::OP_MESSAGE_LEN_MAX;
use wire::{Op, OpHeader, delimited};

/// The bytes that ask for `op`. Tokens and names in it come from others: with long ones it is a request that no server
/// takes.
pub fn encode(op: Op, message: &impl Message) -> Result<Vec<u8>, Fault> {
    let mut bytes = OpHeader { op }.encode().to_vec();
    delimited::put(message, &mut bytes);
    if bytes.len() > OP_MESSAGE_LEN_MAX as usize {
        return Err(Fault::Protocol(format!("a request of {} bytes, which no server takes", bytes.len())));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdfs::proto::{ClientOperationHeaderProto, OpReadBlockProto};

    #[test]
    fn a_request_that_no_server_takes_is_a_fault() {
        let op = |client_name| {
            let header = ClientOperationHeaderProto { client_name, ..Default::default() };
            OpReadBlockProto { header, ..Default::default() }
        };
        let of = |len| encode(Op::ReadBlock, &op("x".repeat(len)));
        assert!(of(1000).is_ok());
        assert!(of(OP_MESSAGE_LEN_MAX as usize).is_err());
    }
}
