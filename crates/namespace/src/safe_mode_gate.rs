//! What safe mode keeps out, and how it is refused.

use crate::ops::{BeginRecovery, Op, RecoveryTarget};
use types::FsPath;

/// What HDFS says cannot be done, the beginning of its message. `None`: the operation runs in safe mode, too.
pub(crate) fn cannot(op: &Op) -> Option<String> {
    let text = match op {
        // A namespace is made before anybody is served.
        Op::SetSafeMode(_) | Op::Format(_) => return None,
        Op::Mkdirs(op) => format!("Cannot create directory {}", op.path),
        // As in HDFS, without a space.
        Op::Create(op) => format!("Cannot create file{}", op.path),
        Op::PutFile(op) => format!("Cannot create file{}", op.create.path),
        Op::Append(op) => format!("Cannot append to file{}", op.path),
        Op::AddBlock(op) => add_block(&op.path),
        Op::AddLeased(op) => add_block(&op.add.path),
        Op::AbandonBlock(op) => format!("Cannot abandon block {} for file{}", op.block, op.path),
        Op::BumpGeneration(op) => {
            format!("Cannot get a new generation stamp and an access token for block {}", op.block)
        }
        Op::UpdatePipeline(_) => "Pipeline not updated".to_owned(),
        Op::Complete(op) => format!("Cannot complete file {}", op.path),
        Op::Fsync(op) => format!("Cannot fsync file {}", op.path),
        Op::Rename(op) => format!("Cannot rename {}", op.from),
        Op::Rename2(op) => format!("Cannot rename {}", op.from),
        Op::Delete(op) => format!("Cannot delete {}", op.path),
        Op::SetPermission(op) => format!("Cannot set permission for {}", op.path),
        Op::SetOwner(op) => format!("Cannot set owner for {}", op.path),
        Op::SetTimes(op) => format!("Cannot set times {}", op.path),
        Op::SetReplication(op) => format!("Cannot set replication for {}", op.path),
        Op::SetQuota(op) => format!("Cannot set quota on {}", op.path),
        Op::SetAcl(op) => format!("Cannot {} {}", op.change.in_words(), op.path),
        Op::SetXattr(op) => format!("Cannot set XAttr on {}", op.path),
        Op::RemoveXattr(op) => format!("Cannot remove XAttr entry on {}", op.path),
        Op::Concat(op) => format!("Cannot concat {}", op.target),
        Op::Truncate(op) => format!("Cannot truncate for {}", op.path),
        Op::BeginRecovery(BeginRecovery { target: RecoveryTarget::Path(path), .. }) => {
            format!("Cannot recover the lease of {path}")
        }
        Op::FinishRecovery(_) => "Cannot commitBlockSynchronization while in safe mode".to_owned(),
        // The server's own.
        Op::BeginRecovery(_)
        | Op::Reap(_)
        | Op::ForgetDoomed(_)
        | Op::TouchAccessTime(_)
        | Op::Reserve(_)
        | Op::MoveBlocks(_)
        | Op::ForgetResized(_) => format!("Cannot {}", op.name()),
    };
    Some(text)
}

fn add_block(path: &FsPath) -> String {
    format!("Cannot add block to {path}")
}
