//! The page of a datanode that runs: what it says of itself, and the metadata servers do not know.

use super::finding::Finding;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// For a server on this machine to answer. A guess: it looks at no disk for that.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// A datanode says a few hundred bytes of each of its disks.
const STATUS_LEN_MAX: u64 = 4 << 20;

/// Whether a metadata server that leads knows the datanode with this `http_addr`, which runs. `None`: it does not say.
pub(super) async fn registration(addr: SocketAddr) -> Option<Finding> {
    let status = timeout(ANSWER_MAX, status(addr)).await.ok()??;
    Some(match status["registered"].as_bool()? {
        true => Finding::well("metad", "a metadata server that leads knows this datanode, which runs"),
        false => Finding::fault(
            "metad",
            "this datanode runs, and no metadata server that leads knows it",
            "see that one leads at `metad` (`levada doctor`), and what the datanode's log says of its registration",
        ),
    })
}

/// `None`: whoever listens does not answer as our servers do.
async fn status(addr: SocketAddr) -> Option<Value> {
    let mut socket = TcpStream::connect(addr).await.ok()?;
    // By 1.0 an answer is in one piece, and ends with the connection.
    socket.write_all(b"GET /status HTTP/1.0\r\n\r\n").await.ok()?;
    let mut answer = Vec::new();
    socket.take(STATUS_LEN_MAX).read_to_end(&mut answer).await.ok()?;
    let answer = String::from_utf8(answer).ok()?;
    let (_head, body) = answer.split_once("\r\n\r\n")?;
    serde_json::from_str(body).ok()
}
