//! One READ_BLOCK: packets come in, verified bytes go into the caller's buffer.
//!
//! ```text
//! packet:  head · sums · data                        one system call a packet:
//!                         ╰──▶ the caller's buffer      readv( [data of k] [head and sums of k+1] )
//!          ╰─────────╯──▶ a small buffer
//! ```
//!
//! Promise: a byte that [`BlockReader::read`] counts was held against its checksum. Data is copied once, by the kernel,
//! but for chunks that the caller has no room for as a whole, and for bytes that came along with the answer.

use crate::client::Client;
use crate::datanode::{Fault, Link, addr_of};
use hdfs::proto;
use std::time::Duration;
use types::{ChecksumKind, ChecksumSpec};
use wire::{Op, PacketHeader, PacketPrefix, Status, delimited};

/// What to read of one block. Offsets are those of the block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    /// Where the block begins in the file.
    pub(super) block_offset: u64,
    pub(super) from: u64,
    pub(super) end: u64,
}

#[derive(Debug)]
pub(super) struct BlockReader {
    pub(super) located: proto::LocatedBlockProto,
    pub(super) node: proto::DatanodeInfoProto,
    link: Link,
    spec: ChecksumSpec,
    range: Range,
    /// Next byte for the caller.
    position: u64,
    /// Next byte that the wire brings.
    wire: u64,
    next_seqno: i64,
    /// Data of the current packet that has not come yet.
    packet_left: usize,
    /// Data of the current packet, for guessing the next one.
    packet_len: usize,
    sums: Vec<u8>,
    sums_at: usize,
    /// A verified chunk that the caller had no room for; it ends at `wire`.
    chunk: Vec<u8>,
}

/// Head of a packet as all servers send it.
const HEAD_LEN: usize = PacketPrefix::LEN + PacketHeader::LEN;

/// Bytes brought at once for callers that read less than a chunk at a time. A guess.
const SMALL_READ_LEN: usize = 16 << 10;

impl BlockReader {
    /// `stall`: how long the node may bring nothing.
    pub(super) async fn open(
        client: &Client,
        located: &proto::LocatedBlockProto,
        node: &proto::DatanodeInfoProto,
        range: Range,
        stall: Duration,
    ) -> Result<Self, Fault> {
        let pace = &client.inner.pace;
        let begun = pace.now();
        let reader = Self::open_link(client, located, node, range, stall).await?;
        pace.took(pace.now().saturating_sub(begun));
        Ok(reader)
    }

    async fn open_link(
        client: &Client,
        located: &proto::LocatedBlockProto,
        node: &proto::DatanodeInfoProto,
        range: Range,
        stall: Duration,
    ) -> Result<Self, Fault> {
        // An idle connection may have been closed by the other side just now; that is no fault of the replica.
        if let Some(link) = client.inner.sockets.take(&addr_of(node)) {
            match Self::start(client, link, located, node, range, stall).await {
                Err(Fault::Broken(_)) => {}
                done => return done,
            }
        }
        let connecting = tokio::time::timeout(stall, Link::connect(node, client.options())).await;
        let link = connecting.map_err(|_| Fault::Silent)??;
        Self::start(client, link, located, node, range, stall).await
    }

    async fn start(
        client: &Client,
        mut link: Link,
        located: &proto::LocatedBlockProto,
        node: &proto::DatanodeInfoProto,
        range: Range,
        stall: Duration,
    ) -> Result<Self, Fault> {
        link.allow(stall);
        let request = proto::OpReadBlockProto {
            header: proto::ClientOperationHeaderProto {
                base_header: proto::BaseHeaderProto {
                    block: located.b.clone(),
                    token: Some(located.block_token.clone()),
                    trace_info: None,
                },
                client_name: client.inner.holder.clone(),
            },
            offset: range.from,
            len: range.end - range.from,
            send_checksums: Some(true),
            caching_strategy: None,
        };
        link.send_op(Op::ReadBlock, &request).await?;
        let answer = link.receive_answer().await?;
        let info = answer.read_op_checksum_info.ok_or_else(|| Fault::Protocol("no checksum in its answer".into()))?;
        let spec = info.checksum.spec().ok_or_else(|| {
            let (kind, len) = (info.checksum.r#type, info.checksum.bytes_per_checksum);
            Fault::Protocol(format!("checksum type {kind} over {len} bytes, which nobody knows"))
        })?;
        let start = info.chunk_offset;
        if start > range.from || range.from - start >= u64::from(spec.chunk_len) {
            return Err(Fault::Protocol(format!("it begins at {start}, asked for {}", range.from)));
        }
        Ok(Self {
            located: located.clone(),
            node: node.clone(),
            link,
            spec,
            range,
            position: range.from,
            wire: start,
            next_seqno: 0,
            packet_left: 0,
            packet_len: 0,
            sums: Vec::new(),
            sums_at: 0,
            chunk: Vec::new(),
        })
    }

    pub(super) fn file_position(&self) -> u64 {
        self.range.block_offset + self.position
    }

    pub(super) fn file_end(&self) -> u64 {
        self.range.block_offset + self.range.end
    }

    /// Bytes up to there are read and verified, but not given.
    pub(super) fn skip_to(&mut self, file_position: u64) {
        assert!(file_position >= self.file_position() && file_position <= self.file_end());
        self.position = file_position - self.range.block_offset;
    }

    /// Fills as much of `dest` as the range has. The count holds also beside a fault: those bytes were verified.
    pub(super) async fn read(&mut self, dest: &mut [u8]) -> (usize, Option<Fault>) {
        let room = dest.len().min((self.range.end - self.position) as usize);
        let mut done = 0;
        while done < room {
            match self.step(&mut dest[done..room]).await {
                Ok(got) => done += got,
                Err(fault) => return (done, Some(fault)),
            }
        }
        (done, None)
    }

    /// Some bytes, or none and one step nearer to them.
    async fn step(&mut self, dest: &mut [u8]) -> Result<usize, Fault> {
        let chunk_start = self.wire - self.chunk.len() as u64;
        if self.position < self.wire {
            assert!(self.position >= chunk_start, "verified bytes were dropped that the caller has not seen");
            let from = (self.position - chunk_start) as usize;
            let len = dest.len().min(self.chunk.len() - from);
            dest[..len].copy_from_slice(&self.chunk[from..from + len]);
            self.position += len as u64;
            return Ok(len);
        }
        if self.packet_left == 0 {
            self.next_packet().await?;
            if self.packet_left == 0 {
                return Err(Fault::Protocol(format!("it ends at {}, asked for {}", self.wire, self.range.end)));
            }
            return Ok(0);
        }
        let chunk_len = self.spec.chunk_len as usize;
        if self.position == self.wire && dest.len() >= chunk_len.min(self.packet_left) {
            let len =
                if dest.len() >= self.packet_left { self.packet_left } else { dest.len() / chunk_len * chunk_len };
            self.take(&mut dest[..len]).await?;
            self.chunk.clear();
            self.position += len as u64;
            return Ok(len);
        }
        // The caller wants only a part of this chunk, or begins in its middle. Many small reads are likely: bring more
        // at once.
        if self.link.buffered().is_empty() {
            self.link.fill(&mut [], self.packet_left.min(SMALL_READ_LEN)).await?;
        }
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.resize(chunk_len.min(self.packet_left), 0);
        let taken = self.take(&mut chunk).await;
        self.chunk = chunk;
        taken.map(|()| 0)
    }

    /// Brings `dest.len()` bytes of the current packet, whole chunks but at the packet's end, and verifies them.
    async fn take(&mut self, dest: &mut [u8]) -> Result<(), Fault> {
        let buffered = self.link.buffered();
        let mut done = buffered.len().min(dest.len());
        dest[..done].copy_from_slice(&buffered[..done]);
        self.link.consume(done);
        while done < dest.len() {
            let ahead = if dest.len() == self.packet_left { self.ahead() } else { 0 };
            done += self.link.fill(&mut dest[done..], ahead).await?;
        }
        let sums_len = self.spec.sums_len(dest.len() as u64) as usize;
        let sums = &self.sums[self.sums_at..self.sums_at + sums_len];
        self.spec.verify(dest, sums).map_err(|at| Fault::Corrupt { offset: self.wire + at as u64 })?;
        self.sums_at += sums_len;
        self.packet_left -= dest.len();
        self.wire += dest.len() as u64;
        Ok(())
    }

    /// How many bytes to read along behind the current packet: the next one's head and sums, if it is like this one.
    fn ahead(&self) -> usize {
        let after = self.wire + self.packet_left as u64;
        let rest = self.aligned_end().saturating_sub(after).min(self.packet_len as u64);
        if rest == 0 { HEAD_LEN } else { HEAD_LEN + self.spec.sums_len(rest) as usize }
    }

    /// Where the data ends if the server rounds up to whole chunks.
    fn aligned_end(&self) -> u64 {
        self.range.end.next_multiple_of(u64::from(self.spec.chunk_len))
    }

    /// Receives the head and the sums of the next packet.
    async fn next_packet(&mut self) -> Result<(), Fault> {
        let prefix = loop {
            if let Some(bytes) = self.link.buffered().first_chunk::<{ PacketPrefix::LEN }>() {
                break PacketPrefix::decode(*bytes)?;
            }
            self.link.fill(&mut [], HEAD_LEN).await?;
        };
        let head_len = PacketPrefix::LEN + usize::from(prefix.header_len);
        self.need(head_len).await?;
        let header = PacketHeader::decode(&self.link.buffered()[PacketPrefix::LEN..head_len])?;
        let data_len = usize::try_from(header.data_len).map_err(|_| Fault::Protocol("negative length".into()))?;
        let sums_len = self.spec.sums_len(data_len as u64) as usize;
        let expected = header.seqno == self.next_seqno
            && header.offset == self.wire as i64
            && prefix.payload_len as usize == sums_len + data_len
            && header.last == (data_len == 0);
        if !expected {
            return Err(Fault::Protocol(format!(
                "packet {} at {} with {data_len} bytes, awaited {} at {}",
                header.seqno, header.offset, self.next_seqno, self.wire
            )));
        }
        self.need(head_len + sums_len).await?;
        self.sums.clear();
        self.sums.extend_from_slice(&self.link.buffered()[head_len..head_len + sums_len]);
        self.sums_at = 0;
        self.link.consume(head_len + sums_len);
        self.next_seqno += 1;
        self.packet_left = data_len;
        self.packet_len = self.packet_len.max(data_len);
        Ok(())
    }

    async fn need(&mut self, len: usize) -> Result<(), Fault> {
        while self.link.buffered().len() < len {
            let missing = len - self.link.buffered().len();
            self.link.fill(&mut [], missing).await?;
        }
        Ok(())
    }

    /// All was read: takes the end, says that it was good, and leaves the connection for the next. A fault here costs
    /// the connection and nothing else.
    pub(super) async fn finish(mut self, client: &Client) {
        if self.conclude().await.is_ok() {
            self.link.allow(client.options().timeout);
            client.inner.sockets.put(self.link);
        }
    }

    async fn conclude(&mut self) -> Result<(), Fault> {
        // The server may have rounded the end up to the chunk, within the last packet.
        if self.packet_left > self.spec.chunk_len as usize {
            return Err(Fault::Protocol("more than was asked for".into()));
        }
        let mut rest = vec![0; self.packet_left];
        self.take(&mut rest).await?;
        self.next_packet().await?;
        if self.packet_left > 0 {
            return Err(Fault::Protocol("more than was asked for".into()));
        }
        let mut status = Vec::new();
        let verdict = if self.spec.kind == ChecksumKind::Null { Status::SUCCESS } else { Status::CHECKSUM_OK };
        delimited::put(&proto::ClientReadStatusProto { status: verdict.0.into() }, &mut status);
        self.link.send(&status).await
    }
}
