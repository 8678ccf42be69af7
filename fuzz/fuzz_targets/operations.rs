//! What opens an operation of data transfer, the acks of a chain, and the block token inside.
#![no_main]

use hdfs::proto::{OpBlockChecksumProto, OpReadBlockProto, OpTransferBlockProto, OpWriteBlockProto};
use wire::{BlockScope, OpHeader, PipelineAck, delimited};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = PipelineAck::split(bytes);
    let _ = BlockScope::decode(bytes);
    let Some((head, rest)) = bytes.split_first_chunk::<{ OpHeader::LEN }>() else { return };
    let Ok(header) = OpHeader::decode(*head) else { return };
    let limit = types::limits::OP_MESSAGE_LEN_MAX as usize;
    if let Ok(Some((message, _))) = delimited::split(rest, "op", limit) {
        let _ = header.encode();
        let _ = delimited::decode::<OpWriteBlockProto>(message, "op");
        let _ = delimited::decode::<OpReadBlockProto>(message, "op");
        let _ = delimited::decode::<OpBlockChecksumProto>(message, "op");
        let _ = delimited::decode::<OpTransferBlockProto>(message, "op");
    }
});
