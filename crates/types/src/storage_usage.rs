//! How full a disk or a node is.

/// Bytes of the disks that are in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StorageUsage {
    pub capacity_len: u64,
    /// In replicas, checksums included.
    pub used_len: u64,
    /// For new replicas: without the reserve, and what others use of the disk.
    pub free_len: u64,
}
