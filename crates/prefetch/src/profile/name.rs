//! What a profile is found by.

use layout::Layout;
use sha2::{Digest, Sha256};
use std::fmt;

/// Files of one data set whose tables and columns have the same names share a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileName(pub [u8; 16]);

impl ProfileName {
    /// Of files without a layout, `layout` is `None`; they share what their data set's name says.
    pub fn of(data_set: &str, layout: Option<&Layout>) -> Self {
        let mut hash = Sha256::new();
        let mut add = |text: &str| {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text.as_bytes());
        };
        add(data_set);
        for table in layout.iter().flat_map(|layout| &layout.tables) {
            add(&table.name);
            add(&table.columns.len().to_string());
            table.columns.iter().for_each(|column| add(&column.name));
        }
        let digest = hash.finalize();
        let mut name = [0; 16];
        name.copy_from_slice(&digest[..16]);
        Self(name)
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for ProfileName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use layout::{Column, Piece, Table};

    fn layout(table: &str, columns: &[&str]) -> Layout {
        let column = |name: &&str| Column { name: (*name).into(), pieces: Vec::new() };
        Layout { tables: vec![Table { name: table.into(), entries: 0, columns: columns.iter().map(column).collect() }] }
    }

    #[test]
    fn the_name_is_of_the_schema_and_not_of_the_file() {
        let h1 = layout("h1", &["rawtr", "E33"]);
        let name = ProfileName::of("talk", Some(&h1));
        assert_eq!(name.to_string(), GOLDEN);
        let mut other_file = h1.clone();
        other_file.tables[0].columns[0].pieces.push(Piece { first: 0, offset: 7, len: 9 });
        assert_eq!(ProfileName::of("talk", Some(&other_file)), name);
        for other in [layout("h1", &["E33", "rawtr"]), layout("h1r", &["awtr", "E33"]), layout("h1", &["rawtr"])] {
            assert_ne!(ProfileName::of("talk", Some(&other)), name);
        }
        assert_ne!(ProfileName::of("talk", None), name);
    }

    const GOLDEN: &str = "ee12a5254df9706916c8d3976324c339";
}
