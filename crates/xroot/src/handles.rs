//! The files that a session has open, by the four bytes that clients name them with.

use crate::limits::HANDLE_COUNT_MAX;
use std::collections::BTreeMap;

/// Opaque to clients. XRootD's server numbers the files of a connection from 0 on, each with the lowest number that is
/// free, and writes the number as its processor does; so a client that knows this may send an open and the first reads
/// together. Ours promises the same, as x86 writes numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u32);

impl Handle {
    pub const LEN: usize = 4;

    pub fn decode(bytes: [u8; Self::LEN]) -> Self {
        Self(u32::from_le_bytes(bytes))
    }

    pub fn encode(self) -> [u8; Self::LEN] {
        self.0.to_le_bytes()
    }
}

#[derive(Debug)]
pub(crate) struct Handles<F> {
    files: BTreeMap<Handle, F>,
}

impl<F> Handles<F> {
    pub(crate) fn new() -> Self {
        Self { files: BTreeMap::new() }
    }

    /// Under the lowest free number. `None`: there are as many as there may be.
    pub(crate) fn add(&mut self, file: F) -> Option<Handle> {
        if self.files.len() >= HANDLE_COUNT_MAX {
            return None;
        }
        let free = (0u32..).zip(self.files.keys()).find(|(number, handle)| *number != handle.0);
        let handle = Handle(free.map_or(self.files.len() as u32, |(number, _)| number));
        self.files.insert(handle, file);
        Some(handle)
    }

    pub(crate) fn get(&self, handle: Handle) -> Option<&F> {
        self.files.get(&handle)
    }

    pub(crate) fn remove(&mut self, handle: Handle) -> Option<F> {
        self.files.remove(&handle)
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_number_is_the_next() {
        let mut handles = Handles::new();
        let numbers: Vec<_> = (0..4).map(|file| handles.add(file).unwrap().0).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        assert_eq!((handles.remove(Handle(1)), handles.remove(Handle(1))), (Some(1), None));
        assert_eq!((handles.add(9), handles.add(10)), (Some(Handle(1)), Some(Handle(4))));
        while handles.len() < HANDLE_COUNT_MAX {
            assert!(handles.add(0).is_some());
        }
        assert_eq!(handles.add(0), None);
    }
}
