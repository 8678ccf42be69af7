//! What a connection is protected with after an exchange: messages, each sealed and numbered.
//!
//! ```text
//! integrity   ┌─────────┬──────────────────────┬───────┬──────────┐
//!             │ message │ HMAC-MD5, 10 bytes   │ 00 01 │ sequence │   MAC of sequence and message
//!             └─────────┴──────────────────────┴───────┴──────────┘
//! privacy     ┌─────────┬─────────┬────────────┬───────┬──────────┐
//!             │ message │ padding │ HMAC-MD5   │ 00 01 │ sequence │   padding: to whole blocks, each byte its length
//!             └─────────┴─────────┴────────────┴───────┴──────────┘
//!              ╰────────── encrypted ─────────╯         u32, from 0
//! ```
//!
//! An empty message is nothing, in both directions, as JDK has it. Whoever gets an error closes the connection.

use super::cipher::{BLOCK_LEN, Opening, Sealing};
use super::proof::SessionKey;
use super::protection::{Chosen, Qop};
use crate::secret::same;
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use std::fmt;

const MAC_LEN: usize = 10;
const TYPE: [u8; 2] = [0, 1];
/// Type and sequence number.
const TAIL_LEN: usize = 2 + 4;

/// By how much a sealed message is longer at most.
pub const OVERHEAD_MAX: usize = BLOCK_LEN + MAC_LEN + TAIL_LEN;

const CLIENT_SIGNING: &[u8] = b"Digest session key to client-to-server signing key magic constant";
const SERVER_SIGNING: &[u8] = b"Digest session key to server-to-client signing key magic constant";
const CLIENT_SEALING: &[u8] = b"Digest H(A1) to client-to-server sealing key magic constant";
const SERVER_SEALING: &[u8] = b"Digest H(A1) to server-to-client sealing key magic constant";

/// Why a message is not taken, or none can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayerError {
    #[error("a sealed message of {len} bytes, which none has")]
    Length { len: usize },
    #[error("a sealed message of another type than 1")]
    Type,
    #[error("sealed message {have} where {want} comes next")]
    Sequence { have: u32, want: u32 },
    #[error("a sealed message was changed on its way")]
    Changed,
    /// 2³² messages were sealed: another would have the number of the first.
    #[error("the connection has no numbers left for messages")]
    Exhausted,
}

/// Both directions of one end.
pub struct Layer {
    qop: Qop,
    sealer: Sealer,
    opener: Opener,
}

/// The direction in which an end sends.
pub struct Sealer {
    qop: Qop,
    sending: Direction,
    cipher: Option<Sealing>,
}

/// The direction in which an end receives.
pub struct Opener {
    qop: Qop,
    receiving: Direction,
    cipher: Option<Opening>,
}

impl fmt::Debug for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Layer({})", self.qop.name())
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer({})", self.qop.name())
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opener({})", self.qop.name())
    }
}

struct Direction {
    keyed: Hmac<Md5>,
    /// `None`: all were used.
    next: Option<u32>,
}

impl Direction {
    fn new(key: [u8; 16]) -> Self {
        Self { keyed: Hmac::new_from_slice(&key).expect("HMAC takes keys of any length"), next: Some(0) }
    }

    fn mac(&self, sequence: u32, message: &[u8]) -> [u8; MAC_LEN] {
        let mut mac = self.keyed.clone();
        mac.update(&sequence.to_be_bytes());
        mac.update(message);
        let whole: [u8; 16] = mac.finalize().into_bytes().into();
        *whole.first_chunk().expect("16 bytes are more than 10")
    }
}

/// Which end of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Client,
    Server,
}

impl Layer {
    pub(super) fn new(end: End, key: SessionKey, chosen: Chosen) -> Self {
        let (up, down) = (key.derive(CLIENT_SIGNING), key.derive(SERVER_SIGNING));
        let (sealed_up, sealed_down) = (key.derive(CLIENT_SEALING), key.derive(SERVER_SEALING));
        let (sign, verify, seal, open) = match end {
            End::Client => (up, down, sealed_up, sealed_down),
            End::Server => (down, up, sealed_down, sealed_up),
        };
        Self {
            qop: chosen.qop,
            sealer: Sealer {
                qop: chosen.qop,
                sending: Direction::new(sign),
                cipher: chosen.cipher.map(|cipher| Sealing::new(cipher, &seal)),
            },
            opener: Opener {
                qop: chosen.qop,
                receiving: Direction::new(verify),
                cipher: chosen.cipher.map(|cipher| Opening::new(cipher, &open)),
            },
        }
    }

    /// For whoever sends and receives in different places.
    pub fn split(self) -> (Sealer, Opener) {
        (self.sealer, self.opener)
    }

    pub fn qop(&self) -> Qop {
        self.qop
    }

    /// Whether messages are sealed at all: with authentication alone they stay as they are.
    pub fn is_sealing(&self) -> bool {
        self.qop != Qop::Auth
    }

    /// See [`Sealer::wrap`].
    pub fn wrap(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<(), LayerError> {
        self.sealer.wrap(message, out)
    }

    /// See [`Opener::unwrap`].
    pub fn unwrap(&mut self, sealed: &[u8], out: &mut Vec<u8>) -> Result<(), LayerError> {
        self.opener.unwrap(sealed, out)
    }
}

impl Sealer {
    /// Appends the sealed form of `message`. The peer may have told how much it takes at once; JDK takes any length.
    pub fn wrap(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<(), LayerError> {
        if self.qop == Qop::Auth || message.is_empty() {
            out.extend_from_slice(message);
            return Ok(());
        }
        let sequence = self.sending.next.ok_or(LayerError::Exhausted)?;
        let start = out.len();
        out.reserve(message.len() + OVERHEAD_MAX);
        out.extend_from_slice(message);
        if let Some(sealing) = &self.cipher
            && sealing.block_len() > 1
        {
            let padding = BLOCK_LEN - (message.len() + MAC_LEN) % BLOCK_LEN;
            out.resize(out.len() + padding, padding as u8);
        }
        out.extend_from_slice(&self.sending.mac(sequence, message));
        if let Some(sealing) = &mut self.cipher {
            sealing.apply(&mut out[start..]);
        }
        out.extend_from_slice(&TYPE);
        out.extend_from_slice(&sequence.to_be_bytes());
        self.sending.next = sequence.checked_add(1);
        Ok(())
    }
}

impl Opener {
    /// Appends the message that `sealed` is, whole.
    pub fn unwrap(&mut self, sealed: &[u8], out: &mut Vec<u8>) -> Result<(), LayerError> {
        if self.qop == Qop::Auth || sealed.is_empty() {
            out.extend_from_slice(sealed);
            return Ok(());
        }
        let malformed = LayerError::Length { len: sealed.len() };
        let (body, tail) = sealed.split_last_chunk::<TAIL_LEN>().ok_or(malformed)?;
        let block_len = self.cipher.as_ref().map_or(1, Opening::block_len);
        if body.len() <= MAC_LEN || body.len() % block_len != 0 {
            return Err(malformed);
        }
        let [t0, t1, s0, s1, s2, s3] = *tail;
        if [t0, t1] != TYPE {
            return Err(LayerError::Type);
        }
        let have = u32::from_be_bytes([s0, s1, s2, s3]);
        let want = self.receiving.next.ok_or(LayerError::Exhausted)?;
        if have != want {
            return Err(LayerError::Sequence { have, want });
        }
        let start = out.len();
        out.extend_from_slice(body);
        match self.opened(want, &mut out[start..], block_len) {
            Some(message_len) => {
                out.truncate(start + message_len);
                self.receiving.next = want.checked_add(1);
                Ok(())
            }
            None => {
                out.truncate(start);
                Err(LayerError::Changed)
            }
        }
    }

    /// Decrypts in place, and answers how long the message is; `None` if it was changed, in whatever part.
    fn opened(&mut self, sequence: u32, body: &mut [u8], block_len: usize) -> Option<usize> {
        if let Some(opening) = &mut self.cipher {
            opening.apply(body);
        }
        let (padded, mac) = body.split_last_chunk::<MAC_LEN>()?;
        let padding = if block_len > 1 { usize::from(*padded.last()?) } else { 0 };
        // A MAC is compared in any case, so that wrong padding takes as long as a wrong MAC.
        let is_padded = padding <= block_len && padding < padded.len() && (padding > 0 || block_len == 1);
        let message_len = padded.len() - if is_padded { padding } else { 0 };
        let is_same = same(&self.receiving.mac(sequence, &padded[..message_len]), mac);
        let is_even = padded[message_len..].iter().all(|byte| usize::from(*byte) == padding);
        (is_padded && is_same && is_even).then_some(message_len)
    }
}

#[cfg(test)]
mod tests {
    use super::super::proof::Facts;
    use super::super::protection::Cipher;
    use super::*;
    use proptest::prelude::*;

    /// Both ends of a connection.
    fn ends(qop: Qop, cipher: Option<Cipher>) -> (Layer, Layer) {
        let facts = Facts {
            user: "u",
            realm: "r",
            password: b"p",
            nonce: "n",
            cnonce: "c",
            authorization: None,
            uri: "/x",
            qop,
        };
        let key = SessionKey::of(&facts);
        [End::Client, End::Server].map(|end| Layer::new(end, key, Chosen { qop, cipher })).into()
    }

    fn all() -> [(Qop, Option<Cipher>); 4] {
        let [des, rc4] = Cipher::ALL.map(|cipher| (Qop::Privacy, Some(cipher)));
        [(Qop::Auth, None), (Qop::Integrity, None), des, rc4]
    }

    fn wrapped(layer: &mut Layer, message: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        layer.wrap(message, &mut out).unwrap();
        out
    }

    fn unwrapped(layer: &mut Layer, sealed: &[u8]) -> Result<Vec<u8>, LayerError> {
        let mut out = b"before".to_vec();
        let outcome = layer.unwrap(sealed, &mut out);
        assert!(out.starts_with(b"before") && (outcome.is_ok() || out.len() == 6));
        outcome.map(|()| out.split_off(6))
    }

    #[test]
    fn messages_replayed_left_out_or_sent_back_are_refused() {
        for (qop, cipher) in all().into_iter().skip(1) {
            let (mut client, mut server) = ends(qop, cipher);
            let [first, second, third] = [b"one", b"two", b"six"].map(|message| wrapped(&mut client, message));
            assert_eq!(unwrapped(&mut server, &first), Ok(b"one".to_vec()));
            assert_eq!(unwrapped(&mut server, &first), Err(LayerError::Sequence { have: 0, want: 1 }));
            assert_eq!(unwrapped(&mut server, &third), Err(LayerError::Sequence { have: 2, want: 1 }));
            assert_eq!(unwrapped(&mut client, &first), Err(LayerError::Changed), "its own words");
            assert_eq!(unwrapped(&mut server, &second), Ok(b"two".to_vec()), "{qop:?} {cipher:?}");
        }
    }

    #[test]
    fn numbers_are_used_once() {
        let (mut client, mut server) = ends(Qop::Integrity, None);
        client.sealer.sending.next = Some(u32::MAX);
        server.opener.receiving.next = Some(u32::MAX);
        let last = wrapped(&mut client, b"last");
        assert_eq!(unwrapped(&mut server, &last), Ok(b"last".to_vec()));
        assert_eq!(client.wrap(b"more", &mut Vec::new()), Err(LayerError::Exhausted));
        assert_eq!(unwrapped(&mut server, &last), Err(LayerError::Exhausted));
    }

    #[test]
    fn what_cannot_be_a_message_is_refused() {
        let (mut client, mut server) = ends(Qop::Privacy, Some(Cipher::TripleDes));
        let sealed = wrapped(&mut client, b"x");
        assert_eq!(sealed.len(), 16 + TAIL_LEN);
        for len in 1..sealed.len() {
            assert!(unwrapped(&mut server, &sealed[sealed.len() - len..]).is_err(), "{len} bytes of it");
        }
        let mut other = sealed.clone();
        other[17] = 2;
        assert_eq!(unwrapped(&mut server, &other), Err(LayerError::Type));
        assert_eq!(unwrapped(&mut server, b""), Ok(Vec::new()));
        assert_eq!(unwrapped(&mut server, &sealed), Ok(b"x".to_vec()), "nothing was opened yet");
    }

    proptest! {
        #[test]
        fn what_is_sealed_is_opened(messages in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 0..300), 1..8), which in 0usize..4) {
            let (qop, cipher) = all()[which];
            let (mut client, mut server) = ends(qop, cipher);
            for message in messages {
                let up = wrapped(&mut client, &message);
                prop_assert!(up.len() <= message.len() + OVERHEAD_MAX);
                prop_assert_eq!(unwrapped(&mut server, &up), Ok(message.clone()));
                let down = wrapped(&mut server, &message);
                prop_assert_eq!(unwrapped(&mut client, &down), Ok(message));
            }
        }

        #[test]
        fn no_change_goes_unnoticed(message in proptest::collection::vec(any::<u8>(), 1..40),
            which in 1usize..4, bit: u16) {
            let (qop, cipher) = all()[which];
            let (mut client, mut server) = ends(qop, cipher);
            let mut sealed = wrapped(&mut client, &message);
            let bit = usize::from(bit) % (sealed.len() * 8);
            sealed[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(unwrapped(&mut server, &sealed).is_err());
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), which in 0usize..4) {
            let (qop, cipher) = all()[which];
            let mut sealed = bytes.clone();
            sealed.extend_from_slice(&[0, 1, 0, 0, 0, 0]);
            let (_, mut server) = ends(qop, cipher);
            let _ = unwrapped(&mut server, &bytes);
            let _ = unwrapped(&mut server, &sealed);
        }
    }
}
