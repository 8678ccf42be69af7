//! What a data connection is after its handshake. Operations, packets and acks go through it in both directions.
//!
//! ```text
//! plain     the bytes as they are
//! sealed    ┌──────────┬──────────────────┬──────────┬─ ─      pieces, each behind its length, sealed by the layer
//!           │ len u32  │ sealed, ≥ 17 B   │ len u32  │
//!           └──────────┴──────────────────┴──────────┴─ ─
//! AES       each byte encrypted by itself
//! ```

use super::aes::Stream;
use crate::sasl::digest::{LANES, Layer, LayerError, OVERHEAD_MAX, Opener, Sealer};
use types::limits::PACKET_LEN_MAX;

/// Longest sealed piece taken. Stock clients, Java's and hdfs-native, seal each write whole, so a packet is one piece,
/// however long their settings make it (`dfs.client-write-packet-size`); Java with whatever it had buffered before.
pub const FRAME_LEN_MAX: usize = PACKET_LEN_MAX as usize + (64 << 10);
/// Pieces are not shorter, as stock clients read each by itself. Where [`LANES`] of them do not hold all bytes they are
/// longer: no more than go side by side.
const PIECE_LEN: usize = 8 << 10;
/// What is sealed at once, in pieces of 16 KiB. A guess: more saves few calls, and each connection holds it.
pub const SEND_LEN: usize = 2 * LANES * PIECE_LEN;
const LENGTH_LEN: usize = 4;
/// What a connection holds without need, and by how much memory for a piece grows at first: a whole piece of JDK's.
const HELD_LEN_MAX: usize = 64 << 10;

/// Why the connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    #[error("a sealed piece of {len} bytes, at most {FRAME_LEN_MAX} are allowed")]
    FrameLength { len: u32 },
    #[error(transparent)]
    Layer(#[from] LayerError),
}

#[derive(Debug)]
pub struct Channel {
    sending: Sending,
    receiving: Receiving,
}

impl Channel {
    pub(super) fn of_layer(layer: Layer) -> Self {
        if !layer.is_sealing() {
            return Self { sending: Sending::Plain, receiving: Receiving::Plain };
        }
        let (sealer, opener) = layer.split();
        let receiving = Receiving::Sealed { opener: Box::new(opener), pending: Vec::new() };
        Self { sending: Sending::Sealed(Box::new(sealer)), receiving }
    }

    pub(super) fn of_streams(sending: Stream, receiving: Stream) -> Self {
        Self { sending: Sending::Aes(sending), receiving: Receiving::Aes(receiving) }
    }

    /// Whether bytes go as they are: from a file to the socket, if one likes.
    pub fn is_plain(&self) -> bool {
        self.sending.is_plain()
    }

    pub fn split(self) -> (Sending, Receiving) {
        (self.sending, self.receiving)
    }
}

/// The direction in which this end sends.
#[derive(Debug)]
pub enum Sending {
    Plain,
    Sealed(Box<Sealer>),
    Aes(Stream),
}

impl Sending {
    pub fn is_plain(&self) -> bool {
        matches!(self, Self::Plain)
    }

    /// Appends what goes over the socket for `bytes`.
    pub fn send(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ChannelError> {
        match self {
            Self::Plain => out.extend_from_slice(bytes),
            Self::Aes(stream) => {
                let start = out.len();
                out.extend_from_slice(bytes);
                stream.apply(&mut out[start..]);
            }
            Self::Sealed(sealer) => {
                for bytes in bytes.chunks(SEND_LEN) {
                    let mut pieces = Pieces::default();
                    let piece_len = bytes.len().div_ceil(LANES).max(PIECE_LEN);
                    bytes.chunks(piece_len).for_each(|piece| pieces.push(piece));
                    sealer
                        .wrap_each(pieces.get(), out, |out, len| out.extend_from_slice(&(len as u32).to_be_bytes()))?;
                }
            }
        }
        Ok(())
    }

    /// How long at most what goes over the socket for `len` bytes is.
    pub fn sealed_len_max(&self, len: usize) -> usize {
        match self {
            Self::Plain | Self::Aes(_) => len,
            Self::Sealed(_) => len + len.div_ceil(PIECE_LEN) * (LENGTH_LEN + OVERHEAD_MAX),
        }
    }
}

/// The direction in which this end receives.
#[derive(Debug)]
pub enum Receiving {
    Plain,
    Sealed {
        opener: Box<Opener>,
        /// The beginning of a piece, at most one.
        pending: Vec<u8>,
    },
    Aes(Stream),
}

impl Receiving {
    /// Appends what `bytes` are, in whatever cuts they come. After an error nothing more is to be received.
    pub fn receive(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ChannelError> {
        match self {
            Self::Plain => out.extend_from_slice(bytes),
            Self::Aes(stream) => {
                let start = out.len();
                out.extend_from_slice(bytes);
                stream.apply(&mut out[start..]);
            }
            Self::Sealed { opener, pending } => {
                while !bytes.is_empty() {
                    let is_begun = !pending.is_empty();
                    if is_begun {
                        bytes = fill(pending, bytes)?;
                    }
                    let mut pieces = Pieces::default();
                    if is_begun {
                        match whole(pending)? {
                            Some((sealed, _)) => pieces.push(sealed),
                            None => return Ok(()),
                        }
                    }
                    // Straight from what came, where they are whole.
                    while !pieces.is_full()
                        && let Some((sealed, behind)) = whole(bytes)?
                    {
                        pieces.push(sealed);
                        bytes = behind;
                    }
                    opener.unwrap_each(pieces.get(), out)?;
                    if is_begun {
                        pending.clear();
                        pending.shrink_to(HELD_LEN_MAX);
                    }
                    if pending.is_empty() && whole(bytes)?.is_none() {
                        bytes = fill(pending, bytes)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// As [`Receiving::receive`] in place, where the length does not change. False: it would, and nothing was done.
    pub fn receive_in_place(&mut self, bytes: &mut [u8]) -> bool {
        match self {
            Self::Plain => true,
            Self::Aes(stream) => {
                stream.apply(bytes);
                true
            }
            Self::Sealed { .. } => false,
        }
    }

    /// Gives back what is held for a next piece, unless one has begun.
    pub fn rest(&mut self) {
        if let Self::Sealed { pending, .. } = self
            && pending.is_empty()
        {
            *pending = Vec::new();
        }
    }

    /// The length of the piece that `bytes` complete, if its beginning was held: so much is opened besides what `bytes`
    /// hold whole.
    pub fn completed_len(&self, bytes: &[u8]) -> usize {
        match self {
            Self::Sealed { pending, .. } => match frame_len(pending) {
                Ok(Some(len)) if pending.len() + bytes.len() >= LENGTH_LEN + len => len,
                _ => 0,
            },
            Self::Plain | Self::Aes(_) => 0,
        }
    }

    /// The beginning of a piece came, and not its end.
    pub fn is_within_piece(&self) -> bool {
        matches!(self, Self::Sealed { pending, .. } if !pending.is_empty())
    }

    /// Memory that is held at most while `bytes` are received, and behind that: for whoever counts it before.
    pub fn held_len_with(&self, mut bytes: &[u8]) -> usize {
        let Self::Sealed { pending, .. } = self else { return 0 };
        let mut held_len = pending.capacity();
        if !pending.is_empty() {
            // Its length may have been cut.
            let mut length = [0; LENGTH_LEN];
            let first = pending.iter().chain(bytes);
            let count = length.iter_mut().zip(first).map(|(to, from)| *to = *from).count();
            let wanted = wanted_len(&length[..count]);
            let taken = bytes.len().min(wanted.saturating_sub(pending.len()));
            held_len = held_len.max(room_len(held_len, pending.len() + taken, wanted));
            bytes = &bytes[taken..];
        }
        while let Ok(Some((_, behind))) = whole(bytes) {
            bytes = behind;
        }
        if bytes.is_empty() { held_len } else { held_len.max(room_len(held_len, bytes.len(), wanted_len(bytes))) }
    }

    /// Memory that is held for a piece that is not whole yet, or for the next one: for whoever accounts it. At rest it
    /// is 64 KiB at most.
    pub fn held_len(&self) -> usize {
        match self {
            Self::Sealed { pending, .. } => pending.capacity(),
            Self::Plain | Self::Aes(_) => 0,
        }
    }
}

/// Pieces that are sealed or opened side by side.
#[derive(Default)]
struct Pieces<'a> {
    pieces: [&'a [u8]; LANES],
    count: usize,
}

impl<'a> Pieces<'a> {
    fn is_full(&self) -> bool {
        self.count == LANES
    }

    fn push(&mut self, piece: &'a [u8]) {
        self.pieces[self.count] = piece;
        self.count += 1;
    }

    fn get(&self) -> &[&'a [u8]] {
        &self.pieces[..self.count]
    }
}

/// A piece, and what is behind it.
type Split<'a> = (&'a [u8], &'a [u8]);

/// The piece at the start of `bytes`; `None`: more bytes must come.
fn whole(bytes: &[u8]) -> Result<Option<Split<'_>>, ChannelError> {
    let Some(len) = frame_len(bytes)? else { return Ok(None) };
    Ok(bytes[LENGTH_LEN..].split_at_checked(len))
}

/// Takes from `bytes` what the piece that has begun lacks, or its length, and answers the rest.
fn fill<'a>(pending: &mut Vec<u8>, mut bytes: &'a [u8]) -> Result<&'a [u8], ChannelError> {
    loop {
        let wanted = frame_len(pending)?.map_or(LENGTH_LEN, |len| LENGTH_LEN + len);
        let taken = bytes.len().min(wanted - pending.len());
        if taken == 0 {
            return Ok(bytes);
        }
        make_room(pending, taken, wanted);
        pending.extend_from_slice(&bytes[..taken]);
        bytes = &bytes[taken..];
    }
}

/// Makes room for `taken` bytes more of a piece of `wanted` bytes. A length is cheap to announce: so memory at most
/// doubles with what has come, and does not exceed the piece.
fn make_room(pending: &mut Vec<u8>, taken: usize, wanted: usize) {
    let needed = pending.len() + taken;
    if needed > pending.capacity() {
        pending.reserve_exact(room_len(pending.capacity(), needed, wanted) - pending.len());
    }
}

/// What is room for `needed` bytes of a piece of `wanted`, where there was room for `held_len`.
fn room_len(held_len: usize, needed: usize, wanted: usize) -> usize {
    if needed <= held_len { held_len } else { needed.max(2 * held_len).max(HELD_LEN_MAX).min(wanted) }
}

/// Up to where bytes are held of the piece at the start of `bytes`: to its end, or to that of its length.
fn wanted_len(bytes: &[u8]) -> usize {
    frame_len(bytes).ok().flatten().map_or(LENGTH_LEN, |len| LENGTH_LEN + len)
}

/// The length of the piece at the start of `bytes`; `None`: more bytes must come.
fn frame_len(bytes: &[u8]) -> Result<Option<usize>, ChannelError> {
    let Some(first) = bytes.first_chunk::<LENGTH_LEN>() else { return Ok(None) };
    let len = u32::from_be_bytes(*first);
    if len as usize > FRAME_LEN_MAX {
        return Err(ChannelError::FrameLength { len });
    }
    Ok(Some(len as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sasl::digest::{Challenge, Client, NONCE_LEN, Protection, Qop, Service};
    use proptest::prelude::*;

    /// What the client's end sends with, and what the server's receives with.
    fn ends(which: usize) -> (Sending, Receiving) {
        if which == 3 {
            let streams = [(); 2].map(|()| Stream::new(&[3; 16], &[5; 16]).unwrap());
            let [one, other] = streams;
            return (Sending::Aes(one), Receiving::Aes(other));
        }
        let protection = Protection::of(&[[Qop::Auth, Qop::Integrity, Qop::Privacy][which]]);
        let server = Challenge::new(Service::TRANSFER, protection.clone(), &[7; NONCE_LEN]);
        let client = Client::new(Service::TRANSFER, protection, "u".into(), b"p".to_vec()).unwrap();
        let (response, client) = client.respond(&server.text(), &[9; NONCE_LEN]).unwrap();
        let server = server.read(&response).unwrap().verify(b"p").unwrap();
        let client = client.finish(&server.rspauth).unwrap();
        (Channel::of_layer(client).split().0, Channel::of_layer(server.layer).split().1)
    }

    #[test]
    fn lengths_are_bounded_before_their_bytes_come() {
        let (_, mut receiving) = ends(2);
        let mut out = Vec::new();
        receiving.receive(&[1], &mut out).unwrap();
        let refused = receiving.receive(&[0xff; 3], &mut out).unwrap_err();
        assert_eq!(refused, ChannelError::FrameLength { len: 0x1ff_ffff });
    }

    #[test]
    fn memory_grows_with_what_comes_and_is_given_back() {
        let (mut sending, mut receiving) = ends(1);
        let Sending::Sealed(sealer) = &mut sending else { panic!() };
        let mut sealed = Vec::new();
        sealer.wrap(&vec![7; 1 << 20], &mut sealed).unwrap();
        let wanted = LENGTH_LEN + sealed.len();
        let sent = [&(sealed.len() as u32).to_be_bytes()[..], &sealed].concat();
        let mut out = Vec::new();
        assert_eq!(receiving.held_len(), 0);
        let mut came = 0;
        for cut in sent.chunks(10_000) {
            let bound = receiving.held_len_with(cut);
            receiving.receive(cut, &mut out).unwrap();
            assert!(receiving.held_len() <= bound, "{} bytes, not {bound}", receiving.held_len());
            came += cut.len();
            assert!(receiving.held_len() <= HELD_LEN_MAX.max(2 * came).min(wanted), "{came} bytes came");
            assert!(came == sent.len() || receiving.held_len() >= came);
        }
        assert_eq!(out.len(), 1 << 20);
        assert!(receiving.held_len() <= HELD_LEN_MAX);
    }

    /// As many as there are lanes, if they are not too short for who reads them.
    #[test]
    fn long_bytes_are_sealed_in_pieces() {
        for (len, piece_count) in [
            (SEND_LEN + 70_000, 2 * LANES),
            (SEND_LEN, LANES),
            (66_000, LANES),
            (PIECE_LEN + 1, 2),
            (PIECE_LEN, 1),
            (100, 1),
        ] {
            let (mut sending, mut receiving) = ends(1);
            let bytes = vec![7; len];
            let (mut sent, mut received) = (Vec::new(), Vec::new());
            sending.send(&bytes, &mut sent).unwrap();
            assert_eq!(sent.len(), len + piece_count * (4 + 16), "{len} bytes in {piece_count} pieces");
            assert!(sent.len() <= sending.sealed_len_max(len));
            receiving.receive(&sent, &mut received).unwrap();
            assert!(received == bytes && !sending.is_plain());
        }
    }

    proptest! {
        #[test]
        fn bytes_arrive_in_whatever_cuts(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..6),
            cuts in proptest::collection::vec(1usize..90, 1..20), which in 0usize..4
        ) {
            let (mut sending, mut receiving) = ends(which);
            let (mut sent, mut received) = (Vec::new(), Vec::new());
            for piece in &pieces {
                sending.send(piece, &mut sent).unwrap();
            }
            let (mut rest, mut cuts) = (&sent[..], cuts.iter().cycle());
            while !rest.is_empty() {
                let (cut, behind) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
                let bound = receiving.held_len_with(cut);
                receiving.receive(cut, &mut received).unwrap();
                prop_assert!(receiving.held_len() <= bound);
                rest = behind;
            }
            prop_assert_eq!(received, pieces.concat());
            prop_assert!(receiving.held_len() <= HELD_LEN_MAX);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), which in 0usize..4) {
            let (_, mut receiving) = ends(which);
            let mut framed = vec![0, 0, 0, 40];
            framed.extend_from_slice(&bytes);
            let _ = receiving.receive(&bytes, &mut Vec::new());
            let _ = ends(which).1.receive(&framed, &mut Vec::new());
        }
    }
}
