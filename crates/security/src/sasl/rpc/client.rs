//! The client's end.

use super::message::message;
use super::sealing::Sealing;
use crate::method::Method;
use crate::sasl::digest::{self, DigestError, NONCE_LEN, Protection, Qop, Responded, Service};
use base64ct::{Base64, Encoding};
use bytes::Bytes;
use hdfs::proto::rpc_sasl_proto::SaslAuth;
use hdfs::proto::{RpcSaslProto, SaslState};
use std::fmt;

/// Offers of a server that are looked at. Hadoop's has three.
const OFFER_COUNT_MAX: usize = 16;
/// As the server's.
const GSS_ROUND_COUNT_MAX: u32 = 8;

/// What a client can prove.
#[derive(Clone, Debug)]
pub struct Credentials {
    pub token: Option<TokenCredentials>,
    pub kerberos: Option<KerberosCredentials>,
    /// Whether to go on where the server wants no proof: it may be anybody.
    pub simple: bool,
}

/// A ticket, which is the library's.
#[derive(Clone, Debug)]
pub struct KerberosCredentials {
    /// The names that the server may have: service and host.
    pub servers: Vec<(String, String)>,
    /// How what follows may be protected.
    pub qops: Vec<Qop>,
}

/// A token, as it came with its identifier and password.
#[derive(Clone)]
pub struct TokenCredentials {
    pub identifier: Bytes,
    pub password: Bytes,
    /// How what follows may be protected.
    pub protection: Protection,
}

impl fmt::Debug for TokenCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenCredentials({} bytes)", self.identifier.len())
    }
}

/// Why there is no connection. What the server refused comes as its exception, not through here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    #[error(
        "the server offers {offered}, of which this client can use nothing: for KERBEROS it needs {needs}; for TOKEN \
             a delegation token"
    )]
    NothingInCommon { offered: String, needs: String },
    #[error("the server asks to go on without a proof, and this client's settings do not allow it")]
    Downgrade,
    #[error("the server did not prove that it knows the token")]
    ServerUnproven,
    #[error("the server sent SASL state {state} where it must not")]
    State { state: i32 },
    #[error(transparent)]
    Digest(#[from] DigestError),
    #[error("Kerberos: {0}")]
    Gss(String),
    #[error("Kerberos: no common protection layer between client and server")]
    Protection,
    #[error("the exchange is over")]
    Over,
}

/// What to do with a message.
#[derive(Debug)]
pub enum Asking {
    Send(RpcSaslProto),
    /// The caller is believed: the context follows at once, behind `send` if there is one.
    Simple {
        send: Option<RpcSaslProto>,
    },
    /// For Kerberos' library, whose token goes to [`Client::on_gss`]. `None`: it begins, to prove itself to `server`.
    Gss {
        server: (String, String),
        token: Option<Bytes>,
    },
    /// The exchange is over, and the server is who it should be.
    Done {
        sealing: Sealing,
    },
}

/// What Kerberos' library made of a token.
#[derive(Debug)]
pub enum ClientGss {
    /// It wants to hear more.
    Continue(Option<Vec<u8>>),
    /// The server is who it should be, and what follows is to be protected so. `None`: there is nothing to say any
    /// more.
    Complete { token: Option<Vec<u8>>, qop: Qop },
}

/// One connection's exchange.
#[derive(Debug)]
pub struct Client {
    credentials: Credentials,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Nobody said anything, but for our NEGOTIATE.
    Asked {
        cnonce: String,
    },
    Token(Responded),
    Gss(Gss),
    Over,
}

#[derive(Debug)]
struct Gss {
    server: (String, String),
    /// The chosen offer, as long as nothing was sent.
    initiates: Option<SaslAuth>,
    round_count: u32,
    /// The library needs to hear no more: the server is who it should be, and what follows is protected so.
    agreed: Option<Qop>,
    /// The server said SUCCESS: the library must be content with its last token.
    is_last: bool,
}

impl Client {
    /// `nonce` must never have served before. What is sent first comes with it.
    pub fn new(credentials: Credentials, nonce: [u8; NONCE_LEN]) -> (Self, RpcSaslProto) {
        Self::with_nonce(credentials, Base64::encode_string(&nonce))
    }

    pub(super) fn with_nonce(credentials: Credentials, cnonce: String) -> (Self, RpcSaslProto) {
        (Self { credentials, state: State::Asked { cnonce } }, message(SaslState::Negotiate, None))
    }

    /// Carries one message to its end. An error ends the connection.
    pub fn on_message(&mut self, said: &RpcSaslProto) -> Result<Asking, ClientError> {
        let state = std::mem::replace(&mut self.state, State::Over);
        let wrong = ClientError::State { state: said.state };
        match (state, SaslState::try_from(said.state).map_err(|_| wrong.clone())?) {
            (State::Asked { cnonce }, SaslState::Negotiate) => self.choose(&said.auths, &cnonce),
            (State::Asked { .. }, SaslState::Success) if !self.credentials.simple => Err(ClientError::Downgrade),
            (State::Asked { .. }, SaslState::Success) => Ok(Asking::Simple { send: None }),
            (State::Token(responded), SaslState::Success) => {
                let token = said.token.as_ref().ok_or(ClientError::ServerUnproven)?;
                let layer = responded.finish(token).map_err(|_| ClientError::ServerUnproven)?;
                Ok(Asking::Done { sealing: Sealing::of_layer(layer) })
            }
            (State::Gss(gss), SaslState::Challenge) if gss.initiates.is_none() && !gss.is_last => {
                if gss.round_count == GSS_ROUND_COUNT_MAX {
                    return Err(ClientError::Gss(format!("no end after {GSS_ROUND_COUNT_MAX} messages")));
                }
                let server = gss.server.clone();
                self.state = State::Gss(Gss { round_count: gss.round_count + 1, ..gss });
                Ok(Asking::Gss { server, token: Some(said.token.clone().unwrap_or_default()) })
            }
            (State::Gss(gss), SaslState::Success) if gss.initiates.is_none() && !gss.is_last => match &said.token {
                Some(token) if !token.is_empty() => {
                    let server = gss.server.clone();
                    self.state = State::Gss(Gss { is_last: true, ..gss });
                    Ok(Asking::Gss { server, token: Some(token.clone()) })
                }
                // A server that ends early might be one that has no key.
                _ => {
                    let qop = gss.agreed.ok_or(ClientError::ServerUnproven)?;
                    Ok(Asking::Done { sealing: Sealing::of_library(qop) })
                }
            },
            _ => Err(wrong),
        }
    }

    /// What Kerberos' library makes of the token of [`Asking::Gss`].
    pub fn on_gss(&mut self, outcome: ClientGss) -> Result<Asking, ClientError> {
        let State::Gss(gss) = std::mem::replace(&mut self.state, State::Over) else { return Err(ClientError::Over) };
        let (token, agreed) = match outcome {
            ClientGss::Continue(token) => (token, None),
            ClientGss::Complete { token, qop } => (token, Some(qop)),
        };
        // A library may not look at it: a server that offers less would be followed.
        let accepts = |qop| self.credentials.kerberos.as_ref().is_some_and(|ticket| ticket.qops.contains(&qop));
        if !agreed.is_none_or(accepts) {
            return Err(ClientError::Protection);
        }
        if gss.is_last {
            let has_said_all = token.is_none_or(|token| token.is_empty());
            let qop = agreed.filter(|_| has_said_all).ok_or(ClientError::ServerUnproven)?;
            return Ok(Asking::Done { sealing: Sealing::of_library(qop) });
        }
        let mut gss = Gss { agreed, ..gss };
        let send = match gss.initiates.take() {
            Some(auth) => RpcSaslProto { auths: vec![auth], ..message(SaslState::Initiate, token) },
            None => message(SaslState::Response, Some(token.unwrap_or_default())),
        };
        self.state = State::Gss(gss);
        Ok(Asking::Send(send))
    }

    fn has_ticket_for(&self, server: &(String, String)) -> bool {
        self.credentials.kerberos.as_ref().is_some_and(|ticket| ticket.servers.contains(server))
    }

    /// The first offer that this client can use.
    fn choose(&mut self, offers: &[SaslAuth], cnonce: &str) -> Result<Asking, ClientError> {
        for offer in offers.iter().take(OFFER_COUNT_MAX) {
            let names = (offer.protocol.clone().unwrap_or_default(), offer.server_id.clone().unwrap_or_default());
            // The challenge is not repeated: Hadoop compares the rest.
            let auth = SaslAuth { challenge: None, ..offer.clone() };
            match (Method::of(offer), &self.credentials.token) {
                (Some(Method::Token), Some(token)) => {
                    let user = Base64::encode_string(&token.identifier);
                    let password = Base64::encode_string(&token.password).into_bytes();
                    let client = digest::Client::new(Service::RPC, token.protection.clone(), user, password)?;
                    let challenge = offer.challenge.as_deref().unwrap_or_default();
                    let (response, responded) = client.respond_with(challenge, cnonce)?;
                    self.state = State::Token(responded);
                    return Ok(Asking::Send(RpcSaslProto {
                        auths: vec![auth],
                        ..message(SaslState::Initiate, Some(response))
                    }));
                }
                (Some(Method::Kerberos), _) if self.has_ticket_for(&names) => {
                    self.state = State::Gss(Gss {
                        server: names.clone(),
                        initiates: Some(auth),
                        round_count: 0,
                        agreed: None,
                        is_last: false,
                    });
                    return Ok(Asking::Gss { server: names, token: None });
                }
                (Some(Method::Simple), _) if self.credentials.simple => {
                    let send = RpcSaslProto { auths: vec![auth], ..message(SaslState::Initiate, None) };
                    return Ok(Asking::Simple { send: Some(send) });
                }
                _ => {}
            }
        }
        let names: Vec<String> = offers.iter().take(OFFER_COUNT_MAX).map(offered).collect();
        let needs = match &self.credentials.kerberos {
            None => "a ticket (kinit)".to_owned(),
            Some(ticket) => {
                let servers: Vec<String> =
                    ticket.servers.iter().map(|(service, host)| format!("{service}/{host}")).collect();
                format!(
                    "a server that is {}: if this one has another name, set dfs.namenode.kerberos.principal in \
                     hdfs-site.xml of HADOOP_CONF_DIR; or ask for it by the host that is in its name",
                    servers.join(" or ")
                )
            }
        };
        Err(ClientError::NothingInCommon { offered: types::excerpt(&names.join(", ")), needs })
    }
}

/// With the name by which the server takes tickets.
fn offered(offer: &SaslAuth) -> String {
    match (Method::of(offer), &offer.protocol, &offer.server_id) {
        (Some(Method::Kerberos), Some(service), Some(host)) => format!("{} as {service}/{host}", offer.method),
        _ => offer.method.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::offers::{KerberosOffer, Offers};
    use super::super::server::{Caller, GssOutcome, Server, Step};
    use super::super::{unwrap, wrap};
    use super::*;
    use crate::delegation::Claim;
    use crate::sasl::digest::Qop;
    use crate::secret::Password;
    use proptest::prelude::*;

    fn offers() -> Offers {
        let (service, host) = ("nn".to_owned(), "host".to_owned());
        let kerberos = Some(KerberosOffer { service, host, qops: vec![Qop::Privacy] });
        Offers { token: Some(Protection::of(&[Qop::Privacy])), kerberos, simple: false }
    }

    fn token() -> TokenCredentials {
        let protection = Protection::of(&[Qop::Privacy]);
        let identifier = Bytes::from_static(b"\0\x03ada\0\0\0\x09\x01\x01");
        TokenCredentials { identifier, password: Bytes::from_static(&[3; 32]), protection }
    }

    fn none() -> Credentials {
        Credentials { token: None, kerberos: None, simple: false }
    }

    fn ticket(hosts: &[&str]) -> Option<KerberosCredentials> {
        let servers = hosts.iter().map(|host| ("nn".to_owned(), (*host).to_owned())).collect();
        Some(KerberosCredentials { servers, qops: vec![Qop::Privacy] })
    }

    fn complete(token: &[u8]) -> ClientGss {
        ClientGss::Complete { token: Some(token.to_vec()), qop: Qop::Privacy }
    }

    fn client(credentials: Credentials) -> (Client, RpcSaslProto) {
        Client::new(credentials, [9; NONCE_LEN])
    }

    fn server(offers: Offers) -> Server {
        Server::new(offers, [7; NONCE_LEN])
    }

    fn answer(server: &mut Server, said: &RpcSaslProto) -> Step {
        server.on_message(said, |bytes| Ok(Claim::recorded(bytes, Password::new([3; 32])))).unwrap()
    }

    fn offered(server: &mut Server, said: &RpcSaslProto) -> RpcSaslProto {
        let Step::Answer(answer) = answer(server, said) else { panic!("no offers") };
        answer
    }

    fn sent(asking: Result<Asking, ClientError>) -> RpcSaslProto {
        let Ok(Asking::Send(send)) = asking else { panic!("{asking:?}") };
        send
    }

    #[test]
    fn a_token_is_exchanged_and_calls_are_wrapped() {
        let (mut client, negotiate) = client(Credentials { token: Some(token()), ..none() });
        let mut server = server(offers());
        let initiate = sent(client.on_message(&offered(&mut server, &negotiate)));
        assert_eq!(initiate.auths[0].challenge, None);
        let Step::Accepted { answer, sealing, .. } = answer(&mut server, &initiate) else { panic!() };
        let Ok(Asking::Done { sealing: Sealing::Digest(mut ours) }) = client.on_message(&answer) else { panic!() };
        let Sealing::Digest(mut theirs) = sealing else { panic!() };
        let mut stream = Vec::new();
        for piece in [&b"a fra"[..], b"me, and the next"] {
            unwrap(&mut *theirs, &wrap(&mut *ours, piece).unwrap(), &mut stream).unwrap();
        }
        assert_eq!(stream, b"a frame, and the next");
        assert!(unwrap(&mut *theirs, &negotiate, &mut stream).is_err());
    }

    #[test]
    fn a_ticket_is_exchanged_by_the_library() {
        let kerberos = ticket(&["other", "host"]);
        let (mut client, negotiate) = client(Credentials { kerberos, ..none() });
        let mut server = server(offers());
        let asked = client.on_message(&offered(&mut server, &negotiate)).unwrap();
        assert!(matches!(asked, Asking::Gss { server, token: None } if server.1 == "host"));
        let initiate = sent(client.on_gss(ClientGss::Continue(Some(b"one".to_vec()))));
        assert!(matches!(answer(&mut server, &initiate), Step::Gss { .. }));
        let Ok(Step::Answer(challenge)) = server.on_gss(Ok(GssOutcome::Continue(b"two".to_vec()))) else { panic!() };
        assert!(matches!(client.on_message(&challenge), Ok(Asking::Gss { token: Some(token), .. }) if token == "two"));
        let response = sent(client.on_gss(complete(b"three")));
        assert!(matches!(answer(&mut server, &response), Step::Gss { .. }));
        let (name, acting_as) = ("ada@X".to_owned(), String::new());
        let done = GssOutcome::Done { token: None, name, qop: Qop::Privacy, acting_as };
        let Ok(Step::Accepted { answer, caller, .. }) = server.on_gss(Ok(done)) else { panic!() };
        assert_eq!(caller, Caller::Kerberos { name: "ada@X".into() });
        let Ok(Asking::Done { sealing }) = client.on_message(&answer) else { panic!() };
        assert!(matches!(sealing, Sealing::Library(Qop::Privacy)));
        assert!(matches!(client.on_gss(complete(b"")), Err(ClientError::Over)), "once over, always over");
    }

    #[test]
    fn a_library_that_settles_for_less_is_refused() {
        let (mut client, negotiate) = client(Credentials { kerberos: ticket(&["host"]), ..none() });
        client.on_message(&offered(&mut server(offers()), &negotiate)).unwrap();
        let less = ClientGss::Complete { token: Some(b"one".to_vec()), qop: Qop::Auth };
        assert_eq!(client.on_gss(less).unwrap_err(), ClientError::Protection);
        assert_eq!(client.on_gss(complete(b"one")).unwrap_err(), ClientError::Over);
    }

    /// The names that were tried, and the one that the server has.
    #[test]
    fn a_server_of_another_name_is_told_from_one_that_wants_no_ticket() {
        let (mut client, negotiate) = client(Credentials { kerberos: ticket(&["other", "third"]), ..none() });
        let refused = client.on_message(&offered(&mut server(offers()), &negotiate)).unwrap_err().to_string();
        for said in ["KERBEROS as nn/host", "nn/other or nn/third", "dfs.namenode.kerberos.principal"] {
            assert!(refused.contains(said), "{refused}");
        }
    }

    #[test]
    fn a_client_with_secrets_is_not_talked_down() {
        let success = message(SaslState::Success, None);
        let with_token = || client(Credentials { token: Some(token()), ..none() });
        assert_eq!(with_token().0.on_message(&success).unwrap_err(), ClientError::Downgrade);
        let simple = Offers { simple: true, ..Offers::default() };
        let auths = vec![Method::Simple.auth("", ""), Method::Kerberos.auth("evil", "host")];
        let only = RpcSaslProto { auths, ..message(SaslState::Negotiate, None) };
        let refused = with_token().0.on_message(&only).unwrap_err();
        let needs = "a ticket (kinit)".into();
        assert_eq!(
            refused,
            ClientError::NothingInCommon { offered: "\"SIMPLE, KERBEROS as evil/host\"".into(), needs }
        );
        let (mut open, negotiate) = client(Credentials { simple: true, ..none() });
        let Step::Simple { answer: Some(answer) } = answer(&mut server(simple), &negotiate) else { panic!() };
        assert!(matches!(open.on_message(&answer), Ok(Asking::Simple { send: None })));
    }

    #[test]
    fn a_server_has_to_prove_itself() {
        let asked = || {
            let (mut client, negotiate) = client(Credentials { token: Some(token()), ..none() });
            sent(client.on_message(&offered(&mut server(offers()), &negotiate)));
            client
        };
        let success = message(SaslState::Success, None);
        assert_eq!(asked().on_message(&success).unwrap_err(), ClientError::ServerUnproven);
        let guess = message(SaslState::Success, Some(b"rspauth=00000000000000000000000000000000".to_vec()));
        assert_eq!(asked().on_message(&guess).unwrap_err(), ClientError::ServerUnproven);
        let kerberos = ticket(&["host"]);
        let (mut client, negotiate) = client(Credentials { kerberos, ..none() });
        client.on_message(&offered(&mut server(offers()), &negotiate)).unwrap();
        sent(client.on_gss(ClientGss::Continue(Some(b"one".to_vec()))));
        assert_eq!(client.on_message(&success).unwrap_err(), ClientError::ServerUnproven, "before it is complete");
    }

    proptest! {
        /// Whatever a server says, in whatever order.
        #[test]
        fn no_messages_panic(
            said in proptest::collection::vec((0i32..8, proptest::option::of(".{0,30}"), 0u8..4), 0..6)
        ) {
            let kerberos = ticket(&["host"]);
            let (mut client, _) = client(Credentials { token: Some(token()), kerberos, simple: true });
            for (state, token, offer) in said {
                let auths = match offer {
                    0 => Vec::new(),
                    1 => vec![Method::Token.auth("", "default")],
                    2 => vec![Method::Kerberos.auth("nn", "host")],
                    _ => vec![Method::Simple.auth("", "")],
                };
                let said = RpcSaslProto { version: None, state, token: token.map(Into::into), auths };
                if let Ok(Asking::Gss { .. }) = client.on_message(&said) {
                    let _ = client.on_gss(complete(b"token"));
                }
            }
        }
    }
}
