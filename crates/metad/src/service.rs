//! The door: which protocol a call speaks, and whether the server still takes calls.

use crate::core::Core;
use crate::{admin, client, meter, nodes, own};
use bytes::Bytes;
use hdfs::Exception;
use rpc::Call;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) core: Arc<Core>,
}

impl rpc::Service for Service {
    async fn call(&self, call: Call) -> Result<Bytes, Exception> {
        match call.protocol.as_str() {
            hdfs::protocol::CLIENT => {
                call.check_version(hdfs::protocol::VERSION)?;
                let session = self.core.users.session(&call, self.core.monotonic()).await?;
                client::call(&self.core, &session, &call.method, call.body).await
            }
            wire::client::CLIENT_PROTOCOL => own::call(&self.core, call).await,
            wire::node::NODE_PROTOCOL => nodes::call(&self.core, call).await,
            wire::admin::ADMIN_PROTOCOL => admin::call(&self.core, call).await,
            wire::meter::METER_PROTOCOL => meter::call(&call),
            _ => Err(call.no_such_protocol()),
        }
    }
}
