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
//!
//! client ── profileOf ───▶ metad      beside the opening of a file: what others have read of its data set
//!        ── keepProfile ─▶ metad      what this one has learned, for others
//! ```
//!
//! The ids belong to the holder of the lease for as long as it renews it (HDFS's `renewLease`); a block that was
//! written and not put by then goes again. The messages are in `proto/client.proto`.

pub use crate::proto::{
    AddLeasedRequest, AddLeasedResponse, BlockNode, ContainerState, ExplainFileRequest, ExplainFileResponse,
    ExplainedBlock, ExplainedReplica, KeepProfileRequest, KeepProfileResponse, LeaseBlocksRequest, LeaseBlocksResponse,
    LeasedBlock, PlaceState, PreviousBlock, ProfileOfRequest, ProfileOfResponse, PutBlock, PutFileRequest,
    PutFileResponse,
};

use std::fmt;
use types::BlockId;

/// Client → metad, on metad's RPC port, over the connection that carries HDFS's calls too.
pub const CLIENT_PROTOCOL: &str = "org.levada.ClientProtocol";
pub const PROTOCOL_VERSION: u64 = 1;

pub const LEASE_BLOCKS: &str = "leaseBlocks";
pub const PUT_FILE: &str = "putFile";
pub const ADD_LEASED: &str = "addLeased";
pub const EXPLAIN_FILE: &str = "explainFile";
pub const PROFILE_OF: &str = "profileOf";
pub const KEEP_PROFILE: &str = "keepProfile";

/// Bytes of a profile's name.
pub const PROFILE_NAME_LEN: usize = 16;
/// Of a profile that a store keeps. A thousand columns take more; then each reader learns for itself.
pub const PROFILE_LEN_MAX: usize = 4 << 10;

/// Blocks of one answer to [`EXPLAIN_FILE`].
pub const EXPLAINED_COUNT_MAX: usize = 1000;

/// Blocks of one answer.
pub const LEASE_COUNT_MAX: u32 = 256;

impl fmt::Debug for LeasedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let block = BlockId(self.block);
        f.debug_struct("LeasedBlock").field("block", &block).field("file", &self.file).finish_non_exhaustive()
    }
}

impl fmt::Debug for PutBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (block, Self { file, generation, len, .. }) = (BlockId(self.block), self);
        let mut shown = f.debug_struct("PutBlock");
        shown.field("block", &block).field("file", file).field("generation", generation).field("len", len);
        shown.finish_non_exhaustive()
    }
}

impl fmt::Debug for AddLeasedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (block, Self { path, holder, file, previous, .. }) = (BlockId(self.block), self);
        let mut shown = f.debug_struct("AddLeasedRequest");
        shown.field("path", path).field("holder", holder).field("file", file).field("block", &block);
        shown.field("previous", previous).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

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
            block: Some(PutBlock {
                block: 5,
                file: 6,
                generation: 1001,
                len: 7,
                token: b"t"[..].into(),
                password: b"p"[..].into(),
            }),
            unmasked: Some(0o666),
            short: true,
        };
        let golden = [
            0x0a, 2, b'/', b'a', 0x12, 1, b'h', 0x18, 0xa4, 0x03, 0x20, 1, 0x30, 3, 0x38, 0x80, 0x80, 0x40, 0x42, 15,
            0x08, 5, 0x10, 6, 0x18, 0xe9, 0x07, 0x20, 7, 0x2a, 1, b't', 0x32, 1, b'p', 0x48, 0xb6, 0x03, 0x50, 1,
        ];
        assert_eq!(put.encode_to_vec(), golden);
        assert_eq!(PutFileRequest::decode(&golden[..]), Ok(put));
    }
}
