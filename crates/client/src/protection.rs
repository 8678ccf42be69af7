//! How connections to datanodes are protected: as the store asks for it.

use io::TaskGroup;
use io::request_connections::{Prepare, Preparing};
use sasl::{Secret, Uncounted};
use security::sasl::digest::{Protection, Qop};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::TcpStream;
use wire::Status;
use xfer::fault::Fault;
use xfer::small::OutgoingRequest;

/// What each of the store's metadata servers said last; the most that one of them asks for counts, as the settings of
/// one may be older. Clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct DataProtection {
    qops: Arc<Mutex<BTreeMap<String, Option<Qop>>>>,
    tasks: TaskGroup,
}

impl DataProtection {
    pub(crate) fn new(tasks: TaskGroup) -> Self {
        Self { qops: Arc::default(), tasks }
    }

    /// `words`: of HDFS's `dfs.data.transfer.protection`, the best first. One that is not known here is taken for the
    /// best: what the store asks for is agreed on or refused, and never less.
    pub(crate) fn learn(&self, server: &str, words: &[String]) {
        let first = words.first().map(|word| Qop::parse_setting(word).unwrap_or(Qop::Privacy));
        self.lock().insert(server.to_owned(), first);
    }

    fn wanted(&self) -> Option<Qop> {
        self.lock().values().copied().max().flatten()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Option<Qop>>> {
        self.qops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn protect(&self, socket: TcpStream, secret: Secret<'_>) -> std::io::Result<TcpStream> {
        let Some(qop) = self.wanted() else { return Ok(socket) };
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Servers of a group whose settings are changed one after the other.
    #[test]
    fn the_most_that_a_server_asks_for_counts() {
        let protection = DataProtection::new(TaskGroup::default());
        let learn = |server: &str, word: &str| protection.learn(server, &[word.to_owned()]);
        assert_eq!(protection.wanted(), None);
        learn("one:8020", "privacy");
        protection.learn("two:8020", &[]);
        assert_eq!(protection.wanted(), Some(Qop::Privacy));
        learn("one:8020", "integrity");
        assert_eq!(protection.wanted(), Some(Qop::Integrity));
        protection.learn("one:8020", &[]);
        assert_eq!(protection.wanted(), None);
        learn("two:8020", "a word of a later version");
        assert_eq!(protection.wanted(), Some(Qop::Privacy));
    }
}
