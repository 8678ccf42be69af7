//! Reads, both ends: whatever a node sends to a reader, whatever a reader asks for and says at the end.

use std::time::Duration;
use types::limits::PACKET_LEN_MAX;
use types::{ChecksumKind, ChecksumSpec, Generation, ReplicaState};
use xfer::fault::Fault;
use xfer::front::Front;
use xfer::read::{Extent, Given, Limits, Next, Plan, Range, Receiver, Sender, Stored, Wanted};

/// The longest packet, and what is read along with it.
const ROOM_LEN_MAX: usize = PACKET_LEN_MAX as usize + (16 << 10);
/// Data that goes through in one run: some packets.
const LEN_MAX: u64 = 1 << 20;

/// How a node's bytes come: which range was asked for, in which pieces they come, into which buffers.
pub(crate) const RECEIVED_FRONT_LEN: usize = 8;

/// What a node sends, behind [`RECEIVED_FRONT_LEN`] bytes that say how it is read.
pub(crate) fn received(bytes: &[u8]) {
    let Some((front, bytes)) = bytes.split_first_chunk::<RECEIVED_FRONT_LEN>() else { return };
    let [f0, f1, e0, e1, extent, piece, d0, d1] = *front;
    let from = u64::from(u16::from_be_bytes([f0, f1]));
    let range = Range { from, end: from + u64::from(u16::from_be_bytes([e0, e1])) };
    let extent = if extent % 2 == 0 { Extent::Exact } else { Extent::WholeChunks };
    let dest_len = 1 + usize::from(u16::from_be_bytes([d0, d1]));
    let receiver = Receiver::new(range, extent, Duration::from_secs(1), Front::default());
    let _ = read(receiver, bytes, 1 + usize::from(piece) * 16, dest_len);
}

fn read(mut receiver: Receiver, mut bytes: &[u8], piece: usize, dest_len: usize) -> Result<(), Fault> {
    let mut dest = vec![0; dest_len];
    let mut bring = |receiver: &mut Receiver, dest: &mut [u8]| {
        let room = receiver.room(dest);
        let room_len = room.dest.len() + room.ahead.len();
        assert!((1..=ROOM_LEN_MAX).contains(&room_len), "room for {room_len} bytes");
        let (came, rest) = bytes.split_at(piece.min(bytes.len()).min(room_len));
        let (direct, ahead) = came.split_at(came.len().min(room.dest.len()));
        room.dest[..direct.len()].copy_from_slice(direct);
        room.ahead[..ahead.len()].copy_from_slice(ahead);
        bytes = rest;
        receiver.on_received(Duration::ZERO, came.len())
    };
    let spec = loop {
        match receiver.poll_answer()? {
            Some(spec) => break spec,
            None => bring(&mut receiver, &mut [])?,
        }
    };
    let mut position = receiver.position();
    loop {
        match receiver.poll(&mut dest)? {
            Given::Nothing => bring(&mut receiver, &mut dest)?,
            Given::Bytes(len) => {
                assert!((1..=dest.len()).contains(&len), "{len} bytes were given");
                assert_eq!(receiver.position(), position + len as u64);
                position += len as u64;
                let sums = receiver.sums();
                assert!(sums.is_empty() || spec.verify(&dest[..len], sums).is_ok(), "given and not verified");
            }
            Given::All => break,
        }
    }
    assert!(position >= receiver.end(), "all was given, up to {position} of {}", receiver.end());
    while receiver.poll_end()?.is_none() {
        bring(&mut receiver, &mut [])?;
    }
    Ok(())
}

/// What a reader asks for of some replica, in [`SENT_FRONT_LEN`] bytes, and then what the peer says at the end.
pub(crate) fn sent(bytes: &[u8]) {
    let Some((front, word)) = bytes.split_first_chunk::<SENT_FRONT_LEN>() else { return };
    let number = |at: usize| u64::from_be_bytes(front[at..at + 8].try_into().expect("eight bytes"));
    let kinds = [ChecksumKind::Null, ChecksumKind::Crc32, ChecksumKind::Crc32c];
    let chunk_len = 1 + (number(0) >> 32) as u32 % (1 << 19);
    let checksum = ChecksumSpec { kind: kinds[usize::from(front[5]) % 3], chunk_len };
    let state = if front[6] % 2 == 0 { ReplicaState::Finalized } else { ReplicaState::Open };
    let len = u64::from(front[4]) * u64::from(front[7]) * LEN_MAX / (255 * 255);
    let stored = Stored { generation: Generation(7), len, checksum, state };
    let generation = Generation(u64::from(front[6]) / 32);
    let wanted = Wanted { generation, offset: number(8), len: number(16), with_sums: front[6] % 4 < 2 };
    if let Ok(plan) = Plan::new(stored, wanted) {
        assert!(generation <= stored.generation && wanted.offset + wanted.len <= len, "{plan:?} for {wanted:?}");
        let spec_len = u64::from(plan.spec.chunk_len);
        assert!(plan.start <= wanted.offset && plan.start.is_multiple_of(spec_len), "{plan:?}");
        assert!(plan.end >= wanted.offset + wanted.len && plan.end <= len, "{plan:?}");
        assert!(plan.end.is_multiple_of(spec_len) || plan.end == len, "{plan:?}");
        let sums = sums(plan, plan.sums_window(plan.start));
        send(plan, Sender::to_reader(plan, sums, LIMITS), word);
    }
    let plan = Plan::whole(stored);
    let sums = sums(plan, plan.sums_window(0));
    send(plan, Sender::to_node(plan, sums, LIMITS, Vec::new()), word);
}

pub(crate) const SENT_FRONT_LEN: usize = 24;
const LIMITS: Limits = Limits { packet: Duration::from_secs(1), word: Duration::from_secs(2) };

fn sums(plan: Plan, window: std::ops::Range<u64>) -> Vec<u8> {
    vec![0; plan.spec.sums_len(window.end - window.start) as usize]
}

/// All bytes of the plan go out, each once and in order; then the peer is heard, byte by byte, or late.
fn send(plan: Plan, mut sender: Sender, word: &[u8]) {
    let mut at = plan.start;
    let mut ended = false;
    loop {
        match sender.next(Duration::ZERO) {
            Next::Sums(window) => {
                assert!(window.start == at && window.end <= plan.end && !window.is_empty(), "{window:?} of {plan:?}");
                sender.on_sums(sums(plan, window));
            }
            Next::Packet(data) => {
                assert!(!ended && data.start == at && data.end <= plan.end, "{data:?} of {plan:?}");
                assert!(sender.head().len() as u64 + (data.end - data.start) <= u64::from(PACKET_LEN_MAX));
                (at, ended) = (data.end, data.is_empty());
                sender.on_sent(Duration::ZERO);
            }
            Next::Receive => break,
            Next::Done(_) => panic!("done before the peer was heard"),
        }
    }
    assert!(ended && at == plan.end, "it ends at {at} of {plan:?}");
    let (mut from, mut to) = (0, 0);
    while to < word.len() && !sender.is_done() {
        to += 1;
        match sender.on_bytes(&word[from..to]) {
            Ok(consumed) => from += consumed,
            Err(_) => return,
        }
        assert!(from <= to && to - from <= xfer::answer::LEN_MAX + 5, "{} bytes are kept", to - from);
    }
    let _ = sender.handle_timeout(Duration::from_secs(1));
    let late = sender.handle_timeout(Duration::from_secs(2));
    assert!(late.is_err() || sender.is_done());
}
