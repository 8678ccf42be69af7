//! One connection of small writes: requests in, each served beside the others, answers out as they are done.

use super::request::{self, Request};
use crate::inbox::InboxError;
use crate::node::Node;
use ::io::Seat;
use bytes::BytesMut;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::timeout;
use wire::delimited;
use wire::small::{Parsed, SmallAnswer, SmallFrame};

/// Room for reading at a time; a longer request gets what it says it needs.
const READ_LEN: usize = 16 << 10;
/// Requests of one connection under way, their answers not yet taken. At the limit the connection is not read.
const UNDER_WAY_MAX: usize = 128;

/// Serves requests until the peer hangs up. `came` begins with the first one.
pub(crate) async fn serve(
    node: &Arc<Node>,
    mut socket: TcpStream,
    came: Vec<u8>,
    seat: &Arc<Seat>,
) -> Result<(), InboxError> {
    let (mut inward, mut outward) = socket.split();
    let (sender, mut answers) = mpsc::channel(UNDER_WAY_MAX);
    let reading = read(node, &mut inward, BytesMut::from(&came[..]), (seat, sender));
    let writing = write(&mut outward, &mut answers, Duration::from_millis(node.config.limits.op_ms));
    tokio::pin!(reading, writing);
    tokio::select! {
        // The writer ends when the requests under way are answered.
        read = &mut reading => { read?; Ok(writing.await?) }
        written = &mut writing => Ok(written?),
    }
}

async fn read(
    node: &Arc<Node>,
    socket: &mut ReadHalf<'_>,
    mut buffer: BytesMut,
    (seat, sender): (&Arc<Seat>, mpsc::Sender<SmallAnswer>),
) -> Result<(), InboxError> {
    let patience = Duration::from_millis(node.config.limits.op_ms);
    loop {
        let frame = loop {
            if let Parsed::Frame(frame) = SmallFrame::parse(&buffer)? {
                break frame;
            }
            buffer.reserve(READ_LEN);
            let Ok(read) = timeout(patience, socket.read_buf(&mut buffer)).await else { return Ok(()) };
            match read? {
                0 if buffer.is_empty() => return Ok(()),
                0 => return Err(InboxError::Torn),
                _ => {}
            }
        };
        // At the limit this waits, and with it whoever sends.
        let Ok(place) = sender.clone().reserve_owned().await else { return Ok(()) };
        let number = frame.header.number;
        let come = async {
            let mut memory = node.budget.take(READ_LEN.min(frame.len()) as u64)?;
            // As it comes: one that only says how long it is holds little.
            while buffer.len() < frame.len() {
                let room = frame.len().min(2 * buffer.len().max(READ_LEN));
                if !memory.grow_to(room as u64) {
                    return None;
                }
                buffer.reserve(room - buffer.len());
                match socket.read_buf(&mut buffer).await {
                    Ok(0) => return Some(Err(io::Error::from(ErrorKind::UnexpectedEof))),
                    Ok(_) => {}
                    Err(error) => return Some(Err(error)),
                }
            }
            memory.grow_to(frame.len() as u64).then_some(Ok(memory))
        };
        let memory = timeout(patience, come).await.map_err(|_stalled| InboxError::Torn)?.transpose()?;
        let Some((memory, transfer)) = memory.zip(node.transfer()) else {
            let refusal = "this node has no room for another write now; try another one".to_owned();
            place.send(SmallAnswer { number, refusal, have: Vec::new() });
            return Ok(()); // what follows belongs to the one refused
        };
        let bytes = buffer.split_to(frame.len()).freeze();
        let request = Request { frame, bytes, _memory: memory, _transfer: transfer, _work: seat.work() };
        let node = Arc::clone(node);
        ::io::task::spawn("small write", async move {
            place.send(request::serve(node, request).await);
        });
    }
}

async fn write(
    socket: &mut WriteHalf<'_>,
    answers: &mut mpsc::Receiver<SmallAnswer>,
    patience: Duration,
) -> io::Result<()> {
    let (mut batch, mut bytes) = (Vec::new(), Vec::new());
    while answers.recv_many(&mut batch, UNDER_WAY_MAX).await > 0 {
        bytes.clear();
        for answer in batch.drain(..) {
            delimited::put(&answer, &mut bytes);
        }
        timeout(patience, socket.write_all(&bytes)).await.map_err(|_elapsed| ErrorKind::TimedOut)??;
    }
    Ok(())
}
