//! The first bytes of a connection at a server: plain RPC, or the handshake of TLS around it.
//!
//! Promise: a server without certificates does not look. Handshakes cost processor time before it is known who asks for
//! them, so only so many are worked on at a time; and nobody holds a place for that while this server waits for what
//! he sends next. Who sends nothing is bounded by the number of connections, the time and the bytes of a handshake; and
//! only so many handshakes under way hold more bytes than is usual: where there are more, the one ends that was a long
//! one first.

use crate::stream::Stream;
use ::io::{ConnectionLimit, ConnectionPermit};
use security::node_name::Certified;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;
use tls::{Credentials, Hello, IsLong};
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

/// How a record of TLS begins that has a handshake in it. Hadoop's RPC begins with `hrpc`, HTTP with a letter.
const HANDSHAKE: u8 = 0x16;
/// A guess: a step of a handshake takes some 0.2 ms, so what else this server does waits for 10 ms of them at a time.
pub(crate) const HANDSHAKE_COUNT_MAX: usize = 64;

/// What all handshakes of a server share.
#[derive(Debug)]
pub(crate) struct Handshakes {
    /// Places for those that are worked on.
    working: Semaphore,
    /// Those of which more came than is usual.
    long: Arc<ConnectionLimit>,
}

impl Handshakes {
    pub(crate) fn new(long_count_max: usize) -> Self {
        Self { working: Semaphore::new(HANDSHAKE_COUNT_MAX), long: ConnectionLimit::new(long_count_max) }
    }
}

/// The place of one handshake among the long ones, once it is one.
#[derive(Debug, Default)]
struct Long {
    permit: OnceLock<Arc<ConnectionPermit>>,
    is_long: Notify,
}

impl Long {
    fn take(self: &Arc<Self>, handshakes: &Handshakes) -> IsLong {
        let (long, its) = (Arc::clone(&handshakes.long), Arc::clone(self));
        Box::new(move || {
            let Some(permit) = long.admit() else { return false };
            let is_first = its.permit.set(permit).is_ok();
            its.is_long.notify_one();
            is_first
        })
    }

    /// Returns once another one needed the place.
    async fn gives_way(&self) {
        self.is_long.notified().await;
        match self.permit.get() {
            Some(permit) => permit.evicted().await,
            None => std::future::pending().await,
        }
    }
}

/// A connection, and the node that the other end proved to be, if it did.
pub(crate) async fn open(
    socket: TcpStream,
    credentials: Option<&Credentials>,
    handshakes: &Handshakes,
    time_max: Duration,
) -> io::Result<(Stream, Option<Certified>)> {
    let Some(credentials) = credentials else { return Ok((Stream::Plain(socket), None)) };
    let opening = async {
        let mut first = [0];
        if socket.peek(&mut first).await? == 0 || first[0] != HANDSHAKE {
            return Ok((Stream::Plain(socket), None));
        }
        let long = Arc::new(Long::default());
        let shaking = async {
            let hello = Hello::read(socket, long.take(handshakes)).await?;
            in_turns(&handshakes.working, credentials.accept(hello)).await
        };
        let (stream, node) = tokio::select! {
            shaken = shaking => shaken?,
            () = long.gives_way() => return Err(io::Error::other("a long handshake made way for another")),
        };
        Ok((Stream::Tls(Box::new(stream)), node))
    };
    timeout(time_max, opening).await.map_err(|_elapsed| io::ErrorKind::TimedOut)?
}

/// Carries `work` to its end, and has a place for each of its steps alone: a place is free again while `work` waits.
async fn in_turns<T>(places: &Semaphore, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let mut work = pin!(work);
    loop {
        let place = places.acquire().await.map_err(io::Error::other)?;
        if let Poll::Ready(done) = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await {
            return done;
        }
        drop(place);
        // `work` wakes this task when it can go on.
        let mut has_waited = false;
        poll_fn(|_context| if std::mem::replace(&mut has_waited, true) { Poll::Ready(()) } else { Poll::Pending })
            .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::sync::Notify;

    /// One place, and two who need it: the second one is done while the first one waits.
    #[tokio::test]
    async fn who_waits_has_no_place() {
        let (places, gate) = (Arc::new(Semaphore::new(1)), Arc::new(Notify::new()));
        let (its_places, its_gate) = (Arc::clone(&places), Arc::clone(&gate));
        let waits = async move {
            its_gate.notified().await;
            assert_eq!(its_places.available_permits(), 0, "it works in a place");
            Ok(1)
        };
        let its_places = Arc::clone(&places);
        let first = ::io::task::spawn_owned("first", async move { in_turns(&its_places, waits).await });
        tokio::task::yield_now().await;
        assert_eq!(in_turns(&places, async { Ok(2) }).await.unwrap(), 2);
        gate.notify_one();
        assert_eq!(first.await.unwrap().unwrap(), 1);
        assert_eq!(places.available_permits(), 1);
    }
}
