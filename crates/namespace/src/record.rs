//! What the rows hold, and how it is written: a version byte, then postcard.
//!
//! A field is added by a new version: the old form is still read. An inode without anything of [`Extra`] keeps its
//! first form, so most rows stay as short as they were.

use crate::acl::{AclEntry, AclScope};
use crate::error::corrupt;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use types::rows::RowsError;
use types::{BlockId, ContainerId, Generation, InodeId, Millis};

const VERSION: u8 = 1;
/// An inode with its [`Extra`] behind it.
const VERSION_EXTRA: u8 = 2;

/// What stands in a row: how it is written, and how any form ever written is read.
pub(crate) trait Record: Serialize + DeserializeOwned {
    fn write(&self) -> Vec<u8> {
        plain(vec![VERSION], self)
    }

    /// `bytes` without the version.
    fn read(version: u8, bytes: &[u8]) -> Result<(Self, &[u8]), String> {
        match version {
            VERSION => take(bytes),
            _ => Err(format!("a record of version {version}, this program knows {VERSION}")),
        }
    }
}

impl Record for BlockRow {}
impl Record for DoomedRow {}
impl Record for Counters {}

impl Record for Inode {
    fn write(&self) -> Vec<u8> {
        if self.extra == Extra::default() {
            return plain(vec![VERSION], self);
        }
        plain(plain(vec![VERSION_EXTRA], self), &self.extra)
    }

    fn read(version: u8, bytes: &[u8]) -> Result<(Self, &[u8]), String> {
        let (mut inode, mut rest): (Self, _) = match version {
            VERSION | VERSION_EXTRA => take(bytes)?,
            _ => return Err(format!("an inode of version {version}, this program knows {VERSION_EXTRA}")),
        };
        if version == VERSION_EXTRA {
            (inode.extra, rest) = take(rest)?;
        }
        Ok((inode, rest))
    }
}

fn plain<T: Serialize>(start: Vec<u8>, value: &T) -> Vec<u8> {
    // Records are plain structs of numbers and strings: there is nothing in them that could fail to be written.
    postcard::to_extend(value, start).expect("a record of plain fields can be written")
}

fn take<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, &[u8]), String> {
    postcard::take_from_bytes(bytes).map_err(|error| format!("a damaged record: {error}"))
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Inode {
    pub(crate) id: InodeId,
    pub(crate) owner: String,
    pub(crate) group: String,
    pub(crate) mode: u16,
    pub(crate) modified: Millis,
    /// 0 for a directory, unless somebody set it.
    pub(crate) accessed: Millis,
    pub(crate) body: Body,
    /// Written behind the rest, and only if there is any.
    #[serde(skip)]
    pub(crate) extra: Extra,
}

/// What few inodes have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Extra {
    /// What the mode does not say of the access list, in order; see `acl`.
    pub(crate) acl: Vec<AclEntry>,
    /// Rows of XATTR.
    pub(crate) xattr_count: u32,
}

impl Extra {
    /// Some entry beyond the mode is about the inode itself; then the mode's group bits are the mask.
    pub(crate) fn has_access_acl(&self) -> bool {
        self.acl.first().is_some_and(|entry| entry.key.scope == AclScope::Access)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Body {
    Directory { child_count: u32 },
    File(File),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct File {
    /// Sum of the recorded lengths of all blocks.
    pub(crate) len: u64,
    pub(crate) replication: u16,
    pub(crate) block_len: u64,
    pub(crate) block_count: u32,
    pub(crate) open: Option<OpenFile>,
}

/// Who writes a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenFile {
    pub(crate) holder: String,
    pub(crate) client_host: String,
    /// The file was taken from its writer; the last block is being recovered under this generation.
    pub(crate) recovery: Option<Generation>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BlockRow {
    pub(crate) block: BlockId,
    /// Replicas below it are stale.
    pub(crate) generation: Generation,
    /// The highest generation ever issued for this block; replicas may carry it already.
    pub(crate) issued: Generation,
    pub(crate) len: u64,
    pub(crate) home: ContainerId,
    pub(crate) state: BlockState,
    /// The empty block that stood here before, so that a repeated request to follow it is known as one.
    pub(crate) replaces: Option<BlockId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum BlockState {
    /// Whole; its length is final.
    Complete,
    /// Under construction.
    Written,
    /// Under construction again for an append, and nothing known to be written since: it may be closed as it is.
    Reopened,
    /// Whole, and about to be cut to `len` bytes by the recovery that the file is under; until that is done it has its
    /// old length.
    Cutting { len: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DoomedRow {
    pub(crate) generation: Generation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counters {
    /// Given out last; the root is the first.
    pub(crate) inode: InodeId,
    pub(crate) generation: Generation,
}

impl Inode {
    pub(crate) fn is_directory(&self) -> bool {
        matches!(self.body, Body::Directory { .. })
    }

    pub(crate) fn file(&self) -> Option<&File> {
        match &self.body {
            Body::File(file) => Some(file),
            Body::Directory { .. } => None,
        }
    }

    pub(crate) fn file_mut(&mut self) -> Option<&mut File> {
        match &mut self.body {
            Body::File(file) => Some(file),
            Body::Directory { .. } => None,
        }
    }

    /// 0 for files.
    pub(crate) fn child_count(&self) -> u32 {
        match self.body {
            Body::Directory { child_count } => child_count,
            Body::File(_) => 0,
        }
    }
}

impl BlockRow {
    pub(crate) fn is_complete(&self) -> bool {
        self.state == BlockState::Complete
    }

    /// What it is being cut to.
    pub(crate) fn cut_len(&self) -> Option<u64> {
        match self.state {
            BlockState::Cutting { len } => Some(len),
            _ => None,
        }
    }
}

pub(crate) fn encode<T: Record>(record: &T) -> Vec<u8> {
    record.write()
}

pub(crate) fn decode<T: Record>(op: &'static str, bytes: &[u8]) -> Result<T, RowsError> {
    let Some((version, record)) = bytes.split_first() else { return Err(corrupt(op, "an empty record")) };
    match T::read(*version, record) {
        Ok((record, [])) => Ok(record),
        Ok((_, rest)) => Err(corrupt(op, format!("{} bytes behind the record", rest.len()))),
        Err(reason) => Err(corrupt(op, reason)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::{AclKey, AclKind};
    use proptest::prelude::*;

    fn sample() -> Inode {
        Inode {
            id: InodeId(16_386),
            owner: "alice".into(),
            group: "users".into(),
            mode: 0o644,
            modified: Millis(1),
            accessed: Millis(2),
            body: Body::File(File {
                len: 1 << 40,
                replication: 3,
                block_len: 128 << 20,
                block_count: 1,
                open: Some(OpenFile { holder: "c".into(), client_host: "h".into(), recovery: Some(Generation(1001)) }),
            }),
            extra: Extra::default(),
        }
    }

    /// These bytes are on disks: a change of them needs a new version.
    #[test]
    fn the_written_form_stays() {
        let bytes: &[u8] = &[
            1, 130, 128, 1, 5, b'a', b'l', b'i', b'c', b'e', 5, b'u', b's', b'e', b'r', b's', 164, 3, 1,
            2, // inode
            1, 128, 128, 128, 128, 128, 32, 3, 128, 128, 128, 64, 1, // file
            1, 1, b'c', 1, b'h', 1, 233, 7, // open
        ];
        assert_eq!(encode(&sample()), bytes);
        assert_eq!(decode::<Inode>("inode", bytes).unwrap(), sample());
    }

    #[test]
    fn what_few_have_stands_behind() {
        let key = AclKey { scope: AclScope::Access, kind: AclKind::User, name: Some("bob".into()) };
        let extra = Extra { acl: vec![AclEntry { key, access: 5 }], xattr_count: 1 };
        let inode = Inode { extra, ..sample() };
        let mut bytes = encode(&sample());
        bytes[0] = 2;
        bytes.extend([1, 0, 0, 1, 3, b'b', b'o', b'b', 5, 1]);
        assert_eq!(encode(&inode), bytes);
        assert_eq!(decode::<Inode>("inode", &bytes).unwrap(), inode);
    }

    #[test]
    fn other_versions_and_tails_are_refused() {
        let mut bytes = encode(&sample());
        bytes.push(0);
        assert!(decode::<Inode>("inode", &bytes).is_err());
        bytes[0] = 3;
        assert!(decode::<Inode>("inode", &bytes).is_err());
        assert!(decode::<Inode>("inode", &[]).is_err());
    }

    proptest! {
        #[test]
        fn damage_never_panics(mut bytes in Just(encode(&sample())), at in 0usize..41, value in any::<u8>(), cut in 0usize..41) {
            bytes[at] = value;
            let _ = decode::<Inode>("inode", &bytes);
            let _ = decode::<Inode>("inode", &bytes[..cut]);
        }
    }
}
