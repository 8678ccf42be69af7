//! The client's end of an exchange.

use super::directives::{Directives, put, put_quoted};
use super::error::DigestError;
use super::layer::{End, Layer};
use super::proof::{Facts, NONCE_COUNT, SessionKey};
use super::protection::Protection;
use super::service::{CHALLENGE_LEN_MAX, NONCE_LEN, RESPONSE_LEN_MAX, Service};
use crate::secret::same;
use base64ct::{Base64, Encoding};
use std::fmt;

/// What a client takes at once, in the words of RFC 2831. JDK names the same.
const MAXBUF: &str = "65536";

/// Before the challenge has come.
#[derive(Clone)]
pub struct Client {
    service: Service,
    protection: Protection,
    user: String,
    password: Vec<u8>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({})", self.user)
    }
}

impl Client {
    /// User and password must be ASCII, as base64 is.
    pub fn new(service: Service, protection: Protection, user: String, password: Vec<u8>) -> Result<Self, DigestError> {
        if !user.is_ascii() {
            return Err(DigestError::Unsupported { name: "username" });
        }
        if !password.is_ascii() {
            return Err(DigestError::Unsupported { name: "password" });
        }
        Ok(Self { service, protection, user, password })
    }

    /// What the server is sent. `random` must never have served before.
    pub fn respond(self, challenge: &[u8], random: &[u8; NONCE_LEN]) -> Result<(Vec<u8>, Responded), DigestError> {
        self.respond_with(challenge, &Base64::encode_string(random))
    }

    pub(crate) fn respond_with(self, challenge: &[u8], cnonce: &str) -> Result<(Vec<u8>, Responded), DigestError> {
        let found = Directives::parse(challenge, "a challenge", CHALLENGE_LEN_MAX)?;
        found.expect("algorithm", "md5-sess")?;
        // A server may offer none, or another one; ours and Hadoop's name theirs, and the password is of that.
        found.expect("realm", self.service.realm)?;
        let nonce = found.required("nonce")?;
        if nonce.is_empty() {
            return Err(DigestError::Missing { name: "nonce" });
        }
        let chosen = self.protection.choose(&found)?;
        let uri = self.service.uri();
        let facts = Facts {
            user: &self.user,
            realm: self.service.realm,
            password: &self.password,
            nonce,
            cnonce,
            authorization: self.service.names_authorization.then_some(&self.user[..]),
            uri: &uri,
            qop: chosen.qop,
        };
        let key = SessionKey::of(&facts);
        let mut out = Vec::new();
        put(&mut out, "charset", "utf-8");
        put_quoted(&mut out, "username", &self.user);
        put_quoted(&mut out, "realm", self.service.realm);
        put_quoted(&mut out, "nonce", nonce);
        put(&mut out, "nc", NONCE_COUNT);
        put_quoted(&mut out, "cnonce", cnonce);
        put_quoted(&mut out, "digest-uri", &uri);
        put(&mut out, "maxbuf", MAXBUF);
        put(&mut out, "response", &key.response(&facts));
        put(&mut out, "qop", chosen.qop.name());
        if let Some(cipher) = chosen.cipher {
            put_quoted(&mut out, "cipher", cipher.name());
        }
        if let Some(authorization) = facts.authorization {
            put_quoted(&mut out, "authzid", authorization);
        }
        if out.len() > RESPONSE_LEN_MAX {
            return Err(DigestError::TooLong { what: "a response", len: out.len(), max: RESPONSE_LEN_MAX });
        }
        let rspauth = key.rspauth(&facts);
        Ok((out, Responded { rspauth, layer: Layer::new(End::Client, key, chosen) }))
    }
}

/// The server has to prove that it knows the password, too.
#[derive(Debug)]
pub struct Responded {
    rspauth: String,
    layer: Layer,
}

impl Responded {
    pub fn finish(self, bytes: &[u8]) -> Result<Layer, DigestError> {
        let found = Directives::parse(bytes, "a challenge", CHALLENGE_LEN_MAX)?;
        if same(found.required("rspauth")?.as_bytes(), self.rspauth.as_bytes()) {
            Ok(self.layer)
        } else {
            Err(DigestError::Proof)
        }
    }
}

#[cfg(test)]
impl Client {
    /// As somebody else responded.
    pub(crate) fn respond_recorded(self, challenge: &[u8], cnonce: &str) -> (Vec<u8>, Responded) {
        self.respond_with(challenge, cnonce).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::super::protection::{Cipher, Qop};
    use super::super::server::Challenge;
    use super::*;
    use proptest::prelude::*;

    fn client(qops: &[Qop], password: &str) -> Client {
        let protection = Protection::of(qops);
        Client::new(Service::RPC, protection, "dXNlcg==".into(), password.into()).unwrap()
    }

    fn challenge(qops: &[Qop]) -> Challenge {
        Challenge::new(Service::RPC, Protection::of(qops), &[7; NONCE_LEN])
    }

    #[test]
    fn both_ends_agree_on_what_the_client_prefers() {
        let server = challenge(&[Qop::Auth, Qop::Privacy]);
        let client = client(&[Qop::Integrity, Qop::Privacy, Qop::Auth], "secret");
        let (response, client) = client.respond(&server.text(), &[9; NONCE_LEN]).unwrap();
        let response = server.read(&response).unwrap();
        assert_eq!((response.user(), response.qop()), ("dXNlcg==", Qop::Privacy));
        let mut server = response.verify(b"secret").unwrap();
        let mut client = client.finish(&server.rspauth).unwrap();
        let (mut sealed, mut opened) = (Vec::new(), Vec::new());
        client.wrap(b"a call", &mut sealed).unwrap();
        server.layer.unwrap(&sealed, &mut opened).unwrap();
        assert_eq!(opened, b"a call");
    }

    /// As hdfs-native does: in another order, and without what it does not need.
    #[test]
    fn a_response_has_no_order() {
        let server = challenge(&[Qop::Privacy]);
        let (response, asked) = client(&[Qop::Privacy], "secret").respond(&server.text(), &[9; NONCE_LEN]).unwrap();
        let text = String::from_utf8(response).unwrap();
        let kept: Vec<&str> = text.split(',').rev().filter(|directive| !directive.starts_with("maxbuf")).collect();
        let server = server.read(kept.join(",").as_bytes()).unwrap().verify(b"secret").unwrap();
        assert!(asked.finish(&server.rspauth).is_ok());
    }

    #[test]
    fn a_wrong_password_shows_at_both_ends() {
        let server = challenge(&[Qop::Auth]);
        let (response, asked) = client(&[Qop::Auth], "guess").respond(&server.text(), &[9; NONCE_LEN]).unwrap();
        assert_eq!(server.clone().read(&response).unwrap().verify(b"secret").unwrap_err(), DigestError::Proof);
        // A server that does not know the password accepts whatever it is told, and cannot prove it.
        let zeros = format!("rspauth={}", "0".repeat(32));
        assert_eq!(asked.finish(zeros.as_bytes()).unwrap_err(), DigestError::Proof);
        let (_, asked) = client(&[Qop::Auth], "guess").respond(&server.text(), &[9; NONCE_LEN]).unwrap();
        assert_eq!(asked.finish(b"").unwrap_err(), DigestError::Missing { name: "rspauth" });
    }

    /// Nothing that was not offered, nor what this side finds too weak.
    #[test]
    fn no_end_is_talked_down() {
        let asked = |server: &[Qop], own: &[Qop]| {
            client(own, "secret").respond(&challenge(server).text(), &[9; NONCE_LEN]).map(|_| ()).unwrap_err()
        };
        assert_eq!(asked(&[Qop::Auth], &[Qop::Privacy]), DigestError::Unsupported { name: "qop" });
        let weak = br#"realm="default",nonce="n",qop="auth-conf",cipher="des,rc4-40",algorithm=md5-sess"#;
        let refused = client(&[Qop::Privacy], "secret").respond(weak, &[9; NONCE_LEN]).map(|_| ()).unwrap_err();
        assert_eq!(refused, DigestError::Unsupported { name: "cipher" });

        let answered = |change: fn(String) -> String| {
            let server = challenge(&[Qop::Privacy]);
            let (response, _) = client(&[Qop::Privacy], "secret").respond(&server.text(), &[9; NONCE_LEN]).unwrap();
            let response = change(String::from_utf8(response).unwrap());
            server.read(response.as_bytes()).and_then(|response| response.verify(b"secret").map(|_| ())).unwrap_err()
        };
        let unsupported = |name| DigestError::Unsupported { name };
        assert_eq!(answered(|text| text.replace("qop=auth-conf", "qop=auth")), unsupported("qop"));
        assert_eq!(answered(|text| text.replace("\"3des\"", "\"des\"")), unsupported("cipher"));
        assert_eq!(answered(|text| text.replace(",cipher=\"3des\"", "")), DigestError::Missing { name: "cipher" });
        assert_eq!(answered(|text| text.replace("nc=00000001", "nc=00000002")), unsupported("nc"));
        assert_eq!(answered(|text| text.replace("digest-uri=\"/", "digest-uri=\"x/")), unsupported("digest-uri"));
        assert_eq!(answered(|text| text.replace("nonce=\"Bwc", "nonce=\"Cwc")), unsupported("nonce"));
        assert_eq!(answered(|text| text + ",authzid=\"root\""), unsupported("authzid"));
        assert_eq!(answered(|text| text + ",authzid=\"dXNlcg==\""), DigestError::Proof);
        // The cipher is no part of the proof, as RFC 2831 has it: where both are offered, whoever sits in between
        // chooses, and neither opens the other's.
        let privacy = Protection::of(&[Qop::Privacy]);
        assert_eq!(answered(|text| text.replace("\"3des\"", "\"rc4\"")), unsupported("cipher"));
        let server = Challenge::new(Service::RPC, privacy.with_rc4(), &[7; NONCE_LEN]);
        let (response, _) = client(&[Qop::Privacy], "secret").respond(&server.text(), &[9; NONCE_LEN]).unwrap();
        let changed = String::from_utf8(response).unwrap().replace("3des", Cipher::Rc4.name());
        assert!(server.read(changed.as_bytes()).unwrap().verify(b"secret").is_ok());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut: u8, rest in "[ -~]{0,60}") {
            let qops = Qop::ALL;
            let server = challenge(&qops);
            let _ = server.clone().read(&bytes);
            let mut text = server.text();
            text.truncate(usize::from(cut));
            text.extend_from_slice(rest.as_bytes());
            let _ = client(&qops, "secret").respond(&text, &[9; NONCE_LEN]);
            let (mut response, _) = client(&qops, "secret").respond(&server.text(), &[9; NONCE_LEN]).unwrap();
            response.truncate(usize::from(cut) * 2);
            response.extend_from_slice(rest.as_bytes());
            if let Ok(response) = server.read(&response) {
                let _ = response.verify(b"secret");
            }
        }
    }
}
