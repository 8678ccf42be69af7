//! What the rows hold, and how it is written: a version byte, then a record as [`types::encoding`] draws it.
//!
//! A field is added at the end, as an option or a list, and the version stays: rows without it are read as before. See
//! docs/adr/0014 for when a program may write it.

use crate::acl_entry::{AclEntry, AclScope};
use crate::error::block_fault::BlockName;
use crate::error::corrupt;
use types::encoding::{self, DecodeError, Encoded, Fields};
use types::rows::RowsError;
use types::{BlockId, ContainerId, FileId, Generation, InodeId, Millis};

/// Of all rows. It changes only where a row means something else than before.
const VERSION: u8 = 4;

/// `T`: of texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inode<T = String> {
    pub(crate) id: InodeId,
    pub(crate) owner: T,
    pub(crate) group: T,
    pub(crate) mode: u16,
    pub(crate) modified: Millis,
    /// 0 for a directory, unless somebody set it.
    pub(crate) accessed: Millis,
    pub(crate) body: Body,
    pub(crate) extra: Extra,
}
types::record!(Inode { 0: id, 1: owner, 2: group, 3: mode, 4: modified, 5: accessed, 6: body, 7: extra });

/// An inode that is only looked at: its texts stay in the row.
pub(crate) type InodeRow<'a> = Inode<&'a str>;

impl<'a> InodeRow<'a> {
    pub(crate) fn decode(op: &'static str, bytes: &'a [u8]) -> Result<Self, RowsError> {
        let read = |mut fields: Fields<'a>| -> Result<Self, DecodeError> {
            let inode = Inode {
                id: fields.field()?,
                owner: fields.text()?,
                group: fields.text()?,
                mode: fields.field()?,
                modified: fields.field()?,
                accessed: fields.field()?,
                body: fields.field()?,
                extra: fields.field()?,
            };
            fields.end()?;
            Ok(inode)
        };
        let fields = encoding::fields("Inode", record_in(op, bytes)?);
        fields.and_then(read).map_err(|error| corrupt(op, error.to_string()))
    }

    pub(crate) fn to_inode(&self) -> Inode {
        let Self { id, mode, modified, accessed, body, extra, .. } = self.clone();
        Inode { id, owner: self.owner.into(), group: self.group.into(), mode, modified, accessed, body, extra }
    }
}

/// What few inodes have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extra {
    /// What the mode does not say of the access list, in order; see `acl`.
    pub(crate) acl: Vec<AclEntry>,
    /// Rows of XATTR.
    pub(crate) xattr_count: u32,
}
types::record!(Extra { 0: acl, 1: xattr_count } absent Extra::default());

impl Extra {
    /// Some entry beyond the mode is about the inode itself; then the mode's group bits are the mask.
    pub(crate) fn has_access_acl(&self) -> bool {
        self.acl.first().is_some_and(|entry| entry.key.scope == AclScope::Access)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Directory { child_count: u32 },
    File(File),
}
types::variants!(Body { 0 => Directory { 0: child_count }, 1 => File[file] });

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    /// Sum of the recorded lengths of all blocks.
    pub(crate) len: u64,
    pub(crate) replication: u16,
    pub(crate) block_len: u64,
    pub(crate) block_count: u32,
    pub(crate) open: Option<OpenFile>,
}
types::record!(File { 0: len, 1: replication, 2: block_len, 3: block_count, 4: open });

/// Who writes a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenFile {
    pub(crate) holder: String,
    pub(crate) client_host: String,
    /// The file was taken from its writer; the last block is being recovered under this generation.
    pub(crate) recovery: Option<Generation>,
}
types::record!(OpenFile { 0: holder, 1: client_host, 2: recovery });

#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// The file under which its replicas were written, where that is another one: *concat* gave the block away.
    pub(crate) written_for: Option<FileId>,
}
types::record!(BlockRow { 0: block, 1: generation, 2: issued, 3: len, 4: home, 5: state, 6: replaces, 7: written_for });

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
types::variants!(BlockState { 0 => Complete, 1 => Written, 2 => Reopened, 3 => Cutting { 0: len } });

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DoomedRow {
    pub(crate) generation: Generation,
}
types::record!(DoomedRow { 0: generation });

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Given out last; the root is the first.
    pub(crate) inode: InodeId,
    pub(crate) generation: Generation,
}
types::record!(Counters { 0: inode, 1: generation });

impl<T> Inode<T> {
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
    pub(crate) fn named(&self) -> BlockName {
        BlockName { block: self.block, generation: self.generation }
    }

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

pub(crate) fn encode<T: Encoded>(record: &T) -> Vec<u8> {
    encoding::encode(record, vec![VERSION])
}

pub(crate) fn decode<T: Encoded>(op: &'static str, bytes: &[u8]) -> Result<T, RowsError> {
    encoding::decode(record_in(op, bytes)?).map_err(|error| corrupt(op, error.to_string()))
}

/// What follows the version.
fn record_in<'a>(op: &'static str, bytes: &'a [u8]) -> Result<&'a [u8], RowsError> {
    match bytes.split_first() {
        Some((&VERSION, record)) => Ok(record),
        Some((version, _)) => Err(corrupt(op, format!("a record of version {version}; this program knows {VERSION}"))),
        None => Err(corrupt(op, "an empty record")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl_entry::{AclKey, AclKind};
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
            4, 42, // version, length of the record
            130, 128, 1, 5, b'a', b'l', b'i', b'c', b'e', 5, b'u', b's', b'e', b'r', b's', 164, 3, 1, 2, // inode
            1, 21, 128, 128, 128, 128, 128, 32, 3, 128, 128, 128, 64, 1, // file
            1, 7, 1, b'c', 1, b'h', 1, 233, 7, // open
        ];
        assert_eq!(encode(&sample()), bytes);
        assert_eq!(decode::<Inode>("inode", bytes).unwrap(), sample());
    }

    /// Two readers of one form.
    fn same(bytes: &[u8]) {
        let row = InodeRow::decode("inode", bytes).ok().map(|row| row.to_inode());
        assert_eq!(row, decode::<Inode>("inode", bytes).ok());
    }

    #[test]
    fn what_few_have_stands_behind() {
        let key = AclKey { scope: AclScope::Access, kind: AclKind::User, name: Some("bob".into()) };
        let extra = Extra { acl: vec![AclEntry { key, access: 5 }], xattr_count: 1 };
        let inode = Inode { extra, ..sample() };
        let mut bytes = encode(&sample());
        let behind = [12, 1, 9, 7, 0, 0, 1, 3, b'b', b'o', b'b', 5, 1];
        bytes[1] += behind.len() as u8;
        bytes.extend(behind);
        assert_eq!(encode(&inode), bytes);
        assert_eq!(decode::<Inode>("inode", &bytes).unwrap(), inode);
        same(&bytes);
    }

    /// A row with a field that this program does not know would lose it when it is written again.
    #[test]
    fn fields_and_versions_of_newer_programs_are_refused() {
        let reason = |bytes: &[u8]| decode::<Inode>("inode", bytes).unwrap_err().reason;
        let mut newer = encode(&Inode { extra: Extra { xattr_count: 1, ..Extra::default() }, ..sample() });
        newer.push(7);
        newer[1] += 1;
        same(&newer);
        let unknown = "Inode has 1 bytes behind the fields that this program knows; a newer one wrote it";
        assert_eq!(reason(&newer), unknown);
        newer[0] = 5;
        assert_eq!(reason(&newer), "a record of version 5; this program knows 4");
        assert_eq!(reason(&[]), "an empty record");
    }

    proptest! {
        #[test]
        fn damage_never_panics(
            mut bytes in Just(encode(&sample())), at in 0usize..44, value in any::<u8>(), cut in 0usize..44,
        ) {
            bytes[at] = value;
            same(&bytes);
            same(&bytes[..cut]);
        }
    }
}
