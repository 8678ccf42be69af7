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

use super::cipher::{Opening, Sealing};
use super::mac::{Keyed, LANES};
use super::proof::SessionKey;
use super::protection::{Chosen, Qop};
use super::triple_des::BLOCK_LEN;
use crate::secret::same;
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
    keyed: Keyed,
    /// `None`: all were used.
    next: Option<u32>,
}

impl Direction {
    fn new(key: [u8; 16]) -> Self {
        Self { keyed: Keyed::new(key), next: Some(0) }
    }

    /// Of messages that are numbered from `first`, at most [`LANES`].
    fn macs(&self, first: u32, messages: &[&[u8]]) -> [[u8; MAC_LEN]; LANES] {
        self.keyed.macs(first, messages).map(|whole| *whole.first_chunk().expect("16 bytes are more than 10"))
    }

    /// Takes as many numbers, and answers the first one.
    fn take(&mut self, count: usize) -> Result<u32, LayerError> {
        let first = self.next.ok_or(LayerError::Exhausted)?;
        let others = u32::try_from(count.saturating_sub(1)).map_err(|_| LayerError::Exhausted)?;
        let last = first.checked_add(others).ok_or(LayerError::Exhausted)?;
        self.next = last.checked_add(1);
        Ok(first)
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
        self.wrap_each(&[message], out, |_, _| ())
    }

    /// Appends the sealed forms of messages, none of them empty, each behind what `before` appends, which is told how
    /// long it is. Several at once cost less than one after the other.
    pub(in crate::sasl) fn wrap_each(
        &mut self,
        messages: &[&[u8]],
        out: &mut Vec<u8>,
        mut before: impl FnMut(&mut Vec<u8>, usize),
    ) -> Result<(), LayerError> {
        for group in messages.chunks(LANES) {
            let first = self.sending.take(group.len())?;
            let macs = self.sending.macs(first, group);
            for (sequence, (message, mac)) in (first..=u32::MAX).zip(group.iter().zip(macs)) {
                let sealed_len = message.len() + self.padding(message.len()) + MAC_LEN + TAIL_LEN;
                before(out, sealed_len);
                self.append(sequence, message, &mac, out);
            }
        }
        Ok(())
    }

    fn padding(&self, message_len: usize) -> usize {
        let is_padded = self.cipher.as_ref().is_some_and(|sealing| sealing.block_len() > 1);
        if is_padded { BLOCK_LEN - (message_len + MAC_LEN) % BLOCK_LEN } else { 0 }
    }

    fn append(&mut self, sequence: u32, message: &[u8], mac: &[u8; MAC_LEN], out: &mut Vec<u8>) {
        let (start, padding) = (out.len(), self.padding(message.len()));
        out.reserve(message.len() + OVERHEAD_MAX);
        out.extend_from_slice(message);
        out.resize(out.len() + padding, padding as u8);
        out.extend_from_slice(mac);
        if let Some(sealing) = &mut self.cipher {
            sealing.apply(&mut out[start..]);
        }
        out.extend_from_slice(&TYPE);
        out.extend_from_slice(&sequence.to_be_bytes());
    }
}

impl Opener {
    /// Appends the message that `sealed` is, whole.
    pub fn unwrap(&mut self, sealed: &[u8], out: &mut Vec<u8>) -> Result<(), LayerError> {
        if self.qop == Qop::Auth || sealed.is_empty() {
            out.extend_from_slice(sealed);
            return Ok(());
        }
        let want = self.receiving.next.ok_or(LayerError::Exhausted)?;
        let body = self.body(sealed, want)?;
        let start = out.len();
        out.extend_from_slice(body);
        match self.opened(want, &mut out[start..]) {
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

    /// As [`Opener::unwrap`] for each. Several at once cost less than one after the other.
    pub(in crate::sasl) fn unwrap_each(&mut self, sealed: &[&[u8]], out: &mut Vec<u8>) -> Result<(), LayerError> {
        // What is encrypted is one stream, and an empty piece has no number.
        if self.qop != Qop::Integrity || sealed.iter().any(|sealed| sealed.is_empty()) {
            return sealed.iter().try_for_each(|sealed| self.unwrap(sealed, out));
        }
        for group in sealed.chunks(LANES) {
            let first = self.receiving.take(group.len())?;
            let mut messages = [&[][..]; LANES];
            let mut is_changed = false;
            for ((message, sealed), want) in messages.iter_mut().zip(group).zip(first..=u32::MAX) {
                let body = self.body(sealed, want)?;
                *message = &body[..body.len() - MAC_LEN];
            }
            let messages = &messages[..group.len()];
            for ((mac, message), sealed) in self.receiving.macs(first, messages).iter().zip(messages).zip(group) {
                is_changed |= !same(mac, &sealed[message.len()..message.len() + MAC_LEN]);
            }
            if is_changed {
                return Err(LayerError::Changed);
            }
            messages.iter().for_each(|message| out.extend_from_slice(message));
        }
        Ok(())
    }

    fn block_len(&self) -> usize {
        self.cipher.as_ref().map_or(1, Opening::block_len)
    }

    /// What a sealed message has before its tail, if it can be the one that comes next.
    fn body<'a>(&self, sealed: &'a [u8], want: u32) -> Result<&'a [u8], LayerError> {
        let malformed = LayerError::Length { len: sealed.len() };
        let (body, tail) = sealed.split_last_chunk::<TAIL_LEN>().ok_or(malformed)?;
        if body.len() <= MAC_LEN || body.len() % self.block_len() != 0 {
            return Err(malformed);
        }
        let [t0, t1, s0, s1, s2, s3] = *tail;
        if [t0, t1] != TYPE {
            return Err(LayerError::Type);
        }
        let have = u32::from_be_bytes([s0, s1, s2, s3]);
        if have != want { Err(LayerError::Sequence { have, want }) } else { Ok(body) }
    }

    /// Decrypts in place, and answers how long the message is; `None` if it was changed, in whatever part.
    fn opened(&mut self, sequence: u32, body: &mut [u8]) -> Option<usize> {
        if let Some(opening) = &mut self.cipher {
            opening.apply(body);
        }
        let block_len = self.block_len();
        let (padded, mac) = body.split_last_chunk::<MAC_LEN>()?;
        let padding = if block_len > 1 { usize::from(*padded.last()?) } else { 0 };
        // A MAC is compared in any case, so that wrong padding takes as long as a wrong MAC.
        let is_padded = padding <= block_len && padding < padded.len() && (padding > 0 || block_len == 1);
        let message_len = padded.len() - if is_padded { padding } else { 0 };
        let [have, ..] = self.receiving.macs(sequence, &[&padded[..message_len]]);
        let is_same = same(&have, mac);
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

    /// Sealed side by side, opened one after the other and side by side; changed anywhere, nothing of it is taken.
    #[test]
    fn several_at_once_are_what_they_are_alone() {
        for (qop, cipher) in all().into_iter().skip(1) {
            let (mut client, mut server) = ends(qop, cipher);
            let (mut alone, _) = ends(qop, cipher);
            let text: Vec<u8> = (0..40 * 41).map(|i| i as u8).collect();
            let messages: Vec<&[u8]> = (1..=40).map(|len| &text[len * len..][..len]).collect();
            let (mut together, mut one_by_one) = (Vec::new(), Vec::new());
            let mut lens = Vec::new();
            client.sealer.wrap_each(&messages, &mut together, |_, len| lens.push(len)).unwrap();
            messages.iter().for_each(|message| alone.wrap(message, &mut one_by_one).unwrap());
            assert!(together == one_by_one, "{qop:?} {cipher:?}");
            let mut rest = &together[..];
            let sealed: Vec<&[u8]> = lens.iter().map(|len| rest.split_off(..*len).unwrap()).collect();
            let mut opened = b"before".to_vec();
            server.opener.unwrap_each(&sealed, &mut opened).unwrap();
            assert_eq!(&opened[6..], messages.concat());
            for at in [0, 20, 39] {
                let (_, mut server) = ends(qop, cipher);
                let mut changed = sealed[at].to_vec();
                changed[0] ^= 1;
                let mut sealed = sealed.clone();
                sealed[at] = &changed;
                let refused = server.opener.unwrap_each(&sealed, &mut Vec::new());
                assert_eq!(refused, Err(LayerError::Changed), "{qop:?} {cipher:?} at {at}");
            }
        }
    }

    #[test]
    fn several_at_once_stop_at_the_last_number() {
        let (mut client, _) = ends(Qop::Integrity, None);
        client.sealer.sending.next = Some(u32::MAX - 1);
        let refused = client.sealer.wrap_each(&[b"a", b"b", b"c"], &mut Vec::new(), |_, _| ());
        assert_eq!(refused, Err(LayerError::Exhausted));
        client.sealer.wrap_each(&[b"a", b"b"], &mut Vec::new(), |_, _| ()).unwrap();
        assert_eq!(client.wrap(b"c", &mut Vec::new()), Err(LayerError::Exhausted));
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
