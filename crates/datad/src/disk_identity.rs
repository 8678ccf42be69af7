//! Whose a datanode's disks are, as is written on them.

use crate::error::StartError;
use std::path::PathBuf;
use types::NodeId;

/// Which node's these directories are; `None`: they are new. Waits for the disk.
pub fn node_of(dirs: &[PathBuf]) -> Result<Option<NodeId>, StartError> {
    for dir in dirs {
        if let Some(identity) = container::VolumeIdentity::of(dir).map_err(disks::OpenError::from)? {
            return Ok(Some(identity.node));
        }
    }
    Ok(None)
}
