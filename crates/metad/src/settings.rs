//! What administrators of HDFS have a running server read again: lists of who may speak which protocol, queues of
//! calls, settings. There are no such lists here, and settings are read at the start; who asks is told so, in HDFS's
//! words where it has some.

use bytes::Bytes;
use hdfs::Exception;
use hdfs::exception::{AUTHORIZATION, UNSUPPORTED_OPERATION};
use hdfs::protocol::{GENERIC_REFRESH, RECONFIGURATION, REFRESH_AUTHORIZATION_POLICY, REFRESH_CALL_QUEUE};
use rpc::Call;

pub(crate) fn call(call: &Call) -> Result<Bytes, Exception> {
    let unsupported = |message: &str| Err(Exception::new(UNSUPPORTED_OPERATION, message));
    match (call.protocol.as_str(), call.method.as_str()) {
        (REFRESH_AUTHORIZATION_POLICY, "refreshServiceAcl") => {
            Err(Exception::new(AUTHORIZATION, "Service Level Authorization not enabled!"))
        }
        (REFRESH_CALL_QUEUE, "refreshCallQueue") => {
            unsupported("refreshCallQueue is not supported: calls wait in no queue that could be set")
        }
        (GENERIC_REFRESH, "refresh") => {
            unsupported("refresh is not supported: nothing is registered here to be read again")
        }
        // An empty list.
        (RECONFIGURATION, "listReconfigurableProperties") => Ok(Bytes::new()),
        (RECONFIGURATION, "startReconfiguration" | "getReconfigurationStatus") => {
            unsupported("settings are read when a server starts: change its file and start it again")
        }
        _ => Err(call.no_such_method()),
    }
}
