//! The task between a protected connection and the local pair of sockets whose other end operations have.

use crate::opening;
use crate::room::{Direction, Room};
use io::{TaskGroup, task};
use security::sasl::transfer::{Channel, Receiving, SEND_LEN, Sending};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use xfer::memory::Held;

/// Bytes that are read at once while many come, and then opened: a piece of JDK's.
const READ_LEN: usize = 64 << 10;
/// The same while few come, or none: an operation's request has some hundred. A node has thousands of connections that
/// wait for their next operation.
const IDLE_LEN: usize = 4 << 10;
/// So long after the last bytes that came memory goes back. A guess: what comes one after the other comes faster.
const IDLE_AFTER: Duration = Duration::from_millis(100);
/// Once the local end sends no more, it may read for so long: whoever holds it may also have let go of it, which looks
/// the same from here. A guess, above the time for which an operation that has ended listens to its peer.
const LINGER: Duration = Duration::from_secs(10);

/// Who takes nothing for so long is cut off. HDFS waits for 8 minutes for who reads a block.
const STALL_MAX: Duration = Duration::from_secs(600);
const NAME: &str = "protected connection";

/// Begins the task, which ends with either of the two ends. `came`: sealed bytes that are here already.
pub(crate) fn begin(
    socket: TcpStream,
    channel: Channel,
    came: Vec<u8>,
    held: impl Held + Send + 'static,
    tasks: Option<&TaskGroup>,
) -> Result<TcpStream> {
    let room = Room::new(held, IDLE_LEN, 2 * IDLE_LEN);
    let room = room.ok_or_else(|| Error::new(ErrorKind::OutOfMemory, "no memory for a protected connection"))?;
    let (local, far) = StdUnixStream::pair()?;
    local.set_nonblocking(true)?;
    far.set_nonblocking(true)?;
    // A stream socket of another family: nothing is asked of it here but to send, to receive and to be waited for.
    let local = TcpStream::from_std(std::net::TcpStream::from(OwnedFd::from(local)))?;
    let far = UnixStream::from_std(far)?;
    let pumping = async move {
        if let Err(error) = run(socket, far, channel, came, &room).await {
            tracing::debug!(%error, "a protected connection ended");
        }
    };
    match tasks {
        Some(tasks) => tasks.spawn_detached(NAME, pumping),
        None => drop(task::spawn(NAME, pumping)),
    }
    Ok(local)
}

async fn run(
    mut socket: TcpStream,
    mut far: UnixStream,
    channel: Channel,
    came: Vec<u8>,
    room: &Room<impl Held>,
) -> Result<()> {
    let (sending, receiving) = channel.split();
    let (mut sealed_in, mut sealed_out) = socket.split();
    let (mut plain_in, mut plain_out) = far.split();
    let opening = open(&mut sealed_in, &mut plain_out, receiving, came, room);
    let sealing = seal(&mut plain_in, &mut sealed_out, sending, room);
    tokio::pin!(opening, sealing);
    tokio::select! {
        opened = &mut opening => {
            opened?;
            sealing.await
        }
        sealed = &mut sealing => {
            sealed?;
            tokio::time::timeout(LINGER, opening).await?
        }
    }
}

/// Sends all of it, to who goes on taking some. Operations have their own limits, and cannot end what waits here.
async fn send_all(to: &mut (impl AsyncWrite + Unpin), mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        match tokio::time::timeout(STALL_MAX, to.write(bytes)).await {
            Ok(sent) => bytes = &bytes[sent?..],
            Err(_elapsed) => return Err(ErrorKind::TimedOut.into()),
        }
    }
    Ok(())
}

/// What comes next. `None`: nothing has come for a while, and the buffer is longer than who is idle needs.
async fn read(from: &mut (impl AsyncRead + Unpin), buffer: &mut [u8]) -> Result<Option<usize>> {
    if buffer.len() <= IDLE_LEN {
        return from.read(buffer).await.map(Some);
    }
    match tokio::time::timeout(IDLE_AFTER, from.read(buffer)).await {
        Ok(len) => len.map(Some),
        Err(_elapsed) => Ok(None),
    }
}

/// From the peer to the local end, until the peer's end.
async fn open(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    mut receiving: Receiving,
    came: Vec<u8>,
    room: &Room<impl Held>,
) -> Result<()> {
    let mut opened = Vec::new();
    receiving.receive(&came, &mut opened).map_err(Error::other)?;
    drop(came);
    send_all(to, &opened).await?;
    let mut sealed = vec![0; IDLE_LEN];
    loop {
        let Some(len) = read(from, &mut sealed).await? else {
            sealed = vec![0; IDLE_LEN];
            rest(&mut receiving, &mut opened, room);
            continue;
        };
        let came = &mut sealed[..len];
        if len == 0 {
            return to.shutdown().await;
        } else if receiving.receive_in_place(came) {
            send_all(to, came).await?;
        } else {
            // A piece is held until it is whole, and then once more as what it is.
            if !room.set(Direction::Opening, opening_len(sealed.len(), &receiving)) {
                return Err(Error::new(ErrorKind::OutOfMemory, "no memory for a sealed piece"));
            }
            (receiving, sealed, opened) =
                opening::receive(receiving, sealed, len, opened).await.map_err(Error::other)?;
            send_all(to, &opened).await?;
            opened.clear();
            opened.shrink_to(READ_LEN);
            if sealed.len() == IDLE_LEN {
                rest(&mut receiving, &mut opened, room);
            }
        }
        // More is to come. Without room for it, it comes in small pieces.
        if len == IDLE_LEN
            && sealed.len() == IDLE_LEN
            && room.set(Direction::Opening, opening_len(READ_LEN, &receiving))
        {
            sealed = vec![0; READ_LEN];
        }
    }
}

/// What is held at most while so many bytes are opened.
fn opening_len(read_len: usize, receiving: &Receiving) -> usize {
    match receiving {
        Receiving::Sealed { .. } => read_len + 2 * (receiving.held_len() + READ_LEN),
        Receiving::Plain | Receiving::Aes(_) => read_len,
    }
}

/// Gives back what is not needed until more comes.
fn rest(receiving: &mut Receiving, opened: &mut Vec<u8>, room: &Room<impl Held>) {
    receiving.rest();
    *opened = Vec::new();
    room.set(Direction::Opening, IDLE_LEN + receiving.held_len());
}

/// From the local end to the peer, until the local end's.
async fn seal(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    mut sending: Sending,
    room: &Room<impl Held>,
) -> Result<()> {
    let (mut plain, mut sealed) = (vec![0; IDLE_LEN], Vec::new());
    loop {
        let Some(len) = read(from, &mut plain).await? else {
            (plain, sealed) = (vec![0; IDLE_LEN], Vec::new());
            room.set(Direction::Sealing, 2 * IDLE_LEN);
            continue;
        };
        let piece = &mut plain[..len];
        if len == 0 {
            return to.shutdown().await;
        } else if sending.send_in_place(piece) {
            send_all(to, piece).await?;
        } else {
            sealed.clear();
            sending.send(piece, &mut sealed).map_err(Error::other)?;
            send_all(to, &sealed).await?;
        }
        if len == IDLE_LEN && plain.len() == IDLE_LEN && room.set(Direction::Sealing, 2 * SEND_LEN) {
            plain = vec![0; SEND_LEN];
        }
    }
}
