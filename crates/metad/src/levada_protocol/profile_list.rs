//! Access profiles of the files of one directory, as they lie in an attribute of it, which only superusers see.
//!
//! So they are moved, deleted and backed up with the directory, and the attribute's limit is theirs: what was kept
//! longest ago makes room.

use crate::profile_attribute;
use namespace::Xattr;
use types::encoding;
use types::record;

/// An attribute may have 16 KiB with its name.
const LIST_LEN_MAX: usize = 15 << 10;
/// A guess: programs that read one directory under names of their own. Most profiles are of some ten bytes.
const COUNT_MAX: usize = 32;
/// A profile in which one byte of so many is another says nearly the same: counts of a long one. In a short one each
/// byte may name another column.
const SAME_LEN: usize = 64;
/// But never one of other names, which begins with another hash of 16 bytes. A guess, as the one above.
const OTHER_COUNT_MAX: usize = 8;

/// The one that was kept last comes first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProfileList {
    profiles: Vec<KeptProfile>,
}
record!(ProfileList { 0: profiles });

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct KeptProfile {
    name: Vec<u8>,
    content: Vec<u8>,
}
record!(KeptProfile { 0: name, 1: content });

impl ProfileList {
    /// Of all attributes of a directory. What is no list is none: superusers may have put anything there.
    pub(super) fn of(attributes: &[Xattr]) -> Self {
        let own = attributes.iter().find(|attribute| attribute.name == profile_attribute::name());
        own.and_then(|own| encoding::decode_known(&own.value).ok()).unwrap_or_default()
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.profiles.iter().find(|profile| profile.name == name).map(|profile| profile.content.as_slice())
    }

    /// It is kept already, or one that hardly differs: another one is worth no change.
    pub(super) fn says(&self, name: &[u8], content: &[u8]) -> bool {
        self.get(name).is_some_and(|kept| {
            let others = kept.iter().zip(content).filter(|(kept, new)| kept != new).count();
            kept.len() == content.len() && others <= (content.len() / SAME_LEN).min(OTHER_COUNT_MAX)
        })
    }

    /// In place of the one of this name.
    pub(super) fn put(&mut self, name: &[u8], content: &[u8]) {
        self.profiles.retain(|profile| profile.name != name);
        self.profiles.insert(0, KeptProfile { name: name.into(), content: content.into() });
        self.profiles.truncate(COUNT_MAX);
        while self.encoded().len() > LIST_LEN_MAX {
            self.profiles.pop();
        }
    }

    pub(super) fn attribute(&self) -> Xattr {
        Xattr { name: profile_attribute::name(), value: self.encoded() }
    }

    fn encoded(&self) -> Vec<u8> {
        encoding::encode(self, Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::client::PROFILE_LEN_MAX;

    const GOLDEN: &[u8] = &[8, 1, 6, 2, b'n', b'1', 2, b'p', b'q'];

    #[test]
    fn the_bytes_are_golden() {
        let mut list = ProfileList::default();
        list.put(b"n1", b"pq");
        assert_eq!(list.attribute().value, GOLDEN);
        assert_eq!(ProfileList::of(&[list.attribute()]), list);
        let other = Xattr { name: profile_attribute::name(), value: b"anything".into() };
        assert_eq!((ProfileList::of(&[other]), ProfileList::of(&[])), Default::default());
    }

    #[test]
    fn one_that_hardly_differs_says_nothing_new() {
        let says = |len: usize, others: usize, more: usize| {
            let mut list = ProfileList::default();
            list.put(b"n", &vec![1; len]);
            let new: Vec<u8> = (0..len + more).map(|at| if at < others { 2 } else { 1 }).collect();
            list.says(b"n", &new)
        };
        assert_eq!([says(35, 0, 0), says(35, 1, 0), says(35, 0, 1)], [true, false, false]);
        assert_eq!([says(130, 2, 0), says(130, 3, 0), says(130, 0, 1)], [true, false, false]);
        let len = PROFILE_LEN_MAX;
        assert_eq!([says(len, 8, 0), says(len, 16, 0)], [true, false], "of other names");
        assert!(!ProfileList::default().says(b"n", b""));
    }

    #[test]
    fn the_one_kept_longest_ago_makes_room() {
        let mut list = ProfileList::default();
        for number in 0..100u8 {
            list.put(&[number; 16], &vec![number; PROFILE_LEN_MAX]);
            assert!(list.encoded().len() <= LIST_LEN_MAX);
        }
        list.put(&[98; 16], b"shorter");
        let found: Vec<usize> = (0..100u8).filter_map(|number| Some(list.get(&[number; 16])?.len())).collect();
        assert_eq!(found, [PROFILE_LEN_MAX, 7, PROFILE_LEN_MAX]);
        (0..100u8).for_each(|number| list.put(&[number; 16], &[number]));
        assert_eq!(list.profiles.len(), COUNT_MAX);
    }
}
