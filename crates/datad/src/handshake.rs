//! What a connection of data transfer has to prove before its first operation.

use crate::budget::Reservation;
use crate::connection::Connection;
use crate::data_service::DataService;
use datanode::tokens::TokenRules;
use io::ConnectionPermit;
use security::sasl::digest::{Protection, Qop};
use security::sasl::transfer::{HandshakeError, KeyBits, Secrets, Settings};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use xfer::answer::{Refusal, encode};
use xfer::memory::{Held, Memory};
use xfer::write::ANSWER_WAIT;

/// HDFS's default (`dfs.encrypt.data.transfer.cipher.key.bitlength`).
const KEY_BITS: KeyBits = KeyBits::B128;

/// Carries the handshake of a connection to its end, if there is one or has to be one. `None`: there is nothing to serve,
/// and the peer was told why.
pub(crate) async fn admit(
    service: &DataService,
    mut connection: Connection,
    peer: SocketAddr,
    permit: &Arc<ConnectionPermit>,
) -> std::io::Result<Option<Connection>> {
    let limit = Duration::from_millis(service.limits.op_ms);
    let Ok(begins) = tokio::time::timeout(limit, connection.begins_with_handshake()).await else { return Ok(None) };
    let Some(begins) = begins? else { return Ok(None) };
    let rules = service.replicas.node.with(|node| node.tokens.rules());
    if !begins {
        if rules.protection().is_empty() {
            return Ok(Some(connection));
        }
        note(service, peer, &"an operation without a handshake");
        connection.send_within(&encode(without(&rules).into_answer()), ANSWER_WAIT).await?;
        return Ok(None);
    }
    let (Some(keys), Some(pool)) = (rules.keys(), service.replicas.disks.pool()) else {
        // The keys that prove callers are those of block tokens.
        let refused =
            HandshakeError::Refused { text: "this store asks for no block tokens, and has no handshake".into() };
        connection.send_within(&refused.reply(), ANSWER_WAIT).await?;
        return Ok(None);
    };
    let Some(memory) = service.budget.take(0) else { return Ok(None) };
    let held = HeldByPump { memory, _permit: Arc::clone(permit) };
    let accepted = if rules.protection().is_empty() { &Qop::ALL[..] } else { rules.protection() };
    let settings = Settings { protection: Protection::of(accepted), aes: Some(KEY_BITS) };
    let secrets = Secrets { now: service.replicas.wall(), keys, pool: &pool };
    let (socket, came) = connection.into_parts();
    let accepting = sasl::accept(socket, came, settings, |user| secrets.claim(user), held);
    match tokio::time::timeout(limit, accepting).await {
        Ok(Ok(accepted)) => Ok(Some(Connection::having(accepted.socket, &accepted.came))),
        Ok(Err(error)) => {
            note(service, peer, &error);
            Ok(None)
        }
        Err(_elapsed) => Ok(None),
    }
}

/// A protected connection counts for as long as its pump lives, which may outlive the operations for a while.
#[derive(Debug)]
struct HeldByPump {
    memory: Reservation,
    _permit: Arc<ConnectionPermit>,
}

impl Held for HeldByPump {
    fn held_len(&self) -> u64 {
        self.memory.held_len()
    }

    fn grow_to(&mut self, len: u64) -> bool {
        self.memory.grow_to(len)
    }
}

/// What a client hears that begins with an operation.
fn without(rules: &TokenRules) -> Refusal {
    let words: Vec<&str> = rules.protection().iter().map(|qop| qop.setting()).collect();
    Refusal::error(format!(
        "this store protects data transfer: a handshake comes before the first operation (dfs.data.transfer.protection = {})",
        words.join(",")
    ))
}

fn note(service: &DataService, peer: SocketAddr, why: &dyn std::fmt::Display) {
    service.operations.handshake_refused();
    if let Some(passed_over) = service.log_limits.handshake_refused.due() {
        tracing::info!(%peer, why = rpc::log_text(why), passed_over, "a connection was not admitted");
    }
}
