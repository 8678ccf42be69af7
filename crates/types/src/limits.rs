//! Limits that more than one crate must agree on. Each says where its figure comes from.

/// Longest packet of data transfer, header and payload together: HDFS's `dfs.data.transfer.max.packet.size`.
pub const PACKET_LEN_MAX: u32 = 16 << 20;
/// Longest RPC frame, both ways: HDFS's `ipc.maximum.data.length`. Our servers take much less; see each server's
/// options.
pub const RPC_FRAME_LEN_MAX: u32 = 128 << 20;
/// Longest operation message of data transfer. A write names at most a few dozen nodes; HDFS has no limit of its own.
pub const OP_MESSAGE_LEN_MAX: u32 = 1 << 20;
/// HDFS: "Pathname too long. Limit 8000 characters, 1000 levels."
pub const PATH_LEN_MAX: usize = 8000;
pub const PATH_DEPTH_MAX: usize = 1000;
/// HDFS's `dfs.namenode.fs-limits.max-component-length`; also what fits an LMDB key.
pub const NAME_LEN_MAX: usize = 255;
/// HDFS's `dfs.namenode.fs-limits.max-directory-items`.
pub const CHILDREN_COUNT_MAX: u32 = 1_048_576;
/// Bits of a mode that are kept: rwxrwxrwx and sticky. Requests may carry higher ones, which mean nothing here.
pub const MODE_MASK: u16 = 0o1777;
/// HDFS's `dfs.ls.limit`: entries of one page of a listing, and block locations of one page.
pub const LISTING_PAGE_COUNT: usize = 1000;
/// Bytes under one checksum. HDFS's default is 512; a client may choose any number up to a packet.
pub const BYTES_PER_CHECKSUM_DEFAULT: u32 = 512;
pub const BYTES_PER_CHECKSUM_MAX: u32 = PACKET_LEN_MAX / 2;
/// HDFS's `dfs.blocksize`.
pub const BLOCK_LEN_DEFAULT: u64 = 128 << 20;
/// Longest blocks a file may ask for. HDFS has no limit; a guess: more than one disk takes for one block, and little
/// enough that many such claims together do not overflow a sum.
pub const BLOCK_LEN_MAX: u64 = 1 << 40;
/// Longest block that one request may carry: as much as one node may have to hold for it before a byte is on disk.
pub const SMALL_WRITE_LEN_MAX: u32 = 4 << 20;
/// HDFS's `dfs.replication.max`.
pub const REPLICATION_MAX: u16 = 512;
/// Datanodes of one store. More than a store has; strangers must not fill the memory.
pub const DATANODE_COUNT_MAX: usize = 10_000;
/// Where a container is full: about 5 GB, as in Ozone; large enough that a million of them hold petabytes.
pub const CONTAINER_LEN_MAX: u64 = 5 << 30;

const _: () = assert!(BYTES_PER_CHECKSUM_MAX < PACKET_LEN_MAX);
const _: () = assert!(NAME_LEN_MAX + 8 < 511, "LMDB's longest key");
