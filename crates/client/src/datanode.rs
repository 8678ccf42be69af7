//! One connection to a datanode, and the bytes that have come on it but were not asked for yet.

use crate::options::Options;
use hdfs::proto;
use std::io::{self as std_io, ErrorKind, IoSliceMut};
use std::time::Duration;
use tokio::net::TcpStream;
use types::limits::OP_MESSAGE_LEN_MAX;
use wire::{Op, OpHeader, Status, WireError, delimited};

/// Why a datanode did not do what it was asked. The caller turns to another one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("no connection: {0}")]
    Connect(std_io::Error),
    #[error("it answered: {message}")]
    Refused { status: i32, message: String },
    #[error("the connection broke: {0}")]
    Broken(std_io::Error),
    #[error("no answer in time")]
    Silent,
    #[error("checksum error at offset {offset} of the block")]
    Corrupt { offset: u64 },
    #[error("not understood: {0}")]
    Protocol(String),
}

impl From<WireError> for Fault {
    fn from(error: WireError) -> Self {
        Self::Protocol(error.to_string())
    }
}

/// `ip:port` of data transfer, which is also how the nodes of a chain name each other.
pub(crate) fn addr_of(node: &proto::DatanodeInfoProto) -> String {
    format!("{}:{}", node.id.ip_addr, node.id.xfer_port)
}

/// A stranger's answer may not take more memory than this before it is understood.
const ANSWER_LEN_MAX: usize = 64 << 10;
/// Bytes asked of the kernel with an answer: the answer, the first packet's head, and the data of a small read.
const FRONT_LEN: usize = 8 << 10;

pub(crate) struct Link {
    pub(crate) stream: TcpStream,
    /// Bytes that came but were not consumed yet: `front[at..]`.
    front: Vec<u8>,
    at: usize,
    timeout: Duration,
    pub(crate) addr: String,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Link to {}", self.addr)
    }
}

impl Link {
    pub(crate) async fn connect(node: &proto::DatanodeInfoProto, options: &Options) -> Result<Self, Fault> {
        let addr = addr_of(node);
        let place = (node.id.ip_addr.as_str(), node.id.xfer_port as u16);
        let connecting = tokio::time::timeout(options.connect_timeout, TcpStream::connect(place)).await;
        let stream = connecting.map_err(|_| Fault::Silent)?.map_err(Fault::Connect)?;
        io::socket::apply(&stream, &io::socket::SocketOptions::default()).map_err(Fault::Connect)?;
        Ok(Self { stream, front: Vec::new(), at: 0, timeout: options.timeout, addr })
    }

    /// How long the node may be silent from now on.
    pub(crate) fn allow(&mut self, silence: Duration) {
        self.timeout = silence;
    }

    /// Sends the op in one piece.
    pub(crate) async fn send_op(&mut self, op: Op, message: &impl prost::Message) -> Result<(), Fault> {
        let mut bytes = OpHeader { op }.encode().to_vec();
        delimited::put(message, &mut bytes);
        assert!(bytes.len() <= OP_MESSAGE_LEN_MAX as usize);
        self.send(&bytes).await
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        tokio::time::timeout(self.timeout, send_all(&self.stream, bytes))
            .await
            .map_err(|_| Fault::Silent)?
            .map_err(Fault::Broken)
    }

    /// Receives one delimited message. What comes behind it stays in front of later reads.
    pub(crate) async fn receive<M: prost::Message + Default>(&mut self, what: &'static str) -> Result<M, Fault> {
        loop {
            if let Some((message, len)) = delimited::split(self.buffered(), what, ANSWER_LEN_MAX)? {
                let message = delimited::decode(message, what)?;
                self.consume(len);
                return Ok(message);
            }
            self.fill(&mut [], FRONT_LEN).await?;
        }
    }

    /// As `receive`, for the answer that every op gets first.
    pub(crate) async fn receive_answer(&mut self) -> Result<proto::BlockOpResponseProto, Fault> {
        let mut answer: proto::BlockOpResponseProto = self.receive("answer").await?;
        // A node of ours that is still at it. Whoever announced that he understands this sets a limit to all of it.
        while answer.status == i32::from(Status::IN_PROGRESS.0) {
            answer = self.receive("answer").await?;
        }
        if answer.status == i32::from(Status::SUCCESS.0) {
            return Ok(answer);
        }
        Err(Fault::Refused {
            status: answer.status,
            message: answer
                .message
                .filter(|text| !text.is_empty())
                .unwrap_or_else(|| status_name(answer.status).into()),
        })
    }

    /// What has come and is not consumed.
    pub(crate) fn buffered(&self) -> &[u8] {
        &self.front[self.at..]
    }

    pub(crate) fn consume(&mut self, len: usize) {
        self.at += len;
        assert!(self.at <= self.front.len(), "more consumed than has come");
        if self.at == self.front.len() {
            self.front.clear();
            self.at = 0;
        }
    }

    /// One read of the socket: `dest` first, then up to `ahead` bytes into the front. Returns what went into `dest`.
    ///
    /// Reading a packet's data and the head of the next one with one call saves a call a packet.
    pub(crate) async fn fill(&mut self, dest: &mut [u8], ahead: usize) -> Result<usize, Fault> {
        assert!(dest.is_empty() || self.at == self.front.len(), "buffered bytes come before those of the socket");
        if self.at > 0 {
            self.front.drain(..self.at);
            self.at = 0;
        }
        let kept = self.front.len();
        self.front.resize(kept + ahead, 0);
        let got = loop {
            let mut parts = [IoSliceMut::new(dest), IoSliceMut::new(&mut self.front[kept..])];
            match self.stream.try_read_vectored(&mut parts) {
                Ok(got) => break Ok(got),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    match tokio::time::timeout(self.timeout, self.stream.readable()).await {
                        Err(_) => break Err(Fault::Silent),
                        Ok(Err(error)) => break Err(Fault::Broken(error)),
                        Ok(Ok(())) => {}
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Err(Fault::Broken(error)),
            }
        };
        let into_dest = *got.as_ref().unwrap_or(&0).min(&dest.len());
        self.front.truncate(kept + got.as_ref().map_or(0, |got| got - into_dest));
        match got {
            Ok(0) if !dest.is_empty() || ahead > 0 => Err(Fault::Broken(ErrorKind::UnexpectedEof.into())),
            Ok(_) => Ok(into_dest),
            Err(fault) => Err(fault),
        }
    }

    /// True if an idle connection can take another op: nothing has come on it, not even its end.
    pub(crate) fn is_quiet(&self) -> bool {
        let mut byte = [0];
        let nothing = |error: std_io::Error| error.kind() == ErrorKind::WouldBlock;
        self.buffered().is_empty() && self.stream.try_read(&mut byte).is_err_and(nothing)
    }
}

/// Writes all of `bytes`. On an error, or when dropped half-way, the stream is torn and of no more use.
async fn send_all(stream: &TcpStream, mut bytes: &[u8]) -> std_io::Result<()> {
    while !bytes.is_empty() {
        match stream.try_write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => stream.writable().await?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn status_name(status: i32) -> &'static str {
    match status {
        2 => "checksum error",
        3 => "invalid",
        4 => "exists already",
        5 => "the block's token is not valid",
        7 => "not supported",
        8 => "it restarts",
        _ => "error",
    }
}

/// What was tried, in one line for an error.
pub(crate) fn tried<F: std::fmt::Display>(faults: &[(String, F)]) -> String {
    if faults.is_empty() {
        return "the metadata server names no node that has it".into();
    }
    let lines: Vec<String> = faults.iter().map(|(addr, fault)| format!("{addr}: {fault}")).collect();
    lines.join("; ")
}
