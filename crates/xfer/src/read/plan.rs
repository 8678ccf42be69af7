//! What a read sends: from which byte, to which, in packets of which length.
//!
//! Promise: each byte that is sent is covered by a checksum that is stored, so no end lies inside a chunk, but for that
//! of the replica. The last byte asked for lies in the last packet that has data: clients bear none behind it.

use std::ops::Range;
use std::time::Duration;
use types::mutation::{self, Mutation};
use types::{ChecksumKind, ChecksumSpec, Generation, ReplicaState};

/// Data of one packet. Hadoop sends 64 KiB; all clients take more. Larger packets mean fewer headers and system calls;
/// with larger ones the client waits longer for its first byte. To be measured.
pub(super) const PACKET_DATA_LEN: u64 = 256 << 10;
/// Checksums read at a time: those of 4 MiB with the usual 512 bytes a chunk, so that the hop to a blocking thread is
/// made once each 4 MiB.
const SUMS_WINDOW_LEN: u64 = 32 << 10;
/// What every read holds beside checksums: its task, the connection's inbox, headers.
const READ_LEN: u64 = 8 << 10;

/// How long a read waits for a replica that is being written to reach the length asked for: its node may acknowledge
/// a packet to those above before the reader's own node has written it. Hadoop waits as long.
const GROWTH_WAIT: Duration = Duration::from_secs(3);
const GROWTH_LOOK: Duration = Duration::from_millis(50);

/// What a reader asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The replica's must not be older.
    pub generation: Generation,
    pub offset: u64,
    pub len: u64,
    pub with_sums: bool,
}

/// What there is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    pub generation: Generation,
    /// Bytes that can be read, each covered by a checksum.
    pub len: u64,
    pub checksum: ChecksumSpec,
    pub state: ReplicaState,
}

/// Why a replica is not what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unserved {
    #[error("it is at {have}, the request names {want}")]
    Stale { have: Generation, want: Generation },
    #[error("it has {len} bytes")]
    Short { len: u64, state: ReplicaState },
}

impl Unserved {
    /// When to look again whether the replica is what was asked for, if a read that began then should wait for it.
    pub fn look_again(self, began: Duration, now: Duration) -> Option<Duration> {
        let grows = matches!(self, Self::Short { state: ReplicaState::Open, .. });
        (grows && now < began + GROWTH_WAIT).then_some(now + GROWTH_LOOK)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// As the client is told: without checksums if it asked for none.
    pub spec: ChecksumSpec,
    /// First byte to be sent: the start of the chunk that holds the one asked for.
    pub start: u64,
    /// The end of the last chunk asked for, or of the replica.
    pub end: u64,
    /// A whole number of chunks.
    packet_len: u64,
}

impl Plan {
    pub fn new(stored: Stored, wanted: Wanted) -> Result<Self, Unserved> {
        if stored.generation < wanted.generation && !mutation::is(Mutation::ServeStale) {
            return Err(Unserved::Stale { have: stored.generation, want: wanted.generation });
        }
        let asked = wanted.offset.checked_add(wanted.len).filter(|end| *end <= stored.len);
        let (offset, end) = match asked {
            Some(end) => (wanted.offset, end),
            None if mutation::is(Mutation::ServeShort) => (wanted.offset.min(stored.len), stored.len),
            None => return Err(Unserved::Short { len: stored.len, state: stored.state }),
        };
        // HDFS's own word for "no checksums" has 512 bytes a chunk.
        let none = ChecksumSpec { kind: ChecksumKind::Null, ..ChecksumSpec::DEFAULT };
        let spec = if wanted.with_sums { stored.checksum } else { none };
        Ok(Self::of(spec, offset, end, stored.len))
    }

    /// All bytes, with their checksums, for another node.
    pub fn whole(stored: Stored) -> Self {
        Self::of(stored.checksum, 0, stored.len, stored.len)
    }

    /// For the bytes `offset..end` of a replica of `len` bytes.
    fn of(spec: ChecksumSpec, offset: u64, end: u64, len: u64) -> Self {
        let chunk_len = u64::from(spec.chunk_len);
        let start = offset - offset % chunk_len;
        // Up to the chunk's end, as its checksum covers all of it. That stays inside the packet which holds the last
        // byte asked for, as packets are whole chunks.
        let rounded = end.checked_next_multiple_of(chunk_len).unwrap_or(u64::MAX).min(len);
        let end = if mutation::is(Mutation::UnroundedEnds) { end } else { rounded };
        let packet_len = (PACKET_DATA_LEN - PACKET_DATA_LEN % chunk_len).max(chunk_len);
        Self { spec, start, end, packet_len }
    }

    /// Bytes of data from `at` on that go into one packet.
    pub fn packet_data_len(&self, at: u64) -> u64 {
        self.packet_len.min(self.end - at)
    }

    /// What a read of this holds in memory: a window of checksums, and a packet's share of it beside its header.
    pub fn memory_len(&self) -> u64 {
        let sums_len = self.spec.sums_len(self.packet_len.min(self.end - self.start));
        READ_LEN + SUMS_WINDOW_LEN.max(sums_len) + sums_len
    }

    /// The bytes from `at` on whose checksums are read at once: some whole packets. Empty if there are none to read.
    pub fn sums_window(&self, at: u64) -> Range<u64> {
        if self.spec.kind == ChecksumKind::Null {
            return at..at;
        }
        let packets = (SUMS_WINDOW_LEN / self.spec.sums_len(self.packet_len)).max(1);
        at..at + packets.saturating_mul(self.packet_len).min(self.end - at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: ChecksumSpec = ChecksumSpec::DEFAULT;

    #[track_caller]
    fn check(chunk_len: u32, asked: Range<u64>, len: u64, sent: (u64, u64, u64)) {
        let spec = ChecksumSpec { chunk_len, ..SPEC };
        let Plan { start, end, packet_len, .. } = Plan::of(spec, asked.start, asked.end, len);
        assert_eq!((start, end, packet_len), sent);
    }

    #[test]
    fn ranges_are_widened_to_chunks_but_not_past_the_end() {
        check(512, 1000..1001, 5000, (512, 1024, PACKET_DATA_LEN));
        check(512, 0..5000, 5000, (0, 5000, PACKET_DATA_LEN));
        check(512, 5000..5000, 5000, (4608, 5000, PACKET_DATA_LEN));
        check(100_000, 150_000..150_001, 1 << 20, (100_000, 200_000, 200_000));
        check(1 << 20, 1..2, 3 << 20, (0, 1 << 20, 1 << 20));
    }

    #[test]
    fn a_replica_that_is_older_or_shorter_is_not_served() {
        let stored = Stored { generation: Generation(7), len: 1000, checksum: SPEC, state: ReplicaState::Open };
        let wanted =
            |generation, offset, len| Wanted { generation: Generation(generation), offset, len, with_sums: true };
        let stale = Unserved::Stale { have: Generation(7), want: Generation(8) };
        assert_eq!(Plan::new(stored, wanted(8, 0, 10)), Err(stale));
        let short = Unserved::Short { len: 1000, state: ReplicaState::Open };
        assert_eq!(Plan::new(stored, wanted(6, 0, 1001)), Err(short));
        assert_eq!(Plan::new(stored, wanted(7, u64::MAX, 2)), Err(short));
        assert!(Plan::new(stored, wanted(7, 0, 1000)).is_ok());
        // Only what may still grow is waited for, and that for some seconds.
        let ms = Duration::from_millis;
        assert_eq!(short.look_again(ms(100), ms(3099)), Some(ms(3149)));
        assert_eq!(short.look_again(ms(100), ms(3100)), None);
        assert_eq!(Unserved::Short { len: 1000, state: ReplicaState::Finalized }.look_again(ms(100), ms(100)), None);
        assert_eq!(stale.look_again(ms(100), ms(100)), None);
    }
}
