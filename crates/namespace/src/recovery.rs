//! Taking a file from a writer that is silent or dead.
//!
//! ```text
//!  open by a client ──begin──▶ under recovery ──finish(len)──▶ closed
//!         │                        │    ▲
//!         │ all blocks whole       └────┘ begin again: a higher generation
//!         └──────────────────────────────────────────────────▶ closed
//! ```
//!
//! From `begin` on the old writer is refused with LeaseExpired. Its data connections are fenced by the new generation,
//! which the leader takes to the nodes before it lets anybody see the file closed.

use crate::block::{self, last_row, write_row};
use crate::context::Context;
use crate::error::held::{Held, Holder, Opening};
use crate::error::{Failure, NsError};
use crate::inode::{Node, write_node};
use crate::lease::{self, RECOVERY_HOLDER, close};
use crate::reply::Recovery;

/// Begins, or begins again, the recovery of an open file.
pub(crate) fn begin(context: &mut Context<'_>, node: &mut Node) -> Result<Recovery, Failure> {
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
    Ok(Recovery::Started { file: id, last: block::view(id, &(offset, row)), generation })
}

/// A client that wants to open a file.
pub(crate) struct Newcomer<'a> {
    pub(crate) opening: Opening,
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
    let Newcomer { opening, client, client_host, takeover } = *newcomer;
    let held = |by| {
        let (client, client_host) = (client.to_owned(), client_host.to_owned());
        Box::new(Held { opening, path: path.to_owned(), client, client_host, by })
    };
    let (holder, host) = (open.holder.clone(), open.client_host.clone());
    if open.holder == client {
        return Err(NsError::AlreadyBeingCreated(held(Holder::Itself)).into());
    }
    if open.recovery.is_some() {
        return Err(NsError::RecoveryInProgress(held(Holder::Recovery { holder, host })).into());
    }
    if takeover != Some(open.holder.as_str()) {
        return Err(NsError::AlreadyBeingCreated(held(Holder::Other { holder, host })).into());
    }
    match begin(context, node)? {
        Recovery::Closed { .. } => Ok(None),
        started => Ok(Some(started)),
    }
}
