//! What a read sends: from which byte, to which, in packets of which length.

use container::{Reader, ReplicaError};
use types::{ChecksumKind, ChecksumSpec, ReplicaState};

/// Data of one packet. Hadoop sends 64 KiB; all clients take more. Larger packets mean fewer headers and system calls;
/// with larger ones the client waits longer for its first byte. To be measured.
pub(crate) const PACKET_DATA_LEN: u64 = 256 << 10;
/// Checksums read at a time: those of 4 MiB with the usual 512 bytes a chunk, so that the hop to a blocking thread is
/// made once each 4 MiB.
const SUMS_WINDOW_LEN: u64 = 32 << 10;

/// What every read holds beside checksums: its task, the connection's inbox, headers.
const READ_LEN: u64 = 8 << 10;

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) reader: Reader,
    /// As the client is told: without checksums if it asked for none.
    pub(crate) spec: ChecksumSpec,
    /// First byte to be sent: the start of the chunk that holds the one asked for.
    pub(crate) start: u64,
    /// The end of the last chunk asked for, or of the replica.
    pub(crate) end: u64,
    /// A whole number of chunks.
    pub(crate) packet_len: u64,
}

/// The replica has fewer bytes than were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Short {
    pub(crate) len: u64,
    pub(crate) state: ReplicaState,
}

impl Plan {
    pub(crate) fn new(reader: Reader, offset: u64, len: u64, with_sums: bool) -> Result<Self, Short> {
        let stored = reader.checksum();
        // HDFS's own word for "no checksums" has 512 bytes a chunk.
        let none = ChecksumSpec { kind: ChecksumKind::Null, ..ChecksumSpec::DEFAULT };
        let spec = if with_sums { stored } else { none };
        let end = offset.checked_add(len).filter(|end| *end <= reader.len());
        let end = end.ok_or(Short { len: reader.len(), state: reader.state() })?;
        let (start, end, packet_len) = range(spec, offset, end, reader.len());
        Ok(Self { reader, spec, start, end, packet_len })
    }

    /// All bytes, with their checksums, for another node.
    pub(crate) fn whole(reader: Reader) -> Self {
        let (spec, len) = (reader.checksum(), reader.len());
        let (start, end, packet_len) = range(spec, 0, len, len);
        Self { reader, spec, start, end, packet_len }
    }

    /// Bytes of data from `at` on that go into one packet.
    pub(crate) fn packet_data_len(&self, at: u64) -> u64 {
        self.packet_len.min(self.end - at)
    }

    /// What a read of this holds in memory: a window of checksums, and a packet's share of it beside its header.
    pub(crate) fn memory_len(&self) -> u64 {
        let sums_len = self.spec.sums_len(self.packet_len.min(self.end - self.start));
        READ_LEN + SUMS_WINDOW_LEN.max(sums_len) + sums_len
    }

    /// The stored checksums from `at` on, as many as are read at once: those of some whole packets. Blocks.
    pub(crate) fn sums(&self, at: u64) -> Result<Vec<u8>, ReplicaError> {
        let mut sums = Vec::new();
        if self.spec.kind != ChecksumKind::Null {
            let packets = (SUMS_WINDOW_LEN / self.spec.sums_len(self.packet_len)).max(1);
            let len = packets.saturating_mul(self.packet_len).min(self.end - at);
            self.reader.sums(at, len, &mut sums)?;
        }
        Ok(sums)
    }
}

/// Start, end and packet length for the bytes `offset..end` of a replica of `len` bytes.
fn range(spec: ChecksumSpec, offset: u64, end: u64, len: u64) -> (u64, u64, u64) {
    let chunk_len = u64::from(spec.chunk_len);
    let start = offset - offset % chunk_len;
    // Up to the chunk's end, as its checksum covers all of it. That stays inside the packet which holds the last byte
    // asked for: packets are whole chunks, and clients bear no packet after that one.
    let end = end.next_multiple_of(chunk_len).min(len);
    (start, end, (PACKET_DATA_LEN - PACKET_DATA_LEN % chunk_len).max(chunk_len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_widened_to_chunks_but_not_past_the_end() {
        let spec = ChecksumSpec::DEFAULT;
        assert_eq!(range(spec, 1000, 1001, 5000), (512, 1024, PACKET_DATA_LEN));
        assert_eq!(range(spec, 0, 5000, 5000), (0, 5000, PACKET_DATA_LEN));
        assert_eq!(range(spec, 5000, 5000, 5000), (4608, 5000, PACKET_DATA_LEN));
        let odd = ChecksumSpec { chunk_len: 100_000, ..spec };
        assert_eq!(range(odd, 150_000, 150_001, 1 << 20), (100_000, 200_000, 200_000));
        let huge = ChecksumSpec { chunk_len: 1 << 20, ..spec };
        assert_eq!(range(huge, 1, 2, 3 << 20), (0, 1 << 20, 1 << 20));
    }
}
