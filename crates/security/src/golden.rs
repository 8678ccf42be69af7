//! Reads the files of `tests/golden`, which Java wrote (README.md there says how).

use std::collections::BTreeMap;

/// What is after the last space of a line, by what is before it.
pub(crate) struct Golden(BTreeMap<&'static str, Vec<u8>>);

impl Golden {
    pub(crate) fn parse(text: &'static str) -> Self {
        let line = |line: &'static str| {
            let (name, digits) = line.rsplit_once(' ').expect("a name and digits");
            (name, bytes(digits))
        };
        Self(text.lines().map(line).collect())
    }

    pub(crate) fn get(&self, name: &str) -> &[u8] {
        self.0.get(name).unwrap_or_else(|| panic!("there is no {name}"))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &[u8])> {
        self.0.iter().map(|(name, bytes)| (*name, &bytes[..]))
    }
}

pub(crate) fn bytes(digits: &str) -> Vec<u8> {
    let pairs = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16));
    pairs.collect::<Result<_, _>>().expect("hexadecimal digits")
}

/// The messages that were sent over each connection, in both directions.
pub(crate) const MESSAGE_LENS: [usize; 6] = [1, 5, 6, 8, 100, 1000];

pub(crate) fn message(number: usize) -> Vec<u8> {
    (0..MESSAGE_LENS[number]).map(|place| (place * 31 + number) as u8).collect()
}
