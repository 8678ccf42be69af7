//! The datanode's end.

use crate::error::Error;
use crate::protected::Protected;
use io::random;
use security::sasl::digest::Qop;
use security::sasl::transfer::{Claim, Established, MAGIC, Peer, RANDOM_LEN, SecretRefusal, Server, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use xfer::memory::Held;

/// Room for reading at a time: a message of the handshake is a few hundred bytes.
const READ_LEN: usize = 4 << 10;

/// A connection whose caller proved itself.
#[derive(Debug)]
pub struct Accepted {
    pub connection: Protected,
    pub peer: Peer,
    pub qop: Qop,
}

/// Whether a connection begins with a handshake. `None`: too little has come of it.
pub fn is_handshake(came: &[u8]) -> Option<bool> {
    came.first_chunk().map(|begin| *begin == MAGIC)
}

/// Carries the handshake to its end. `came`: what came of it so far. `claim` says whose a user name is. `held`: memory
/// for what is on its way, of each direction, of which there may be too little for long pieces. Whoever limits the time
/// drops this.
pub async fn accept(
    mut socket: TcpStream,
    mut came: Vec<u8>,
    settings: Settings,
    claim: impl Fn(&str) -> Result<Claim, SecretRefusal>,
    held: [impl Held + Send + 'static; 2],
) -> Result<Accepted, Error> {
    let mut random = [0; RANDOM_LEN];
    random::fill(&mut random);
    let mut machine = Server::new(settings, &random);
    let Established { peer, qop, channel } = loop {
        let progress = match machine.on_bytes(&came, &claim) {
            Ok(progress) => progress,
            Err(error) => {
                socket.write_all(&error.reply()).await?;
                return Err(error.into());
            }
        };
        came.drain(..progress.used_len);
        socket.write_all(&progress.send).await?;
        if let Some(established) = progress.done {
            break established;
        }
        came.reserve(READ_LEN);
        if socket.read_buf(&mut came).await? == 0 {
            return Err(Error::Closed);
        }
    };
    Ok(Accepted { connection: Protected::new(socket, channel, came, held)?, peer, qop })
}
