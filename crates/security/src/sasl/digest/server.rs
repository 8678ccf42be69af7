//! The server's end of an exchange.

use super::directives::{Directives, put, put_quoted};
use super::error::DigestError;
use super::layer::{End, Layer};
use super::proof::{Facts, NONCE_COUNT, SessionKey};
use super::protection::{Chosen, Protection, Qop};
use super::service::{NONCE_LEN, RESPONSE_LEN_MAX, Service};
use crate::secret::same;
use base64ct::{Base64, Encoding};

/// Before the client has answered.
#[derive(Clone, Debug)]
pub struct Challenge {
    service: Service,
    protection: Protection,
    nonce: String,
}

impl Challenge {
    /// `random` must never have served before, nor be foreseen by a client.
    pub fn new(service: Service, protection: Protection, random: &[u8; NONCE_LEN]) -> Self {
        Self::with_nonce(service, protection, Base64::encode_string(random))
    }

    fn with_nonce(service: Service, protection: Protection, nonce: String) -> Self {
        assert!(!protection.qops.is_empty(), "a server offers something");
        Self { service, protection, nonce }
    }

    /// What the client is sent.
    pub fn text(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_quoted(&mut out, "realm", self.service.realm);
        put_quoted(&mut out, "nonce", &self.nonce);
        put_quoted(&mut out, "qop", &self.protection.qop_list());
        put(&mut out, "charset", "utf-8");
        if self.protection.qops.contains(&Qop::Privacy) {
            put_quoted(&mut out, "cipher", &self.protection.cipher_list());
        }
        put(&mut out, "algorithm", "md5-sess");
        out
    }

    /// What the client answered. Nothing of it counts before [`Response::verify`].
    pub fn read(self, bytes: &[u8]) -> Result<Response, DigestError> {
        let found = Directives::parse(bytes, "a response", RESPONSE_LEN_MAX)?;
        let Self { service, protection, nonce } = self;
        found.expect("nonce", &nonce)?;
        found.expect("nc", NONCE_COUNT)?;
        found.expect("realm", service.realm)?;
        found.expect("digest-uri", &service.uri())?;
        if found.text("charset")?.is_some_and(|charset| !charset.eq_ignore_ascii_case("utf-8")) {
            return Err(DigestError::Unsupported { name: "charset" });
        }
        let user = found.required("username")?.to_owned();
        let authorization = found.text("authzid")?.filter(|name| !name.is_empty()).map(str::to_owned);
        // To act as somebody else is for proxy users, and they are told by the context of the connection.
        if authorization.as_ref().is_some_and(|name| *name != user) {
            return Err(DigestError::Unsupported { name: "authzid" });
        }
        let cnonce = found.required("cnonce")?.to_owned();
        if cnonce.is_empty() {
            return Err(DigestError::Missing { name: "cnonce" });
        }
        let proof = found.required("response")?.to_owned();
        let chosen = protection.chosen(&found)?;
        Ok(Response { service, nonce, user, authorization, cnonce, chosen, proof })
    }
}

/// What a client claims: the password of [`Response::user`] decides.
#[derive(Debug)]
pub struct Response {
    service: Service,
    nonce: String,
    user: String,
    authorization: Option<String>,
    cnonce: String,
    chosen: Chosen,
    proof: String,
}

/// The client knows the password.
#[derive(Debug)]
pub struct Accepted {
    /// What the client is sent: the server knows it as well.
    pub rspauth: Vec<u8>,
    pub layer: Layer,
}

impl Response {
    /// Base64 of a token's identifier, as a rule.
    pub fn user(&self) -> &str {
        &self.user
    }

    pub fn qop(&self) -> Qop {
        self.chosen.qop
    }

    pub fn verify(self, password: &[u8]) -> Result<Accepted, DigestError> {
        let facts = Facts {
            user: &self.user,
            realm: self.service.realm,
            password,
            nonce: &self.nonce,
            cnonce: &self.cnonce,
            authorization: self.authorization.as_deref(),
            uri: &self.service.uri(),
            qop: self.chosen.qop,
        };
        let key = SessionKey::of(&facts);
        if !same(key.response(&facts).as_bytes(), self.proof.as_bytes()) {
            return Err(DigestError::Proof);
        }
        let rspauth = format!("rspauth={}", key.rspauth(&facts)).into_bytes();
        Ok(Accepted { rspauth, layer: Layer::new(End::Server, key, self.chosen) })
    }
}

#[cfg(test)]
impl Challenge {
    /// One that somebody else made.
    pub(crate) fn recorded(service: Service, protection: Protection, nonce: &str) -> Self {
        Self::with_nonce(service, protection, nonce.to_owned())
    }
}
