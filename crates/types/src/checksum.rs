//! Checksums of chunks, as the writer chose them, and how two of them make one.
//!
//! Promise: the figures are those of zlib (CRC-32) and of iSCSI (CRC-32C), both reflected, with initial value and
//! final xor of all ones; [`self_test`] holds the fast code to known answers before a node serves its first byte.

use crate::polynomial::{multiply, power_of_x};
use crate::{folded, polynomial, side_by_side};
use serde::{Deserialize, Serialize};

/// What a chunk is covered by. The numbers are HDFS's, on the wire and on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum ChecksumKind {
    Null = 0,
    Crc32 = 1,
    Crc32c = 2,
}

impl ChecksumKind {
    pub fn from_number(number: i32) -> Option<Self> {
        [Self::Null, Self::Crc32, Self::Crc32c].into_iter().find(|kind| *kind as i32 == number)
    }

    /// The checksum of `bytes`; 0 for `Null`.
    pub fn of(self, bytes: &[u8]) -> u32 {
        match self {
            Self::Null => 0,
            Self::Crc32 => crc32fast::hash(bytes),
            Self::Crc32c => folded::crc32c(bytes).unwrap_or_else(|| crc32c::crc32c(bytes)),
        }
    }

    /// The checksum of what `head` covers, followed by `len` bytes that `piece` covers. For pieces of one length
    /// [`Appender`] is a hundred times as fast.
    pub fn append(self, head: u32, piece: u32, len: u64) -> u32 {
        multiply(self.polynomial(), head, power_of_x(self.polynomial(), len)) ^ piece
    }

    /// The reflected polynomial.
    fn polynomial(self) -> u32 {
        match self {
            Self::Null => 0,
            Self::Crc32 => polynomial::CRC32,
            Self::Crc32c => polynomial::CRC32C,
        }
    }
}

/// How the bytes of one replica are covered: kind, and bytes per chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChecksumSpec {
    pub kind: ChecksumKind,
    pub chunk_len: u32,
}

impl ChecksumSpec {
    /// Bytes of one stored checksum.
    pub const SUM_LEN: usize = 4;

    pub const DEFAULT: Self = Self { kind: ChecksumKind::Crc32c, chunk_len: crate::limits::BYTES_PER_CHECKSUM_DEFAULT };

    /// Refuses what no client sends: chunks of no length, or longer than a packet can carry.
    pub fn new(kind: ChecksumKind, chunk_len: u32) -> Option<Self> {
        (1..=crate::limits::BYTES_PER_CHECKSUM_MAX).contains(&chunk_len).then_some(Self { kind, chunk_len })
    }

    pub fn chunk_count(self, data_len: u64) -> u64 {
        data_len.div_ceil(u64::from(self.chunk_len))
    }

    /// Bytes of the checksums of `data_len` bytes that start on a chunk.
    pub fn sums_len(self, data_len: u64) -> u64 {
        if self.kind == ChecksumKind::Null { 0 } else { self.chunk_count(data_len) * Self::SUM_LEN as u64 }
    }

    /// Appends the checksums of `data`, which starts on a chunk: big-endian, four bytes each.
    pub fn compute(self, data: &[u8], sums: &mut Vec<u8>) {
        if self.kind != ChecksumKind::Null {
            self.visit_sums(data, |sum| {
                sums.extend_from_slice(&sum.to_be_bytes());
                true
            });
        }
    }

    /// Holds `data`, which starts on a chunk, against its checksums; `Err` has the offset of the first bad chunk in
    /// `data`.
    pub fn verify(self, data: &[u8], sums: &[u8]) -> Result<(), usize> {
        if self.kind == ChecksumKind::Null {
            return Ok(());
        }
        let mut wanted = sums.chunks_exact(Self::SUM_LEN);
        let mut good_count = 0;
        let is_good = self.visit_sums(data, |sum| {
            let is_good = wanted.next() == Some(&sum.to_be_bytes()[..]);
            good_count += usize::from(is_good);
            is_good
        });
        if is_good { Ok(()) } else { Err(good_count * self.chunk_len as usize) }
    }

    /// Shows the checksum of each chunk of `data`, which starts on one, as long as `visit` says that it goes on.
    /// Whether it said so of all.
    fn visit_sums(self, data: &[u8], mut visit: impl FnMut(u32) -> bool) -> bool {
        let chunk_len = self.chunk_len as usize;
        let mut rest = data;
        if self.kind == ChecksumKind::Crc32c {
            if let Some(went_on) = folded::visit_chunks(data, chunk_len, &mut visit) {
                return went_on;
            }
            while let Some((together, behind)) = rest.split_at_checked(side_by_side::COUNT * chunk_len) {
                let Some(sums) = side_by_side::crc32c(together) else { break };
                if !sums.into_iter().all(&mut visit) {
                    return false;
                }
                rest = behind;
            }
        }
        rest.chunks(chunk_len).all(|chunk| visit(self.kind.of(chunk)))
    }
}

/// Appends checksums of pieces of one fixed length: `crc(AB)` from `crc(A)` and `crc(B)` where `|B|` never changes.
///
/// Appending shifts `crc(A)` by `8·|B|` bits in GF(2), a linear map; four tables of 256 entries hold it, which takes
/// 3 ns a piece where the general way takes microseconds.
#[derive(Clone)]
pub struct Appender {
    tables: Box<[[u32; 256]; 4]>,
}

impl std::fmt::Debug for Appender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Appender")
    }
}

impl Appender {
    /// Bytes that one takes.
    pub const MEMORY_LEN: u64 = size_of::<[[u32; 256]; 4]>() as u64;

    pub fn new(kind: ChecksumKind, piece_len: u64) -> Self {
        let shift = power_of_x(kind.polynomial(), piece_len);
        let mut tables = Box::new([[0; 256]; 4]);
        for (place, table) in tables.iter_mut().enumerate() {
            for bit in 0..8 {
                table[1 << bit] = multiply(kind.polynomial(), 1 << (8 * place + bit), shift);
            }
            // The map is linear: what a byte becomes is the sum of what its bits become. A request of some kilobytes
            // makes one, so it must not cost what a megabyte does.
            for byte in 1_usize..256 {
                let lowest = byte & byte.wrapping_neg();
                table[byte] = table[lowest] ^ table[byte ^ lowest];
            }
        }
        Self { tables }
    }

    /// The checksum of what `head` covers, followed by the piece that `piece` covers.
    pub fn append(&self, head: u32, piece: u32) -> u32 {
        let [b0, b1, b2, b3] = head.to_le_bytes();
        let t = &self.tables;
        t[0][b0 as usize] ^ t[1][b1 as usize] ^ t[2][b2 as usize] ^ t[3][b3 as usize] ^ piece
    }
}

/// One checksum for a run of chunks of `spec.chunk_len` bytes, of which the last may be shorter.
pub fn composite(spec: ChecksumSpec, data_len: u64, sums: &[u8]) -> u32 {
    let whole = data_len / u64::from(spec.chunk_len);
    let rest = data_len % u64::from(spec.chunk_len);
    let appender = Appender::new(spec.kind, spec.chunk_len.into());
    let mut sums = sums.chunks_exact(4).map(|sum| u32::from_be_bytes([sum[0], sum[1], sum[2], sum[3]]));
    let mut total = 0;
    for sum in sums.by_ref().take(whole as usize) {
        total = appender.append(total, sum);
    }
    match sums.next() {
        Some(sum) if rest > 0 => spec.kind.append(total, sum, rest),
        _ => total,
    }
}

/// Holds the accelerated code of this machine against known answers and against a bit-by-bit one.
/// A node runs this before it serves: a wrong checksum unit must not be believed.
pub fn self_test() -> Result<(), String> {
    let known = [(ChecksumKind::Crc32, 0xcbf4_3926), (ChecksumKind::Crc32c, 0xe306_9283)];
    for (kind, want) in known {
        let have = kind.of(b"123456789"); // the check value of every CRC catalogue
        if have != want {
            return Err(format!("{kind:?} of \"123456789\" is {have:#x}, not {want:#x}"));
        }
        let bytes: Vec<u8> = (0..4096u32).map(|at| ((at * 31) >> 3) as u8).collect();
        // Lengths around each step of the vector code, at unaligned starts.
        for len in [0, 1, 15, 16, 63, 64, 127, 255, 256, 511, 512, 513, 575, 576, 577, 767, 768, 769, 1024, 4093] {
            for start in [0, 1, 3] {
                let piece = &bytes[start..start + len];
                let wrong = || Err(format!("{kind:?} of {len} bytes at offset {start} is wrong on this processor"));
                if kind.of(piece) != bit_by_bit(kind, piece) {
                    return wrong();
                }
                // Chunks that are taken together, and some that are left; and those of their usual length.
                for chunk_len in [(len as u32 / 7 / 8 * 8).max(1), ChecksumSpec::DEFAULT.chunk_len] {
                    let mut sums = Vec::new();
                    ChecksumSpec { kind, chunk_len }.compute(piece, &mut sums);
                    let of_each = piece.chunks(chunk_len as usize).map(|chunk| bit_by_bit(kind, chunk).to_be_bytes());
                    if !of_each.eq(sums.as_chunks().0.iter().copied()) {
                        return wrong();
                    }
                }
            }
        }
    }
    Ok(())
}

fn bit_by_bit(kind: ChecksumKind, bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |mut sum: u32, byte| {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ kind.polynomial() } else { sum >> 1 };
        }
        sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn this_machine_computes_the_known_answers() {
        self_test().unwrap();
    }

    proptest! {
        #[test]
        fn checksums_of_chunks_compose_to_the_checksum_of_all(
            data in proptest::collection::vec(any::<u8>(), 0..5000), chunk_len in 1u32..700,
        ) {
            for kind in [ChecksumKind::Crc32, ChecksumKind::Crc32c] {
                let spec = ChecksumSpec { kind, chunk_len };
                let mut sums = Vec::new();
                spec.compute(&data, &mut sums);
                prop_assert_eq!(sums.len() as u64, spec.sums_len(data.len() as u64));
                prop_assert_eq!(spec.verify(&data, &sums), Ok(()));
                prop_assert_eq!(composite(spec, data.len() as u64, &sums), kind.of(&data));
            }
        }

        #[test]
        fn one_flipped_bit_is_found_in_its_chunk(at in 0usize..2000, bit in 0u8..8) {
            let mut data = vec![7; 2000];
            let spec = ChecksumSpec::DEFAULT;
            let mut sums = Vec::new();
            spec.compute(&data, &mut sums);
            data[at] ^= 1 << bit;
            prop_assert_eq!(spec.verify(&data, &sums), Err(at / 512 * 512));
        }
    }
}
