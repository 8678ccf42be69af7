//! One end of a connection as a machine: what those who write machines and those who drive sockets agree on.
//!
//! ```text
//!            take_buffer, on_read              poll_event
//! socket ───────────────────────▶ Endpoint ──────────────▶ whoever the bytes are for
//!        ◀─────────────────────── (pure)   ◀──────────────
//!            transmit, on_sent                 calls of its own
//! ```
//!
//! Promise asked of each: it reads no clock and no socket. Time is an argument, measured from some start; what it keeps
//! is bounded. Between the socket and the endpoint there is room for a layer that changes bytes (SASL, TLS).

use bytes::{Bytes, BytesMut};
use std::time::Duration;

pub trait Endpoint {
    /// What the bytes were about.
    type Event;

    /// Where the next bytes go, behind those that are in it: there is room in it already. `None`: none are to be read
    /// now. Whoever takes it brings it back with [`Self::on_read`].
    fn take_buffer(&mut self) -> Option<BytesMut>;

    /// So many bytes were put into the buffer; zero, as the peer sends no more.
    fn on_read(&mut self, now: Duration, buffer: BytesMut, len: usize);

    /// The connection is gone.
    fn on_lost(&mut self, now: Duration, why: &str);

    /// The next piece to be sent, behind those before; it may have reached the peer from now on.
    fn transmit(&mut self, now: Duration) -> Option<Bytes>;

    /// So many bytes of the pieces were taken by the socket.
    fn on_sent(&mut self, now: Duration, len: usize);

    fn poll_event(&mut self) -> Option<Self::Event>;

    /// When [`Self::handle_timeout`] wants to be called, if nothing happens before.
    fn poll_timeout(&self) -> Option<Duration>;

    fn handle_timeout(&mut self, now: Duration);

    /// Nothing more is to be read or sent: the socket is to be closed. Events may still be there.
    fn is_ended(&self) -> bool;
}

/// Why a request has no response. Two variants differ only if the caller acts differently.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// It certainly did not reach the peer.
    #[error("it was not sent: {0}")]
    Unsent(String),
    /// It may or may not have been done.
    #[error("the connection broke: {0}")]
    Broken(String),
    #[error("no answer in time")]
    TimedOut,
}

impl Loss {
    /// Whether it says nothing of the peer but that this connection is gone: on one that was kept for a while that
    /// happens, and a request that may come twice is sent once more on a new one.
    pub fn is_of_connection(&self) -> bool {
        match self {
            Self::Unsent(_) | Self::Broken(_) => true,
            Self::TimedOut => false,
        }
    }
}

/// An endpoint that carries many requests at the same time, each with one response.
pub trait RequestEndpoint: Endpoint<Event = (Self::Waiter, Result<Self::Response, Loss>)> {
    type Limits;
    type Request;
    type Response;
    /// Comes back with the response.
    type Waiter;

    /// Requests without a response at which no further one is taken.
    const IN_FLIGHT_COUNT_MAX: usize;

    fn begin(now: Duration, limits: &Self::Limits) -> Self;

    /// Sends a request, and gives its number. It is not taken, and `waiter` comes back, if the connection has ended.
    fn send_request(
        &mut self,
        now: Duration,
        request: Self::Request,
        waiter: Self::Waiter,
    ) -> Result<u64, Self::Waiter>;

    /// Nobody waits for this response any more. If the request was not sent yet, it will not be.
    fn cancel_request(&mut self, now: Duration, number: u64);
}
