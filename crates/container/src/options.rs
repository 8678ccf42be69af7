//! What a volume is told when it is opened: what its puts promise, and its limits.

use crate::meters::Meters;
use std::time::Duration;
use types::NodeId;

/// What a put promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// It survives a loss of power.
    Synced,
    /// It survives the end of the process; other nodes' memory stands in for the rest.
    Replicated,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub durability: Durability,
    /// Replicas up to this length share their container's pack.
    pub pack_len_max: u64,
    /// Open replicas that share their place with later ones as long as they are that short; each takes a descriptor.
    /// Further ones get files at once. Writers of small files at a time: a guess.
    pub slot_count_max: usize,
    /// Whose volume this is; drawn at random if the directory is new and nobody says.
    pub node: Option<NodeId>,
    /// Bytes of the disk that new replicas do not take and [`Volume::usage`](crate::Volume::usage) does not offer, for
    /// all else that must go on there: the index, and on a small machine the metadata server, without which nothing can
    /// be deleted. `None`: a tenth of the disk, at most 1 GB. Replicas that have begun may take half of
    /// it, at most 500 MB.
    pub reserved_len: Option<u64>,
    /// How long the index on disk may lag behind.
    pub flush_interval: Duration,
    pub meters: Meters,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Synced,
            pack_len_max: 256 << 10,
            slot_count_max: 256,
            node: None,
            reserved_len: None,
            flush_interval: Duration::from_secs(2),
            meters: Meters::default(),
        }
    }
}
