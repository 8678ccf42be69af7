//! How connections to datanodes are protected: as the store asks for it.
//!
//! | what the metadata server says | what is proven to datanodes | and agreed on |
//! |---|---|---|
//! | ours: the protection that it asks for | the block token | that; privacy is AES |
//! | HDFS: data is encrypted | a key that the server gives out | privacy, by AES where it knows it |
//! | HDFS: nothing, and it asked who calls | the block token | the best that the datanode offers |
//! | anything else | nothing | nothing |
//!
//! An HDFS does not say what `dfs.data.transfer.protection` is there: stock clients have it in their configuration. But
//! where it asks who calls, its datanodes have to listen below port 1024, or to shake hands. Whoever sits in between
//! may shorten what a datanode offers.

use crate::encryption_key::EncryptionKey;
use hdfs::proto::FsServerDefaultsProto;
use io::TaskGroup;
use io::request_connections::{Prepare, Preparing};
use sasl::{HdfsSecret, Secret, Uncounted};
use security::sasl::digest::{Protection, Qop};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::TcpStream;
use types::Millis;
use wire::Status;
use xfer::fault::Fault;
use xfer::small::OutgoingRequest;

/// Ports below are only root's, and whoever listens there need not prove anything to HDFS's clients.
const FREE_PORT_MIN: u16 = 1024;

/// What each of the store's metadata servers said last; the most that one of them asks for counts, as the settings of
/// one may be older. Clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct DataProtection {
    state: Arc<Mutex<State>>,
    tasks: TaskGroup,
}

#[derive(Debug, Default)]
struct State {
    /// By the server's address.
    asks: BTreeMap<String, Asks>,
    key: Option<Arc<EncryptionKey>>,
}

/// From the least to the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Asks {
    #[default]
    Nothing,
    /// HDFS, for what its datanodes say.
    Hdfs,
    /// HDFS, for a key that it gives out.
    EncryptionKey,
    /// A server of ours, for this protection.
    Ours(Qop),
}

impl Asks {
    /// A word that is not known here is taken for the best: what the store asks for is agreed on or refused, and never
    /// less.
    fn of(defaults: &FsServerDefaultsProto, is_proven: bool) -> Self {
        let is_ours = defaults.abilities.is_some();
        match defaults.data_transfer_protection.first() {
            Some(word) => Self::Ours(Qop::parse_setting(word).unwrap_or(Qop::Privacy)),
            None if is_ours => Self::Nothing,
            None if defaults.encrypt_data_transfer.unwrap_or(false) => Self::EncryptionKey,
            None if is_proven => Self::Hdfs,
            None => Self::Nothing,
        }
    }
}

impl DataProtection {
    pub(crate) fn new(tasks: TaskGroup) -> Self {
        Self { state: Arc::default(), tasks }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `is_proven`: the server asked who calls, and got a proof.
    pub(crate) fn learn(&self, server: &str, defaults: &FsServerDefaultsProto, is_proven: bool) {
        self.state().asks.insert(server.to_owned(), Asks::of(defaults, is_proven));
    }

    fn asks(&self) -> Asks {
        self.state().asks.values().copied().max().unwrap_or_default()
    }

    /// Whether [`Self::protect`] needs a key.
    pub(crate) fn needs_key(&self) -> bool {
        self.asks() == Asks::EncryptionKey
    }

    /// The last one, while it counts.
    pub(crate) fn key(&self, now: Millis) -> Option<Arc<EncryptionKey>> {
        self.state().key.clone().filter(|key| now < key.expires)
    }

    pub(crate) fn keep(&self, key: EncryptionKey) -> Arc<EncryptionKey> {
        Arc::clone(self.state().key.insert(Arc::new(key)))
    }

    /// A datanode refused it.
    pub(crate) fn forget(&self, key: &Arc<EncryptionKey>) {
        let mut state = self.state();
        if state.key.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, key)) {
            state.key = None;
        }
    }

    /// `port`: the datanode's own, which is not that of the connection where a gateway leads there. `key`: if one is
    /// needed.
    pub(crate) async fn protect(
        &self,
        socket: TcpStream,
        port: u16,
        secret: Secret<'_>,
        key: Option<&EncryptionKey>,
    ) -> std::io::Result<TcpStream> {
        let held = [(); 2].map(|()| Uncounted::default());
        let protected = match (self.asks(), key) {
            (Asks::Nothing, _) => return Ok(socket),
            (Asks::Hdfs, _) if port < FREE_PORT_MIN => return Ok(socket),
            (Asks::Ours(qop), _) => sasl::connect(socket, secret, Protection::of(&[qop]), held).await?,
            (Asks::Hdfs, _) => {
                let secret = HdfsSecret::Token(secret);
                sasl::connect_to_hdfs(socket, secret, Protection::of(&Qop::ALL), held).await?
            }
            (Asks::EncryptionKey, Some(key)) => {
                sasl::connect_to_hdfs(socket, key.secret(), key.protection(), held).await?
            }
            (Asks::EncryptionKey, None) => {
                let why = "the metadata server says that data is encrypted, and gave out no key for that";
                return Err(std::io::Error::other(why));
            }
        };
        protected.pumped(Some(&self.tasks))
    }
}

/// Small writes share a connection: the first one's token opens it for all. They are for servers of ours.
impl Prepare<OutgoingRequest> for DataProtection {
    fn prepare<'a>(&'a self, socket: TcpStream, first: &'a OutgoingRequest) -> Preparing<'a> {
        let (identifier, password) = (&first.header.token, &first.header.password);
        // Only servers of ours take small writes, and their ports prove nothing.
        Box::pin(self.protect(socket, FREE_PORT_MIN, Secret { identifier, password }, None))
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

    fn asks(words: &[&str], encrypts: Option<bool>, abilities: Option<u64>, is_proven: bool) -> Asks {
        let defaults = FsServerDefaultsProto {
            data_transfer_protection: words.iter().map(|word| (*word).to_owned()).collect(),
            encrypt_data_transfer: encrypts,
            abilities,
            ..FsServerDefaultsProto::default()
        };
        Asks::of(&defaults, is_proven)
    }

    #[test]
    fn what_is_asked_follows_from_what_the_server_says() {
        assert_eq!(asks(&["integrity", "privacy"], Some(false), Some(1), true), Asks::Ours(Qop::Integrity));
        assert_eq!(asks(&["privacy"], Some(true), Some(1), true), Asks::Ours(Qop::Privacy));
        assert_eq!(asks(&["quantum"], Some(false), Some(1), true), Asks::Ours(Qop::Privacy), "never less");
        assert_eq!(asks(&[], Some(false), Some(0), true), Asks::Nothing);
        // HDFS's.
        assert_eq!(asks(&[], Some(true), None, false), Asks::EncryptionKey);
        assert_eq!(asks(&[], Some(false), None, true), Asks::Hdfs);
        assert_eq!(asks(&[], None, None, false), Asks::Nothing);
    }

    /// Servers of a group whose settings are changed one after the other.
    #[test]
    fn the_most_that_a_server_asks_for_counts() {
        let protection = DataProtection::new(TaskGroup::default());
        let learn = |server: &str, words: &[&str]| {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            let abilities = Some(1);
            let defaults = FsServerDefaultsProto {
                data_transfer_protection: words,
                abilities,
                ..FsServerDefaultsProto::default()
            };
            protection.learn(server, &defaults, true);
            protection.asks()
        };
        assert_eq!(protection.asks(), Asks::Nothing);
        assert_eq!(learn("one:8020", &["privacy"]), Asks::Ours(Qop::Privacy));
        assert_eq!(learn("two:8020", &[]), Asks::Ours(Qop::Privacy));
        assert_eq!(learn("one:8020", &["integrity"]), Asks::Ours(Qop::Integrity));
        assert_eq!(learn("one:8020", &[]), Asks::Nothing);
    }
}
