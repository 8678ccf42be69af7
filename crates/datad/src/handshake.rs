//! What a connection of data transfer has to prove before its first operation.

use crate::budget::Reservation;
use crate::connection::Connection;
use crate::data_service::DataService;
use crate::local_socket::Peer;
use io::ConnectionPermit;
use sasl::Protected;
use security::sasl::digest::{Protection, Qop};
use security::sasl::transfer::{HandshakeError, Secrets, Settings};
use std::sync::Arc;
use std::time::Duration;
use xfer::answer::Refusal;
use xfer::memory::{Held, Memory};
use xfer::write::ANSWER_WAIT;

/// A connection that may bring operations.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) connection: Connection,
    /// What its handshake agreed on, if there was one.
    pub(crate) agreed: Option<Qop>,
}

/// Carries the handshake of a connection to its end, if it begins with one. `None`: there is nothing to serve, and the
/// peer was told why.
pub(crate) async fn admit(
    service: &DataService,
    mut connection: Connection,
    peer: Peer,
    permit: &Arc<ConnectionPermit>,
) -> std::io::Result<Option<Admitted>> {
    // Of the first byte and all that follows.
    let until = service.replicas.now() + Duration::from_millis(service.limits.op_ms);
    let left = || until.saturating_sub(service.replicas.now());
    let Ok(begins) = tokio::time::timeout(left(), connection.begins_with_handshake()).await else { return Ok(None) };
    match begins? {
        Some(true) => {}
        Some(false) => return Ok(Some(Admitted { connection, agreed: None })),
        None => return Ok(None),
    }
    let rules = service.replicas.node.with(|node| node.tokens.rules());
    let (Some(keys), Some(pool)) = (rules.keys(), service.replicas.disks.pool()) else {
        // The keys that prove callers are those of block tokens.
        let text = "this node has no keys: the store asks for no block tokens, or has not told it so far".into();
        let refused = HandshakeError::Refused { text };
        connection.send_within(&refused.reply(), ANSWER_WAIT).await?;
        return Ok(None);
    };
    let (Some(for_incoming), Some(for_outgoing)) = (service.budget.take(0), service.budget.take(0)) else {
        return Ok(None);
    };
    let held = [for_incoming, for_outgoing].map(|memory| HeldByConnection { memory, _permit: Arc::clone(permit) });
    let accepted = if rules.protection().is_empty() { &Qop::ALL[..] } else { rules.protection() };
    let settings = Settings { protection: Protection::of(accepted), aes: Some(rules.key_bits()) };
    let secrets = Secrets { now: service.replicas.wall(), keys, pool: &pool };
    let (Protected { socket, .. }, came) = connection.into_parts();
    let accepting = sasl::accept(socket, came, settings, |user| secrets.claim(user), held);
    match tokio::time::timeout(left(), accepting).await {
        Ok(Ok(accepted)) => {
            let connection = Connection::new(accepted.connection);
            Ok(Some(Admitted { connection, agreed: Some(accepted.qop) }))
        }
        Ok(Err(error)) => {
            note(service, peer, &error);
            Ok(None)
        }
        Err(_elapsed) => Ok(None),
    }
}

/// A protected connection counts for as long as it lives: as a write stream, or behind a pump, which may outlive the
/// operations for a while.
#[derive(Debug)]
struct HeldByConnection {
    memory: Reservation,
    _permit: Arc<ConnectionPermit>,
}

impl Held for HeldByConnection {
    fn held_len(&self) -> u64 {
        self.memory.held_len()
    }

    fn grow_to(&mut self, len: u64) -> bool {
        self.memory.grow_to(len)
    }

    fn shrink_to(&mut self, len: u64) {
        self.memory.shrink_to(len);
    }
}

/// Why an operation may not begin on a connection that agreed on this: the store asks for more. Asked anew for each, as
/// a connection may be older than the node's registration, or than the setting.
pub(crate) fn lacks(service: &DataService, peer: Peer, agreed: Option<Qop>) -> Option<Refusal> {
    // As HDFS's datanodes have it, whose clients do not shake hands there.
    if peer == Peer::Local {
        return None;
    }
    let rules = service.replicas.node.with(|node| node.tokens.rules());
    let wanted = rules.protection();
    if wanted.is_empty() || agreed.is_some_and(|agreed| wanted.contains(&agreed)) {
        return None;
    }
    note(service, peer, &"an operation without the protection that is asked for");
    let words: Vec<&str> = wanted.iter().map(|qop| qop.setting()).collect();
    let setting = format!("dfs.data.transfer.protection = {}", words.join(","));
    Some(Refusal::error(format!(
        "this store protects data transfer: shake hands before the first operation ({setting})"
    )))
}

fn note(service: &DataService, peer: Peer, why: &dyn std::fmt::Display) {
    service.operations.handshake_refused();
    if let Some(passed_over) = service.log_limits.handshake_refused.due() {
        tracing::info!(%peer, why = rpc::log_text(why), passed_over, "a connection was not admitted");
    }
}
