//! What a datanode reports of one of its disks.

/// One disk. It is shown to users; no decision depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskReport {
    /// The volume's id, a UUID; empty if it was never known.
    pub volume: String,
    /// Where it lies on the node.
    pub dir: String,
    /// Why it takes no writes; empty for a sound one.
    pub failure: String,
    pub capacity_len: u64,
    /// By replicas.
    pub used_len: u64,
    pub free_len: u64,
    pub replica_count: u64,
    /// Replicas that are being written.
    pub stream_count: u64,
    /// For how long the replica that waits longest for the background scrub was not read; `None`: there is none.
    pub unread_ms: Option<u64>,
}
