//! A row in memory: its key, and its value or the word that it is gone.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// One allocation: a second of work is hundreds of thousands of these. Copies share it.
///
/// ```text
/// bytes  [table u8][key][value]      key_len counts the table too
/// ```
#[derive(Clone)]
pub(crate) struct Row {
    bytes: Arc<[u8]>,
    head: Head,
    key_len: u16,
    /// False hides the row below.
    live: bool,
}

/// What a row costs beside its bytes: its place in a tree whose leaves are two thirds full, the counters before its
/// bytes, and the allocator's own. Measured by `examples/memory.rs`.
pub(crate) const ROW_LEN: usize = 86;

impl Row {
    pub(crate) fn new(full: &[u8], value: Option<&[u8]>) -> Self {
        let rest = value.unwrap_or_default();
        // `Change::put` refuses longer keys.
        let key_len = u16::try_from(full.len()).expect("a key is bounded");
        let bytes = Arc::from([full, rest].concat());
        Self { bytes, head: Head::of(full), key_len, live: value.is_some() }
    }

    pub(crate) fn full(&self) -> &[u8] {
        &self.bytes[..usize::from(self.key_len)]
    }

    pub(crate) fn order(&self, key: Sought<'_>) -> Ordering {
        key.order(self.head, || self.full())
    }

    pub(crate) fn value(&self) -> Option<&[u8]> {
        self.live.then(|| &self.bytes[usize::from(self.key_len)..])
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + ROW_LEN
    }
}

/// The beginning of a key, kept where keys are compared: most differ in it, and looking at the rest is looking at other
/// memory, which took most of the time of a change. 16 bytes are the table's number, an id, and the beginning of a
/// name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head([u8; 16]);

impl Head {
    /// Filled up with zeros: where two heads differ, the keys differ in the same way.
    pub(crate) fn of(full: &[u8]) -> Self {
        let mut head = [0; 16];
        let len = full.len().min(head.len());
        head[..len].copy_from_slice(&full[..len]);
        Self(head)
    }
}

/// A key that is looked for.
#[derive(Clone, Copy)]
pub(crate) struct Sought<'k> {
    pub(crate) full: &'k [u8],
    head: u128,
}

impl<'k> Sought<'k> {
    pub(crate) fn new(full: &'k [u8]) -> Self {
        Self { full, head: u128::from_be_bytes(Head::of(full).0) }
    }

    /// How another key, of which this is the head, stands to it.
    pub(crate) fn order<'o>(self, head: Head, full: impl FnOnce() -> &'o [u8]) -> Ordering {
        u128::from_be_bytes(head.0).cmp(&self.head).then_with(|| full().cmp(self.full))
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Row").field("full", &self.full()).field("live", &self.live).finish_non_exhaustive()
    }
}
