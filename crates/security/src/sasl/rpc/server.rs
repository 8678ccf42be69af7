//! The server's end.

use super::message::message;
use super::offers::Offers;
use super::refused::{ClaimError, Refused};
use super::sealing::Sealing;
use crate::delegation::{self, Claim};
use crate::method::Method;
use crate::sasl::digest::{Challenge, DigestError, NONCE_LEN, Qop, Service};
use base64ct::{Base64, Encoding};
use bytes::Bytes;
use hdfs::exception::{self, Exception};
use hdfs::proto::rpc_sasl_proto::SaslAuth;
use hdfs::proto::{RpcSaslProto, SaslState};

/// Messages in which Kerberos' library may go on asking. Two or three are usual.
const GSS_ROUND_COUNT_MAX: u32 = 8;

/// Who calls, as the exchange has proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    Token(delegation::Proven),
    /// The whole name.
    Kerberos {
        name: String,
    },
}

/// What Kerberos' library made of a token.
#[derive(Debug)]
pub enum GssOutcome {
    /// It wants to hear more.
    Continue(Vec<u8>),
    /// The client is `name`, and has chosen how what follows is protected and as whom it acts
    /// ([`super::GssLayerChoice`]).
    Done { token: Option<Vec<u8>>, name: String, qop: Qop, acting_as: String },
}

/// What to do with a message.
#[derive(Debug)]
pub enum Step {
    Answer(RpcSaslProto),
    /// The caller is believed; what comes next is the context. Nothing may be answered if there is no answer.
    Simple {
        answer: Option<RpcSaslProto>,
    },
    /// For Kerberos' library, whose outcome goes to [`Server::on_gss`].
    Gss {
        token: Bytes,
    },
    /// The exchange is over once the answer is sent.
    Accepted {
        answer: RpcSaslProto,
        caller: Caller,
        sealing: Sealing,
    },
}

/// One connection's exchange.
#[derive(Debug)]
pub struct Server {
    offers: Offers,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Nothing was said. There is a challenge where tokens are offered.
    Fresh {
        challenge: Option<Challenge>,
    },
    Offered {
        challenge: Option<Challenge>,
    },
    /// Kerberos' library has a token, and `is_asked` until its outcome comes.
    Gss {
        round_count: u32,
        is_asked: bool,
    },
    /// The caller is believed. A client may say once more that it chose this; Hadoop does not answer it either.
    Simple,
    Over,
}

impl Server {
    /// `nonce` must never have served before, nor be foreseen by a client.
    pub fn new(offers: Offers, nonce: [u8; NONCE_LEN]) -> Self {
        let challenge =
            offers.token.as_ref().map(|protection| Challenge::new(Service::RPC, protection.clone(), &nonce));
        Self { offers, state: State::Fresh { challenge } }
    }

    /// Carries one message to its end. An error is answered with [`Refused::told`], and ends the connection. `claim`
    /// looks up a token by its identifier, as [`delegation::authenticate`] does; who gets none says why.
    pub fn on_message(
        &mut self,
        message: &RpcSaslProto,
        claim: impl FnOnce(&[u8]) -> Result<Claim, ClaimError>,
    ) -> Result<Step, Refused> {
        let state = std::mem::replace(&mut self.state, State::Over);
        let Ok(said) = SaslState::try_from(message.state) else {
            return Err(sasl(format!("Client sent unsupported state {}", message.state)).into());
        };
        match (state, said) {
            (State::Fresh { challenge }, SaslState::Negotiate) => Ok(self.negotiate(challenge)),
            (State::Offered { .. }, SaslState::Negotiate) => {
                let text = "Client already attempted negotiation";
                Err(Exception::unauthorized(exception::ACCESS_CONTROL, text).into())
            }
            (State::Fresh { challenge }, SaslState::Initiate) => Ok(self.initiate_unasked(message, challenge)?),
            (State::Offered { challenge }, SaslState::Initiate) => self.initiate(message, challenge, claim),
            (State::Gss { round_count, is_asked: false }, SaslState::Response) => Ok(self.gss(message, round_count)?),
            (State::Simple, SaslState::Initiate) if self.chosen(message)? == Some(Method::Simple) => {
                Ok(self.believe(None))
            }
            (State::Simple | State::Over, _) => {
                Err(sasl(format!("SASL is over, yet the client sent {}", said.as_str_name())).into())
            }
            (_, _) => Err(sasl(format!("Client sent unsupported state {}", said.as_str_name())).into()),
        }
    }

    /// What Kerberos' library said to the token of [`Step::Gss`]; where it failed, the exception ends the connection.
    pub fn on_gss(&mut self, outcome: Result<GssOutcome, Exception>) -> Result<Step, Exception> {
        let State::Gss { round_count, is_asked: true } = std::mem::replace(&mut self.state, State::Over) else {
            return Err(sasl("an outcome of Kerberos, and nothing was asked"));
        };
        match outcome? {
            GssOutcome::Continue(token) => {
                self.state = State::Gss { round_count, is_asked: false };
                Ok(Step::Answer(message(SaslState::Challenge, Some(token))))
            }
            GssOutcome::Done { token, name, qop, acting_as } => {
                // A library may look at neither: what was not offered would be a connection without protection.
                if !self.offers.kerberos.as_ref().is_some_and(|offer| offer.qops.contains(&qop)) {
                    return Err(sasl("no common protection layer between client and server"));
                }
                // To act as somebody else is for proxy users, and they are told by the context of the connection.
                if !acting_as.is_empty() && acting_as != name {
                    let [name, acting_as] = [&name, &acting_as].map(|name| types::excerpt(name));
                    return Err(sasl(format!("{name} is not authorized to connect as {acting_as}")));
                }
                let answer = message(SaslState::Success, token);
                Ok(Step::Accepted { answer, caller: Caller::Kerberos { name }, sealing: Sealing::of_library(qop) })
            }
        }
    }

    fn believe(&mut self, answer: Option<RpcSaslProto>) -> Step {
        self.state = State::Simple;
        Step::Simple { answer }
    }

    fn negotiate(&mut self, challenge: Option<Challenge>) -> Step {
        if self.offers.is_simple_only() {
            // Without a token: hdfs-native takes one for a fault.
            return self.believe(Some(message(SaslState::Success, None)));
        }
        let mut auths = self.offers.auths();
        if let (Some(challenge), Some(token)) = (&challenge, auths.first_mut()) {
            token.challenge = Some(challenge.text().into());
        }
        self.state = State::Offered { challenge };
        Step::Answer(RpcSaslProto { auths, ..message(SaslState::Negotiate, None) })
    }

    /// What was chosen of the offers. The client leaves the challenge out, and some leave empty names out.
    fn chosen(&self, message: &RpcSaslProto) -> Result<Option<Method>, Exception> {
        let [auth] = &message.auths[..] else {
            return Err(sasl("Client mechanism is malformed"));
        };
        let has_names = |offer: &SaslAuth| {
            offer.protocol.as_deref().unwrap_or("") == auth.protocol.as_deref().unwrap_or("")
                && offer.server_id.as_deref().unwrap_or("") == auth.server_id.as_deref().unwrap_or("")
        };
        let auths = self.offers.auths();
        let offer = auths
            .iter()
            .find(|offer| offer.method == auth.method && offer.mechanism == auth.mechanism && has_names(offer));
        Ok(offer.and_then(Method::of))
    }

    /// A client that guessed. What it guessed wrong, or cannot know, it is told.
    fn initiate_unasked(&mut self, message: &RpcSaslProto, challenge: Option<Challenge>) -> Result<Step, Exception> {
        match self.chosen(message)? {
            Some(Method::Simple) => Ok(self.believe(None)),
            Some(Method::Kerberos) => self.gss(message, 0),
            Some(Method::Token | Method::Certificate) | None => {
                let is_named = |method: Method| message.auths[0].method == method.name();
                if self.offers.is_simple_only() && !is_named(Method::Simple) {
                    return Err(self.offers.refuse(&message.auths[0].method));
                }
                Ok(self.negotiate(challenge))
            }
        }
    }

    fn initiate(
        &mut self,
        message: &RpcSaslProto,
        challenge: Option<Challenge>,
        claim: impl FnOnce(&[u8]) -> Result<Claim, ClaimError>,
    ) -> Result<Step, Refused> {
        match (self.chosen(message)?, challenge) {
            (Some(Method::Simple), _) => Ok(self.believe(None)),
            (Some(Method::Kerberos), _) => Ok(self.gss(message, 0)?),
            (Some(Method::Token), Some(challenge)) => verify(message, challenge, claim),
            (Some(Method::Token), None) | (Some(Method::Certificate) | None, _) => {
                Err(self.offers.refuse(&message.auths[0].method).into())
            }
        }
    }

    fn gss(&mut self, message: &RpcSaslProto, round_count: u32) -> Result<Step, Exception> {
        if round_count == GSS_ROUND_COUNT_MAX {
            return Err(sasl(format!("the exchange did not end in {GSS_ROUND_COUNT_MAX} messages")));
        }
        let token = message.token.clone().ok_or_else(no_token)?;
        self.state = State::Gss { round_count: round_count + 1, is_asked: true };
        Ok(Step::Gss { token })
    }
}

fn verify(
    message: &RpcSaslProto,
    challenge: Challenge,
    claim: impl FnOnce(&[u8]) -> Result<Claim, ClaimError>,
) -> Result<Step, Refused> {
    let response =
        challenge.read(message.token.as_deref().ok_or_else(no_token)?).map_err(|error| sasl(error.to_string()))?;
    let identifier = Base64::decode_vec(response.user()).map_err(|_| sasl("DIGEST-MD5: the user is no token"))?;
    let claim = claim(&identifier).map_err(|error| Refused::from(error).of_token(identifier.clone()))?;
    let password = Base64::encode_string(claim.password().bytes());
    let accepted = response.verify(password.as_bytes()).map_err(|error| match error {
        DigestError::Proof => Refused::token(error.to_string()).of_token(identifier),
        error => sasl(error.to_string()).into(),
    })?;
    let answer = super::message::message(SaslState::Success, Some(accepted.rspauth));
    let sealing = Sealing::of_layer(accepted.layer);
    Ok(Step::Accepted { answer, caller: Caller::Token(claim.proven()), sealing })
}

fn no_token() -> Exception {
    sasl("Client did not send a token")
}

fn sasl(text: impl Into<String>) -> Exception {
    Exception::unauthorized(exception::SASL, text)
}

#[cfg(test)]
impl Server {
    /// With a challenge that somebody else made.
    pub(super) fn recorded(offers: Offers, challenge: Challenge) -> Self {
        Self { offers, state: State::Fresh { challenge: Some(challenge) } }
    }
}

#[cfg(test)]
mod tests {
    use super::super::offers::KerberosOffer;
    use super::*;
    use crate::keys::KeyId;
    use crate::sasl::digest::{Client, Protection};
    use crate::secret::Password;
    use types::Millis;

    fn secure() -> Offers {
        let (service, host) = ("nn".to_owned(), "host.example.com".to_owned());
        let kerberos = Some(KerberosOffer { service, host, qops: vec![Qop::Privacy] });
        Offers { token: Some(Protection::of(&[Qop::Privacy])), kerberos, simple: false }
    }

    fn simple() -> Offers {
        Offers { simple: true, ..Offers::default() }
    }

    fn server(offers: Offers) -> Server {
        Server::new(offers, [7; NONCE_LEN])
    }

    fn password() -> Password {
        Password::new([3; 32])
    }

    fn nobody(_: &[u8]) -> Result<Claim, ClaimError> {
        panic!("no password is asked for")
    }

    fn chooses(method: &str, mechanism: &str, protocol: &str, server: &str, token: Option<Vec<u8>>) -> RpcSaslProto {
        let auth = SaslAuth {
            method: method.into(),
            mechanism: mechanism.into(),
            protocol: Some(protocol.into()),
            server_id: Some(server.into()),
            challenge: None,
        };
        RpcSaslProto { auths: vec![auth], ..message(SaslState::Initiate, token) }
    }

    fn kerberos(token: &[u8]) -> RpcSaslProto {
        chooses("KERBEROS", "GSSAPI", "nn", "host.example.com", Some(token.to_vec()))
    }

    fn negotiated(server: &mut Server) -> Vec<SaslAuth> {
        let Ok(Step::Answer(answer)) = server.on_message(&message(SaslState::Negotiate, None), nobody) else {
            panic!()
        };
        assert_eq!((answer.state(), answer.token), (SaslState::Negotiate, None));
        answer.auths
    }

    fn identifier() -> Vec<u8> {
        let token = delegation::Identifier {
            owner: "ada".into(),
            renewer: String::new(),
            real_user: String::new(),
            issued: Millis(0),
            max: Millis(9),
            sequence: 1,
            key: KeyId(1),
        };
        token.encode()
    }

    fn claim(identifier: &[u8]) -> Claim {
        Claim::recorded(identifier, password())
    }

    /// A client that holds a token, and thinks that this is its password.
    fn response(challenge: &[u8], password: &Password) -> RpcSaslProto {
        let password = Base64::encode_string(password.bytes()).into_bytes();
        let user = Base64::encode_string(&identifier());
        let client = Client::new(Service::RPC, Protection::of(&[Qop::Privacy]), user, password).unwrap();
        let (response, _) = client.respond(challenge, &[9; NONCE_LEN]).unwrap();
        chooses("TOKEN", "DIGEST-MD5", "", "default", Some(response))
    }

    #[test]
    fn a_token_is_offered_first_and_takes_one_round_trip_more() {
        let mut server = server(secure());
        let auths = negotiated(&mut server);
        let methods: Vec<&str> = auths.iter().map(|auth| auth.method.as_str()).collect();
        assert_eq!(methods, ["TOKEN", "KERBEROS"]);
        let chosen = response(auths[0].challenge.as_ref().unwrap(), &password());
        let lookup = |bytes: &[u8]| {
            assert_eq!(bytes, identifier());
            Ok(claim(bytes))
        };
        let Ok(Step::Accepted { answer, caller, sealing }) = server.on_message(&chosen, lookup) else { panic!() };
        assert!(answer.state() == SaslState::Success && answer.token.unwrap().starts_with(b"rspauth="));
        assert_eq!(caller, Caller::Token(claim(&identifier()).proven()));
        assert!(matches!(sealing, Sealing::Digest(_)) && sealing.qop() == Qop::Privacy);
        assert!(server.on_message(&chosen, nobody).is_err(), "a nonce serves once");
    }

    #[test]
    fn refusals_of_tokens_keep_their_reason_for_the_log() {
        let refused = |sent: &Password, lookup: Result<Claim, ClaimError>| {
            let mut server = server(secure());
            let auths = negotiated(&mut server);
            let chosen = response(auths[0].challenge.as_ref().unwrap(), sent);
            server.on_message(&chosen, |_| lookup).unwrap_err()
        };
        let guess = refused(&Password::new([4; 32]), Ok(claim(&identifier())));
        assert!(
            guess.told.is_fatal() && guess.told.class == exception::INVALID_TOKEN && guess.reason.contains("response")
        );
        let (owner, sequence) = ("ada".to_owned(), 5);
        let unknown = refused(&password(), Err(delegation::Refusal::Unknown { owner, sequence }.into()));
        assert_eq!(unknown.told, guess.told, "nobody learns from the answer what was wrong");
        assert_eq!(unknown.reason, "token (5 for ada) can't be found in cache");
        let standby = Exception::unauthorized(exception::STANDBY, "ask the other one");
        assert_eq!(refused(&password(), Err(ClaimError::Told(standby.clone()))).told, standby);
    }

    #[test]
    fn kerberos_is_left_to_a_library() {
        let mut server = server(secure());
        negotiated(&mut server);
        let Ok(Step::Gss { token }) = server.on_message(&kerberos(b"one"), nobody) else { panic!() };
        assert_eq!(token, &b"one"[..]);
        let Ok(Step::Answer(answer)) = server.on_gss(Ok(GssOutcome::Continue(b"two".to_vec()))) else { panic!() };
        assert_eq!((answer.state(), answer.token.as_deref()), (SaslState::Challenge, Some(&b"two"[..])));
        let three = message(SaslState::Response, Some(b"three".to_vec()));
        assert!(matches!(server.on_message(&three, nobody), Ok(Step::Gss { .. })));
        let name = "ada@EXAMPLE.COM".to_owned();
        let Ok(Step::Accepted { answer, caller, sealing }) = server.on_gss(Ok(done(Qop::Privacy, ""))) else {
            panic!()
        };
        assert!(matches!(sealing, Sealing::Library(Qop::Privacy)));
        assert_eq!((answer.state(), answer.token), (SaslState::Success, None));
        assert_eq!(caller, Caller::Kerberos { name });
        assert!(server.on_message(&three, nobody).is_err());
    }

    fn done(qop: Qop, acting_as: &str) -> GssOutcome {
        GssOutcome::Done { token: None, name: "ada@EXAMPLE.COM".into(), qop, acting_as: acting_as.into() }
    }

    /// Whatever a library lets through.
    #[test]
    fn a_ticket_buys_only_what_was_offered() {
        let outcome = |qops: &[Qop], done: GssOutcome| {
            let mut offers = secure();
            offers.kerberos.as_mut().unwrap().qops = qops.to_vec();
            let mut server = server(offers);
            negotiated(&mut server);
            assert!(matches!(server.on_message(&kerberos(b"one"), nobody), Ok(Step::Gss { .. })));
            match server.on_gss(Ok(done)) {
                Ok(Step::Accepted { sealing, .. }) => Ok(sealing.qop()),
                Ok(step) => panic!("{step:?}"),
                Err(refused) => {
                    assert!(server.on_gss(Err(refused.clone())).is_err(), "an error is the end");
                    Err(refused.message)
                }
            }
        };
        let nothing = Err("no common protection layer between client and server".to_owned());
        assert_eq!(outcome(&[Qop::Privacy], done(Qop::Auth, "")), nothing);
        assert_eq!(outcome(&[Qop::Privacy, Qop::Integrity], done(Qop::Integrity, "")), Ok(Qop::Integrity));
        assert_eq!(outcome(&[Qop::Auth], done(Qop::Auth, "ada@EXAMPLE.COM")), Ok(Qop::Auth));
        let refused = outcome(&[Qop::Auth], done(Qop::Auth, "root@EXAMPLE.COM"));
        let text = "\"ada@EXAMPLE.COM\" is not authorized to connect as \"root@EXAMPLE.COM\"";
        assert_eq!(refused, Err(text.to_owned()));
    }

    #[test]
    fn an_exchange_has_an_end() {
        let mut server = server(secure());
        let mut said = kerberos(b"x");
        for _ in 0..GSS_ROUND_COUNT_MAX {
            assert!(matches!(server.on_message(&said, nobody), Ok(Step::Gss { .. })));
            server.on_gss(Ok(GssOutcome::Continue(Vec::new()))).unwrap();
            said = message(SaslState::Response, Some(Vec::new()));
        }
        assert!(server.on_message(&said, nobody).is_err());
    }

    #[test]
    fn who_need_not_prove_anything_goes_on() {
        let negotiate = message(SaslState::Negotiate, None);
        let mut open = server(simple());
        let Ok(Step::Simple { answer: Some(answer) }) = open.on_message(&negotiate, nobody) else { panic!() };
        assert_eq!((answer.state(), answer.token, answer.auths.len()), (SaslState::Success, None, 0));
        let chosen = chooses("SIMPLE", "", "", "", None);
        assert!(matches!(open.on_message(&chosen, nobody), Ok(Step::Simple { answer: None })), "once more");
        assert!(open.on_message(&negotiate, nobody).is_err());
        assert!(matches!(server(simple()).on_message(&chosen, nobody), Ok(Step::Simple { answer: None })), "unasked");
        let mut both = server(Offers { simple: true, ..secure() });
        assert_eq!(negotiated(&mut both).len(), 3);
        assert!(matches!(both.on_message(&chosen, nobody), Ok(Step::Simple { answer: None })));
    }

    #[test]
    fn nobody_is_talked_down() {
        let server_of = |said: &RpcSaslProto| {
            let mut server = server(secure());
            negotiated(&mut server);
            server.on_message(said, nobody).unwrap_err().told
        };
        let refused = server_of(&chooses("SIMPLE", "", "", "", None));
        assert_eq!(refused.message, "SIMPLE authentication is not enabled.  Available:[TOKEN, KERBEROS]");
        assert!(refused.is_fatal() && refused.class == exception::ACCESS_CONTROL);
        server_of(&chooses("TOKEN", "PLAIN", "", "default", Some(b"x".to_vec())));
        server_of(&chooses("KERBEROS", "GSSAPI", "dn", "host.example.com", Some(b"x".to_vec())));
        server_of(&chooses("KERBEROS", "GSSAPI", "nn", "host.example.com", None));
        server_of(&chooses("X\n", "", "", "", None));
        server_of(&message(SaslState::Initiate, None));
        server_of(&message(SaslState::Negotiate, None));
        server_of(&message(SaslState::Response, Some(b"x".to_vec())));
        server_of(&message(SaslState::Wrap, Some(b"x".to_vec())));
        server_of(&RpcSaslProto { state: 77, ..RpcSaslProto::default() });
        assert!(
            secure().refuse_simple().is_some_and(|refused| refused.is_fatal()) && simple().refuse_simple().is_none()
        );
        let nothing = server(Offers::default()).on_message(&message(SaslState::Negotiate, None), nobody);
        assert!(matches!(nothing, Ok(Step::Answer(answer)) if answer.auths.is_empty()));
    }

    /// Its settings were not what the server has: it is told.
    #[test]
    fn a_wrong_guess_is_answered_with_the_offers() {
        for guess in [chooses("KERBEROS", "GSSAPI", "dn", "x", Some(Vec::new())), response_without_challenge()] {
            let Ok(Step::Answer(answer)) = server(secure()).on_message(&guess, nobody) else { panic!() };
            assert_eq!((answer.state(), answer.auths.len()), (SaslState::Negotiate, 2));
        }
        let refused = server(simple()).on_message(&kerberos(b"x"), nobody).unwrap_err().told;
        assert_eq!(refused.message, "KERBEROS authentication is not enabled.  Available:[SIMPLE]");
    }

    fn response_without_challenge() -> RpcSaslProto {
        chooses("TOKEN", "DIGEST-MD5", "", "default", None)
    }
}
