//! Taking a file from a writer that is silent or dead.
//!
//! ```text
//!  open by a client ──begin──▶ under recovery ──finish(len)──▶ closed
//!         │                        │    ▲
//!         │ all blocks whole       └────┘ begin again: a higher generation
//!         └──────────────────────────────────────────────────▶ closed
//! ```
//!
//! From `begin` on the old writer is told LeaseExpired. Its data connections are fenced by the new generation, which
//! the leader takes to the nodes before it lets anybody see the file closed.

use crate::block::{self, last_row, write_row};
use crate::context::Context;
use crate::error::{Failure, NsError};
use crate::inode::{Node, write_node};
use crate::lease::{self, RECOVERY_HOLDER, close};
use crate::reply::Recovery;

/// Begins, or begins again, the recovery of an open file.
pub(crate) fn begin(context: &mut Context<'_>, node: &mut Node, message: String) -> Result<Recovery, Failure> {
    let id = node.inode.id;
    let Some((offset, mut row)) = last_row(context.rows, &node.inode)?.filter(|(_, row)| !row.is_complete()) else {
        close(context, node);
        return Ok(Recovery::Closed { file: id });
    };
    let generation = block::issue_generation(context.rows, &mut row)?;
    write_row(context.rows, id, offset, &row);
    if let Some(open) = node.inode.file_mut().and_then(|file| file.open.as_mut()) {
        lease::release(context.rows, id, &open.holder);
        lease::grant(context.rows, id, RECOVERY_HOLDER);
        open.holder = RECOVERY_HOLDER.into();
        open.recovery = Some(generation);
    }
    write_node(context.rows, node);
    Ok(Recovery::Started { file: id, last: block::view(id, &(offset, row)), generation, message })
}

/// A client that wants to open a file.
pub(crate) struct Newcomer<'a> {
    /// HDFS's name of the call, for messages.
    pub(crate) call: &'static str,
    pub(crate) client: &'a str,
    pub(crate) client_host: &'a str,
    pub(crate) takeover: Option<&'a str>,
}

/// A client wants a file that may be open. `None`: it is closed (now); otherwise a recovery began and the client must
/// wait.
pub(crate) fn meet_open(
    context: &mut Context<'_>,
    node: &mut Node,
    path: &str,
    newcomer: &Newcomer<'_>,
) -> Result<Option<Recovery>, Failure> {
    let Some(open) = node.inode.file().and_then(|file| file.open.as_ref()) else { return Ok(None) };
    let Newcomer { call, client, client_host, takeover } = newcomer;
    let because = |reason: String| format!("Failed to {call} {path} for {client} on {client_host} because {reason}");
    if open.holder == *client {
        let reason = format!("{client} is already the current lease holder.");
        return Err(NsError::AlreadyBeingCreated(because(reason)).into());
    }
    if open.recovery.is_some() {
        let reason = format!("another recovery is in progress by {} on {}", open.holder, open.client_host);
        return Err(NsError::RecoveryInProgress(because(reason)).into());
    }
    if *takeover != Some(open.holder.as_str()) {
        let reason = format!("this file lease is currently owned by {} on {}", open.holder, open.client_host);
        return Err(NsError::AlreadyBeingCreated(because(reason)).into());
    }
    let message = because("lease recovery is in progress. Try again later.".into());
    match begin(context, node, message)? {
        Recovery::Closed { .. } => Ok(None),
        started => Ok(Some(started)),
    }
}
