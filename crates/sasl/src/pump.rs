//! The task between a protected connection and the local pair of sockets whose other end operations have.

use crate::opening;
use io::{TaskGroup, task};
use security::sasl::transfer::{Channel, PIECE_LEN_MAX, Receiving, Sending};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use xfer::memory::Held;

/// Bytes that are read at once, and then opened: a piece of JDK's.
const READ_LEN: usize = 64 << 10;
/// What both directions hold at least: what was read, and what became of it.
const HELD_LEN: u64 = 4 * READ_LEN as u64;
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
    mut held: impl Held + Send + 'static,
    tasks: Option<&TaskGroup>,
) -> Result<TcpStream> {
    if !held.grow_to(HELD_LEN) {
        return Err(Error::new(ErrorKind::OutOfMemory, "no memory for a protected connection"));
    }
    let (local, far) = StdUnixStream::pair()?;
    local.set_nonblocking(true)?;
    far.set_nonblocking(true)?;
    // A stream socket of another family: nothing is asked of it here but to send, to receive and to be waited for.
    let local = TcpStream::from_std(std::net::TcpStream::from(OwnedFd::from(local)))?;
    let far = UnixStream::from_std(far)?;
    let pumping = async move {
        if let Err(error) = run(socket, far, channel, came, held).await {
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
    held: impl Held,
) -> Result<()> {
    let (sending, receiving) = channel.split();
    let (mut sealed_in, mut sealed_out) = socket.split();
    let (mut plain_in, mut plain_out) = far.split();
    let opening = open(&mut sealed_in, &mut plain_out, receiving, came, held);
    let sealing = seal(&mut plain_in, &mut sealed_out, sending);
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

/// From the peer to the local end, until the peer's end.
async fn open(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    mut receiving: Receiving,
    came: Vec<u8>,
    mut held: impl Held,
) -> Result<()> {
    let mut opened = Vec::new();
    receiving.receive(&came, &mut opened).map_err(Error::other)?;
    drop(came);
    let mut sealed = vec![0; READ_LEN];
    loop {
        send_all(to, &opened).await?;
        opened.clear();
        opened.shrink_to(READ_LEN);
        let len = from.read(&mut sealed).await?;
        if len == 0 {
            return to.shutdown().await;
        }
        let came = &mut sealed[..len];
        if receiving.receive_in_place(came) {
            send_all(to, came).await?;
            continue;
        }
        // A long piece is held until it is whole, and then once more as what it is.
        if !held.grow_to(HELD_LEN + 2 * (receiving.held_len() + READ_LEN) as u64) {
            return Err(Error::new(ErrorKind::OutOfMemory, "no memory for a long sealed piece"));
        }
        (receiving, sealed, opened) = opening::receive(receiving, sealed, len, opened).await.map_err(Error::other)?;
    }
}

/// From the local end to the peer, until the local end's.
async fn seal(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    mut sending: Sending,
) -> Result<()> {
    let (mut plain, mut sealed) = (vec![0; PIECE_LEN_MAX], Vec::new());
    loop {
        let len = from.read(&mut plain).await?;
        if len == 0 {
            return to.shutdown().await;
        }
        let piece = &mut plain[..len];
        if sending.send_in_place(piece) {
            send_all(to, piece).await?;
        } else {
            sealed.clear();
            sending.send(piece, &mut sealed).map_err(Error::other)?;
            send_all(to, &sealed).await?;
        }
    }
}
