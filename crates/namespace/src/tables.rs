//! The tables of the namespace and the layout of their keys. Numbers are big-endian, so that rows sort by them.
//!
//! ```text
//! table            key                                             value
//!                  0               8
//!                  ┌───────────────┬──────────────────────┐
//!  1 ENTRY         │ parent    u64 │ name (≤ 255 B UTF-8) │        Inode: a listing is one range scan,
//!                  └───────────────┴──────────────────────┘        a rename moves one row
//!                  ┌───────────────┐
//!  2 PLACE         │ inode     u64 │                               parent u64 BE, name: the key in ENTRY
//!                  └───────────────┘
//!                  ┌───────────────┬───────────────┐
//!  3 BLOCK         │ file      u64 │ offset    u64 │               BlockRow: one block, by where it begins
//!                  └───────────────┴───────────────┘
//!                  ┌───────────────┐
//!  4 OWNER         │ block     u64 │                               file u64 BE, offset u64 BE: the key in BLOCK
//!                  └───────────────┘
//!                  ┌──────────────────────┬───┬───────────────┐
//!  5 LEASE         │ holder (≤ 400 B)     │ 0 │ file      u64 │    empty: what a client has open
//!                  └──────────────────────┴───┴───────────────┘
//!                  ┌───────────────┐
//!  6 OPEN          │ file      u64 │                               empty: all open files, by id
//!                  └───────────────┘
//!                  ┌───────────────┐
//!  7 DOOMED_TREE   │ inode     u64 │                               Inode: a deleted file, or a deleted directory
//!                  └───────────────┘                               whose children still stand in ENTRY
//!                  ┌───────────────┬───────────────┐
//!  8 DOOMED_BLOCK  │ block     u64 │ container u64 │               DoomedRow: replicas to delete
//!                  └───────────────┴───────────────┘
//!                  ┌──────────────────────────────┬───────────┐
//!  9 RETRY         │ client id              16 B  │ call  u32 │    RetryRow: outcome of a call
//!                  └──────────────────────────────┴───────────┘
//!                  ┌───────────────┬──────────────────────────────┬───────────┐
//! 10 RETRY_EXPIRY  │ expiry ms u64 │ client id              16 B  │ call  u32 │   empty: RETRY by age
//!                  └───────────────┴──────────────────────────────┴───────────┘
//!                  (empty key)
//! 11 COUNTERS                                                      Counters: last inode, last generation
//!                  ┌──────────┐
//! 12 FRONT         │ table u8 │                                    key: no row of that table is before it
//!                  └──────────┘
//!                  (empty key)
//! 13 RESERVED                                                      inode u64 BE: the last id that was reserved; no row:
//!                                                                  none ever was
//!                  ┌───────────────┬──────────┬────────────────┐
//! 14 XATTR         │ inode     u64 │ space u8 │ name (≤ 255 B) │     a version byte, then the value as it is
//!                  └───────────────┴──────────┴────────────────┘
//!                  ┌───────────────┐
//! 15 USAGE         │ directory u64 │                               usage::Tally: what stands below it, and limits on that;
//!                  └───────────────┘                               no row: nothing, and none
//!                  ┌───────────────┬───────────────┐
//! 48 VISITOR       │ container u64 │ block     u64 │               empty: a block whose home is not where it was born
//!                  └───────────────┴───────────────┘               (empty key): block u64, all before it are listed
//!                  ┌───────────────┐
//! 49 RESIZED       │ file      u64 │                               empty: its blocks may be in containers of another
//!                  └───────────────┘                               replication than it has
//!                  (empty key)
//! 50 SAFE_MODE                                                     SafeMode: since when, and by whom; no row: it is off
//!                  ┌───────────────┐
//! 51 DELEGATION_   │ number    u32 │                               DelegationToken: one that counts, until it expires
//!    TOKEN         └───────────────┘
//!                  (empty key)
//! 52 LAST_TOKEN                                                    u32 BE: the number given out last; no row: none was
//! ```
//!
//! Values that are records begin with a version byte, then a record (see `record`). Tables 53 to 55 are kept free.
//! The root is the entry with parent 0 and an empty name.

use crate::xattr_name::{XattrName, XattrSpace};
use types::rows::Table;
use types::{BlockId, ContainerId, FileId, InodeId};

pub const ENTRY: Table = Table(1);
pub const PLACE: Table = Table(2);
pub const BLOCK: Table = Table(3);
pub const OWNER: Table = Table(4);
pub const LEASE: Table = Table(5);
pub const OPEN: Table = Table(6);
pub const DOOMED_TREE: Table = Table(7);
pub const DOOMED_BLOCK: Table = Table(8);
pub const RETRY: Table = Table(9);
pub const RETRY_EXPIRY: Table = Table(10);
pub const COUNTERS: Table = Table(11);
pub const FRONT: Table = Table(12);
pub const RESERVED: Table = Table(13);
pub const XATTR: Table = Table(14);
pub const USAGE: Table = Table(15);
pub const VISITOR: Table = Table(48);
pub const RESIZED: Table = Table(49);
pub const SAFE_MODE: Table = Table(50);
pub const DELEGATION_TOKEN: Table = Table(51);
pub const LAST_TOKEN: Table = Table(52);

pub const ALL: [Table; 20] = [
    ENTRY,
    PLACE,
    BLOCK,
    OWNER,
    LEASE,
    OPEN,
    DOOMED_TREE,
    DOOMED_BLOCK,
    RETRY,
    RETRY_EXPIRY,
    COUNTERS,
    FRONT,
    RESERVED,
    XATTR,
    USAGE,
    VISITOR,
    RESIZED,
    SAFE_MODE,
    DELEGATION_TOKEN,
    LAST_TOKEN,
];

/// Key of the one row of SAFE_MODE.
pub(crate) const SAFE_MODE_KEY: &[u8] = &[];

/// Key of the one row of LAST_TOKEN.
pub(crate) const LAST_TOKEN_KEY: &[u8] = &[];

/// Key of the one row of RESERVED.
pub(crate) const RESERVED_KEY: &[u8] = &[];

/// Key of the one row of COUNTERS.
pub(crate) const COUNTERS_KEY: &[u8] = &[];

pub(crate) fn token_key(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

pub(crate) fn split_token(key: &[u8]) -> Option<u32> {
    key.try_into().ok().map(u32::from_be_bytes)
}

pub(crate) fn entry_key(parent: InodeId, name: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(8 + name.len());
    key.extend_from_slice(&parent.0.to_be_bytes());
    key.extend_from_slice(name);
    key
}

pub(crate) fn inode_key(inode: InodeId) -> [u8; 8] {
    inode.0.to_be_bytes()
}

pub(crate) fn block_key(file: FileId, offset: u64) -> [u8; 16] {
    pair(file.0, offset)
}

pub(crate) fn owner_key(block: BlockId) -> [u8; 8] {
    block.0.to_be_bytes()
}

pub(crate) fn lease_key(holder: &str, file: FileId) -> Vec<u8> {
    let mut key = lease_prefix(holder);
    key.extend_from_slice(&file.0.to_be_bytes());
    key
}

/// Begins all leases of `holder`, and of no other: a holder's name has no zero byte.
pub(crate) fn lease_prefix(holder: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(holder.len() + 9);
    key.extend_from_slice(holder.as_bytes());
    key.push(0);
    key
}

pub(crate) fn visitor_key(home: ContainerId, block: BlockId) -> [u8; 16] {
    pair(home.0, block.0)
}

pub(crate) fn doomed_block_key(block: BlockId, home: ContainerId) -> [u8; 16] {
    pair(block.0, home.0)
}

/// The space's number is its place in [`XattrSpace`], which is HDFS's.
pub(crate) fn xattr_key(inode: InodeId, name: &XattrName) -> Vec<u8> {
    let mut key = Vec::with_capacity(9 + name.name.len());
    key.extend_from_slice(&inode.0.to_be_bytes());
    key.push(name.space as u8);
    key.extend_from_slice(name.name.as_bytes());
    key
}

/// Parts a key of XATTR.
pub(crate) fn split_xattr(key: &[u8]) -> Option<(InodeId, XattrName)> {
    let (inode, rest) = key.split_first_chunk::<8>()?;
    let (space, name) = rest.split_first()?;
    let name = XattrName { space: XattrSpace::from_number(*space)?, name: std::str::from_utf8(name).ok()?.into() };
    Some((InodeId(u64::from_be_bytes(*inode)), name))
}

fn pair(first: u64, second: u64) -> [u8; 16] {
    (u128::from(first) << 64 | u128::from(second)).to_be_bytes()
}

/// Parts a key of two numbers.
pub(crate) fn split_pair(key: &[u8]) -> Option<(u64, u64)> {
    let whole = u128::from_be_bytes(key.try_into().ok()?);
    Some(((whole >> 64) as u64, whole as u64))
}

/// Parts a key of ENTRY, or a value of PLACE.
pub fn split_entry(key: &[u8]) -> Option<(InodeId, &[u8])> {
    let (parent, name) = key.split_first_chunk::<8>()?;
    Some((InodeId(u64::from_be_bytes(*parent)), name))
}

/// Parts a key of LEASE.
pub(crate) fn split_lease(key: &[u8]) -> Option<(&str, FileId)> {
    let (head, file) = key.split_last_chunk::<8>()?;
    let (zero, holder) = head.split_last()?;
    let holder = std::str::from_utf8(holder).ok()?;
    (*zero == 0 && !holder.contains('\0')).then(|| (holder, InodeId(u64::from_be_bytes(*file))))
}

pub(crate) fn split_inode(key: &[u8]) -> Option<InodeId> {
    Some(InodeId(u64::from_be_bytes(key.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_their_numbers_and_names_do() {
        let mut keys = [
            entry_key(InodeId(1), b"b"),
            entry_key(InodeId(256), b""),
            entry_key(InodeId(1), "é".as_bytes()),
            entry_key(InodeId(1), b"a"),
        ];
        keys.sort();
        let order: Vec<_> = keys.iter().map(|key| split_entry(key).unwrap()).collect();
        assert_eq!(
            order,
            [(InodeId(1), &b"a"[..]), (InodeId(1), b"b"), (InodeId(1), "é".as_bytes()), (InodeId(256), b"")]
        );
    }

    #[test]
    fn keys_come_apart_as_they_were_put_together() {
        assert_eq!(split_pair(&block_key(InodeId(7), u64::MAX)), Some((7, u64::MAX)));
        assert_eq!(split_lease(&lease_key("client", InodeId(3))), Some(("client", InodeId(3))));
        assert_eq!(split_lease(&lease_key("", InodeId(0))), Some(("", InodeId(0))));
        assert_eq!(split_lease(b"short"), None);
        assert_eq!(split_entry(b"1234567"), None);
    }
}
