//! Revocation: which certificates of a datanode count, and which datanodes are taken at their word.

use crate::connections::Connections;
use crate::machine::Machine;
use security::joining;
use std::time::Duration;
use types::rows::RowsError;
use types::{Millis, NodeId};

/// Whoever takes a certificate may have a clock that is ahead of this server's. A guess, far above what clocks of
/// servers differ by.
const CLOCKS_DIFFER_MAX: Duration = Duration::from_secs(60);

/// Certificates from before that do not count, if they are revoked now. A certificate counts before the time that it
/// says it was made at, so that clocks may differ: whoever signed it may be ahead of this server by that much. So all
/// that anybody takes now are from before this. Certificates that the store signs later say at least this time, though
/// it has not come yet, and are valid at once.
pub(crate) fn revocation(now: Millis) -> Millis {
    let ahead = tls::CLOCK_BEHIND_MAX + CLOCKS_DIFFER_MAX;
    Millis(now.0.saturating_add(ahead.as_millis() as u64))
}

/// Whether a certificate that says that it was made then counts.
pub(crate) fn counts(issued_at: Millis, revoked_before: Option<Millis>) -> bool {
    revoked_before.is_none_or(|before| issued_at >= before)
}

/// Whether a datanode is asked anything, and what it answers is taken: its certificates were never revoked, or it has
/// registered by a later one over a connection that is open.
pub(crate) fn is_believed(machine: &Machine, connections: &Connections, node: NodeId) -> Result<bool, RowsError> {
    let revoked = joining::revoked_before(&machine.store().view(), node)?;
    Ok(revoked.is_none() || connections.issued_at(node).is_some_and(|issued_at| counts(issued_at, revoked)))
}
