//! Small files as our clients make them: blocks on lease, put by one call.

use super::{MB, User};
use rpc::CallError;
use wire::client::{
    CLIENT_PROTOCOL, LEASE_BLOCKS, LeaseBlocksRequest, LeaseBlocksResponse, LeasedBlock, PUT_FILE, PutBlock,
    PutFileRequest, PutFileResponse,
};

/// For new files beside `path`, of one block each.
pub(crate) fn lease_request(holder: &str, count: u32, path: &str) -> LeaseBlocksRequest {
    LeaseBlocksRequest {
        holder: holder.into(),
        count,
        replication: 3,
        block_len: MB,
        path: path.into(),
        ..LeaseBlocksRequest::default()
    }
}

pub(crate) async fn lease(user: &User, request: &LeaseBlocksRequest) -> Result<LeaseBlocksResponse, CallError> {
    user.ask_in(CLIENT_PROTOCOL, LEASE_BLOCKS, request).await
}

/// A file of seven bytes, of which all nodes have the one block.
pub(crate) fn put_request(leased: &LeaseBlocksResponse, place: usize, path: &str, holder: &str) -> PutFileRequest {
    let LeasedBlock { block, file, token, password } = leased.blocks[place].clone();
    PutFileRequest {
        path: path.into(),
        holder: holder.into(),
        mode: 0o640,
        overwrite: false,
        create_parent: true,
        replication: 3,
        block_len: MB,
        block: Some(PutBlock { block, file, generation: leased.generation, len: 7, token, password }),
        unmasked: None,
        short: false,
    }
}

/// The file's id.
pub(crate) async fn put(user: &User, request: &PutFileRequest) -> Result<u64, CallError> {
    user.ask_in(CLIENT_PROTOCOL, PUT_FILE, request).await.map(|answer: PutFileResponse| answer.file)
}
