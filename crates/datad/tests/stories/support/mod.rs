//! Real datanodes in one process, and a client of few words: it does what it is told, right or wrong.

#![allow(clippy::result_large_err, reason = "a refusal is HDFS's own message")]

pub(crate) mod metad;

use datad::{Config, Datad};
use hdfs::proto::{self, BlockConstructionStage as Stage};
use prost::Message;
use rustix::fs::{CWD, FileType, Mode};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use tokio::runtime::Runtime;
use types::{ChecksumKind, ChecksumSpec};
use wire::packet::Parsed;
use wire::{Op, OpHeader, PacketFrame, PacketHeader, PipelineAck, Status, delimited};

pub(crate) const SPEC: ChecksumSpec = ChecksumSpec::DEFAULT;
pub(crate) const POOL: &str = "BP-1-127.0.0.1-1";
/// Nothing here takes longer unless it hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes that differ from place to place and from `seed` to `seed`.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut random = types::random::Seeded(seed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend(types::Random::next_u64(&mut random).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

pub(crate) struct Cluster {
    pub(crate) runtime: Runtime,
    /// Of whatever else belongs to the world.
    pub(crate) runtimes: Vec<Runtime>,
    nodes: Vec<Option<Datad>>,
    pub(crate) configs: Vec<Config>,
    _dir: tempfile::TempDir,
}

impl Cluster {
    pub(crate) fn new(count: usize) -> Self {
        Self::with(count, |_| {})
    }

    /// Nodes without a metadata server, unless `change` names one.
    pub(crate) fn with(count: usize, change: impl Fn(&mut Config)) -> Self {
        let cluster = Self::made(count, change);
        (0..count).for_each(|number| cluster.open(number));
        cluster
    }

    /// Nodes that do not know whether tokens are needed.
    pub(crate) fn untold(count: usize) -> Self {
        Self::made(count, |_| {})
    }

    /// Nobody is asked for tokens there, as where a metadata server says so.
    fn open(&self, number: usize) {
        self.node(number).hear_token_rules(&wire::node::TokenRules::default());
    }

    fn made(count: usize, change: impl Fn(&mut Config)) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let configs = (0..count).map(|number| {
            let mut config = Config::new(dir.path().join(number.to_string()), any, any, "127.0.0.1:9".into());
            config.durability = datad::Durability::Replicated; // the disks of tests are slow, and not what is tested
            change(&mut config);
            config
        });
        let configs: Vec<Config> = configs.collect();
        let nodes = configs.iter().map(|config| Some(runtime.block_on(datad::start(config.clone())).unwrap()));
        let nodes = nodes.collect();
        Self { runtime, runtimes: Vec::new(), nodes, configs, _dir: dir }
    }

    pub(crate) fn node(&self, number: usize) -> &Datad {
        self.nodes[number].as_ref().expect("a node that runs")
    }

    pub(crate) fn stop(&mut self, number: usize) {
        let node = self.nodes[number].take().expect("a node that runs");
        self.runtime.block_on(node.shutdown());
    }

    pub(crate) fn start(&mut self, number: usize) {
        let started = self.runtime.block_on(datad::start(self.configs[number].clone()));
        self.nodes[number] = Some(started.unwrap());
        self.open(number);
    }

    /// As `start`, with what has changed in its configuration.
    pub(crate) fn start_with(
        &mut self,
        number: usize,
        change: impl FnOnce(&mut Config),
    ) -> Result<(), datad::StartError> {
        change(&mut self.configs[number]);
        self.nodes[number] = Some(self.runtime.block_on(datad::start(self.configs[number].clone()))?);
        self.open(number);
        Ok(())
    }

    /// Where the directories of all nodes are.
    pub(crate) fn dir(&self) -> &std::path::Path {
        self._dir.path()
    }

    pub(crate) fn info(&self, number: usize) -> proto::DatanodeInfoProto {
        info(self.node(number).xfer_addr())
    }

    pub(crate) fn connect(&self, number: usize) -> Connection {
        Connection::to(self.node(number).xfer_addr())
    }

    /// Sets up a chain through `nodes`.
    pub(crate) fn chain(&self, nodes: &[usize], ask: &Ask) -> Result<Chain, proto::BlockOpResponseProto> {
        let infos: Vec<_> = nodes[1..].iter().map(|number| self.info(*number)).collect();
        chain(self.connect(nodes[0]), infos, ask)
    }

    /// Writes a block in packets of the usual length.
    pub(crate) fn write(&self, nodes: &[usize], block: u64, data: &[u8]) {
        let mut chain = self.chain(nodes, &Ask::create(block)).unwrap();
        chain.send_all(data);
        chain.finish();
    }

    pub(crate) fn read(
        &self,
        node: usize,
        block: u64,
        offset: u64,
        len: u64,
    ) -> Result<Vec<u8>, proto::BlockOpResponseProto> {
        self.connect(node).read(block, offset, len)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in self.nodes.iter_mut().filter_map(Option::take) {
            self.runtime.block_on(node.shutdown());
        }
    }
}

pub(crate) fn info(addr: SocketAddr) -> proto::DatanodeInfoProto {
    let id = proto::DatanodeIdProto {
        ip_addr: addr.ip().to_string(),
        host_name: "not used".into(),
        xfer_port: addr.port().into(),
        ..Default::default()
    };
    proto::DatanodeInfoProto { id, ..Default::default() }
}

pub(crate) fn block_proto(block: u64, generation: u64, len: u64) -> proto::ExtendedBlockProto {
    proto::ExtendedBlockProto {
        pool_id: POOL.into(),
        block_id: block,
        generation_stamp: generation,
        num_bytes: Some(len),
    }
}

pub(crate) fn base_header(block: proto::ExtendedBlockProto) -> proto::BaseHeaderProto {
    proto::BaseHeaderProto { block, token: Some(proto::TokenProto::default()), trace_info: None }
}

pub(crate) fn header(block: proto::ExtendedBlockProto) -> proto::ClientOperationHeaderProto {
    proto::ClientOperationHeaderProto { base_header: base_header(block), client_name: "client".into() }
}

/// What a chain is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) block: u64,
    pub(crate) stage: Stage,
    pub(crate) generation: u64,
    pub(crate) new_generation: u64,
    pub(crate) min: u64,
    pub(crate) max: u64,
    pub(crate) spec: ChecksumSpec,
    pub(crate) token: Vec<u8>,
    pub(crate) password: Vec<u8>,
    /// As clients of ours say it.
    pub(crate) stream: Option<proto::StreamProto>,
}

pub(crate) const GENERATION: u64 = 1001;

impl Ask {
    pub(crate) fn create(block: u64) -> Self {
        let stage = Stage::PipelineSetupCreate;
        let token = Vec::new();
        Self {
            block,
            stage,
            generation: GENERATION,
            new_generation: 0,
            min: 0,
            max: 0,
            spec: SPEC,
            token,
            password: Vec::new(),
            stream: None,
        }
    }

    /// Who sends to each node but the first; and keepalives are understood.
    pub(crate) fn routed(self, parents: &[u32]) -> Self {
        let abilities = Some(wire::Abilities::OF_STREAM.bits());
        let stream = proto::StreamProto { parents: parents.to_vec(), abilities, packet_len: None };
        Self { stream: Some(stream), ..self }
    }

    pub(crate) fn again(block: u64, stage: Stage, new_generation: u64, min: u64, max: u64) -> Self {
        Self { stage, new_generation, min, max, ..Self::create(block) }
    }

    pub(crate) fn op(&self, targets: Vec<proto::DatanodeInfoProto>) -> proto::OpWriteBlockProto {
        let mut header = header(block_proto(self.block, self.generation, 128 << 20));
        if !self.token.is_empty() {
            let identifier = self.token.clone().into();
            let password = self.password.clone().into();
            header.base_header.token = Some(proto::TokenProto { identifier, password, ..Default::default() });
        }
        proto::OpWriteBlockProto {
            header,
            pipeline_size: targets.len() as u32 + 1,
            target_storage_types: vec![1; targets.len()],
            targets,
            stage: self.stage.into(),
            min_bytes_rcvd: self.min,
            max_bytes_rcvd: self.max,
            latest_generation_stamp: self.new_generation,
            requested_checksum: proto::ChecksumProto {
                r#type: self.spec.kind as i32,
                bytes_per_checksum: self.spec.chunk_len,
            },
            stream: self.stream.clone(),
            ..Default::default()
        }
    }
}

pub(crate) fn chain(
    mut connection: Connection,
    targets: Vec<proto::DatanodeInfoProto>,
    ask: &Ask,
) -> Result<Chain, proto::BlockOpResponseProto> {
    let node_count = targets.len() + 1;
    connection.send_op(Op::WriteBlock, &ask.op(targets));
    let mut answer = connection.answer();
    while ask.stream.is_some() && answer.status == i32::from(Status::IN_PROGRESS.0) {
        answer = connection.answer();
    }
    if answer.status != 0 {
        return Err(answer);
    }
    assert_eq!(answer.first_bad_link(), "");
    Ok(Chain { connection, seqno: 0, offset: ask.min, node_count, spec: ask.spec })
}

/// One connection to the transfer port.
pub(crate) struct Connection {
    pub(crate) socket: TcpStream,
    came: Vec<u8>,
}

impl Connection {
    pub(crate) fn to(addr: SocketAddr) -> Self {
        let socket = TcpStream::connect(addr).unwrap();
        socket.set_nodelay(true).unwrap();
        Self::over(socket)
    }

    pub(crate) fn over(socket: TcpStream) -> Self {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { socket, came: Vec::new() }
    }

    pub(crate) fn send_op(&mut self, op: Op, message: &impl Message) {
        let mut bytes = OpHeader { op }.encode().to_vec();
        delimited::put(message, &mut bytes);
        self.socket.write_all(&bytes).unwrap();
    }

    /// Waits for more bytes; false at the end of the connection.
    fn fill(&mut self) -> bool {
        let mut piece = vec![0; 1 << 20];
        match self.socket.read(&mut piece) {
            Ok(0) => false,
            Ok(len) => {
                self.came.extend_from_slice(&piece[..len]);
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// The next message; `None` if the peer closed instead.
    pub(crate) fn message<M: Message + Default>(&mut self) -> Option<M> {
        loop {
            if let Some((message, len)) = delimited::split(&self.came, "message", 1 << 20).unwrap() {
                let message = M::decode(message).unwrap();
                self.came.drain(..len);
                return Some(message);
            }
            if !self.fill() {
                return None;
            }
        }
    }

    /// Bytes that are no message.
    pub(crate) fn receive(&mut self, bytes: &mut [u8]) {
        while self.came.len() < bytes.len() {
            assert!(self.fill(), "the connection ended");
        }
        let rest = self.came.split_off(bytes.len());
        bytes.copy_from_slice(&std::mem::replace(&mut self.came, rest));
    }

    pub(crate) fn answer(&mut self) -> proto::BlockOpResponseProto {
        self.message().expect("an answer")
    }

    pub(crate) fn ack(&mut self) -> Option<PipelineAck> {
        loop {
            if let Some((ack, len)) = PipelineAck::split(&self.came).unwrap() {
                self.came.drain(..len);
                return Some(ack);
            }
            if !self.fill() {
                return None;
            }
        }
    }

    pub(crate) fn is_closed(&mut self) -> bool {
        self.came.is_empty() && !self.fill()
    }

    /// A packet, whole, with the place of its parts.
    pub(crate) fn packet(&mut self) -> (Vec<u8>, PacketFrame) {
        loop {
            if let Parsed::Whole(frame) = PacketFrame::parse(&self.came).unwrap() {
                let packet = self.came.drain(..frame.packet_len()).collect();
                return (packet, frame);
            }
            assert!(self.fill(), "the connection ended inside a read");
        }
    }

    pub(crate) fn send_read(&mut self, block: u64, offset: u64, len: u64) {
        let header = header(block_proto(block, GENERATION, 0));
        let op = proto::OpReadBlockProto { header, offset, len, ..Default::default() };
        self.send_op(Op::ReadBlock, &op);
    }

    /// Reads a range and holds everything to the rules: offsets, numbers, alignment, checksums, the end.
    pub(crate) fn read(&mut self, block: u64, offset: u64, len: u64) -> Result<Vec<u8>, proto::BlockOpResponseProto> {
        self.send_read(block, offset, len);
        let data = self.receive_read(offset, len)?;
        let mut status = Vec::new();
        let checked = proto::ClientReadStatusProto { status: Status::CHECKSUM_OK.0.into() };
        delimited::put(&checked, &mut status);
        self.socket.write_all(&status).unwrap();
        Ok(data)
    }

    pub(crate) fn receive_read(&mut self, offset: u64, len: u64) -> Result<Vec<u8>, proto::BlockOpResponseProto> {
        let answer = self.answer();
        if answer.status != 0 {
            return Err(answer);
        }
        let info = answer.read_op_checksum_info.unwrap();
        let kind = ChecksumKind::from_number(info.checksum.r#type).unwrap();
        let spec = ChecksumSpec::new(kind, info.checksum.bytes_per_checksum).unwrap();
        let start = info.chunk_offset;
        assert!(start <= offset && offset < start + u64::from(spec.chunk_len));
        let mut data = Vec::new();
        for seqno in 0.. {
            let (bytes, frame) = self.packet();
            assert_eq!(frame.header.seqno, seqno);
            assert_eq!(frame.header.offset as u64, start + data.len() as u64);
            assert_eq!(frame.sums.start, 31, "libhdfs3 counts on it");
            let piece = &bytes[frame.data.clone()];
            if frame.header.last {
                assert!(piece.is_empty());
                break;
            }
            assert!(!piece.is_empty());
            let before = start + (data.len() as u64);
            assert!(before < offset + len || len == 0, "a packet after the one that satisfies the request");
            spec.verify(piece, &bytes[frame.sums.clone()]).expect("good checksums");
            data.extend_from_slice(piece);
        }
        let skip = (offset - start) as usize;
        Ok(data[skip..skip + len as usize].to_vec())
    }
}

/// A write under way.
pub(crate) struct Chain {
    pub(crate) connection: Connection,
    pub(crate) seqno: i64,
    pub(crate) offset: u64,
    pub(crate) node_count: usize,
    pub(crate) spec: ChecksumSpec,
}

/// As stock writers cut: 126 chunks.
pub(crate) const PACKET_LEN: usize = 126 * 512;

impl Chain {
    /// Sends a packet as it is told; `sums` are made if none are given.
    pub(crate) fn packet(&mut self, header: PacketHeader, sums: Option<&[u8]>, data: &[u8]) {
        let mut made = Vec::new();
        self.spec.compute(data, &mut made);
        let sums = sums.unwrap_or(&made);
        let mut bytes = Vec::new();
        header.put(sums.len() as u32, &mut bytes);
        bytes.extend_from_slice(sums);
        bytes.extend_from_slice(data);
        self.connection.socket.write_all(&bytes).unwrap();
    }

    fn next(&mut self, data_len: usize) -> PacketHeader {
        let seqno = self.seqno;
        self.seqno += 1;
        PacketHeader { offset: self.offset as i64, seqno, data_len: data_len as i32, ..PacketHeader::default() }
    }

    /// One packet from where the last ended.
    pub(crate) fn send(&mut self, data: &[u8]) {
        let header = self.next(data.len());
        self.packet(header, None, data);
        self.offset += data.len() as u64;
    }

    /// One packet from anywhere.
    pub(crate) fn send_at(&mut self, offset: u64, data: &[u8], sync: bool) {
        self.offset = offset;
        let header = PacketHeader { sync, ..self.next(data.len()) };
        self.packet(header, None, data);
        self.offset += data.len() as u64;
    }

    pub(crate) fn heartbeat(&mut self) {
        self.packet(PacketHeader { seqno: PacketHeader::HEARTBEAT, ..PacketHeader::default() }, None, &[]);
    }

    pub(crate) fn send_last(&mut self) {
        let header = PacketHeader { last: true, ..self.next(0) };
        self.packet(header, None, &[]);
    }

    /// The next ack, keepalives left out; `None` if the connection ended instead.
    pub(crate) fn ack(&mut self) -> Option<PipelineAck> {
        loop {
            match self.word() {
                Some(ack) if ack.is_keepalive() => {}
                other => return other,
            }
        }
    }

    /// The next ack or keepalive.
    pub(crate) fn word(&mut self) -> Option<PipelineAck> {
        self.connection.ack()
    }

    /// Takes the ack of packet `seqno`, which must be good.
    pub(crate) fn acked(&mut self, seqno: i64) {
        let good = PipelineAck { seqno, replies: vec![Status::SUCCESS; self.node_count] };
        assert_eq!(self.ack(), Some(good));
    }

    /// Sends packets of the usual length, with a window as stock writers have it, and takes their acks.
    pub(crate) fn send_all(&mut self, data: &[u8]) {
        let mut acked = self.seqno;
        for piece in data.chunks(PACKET_LEN) {
            self.send(piece);
            if self.seqno - acked > 20 {
                self.acked(acked);
                acked += 1;
            }
        }
        for seqno in acked..self.seqno {
            self.acked(seqno);
        }
    }

    /// The last packet, and the end of the connection.
    pub(crate) fn finish(mut self) {
        self.send_last();
        self.acked(self.seqno - 1);
        assert!(self.connection.is_closed());
    }
}

/// Not by a program: that would have copies of all that this one has open when it is born, locks too, and a disk that
/// another test closes meanwhile would not be free.
pub(crate) fn make_pipe(path: &std::path::Path) {
    let ours = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(CWD, path, FileType::Fifo, ours, 0).unwrap();
}

/// Waits until `look` says yes.
pub(crate) fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    let (_sender, receiver) = std::sync::mpsc::channel::<()>();
    // A minute: what is slow is not what hangs.
    for _ in 0..6000 {
        if look() {
            return;
        }
        let _later = receiver.recv_timeout(Duration::from_millis(10));
    }
    panic!("{what}: it did not come to pass");
}

impl Connection {
    /// Reads whatever comes until the connection ends; true if nothing came.
    pub(crate) fn message_or_end(&mut self) -> bool {
        while self.fill() {}
        std::mem::take(&mut self.came).is_empty()
    }
}
