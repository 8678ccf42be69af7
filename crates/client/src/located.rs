//! Where a block is, in our own words. What HDFS's messages say of it becomes this in `messages`.

use bytes::Bytes;
use sasl::Secret;
use std::sync::Arc;
use xfer::writer::Identity;

/// A datanode that has a replica, or is to get one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// Stays the same when the address changes.
    pub(crate) id: String,
    pub(crate) host: String,
    pub(crate) ip: String,
    pub(crate) xfer_port: u16,
    /// `ip:port` of data transfer. It names the node in caches and in errors.
    pub(crate) addr: Arc<str>,
    pub(crate) ipc_port: u16,
    pub(crate) info_port: u16,
    pub(crate) info_secure_port: Option<u16>,
    pub(crate) rack: Option<String>,
    /// Of the replica: its storage, and HDFS's number of what that is, if the server says so.
    pub(crate) storage: Option<String>,
    pub(crate) storage_type: Option<i32>,
}

/// Shows a datanode that its bearer may have a block. Nobody here looks into it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) identifier: Bytes,
    pub(crate) password: Bytes,
    pub(crate) kind: String,
    pub(crate) service: String,
}

/// One block of a file, and who has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    /// Where it begins in the file.
    pub(crate) offset: u64,
    /// Bytes of it that may be read.
    pub(crate) len: u64,
    pub(crate) identity: Identity,
    pub(crate) token: Token,
    /// The nearest first.
    pub(crate) nodes: Arc<[Node]>,
    /// Its bytes are spread over the nodes, in HDFS's way.
    pub(crate) is_striped: bool,
}

impl Located {
    /// What is proven to a datanode before the first operation, if it asks for that.
    pub(crate) fn secret(&self) -> Secret<'_> {
        Secret { identifier: &self.token.identifier, password: &self.token.password }
    }
}

/// What a metadata server says of a part of a file.
#[derive(Clone, Debug)]
pub(crate) struct FilePart {
    /// Bytes of the whole file.
    pub(crate) file_len: u64,
    /// Which file that is: our servers say so beside its blocks, HDFS's do not.
    pub(crate) file: Option<u64>,
    pub(crate) blocks: Vec<Located>,
    /// Of the whole file.
    pub(crate) last: Option<Located>,
    /// The last block is being written: its length is known to the datanodes.
    pub(crate) is_open: bool,
}
