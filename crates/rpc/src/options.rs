//! Limits of a server, and what its callers have to prove.

use security::sasl::rpc::{Acceptor, Offers};
use std::sync::Arc;
use std::time::Duration;
use tls::Credentials;

/// Longest request of a server that says nothing else. Hadoop takes 128 MiB; a page of a node's catalogue, the longest
/// we know, has about 100 KB. Messages between the servers of a group must stay below it.
pub const FRAME_LEN_MAX: u32 = 4 << 20;

/// So much of `held_len_max` there is for each connection: what one takes that has shaken hands or is about to, of
/// which nothing is counted, is some 12 KiB, and most have. A guess.
const CONNECTION_LEN: usize = 8 << 10;
/// Also where there is less memory: those of a store that is tried out.
const CONNECTIONS_LEAST: usize = 256;
/// What a handshake takes of which more came than is usual: 16 KiB of a hello in a buffer of twice the length.
const LONG_HANDSHAKE_LEN: usize = 40 << 10;
/// One of so many parts of `held_len_max` those may take. A guess.
const LONG_HANDSHAKES_PART: usize = 16;

/// Limits of one server. Every figure is a guess unless it says otherwise.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Longest request.
    pub frame_len_max: u32,
    /// Calls of one connection under way, their answers not yet taken. At the limit the connection is not read.
    pub calls_per_connection_max: usize,
    /// When there are more, the one whose client was waited for longest is closed, and a new one if all have calls
    /// under way. A server with little memory for requests and answers takes fewer: one for each 8 KiB
    /// of `held_len_max`, and 256 at least.
    pub connections_max: usize,
    /// Bytes of requests and answers of all connections. At the limit no further request is read, and no call started.
    pub held_len_max: usize,
    /// Connections that were opened for this protocol have memory of their own, `urgent_len_max` bytes: what the
    /// servers of a group say to each other must not wait for clients' requests, or too much of these would cost them
    /// their leader. They are accepted from those that [`Service::admit_urgent`] names, and calls of this protocol come
    /// over them alone.
    pub urgent_protocol: Option<&'static str>,
    pub urgent_len_max: usize,
    /// What long urgent requests may take together when they are decoded.
    pub urgent_decoded_len_max: usize,
    /// A long request that is not let in to be decoded for so long ends its connection: it holds memory meanwhile.
    pub decoded_wait_max: Duration,
    /// Bytes of answers that one connection has not taken, and of those its calls under way are expected to need. At
    /// the limit no further call of it starts; one call may always be under way.
    pub answers_len_per_connection_max: usize,
    /// Until the context has come, and all of SASL before it.
    pub opening_time_max: Duration,
    /// From a frame's length to its end, and for a client to take an answer; a second more for each
    /// `len_per_second_min` bytes. Who is slower is cut off.
    pub frame_time_max: Duration,
    pub answer_time_max: Duration,
    pub len_per_second_min: usize,
    /// While memory is short, who moves fewer bytes than `len_per_second_min` for so long is cut off.
    pub stall_time_max: Duration,
    /// A silent connection is closed after this, if there are more than `idle_connections_max` of all kinds.
    /// Hadoop: 20 s, and 4000.
    pub idle_time_max: Duration,
    pub idle_connections_max: usize,
    /// For calls under way when the server shuts down.
    pub drain_time_max: Duration,
    pub authentication: Authentication,
    /// By these a connection may begin with TLS, and a node of the store prove by its certificate which one it is.
    /// `None`: no TLS.
    pub credentials: Option<Arc<Credentials>>,
    /// Over TLS, who has no certificate and proves nothing may call this protocol, and nothing else: by it a node comes
    /// to a certificate. Its calls say who may. They are short, one is under way at a time, and all of them have
    /// `opening_time_max`.
    pub introduction_protocol: Option<&'static str>,
}

/// What callers have to prove.
#[derive(Clone, Debug)]
pub struct Authentication {
    /// What they can choose from. Tokens are looked up by [`crate::Service::claim`].
    pub offers: Offers,
    /// Kerberos' library; there is one where Kerberos is offered.
    pub acceptor: Option<Arc<dyn Acceptor>>,
}

/// Everybody is who he says he is.
impl Default for Authentication {
    fn default() -> Self {
        Self { offers: Offers { simple: true, ..Offers::default() }, acceptor: None }
    }
}

/// Guesses where nothing else is said here or at the field.
impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            frame_len_max: FRAME_LEN_MAX,
            calls_per_connection_max: 100,
            connections_max: 10_000,
            held_len_max: 256 << 20,
            urgent_protocol: None,
            urgent_len_max: 16 << 20,
            urgent_decoded_len_max: 64 << 20,
            decoded_wait_max: Duration::from_secs(20),
            answers_len_per_connection_max: 1 << 20,
            opening_time_max: Duration::from_secs(20),
            frame_time_max: Duration::from_secs(60),
            answer_time_max: Duration::from_secs(60),
            len_per_second_min: 64 << 10,
            stall_time_max: Duration::from_secs(1),
            idle_time_max: Duration::from_secs(20),
            idle_connections_max: 4000,
            drain_time_max: Duration::from_secs(3),
            authentication: Authentication::default(),
            credentials: None,
            introduction_protocol: None,
        }
    }
}

impl ServerOptions {
    pub(crate) fn within_memory(mut self) -> Self {
        self.connections_max = self.connections_max.min((self.held_len_max / CONNECTION_LEN).max(CONNECTIONS_LEAST));
        self
    }

    /// Handshakes under way of which more came than is usual.
    pub(crate) fn long_handshakes_max(&self) -> usize {
        (self.held_len_max / LONG_HANDSHAKES_PART / LONG_HANDSHAKE_LEN).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_memory_is_for_few_connections_and_fewer_long_handshakes() {
        let check = |held_len_max, connections_max| {
            let options = ServerOptions { held_len_max, connections_max, ..ServerOptions::default() }.within_memory();
            (options.connections_max, options.long_handshakes_max())
        };
        assert_eq!(check(256 << 20, 10_000), (10_000, 409));
        assert_eq!(check(16 << 20, 10_000), (2048, 25));
        assert_eq!((check(1, 10_000), check(1, 7)), ((256, 1), (7, 1)));
    }
}
