//! What safe mode keeps out.

use crate::error::blocked::Blocked;
use crate::ops::{BeginRecovery, Op, RecoveryTarget};

/// `None`: the operation runs in safe mode, too.
pub(crate) fn blocked(op: &Op) -> Option<Blocked> {
    let operation = match op {
        // A namespace is made before anybody is served.
        Op::SetSafeMode(_) | Op::Format(_) => return None,
        Op::SetAcl(op) => op.change.operation(),
        op => op.name(),
    };
    let block = match op {
        Op::AbandonBlock(op) => Some(op.block),
        Op::BumpGeneration(op) => Some(op.block),
        _ => None,
    };
    let path = match op {
        Op::Concat(op) => Some(&op.target),
        Op::BeginRecovery(BeginRecovery { target: RecoveryTarget::Path(path), .. }) => Some(path),
        op => op.paths().0,
    };
    Some(Blocked { operation, path: path.cloned(), block })
}
