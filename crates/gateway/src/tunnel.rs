//! One connection through the gateway.

use crate::counts::Counts;
use crate::servers::Servers;
use io::dial::{Dialer, Preface};
use io::socket::{SocketOptions, apply};
use io::{ConnectionPermit, LogLimit, splice};
use metrics::Counter;
use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// For the preface, which a client sends at once.
const PREFACE_TIME_MAX: Duration = Duration::from_secs(10);
/// For the connection to a server, which is near.
const DIAL_TIME_MAX: Duration = Duration::from_secs(5);
/// For a client to stop sending what no server takes any more, and to read what that said last.
const LINGER: Duration = Duration::from_millis(500);

static REFUSED: LogLimit = LogLimit::new(Duration::from_secs(1));

pub(crate) async fn run(
    socket: TcpStream,
    peer: SocketAddr,
    permit: Arc<ConnectionPermit>,
    servers: Arc<Servers>,
    counts: Counts,
) {
    let ended = tokio::select! {
        ended = carry(socket, &permit, &servers, &counts) => ended,
        () = permit.evicted() => return tracing::debug!(%peer, "a connection is closed to make room for another"),
    };
    let Err(error) = ended else { return };
    match error.kind() {
        ErrorKind::InvalidData | ErrorKind::PermissionDenied | ErrorKind::TimedOut => {
            counts.refused.inc();
            if let Some(passed_over) = REFUSED.due() {
                tracing::warn!(%peer, %error, passed_over, "a connection was not let through");
            }
        }
        // Either end hangs up at any time; that is no news.
        _ => tracing::debug!(%peer, %error, "a connection ended"),
    }
}

async fn carry(
    mut client: TcpStream,
    permit: &Arc<ConnectionPermit>,
    servers: &Servers,
    counts: &Counts,
) -> Result<(), Error> {
    let options = SocketOptions::default();
    apply(&client, &options)?;
    let Preface { target } = within(PREFACE_TIME_MAX, Preface::read(&mut client)).await?;
    if !servers.has(&target).await {
        return Err(Error::new(ErrorKind::PermissionDenied, format!("{target:?} is no server of the store")));
    }
    let server = within(DIAL_TIME_MAX, Dialer::default().connect(&target, &options)).await?;
    // Whose bytes came last is closed last; and who was answered after those who were not.
    let moved = |count: &Counter, len| {
        drop(permit.begin_request());
        count.inc_by(len as u64);
    };
    let mut is_answered = false;
    let answered = |len| {
        if !std::mem::replace(&mut is_answered, true) {
            permit.prove();
        }
        moved(&counts.down, len);
    };
    // Each direction goes on to its own end: a server that takes no more may still be answering.
    let asked = |len| moved(&counts.up, len);
    let (up, down) = tokio::join!(splice(&client, &server, asked), splice(&server, &client, answered));
    if up.is_err() && down.is_ok() {
        // A client that is still sending would lose the answer with its connection.
        let discard = async { while client.read(&mut [0; 4096]).await.is_ok_and(|len| len > 0) {} };
        let _stopped = tokio::time::timeout(LINGER, discard).await;
    }
    down.and(up)
}

async fn within<T>(time: Duration, what: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(time, what).await.unwrap_or_else(|_elapsed| Err(ErrorKind::TimedOut.into()))
}
