//! Bytes of blocks (op 81), in packets, with checksums made of what was verified on its way here.

use super::blocks::{Block, Blocks, GENERATION};
use hdfs::proto;
use io::socket::{SocketOptions, apply};
use io::{ConnectionLimit, ConnectionPermit, LogLimit, TaskGroup};
use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use types::{ChecksumSpec, Generation, ReplicaState};
use wire::{Op, OpHeader, PacketHeader, delimited};
use xfer::answer::{self, Refusal, success};
use xfer::read::{Plan, Stored, Wanted};

/// Longest message that opens an operation. A guess, far above what clients send.
const REQUEST_LEN_MAX: usize = 64 << 10;
const VERDICT_LEN_MAX: usize = 64;
/// Between two operations of one connection. Hadoop's clients give theirs up after 4 s.
const IDLE_TIME_MAX: Duration = Duration::from_secs(60);
/// For a request whose first byte came, and for a verdict.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(20);
/// For a client to take anything. Hadoop's servers wait for eight minutes.
const STALL_TIME_MAX: Duration = Duration::from_secs(120);

static REFUSED: LogLimit = LogLimit::new(Duration::from_secs(1));

pub(super) async fn accept(listener: TcpListener, blocks: Arc<Blocks>, limit: Arc<ConnectionLimit>, tasks: TaskGroup) {
    loop {
        let (socket, peer) = io::accepted(|| listener.accept()).await;
        // All are being answered.
        let Some(permit) = limit.admit() else { continue };
        tasks.spawn_detached("edge data", run(socket, peer, permit, Arc::clone(&blocks)));
    }
}

async fn run(socket: TcpStream, peer: SocketAddr, permit: Arc<ConnectionPermit>, blocks: Arc<Blocks>) {
    let ended = tokio::select! {
        ended = serve(socket, &permit, &blocks) => ended,
        () = permit.evicted() => return tracing::debug!(%peer, "a connection is closed to make room for another"),
    };
    let Err(error) = ended else { return };
    match error.kind() {
        ErrorKind::InvalidData => {
            if let Some(passed_over) = REFUSED.due() {
                tracing::warn!(%peer, %error, passed_over, "a connection does not speak data transfer as we know it");
            }
        }
        // Either end hangs up at any time; that is no news.
        _ => tracing::debug!(%peer, %error, "a connection ended"),
    }
}

async fn serve(socket: TcpStream, permit: &Arc<ConnectionPermit>, blocks: &Blocks) -> Result<(), Error> {
    apply(&socket, &SocketOptions::default())?;
    let mut socket = BufReader::new(socket);
    loop {
        let mut header = [0; OpHeader::LEN];
        match within(IDLE_TIME_MAX, socket.read_exact(&mut header)).await {
            Ok(_) => {}
            Err(error) if [ErrorKind::UnexpectedEof, ErrorKind::TimedOut].contains(&error.kind()) => return Ok(()),
            Err(error) => return Err(error),
        }
        let OpHeader { op } = OpHeader::decode(header).map_err(invalid)?;
        let message = within(REQUEST_TIME_MAX, message(&mut socket, REQUEST_LEN_MAX)).await?;
        let request_under_way = permit.begin_request();
        if op != Op::ReadBlock {
            let refusal = Refusal::unsupported("an edge is for reading alone");
            return write(&mut socket, &answer::encode(refusal.into_answer()), permit).await;
        }
        let request: proto::OpReadBlockProto = delimited::decode(&message, "read request").map_err(invalid)?;
        let (block, plan) = match open(blocks, &request).await {
            Ok(opened) => opened,
            Err(refusal) => {
                write(&mut socket, &answer::encode(refusal.into_answer()), permit).await?;
                continue;
            }
        };
        permit.prove();
        send(&mut socket, &block, plan, permit).await?;
        // From here on the client is waited for.
        drop(request_under_way);
        // One that verified nothing is as good as one that did.
        within(REQUEST_TIME_MAX, self::message(&mut socket, VERDICT_LEN_MAX)).await?;
    }
}

/// A block that was handed out, and what of it is to be sent.
async fn open(blocks: &Blocks, request: &proto::OpReadBlockProto) -> Result<(Block, Plan), Refusal> {
    let named = &request.header.base_header.block;
    let unknown = || Refusal::error("this block was not handed out here, or long ago; ask for it again");
    let block = blocks.find(named.block_id).ok_or_else(unknown)?;
    let (generation, checksum) = (Generation(GENERATION), ChecksumSpec::DEFAULT);
    let stored = Stored { generation, len: block.len, checksum, state: ReplicaState::Finalized };
    let wanted = Wanted {
        generation: Generation(named.generation_stamp),
        offset: request.offset,
        len: request.len,
        with_sums: request.send_checksums.unwrap_or(true),
    };
    let plan = Plan::new(stored, wanted).map_err(|unserved| Refusal::error(unserved.to_string()))?;
    match block.opened.is_the_same().await {
        Ok(true) => Ok((block, plan)),
        Ok(false) => Err(Refusal::error("the file was changed since it was opened; open it again")),
        Err(error) => Err(Refusal::error(error.to_string())),
    }
}

/// The answer, and all packets. What cannot be read ends the connection: the client asks again.
async fn send(
    socket: &mut BufReader<TcpStream>,
    block: &Block,
    plan: Plan,
    permit: &Arc<ConnectionPermit>,
) -> Result<(), Error> {
    let info = proto::ReadOpChecksumInfoProto { checksum: plan.spec.into(), chunk_offset: plan.start };
    let mut out = answer::encode(proto::BlockOpResponseProto { read_op_checksum_info: Some(info), ..success() });
    let (mut at, mut seqno, mut sums) = (plan.start, 0, Vec::new());
    loop {
        let data_len = plan.packet_data_len(at);
        let sums_len = plan.spec.sums_len(data_len) as usize;
        let last = data_len == 0;
        let header = PacketHeader { offset: at as i64, seqno, last, data_len: data_len as i32, sync: false };
        header.put(sums_len as u32, &mut out);
        let sums_at = out.len();
        let data_at = sums_at + sums_len;
        out.resize(data_at + data_len as usize, 0);
        if !last {
            let dest = &mut out[data_at..];
            let read = block.opened.read_at(block.offset + at, dest).await.map_err(Error::other)?;
            if (read as u64) < data_len {
                return Err(Error::other("the file ends before it should"));
            }
            // A block may take its client minutes.
            block.opened.may_go_on().await.map_err(Error::other)?;
            sums.clear();
            plan.spec.compute(&out[data_at..], &mut sums);
            out[sums_at..data_at].copy_from_slice(&sums);
        }
        write(socket, &out, permit).await?;
        if last {
            return Ok(());
        }
        out.clear();
        (at, seqno) = (at + data_len, seqno + 1);
    }
}

/// Sends all of it. A client that takes nothing makes place for others, and is cut off after a while.
async fn write(
    socket: &mut BufReader<TcpStream>,
    mut bytes: &[u8],
    permit: &Arc<ConnectionPermit>,
) -> Result<(), Error> {
    let socket = socket.get_ref();
    while !bytes.is_empty() {
        match socket.try_write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(len) => bytes = &bytes[len..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let _stalled = permit.response_stalled();
                within(STALL_TIME_MAX, socket.writable()).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// What follows its length, in the form of protocol buffers.
async fn message(socket: &mut (impl AsyncRead + Unpin), len_max: usize) -> Result<Vec<u8>, Error> {
    let (mut len, mut shift) = (0usize, 0);
    loop {
        let byte = socket.read_u8().await?;
        len |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if len > len_max || shift > 28 {
            return Err(invalid("a message is too long"));
        }
        if byte & 0x80 == 0 {
            break;
        }
    }
    let mut bytes = vec![0; len];
    socket.read_exact(&mut bytes).await?;
    Ok(bytes)
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::InvalidData, error)
}

async fn within<T>(time: Duration, what: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    timeout(time, what).await.unwrap_or_else(|_elapsed| Err(ErrorKind::TimedOut.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::scripted::{LEN, World};
    use hdfs::proto::{BaseHeaderProto, ClientOperationHeaderProto, DatanodeInfoProto, LocatedBlocksProto};
    use tokio::io::AsyncWriteExt;

    async fn ask(addr: SocketAddr, located: &LocatedBlocksProto) -> TcpStream {
        let mut socket = TcpStream::connect(addr).await.unwrap();
        let block = located.blocks[0].b.clone();
        let header = ClientOperationHeaderProto {
            base_header: BaseHeaderProto { block, ..Default::default() },
            client_name: "test".into(),
        };
        let op = proto::OpReadBlockProto { header, offset: 0, len: LEN, ..Default::default() };
        let mut request = OpHeader { op: Op::ReadBlock }.encode().to_vec();
        delimited::put(&op, &mut request);
        // It may be turned away before that.
        let _ = socket.write_all(&request).await;
        socket
    }

    /// There is room for one connection, and its client reads nothing of a long block.
    #[tokio::test]
    async fn a_client_that_takes_nothing_makes_place_for_others() {
        let world = World::new(&["/f"]).await;
        let (blocks, node) = (Arc::new(Blocks::new()), DatanodeInfoProto::default());
        let opened = world.opened(&world.user("ann"), "/f").await;
        let located = blocks.hand_out("ann", opened, 0, LEN, &node);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let limit = ConnectionLimit::new(1);
        let accepting = accept(listener, blocks, Arc::clone(&limit), world.tasks.clone());
        world.tasks.spawn_detached("accept", accepting);
        let mut stalled = ask(addr, &located).await;
        // Until it stalls, others are turned away.
        let mut answer = [0; 1];
        loop {
            let mut other = ask(addr, &located).await;
            if matches!(other.read(&mut answer).await, Ok(1)) {
                break;
            }
        }
        let mut rest = Vec::new();
        let ended = stalled.read_to_end(&mut rest).await;
        assert!(ended.is_err() || (rest.len() as u64) < LEN, "it was cut off");
        world.stop().await;
    }
}
