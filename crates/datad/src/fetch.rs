//! Reading a whole replica from another node, by the operation that clients read with (op 81).

use crate::block::checksum_spec;
use crate::config::Limits;
use hdfs::proto;
use std::collections::HashMap;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use types::{ChecksumKind, ChecksumSpec, ContainerId, InodeId};
use wire::node::Copy;
use wire::{BlockScope, Op, OpHeader, PacketHeader, PacketPrefix, Status, delimited};

/// An answer before the packets, with an error text perhaps.
const ANSWER_LEN_MAX: usize = 64 << 10;
/// Read of the socket at a time, for heads and small packets; data of large ones goes past it.
const BUFFER_LEN: usize = 64 << 10;
/// Connections kept: a node copies from some others at a time.
const KEPT_COUNT_MAX: usize = 16;

/// Why nothing came of it.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The node that was read is to blame, or the way to it: another one may do.
    Source { reason: String, corrupt: bool },
    /// This node is.
    Own(String),
}

fn source(reason: impl Into<String>) -> Fault {
    Fault::Source { reason: reason.into(), corrupt: false }
}

fn failed(error: &std::io::Error) -> Fault {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => source("it sends nothing"),
        ErrorKind::UnexpectedEof => source("it closed the connection"),
        _ => source(error.to_string()),
    }
}

/// Connections to other nodes, kept between replicas: small ones come by the thousand.
#[derive(Debug)]
pub(crate) struct Fetcher {
    connect: Duration,
    silent: Duration,
    kept: HashMap<String, BufReader<TcpStream>>,
}

/// The answer to one read.
pub(crate) struct Reply<'a> {
    fetcher: &'a mut Fetcher,
    addr: String,
    socket: BufReader<TcpStream>,
    spec: ChecksumSpec,
    at: u64,
    seqno: i64,
    payload: Vec<u8>,
}

/// Bytes and the checksums that cover them. They agree.
pub(crate) struct Packet<'a> {
    pub(crate) sums: &'a [u8],
    pub(crate) data: &'a [u8],
}

impl Fetcher {
    pub(crate) fn new(limits: &Limits) -> Self {
        let connect = Duration::from_millis(limits.connect_ms);
        Self { connect, silent: Duration::from_millis(limits.setup_ms), kept: HashMap::new() }
    }

    /// Asks the node at `addr` for the replica.
    pub(crate) fn open(&mut self, addr: &str, pool: String, order: &Copy) -> Result<Reply<'_>, Fault> {
        let request = request(pool, order);
        // One that was kept may have been closed by the other side: then a fresh one.
        if let Some(mut socket) = self.kept.remove(addr)
            && socket.get_ref().write_all(&request).is_ok()
            && let Ok(spec) = answer(&mut socket)
        {
            return Ok(self.reply(addr, socket, spec));
        }
        let to: SocketAddr = addr.parse().map_err(|_| source(format!("{addr:?} is no address")))?;
        let socket = TcpStream::connect_timeout(&to, self.connect).map_err(|error| failed(&error))?;
        let silent = Some(self.silent);
        let set = socket.set_read_timeout(silent).and_then(|()| socket.set_write_timeout(silent));
        set.and_then(|()| socket.set_nodelay(true)).map_err(|error| failed(&error))?;
        (&socket).write_all(&request).map_err(|error| failed(&error))?;
        let mut socket = BufReader::with_capacity(BUFFER_LEN, socket);
        let spec = answer(&mut socket)?;
        Ok(self.reply(addr, socket, spec))
    }

    fn reply(&mut self, addr: &str, socket: BufReader<TcpStream>, spec: ChecksumSpec) -> Reply<'_> {
        Reply { fetcher: self, addr: addr.to_owned(), socket, spec, at: 0, seqno: 0, payload: Vec::new() }
    }
}

fn request(pool: String, order: &Copy) -> Vec<u8> {
    let scope = BlockScope { file: InodeId(order.file), home: ContainerId(order.home) };
    let token = proto::TokenProto {
        identifier: scope.encode().into(),
        kind: wire::token::KIND.to_owned(),
        ..proto::TokenProto::none()
    };
    let block = proto::ExtendedBlockProto {
        pool_id: pool,
        block_id: order.block,
        generation_stamp: order.generation,
        num_bytes: Some(order.len),
    };
    let read = proto::OpReadBlockProto {
        header: proto::ClientOperationHeaderProto {
            base_header: proto::BaseHeaderProto { block, token: Some(token), trace_info: None },
            client_name: "levada-copy".to_owned(),
        },
        offset: 0,
        len: order.len,
        send_checksums: Some(true),
        caching_strategy: None,
    };
    let mut bytes = OpHeader { op: Op::ReadBlock }.encode().to_vec();
    delimited::put(&read, &mut bytes);
    bytes
}

fn answer(socket: &mut BufReader<TcpStream>) -> Result<ChecksumSpec, Fault> {
    let mut bytes = Vec::new();
    loop {
        let split = delimited::split(&bytes, "answer", ANSWER_LEN_MAX).map_err(|error| source(error.to_string()))?;
        if let Some((message, _)) = split {
            let answer: proto::BlockOpResponseProto =
                delimited::decode(message, "answer").map_err(|error| source(error.to_string()))?;
            if answer.status != i32::from(Status::SUCCESS.0) {
                return Err(source(answer.message.unwrap_or_default()));
            }
            let info = answer.read_op_checksum_info.filter(|info| info.chunk_offset == 0);
            let info = info.ok_or_else(|| source("its answer tells no checksum from the beginning on"))?;
            return checksum_spec(&info.checksum).map_err(|refusal| source(refusal.message));
        }
        // Byte by byte: what follows belongs to the packets. The buffer makes it cheap.
        let mut byte = [0];
        socket.read_exact(&mut byte).map_err(|error| failed(&error))?;
        bytes.push(byte[0]);
    }
}

impl Reply<'_> {
    /// What covers the packets.
    pub(crate) fn spec(&self) -> ChecksumSpec {
        self.spec
    }

    /// The next bytes, verified; `None` behind the last.
    pub(crate) fn next_packet(&mut self) -> Result<Option<Packet<'_>>, Fault> {
        let mut prefix = [0; PacketPrefix::LEN];
        self.read(&mut prefix)?;
        let prefix = PacketPrefix::decode(prefix).map_err(|error| source(error.to_string()))?;
        let mut header = vec![0; usize::from(prefix.header_len)];
        self.read(&mut header)?;
        let header = PacketHeader::decode(&header).map_err(|error| source(error.to_string()))?;
        let data_len = usize::try_from(header.data_len).map_err(|_| source("a packet of negative length"))?;
        let sums_len = self.spec.sums_len(data_len as u64) as usize;
        let expected = header.seqno == self.seqno
            && header.offset == self.at as i64
            && prefix.payload_len as usize == sums_len + data_len
            && header.last == (data_len == 0);
        if !expected {
            return Err(source(format!(
                "packet {} at {}, awaited {} at {}",
                header.seqno, header.offset, self.seqno, self.at
            )));
        }
        if header.last {
            self.conclude();
            return Ok(None);
        }
        // The prefix was bounded when it was decoded, and the sum is what it says.
        let mut payload = std::mem::take(&mut self.payload);
        payload.resize(sums_len + data_len, 0);
        let came = self.read(&mut payload);
        self.payload = payload;
        came?;
        let (sums, data) = self.payload.split_at(sums_len);
        if let Err(at) = self.spec.verify(data, sums) {
            let reason = format!("its bytes at {} do not agree with their checksum", self.at + at as u64);
            return Err(Fault::Source { reason, corrupt: true });
        }
        self.at += data_len as u64;
        self.seqno += 1;
        Ok(Some(Packet { sums, data }))
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<(), Fault> {
        self.socket.read_exact(bytes).map_err(|error| failed(&error))
    }

    /// Says that all was good, and leaves the connection for the next.
    fn conclude(&mut self) {
        let verdict = if self.spec.kind == ChecksumKind::Null { Status::SUCCESS } else { Status::CHECKSUM_OK };
        let mut status = Vec::new();
        delimited::put(&proto::ClientReadStatusProto { status: verdict.0.into() }, &mut status);
        if self.socket.get_ref().write_all(&status).is_ok()
            && self.fetcher.kept.len() < KEPT_COUNT_MAX
            && let Ok(socket) = self.socket.get_ref().try_clone()
        {
            // Nothing is left in the buffer: the other side waits for the next operation.
            let socket = BufReader::with_capacity(BUFFER_LEN, socket);
            self.fetcher.kept.insert(self.addr.clone(), socket);
        }
    }
}
