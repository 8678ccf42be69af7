//! The words of the project: identifiers, paths, checksums and limits, shared by every other crate.
//!
//! Promise: plain values only. Nothing here has an effect, and nothing here knows a wire or a disk format.

pub mod checksum;
pub mod digest;
mod disk;
pub mod encoding;
pub mod endpoint;
pub mod excerpt;
mod folded;
pub mod id;
pub mod len;
pub mod limits;
pub mod mutation;
mod network;
pub mod path;
mod polynomial;
pub mod random;
pub mod replica;
pub mod rows;
mod side_by_side;
pub mod skip;
mod storage_usage;
pub mod time;
pub mod tree;

pub use checksum::{ChecksumKind, ChecksumSpec};
pub use digest::RowsDigest;
pub use disk::DiskReport;
pub use excerpt::excerpt;
pub use id::{BlockId, ContainerId, Epoch, FileId, Generation, InodeId, NodeId, PipelineId};
pub use mutation::Mutation;
pub use network::Network;
pub use path::FsPath;
pub use random::Random;
pub use replica::{Fitness, ReplicaState};
pub use skip::Skip;
pub use storage_usage::StorageUsage;
pub use time::Millis;
pub use tree::{TreeLeaf, TreeNode, TreeSum};
