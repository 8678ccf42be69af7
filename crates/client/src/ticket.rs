//! The ticket of Kerberos that the user of this process has.

use gss::{Initiator, Tickets};
use security::kerberos_name::KerberosName;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Where the ticket is, by the library's name for it.
const VARIABLE: &str = "KRB5CCNAME";

#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    pub(crate) initiator: Arc<Initiator>,
    /// The short name that it is for, by the rule of Hadoop that needs no settings.
    user: String,
}

impl Ticket {
    /// Looked for once. The library is loaded only where a ticket may be. Waits for the disk.
    pub(crate) fn of_environment() -> Option<Self> {
        static FOUND: OnceLock<Option<Ticket>> = OnceLock::new();
        FOUND.get_or_init(Self::find).clone()
    }

    /// The short name of who has the ticket.
    pub(crate) fn user() -> Option<String> {
        Self::of_environment().map(|ticket| ticket.user)
    }

    fn find() -> Option<Self> {
        let named = std::env::var_os(VARIABLE).is_some_and(|cache| !cache.is_empty());
        if !named && !default_cache().is_some_and(|cache| cache.exists()) {
            return None;
        }
        let found =
            Initiator::new(Tickets::DefaultCache, None).and_then(|initiator| Ok((initiator.login()?, initiator)));
        match found {
            Ok((login, initiator)) => {
                let user = KerberosName::parse(&login.name).map(|name| name.service).ok()?;
                Some(Self { initiator: Arc::new(initiator), user })
            }
            Err(error) => {
                tracing::debug!(%error, "no ticket of Kerberos is used");
                None
            }
        }
    }
}

/// Where `kinit` leaves it unless it is told otherwise. `None`: the user's number is not known.
fn default_cache() -> Option<PathBuf> {
    let process = std::fs::metadata("/proc/self").ok()?;
    Some(PathBuf::from(format!("/tmp/krb5cc_{}", process.uid())))
}

/// The user of this process, as whom metadata servers know the holder of its ticket; `None`: it has none.
pub fn ticket_user() -> Option<String> {
    Ticket::user()
}
