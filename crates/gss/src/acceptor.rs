//! A server's end: its key, and one exchange with a client.

use crate::c::{Context, Credential, Library, Name, NameKind, Usage};
use crate::error::{Error, Reason};
use crate::sealer::Sealer;
use crate::{bounded, file, setting, text_of};
use security::kerberos_name::KerberosName;
use security::sasl::digest::Qop;
use security::sasl::rpc::{GssLayerChoice, GssLayerOffer, GssOutcome};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct AcceptorSettings {
    /// As [`KerberosName::of_setting`] makes it of `nn/_HOST@REALM`.
    pub principal: KerberosName,
    pub keytab: PathBuf,
    /// Where the library keeps the proofs of the last minutes, to refuse them a second time; `None` is the system's
    /// place, one for all services of a user. There is always one: a client that asks for no mutual authentication, or
    /// for an old cipher, proves itself by what could be replayed.
    pub replay_cache: Option<PathBuf>,
}

/// The key by which clients' tickets are opened. The library reads the keytab anew for each client, so keys may change
/// in it at any time.
#[derive(Debug)]
pub struct Acceptor {
    library: &'static Library,
    credential: Credential,
    doing: String,
}

impl Acceptor {
    /// Refused if the keytab has no key of this principal now.
    pub fn open(settings: &AcceptorSettings) -> Result<Arc<Self>, Error> {
        let AcceptorSettings { principal, keytab, replay_cache } = settings;
        let library = Library::get()?;
        let opening = format!("open the keytab {} for {principal}", keytab.display());
        let name = Name::import(library, &principal.to_string(), NameKind::Principal)
            .map_err(|status| Error::kerberos(&opening, status))?;
        let mut store = vec![setting(&opening, "keytab", file(keytab))?];
        if let Some(path) = replay_cache {
            let cache = path.to_str().ok_or_else(|| Error::exchange(&opening, Reason::Name))?;
            store.push(setting(&opening, "rcache", format!("file2:{cache}"))?);
        }
        let credential = Credential::acquire(library, Some(&name), Usage::Accept, &store)
            .map_err(|status| Error::kerberos(&opening, status))?;
        Ok(Arc::new(Self { library, credential, doing: format!("Kerberos login of a client to {principal}") }))
    }

    /// One connection's exchange, which may agree on one of `qops`.
    pub fn begin(self: &Arc<Self>, qops: &[Qop]) -> Accepting {
        let context = Context::new(self.library);
        Accepting { acceptor: Arc::clone(self), offer: GssLayerOffer::new(qops), state: State::Proving { context } }
    }
}

/// A client's exchange, as RFC 4752 has it.
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
    acceptor: Arc<Acceptor>,
    offer: GssLayerOffer,
    state: State,
}

#[derive(Debug)]
enum State {
    Proving { context: Context },
    Proven { context: Context, name: String },
    Offered { context: Context, name: String },
    Agreed { context: Context, choice: GssLayerChoice },
    Over,
}

impl Accepting {
    /// Takes one token. After an error every other call is one.
    pub fn step(&mut self, token: &[u8]) -> Result<GssOutcome, Error> {
        let doing = &self.acceptor.doing;
        let token = bounded(doing, token)?;
        match std::mem::replace(&mut self.state, State::Over) {
            State::Proving { mut context } => {
                let step = context
                    .accept(&self.acceptor.credential, token)
                    .map_err(|status| Error::kerberos(doing, status))?;
                let Some(peer) = step.peer else {
                    self.state = State::Proving { context };
                    return Ok(GssOutcome::Continue(step.token));
                };
                let name = text_of(doing, &peer)?;
                if step.token.is_empty() {
                    return self.offer(context, name);
                }
                self.state = State::Proven { context, name };
                Ok(GssOutcome::Continue(step.token))
            }
            State::Proven { context, name } if token.is_empty() => self.offer(context, name),
            State::Proven { .. } => Err(Error::exchange(doing, Reason::Surplus)),
            State::Offered { mut context, name } => {
                let mut said = Vec::new();
                context.unwrap(token, &mut said).map_err(|status| Error::kerberos(doing, status))?;
                let choice = self.offer.chosen(&said).map_err(|error| Error::exchange(doing, error))?;
                let done = GssOutcome::Done { token: None, name, qop: choice.qop, acting_as: choice.acting_as.clone() };
                self.state = State::Agreed { context, choice };
                Ok(done)
            }
            State::Agreed { .. } | State::Over => Err(Error::exchange(doing, Reason::Over)),
        }
    }

    fn offer(&mut self, mut context: Context, name: String) -> Result<GssOutcome, Error> {
        let mut sealed = Vec::new();
        // The offer is protected against change, and no secret.
        context
            .wrap(false, &self.offer.encode(), &mut sealed)
            .map_err(|status| Error::kerberos(&self.acceptor.doing, status))?;
        self.state = State::Offered { context, name };
        Ok(GssOutcome::Continue(sealed))
    }

    /// Seconds until the client's ticket ends, once there is an agreement. A connection may go on beyond that.
    pub fn seconds_left(&mut self) -> Option<u32> {
        match &mut self.state {
            State::Agreed { context, .. } => Some(context.seconds_left().unwrap_or(0)),
            _ => None,
        }
    }

    /// What seals the connection from now on; `None` where authentication alone was agreed on.
    pub fn into_sealer(self) -> Result<Option<Sealer>, Error> {
        let doing = self.acceptor.doing.clone();
        match self.state {
            State::Agreed { context, choice } => Sealer::new(context, choice.qop, choice.message_len_max, doing),
            _ => Err(Error::exchange(doing, Reason::Over)),
        }
    }
}
