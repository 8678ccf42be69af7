//! What our own clients may ask beyond HDFS's calls: `org.levada.ClientProtocol`.

mod add_leased;
mod held;
mod lease_blocks;
mod put_file;

use crate::caller::Session;
use crate::core::Core;
use bytes::Bytes;
use hdfs::Exception;
use prost::Message;
use rpc::Call;
use std::sync::Arc;
use wire::client::{ADD_LEASED, LEASE_BLOCKS, PUT_FILE};

pub(crate) async fn call(core: &Arc<Core>, session: &Session, call: &Call) -> Result<Bytes, Exception> {
    match call.method.as_str() {
        LEASE_BLOCKS => encode(lease_blocks::lease_blocks(core, session, call.request()?).await),
        PUT_FILE => encode(put_file::put_file(core, session, call.request()?).await),
        ADD_LEASED => encode(add_leased::add_leased(core, session, call.request()?).await),
        _ => Err(call.no_such_method()),
    }
}

fn encode<M: Message>(answer: Result<M, Exception>) -> Result<Bytes, Exception> {
    answer.map(|answer| answer.encode_to_vec().into())
}
