//! A connection behind its handshake, or one that needs none.

use crate::incoming::Incoming;
use crate::outgoing::Outgoing;
use security::sasl::transfer::Channel;
use std::io::Result;
use tokio::net::TcpStream;
use xfer::memory::Held;

/// Whoever has it seals and opens: nothing goes over the socket but through the two directions.
#[derive(Debug)]
pub struct Protected {
    pub socket: TcpStream,
    pub incoming: Incoming,
    pub outgoing: Outgoing,
}

impl Protected {
    /// `came`: what came behind the handshake.
    pub(crate) fn new(
        socket: TcpStream,
        channel: Channel,
        came: Vec<u8>,
        held: [impl Held + Send + 'static; 2],
    ) -> Result<Self> {
        let (sending, receiving) = channel.split();
        let [for_incoming, for_outgoing] = held;
        let incoming = Incoming::new(receiving, came, for_incoming)?;
        Ok(Self { socket, incoming, outgoing: Outgoing::new(sending, for_outgoing)? })
    }

    /// Nothing protects it.
    pub fn plain(socket: TcpStream) -> Self {
        Self { socket, incoming: Incoming::plain(), outgoing: Outgoing::plain() }
    }

    pub fn is_plain(&self) -> bool {
        self.outgoing.is_plain()
    }
}
