//! A client's end: its tickets, and one exchange with a server.

use crate::boundary::{bounded, file, setting, text_of};
use crate::c::{Context, Credential, Library, Name, NameKind, Usage};
use crate::error::{Error, Reason, failed};
use crate::sealer::{Agreed, Sealer};
use crate::trouble::{During, Trouble};
use security::kerberos_name::KerberosName;
use security::sasl::digest::Qop;
use security::sasl::rpc::{self, ClientGss, GssLayerOffer, Protector};
use std::path::PathBuf;

/// Where a client's tickets come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tickets {
    /// As `kinit` left them: `KRB5CCNAME`, or what krb5.conf says.
    DefaultCache,
    /// A cache by the library's name for it, as `FILE:/path` or `KCM:`.
    Cache(String),
    /// By a key. Tickets are kept in the memory of this process, for all that name the same; the library gets new ones
    /// at half of their life.
    Keytab { principal: KerberosName, keytab: PathBuf },
}

#[derive(Clone, Debug)]
pub struct Initiator {
    library: &'static Library,
    tickets: Tickets,
    realm: Option<String>,
}

/// Who a client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// With its realm.
    pub name: String,
    /// Until the tickets end.
    pub seconds_left: u32,
}

impl Initiator {
    /// For servers of `realm`. Without one the KDC of the tickets says of which realm a server is; where it does not
    /// know the server, the library looks up realm and name of its host, as krb5.conf says. No ticket is looked for
    /// yet.
    pub fn new(tickets: Tickets, realm: Option<String>) -> Result<Self, Error> {
        Ok(Self { library: Library::get()?, tickets, realm })
    }

    /// The same tickets, for servers of `realm`.
    pub fn for_realm(&self, realm: Option<String>) -> Self {
        Self { realm, ..self.clone() }
    }

    /// Who the tickets are for. Logs in by the keytab where there is one.
    pub fn login(&self) -> Result<Login, Error> {
        let doing = self.doing();
        let credential = self.credential(&doing)?;
        let (name, seconds_left) = credential.inquire().map_err(failed(self.during(), &doing))?;
        Ok(Login { name: text_of(&doing, &name)?, seconds_left })
    }

    fn doing(&self) -> String {
        match &self.tickets {
            Tickets::DefaultCache => "Kerberos login by the default ticket cache".into(),
            Tickets::Cache(cache) => format!("Kerberos login by the ticket cache {cache}"),
            Tickets::Keytab { principal, keytab } => {
                format!("Kerberos login of {principal} by the keytab {}", keytab.display())
            }
        }
    }

    fn during(&self) -> During {
        match self.tickets {
            Tickets::Keytab { .. } => During::Keytab,
            Tickets::DefaultCache | Tickets::Cache(_) => During::Tickets,
        }
    }

    fn credential(&self, doing: &str) -> Result<Credential, Error> {
        let mut name = None;
        let store = match &self.tickets {
            Tickets::DefaultCache => Vec::new(),
            Tickets::Cache(cache) => vec![setting(doing, "ccache", cache.as_str())?],
            Tickets::Keytab { principal, keytab } => {
                let principal = principal.to_string();
                let imported = Name::import(self.library, &principal, NameKind::Principal);
                name = Some(imported.map_err(failed(During::Keytab, doing))?);
                let cache = [format!("MEMORY:levada {principal} ").as_bytes(), &file(keytab)].concat();
                vec![setting(doing, "client_keytab", file(keytab))?, setting(doing, "ccache", cache)?]
            }
        };
        Credential::acquire(self.library, name.as_ref(), Usage::Initiate, &store).map_err(failed(self.during(), doing))
    }

    /// One connection's exchange with `service/host`, which may agree on one of `qops`, the best first. The server is
    /// taken by this name, as Java's clients do: were its host looked up first (`dns_canonicalize_hostname` and `rdns`
    /// of krb5.conf, which are on by default), the ticket would be for whatever name DNS has for that address.
    pub fn begin(&self, service: &str, host: &str, qops: &[Qop]) -> Result<Initiating, Error> {
        let doing = format!("Kerberos login to {service}/{host}");
        let import =
            |name: &str, kind| Name::import(self.library, name, kind).map_err(failed(During::Exchange, &doing));
        // Of an empty realm the KDC is asked.
        let realm = self.realm.as_deref().unwrap_or_default();
        let target = import(&format!("{service}/{host}@{realm}"), NameKind::Principal)?;
        let looked_up = match self.realm {
            Some(_) => None,
            None => Some(import(&format!("{service}@{host}"), NameKind::HostBased)?),
        };
        let credential = self.credential(&self.doing())?;
        let state = State::Proving { context: Context::new(self.library), looked_up };
        Ok(Initiating { library: self.library, credential, target, qops: qops.to_vec(), doing, state })
    }
}

/// A server's exchange: the other side of [`crate::Accepting`].
#[derive(Debug)]
pub struct Initiating {
    library: &'static Library,
    credential: Credential,
    target: Name,
    qops: Vec<Qop>,
    doing: String,
    state: State,
}

#[derive(Debug)]
enum State {
    Proving {
        context: Context,
        /// By which name to try again if the KDC does not know the server by its own, as it is of a realm that
        /// [domain_realm] of krb5.conf has, or is called by an alias of DNS.
        looked_up: Option<Name>,
    },
    /// Both have proven themselves; the server's offer comes.
    Proven {
        context: Context,
    },
    Agreed(Agreed),
    Over,
}

impl Initiating {
    /// Begins with no token, and takes the server's from then on. After an error every other call is one.
    pub fn step(&mut self, token: Option<&[u8]>) -> Result<ClientGss, Error> {
        let doing = &self.doing;
        let token = token.map(|token| bounded(doing, token)).transpose()?;
        match std::mem::replace(&mut self.state, State::Over) {
            State::Proving { mut context, looked_up } => {
                let begun = context.init(&self.credential, &self.target, token);
                let step = match (begun.map_err(failed(During::Exchange, doing)), looked_up) {
                    (Err(error), Some(looked_up)) if is_unknown(&error) => {
                        context = Context::new(self.library);
                        self.target = looked_up;
                        // The first error names the server as the user did.
                        context.init(&self.credential, &self.target, token).map_err(|_| error)?
                    }
                    (step, _) => step?,
                };
                if !step.is_complete {
                    self.state = State::Proving { context, looked_up: None };
                    return Ok(ClientGss::Continue(Some(step.token)));
                }
                if !step.flags.is_mutual() {
                    return Err(Error::exchange(doing, Reason::NotMutual));
                }
                self.state = State::Proven { context };
                // Nothing is left to say, and the server waits for that.
                Ok(ClientGss::Continue(Some(step.token)))
            }
            State::Proven { mut context } => {
                let mut said = Vec::new();
                context.unwrap(token.unwrap_or_default(), &mut said).map_err(failed(During::Message, doing))?;
                let offer = GssLayerOffer::parse(&said).map_err(|error| Error::exchange(doing, error))?;
                let choice = offer.choose(&self.qops).map_err(|error| Error::exchange(doing, error))?;
                let mut sealed = Vec::new();
                context.wrap(false, &choice.encode(), &mut sealed).map_err(failed(During::Exchange, doing))?;
                let qop = choice.qop;
                self.state = State::Agreed(Agreed::new(context, qop, offer.message_len_max, doing)?);
                Ok(ClientGss::Complete { token: Some(sealed), qop })
            }
            State::Agreed(_) | State::Over => Err(Error::exchange(doing, Reason::Over)),
        }
    }

    pub(crate) fn sealer(&mut self) -> Result<&mut Sealer, Error> {
        let sealer = match &mut self.state {
            State::Agreed(agreed) => agreed.sealer(),
            _ => None,
        };
        sealer.ok_or_else(|| Error::exchange(&self.doing, Reason::Unsealed))
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

/// Whether another name of the server may be known.
fn is_unknown(error: &Error) -> bool {
    matches!(error.trouble(), Some(Trouble::UnknownServer | Trouble::CrossRealm))
}

impl Protector for Initiating {
    fn wrap(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        Self::wrap(self, piece, out).map_err(|error| error.to_string())
    }

    fn unwrap(&mut self, sealed: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        Self::unwrap(self, sealed, out).map_err(|error| error.to_string())
    }
}

impl rpc::Initiator for Initiator {
    fn begin(&self, (service, host): &(String, String), qops: &[Qop]) -> Result<Box<dyn rpc::Initiating>, String> {
        match Self::begin(self, service, host, qops) {
            Ok(initiating) => Ok(Box::new(initiating)),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl rpc::Initiating for Initiating {
    fn step(&mut self, token: Option<&[u8]>) -> Result<ClientGss, String> {
        Self::step(self, token).map_err(|error| error.to_string())
    }
}
