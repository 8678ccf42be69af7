//! What our own nodes tell each other, over Hadoop RPC: the messages of [`NODE_PROTOCOL`] and [`REPLICA_PROTOCOL`].
//!
//! ```text
//! datanode ── register ─────▶ metad     once, and again whenever metad does not know the node
//!          ── catalogue ────▶           all replicas, page by page: after registration, then every ten minutes
//!          ── heartbeat ────▶           about each second, at once when a replica was put
//! metad    ── beginRecovery ▶ datanode  fences the writer of a block, asks what is there
//!          ── finishRecovery ▶          cuts it to the length agreed on, under the new generation
//!          ── compare ──────▶           has it these replicas? by a digest, and by the list where that differs
//!          ── verify ───────▶           reads a replica from end to end against its checksums
//!          ── tree ─────────▶           sums over what a container holds ([`crate::tree`])
//! ```
//!
//! A message is protobuf with fields that may be added and are never renumbered. Numbers of blocks, generations,
//! files and containers are the plain ids; zero means that the sender does not know.

use prost::Message;
use types::{BlockId, ContainerId, Fitness, Generation, InodeId, ReplicaState};

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

pub const REGISTER: &str = "register";
pub const HEARTBEAT: &str = "heartbeat";
pub const CATALOGUE: &str = "catalogue";
pub const BEGIN_RECOVERY: &str = "beginRecovery";
pub const FINISH_RECOVERY: &str = "finishRecovery";
pub const COMPARE: &str = "compare";
pub const VERIFY: &str = "verify";

/// Replicas in one page of the catalogue; changes in one heartbeat.
pub const PAGE_COUNT_MAX: usize = 10_000;

#[derive(Clone, PartialEq, Message)]
pub struct RegisterRequest {
    /// The node's id as a UUID, chosen when its directory was made.
    #[prost(string, tag = "1")]
    pub node: String,
    /// What clients dial: address and host name.
    #[prost(string, tag = "2")]
    pub ip: String,
    #[prost(string, tag = "3")]
    pub host: String,
    #[prost(uint32, tag = "4")]
    pub xfer_port: u32,
    #[prost(uint32, tag = "5")]
    pub ipc_port: u32,
    #[prost(uint32, tag = "6")]
    pub info_port: u32,
    /// The id of its storage, a UUID as well.
    #[prost(string, tag = "7")]
    pub storage: String,
    /// Where it stands, as HDFS writes it: `/default-rack`.
    #[prost(string, tag = "8")]
    pub rack: String,
    #[prost(message, required, tag = "9")]
    pub usage: Usage,
    /// The program's version, for people.
    #[prost(string, tag = "10")]
    pub version: String,
    /// The block pool it belongs to; empty: to none yet.
    #[prost(string, tag = "11")]
    pub pool: String,
    #[prost(message, required, tag = "12")]
    pub incarnation: Incarnation,
    /// The node's configuration names `ip`, which may then be another address than the one this request comes from.
    #[prost(bool, tag = "13")]
    pub advertised: bool,
}

/// One process of a datanode. Without one (all zero) no message is accepted.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Incarnation {
    /// When it started, in milliseconds since 1970.
    #[prost(uint64, tag = "1")]
    pub start_ms: u64,
    /// Drawn at random.
    #[prost(fixed64, tag = "2")]
    pub nonce: u64,
}

/// Who sends a message that is no registration.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Sender {
    #[prost(message, required, tag = "1")]
    pub incarnation: Incarnation,
    /// For data transfer, `ip:port`, as it registered here.
    #[prost(string, tag = "2")]
    pub addr: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct RegisterResponse {
    /// The block pool that clients name in every block; the node refuses blocks of another.
    #[prost(string, tag = "1")]
    pub block_pool: String,
    /// True: this server stands by; it remembers the node, and the leader gives the orders.
    #[prost(bool, tag = "2")]
    pub standby: bool,
    /// See [`Orders`].
    #[prost(uint64, tag = "3")]
    pub term: u64,
    /// True: nobody has this id, and the node counts from its next message on; it is to send a heartbeat at once.
    #[prost(bool, tag = "4")]
    pub new: bool,
}

/// Bytes of the node's volumes.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Usage {
    #[prost(uint64, tag = "1")]
    pub capacity_len: u64,
    /// By replicas.
    #[prost(uint64, tag = "2")]
    pub used_len: u64,
    /// What new replicas can take.
    #[prost(uint64, tag = "3")]
    pub free_len: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Replica {
    #[prost(uint64, tag = "1")]
    pub block: u64,
    #[prost(uint64, tag = "2")]
    pub generation: u64,
    #[prost(uint64, tag = "3")]
    pub len: u64,
    #[prost(uint64, tag = "4")]
    pub file: u64,
    #[prost(uint64, tag = "5")]
    pub home: u64,
    #[prost(enumeration = "ReplicaState", tag = "6")]
    pub state: i32,
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

#[derive(Clone, PartialEq, Message)]
pub struct HeartbeatRequest {
    #[prost(string, tag = "1")]
    pub node: String,
    #[prost(message, required, tag = "2")]
    pub usage: Usage,
    /// Transfers under way, which HDFS calls xceivers.
    #[prost(uint32, tag = "3")]
    pub transfer_count: u32,
    /// Put (finalized) since the last heartbeat that was answered.
    #[prost(message, repeated, tag = "4")]
    pub put: Vec<Replica>,
    /// Blocks whose replica was deleted since then.
    #[prost(uint64, repeated, tag = "5")]
    pub deleted: Vec<u64>,
    /// Open replicas whose chain broke off, and that nobody took up again since.
    #[prost(message, repeated, tag = "6")]
    pub stale: Vec<Replica>,
    /// Blocks it was told to copy and has not finished, in the order of their ids. Sent with each heartbeat while there
    /// are any.
    #[prost(uint64, repeated, tag = "7")]
    pub copying: Vec<u64>,
    /// Copies that failed in the last seconds. Sent several times, in case an answer was lost.
    #[prost(message, repeated, tag = "8")]
    pub copy_failures: Vec<CopyFailure>,
    /// Replicas it found damaged in the last seconds, sent several times as well.
    #[prost(message, repeated, tag = "9")]
    pub bad: Vec<Replica>,
    /// Deletions that were ordered and not carried out yet.
    #[prost(uint32, tag = "10")]
    pub deletions_waiting: u32,
    /// The last scrub that was ordered, told until another one is.
    #[prost(message, optional, tag = "11")]
    pub scrub: Option<ScrubReport>,
    /// Each disk by itself, those that failed too.
    #[prost(message, repeated, tag = "12")]
    pub disks: Vec<Disk>,
    /// The last balancing of disks that was ordered, told until another one is.
    #[prost(message, optional, tag = "13")]
    pub disk_balance: Option<DiskBalanceReport>,
    #[prost(message, required, tag = "14")]
    pub sender: Sender,
}

/// One disk of a node.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Disk {
    /// The volume's id, a UUID; empty if it was never known.
    #[prost(string, tag = "1")]
    pub volume: String,
    /// Where it lies on the node.
    #[prost(string, tag = "2")]
    pub dir: String,
    /// Why nothing is written there any more; empty for a sound one.
    #[prost(string, tag = "3")]
    pub failure: String,
    #[prost(uint64, tag = "4")]
    pub capacity_len: u64,
    /// By replicas.
    #[prost(uint64, tag = "5")]
    pub used_len: u64,
    #[prost(uint64, tag = "6")]
    pub free_len: u64,
    #[prost(uint64, tag = "7")]
    pub replica_count: u64,
    /// Replicas that are being written there.
    #[prost(uint64, tag = "8")]
    pub stream_count: u64,
    /// For so long the replica was not read that waits longest for the background scrub; none if there is none, or no
    /// scrub.
    #[prost(uint64, optional, tag = "9")]
    pub unread_ms: Option<u64>,
}

/// Disks that a node may have.
pub const DISK_COUNT_MAX: usize = 200;

/// Replicas are to move from fuller disks of the node to emptier ones.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct DiskBalanceOrder {
    /// Tells one from another; a later one has a higher number.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    #[prost(uint64, tag = "2")]
    pub len_per_s: u64,
    #[prost(bool, tag = "3")]
    pub stop: bool,
    /// How far a disk's fullness may be from that of all together, in parts of 10⁹.
    #[prost(uint64, tag = "4")]
    pub within: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct DiskBalanceReport {
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// Moved, and read back where they are now.
    #[prost(uint64, tag = "2")]
    pub done_count: u64,
    #[prost(uint64, tag = "3")]
    pub done_len: u64,
    /// As far as it is known: it ends earlier if the disks are near enough to each other.
    #[prost(uint64, tag = "4")]
    pub total_len: u64,
    /// Replicas that were found damaged, and stay.
    #[prost(uint64, tag = "5")]
    pub failed_count: u64,
    #[prost(bool, tag = "6")]
    pub ended: bool,
    /// Why it ended, if not because the disks are even; for people.
    #[prost(string, tag = "7")]
    pub note: String,
}

/// All replicas are to be read against their checksums.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct ScrubOrder {
    /// Tells one scrub from another; a later one has a higher number.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    #[prost(uint64, tag = "2")]
    pub len_per_s: u64,
    #[prost(bool, tag = "3")]
    pub stop: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct ScrubReport {
    #[prost(uint64, tag = "1")]
    pub number: u64,
    #[prost(uint64, tag = "2")]
    pub checked_count: u64,
    #[prost(uint64, tag = "3")]
    pub checked_len: u64,
    /// As far as was counted.
    #[prost(uint64, tag = "4")]
    pub total_count: u64,
    #[prost(uint64, tag = "5")]
    pub total_len: u64,
    /// Damaged ones.
    #[prost(uint64, tag = "6")]
    pub bad_count: u64,
    /// All was read, or it was told to stop.
    #[prost(bool, tag = "7")]
    pub ended: bool,
}

/// A copy that came to nothing.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct CopyFailure {
    #[prost(uint64, tag = "1")]
    pub block: u64,
    #[prost(uint64, tag = "2")]
    pub generation: u64,
    /// The node that was read, if it is to blame; empty if the copying node itself is.
    #[prost(string, tag = "3")]
    pub source: String,
    /// What came from there did not agree with its checksums.
    #[prost(bool, tag = "4")]
    pub corrupt: bool,
    /// For people.
    #[prost(string, tag = "5")]
    pub reason: String,
    /// Counts the failures of this node since it started: one that is told again is known by it.
    #[prost(uint64, tag = "6")]
    pub number: u64,
}

/// A replica to copy from another node: read, verified, written, read back, put.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Copy {
    #[prost(uint64, tag = "1")]
    pub block: u64,
    #[prost(uint64, tag = "2")]
    pub generation: u64,
    #[prost(uint64, tag = "3")]
    pub len: u64,
    #[prost(uint64, tag = "4")]
    pub file: u64,
    #[prost(uint64, tag = "5")]
    pub home: u64,
    /// Who has it, the one to read first.
    #[prost(message, repeated, tag = "6")]
    pub sources: Vec<Source>,
    /// The node has one of this generation that is damaged, or was never finished: the copy takes its place.
    #[prost(bool, tag = "7")]
    pub replaces: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Source {
    #[prost(string, tag = "1")]
    pub node: String,
    /// Where it is dialled for data transfer, `ip:port`.
    #[prost(string, tag = "2")]
    pub addr: String,
}

/// A replica to delete, unless its generation is higher: a younger one is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Deletion {
    #[prost(uint64, tag = "1")]
    pub block: u64,
    #[prost(uint64, tag = "2")]
    pub generation_at_most: u64,
}

/// Whose a replica is, for one that was reported without file or home.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Owner {
    #[prost(uint64, tag = "1")]
    pub block: u64,
    #[prost(uint64, tag = "2")]
    pub file: u64,
    #[prost(uint64, tag = "3")]
    pub home: u64,
}

/// The answer to a heartbeat and to a page of the catalogue.
#[derive(Clone, PartialEq, Message)]
pub struct Orders {
    /// False: the node must register again before anything else.
    #[prost(bool, tag = "1")]
    pub known: bool,
    #[prost(message, repeated, tag = "2")]
    pub delete: Vec<Deletion>,
    #[prost(message, repeated, tag = "3")]
    pub owners: Vec<Owner>,
    #[prost(message, repeated, tag = "4")]
    pub copy: Vec<Copy>,
    /// The scrub that is under way.
    #[prost(message, optional, tag = "5")]
    pub scrub: Option<ScrubOrder>,
    /// The node is to tell all that it has, before its usual time.
    #[prost(bool, tag = "6")]
    pub tell_all: bool,
    /// The balancing of disks that is under way.
    #[prost(message, optional, tag = "7")]
    pub disk_balance: Option<DiskBalanceOrder>,
    /// True: this server stands by, and what it was told besides that the node lives is to be told again, to the
    /// leader.
    #[prost(bool, tag = "10")]
    pub standby: bool,
    /// In which the leader leads. A leader of an earlier one has no say any more. One that leads anew wants the
    /// catalogue.
    #[prost(uint64, tag = "11")]
    pub term: u64,
    /// In the answer to a heartbeat: which member of the group answers; zero for a server that is alone.
    #[prost(uint64, tag = "12")]
    pub id: u64,
    /// And all members, as far as it knows.
    #[prost(message, repeated, tag = "13")]
    pub members: Vec<Member>,
}

/// A metadata server of the group.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Member {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Its RPC port, as host:port.
    #[prost(string, tag = "2")]
    pub addr: String,
}

pub type HeartbeatResponse = Orders;
pub type CatalogueResponse = Orders;

/// One page: every replica of the node whose block id lies in `from..=through`. A block in that range which is not
/// listed is not on the node. The last page has `through` = 2⁶⁴−1.
#[derive(Clone, PartialEq, Message)]
pub struct CatalogueRequest {
    #[prost(string, tag = "1")]
    pub node: String,
    #[prost(uint64, tag = "2")]
    pub from: u64,
    #[prost(uint64, tag = "3")]
    pub through: u64,
    /// Ascending by block. Finalized ones, open ones that nobody writes, and those waiting for recovery.
    #[prost(message, repeated, tag = "4")]
    pub replicas: Vec<Replica>,
    /// Blocks of this page that a chain is writing now: they are there, and nothing more can be said of them.
    #[prost(uint64, repeated, tag = "5")]
    pub writing: Vec<u64>,
    #[prost(message, required, tag = "6")]
    pub sender: Sender,
}

#[derive(Clone, PartialEq, Message)]
pub struct BeginRecoveryRequest {
    #[prost(uint64, tag = "1")]
    pub block: u64,
    /// The generation the block will have; writers with a lower one are shut out from now on.
    #[prost(uint64, tag = "2")]
    pub generation: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct BeginRecoveryResponse {
    /// Absent: the node has no replica of the block. `len` is what it holds and has checked.
    #[prost(message, optional, tag = "1")]
    pub replica: Option<Replica>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FinishRecoveryRequest {
    #[prost(uint64, tag = "1")]
    pub block: u64,
    /// As in [`BeginRecoveryRequest`].
    #[prost(uint64, tag = "2")]
    pub generation: u64,
    #[prost(uint64, tag = "3")]
    pub len: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct FinishRecoveryResponse {}

/// Several replicas in two numbers, whatever their order: how many, and the sum of a hash of each.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Digest {
    #[prost(uint64, tag = "1")]
    pub count: u64,
    #[prost(fixed64, tag = "2")]
    pub sum: u64,
}

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

/// A page of what a node should have. Either a digest of it, or the list.
#[derive(Clone, PartialEq, Message)]
pub struct CompareRequest {
    /// With a digest: finalized replicas whose id lies in `from..=through` are meant, and whose home is this, or not
    /// known.
    #[prost(uint64, tag = "1")]
    pub home: u64,
    #[prost(uint64, tag = "2")]
    pub from: u64,
    #[prost(uint64, tag = "3")]
    pub through: u64,
    #[prost(message, optional, tag = "4")]
    pub digest: Option<Digest>,
    /// Block, generation and length are told.
    #[prost(message, repeated, tag = "5")]
    pub replicas: Vec<Replica>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CompareResponse {
    /// The digest is that of the node as well.
    #[prost(bool, tag = "1")]
    pub same: bool,
    /// For each replica of the list a [`Fitness`].
    #[prost(enumeration = "Fitness", repeated, tag = "2")]
    pub fitness: Vec<i32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct VerifyRequest {
    #[prost(uint64, tag = "1")]
    pub block: u64,
    #[prost(uint64, tag = "2")]
    pub generation: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct VerifyResponse {
    #[prost(enumeration = "Fitness", tag = "1")]
    pub fitness: i32,
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
