//! A connection of a scripted peer: frames out and in, encoded and taken apart without the machines of `xfer`.

use crate::executor::Sim;
use crate::platter::SPEC;
use crate::socket::Socket;
use crate::world::content;
use hdfs::proto::BlockOpResponseProto;
use prost::Message;
use std::time::Duration;
use types::limits::OP_MESSAGE_LEN_MAX;
use wire::packet::Parsed;
use wire::small::{self, SmallFrame, SmallWrite};
use wire::{BlockScope, Op, OpHeader, PacketFrame, PacketHeader, PipelineAck, Status, WireError, delimited};

/// What every frame that is expected comes within, unless the story says otherwise.
pub(super) const SOON: Duration = Duration::from_secs(10);
const ANSWER_LEN_MAX: usize = 64 << 10;

pub(super) struct Line {
    pub(super) sim: Sim,
    socket: Socket,
    came: Vec<u8>,
}

/// Why no frame came.
#[derive(Debug, thiserror::Error)]
pub(super) enum Missing {
    #[error("the peer sends no more")]
    End,
    #[error("nothing whole came in time")]
    Late,
    #[error(transparent)]
    Nonsense(#[from] WireError),
}

/// A packet that came whole.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) header: PacketHeader,
    pub(super) sums: Vec<u8>,
    pub(super) data: Vec<u8>,
}

impl From<Missing> for String {
    fn from(missing: Missing) -> Self {
        format!("a frame is missing: {missing}")
    }
}

impl Line {
    pub(super) fn new(sim: Sim, socket: Socket) -> Self {
        Self { sim, socket, came: Vec::new() }
    }

    /// Sends all of `bytes`; false if the peer takes no more.
    pub(super) async fn say(&self, bytes: &[u8]) -> bool {
        self.socket.send_all(bytes).await.is_ok()
    }

    pub(super) async fn say_message(&self, message: &impl Message) -> bool {
        let mut bytes = Vec::new();
        delimited::put(message, &mut bytes);
        self.say(&bytes).await
    }

    pub(super) async fn say_ack(&self, seqno: i64, replies: &[Status]) -> bool {
        let mut bytes = Vec::new();
        PipelineAck { seqno, replies: replies.to_vec() }.put(&mut bytes);
        self.say(&bytes).await
    }

    /// The next frame, as `split` finds it with its length.
    async fn hear<T>(
        &mut self,
        limit: Duration,
        split: impl Fn(&[u8]) -> Result<Option<(T, usize)>, WireError>,
    ) -> Result<T, Missing> {
        let until = self.sim.now() + limit;
        loop {
            if let Some((frame, len)) = split(&self.came)? {
                self.came.drain(..len);
                return Ok(frame);
            }
            let left = until.saturating_sub(self.sim.now());
            match self.sim.timeout(left, self.socket.receive(&mut self.came)).await {
                Some(Some(())) => {}
                Some(None) => return Err(Missing::End),
                None => return Err(Missing::Late),
            }
        }
    }

    /// An operation: its message, behind its header.
    pub(super) async fn hear_op<M: Message + Default>(&mut self) -> Result<M, Missing> {
        self.hear(SOON, |bytes| {
            let Some((header, rest)) = bytes.split_first_chunk::<{ OpHeader::LEN }>() else { return Ok(None) };
            OpHeader::decode(*header)?;
            let split = delimited::split(rest, "operation", OP_MESSAGE_LEN_MAX as usize)?;
            let Some((message, len)) = split else { return Ok(None) };
            Ok(Some((delimited::decode(message, "operation")?, OpHeader::LEN + len)))
        })
        .await
    }

    pub(super) async fn hear_message<M: Message + Default>(&mut self, limit: Duration) -> Result<M, Missing> {
        self.hear(limit, |bytes| {
            let split = delimited::split(bytes, "message", ANSWER_LEN_MAX)?;
            let Some((message, len)) = split else { return Ok(None) };
            Ok(Some((delimited::decode(message, "message")?, len)))
        })
        .await
    }

    /// The answer to an operation, behind its keepalives.
    pub(super) async fn hear_answer(&mut self) -> Result<BlockOpResponseProto, Missing> {
        loop {
            let answer: BlockOpResponseProto = self.hear_message(SOON).await?;
            if answer.status != i32::from(Status::IN_PROGRESS.0) {
                return Ok(answer);
            }
        }
    }

    pub(super) async fn hear_ack(&mut self, limit: Duration) -> Result<PipelineAck, Missing> {
        self.hear(limit, PipelineAck::split).await
    }

    pub(super) async fn hear_packet(&mut self, limit: Duration) -> Result<Heard, Missing> {
        self.hear(limit, |bytes| match PacketFrame::parse(bytes)? {
            Parsed::Whole(frame) => {
                let (sums, data) = (bytes[frame.sums.clone()].to_vec(), bytes[frame.data.clone()].to_vec());
                Ok(Some((Heard { header: frame.header, sums, data }, frame.packet_len())))
            }
            _ => Ok(None),
        })
        .await
    }

    /// A small write, and whose block it is.
    pub(super) async fn hear_small(&mut self, limit: Duration) -> Result<(SmallWrite, Option<BlockScope>), Missing> {
        self.hear(limit, |bytes| match SmallFrame::parse(bytes)? {
            small::Parsed::Frame(frame) if frame.len() <= bytes.len() => {
                let scope = BlockScope::decode(&frame.header.token)?;
                Ok(Some(((frame.header.clone(), scope), frame.len())))
            }
            _ => Ok(None),
        })
        .await
    }

    /// Waits until the peer has sent all; `Err` if it says anything more, or stays.
    pub(super) async fn hear_end(&mut self) -> Result<(), String> {
        let until = self.sim.now() + SOON;
        while self.came.is_empty() {
            let left = until.saturating_sub(self.sim.now());
            match self.sim.timeout(left, self.socket.receive(&mut self.came)).await {
                Some(Some(())) => {}
                Some(None) => return Ok(()),
                None => return Err("the connection stays open".to_owned()),
            }
        }
        Err(format!("{} bytes came where the connection was to end", self.came.len()))
    }

    /// Takes and drops what comes, until the end or for so long.
    pub(super) async fn drop_all(&mut self, limit: Duration) {
        let socket = &self.socket;
        let dropping = async { while socket.receive(&mut Vec::new()).await.is_some() {} };
        let _over = self.sim.timeout(limit, dropping).await;
    }
}

impl Heard {
    /// The bytes are those of the block, and their checksums cover them chunk by chunk.
    pub(super) fn verify(&self, tag: u64) -> Result<(), String> {
        let Self { header, sums, data } = self;
        let from = header.offset as usize;
        if data.iter().zip(from..).any(|(byte, at)| *byte != content(tag, at)) {
            return Err(format!("wrong bytes in packet {} at {from}", header.seqno));
        }
        SPEC.verify(data, sums).map_err(|at| format!("packet {} does not verify at {at}", header.seqno))
    }
}

/// What opens an operation.
pub(super) fn operation(op: Op, message: &impl Message) -> Vec<u8> {
    let mut bytes = OpHeader { op }.encode().to_vec();
    delimited::put(message, &mut bytes);
    bytes
}

/// A packet with bytes of a block.
pub(super) fn packet(header: PacketHeader, tag: u64) -> Vec<u8> {
    let from = header.offset as usize;
    let data: Vec<u8> = (from..from + header.data_len as usize).map(|at| content(tag, at)).collect();
    let (mut sums, mut bytes) = (Vec::new(), Vec::new());
    SPEC.compute(&data, &mut sums);
    header.put(sums.len() as u32, &mut bytes);
    bytes.extend_from_slice(&sums);
    bytes.extend_from_slice(&data);
    bytes
}

pub(super) fn answer(status: Status) -> BlockOpResponseProto {
    let (message, first_bad_link) = (Some("as the script has it".to_owned()), Some(String::new()));
    BlockOpResponseProto { status: status.0.into(), message, first_bad_link, ..Default::default() }
}
