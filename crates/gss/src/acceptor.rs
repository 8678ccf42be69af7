//! A server's end of RPC: one exchange with each client.

use crate::boundary::{bounded, text_of};
use crate::c::Context;
use crate::error::{Error, Reason, failed};
use crate::key::{AcceptorSettings, Key};
use crate::sealer::{Agreed, Sealer};
use crate::trouble::During;
use io::LogLimit;
use security::sasl::digest::Qop;
use security::sasl::rpc::{self, GssLayerOffer, GssOutcome, KerberosOffer, Protector};
use std::sync::Arc;
use std::time::Duration;

/// The key by which clients' tickets are opened. The library reads the keytab anew for each client, so keys may change
/// in it at any time. Clones are the same one, and threads use it together.
#[derive(Clone, Debug)]
pub struct Acceptor(Arc<Key>);

impl Acceptor {
    /// Refused if the keytab has no key of this principal now.
    pub fn open(settings: &AcceptorSettings) -> Result<Self, Error> {
        Key::open(settings).map(|key| Self(Arc::new(key)))
    }

    /// One connection's exchange, which may agree on one of `qops`.
    pub fn begin(&self, qops: &[Qop]) -> Accepting {
        let context = Context::new(self.0.library);
        Accepting { key: Arc::clone(&self.0), offer: GssLayerOffer::new(qops), state: State::Proving { context } }
    }
}

/// A client's exchange, as RFC 4752 has it, and then what seals its connection. Both directions are in it, so whoever
/// has two threads for them puts it behind a lock.
///
/// ```text
/// client ── ticket and proof ─────────────▶         Proving
///        ◀── proof of the server ──────────         Proven, left out if the client did not ask for it
///        ── nothing ──────────────────────▶
///        ◀── sealed: what may be chosen ───         Offered
///        ── sealed: what is chosen ───────▶         Agreed
/// ```
#[derive(Debug)]
pub struct Accepting {
    key: Arc<Key>,
    offer: GssLayerOffer,
    state: State,
}

#[derive(Debug)]
enum State {
    Proving { context: Context },
    Proven { context: Context, name: String },
    Offered { context: Context, name: String },
    Agreed(Agreed),
    Over,
}

impl Accepting {
    /// Takes one token. After an error every other call is one.
    pub fn step(&mut self, token: &[u8]) -> Result<GssOutcome, Error> {
        let key = Arc::clone(&self.key);
        let doing = &key.doing;
        let token = bounded(doing, token)?;
        match std::mem::replace(&mut self.state, State::Over) {
            State::Proving { mut context } => {
                let step = context.accept(&key.credential, token).map_err(failed(During::Exchange, doing))?;
                match step.peer {
                    // Kerberos' acceptor never waits without a word, but for tokens of a kind that it does not know.
                    None if step.token.is_empty() => Err(Error::exchange(doing, Reason::Token)),
                    None => {
                        self.state = State::Proving { context };
                        Ok(GssOutcome::Continue(step.token))
                    }
                    Some(peer) if step.token.is_empty() => self.offer(context, text_of(doing, &peer)?),
                    Some(peer) => {
                        self.state = State::Proven { context, name: text_of(doing, &peer)? };
                        Ok(GssOutcome::Continue(step.token))
                    }
                }
            }
            State::Proven { context, name } if token.is_empty() => self.offer(context, name),
            State::Proven { .. } => Err(Error::exchange(doing, Reason::Surplus)),
            State::Offered { mut context, name } => {
                let mut said = Vec::new();
                context.unwrap(token, &mut said).map_err(failed(During::Message, doing))?;
                let choice = self.offer.chosen(&said).map_err(|error| Error::exchange(doing, error))?;
                let qop = choice.qop;
                self.state = State::Agreed(Agreed::new(context, qop, choice.message_len_max, doing)?);
                Ok(GssOutcome::Done { token: None, name, qop, acting_as: choice.acting_as })
            }
            State::Agreed(_) | State::Over => Err(Error::exchange(doing, Reason::Over)),
        }
    }

    fn offer(&mut self, mut context: Context, name: String) -> Result<GssOutcome, Error> {
        let mut sealed = Vec::new();
        // The offer is protected against change, and no secret.
        context.wrap(false, &self.offer.encode(), &mut sealed).map_err(failed(During::Message, &self.key.doing))?;
        self.state = State::Offered { context, name };
        Ok(GssOutcome::Continue(sealed))
    }

    /// Seconds until the client's ticket ends, once there is an agreement. A connection may go on beyond that.
    pub fn seconds_left(&mut self) -> Option<u32> {
        match &mut self.state {
            State::Agreed(agreed) => Some(agreed.seconds_left()),
            _ => None,
        }
    }

    pub(crate) fn sealer(&mut self) -> Result<&mut Sealer, Error> {
        let sealer = match &mut self.state {
            State::Agreed(agreed) => agreed.sealer(),
            _ => None,
        };
        sealer.ok_or_else(|| Error::exchange(&self.key.doing, Reason::Unsealed))
    }

    /// The longest piece whose sealed form the peer has said that it takes at once.
    pub fn piece_len_max(&mut self) -> Result<usize, Error> {
        self.sealer().map(|sealer| sealer.piece_len_max())
    }

    /// Appends the sealed form of a piece.
    pub fn wrap(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        self.sealer()?.wrap(piece, out)
    }

    /// Appends the piece that `sealed` is. One that comes twice, late or early is refused.
    pub fn unwrap(&mut self, sealed: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        self.sealer()?.unwrap(sealed, out)
    }
}

impl Protector for Accepting {
    fn wrap(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        Self::wrap(self, piece, out).map_err(|error| error.to_string())
    }

    fn unwrap(&mut self, sealed: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        Self::unwrap(self, sealed, out).map_err(|error| error.to_string())
    }
}

impl rpc::Acceptor for Acceptor {
    fn begin(&self, offer: &KerberosOffer) -> Result<Box<dyn rpc::Accepting>, String> {
        Ok(Box::new(Self::begin(self, &offer.qops)))
    }
}

/// Failures, which strangers can cause as often as they like.
static REFUSED: LogLimit = LogLimit::new(Duration::from_secs(1));

impl rpc::Accepting for Accepting {
    /// A failure is told by its kind; all else of it is for the log.
    fn step(&mut self, token: &[u8]) -> Result<GssOutcome, String> {
        Self::step(self, token).map_err(|error| {
            if let Some(passed_over) = REFUSED.due() {
                tracing::warn!(%error, passed_over, "Kerberos login failed");
            }
            error.told()
        })
    }
}
