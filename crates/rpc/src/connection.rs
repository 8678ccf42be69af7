//! One connection of a server, from its first byte to its last.
//!
//! ```text
//!   frames ──▶ [`reader`] ──▶ [`introduction`]: who calls ──▶ [`calls`] ──▶ [`pending`] ──▶ [`writer`] ──▶ answers
//! ```
//!
//! [`reader`]: crate::reader
//! [`introduction`]: crate::introduction
//! [`calls`]: crate::calls
//! [`pending`]: crate::pending
//! [`writer`]: crate::writer

use crate::budget::Budget;
use crate::call::Service;
use crate::host::{Host, Phase};
use crate::inward::Inward;
use crate::log_text::log_text;
use crate::pace::Patience;
use crate::reader::Reader;
use crate::tls_opening;
use crate::writer::write_all;
use ::io::ConnectionPermit;
use bytes::BytesMut;
use security::node_name::{Certified, NodeName};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tls::Shown;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::timeout;

/// How long, and for how many bytes, a refused client's rest is thrown away, so that the kernel does not send a reset
/// that would make the client lose our last answer.
const LINGER: Duration = Duration::from_millis(500);
const LINGER_LEN_MAX: usize = 1 << 20;
/// Frames that answer no call: SASL's, and the one that ends a connection.
const ANSWERS_BESIDE_CALLS_MAX: usize = 8;

/// Serves one connection to its end.
pub(crate) async fn serve<S: Service>(
    socket: TcpStream,
    peer: SocketAddr,
    connection_permit: Arc<ConnectionPermit>,
    host: Arc<Host<S>>,
    mut phase: watch::Receiver<Phase>,
) {
    host.service.opened(peer);
    let _told = HungUp { peer, host: host.clone() };
    let opening_time_max = host.options.opening_time_max;
    let opening =
        tls_opening::open(socket, host.options.credentials.as_deref(), &host.handshakes, opening_time_max / 2);
    let opened = tokio::select! {
        opened = opening => opened,
        () = connection_permit.evicted() => return,
        _ = phase.wait_for(|phase| *phase != Phase::Serving) => return,
    };
    let (mut stream, node) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            host.service.unauthenticated(peer);
            if let Some(passed_over) = host.strangers.due() {
                tracing::warn!(%peer, reason = log_text(&error), passed_over, "TLS handshake failed");
            }
            return;
        }
    };
    let is_tls = stream.is_tls();
    let shown = node.zip(stream.shown());
    let is_private = is_tls || stream.local_addr().is_ok_and(|own| is_one_machine(peer.ip(), own.ip()));
    let ended = {
        let (mut inward, mut outward) = stream.split();
        let patience = Patience::new(host.options.answer_time_max, &host.options, &host.answers);
        let (calls_max, frame_len_max) = (host.options.calls_per_connection_max, host.options.frame_len_max);
        // Every call holds a permit until its answer is written, so this channel is never full of answers.
        let (sender, mut answers) = mpsc::channel(calls_max + ANSWERS_BESIDE_CALLS_MAX);
        let reader = Reader {
            buffer: BytesMut::new(),
            peer,
            node,
            is_tls,
            is_private,
            connection_permit: connection_permit.clone(),
            host: host.clone(),
            frame_len_max,
            calls_max,
            permits: Arc::new(Semaphore::new(calls_max)),
            answers: Budget::new(host.options.answers_len_per_connection_max),
            sender,
        };
        let mut draining = phase.clone();
        let mut inward = Inward::new(&mut inward);
        let reading = async {
            tokio::select! {
                // Dropping the reader drops its sender: the writer ends when the calls under way are answered.
                ended = reader.run(&mut inward) => ended,
                _ = draining.wait_for(|phase| *phase != Phase::Serving) => Ok(()),
            }
        };
        let both = async {
            let writing = write_all(&mut outward, &mut answers, &patience);
            tokio::pin!(reading, writing);
            tokio::select! {
                read = &mut reading => { read?; writing.await }
                written = &mut writing => written,
            }
        };
        tokio::select! {
            ended = both => ended,
            () = connection_permit.evicted() => {
                return tracing::debug!(%peer, "idle connection closed to make room for another");
            }
            _ = phase.wait_for(|phase| *phase == Phase::Cutting) => return,
            node = outlived(&host, peer, shown) => {
                return tracing::info!(%peer, %node, "connection ended: its certificate does not count any more");
            }
        }
    };
    match ended {
        Ok(()) => linger(&mut stream.split().0).await,
        // Clients hang up at any time; that is no news.
        Err(error) => tracing::debug!(%peer, %error, "rpc connection ended"),
    }
}

/// Comes back when a node is not any more what its certificate said; never for who has shown none.
async fn outlived<S: Service>(host: &Host<S>, peer: SocketAddr, shown: Option<(Certified, Shown)>) -> NodeName {
    let (Some(credentials), Some((node, shown))) = (&host.options.credentials, shown) else {
        return std::future::pending().await;
    };
    loop {
        ::io::time::sleep(credentials.look_each()).await;
        if !credentials.still_counts(&shown) || !host.service.still_counts(peer, &node) {
            return node.name;
        }
    }
}

/// Whether what is sent from one address to the other leaves no machine.
fn is_one_machine(peer: IpAddr, own: IpAddr) -> bool {
    let (peer, own) = (peer.to_canonical(), own.to_canonical());
    peer == own || (peer.is_loopback() && own.is_loopback())
}

/// Tells the service of the end.
struct HungUp<S: Service> {
    peer: SocketAddr,
    host: Arc<Host<S>>,
}

impl<S: Service> Drop for HungUp<S> {
    fn drop(&mut self) {
        self.host.service.hung_up(self.peer);
    }
}

/// Throws away what the client still sends, briefly.
async fn linger(socket: &mut (impl AsyncRead + Unpin)) {
    let discard = async {
        let mut scrap = [0; 4096];
        let mut len = 0;
        while len < LINGER_LEN_MAX {
            match socket.read(&mut scrap).await {
                Ok(0) | Err(_) => return,
                Ok(read) => len += read,
            }
        }
    };
    let _ = timeout(LINGER, discard).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_on_the_same_machine_is_seen_by_the_addresses() {
        let check = |peer: &str, own: &str| is_one_machine(peer.parse().unwrap(), own.parse().unwrap());
        assert!(check("127.0.0.1", "127.0.0.1") && check("::1", "::1") && check("127.0.0.2", "::ffff:127.0.0.1"));
        assert!(check("192.0.2.1", "192.0.2.1") && check("192.0.2.1", "::ffff:192.0.2.1"));
        assert!(!check("192.0.2.2", "192.0.2.1") && !check("2001:db8::2", "2001:db8::1"));
    }
}
