//! A running digest of what a log of entries did to rows. Members of a group compare their states by it.
//!
//! Promise: members that applied the same entries and made the same changes have the same digest. A row that one of
//! them changed in another way, skipped, or changed alone tells them apart from that entry on, but for one case in 2⁶⁴.
//! This finds faults of programs and machines. It is no defence against somebody who chooses the rows.

use crate::checksum::ChecksumKind;
use crate::rows::Table;

/// Most entries change less.
const WHOLE_LEN_USUAL: usize = 2 << 10;

/// The digest before the first entry is that of nothing: 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowsDigest(pub u64);

impl RowsDigest {
    /// The digest after one more entry, which made `changes`, in ascending order of tables and keys. `None` in place of
    /// a value means that the row was deleted.
    ///
    /// ```text
    /// CRC-32, CRC-32C over   digest before u64 │ table u8 │ key │ 0, or 1 │ value, if 1 │ table u8 │ …
    ///                        each but the first behind its length, u32; all numbers big-endian
    /// ```
    ///
    /// Members that compute it otherwise cast each other out: whoever changes it raises the versions of `raft`.
    #[must_use]
    pub fn after<'a>(self, changes: impl Iterator<Item = (Table, &'a [u8], Option<&'a [u8]>)>) -> Self {
        // Put together first: a checksum of many short pieces costs several times that of one long one.
        let mut whole = Vec::with_capacity(WHOLE_LEN_USUAL);
        whole.extend_from_slice(&self.0.to_be_bytes());
        let mut part = |bytes: &[u8]| {
            // A row is bounded far below this, by the longest command.
            whole.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
            whole.extend_from_slice(bytes);
        };
        for (table, key, value) in changes {
            part(&[table.0]);
            part(key);
            match value {
                None => part(&[0]),
                Some(value) => {
                    part(&[1]);
                    part(value);
                }
            }
        }
        // Both polynomials together are one of degree 64.
        let [high, low] = [ChecksumKind::Crc32, ChecksumKind::Crc32c].map(|kind| u64::from(kind.of(&whole)));
        Self(high << 32 | low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = (u8, &'static [u8], Option<&'static [u8]>);

    fn digest(changes: &[Change]) -> RowsDigest {
        RowsDigest(7).after(changes.iter().map(|(table, key, value)| (Table(*table), *key, *value)))
    }

    #[test]
    fn each_difference_shows() {
        let cases: [&[Change]; 8] = [
            &[],
            &[(1, b"key", Some(b"value"))],
            &[(2, b"key", Some(b"value"))],
            &[(1, b"keyv", Some(b"alue"))],
            &[(1, b"key", Some(b""))],
            &[(1, b"key", None)],
            &[(1, b"key", Some(b"value")), (1, b"l", None)],
            &[(1, b"l", None)],
        ];
        let mut found: Vec<u64> = cases.iter().map(|changes| digest(changes).0).collect();
        assert_eq!(digest(cases[1]), digest(cases[1]));
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), cases.len());
    }

    /// An entry that changes nothing counts as well: a member that skipped one is behind for ever.
    #[test]
    fn an_entry_without_changes_counts() {
        assert_ne!(digest(&[]), RowsDigest(7));
    }
}
