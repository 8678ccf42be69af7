//! A web server's end: who sent a request, by the one token that comes with it (SPNEGO, RFC 4559).

use crate::boundary::{bounded, text_of};
use crate::c::Context;
use crate::error::{Error, Reason, failed};
use crate::key::{AcceptorSettings, Key};
use crate::trouble::During;
use io::LogLimit;
use security::negotiation::Offered;
use std::sync::Arc;
use std::time::Duration;

/// The key of `HTTP/HOST`. Clones are the same one, and threads use it together; as with [`Acceptor`](crate::Acceptor)
/// keys may change in the keytab at any time.
#[derive(Clone, Debug)]
pub struct Negotiator(Arc<Key>);

/// Who sent a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// With its realm.
    pub name: String,
    /// By this the server proves itself; empty if the client did not ask for it.
    pub answer: Vec<u8>,
}

/// Failures, which strangers can cause as often as they like.
static REFUSED: LogLimit = LogLimit::new(Duration::from_secs(1));

impl Negotiator {
    /// Refused if the keytab has no key of this principal now.
    pub fn open(settings: &AcceptorSettings) -> Result<Self, Error> {
        Key::open(settings).map(|key| Self(Arc::new(key)))
    }

    /// Takes a token of Kerberos, by itself or wrapped in a negotiation, as the JDK, browsers and curl send it. What
    /// asks for a second round is refused: no state is kept between requests.
    pub fn accept(&self, token: &[u8]) -> Result<Negotiated, Error> {
        let Key { library, credential, doing } = &*self.0;
        let offered = Offered::read(bounded(doing, token)?).map_err(|error| Error::exchange(doing, error))?;
        let mut context = Context::new(library);
        let step = context.accept(credential, offered.token).map_err(failed(During::Exchange, doing))?;
        let peer = step.peer.ok_or_else(|| Error::exchange(doing, Reason::Token))?;
        Ok(Negotiated { name: text_of(doing, &peer)?, answer: offered.answer(&step.token) })
    }

    /// As [`Self::accept`]; the log has what is wrong, and a peer hears its kind alone.
    pub fn accept_stranger(&self, token: &[u8]) -> Result<Negotiated, String> {
        self.accept(token).map_err(|error| {
            if let Some(passed_over) = REFUSED.due() {
                tracing::warn!(%error, passed_over, "Kerberos login over HTTP failed");
            }
            error.told()
        })
    }
}
