//! Packets that came together and are in hand: they go on with one call to each node below, and to the disk with few.
//!
//! ```text
//!  │ packet │ packet, sync │ packet │ packet, unsound │ packet │
//!  └──── one store ────────┘└─ one ─┘└──── not stored ─────────┘
//! ```
//!
//! Promise: packets are verified right before their bytes are stored, while those are in the core's cache, and nothing
//! is stored behind one that is not sound.

use std::ops::Range;
use types::ChecksumSpec;
use types::mutation::{self, Mutation};
use wire::PacketFrame;

/// What the disk is to do: write the packets, one behind the other; bring the replica to disk, if `sync`; put it with
/// `put` bytes, if that is set.
#[derive(Debug)]
pub struct Store<'a> {
    packets: &'a [InHand],
    bytes: &'a [u8],
    pub sync: bool,
    pub put: Option<u64>,
}

/// A packet to be written.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Of its first byte, in the block.
    pub offset: u64,
    pub data: &'a [u8],
    /// None if the writer leaves them to the nodes.
    pub sums: &'a [u8],
}

impl<'a> Store<'a> {
    /// Those whose bytes are not all here.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'a>> + Clone + use<'a> {
        let bytes = self.bytes;
        let count = if mutation::is(Mutation::StoreFirst) { 1 } else { self.packets.len() };
        self.packets
            .iter()
            .filter(|packet| packet.wanted.is_some_and(|wanted| wanted.write))
            .map(|it| it.piece(bytes))
            .take(count)
    }

    /// The disk may take long, so that somebody else is to send keepalives meanwhile.
    pub fn is_long(&self) -> bool {
        self.sync || self.put.is_some()
    }
}

/// What the link wants of a packet.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    write: bool,
    sync: bool,
    put: Option<u64>,
}

impl Wanted {
    /// More is to be done for it than to write: whatever comes later waits until that is done.
    fn ends_store(self) -> bool {
        self.sync || self.put.is_some()
    }
}

#[derive(Debug)]
struct InHand {
    at: usize,
    frame: PacketFrame,
    /// None of a packet that only says that its writer lives, or that nobody looks at any more.
    wanted: Option<Wanted>,
}

impl InHand {
    fn end(&self) -> usize {
        self.at + self.frame.packet_len()
    }

    fn piece<'a>(&self, bytes: &'a [u8]) -> Piece<'a> {
        let bytes = &bytes[self.at..self.end()];
        let PacketFrame { header, sums, data } = &self.frame;
        Piece { offset: header.offset as u64, data: &bytes[data.clone()], sums: &bytes[sums.clone()] }
    }

    /// `Err` has the offset in the block at which its bytes do not match their checksum.
    fn verify(&self, spec: ChecksumSpec, bytes: &[u8]) -> Result<(), u64> {
        let piece = self.piece(bytes);
        if piece.sums.is_empty() || mutation::is(Mutation::ForwardUnverified) {
            return Ok(());
        }
        spec.verify(piece.data, piece.sums).map_err(|at| piece.offset + at as u64)
    }
}

#[derive(Debug)]
pub(super) struct Run {
    spec: ChecksumSpec,
    packets: Vec<InHand>,
    /// Where in the buffer those lie that go on, and where all of them end.
    pub(super) forward: Range<usize>,
    pub(super) end: usize,
    /// How many are stored, or need not be; then those that are being stored.
    done: usize,
    storing: usize,
}

impl Run {
    pub(super) fn new(spec: ChecksumSpec) -> Self {
        Self { spec, packets: Vec::new(), forward: 0..0, end: 0, done: 0, storing: 0 }
    }

    /// Nothing is in hand.
    pub(super) fn is_over(&self) -> bool {
        self.packets.is_empty()
    }

    pub(super) fn clear(&mut self) {
        assert!(self.storing == 0, "a run is given up while it is stored");
        self.packets.clear();
        (self.forward, self.end, self.done) = (0..0, 0, 0);
    }

    pub(super) fn push(&mut self, at: usize, frame: PacketFrame) {
        self.packets.push(InHand { at, frame, wanted: None });
        self.end = self.packets.last().map_or(0, InHand::end);
    }

    /// The last packet is to go on.
    pub(super) fn forward_last(&mut self) {
        let Some(last) = self.packets.last() else { return };
        let start = if self.forward.is_empty() { last.at } else { self.forward.start };
        self.forward = start..last.end();
    }

    /// The last packet is to be stored.
    pub(super) fn store_last(&mut self, write: bool, sync: bool, put: Option<u64>) {
        if let Some(last) = self.packets.last_mut() {
            last.wanted = Some(Wanted { write, sync, put });
        }
    }

    /// Those that are to be stored next, up to one that is to be synced or put; they are sound. `None`: all are done.
    /// `Err`: the first is not sound, at this offset of the block.
    pub(super) fn next(&mut self, bytes: &[u8]) -> Result<Option<Range<usize>>, u64> {
        assert!(self.storing == 0, "the disk has not answered");
        let mut end = self.done;
        let mut any = false;
        while let Some(packet) = self.packets.get(end) {
            let Some(wanted) = packet.wanted else {
                end += 1;
                continue;
            };
            match packet.verify(self.spec, bytes) {
                Err(_) if any => break, // it is looked at again once those before are stored
                Err(offset) => {
                    self.done = end;
                    return Err(offset);
                }
                Ok(()) => {}
            }
            (any, end) = (true, end + 1);
            if wanted.ends_store() {
                break;
            }
        }
        if !any {
            self.done = end;
            return Ok(None);
        }
        self.storing = end - self.done;
        Ok(Some(self.done..end))
    }

    pub(super) fn store<'a>(&'a self, places: Range<usize>, bytes: &'a [u8]) -> Store<'a> {
        let packets = &self.packets[places];
        let last = packets.iter().rev().find_map(|packet| packet.wanted);
        let (sync, put) = last.map_or((false, None), |last| (last.sync, last.put));
        let sync = sync && !mutation::is(Mutation::ForgetSync);
        Store { packets, bytes, sync, put }
    }

    /// They are. How many the link waits for.
    pub(super) fn on_stored(&mut self) -> usize {
        let stored = self.done..self.done + std::mem::take(&mut self.storing);
        self.done = stored.end;
        self.packets[stored].iter().filter(|packet| packet.wanted.is_some()).count()
    }

    /// They are not, so all behind them neither. How many the link waits for.
    pub(super) fn on_failed(&mut self) -> usize {
        let failed = self.done..self.packets.len();
        (self.done, self.storing) = (failed.end, 0);
        self.packets[failed].iter().filter(|packet| packet.wanted.is_some()).count()
    }
}
