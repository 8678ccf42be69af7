//! The end of whoever dials: a client, or a datanode that forwards or copies.

use super::aes::Stream;
use super::channel::Channel;
use super::message::{HandshakeError, MAGIC, payload, read, success};
use super::progress::Progress;
use super::server::Keys;
use crate::sasl::digest::{self, Layer, NONCE_LEN, Protection, Qop, Responded, Service};
use base64ct::{Base64, Encoding};
use hdfs::proto::{CipherOptionProto, CipherSuiteProto};
use std::fmt;
use wire::delimited;

/// One connection's handshake.
pub struct Client {
    /// Whether AES is offered along with privacy, and, as a rule, then insisted on: the offer is no part of the proof,
    /// so whoever sits in between can take it away.
    uses_aes: bool,
    insists_on_aes: bool,
    state: State,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

enum State {
    Asked { client: digest::Client, cnonce: String },
    Responded(Responded),
    Over,
}

impl Client {
    /// Of a block token, as it came with a block. What is sent first comes with it. With `uses_aes`, privacy is AES or
    /// nothing.
    pub fn of_token(
        identifier: &[u8],
        password: &[u8],
        protection: Protection,
        uses_aes: bool,
        nonce: &[u8; NONCE_LEN],
    ) -> Result<(Self, Vec<u8>), HandshakeError> {
        Self::new(Base64::encode_string(identifier), password, protection, uses_aes, nonce)
    }

    /// As `user`: a token's identifier as base64, or the name of an encryption key ([`crate::encryption_key`]).
    pub fn new(
        user: String,
        password: &[u8],
        protection: Protection,
        uses_aes: bool,
        nonce: &[u8; NONCE_LEN],
    ) -> Result<(Self, Vec<u8>), HandshakeError> {
        Self::with_nonce(user, password, protection, uses_aes, Base64::encode_string(nonce))
    }

    pub(super) fn with_nonce(
        user: String,
        password: &[u8],
        protection: Protection,
        uses_aes: bool,
        cnonce: String,
    ) -> Result<(Self, Vec<u8>), HandshakeError> {
        let uses_aes = uses_aes && protection.qops.contains(&Qop::Privacy);
        let password = Base64::encode_string(password).into_bytes();
        let client = digest::Client::new(Service::TRANSFER, protection, user, password)?;
        let mut hello = MAGIC.to_vec();
        delimited::put(&success(Vec::new()), &mut hello);
        Ok((Self { uses_aes, insists_on_aes: uses_aes, state: State::Asked { client, cnonce } }, hello))
    }

    /// Goes on by a cipher of SASL's own where the other end knows no AES, as Apache HDFS does not unless it is told
    /// to.
    #[must_use]
    pub fn or_without_aes(self) -> Self {
        Self { insists_on_aes: false, ..self }
    }

    /// Takes what `bytes` begin with, as far as it is whole. What is behind it is to be brought again, with more behind
    /// it. An error ends the connection; where the server gave a reason, it is the error.
    pub fn on_bytes(&mut self, bytes: &[u8]) -> Result<Progress<Channel>, HandshakeError> {
        let mut progress = Progress { used_len: 0, send: Vec::new(), done: None };
        loop {
            let state = std::mem::replace(&mut self.state, State::Over);
            if matches!(state, State::Over) {
                return Err(HandshakeError::Over);
            }
            let Some((message, len)) = read(&bytes[progress.used_len..])? else {
                self.state = state;
                return Ok(progress);
            };
            progress.used_len += len;
            match state {
                State::Asked { client, cnonce } => {
                    let (response, responded) = client.respond_with(payload(&message)?, &cnonce)?;
                    let mut answer = success(response);
                    if self.uses_aes {
                        let suite = CipherSuiteProto::AesCtrNopadding.into();
                        answer.cipher_option = vec![CipherOptionProto { suite, ..CipherOptionProto::default() }];
                    }
                    delimited::put(&answer, &mut progress.send);
                    self.state = State::Responded(responded);
                }
                State::Responded(responded) => {
                    let mut layer = responded.finish(payload(&message)?)?;
                    let option = message.cipher_option.first().filter(|_| layer.qop() == Qop::Privacy);
                    progress.done = Some(match option {
                        Some(option) => self.channel(&keys(option, &mut layer)?)?,
                        None if self.insists_on_aes && layer.qop() == Qop::Privacy => {
                            return Err(HandshakeError::Cipher);
                        }
                        None => Channel::of_layer(layer),
                    });
                    return Ok(progress);
                }
                State::Over => return Err(HandshakeError::Over),
            }
        }
    }

    fn channel(&self, keys: &Keys) -> Result<Channel, HandshakeError> {
        if !self.uses_aes {
            return Err(HandshakeError::Cipher);
        }
        let [up, down] = [&keys.up, &keys.down].map(|(key, iv)| Stream::new(key, iv));
        let (up, down) = up.zip(down).ok_or(HandshakeError::Cipher)?;
        Ok(Channel::of_streams(up, down))
    }
}

/// The keys that a server sent, which the layer wrapped in this order.
pub(super) fn keys(option: &CipherOptionProto, layer: &mut Layer) -> Result<Keys, HandshakeError> {
    if option.suite() != CipherSuiteProto::AesCtrNopadding {
        return Err(HandshakeError::Cipher);
    }
    let mut one = |key: &Option<_>, iv: &Option<_>| -> Result<_, HandshakeError> {
        let (Some(wrapped), Some(iv)) = (key, iv) else { return Err(HandshakeError::Cipher) };
        let (wrapped, iv): (&bytes::Bytes, &bytes::Bytes) = (wrapped, iv);
        let mut key = Vec::new();
        layer.unwrap(wrapped, &mut key)?;
        Ok((key, iv[..].try_into().map_err(|_| HandshakeError::Cipher)?))
    };
    Ok(Keys { up: one(&option.in_key, &option.in_iv)?, down: one(&option.out_key, &option.out_iv)? })
}
