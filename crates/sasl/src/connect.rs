//! The end of whoever dials: a client, or a datanode that sends on.

use crate::error::Error;
use crate::protected::Protected;
use io::random;
use security::sasl::digest::{NONCE_LEN, Protection};
use security::sasl::transfer::Client;
use std::fmt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use xfer::memory::Held;

/// A block token, as it came with a block. The default is none.
#[derive(Clone, Copy, Default)]
pub struct Secret<'a> {
    pub identifier: &'a [u8],
    pub password: &'a [u8],
}

impl fmt::Debug for Secret<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Proves to have the token, and agrees on the first of `protection` that the other end offers; privacy is AES. `held`:
/// memory for what is on its way, of each direction.
pub async fn connect(
    mut socket: TcpStream,
    secret: Secret<'_>,
    protection: Protection,
    held: [impl Held + Send + 'static; 2],
) -> Result<Protected, Error> {
    let mut nonce = [0; NONCE_LEN];
    random::fill(&mut nonce);
    let (mut machine, hello) = Client::of_token(secret.identifier, secret.password, protection, true, &nonce)?;
    socket.write_all(&hello).await?;
    let mut came = Vec::new();
    let channel = loop {
        if socket.read_buf(&mut came).await? == 0 {
            return Err(Error::Closed);
        }
        let progress = machine.on_bytes(&came)?;
        came.drain(..progress.used_len);
        socket.write_all(&progress.send).await?;
        if let Some(channel) = progress.done {
            break channel;
        }
    };
    if channel.is_plain() && !came.is_empty() {
        return Err(Error::Closed); // nobody speaks before he is asked
    }
    Ok(Protected::new(socket, channel, came, held)?)
}
