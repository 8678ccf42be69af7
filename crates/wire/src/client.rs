//! What our own client asks the metadata server beyond HDFS's calls: the messages of [`CLIENT_PROTOCOL`].
//!
//! ```text
//! client ── leaseBlocks ▶ metad       ahead of time: ids for blocks and files, and the nodes of each
//!        ══ small write ▶ datanode    see [`crate::small`]
//!        ── putFile ────▶ metad       the file, whole: created and completed by one command
//!
//! client ── leaseBlocks ▶ metad       for an open file: its next block, while the one before it is still written
//!        ══ stream ═════▶ datanode    HDFS's operation 80
//!        ── addLeased ──▶ metad       the block is the file's from now on; the stream goes on meanwhile
//! ```
//!
//! The ids belong to the holder of the lease for as long as it renews it (HDFS's `renewLease`); a block that was
//! written and not put by then goes again. A message is protobuf with fields that may be added and are never
//! renumbered.

use prost::Message;

/// Client → metad, on metad's RPC port, over the connection that carries HDFS's calls too.
pub const CLIENT_PROTOCOL: &str = "org.levada.ClientProtocol";
pub const PROTOCOL_VERSION: u64 = 1;

pub const LEASE_BLOCKS: &str = "leaseBlocks";
pub const PUT_FILE: &str = "putFile";
pub const ADD_LEASED: &str = "addLeased";

/// Blocks of one answer.
pub const LEASE_COUNT_MAX: u32 = 256;

#[derive(Clone, PartialEq, Message)]
pub struct LeaseBlocksRequest {
    /// As the client calls itself in `create`.
    #[prost(string, tag = "1")]
    pub holder: String,
    #[prost(uint32, tag = "2")]
    pub replication: u32,
    /// Bytes that each node must have room for.
    #[prost(uint64, tag = "3")]
    pub block_len: u64,
    /// At most so many; one answer has no more than [`LEASE_COUNT_MAX`].
    #[prost(uint32, tag = "4")]
    pub count: u32,
    /// Ids of nodes that are not to be named.
    #[prost(string, repeated, tag = "5")]
    pub excluded: Vec<String>,
    /// Blocks the holder does not want any more, written or not: they are nobody's at once.
    #[prost(uint64, repeated, tag = "6")]
    pub returned: Vec<u64>,
    /// The open file that the blocks are for. 0: each for a file to come.
    #[prost(uint64, tag = "7")]
    pub file: u64,
}

/// Blocks of one container, so all on the same nodes.
#[derive(Clone, PartialEq, Message)]
pub struct LeaseBlocksResponse {
    /// The block pool that datanodes want to hear.
    #[prost(string, tag = "1")]
    pub pool: String,
    /// Under which the blocks are to be written.
    #[prost(uint64, tag = "2")]
    pub generation: u64,
    #[prost(message, repeated, tag = "3")]
    pub blocks: Vec<LeasedBlock>,
    /// The nearest first.
    #[prost(message, repeated, tag = "4")]
    pub nodes: Vec<BlockNode>,
    /// After so much silence of the holder the blocks are no longer its own.
    #[prost(uint64, tag = "5")]
    pub limit_ms: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct LeasedBlock {
    #[prost(uint64, tag = "1")]
    pub block: u64,
    /// The file that may become of it.
    #[prost(uint64, tag = "2")]
    pub file: u64,
    /// The identifier of the block's token.
    #[prost(bytes = "bytes", tag = "3")]
    pub token: bytes::Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub struct BlockNode {
    #[prost(string, tag = "1")]
    pub id: String,
    /// `ip:port` of data transfer.
    #[prost(string, tag = "2")]
    pub addr: String,
    /// Where it stands, as HDFS writes it.
    #[prost(string, tag = "3")]
    pub rack: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct PutFileRequest {
    #[prost(string, tag = "1")]
    pub path: String,
    #[prost(string, tag = "2")]
    pub holder: String,
    #[prost(uint32, tag = "3")]
    pub mode: u32,
    /// Replace a file that is there.
    #[prost(bool, tag = "4")]
    pub overwrite: bool,
    /// Make missing directories above.
    #[prost(bool, tag = "5")]
    pub create_parent: bool,
    #[prost(uint32, tag = "6")]
    pub replication: u32,
    #[prost(uint64, tag = "7")]
    pub block_len: u64,
    /// Absent: the file is empty.
    #[prost(message, optional, tag = "8")]
    pub block: Option<PutBlock>,
    /// The mode before the client's umask: what counts where the directory has default access lists. Absent: `mode` is
    /// meant so.
    #[prost(uint32, optional, tag = "9")]
    pub unmasked: Option<u32>,
    /// A node of the block did not say that it has put it: the block is to be looked after.
    #[prost(bool, tag = "10")]
    pub short: bool,
}

/// The one block of a small file, put on its nodes already.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct PutBlock {
    #[prost(uint64, tag = "1")]
    pub block: u64,
    /// That came with it.
    #[prost(uint64, tag = "2")]
    pub file: u64,
    #[prost(uint64, tag = "3")]
    pub generation: u64,
    #[prost(uint64, tag = "4")]
    pub len: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct PutFileResponse {
    #[prost(uint64, tag = "1")]
    pub file: u64,
}

/// As HDFS's addBlock, with a block that the holder has on lease for this file.
#[derive(Clone, PartialEq, Message)]
pub struct AddLeasedRequest {
    #[prost(string, tag = "1")]
    pub path: String,
    #[prost(string, tag = "2")]
    pub holder: String,
    /// Wins over the path: the file may have been renamed.
    #[prost(uint64, tag = "3")]
    pub file: u64,
    #[prost(uint64, tag = "4")]
    pub block: u64,
    /// That came with it.
    #[prost(uint64, tag = "5")]
    pub generation: u64,
    /// The block before it, put on its nodes already.
    #[prost(message, optional, tag = "6")]
    pub previous: Option<PreviousBlock>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct PreviousBlock {
    #[prost(uint64, tag = "1")]
    pub block: u64,
    #[prost(uint64, tag = "2")]
    pub generation: u64,
    #[prost(uint64, tag = "3")]
    pub len: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct AddLeasedResponse {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes are fixed: a client and a server of two versions talk to each other.
    #[test]
    fn golden_put() {
        let put = PutFileRequest {
            path: "/a".into(),
            holder: "h".into(),
            mode: 0o644,
            overwrite: true,
            create_parent: false,
            replication: 3,
            block_len: 1 << 20,
            block: Some(PutBlock { block: 5, file: 6, generation: 1001, len: 7 }),
            unmasked: Some(0o666),
            short: true,
        };
        let golden = [
            0x0a, 2, b'/', b'a', 0x12, 1, b'h', 0x18, 0xa4, 0x03, 0x20, 1, 0x30, 3, 0x38, 0x80, 0x80, 0x40, 0x42, 9,
            0x08, 5, 0x10, 6, 0x18, 0xe9, 0x07, 0x20, 7, 0x48, 0xb6, 0x03, 0x50, 1,
        ];
        assert_eq!(put.encode_to_vec(), golden);
        assert_eq!(PutFileRequest::decode(&golden[..]), Ok(put));
    }
}
