//! The task between a protected connection and the local pair of sockets whose other end operations have.

use crate::idle::{IDLE_AFTER, IDLE_LEN};
use crate::incoming::Incoming;
use crate::outgoing::Outgoing;
use crate::protected::Protected;
use io::{TaskGroup, task};
use security::sasl::transfer::SEND_LEN;
use std::io::{ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

/// Bytes that are read at once while many come, and opened in place: a piece of JDK's.
const READ_LEN: usize = 64 << 10;
/// Once the local end sends no more, it may read for so long: whoever holds it may also have let go of it, which looks
/// the same from here. A guess, above the time for which an operation that has ended listens to its peer.
const LINGER: Duration = Duration::from_secs(10);

/// Who takes nothing for so long is cut off. HDFS waits for 8 minutes for who reads a block.
const STALL_MAX: Duration = Duration::from_secs(600);
const NAME: &str = "protected connection";

impl Protected {
    /// A plain stream socket, for whoever cannot seal himself: where anything protects the connection, one end of a
    /// local pair, behind which a task, of `tasks`, seals and opens. It costs more than sealing does.
    pub fn pumped(self, tasks: Option<&TaskGroup>) -> Result<TcpStream> {
        if self.is_plain() {
            assert!(!self.incoming.has_opened(), "a socket alone would lose what came on it");
            return Ok(self.socket);
        }
        begin(self, tasks)
    }
}

/// Begins the task, which ends with either of the two ends.
fn begin(connection: Protected, tasks: Option<&TaskGroup>) -> Result<TcpStream> {
    let (local, far) = StdUnixStream::pair()?;
    local.set_nonblocking(true)?;
    far.set_nonblocking(true)?;
    // A stream socket of another family: nothing is asked of it here but to send, to receive and to be waited for.
    let local = TcpStream::from_std(std::net::TcpStream::from(OwnedFd::from(local)))?;
    let far = UnixStream::from_std(far)?;
    let pumping = async move {
        if let Err(error) = run(connection, far).await {
            tracing::debug!(%error, "a protected connection ended");
        }
    };
    match tasks {
        Some(tasks) => tasks.spawn_detached(NAME, pumping),
        None => drop(task::spawn(NAME, pumping)),
    }
    Ok(local)
}

async fn run(connection: Protected, mut far: UnixStream) -> Result<()> {
    let Protected { mut socket, mut incoming, mut outgoing } = connection;
    let (mut sealed_in, mut sealed_out) = socket.split();
    let (mut plain_in, mut plain_out) = far.split();
    let opening = open(&mut sealed_in, &mut plain_out, &mut incoming);
    let sealing = seal(&mut plain_in, &mut sealed_out, &mut outgoing);
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

/// What comes next. `None`: nothing has come for a while, and more memory is held than who is idle needs.
async fn read(from: &mut (impl AsyncRead + Unpin), buffer: &mut [u8], is_roomy: bool) -> Result<Option<usize>> {
    if !is_roomy {
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
    incoming: &mut Incoming,
) -> Result<()> {
    let mut buffer = vec![0; IDLE_LEN];
    loop {
        if incoming.has_opened() {
            send_all(to, incoming.opened()).await?;
            incoming.consume(incoming.opened().len());
        }
        let is_roomy = incoming.is_roomy() || buffer.len() > IDLE_LEN;
        let Some(len) = read(from, incoming.room(&mut buffer)?, is_roomy).await? else {
            buffer = vec![0; IDLE_LEN];
            incoming.set_beside(0);
            incoming.rest();
            continue;
        };
        if len == 0 {
            incoming.on_end()?;
            return to.shutdown().await;
        }
        let in_place = incoming.received_beside_others(&mut buffer, len).await?;
        send_all(to, &buffer[..in_place]).await?;
        // More is to come. Without room for it, it comes in small pieces.
        if in_place == IDLE_LEN && buffer.len() == IDLE_LEN && incoming.set_beside(READ_LEN) {
            buffer = vec![0; READ_LEN];
        }
    }
}

/// From the local end to the peer, until the local end's.
async fn seal(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    outgoing: &mut Outgoing,
) -> Result<()> {
    let mut plain = vec![0; IDLE_LEN];
    loop {
        let is_roomy = outgoing.is_roomy() || plain.len() > IDLE_LEN;
        let Some(len) = read(from, &mut plain, is_roomy).await? else {
            plain = vec![0; IDLE_LEN];
            outgoing.set_beside(0);
            outgoing.rest();
            continue;
        };
        if len == 0 {
            return to.shutdown().await;
        }
        let mut piece = &plain[..len];
        while !piece.is_empty() {
            piece = &piece[outgoing.seal(piece)?..];
            send_all(to, outgoing.pending()).await?;
            outgoing.on_sent(outgoing.pending().len());
        }
        if len == IDLE_LEN && plain.len() == IDLE_LEN && outgoing.set_beside(SEND_LEN) {
            plain = vec![0; SEND_LEN];
        }
    }
}
