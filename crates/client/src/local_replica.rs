//! A replica on this machine whose files this process has open: reading it, and holding it against its checksums.
//!
//! ```text
//! read_at ──▶ pieces of whole chunks ──▶ from the page cache, here ─┬─▶ verified, unless they were before
//!                                        from the disk, on a thread ┘
//! ```
//!
//! Promise: a byte that is given was read of chunks that were verified, by this replica's first reader of them or by
//! this one. The files are read and not mapped: one that is cut short meanwhile is an error, and no signal.

use crate::verified_chunks::VerifiedChunks;
use hdfs::proto::LocalReplicaProto;
use io::file::{self, read_resident};
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use types::{ChecksumKind, ChecksumSpec};

/// Bytes that are read and verified together: they stay in a core's second cache between the two. Each piece costs a
/// call for its bytes and one for its checksums: pieces of 128 KiB took a tenth longer, those of 512 KiB as long.
const PIECE_LEN: u64 = 256 << 10;
/// Asked of the disk in one hop to a thread, and ahead of it.
const COLD_LEN: u64 = 1 << 20;
const AHEAD_LEN: u64 = 4 << 20;
/// Pieces in a row that were in memory: then whoever polls this task is to see to others. Some MiB: a guess.
const PIECE_COUNT_MAX: u32 = 16;

#[derive(Debug)]
pub(crate) struct LocalReplica {
    data: Arc<File>,
    sums: Arc<File>,
    /// Where the checksums begin in their file.
    sums_offset: u64,
    last_sum: Option<u32>,
    spec: ChecksumSpec,
    len: u64,
    verified: VerifiedChunks,
}

/// Why a replica is not read here any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("the bytes at {offset} do not match their checksum")]
    Corrupt { offset: u64 },
    #[error(transparent)]
    Io(#[from] Error),
}

impl LocalReplica {
    /// As a datanode described it. `None`: it makes no sense.
    pub(crate) fn new(said: &LocalReplicaProto, data: File, sums: File) -> Option<Self> {
        let kind = ChecksumKind::from_number(said.checksum_kind?.try_into().ok()?)?;
        let (spec, len) = (ChecksumSpec::new(kind, said.chunk_len?)?, said.len?);
        // What a stranger says takes memory only where it is true.
        if data.metadata().ok()?.len() < len || len > i64::MAX as u64 {
            return None;
        }
        let sums_offset = said.sums_offset.filter(|offset| *offset <= i64::MAX as u64 - spec.sums_len(len))?;
        let verified = VerifiedChunks::new(spec.chunk_count(len));
        let (data, sums) = (Arc::new(data), Arc::new(sums));
        Some(Self { data, sums, sums_offset, last_sum: said.last_sum, spec, len, verified })
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Fills `dest` with bytes that lie in the replica. On an error some may be filled, verified or not.
    pub(crate) async fn read_at(&self, offset: u64, dest: &mut [u8]) -> Result<(), Unreadable> {
        let end = offset + dest.len() as u64;
        assert!(end <= self.len, "{end} is beyond a replica of {} bytes", self.len);
        let (mut at, mut chunk, mut piece_count) = (offset, Vec::new(), 0);
        let (mut data, mut sums) = (Ahead::until(end), Sums::default());
        sums.ahead.end = self.sums_offset + self.spec.chunk_count(end) * ChecksumSpec::SUM_LEN as u64;
        while at < end {
            let piece = self.piece(at, end);
            let into = (at - offset) as usize..(piece.end.min(end) - offset) as usize;
            let into = &mut dest[into];
            if piece.end - piece.start == into.len() as u64 || self.is_verified(&piece) {
                data.fill(&self.data, into, at).await?;
                self.verify(&piece, into, &mut sums).await?;
            } else {
                // A part of one chunk, all of which has to be read.
                chunk.resize((piece.end - piece.start) as usize, 0);
                data.fill(&self.data, &mut chunk, piece.start).await?;
                self.verify(&piece, &chunk, &mut sums).await?;
                let from = (at - piece.start) as usize;
                into.copy_from_slice(&chunk[from..from + into.len()]);
            }
            at += into.len() as u64;
            piece_count += 1;
            if piece_count % PIECE_COUNT_MAX == 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// What is read together at `at`: whole chunks that lie before `end`, or the one chunk of which a part is wanted.
    fn piece(&self, at: u64, end: u64) -> Range<u64> {
        let chunk_len = u64::from(self.spec.chunk_len);
        let start = at - at % chunk_len;
        let whole_end = if end == self.len { end } else { end - end % chunk_len };
        if start == at && whole_end > at {
            let len = (PIECE_LEN - PIECE_LEN % chunk_len).max(chunk_len);
            return at..whole_end.min(at + len);
        }
        start..(start + chunk_len).min(self.len)
    }

    fn chunks(&self, piece: &Range<u64>) -> Range<u64> {
        piece.start / u64::from(self.spec.chunk_len)..self.spec.chunk_count(piece.end)
    }

    fn is_verified(&self, piece: &Range<u64>) -> bool {
        self.spec.kind == ChecksumKind::Null || self.verified.has_all(self.chunks(piece))
    }

    /// Holds the bytes of a piece against their checksums, unless that was done before.
    async fn verify(&self, piece: &Range<u64>, bytes: &[u8], sums: &mut Sums) -> Result<(), Unreadable> {
        if self.is_verified(piece) {
            return Ok(());
        }
        let chunks = self.chunks(piece);
        let Sums { of_piece, ahead } = sums;
        of_piece.resize((chunks.end - chunks.start) as usize * ChecksumSpec::SUM_LEN, 0);
        ahead.fill(&self.sums, of_piece, self.sums_offset + chunks.start * ChecksumSpec::SUM_LEN as u64).await?;
        if piece.end == self.len
            && let (Some(sum), Some(last)) = (self.last_sum, of_piece.last_chunk_mut())
        {
            *last = sum.to_be_bytes();
        }
        let corrupt = |bad: usize| Unreadable::Corrupt { offset: piece.start + bad as u64 };
        self.spec.verify(bytes, of_piece).map_err(corrupt)?;
        self.verified.set(chunks);
        Ok(())
    }
}

/// The checksums of the piece that is read now, and those behind them.
#[derive(Default)]
struct Sums {
    of_piece: Vec<u8>,
    ahead: Ahead,
}

/// What came from the disk with what was asked for, as one hop to a thread is dearer than a piece.
#[derive(Default)]
struct Ahead {
    from: u64,
    bytes: Vec<u8>,
    /// Nothing behind that will be asked for.
    end: u64,
}

impl Ahead {
    fn until(end: u64) -> Self {
        Self { end, ..Self::default() }
    }

    fn at(&self, offset: u64) -> &[u8] {
        let known = offset.checked_sub(self.from).and_then(|from| self.bytes.get(usize::try_from(from).ok()?..));
        known.unwrap_or_default()
    }

    /// Reads all of `dest`; what is not in the page cache on a thread that may wait.
    async fn fill(&mut self, file: &Arc<File>, dest: &mut [u8], offset: u64) -> Result<(), Error> {
        let mut done = 0;
        while done < dest.len() {
            let (at, left) = (offset + done as u64, &mut dest[done..]);
            let known = self.at(at);
            if !known.is_empty() {
                let len = known.len().min(left.len());
                left[..len].copy_from_slice(&known[..len]);
                done += len;
                continue;
            }
            match read_resident(file, left, at) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => done += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let wanted = self.end.saturating_sub(at).max(left.len() as u64);
                    let (len, mut bytes) = (wanted.min(COLD_LEN) as usize, std::mem::take(&mut self.bytes));
                    let file = Arc::clone(file);
                    let read = io::task::blocking(move || {
                        bytes.resize(len, 0);
                        // A hint: what it brings is there when it is asked for.
                        let _ = file::will_need(&file, at + len as u64, AHEAD_LEN);
                        file.read_exact_at(&mut bytes, at).map(|()| bytes)
                    });
                    (self.bytes, self.from) = (read.await?, at);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const LEN: usize = 300_000;

    fn pattern() -> Vec<u8> {
        (0..LEN as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
    }

    /// A replica of [`LEN`] bytes, with its data file for who wants to change it.
    fn replica(spec: ChecksumSpec) -> (LocalReplica, File) {
        let (mut data, mut sums) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        let mut stored = vec![0; 64];
        spec.compute(&pattern(), &mut stored);
        data.write_all(&pattern()).unwrap();
        sums.write_all(&stored).unwrap();
        let (other, kind) = (data.try_clone().unwrap(), spec.kind as u32);
        let said = LocalReplicaProto {
            len: Some(LEN as u64),
            sums_offset: Some(64),
            checksum_kind: Some(kind),
            chunk_len: Some(spec.chunk_len),
            ..Default::default()
        };
        (LocalReplica::new(&said, data, sums).unwrap(), other)
    }

    #[tokio::test]
    async fn any_range_is_what_was_written() {
        for chunk_len in [1, 512, 1000, 200_000, 1 << 20] {
            let (replica, _) = replica(ChecksumSpec { chunk_len, ..ChecksumSpec::DEFAULT });
            for (from, end) in [(0, LEN), (1, LEN), (0, 1), (511, 513), (512, 1024), (100, 250_000), (LEN - 1, LEN)] {
                for _again in 0..2 {
                    let mut dest = vec![0; end - from];
                    replica.read_at(from as u64, &mut dest).await.unwrap();
                    assert!(dest == pattern()[from..end], "{from} to {end} in chunks of {chunk_len}");
                }
            }
        }
    }

    #[tokio::test]
    async fn a_flipped_bit_is_found_by_the_first_reader_of_its_chunk() {
        let (replica, data) = replica(ChecksumSpec::DEFAULT);
        let mut dest = vec![0; LEN];
        data.write_all_at(&[!pattern()[200_100]], 200_100).unwrap();
        replica.read_at(0, &mut dest[..199_000]).await.unwrap();
        for (from, len) in [(0, LEN), (200_190, 2)] {
            let refused = replica.read_at(from, &mut dest[..len]).await;
            assert!(matches!(refused, Err(Unreadable::Corrupt { offset: 199_680..=200_190 })), "{refused:?}");
        }
    }

    /// As by a recovery that takes back what was not acknowledged everywhere.
    #[tokio::test]
    async fn a_file_that_was_cut_short_is_an_error() {
        let (replica, data) = replica(ChecksumSpec::DEFAULT);
        data.set_len(1000).unwrap();
        assert!(matches!(replica.read_at(0, &mut vec![0; LEN]).await, Err(Unreadable::Io(_))));
    }

    /// The stored one is written over by an append, which the open files do not see coming.
    #[tokio::test]
    async fn the_last_checksum_is_the_one_that_was_told() {
        let (mut replica, _) = replica(ChecksumSpec::DEFAULT);
        replica.last_sum = Some(1);
        let mut dest = vec![0; LEN];
        assert!(replica.read_at(0, &mut dest).await.is_err());
        let last = LEN - LEN % 512;
        replica.last_sum = Some(ChecksumKind::Crc32c.of(&pattern()[last..]));
        replica.read_at(0, &mut dest).await.unwrap();
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let file = || tempfile::tempfile().unwrap();
        let said = LocalReplicaProto {
            len: Some(0),
            sums_offset: Some(64),
            checksum_kind: Some(2),
            chunk_len: Some(512),
            ..Default::default()
        };
        assert!(LocalReplica::new(&said, file(), file()).is_some());
        let wrong = [
            LocalReplicaProto { len: Some(1), ..said.clone() },
            LocalReplicaProto { len: None, ..said.clone() },
            LocalReplicaProto { chunk_len: Some(0), ..said.clone() },
            LocalReplicaProto { checksum_kind: Some(3), ..said.clone() },
            LocalReplicaProto { sums_offset: Some(u64::MAX), ..said },
        ];
        assert!(wrong.iter().all(|said| LocalReplica::new(said, file(), file()).is_none()));
    }
}
