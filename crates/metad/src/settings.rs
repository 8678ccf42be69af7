//! Calls by which HDFS's administrators have a server reread its settings: service authorization, call queues,
//! properties. Here settings are read at the start only, and there are no such lists. The caller gets an answer that
//! says so, in HDFS's words where it has some.

use crate::answer::Encoded;
use crate::visit::Visit;
use hdfs::Exception;
use hdfs::exception::{AUTHORIZATION, UNSUPPORTED_OPERATION};

pub(crate) async fn refresh_service_acl(_visit: &Visit) -> Result<Encoded, Exception> {
    Err(Exception::new(AUTHORIZATION, "Service Level Authorization not enabled!"))
}

pub(crate) async fn refresh_call_queue(_visit: &Visit) -> Result<Encoded, Exception> {
    unsupported("refreshCallQueue is not supported: calls wait in no queue that could be set")
}

pub(crate) async fn refresh(_visit: &Visit) -> Result<Encoded, Exception> {
    unsupported("refresh is not supported: nothing is registered here to be read again")
}

/// An empty list.
pub(crate) async fn list_properties(_visit: &Visit) -> Result<Encoded, Exception> {
    Ok(Encoded::EMPTY)
}

/// Also how far it is.
pub(crate) async fn reconfigure(_visit: &Visit) -> Result<Encoded, Exception> {
    unsupported("settings are read when a server starts: change its file and start it again")
}

fn unsupported(message: &str) -> Result<Encoded, Exception> {
    Err(Exception::new(UNSUPPORTED_OPERATION, message))
}
