//! How a metadata server is set up. Every setting has its name here.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use types::limits;

/// A metadata server. A file of it needs `dir` and `rpc_addr`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Raft log and store. Made, and an empty namespace in it, if it does not exist.
    pub dir: PathBuf,
    /// Where clients and datanodes call; port 0 takes a free one.
    pub rpc_addr: SocketAddr,
    /// Replicas of a file whose writer does not say.
    #[serde(default = "default_replication")]
    pub replication: u16,
    /// Length of a block whose writer does not say. HDFS: `dfs.blocksize`.
    #[serde(default = "default_block_len")]
    pub block_len: u64,
    /// HDFS: `dfs.namenode.fs-limits.min-block-size`.
    #[serde(default = "default_block_len_min")]
    pub block_len_min: u64,
    /// Bytes under one checksum, for writers that ask. HDFS: `dfs.bytes-per-checksum`.
    #[serde(default = "default_bytes_per_checksum")]
    pub bytes_per_checksum: u32,
    /// Members of this group may do everything, as may the user who runs the server.
    #[serde(default = "default_supergroup")]
    pub supergroup: String,
    /// A writer silent for longer may lose its file to another one. HDFS: 60 s, not to be configured there.
    #[serde(default = "default_lease_soft_ms")]
    pub lease_soft_ms: u64,
    /// A writer silent for longer loses its files. HDFS: `dfs.namenode.lease-hard-limit-sec`, 20 min.
    #[serde(default = "default_lease_hard_ms")]
    pub lease_hard_ms: u64,
    /// Access times are not kept more exactly than this; 0: not at all. HDFS: `dfs.namenode.accesstime.precision`, 1 h.
    #[serde(default = "default_access_time_ms")]
    pub access_time_ms: u64,
    /// Bytes for changes that wait to be synced, and for requests and answers under way.
    #[serde(default = "default_memory")]
    pub memory: u64,
}

impl Config {
    pub fn new(dir: PathBuf, rpc_addr: SocketAddr) -> Self {
        Self {
            dir,
            rpc_addr,
            replication: default_replication(),
            block_len: default_block_len(),
            block_len_min: default_block_len_min(),
            bytes_per_checksum: default_bytes_per_checksum(),
            supergroup: default_supergroup(),
            lease_soft_ms: default_lease_soft_ms(),
            lease_hard_ms: default_lease_hard_ms(),
            access_time_ms: default_access_time_ms(),
            memory: default_memory(),
        }
    }

    /// What cannot work, in words for whoever wrote it.
    pub(crate) fn check(&self) -> Result<(), String> {
        let sums = u64::from(self.bytes_per_checksum);
        if self.replication == 0 || self.replication > limits::REPLICATION_MAX {
            return Err(format!("replication is {}; give 1 to {}", self.replication, limits::REPLICATION_MAX));
        }
        if sums == 0 || self.bytes_per_checksum > limits::BYTES_PER_CHECKSUM_MAX || !self.block_len.is_multiple_of(sums)
        {
            return Err(format!("block_len ({}) must be a multiple of bytes_per_checksum ({sums})", self.block_len));
        }
        if self.block_len < self.block_len_min {
            return Err(format!("block_len ({}) is below block_len_min ({})", self.block_len, self.block_len_min));
        }
        if self.lease_soft_ms > self.lease_hard_ms {
            return Err("lease_soft_ms must not be above lease_hard_ms".into());
        }
        Ok(())
    }

    pub(crate) fn lease_soft(&self) -> Duration {
        Duration::from_millis(self.lease_soft_ms)
    }

    pub(crate) fn lease_hard(&self) -> Duration {
        Duration::from_millis(self.lease_hard_ms)
    }
}

fn default_replication() -> u16 {
    3
}

fn default_block_len() -> u64 {
    limits::BLOCK_LEN_DEFAULT
}

fn default_block_len_min() -> u64 {
    1 << 20
}

fn default_bytes_per_checksum() -> u32 {
    limits::BYTES_PER_CHECKSUM_DEFAULT
}

fn default_supergroup() -> String {
    "supergroup".into()
}

fn default_lease_soft_ms() -> u64 {
    60_000
}

fn default_lease_hard_ms() -> u64 {
    20 * 60_000
}

fn default_access_time_ms() -> u64 {
    60 * 60_000
}

fn default_memory() -> u64 {
    512 << 20
}
