//! How connections to datanodes are protected: as the store asks for it.

use io::TaskGroup;
use io::request_connections::{Prepare, Preparing};
use sasl::{Secret, Uncounted};
use security::sasl::digest::{Protection, Qop};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpStream;
use wire::Status;
use xfer::fault::Fault;
use xfer::small::OutgoingRequest;

/// What the store's metadata server said last. Clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct DataProtection {
    qop: Arc<Mutex<Option<Qop>>>,
    tasks: TaskGroup,
}

impl DataProtection {
    pub(crate) fn new(tasks: TaskGroup) -> Self {
        Self { qop: Arc::default(), tasks }
    }

    /// `words`: of HDFS's `dfs.data.transfer.protection`, the best first. One that is not known here is taken for the
    /// best: what the store asks for is agreed on or refused, and never less.
    pub(crate) fn learn(&self, words: &[String]) {
        let first = words.first().map(|word| Qop::parse_setting(word).unwrap_or(Qop::Privacy));
        *self.qop.lock().unwrap_or_else(PoisonError::into_inner) = first;
    }

    pub(crate) async fn protect(&self, socket: TcpStream, secret: Secret<'_>) -> std::io::Result<TcpStream> {
        let qop = *self.qop.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(qop) = qop else { return Ok(socket) };
        let held = [(); 2].map(|()| Uncounted::default());
        sasl::connect(socket, secret, Protection::of(&[qop]), held).await?.pumped(Some(&self.tasks))
    }
}

/// Small writes share a connection: the first one's token opens it for all.
impl Prepare<OutgoingRequest> for DataProtection {
    fn prepare<'a>(&'a self, socket: TcpStream, first: &'a OutgoingRequest) -> Preparing<'a> {
        let (identifier, password) = (&first.header.token, &first.header.password);
        Box::pin(self.protect(socket, Secret { identifier, password }))
    }
}

/// Why there is no connection. A token that does not count is no fault of the way to the node.
pub(crate) fn not_connected(error: &std::io::Error) -> Fault {
    if sasl::is_of_secret(error) {
        return Fault::Refused { status: Status::ERROR_ACCESS_TOKEN, message: error.to_string() };
    }
    Fault::NoConnection(error.to_string())
}
