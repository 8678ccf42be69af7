//! What people ask of the store: `org.levada.AdminProtocol`, for superusers. One file for each thing that is administered.

mod meta;

use crate::core::Core;
use crate::refusal;
use bytes::Bytes;
use hdfs::Exception;
use prost::Message;
use rpc::Call;
use std::sync::Arc;
use wire::admin::{ADMIN_VERSION, meta as members};

pub(crate) async fn call(core: &Arc<Core>, call: Call) -> Result<Bytes, Exception> {
    call.check_version(ADMIN_VERSION)?;
    let session = core.users.session(&call, core.monotonic()).await?;
    if !session.caller.superuser {
        let message = format!("Access denied for user {}. Superuser privilege is required", session.caller.user);
        return Err(refusal::denied(message));
    }
    match call.method.as_str() {
        members::LIST_MEMBERS => meta::list(core, call.request()?).map(|answer| encode(&answer)),
        _ => Err(call.no_such_method()),
    }
}

fn encode(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}
