//! The datanodes of a scripted store. The head of a chain answers for all of it.

use super::metad::Book;
use hdfs::proto::*;
use prost::Message;
use rpc::{Call, Exception, Service};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use types::{ChecksumSpec, Generation, ReplicaState};
use wire::layouts::{Answer, ReadLayout};
use wire::packet::{PacketFrame, Parsed};
use wire::ranges::{PartHead, ReadRanges};
use wire::small::{SmallAnswer, SmallWrite};
use wire::{Op, OpHeader, PacketHeader, PipelineAck, Status, delimited};
use xfer::ranges::{Composer, Plan, Source, refusal};
use xfer::read::Stored;

/// What a node does with one op, instead of what it should.
#[derive(Clone, Debug)]
pub(crate) enum Trick {
    Honest,
    /// Closes without a word.
    HangUp,
    Refuse {
        first_bad_link: String,
    },
    /// Sends a byte of the block that is not the one that was written.
    Corrupt(usize),
    /// Closes after so many bytes of packets; a writer's, after so many packets.
    CutAfter(usize),
    /// Says that this node of the chain did not take packet `after`.
    Blame {
        node: usize,
        after: usize,
    },
    /// Takes everything, the end too, and closes without a word.
    CutAtEnd,
    /// Says for ten seconds that it is still at it, as often as it can.
    Flood,
    /// Takes the request and all that follows it, and says nothing.
    Silent,
    /// Sends its answer to a request of ranges little by little, over this time.
    Drip(Duration),
    /// Sends so many bytes of its answer to a request of ranges, and the others after this time.
    Pause {
        after: usize,
        time: Duration,
    },
}

/// Of an answer that drips.
const DROP_COUNT: u32 = 25;

pub(crate) struct Node {
    number: usize,
    port: u16,
    ipc: rpc::Server,
    pub(super) book: Arc<Book>,
    pub(super) spec: ChecksumSpec,
    packet_len: usize,
    tricks: Mutex<VecDeque<Trick>>,
    /// How long it takes to begin with a read.
    lag_ms: AtomicU64,
    pub(crate) connections: AtomicUsize,
    /// Of those, how many have ended.
    pub(crate) ended: AtomicUsize,
    pub(crate) heartbeats: AtomicUsize,
    pub(crate) syncs: AtomicUsize,
    pub(crate) range_requests: AtomicUsize,
    pub(crate) layout_requests: AtomicUsize,
    /// Of its Unix socket, if it has one.
    pub(super) socket_path: Mutex<Option<String>>,
    /// Questions for the socket, and for descriptors.
    pub(crate) asked_count: AtomicUsize,
    pub(crate) passed_count: AtomicUsize,
    /// Stages of the writes so far.
    pub(crate) stages: Mutex<Vec<i32>>,
    /// How many nodes each of their chains had.
    pub(crate) widths: Mutex<Vec<usize>>,
}

/// What a datanode answers by RPC.
struct Visible(Arc<Book>);

impl Service for Visible {
    async fn call(&self, call: Call) -> Result<bytes::Bytes, Exception> {
        let request: GetReplicaVisibleLengthRequestProto = call.request()?;
        let state = self.0.state();
        let length = state.visible_len.unwrap_or(state.blocks[&request.block.block_id].0.len() as u64);
        Ok(GetReplicaVisibleLengthResponseProto { length }.encode_to_vec().into())
    }
}

impl Node {
    pub(crate) async fn start(number: usize, book: Arc<Book>, spec: ChecksumSpec, packet_len: usize) -> Arc<Self> {
        let listener = TcpListener::bind(super::local()).await.unwrap();
        let visible = Arc::new(Visible(Arc::clone(&book)));
        let node = Arc::new(Self {
            number,
            port: listener.local_addr().unwrap().port(),
            ipc: rpc::Server::bind(super::local(), rpc::ServerOptions::default(), visible).await.unwrap(),
            book,
            spec,
            packet_len,
            tricks: Mutex::default(),
            lag_ms: AtomicU64::new(0),
            connections: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            heartbeats: AtomicUsize::new(0),
            syncs: AtomicUsize::new(0),
            range_requests: AtomicUsize::new(0),
            layout_requests: AtomicUsize::new(0),
            socket_path: Mutex::default(),
            asked_count: AtomicUsize::new(0),
            passed_count: AtomicUsize::new(0),
            stages: Mutex::default(),
            widths: Mutex::default(),
        });
        let serving = Arc::clone(&node);
        ::io::task::spawn("scripted datanode", async move {
            while let Ok((stream, _)) = listener.accept().await {
                serving.connections.fetch_add(1, Ordering::Relaxed);
                let node = Arc::clone(&serving);
                ::io::task::spawn("scripted session", async move {
                    let mut wire = Wire::new(&stream);
                    while node.op(&mut wire).await.is_ok() {}
                    node.ended.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        node
    }

    pub(crate) fn info(&self) -> DatanodeInfoProto {
        let id = DatanodeIdProto {
            ip_addr: "127.0.0.1".into(),
            host_name: "localhost".into(),
            datanode_uuid: format!("node-{}", self.number),
            xfer_port: self.port.into(),
            info_port: 0,
            ipc_port: self.ipc.local_addr().port().into(),
            info_secure_port: None,
        };
        DatanodeInfoProto { id, ..Default::default() }
    }

    pub(crate) fn addr(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u32 {
        self.port.into()
    }

    /// What to do with the next ops; honest behind them.
    pub(crate) fn script(&self, tricks: impl IntoIterator<Item = Trick>) {
        self.tricks.lock().unwrap().extend(tricks);
    }

    pub(crate) fn set_lag(&self, lag: Duration) {
        self.lag_ms.store(lag.as_millis() as u64, Ordering::Relaxed);
    }

    async fn op(&self, wire: &mut Wire<'_>) -> io::Result<()> {
        let head = wire.take(OpHeader::LEN).await?;
        let header = OpHeader::decode([head[0], head[1], head[2]]).unwrap();
        let trick = self.tricks.lock().unwrap().pop_front().unwrap_or(Trick::Honest);
        match header.op {
            Op::ReadBlock => {
                let request = wire.message().await?;
                self.read(wire, request, trick).await
            }
            Op::ReadRanges => {
                let request = wire.message().await?;
                self.read_ranges(wire, request, trick).await
            }
            Op::ReadLayout => {
                let _request: ReadLayout = wire.message().await?;
                self.read_layout(wire, trick).await
            }
            Op::WriteBlock => {
                let request = wire.message().await?;
                self.write(wire, request, trick).await
            }
            Op::WriteSmall => {
                let request = wire.message().await?;
                self.write_small(wire, request).await
            }
            Op::RequestShortCircuitFds => {
                let _request: OpRequestShortCircuitAccessProto = wire.message().await?;
                self.asked_count.fetch_add(1, Ordering::Relaxed);
                let said = LocalReplicaProto {
                    socket_path: self.socket_path.lock().unwrap().clone(),
                    ..LocalReplicaProto::default()
                };
                let mut out = Vec::new();
                answer(BlockOpResponseProto { local_replica: Some(said), ..Default::default() }, &mut out);
                wire.send(&out).await
            }
            other => panic!("{other:?} is not scripted"),
        }
    }

    async fn read(&self, wire: &mut Wire<'_>, request: OpReadBlockProto, trick: Trick) -> io::Result<()> {
        tokio::time::sleep(Duration::from_millis(self.lag_ms.load(Ordering::Relaxed))).await;
        if let Some(ended) = refused(wire, &trick).await {
            return ended;
        }
        let mut data = self.book.state().blocks[&request.header.base_header.block.block_id].0.clone();
        let chunk = u64::from(self.spec.chunk_len);
        let start = request.offset / chunk * chunk;
        let end = ((request.offset + request.len).next_multiple_of(chunk)).min(data.len() as u64);
        assert!(request.offset + request.len <= data.len() as u64, "more asked for than there is");
        let mut sums = Vec::new();
        self.spec.compute(&data[start as usize..end as usize], &mut sums);
        if let Trick::Corrupt(at) = trick {
            data[at] ^= 1;
        }
        let mut out = Vec::new();
        let info = ReadOpChecksumInfoProto { checksum: self.spec.into(), chunk_offset: start };
        answer(BlockOpResponseProto { read_op_checksum_info: Some(info), ..Default::default() }, &mut out);
        let answer_len = out.len();
        let (mut at, mut seqno) = (start, 0);
        while at < end {
            let len = (self.packet_len as u64).min(end - at);
            let sums_at = self.spec.sums_len(at - start) as usize;
            let sums = &sums[sums_at..sums_at + self.spec.sums_len(len) as usize];
            PacketHeader { offset: at as i64, seqno, last: false, data_len: len as i32, sync: false }
                .put(sums.len() as u32, &mut out);
            out.extend_from_slice(sums);
            out.extend_from_slice(&data[at as usize..(at + len) as usize]);
            at += len;
            seqno += 1;
        }
        PacketHeader { offset: at as i64, seqno, last: true, data_len: 0, sync: false }.put(0, &mut out);
        if let Trick::CutAfter(len) = trick {
            out.truncate(answer_len + len);
        }
        wire.send(&out).await?;
        if matches!(trick, Trick::CutAfter(_)) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let status: ClientReadStatusProto = wire.message().await?;
        assert_eq!(status.status, i32::from(Status::CHECKSUM_OK.0));
        Ok(())
    }

    async fn read_ranges(&self, wire: &mut Wire<'_>, request: ReadRanges, trick: Trick) -> io::Result<()> {
        self.range_requests.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(self.lag_ms.load(Ordering::Relaxed))).await;
        if let Some(ended) = refused(wire, &trick).await {
            return ended;
        }
        let mut out = Vec::new();
        answer(BlockOpResponseProto::default(), &mut out);
        let (answer_len, mut first, mut composer) = (out.len(), 0, Composer::default());
        for (place, (block, asked)) in request.blocks.iter().zip(request.asked().unwrap()).enumerate() {
            let data = self.book.state().blocks[&block.block].0.clone();
            let mut block = Held { data, spec: self.spec, sums: Vec::new() };
            block.spec.compute(&block.data, &mut block.sums);
            if let Trick::Corrupt(at) = trick
                && place == 0
            {
                block.data[at] ^= 1;
            }
            let (len, checksum) = (block.data.len() as u64, block.spec);
            let stored = Stored { generation: Generation(1001), len, checksum, state: ReplicaState::Finalized };
            let mut plan = Plan::new(stored, first, &asked, &mut composer).unwrap();
            first += asked.len() as u32;
            while let Some(batch) = plan.next_batch() {
                match batch.make(&mut block) {
                    Ok(made) => made.iter().for_each(|piece| {
                        out.extend_from_slice(&piece.bytes);
                        out.extend_from_slice(&block.data[piece.file.start as usize..piece.file.end as usize]);
                    }),
                    Err(_) => {
                        out.extend(refusal(batch.first(), Status::ERROR_CHECKSUM, "scripted"));
                        break;
                    }
                }
            }
        }
        out.extend_from_slice(&PartHead::End.encode());
        if let Trick::CutAfter(len) = trick {
            wire.send(&out[..answer_len + len]).await?;
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if let Trick::Drip(time) = trick {
            for piece in out.chunks(out.len().div_ceil(DROP_COUNT as usize)) {
                tokio::time::sleep(time / DROP_COUNT).await;
                wire.send(piece).await?;
            }
            return Ok(());
        }
        if let Trick::Pause { after, time } = trick {
            let rest = out.split_off(after);
            wire.send(&out).await?;
            tokio::time::sleep(time).await;
            out = rest;
        }
        wire.send(&out).await
    }

    /// It looks into no files.
    async fn read_layout(&self, wire: &mut Wire<'_>, trick: Trick) -> io::Result<()> {
        self.layout_requests.fetch_add(1, Ordering::Relaxed);
        if let Some(ended) = refused(wire, &trick).await {
            return ended;
        }
        let mut out = Vec::new();
        answer(BlockOpResponseProto::default(), &mut out);
        delimited::put(&Answer::Busy("scripted".into()).into_message(), &mut out);
        wire.send(&out).await
    }

    async fn write(&self, wire: &mut Wire<'_>, request: OpWriteBlockProto, trick: Trick) -> io::Result<()> {
        self.stages.lock().unwrap().push(request.stage);
        if let Some(ended) = refused(wire, &trick).await {
            return ended;
        }
        let block = request.header.base_header.block.block_id;
        let width = request.targets.len() + 1;
        assert_eq!(request.pipeline_size as usize, width);
        self.widths.lock().unwrap().push(width);
        if request.latest_generation_stamp > 0 {
            let mut state = self.book.state();
            let (data, generation) = state.blocks.get_mut(&block).unwrap();
            assert!(data.len() as u64 >= request.min_bytes_rcvd, "acknowledged bytes are gone");
            assert!(data.len() as u64 <= request.max_bytes_rcvd, "bytes nobody sent");
            *generation = request.latest_generation_stamp;
        }
        let mut out = Vec::new();
        answer(BlockOpResponseProto::default(), &mut out);
        wire.send(&out).await?;
        if request.stage() == op_write_block_proto::BlockConstructionStage::PipelineCloseRecovery {
            return Ok(());
        }
        if let Trick::Flood = trick {
            let mut piece = Vec::new();
            (0..10_000).for_each(|_| PipelineAck::KEEPALIVE.put(&mut piece));
            let clock = ::io::SystemClock::new();
            while ::io::Clock::monotonic(&clock) < Duration::from_secs(10) {
                wire.send(&piece).await?;
            }
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        for number in 0.. {
            let frame = wire.packet().await?;
            if matches!(trick, Trick::CutAfter(count) if count == number) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let mut replies = vec![Status::SUCCESS; width];
            if frame.header.is_heartbeat() {
                self.heartbeats.fetch_add(1, Ordering::Relaxed);
            } else if matches!(trick, Trick::Blame { after, .. } if after == number) {
                let Trick::Blame { node, .. } = trick else { unreachable!() };
                replies.truncate(node);
                replies.push(Status::ERROR);
            } else {
                self.store(block, &frame, wire);
            }
            self.syncs.fetch_add(frame.header.sync.into(), Ordering::Relaxed);
            wire.consume(frame.packet_len());
            if frame.header.last && matches!(trick, Trick::CutAtEnd) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let mut ack = Vec::new();
            PipelineAck { seqno: frame.header.seqno, replies }.put(&mut ack);
            wire.send(&ack).await?;
            if matches!(trick, Trick::Blame { after, .. } if after == number) {
                // Closing with bytes unread would reset the connection, and take the ack away from the writer.
                while wire.more().await.is_ok() {
                    wire.bytes.clear();
                }
            }
            if frame.header.last {
                return Err(io::ErrorKind::BrokenPipe.into()); // write connections are not used again
            }
        }
        Ok(())
    }

    async fn write_small(&self, wire: &mut Wire<'_>, request: SmallWrite) -> io::Result<()> {
        let sums_len = ChecksumSpec::DEFAULT.sums_len(request.data_len.into()) as usize;
        let body = wire.take(sums_len + request.data_len as usize).await?;
        let (sums, data) = body.split_at(sums_len);
        assert_eq!(ChecksumSpec::DEFAULT.verify(data, sums), Ok(()), "a writer's checksum");
        tokio::time::sleep(Duration::from_millis(self.lag_ms.load(Ordering::Relaxed))).await;
        self.book.state().blocks.insert(request.block, (data.to_vec(), request.generation));
        let have = (0..=request.targets.len() as u32).collect();
        let mut out = Vec::new();
        let answer = SmallAnswer { number: request.number, refusal: String::new(), have, status: 0 };
        delimited::put(&answer, &mut out);
        wire.send(&out).await
    }

    /// Takes a packet's data, after looking at its checksums; what is there already may come again.
    fn store(&self, block: u64, frame: &PacketFrame, wire: &Wire<'_>) {
        let data = &wire.bytes[frame.data.clone()];
        let sums = &wire.bytes[frame.sums.clone()];
        assert_eq!(ChecksumSpec::DEFAULT.verify(data, sums), Ok(()), "a writer's checksum");
        let mut state = self.book.state();
        let (stored, _) = state.blocks.get_mut(&block).unwrap();
        let at = frame.header.offset as usize;
        assert!(at <= stored.len(), "a gap before offset {at}");
        let known = data.len().min(stored.len() - at);
        assert_eq!(stored[at..at + known], data[..known], "bytes that came again are the same");
        stored.extend_from_slice(&data[known..]);
    }
}

/// A block, as a source of ranges.
struct Held {
    data: Vec<u8>,
    spec: ChecksumSpec,
    sums: Vec<u8>,
}

impl Source for Held {
    type Error = std::convert::Infallible;

    fn data(&mut self, range: Range<u64>, into: &mut Vec<u8>) -> Result<(), Self::Error> {
        into.extend_from_slice(&self.data[range.start as usize..range.end as usize]);
        Ok(())
    }

    fn sums(&mut self, range: Range<u64>, into: &mut Vec<u8>) -> Result<(), Self::Error> {
        let [from, to] = [range.start, range.end].map(|end| self.spec.sums_len(end) as usize);
        into.extend_from_slice(&self.sums[from..to]);
        Ok(())
    }
}

/// Answers, or does not, if the trick is about that.
async fn refused(wire: &mut Wire<'_>, trick: &Trick) -> Option<io::Result<()>> {
    match trick {
        Trick::HangUp => {}
        Trick::Silent => while wire.more().await.is_ok() {},
        Trick::Refuse { first_bad_link } => {
            let mut out = Vec::new();
            let refusal = BlockOpResponseProto {
                status: Status::ERROR.0.into(),
                first_bad_link: Some(first_bad_link.clone()),
                message: Some("scripted".into()),
                ..Default::default()
            };
            answer(refusal, &mut out);
            wire.send(&out).await.unwrap();
        }
        _ => return None,
    }
    Some(Err(io::ErrorKind::BrokenPipe.into()))
}

fn answer(answer: BlockOpResponseProto, out: &mut Vec<u8>) {
    delimited::put(&answer, out);
}

/// A connection and what has come on it.
struct Wire<'a> {
    stream: &'a TcpStream,
    bytes: Vec<u8>,
}

impl<'a> Wire<'a> {
    fn new(stream: &'a TcpStream) -> Self {
        Self { stream, bytes: Vec::new() }
    }

    async fn more(&mut self) -> io::Result<()> {
        let mut piece = vec![0; 256 << 10];
        loop {
            self.stream.readable().await?;
            match self.stream.try_read(&mut piece) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(len) => {
                    self.bytes.extend_from_slice(&piece[..len]);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn consume(&mut self, len: usize) {
        self.bytes.drain(..len);
    }

    async fn take(&mut self, len: usize) -> io::Result<Vec<u8>> {
        while self.bytes.len() < len {
            self.more().await?;
        }
        Ok(self.bytes.drain(..len).collect())
    }

    async fn message<M: Message + Default>(&mut self) -> io::Result<M> {
        loop {
            if let Some((message, len)) = delimited::split(&self.bytes, "message", 1 << 20).unwrap() {
                let message = delimited::decode(message, "message").unwrap();
                self.consume(len);
                return Ok(message);
            }
            self.more().await?;
        }
    }

    /// The next packet, left in the buffer.
    async fn packet(&mut self) -> io::Result<PacketFrame> {
        loop {
            if let Parsed::Whole(frame) = PacketFrame::parse(&self.bytes).unwrap() {
                return Ok(frame);
            }
            self.more().await?;
        }
    }

    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut sent = 0;
        while sent < bytes.len() {
            self.stream.writable().await?;
            match self.stream.try_write(&bytes[sent..]) {
                Ok(len) => sent += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
