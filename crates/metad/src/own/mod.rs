//! What our own clients may ask beyond HDFS's calls: `org.levada.ClientProtocol`.

mod add_leased;
mod lease_blocks;
mod put_file;

use crate::audit;
use crate::core::Core;
use crate::racks;
use bytes::Bytes;
use hdfs::Exception;
use prost::Message;
use rpc::Call;
use std::sync::Arc;
use types::BlockId;
use wire::client::{
    ADD_LEASED, AddLeasedRequest, LEASE_BLOCKS, LeaseBlocksRequest, PROTOCOL_VERSION, PUT_FILE, PutFileRequest,
};

pub(crate) async fn call(core: &Arc<Core>, call: Call) -> Result<Bytes, Exception> {
    call.check_version(PROTOCOL_VERSION)?;
    let session = core.users.session(&call, core.monotonic()).await?;
    racks::locate(core, &session).await;
    match call.method.as_str() {
        LEASE_BLOCKS => {
            let request: LeaseBlocksRequest = call.request()?;
            encode(lease_blocks::lease_blocks(core, &session, request).await)
        }
        PUT_FILE => {
            let request: PutFileRequest = call.request()?;
            let entry = audit::Entry::begin(core, &session, PUT_FILE, &[&request.path]);
            let answer = put_file::put_file(core, &session, request).await;
            entry.end(core, &answer);
            encode(answer)
        }
        ADD_LEASED => {
            let request: AddLeasedRequest = call.request()?;
            let entry = audit::Entry::begin(core, &session, ADD_LEASED, &[&request.path]);
            let answer = add_leased::add_leased(core, &session, request).await;
            entry.end(core, &answer);
            encode(answer)
        }
        _ => Err(call.no_such_method()),
    }
}

/// A block counts as held until its put is applied or refused. A log that fails ends the server, so this need not tell.
struct Held<'a> {
    core: &'a Core,
    block: BlockId,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.core.leased().end_put(self.block);
    }
}

fn encode<M: Message>(answer: Result<M, Exception>) -> Result<Bytes, Exception> {
    answer.map(|answer| answer.encode_to_vec().into())
}
