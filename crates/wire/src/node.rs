//! What our own nodes tell each other, over Hadoop RPC: the messages of [`NODE_PROTOCOL`] and [`REPLICA_PROTOCOL`].
//!
//! ```text
//! datanode ── register ─────▶ metad     once, and again whenever metad does not know the node
//!          ── catalogue ────▶           all replicas, page by page: after registration, then every ten minutes
//!          ── heartbeat ────▶           about each second, at once when a replica was put
//!          ── sources ──────▶           who has these blocks: for a layout whose bytes lie elsewhere
//! metad    ── beginRecovery ▶ datanode  fences the writer of a block, asks what is there
//!          ── finishRecovery ▶          cuts it to the length agreed on, under the new generation
//!          ── compare ──────▶           has it these replicas? by a digest, and by the list where that differs
//!          ── verify ───────▶           reads a replica from end to end against its checksums
//!          ── tree ─────────▶           sums over what a container holds ([`crate::tree`])
//! ```
//!
//! The messages are in `proto/node.proto`.

pub use crate::proto::{
    BeginRecoveryRequest, BeginRecoveryResponse, BlockSources, BlockToken, CatalogueRequest, CompareRequest,
    CompareResponse, CopyFailure, CopyOrder, Deletion, Digest, Disk, DiskBalanceOrder, DiskBalanceReport,
    FinishRecoveryRequest, FinishRecoveryResponse, HeartbeatRequest, Incarnation, Member, NodeLogLevelRequest,
    NodeLogLevelResponse, Orders, Outside, Owner, RegisterRequest, RegisterResponse, Replica, ScrubOrder, ScrubReport,
    Sender, Source, SourcesRequest, SourcesResponse, TokenKey, TokenRules, Usage, VerifyRequest, VerifyResponse,
};
use std::fmt;
use types::{BlockId, ContainerId, DiskReport, Generation, InodeId, StorageUsage};

/// Datanode → metad, on metad's RPC port.
pub const NODE_PROTOCOL: &str = "org.levada.NodeProtocol";
/// Metad → datanode, on the datanode's RPC port.
pub const REPLICA_PROTOCOL: &str = "org.levada.ReplicaProtocol";
/// Version of both.
pub const PROTOCOL_VERSION: u64 = 1;

/// The class of the error by which a node says to [`BEGIN_RECOVERY`] that it knows of no replica, and that one may be
/// on a disk that it was started without. No field of the answer, as who does not know one takes the answer for
/// "nothing is here".
pub const CANNOT_SAY: &str = "org.levada.CannotSayException";

/// The class of the error that refuses a registration: another process with this node's id still sends heartbeats. The
/// node tries for a while, as that process may have ended without a word, and then ends itself.
pub const NODE_IN_USE: &str = "org.levada.DatanodeInUseException";
/// The class of the error by which a process learns that another one has taken its place: it ends.
pub const NODE_SUPERSEDED: &str = "org.levada.DatanodeSupersededException";
/// The class of the error that refuses a datanode whose certificate was revoked, and ends its connection. Only an
/// administrator can change that.
pub const NODE_REVOKED: &str = "org.levada.DatanodeRevokedException";

pub const REGISTER: &str = "register";
pub const HEARTBEAT: &str = "heartbeat";
pub const CATALOGUE: &str = "catalogue";
pub const SOURCES: &str = "sources";
pub const BEGIN_RECOVERY: &str = "beginRecovery";
pub const FINISH_RECOVERY: &str = "finishRecovery";
pub const COMPARE: &str = "compare";
pub const VERIFY: &str = "verify";
/// What the node logs, changed while it runs.
pub const SET_LOG_LEVEL: &str = "setLogLevel";
/// Longest level of a log, with its directives. A guess: a dozen of them.
pub const LOG_LEVEL_LEN_MAX: usize = 1000;

/// Blocks of a [`SourcesRequest`].
pub const SOURCE_BLOCK_COUNT_MAX: usize = 16;

/// Replicas in one page of the catalogue; changes in one heartbeat.
pub const PAGE_COUNT_MAX: usize = 10_000;

impl From<DiskReport> for Disk {
    fn from(disk: DiskReport) -> Self {
        let DiskReport {
            volume,
            dir,
            failure,
            capacity_len,
            used_len,
            free_len,
            replica_count,
            stream_count,
            unread_ms,
        } = disk;
        Self { volume, dir, failure, capacity_len, used_len, free_len, replica_count, stream_count, unread_ms }
    }
}

impl From<StorageUsage> for Usage {
    fn from(usage: StorageUsage) -> Self {
        let StorageUsage { capacity_len, used_len, free_len } = usage;
        Self { capacity_len, used_len, free_len }
    }
}

impl From<Usage> for StorageUsage {
    fn from(message: Usage) -> Self {
        let Usage { capacity_len, used_len, free_len } = message;
        Self { capacity_len, used_len, free_len }
    }
}

impl Replica {
    pub fn block_id(&self) -> BlockId {
        BlockId(self.block)
    }

    pub fn generation_stamp(&self) -> Generation {
        Generation(self.generation)
    }

    /// The file it belongs to, if the node knows.
    pub fn file_id(&self) -> Option<InodeId> {
        (self.file != 0).then_some(InodeId(self.file))
    }

    pub fn home_id(&self) -> Option<ContainerId> {
        (self.home != 0).then_some(ContainerId(self.home))
    }
}

/// Keys in one message.
pub const KEY_COUNT_MAX: usize = 16;

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl fmt::Debug for BlockToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockToken").finish_non_exhaustive()
    }
}

/// Disks that a node may have.
pub const DISK_COUNT_MAX: usize = 200;

impl Digest {
    pub fn add(&mut self, block: BlockId, generation: Generation, len: u64) {
        // The finalizer of SplitMix64 after each number: differences of neighbours do not cancel out.
        let mix = |value: u64| {
            let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            value ^ (value >> 31)
        };
        let hash =
            [block.0, generation.0, len].into_iter().fold(0x9e37_79b9_7f4a_7c15, |hash, value| mix(hash ^ value));
        self.count += 1;
        self.sum = self.sum.wrapping_add(hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two nodes of two versions must come to the same sum.
    #[test]
    fn a_digest_tells_sets_apart_and_no_orders() {
        let replica = |number: u64| (BlockId(number), Generation(1001), 10 * number);
        let digest = |numbers: &[u64]| {
            let mut digest = Digest::default();
            for (block, generation, len) in numbers.iter().map(|number| replica(*number)) {
                digest.add(block, generation, len);
            }
            digest
        };
        assert_eq!(digest(&[1, 2, 3]), digest(&[3, 1, 2]));
        assert_ne!(digest(&[1, 2, 3]), digest(&[1, 2, 4]));
        assert_ne!(digest(&[1, 2]), digest(&[1, 2, 3]));
        assert_eq!(digest(&[1, 2, 3]), Digest { count: 3, sum: GOLDEN_SUM });
    }

    const GOLDEN_SUM: u64 = 17_028_936_682_508_712_166;
}
