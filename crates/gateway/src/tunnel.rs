//! One connection through the gateway.

use crate::servers::Servers;
use io::dial::{Dialer, Preface};
use io::socket::{SocketOptions, apply};
use io::{ConnectionPermit, LogLimit, splice};
use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// For the preface, which a client sends at once.
const PREFACE_TIME_MAX: Duration = Duration::from_secs(10);
/// For the connection to a server, which is near.
const DIAL_TIME_MAX: Duration = Duration::from_secs(5);

static REFUSED: LogLimit = LogLimit::new(Duration::from_secs(1));

pub(crate) async fn run(socket: TcpStream, peer: SocketAddr, permit: Arc<ConnectionPermit>, servers: Arc<Servers>) {
    let ended = tokio::select! {
        ended = carry(socket, &permit, &servers) => ended,
        () = permit.evicted() => return tracing::debug!(%peer, "a silent connection is closed to make room for another"),
    };
    let Err(error) = ended else { return };
    match error.kind() {
        ErrorKind::InvalidData | ErrorKind::PermissionDenied | ErrorKind::TimedOut => {
            if let Some(passed_over) = REFUSED.due() {
                tracing::warn!(%peer, %error, passed_over, "a connection was not let through");
            }
        }
        // Either end hangs up at any time; that is no news.
        _ => tracing::debug!(%peer, %error, "a connection ended"),
    }
}

async fn carry(mut socket: TcpStream, permit: &Arc<ConnectionPermit>, servers: &Servers) -> Result<(), Error> {
    let options = SocketOptions::default();
    apply(&socket, &options)?;
    let preface = within(PREFACE_TIME_MAX, Preface::read(&mut socket)).await?;
    let target = preface.target;
    if !servers.has(&target).await {
        return Err(Error::new(ErrorKind::PermissionDenied, format!("{target:?} is no server of the store")));
    }
    let server = within(DIAL_TIME_MAX, Dialer::default().connect(&target, &options)).await?;
    // Whose bytes came last is closed last.
    let moved = |_| drop(permit.begin_request());
    tokio::try_join!(splice(&socket, &server, moved), splice(&server, &socket, moved))?;
    Ok(())
}

async fn within<T>(time: Duration, what: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(time, what).await.unwrap_or_else(|_elapsed| Err(ErrorKind::TimedOut.into()))
}
