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

/// What a datanode of Apache HDFS wants to have proven.
#[derive(Clone, Copy)]
pub enum HdfsSecret<'a> {
    Token(Secret<'a>),
    /// A key of a cluster that encrypts, by its name (`security::encryption_key`).
    EncryptionKey {
        user: &'a str,
        password: &'a [u8],
    },
}

impl fmt::Debug for HdfsSecret<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HdfsSecret")
    }
}

/// Proves to have the token, and agrees on the first of `protection` that the other end offers; privacy is AES. `held`:
/// memory for what is on its way, of each direction.
pub async fn connect(
    socket: TcpStream,
    secret: Secret<'_>,
    protection: Protection,
    held: [impl Held + Send + 'static; 2],
) -> Result<Protected, Error> {
    let machine = Client::of_token(secret.identifier, secret.password, protection, true, &nonce())?;
    shake(socket, machine, held).await
}

/// The same with a datanode of Apache HDFS, which knows no AES unless its settings say so: then privacy is by a cipher
/// of `protection`.
pub async fn connect_to_hdfs(
    socket: TcpStream,
    secret: HdfsSecret<'_>,
    protection: Protection,
    held: [impl Held + Send + 'static; 2],
) -> Result<Protected, Error> {
    let (machine, hello) = match secret {
        HdfsSecret::Token(Secret { identifier, password }) => {
            Client::of_token(identifier, password, protection, true, &nonce())?
        }
        HdfsSecret::EncryptionKey { user, password } => {
            Client::new(user.to_owned(), password, protection, true, &nonce())?
        }
    };
    shake(socket, (machine.or_without_aes(), hello), held).await
}

fn nonce() -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    random::fill(&mut nonce);
    nonce
}

async fn shake(
    mut socket: TcpStream,
    (mut machine, hello): (Client, Vec<u8>),
    held: [impl Held + Send + 'static; 2],
) -> Result<Protected, Error> {
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
