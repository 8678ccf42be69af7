//! What the store tells about its files, in plain values.

use hdfs::proto;
use types::Millis;
use types::limits::MODE_MASK;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    Symlink,
}

/// One file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub kind: Kind,
    /// Last component of its path; empty in answers to a question about one path.
    pub name: String,
    pub len: u64,
    /// `rwxrwxrwx` and the sticky bit.
    pub mode: u16,
    pub owner: String,
    pub group: String,
    pub modified: Millis,
    pub accessed: Millis,
    /// 0 for directories, as is the length of a block.
    pub replication: u16,
    pub block_len: u64,
    pub id: u64,
    pub child_count: u32,
    /// Bytes that this client cannot understand: erasure coded, or encrypted.
    pub unusable: Option<&'static str>,
}

/// A file as it was at some time: with other bytes it has another length or time, or is another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    pub id: u64,
    pub modified: Millis,
    pub len: u64,
}

impl Status {
    pub fn version(&self) -> FileVersion {
        FileVersion { id: self.id, modified: self.modified, len: self.len }
    }

    pub fn is_dir(&self) -> bool {
        self.kind == Kind::Directory
    }

    pub(crate) fn from_proto(status: proto::HdfsFileStatusProto) -> Self {
        let kind = match status.file_type {
            1 => Kind::Directory,
            3 => Kind::Symlink,
            _ => Kind::File,
        };
        let unusable = unusable(&status);
        Self {
            kind,
            // A name is UTF-8 on every server; paths travel as strings, so another could not be asked for anyway.
            name: String::from_utf8_lossy(&status.path).into_owned(),
            len: status.length,
            mode: status.permission.perm as u16 & MODE_MASK,
            owner: status.owner,
            group: status.group,
            modified: Millis(status.modification_time),
            accessed: Millis(status.access_time),
            replication: status.block_replication.unwrap_or(0).min(u32::from(u16::MAX)) as u16,
            block_len: status.blocksize.unwrap_or(0),
            id: status.file_id.unwrap_or(0),
            child_count: status.children_num.unwrap_or(0).max(0) as u32,
            unusable: if kind == Kind::File { unusable } else { None },
        }
    }
}

/// Servers other than ours may have files whose bytes are not stored as they are.
pub(crate) fn unusable(status: &proto::HdfsFileStatusProto) -> Option<&'static str> {
    let flags = status.flags.unwrap_or(0);
    let has = |flag: proto::hdfs_file_status_proto::Flags| flags & flag as u32 != 0;
    match () {
        () if has(proto::hdfs_file_status_proto::Flags::HasEc) => Some("an erasure coded file"),
        () if has(proto::hdfs_file_status_proto::Flags::HasCrypt) => Some("an encrypted file"),
        () => None,
    }
}

/// What lies below a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub len: u64,
    pub file_count: u64,
    /// Counts the directory itself.
    pub directory_count: u64,
    /// Bytes times replication.
    pub space_consumed: u64,
    /// `None`: no quota.
    pub quota: Option<u64>,
    pub space_quota: Option<u64>,
}

/// How full the store is, in bytes, and how its blocks are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsStats {
    pub capacity: u64,
    pub used: u64,
    pub remaining: u64,
    pub under_replicated_count: u64,
    pub corrupt_count: u64,
    pub missing_count: u64,
}

/// What the server proposes to writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerDefaults {
    pub block_len: u64,
    pub replication: u16,
    pub checksum: types::ChecksumSpec,
    /// What is removed is to be kept for a while, in the user's trash.
    pub trash: bool,
    /// Of the server, and of its datanodes.
    pub(crate) abilities: wire::Abilities,
}

/// What a server said of itself, and asked, when it was asked for its defaults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) at: std::time::Duration,
    pub(crate) defaults: ServerDefaults,
    /// It wanted to have proven who calls: it believes no names.
    pub(crate) asks_for_proof: bool,
}

/// Where a block's replicas are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockLocation {
    pub offset: u64,
    pub len: u64,
    pub hosts: Vec<String>,
    pub addrs: Vec<String>,
}
