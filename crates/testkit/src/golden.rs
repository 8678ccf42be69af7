//! Golden bytes: what a format looks like today, kept in the tree, so that no change of it goes unnoticed.
//!
//! A file has a line for each example: `name hexadecimal-digits`, the bytes of one log entry, row, header or message. A
//! test makes the examples again and holds them to the file. Where a format is meant to change, the file is written
//! anew by `LEVADA_GOLDEN=write cargo test …`, and the change stands in the commit for everybody to see.

use std::fmt::{Debug, Write};
use std::fs;
use std::path::Path;
use types::encoding::{DecodeError, Encoded, decode, encode};

/// Examples of one format.
#[derive(Debug, Default)]
pub struct Golden {
    lines: Vec<(String, String)>,
}

impl Golden {
    /// Of an enum: one example of each variant, in the order of their numbers. All are read back from
    /// their bytes.
    pub fn of_variants<T: Encoded + Debug + PartialEq>(examples: &[T]) -> Self {
        let mut golden = Self::default();
        for (number, example) in examples.iter().enumerate() {
            let bytes = encode(example, Vec::new());
            assert_eq!(usize::from(bytes[0]), number, "{example:?}");
            assert_eq!(decode(&bytes).as_ref(), Ok(example));
            golden.add(variant(example), &bytes);
        }
        assert!(!is_variant::<T>(examples.len()), "each variant has its example");
        golden
    }

    pub fn add(&mut self, name: impl Into<String>, bytes: &[u8]) {
        let name = name.into();
        assert!(!name.is_empty() && !name.contains(char::is_whitespace), "a name is one word, not {name:?}");
        assert!(self.lines.iter().all(|(known, _)| *known != name), "{name} stands here twice");
        let digits = bytes.iter().fold(String::new(), |mut digits, byte| {
            write!(digits, "{byte:02x}").expect("a string takes all");
            digits
        });
        self.lines.push((name, digits));
    }

    /// Panics, naming the first difference, if the file says otherwise.
    pub fn hold(&self, path: impl AsRef<Path>) {
        let path = path.as_ref();
        let found: String = self.lines.iter().map(|(name, digits)| format!("{name} {digits}\n")).collect();
        if std::env::var_os("LEVADA_GOLDEN").is_some_and(|value| value == "write") {
            fs::write(path, &found).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        let want = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if found == want {
            return;
        }
        let differs = |(have, wanted): &(&str, &str)| have != wanted;
        let first = found.lines().chain([""]).zip(want.lines().chain([""])).find(differs);
        panic!(
            "{}: the bytes changed.\n  now    {}\n  before {}\nIf that is meant, write the file anew with \
             LEVADA_GOLDEN=write",
            path.display(),
            first.map_or("", |(now, _)| now),
            first.map_or("", |(_, before)| before),
        );
    }
}

/// The name of an enum's variant, from how it prints.
pub fn variant(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    text.split(|character: char| !character.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

/// Whether some variant of an enum has this number. Asked for the number after that of the last example, it tells
/// whether a variant lacks one.
pub fn is_variant<T: Encoded>(number: usize) -> bool {
    let number = u8::try_from(number).ok().filter(|number| *number < 128).expect("an enum of few variants");
    // What a variant holds is missing here, which is another error.
    !matches!(decode::<T>(&[number, 0]), Err(DecodeError::UnknownVariant { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "now    Two 0203")]
    fn a_change_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("golden.txt");
        fs::write(&path, "One 01\nTwo 0202\n").unwrap();
        let mut golden = Golden::default();
        golden.add("One", &[1]);
        golden.add("Two", &[2, 3]);
        golden.hold(&path);
    }

    #[test]
    fn variants_have_names() {
        #[derive(Debug, PartialEq)]
        enum Kind {
            Plain,
            Pair(u8, u8),
            Named { field: u8 },
        }
        types::variants!(Kind { 0 => Plain, 1 => Pair(0: one, 1: two), 2 => Named { 0: field } });
        let kinds = [Kind::Plain, Kind::Pair(1, 2), Kind::Named { field: 3 }];
        assert_eq!(kinds.each_ref().map(variant), ["Plain", "Pair", "Named"]);
        assert!((0..3).all(is_variant::<Kind>) && !is_variant::<Kind>(3));
        assert_eq!(Golden::of_variants(&kinds).lines.len(), 3);
        let [plain, pair, _] = kinds;
        let lacks_one = std::panic::catch_unwind(|| Golden::of_variants(&[plain, pair]));
        assert!(lacks_one.is_err());
    }
}
