//! The datanode's end.

use super::aes::{IV_LEN, KEY_LEN_MAX, KeyBits, Stream};
use super::channel::Channel;
use super::message::{HandshakeError, MAGIC, payload, read, success};
use super::progress::Progress;
use super::secrets::{Claim, Peer, SecretRefusal};
use crate::encryption_key::EncryptionKeyError;
use crate::sasl::digest::{Challenge, DigestError, Layer, NONCE_LEN, Protection, Qop, Service};
use hdfs::proto::{CipherOptionProto, CipherSuiteProto, DataTransferEncryptorMessageProto as Message};
use std::fmt;
use wire::delimited;

/// What a datanode accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// HDFS's `dfs.data.transfer.protection`.
    pub protection: Protection,
    /// Whether AES is taken where a client offers it along with privacy, and how long its keys are.
    pub aes: Option<KeyBits>,
}

/// Random bytes of a handshake: a nonce, and two keys with their vectors.
pub const RANDOM_LEN: usize = NONCE_LEN + 2 * (KEY_LEN_MAX + IV_LEN);

/// Keys of AES: from the client to the server, and back.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) up: (Vec<u8>, [u8; IV_LEN]),
    pub(super) down: (Vec<u8>, [u8; IV_LEN]),
}

impl Keys {
    fn draw(bits: KeyBits, random: &[u8; 2 * (KEY_LEN_MAX + IV_LEN)]) -> Self {
        let one = |from: usize| {
            let (key, iv) = random[from..from + KEY_LEN_MAX + IV_LEN].split_at(KEY_LEN_MAX);
            (key[..bits.key_len()].to_vec(), iv.try_into().expect("a vector's length"))
        };
        Self { up: one(0), down: one(KEY_LEN_MAX + IV_LEN) }
    }
}

/// A handshake that succeeded.
#[derive(Debug)]
pub struct Established {
    pub peer: Peer,
    pub qop: Qop,
    pub channel: Channel,
}

/// One connection's handshake. It begins with the magic number.
pub struct Server {
    settings: Settings,
    keys_random: [u8; RANDOM_LEN - NONCE_LEN],
    state: State,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Server")
    }
}

enum State {
    Magic { challenge: Challenge },
    Hello { challenge: Challenge },
    Challenged { challenge: Challenge },
    Over,
}

impl Server {
    /// `random` must never have served before, nor be foreseen by anybody.
    pub fn new(settings: Settings, random: &[u8; RANDOM_LEN]) -> Self {
        let (nonce, keys) = random.split_at(NONCE_LEN);
        let nonce = nonce.try_into().expect("a nonce's length");
        let challenge = Challenge::new(Service::TRANSFER, settings.protection.clone(), nonce);
        Self::with(settings, challenge, keys.try_into().expect("what is left"))
    }

    pub(super) fn with(settings: Settings, challenge: Challenge, keys_random: [u8; RANDOM_LEN - NONCE_LEN]) -> Self {
        Self { settings, keys_random, state: State::Magic { challenge } }
    }

    /// Takes what `bytes` begin with, as far as it is whole. What is behind it is to be brought again, with more behind
    /// it. An error is told to the peer ([`HandshakeError::reply`]), and ends the connection.
    pub fn on_bytes(
        &mut self,
        bytes: &[u8],
        claim: impl FnOnce(&str) -> Result<Claim, SecretRefusal>,
    ) -> Result<Progress<Established>, HandshakeError> {
        let mut progress = Progress { used_len: 0, send: Vec::new(), done: None };
        loop {
            let rest = &bytes[progress.used_len..];
            match std::mem::replace(&mut self.state, State::Over) {
                State::Magic { challenge } => {
                    let Some(magic) = rest.first_chunk::<4>() else {
                        self.state = State::Magic { challenge };
                        return Ok(progress);
                    };
                    if *magic != MAGIC {
                        return Err(HandshakeError::Magic);
                    }
                    progress.used_len += MAGIC.len();
                    self.state = State::Hello { challenge };
                }
                State::Hello { challenge } => {
                    let Some((_, len)) = read(rest)? else {
                        self.state = State::Hello { challenge };
                        return Ok(progress);
                    };
                    progress.used_len += len;
                    delimited::put(&success(challenge.text()), &mut progress.send);
                    self.state = State::Challenged { challenge };
                }
                State::Challenged { challenge } => {
                    let Some((message, len)) = read(rest)? else {
                        self.state = State::Challenged { challenge };
                        return Ok(progress);
                    };
                    progress.used_len += len;
                    progress.done = Some(self.accept(&message, challenge, claim, &mut progress.send)?);
                    return Ok(progress);
                }
                State::Over => return Err(HandshakeError::Over),
            }
        }
    }

    fn accept(
        &self,
        message: &Message,
        challenge: Challenge,
        claim: impl FnOnce(&str) -> Result<Claim, SecretRefusal>,
        send: &mut Vec<u8>,
    ) -> Result<Established, HandshakeError> {
        let response = challenge.read(payload(message)?)?;
        let claim = claim(response.user()).map_err(refused)?;
        let accepted = match response.verify(claim.password().as_bytes()) {
            Err(DigestError::Proof) => return Err(claim.forged()),
            verified => verified?,
        };
        let peer = claim.proven();
        let (qop, mut layer) = (accepted.layer.qop(), accepted.layer);
        let mut answer = success(accepted.rspauth);
        let is_offered = message.cipher_option.iter().any(|option| option.suite() == CipherSuiteProto::AesCtrNopadding);
        let channel = match self.settings.aes {
            Some(bits) if qop == Qop::Privacy && is_offered => {
                let keys = Keys::draw(bits, &self.keys_random);
                answer.cipher_option = vec![option(&keys, &mut layer)?];
                let [up, down] = [&keys.up, &keys.down].map(|(key, iv)| Stream::new(key, iv));
                let (up, down) = up.zip(down).expect("keys of AES");
                Channel::of_streams(down, up)
            }
            _ => Channel::of_layer(layer),
        };
        delimited::put(&answer, send);
        Ok(Established { peer, qop, channel })
    }
}

/// What the client is told of the chosen cipher. The layer serves for this alone.
fn option(keys: &Keys, layer: &mut Layer) -> Result<CipherOptionProto, HandshakeError> {
    let mut wrapped = |key: &[u8]| {
        let mut out = Vec::new();
        layer.wrap(key, &mut out).map(|()| out.into())
    };
    Ok(CipherOptionProto {
        suite: CipherSuiteProto::AesCtrNopadding.into(),
        in_key: Some(wrapped(&keys.up.0)?),
        in_iv: Some(keys.up.1.to_vec().into()),
        out_key: Some(wrapped(&keys.down.0)?),
        out_iv: Some(keys.down.1.to_vec().into()),
    })
}

fn refused(refusal: SecretRefusal) -> HandshakeError {
    let text = refusal.to_string();
    match refusal {
        SecretRefusal::Token(_) | SecretRefusal::Malformed => HandshakeError::Token { text },
        SecretRefusal::EncryptionKey(EncryptionKeyError::UnknownKey { .. }) => HandshakeError::EncryptionKey { text },
        SecretRefusal::EncryptionKey(_) => HandshakeError::Refused { text },
    }
}
