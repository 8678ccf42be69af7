//! The header of what a client sends.

use bytes::Bytes;
use hdfs::proto::{OperationProto, RpcKindProto, RpcRequestHeaderProto};

pub(crate) fn request_header(call_id: i32, client_id: &Bytes, retry_count: i32) -> RpcRequestHeaderProto {
    RpcRequestHeaderProto {
        rpc_kind: Some(RpcKindProto::RpcProtocolBuffer.into()),
        rpc_op: Some(OperationProto::RpcFinalPacket.into()),
        call_id,
        client_id: client_id.clone(),
        retry_count: Some(retry_count),
        ..RpcRequestHeaderProto::default()
    }
}
