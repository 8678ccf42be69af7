//! Windows that come in parts: what is wanted of a record is made once, and not again for each part.

use super::entry::Entry;
use bytes::Bytes;
use layout::Piece;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use wire::layouts::{ReadLayout, Wish};

/// Readers that begin at the same moment. A guess: the parts of one window are asked for within some milliseconds.
const COUNT_MAX: usize = 8;
/// Bytes of one: 4,800 pieces of the query of the measurements take 125 KB. What is longer is made for each part.
const LEN_MAX: usize = 2 << 20;

/// What is sent of a record, and where the pieces of the window lie in the file.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    pub(super) record: Bytes,
    pub(super) pieces: Arc<[Piece]>,
}

#[derive(Debug, Default)]
pub(super) struct Made {
    /// The oldest first.
    kept: Mutex<VecDeque<Kept>>,
}

#[derive(Debug)]
struct Kept {
    /// What it was made of: the same entry, not one like it.
    entry: Weak<Entry>,
    wish: Wish,
    first: u64,
    len_max: u64,
    selection: Selection,
}

impl Made {
    /// Who asks may have what is kept of `entry`.
    pub(super) fn get(&self, entry: &Arc<Entry>, request: &ReadLayout, wish: &Wish) -> Option<Selection> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |kept: &&Kept| {
            std::ptr::eq(kept.entry.as_ptr(), Arc::as_ptr(entry))
                && (kept.first, kept.len_max) == (request.window_first, request.window_len)
                && kept.wish == *wish
        };
        kept.iter().find(is_it).map(|kept| kept.selection.clone())
    }

    pub(super) fn put(&self, entry: &Arc<Entry>, request: &ReadLayout, wish: Wish, selection: &Selection) {
        let len = selection.record.len() + size_of_val(&*selection.pieces);
        if request.part_count <= 1 || len > LEN_MAX {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| kept.entry.strong_count() > 0);
        if kept.len() == COUNT_MAX {
            kept.pop_front();
        }
        kept.push_back(Kept {
            entry: Arc::downgrade(entry),
            wish,
            first: request.window_first,
            len_max: request.window_len,
            selection: selection.clone(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::tests::entry;
    use super::*;

    #[test]
    fn a_selection_is_that_of_its_entry_and_request() {
        let (made, known) = (Made::default(), Arc::new(entry(10)));
        let request = ReadLayout { window_len: 100, part_count: 8, ..ReadLayout::default() };
        let selection = |len| Selection { record: vec![1; len].into(), pieces: [Piece::default()].into() };
        let wish = || Wish::Columns(vec![(0, 1)]);
        made.put(&known, &request, wish(), &selection(5));
        assert!(made.get(&known, &ReadLayout { part: 7, ..request.clone() }, &wish()).is_some());
        assert!(made.get(&known, &ReadLayout { window_len: 99, ..request.clone() }, &wish()).is_none());
        assert!(made.get(&known, &request, &Wish::All).is_none());
        assert!(made.get(&Arc::new(entry(10)), &request, &wish()).is_none(), "another entry, if it says the same");
        let others: Vec<_> = (0..20).map(|_| Arc::new(entry(10))).collect();
        others.iter().for_each(|other| made.put(other, &request, wish(), &selection(5)));
        assert!(made.get(&known, &request, &wish()).is_none() && made.kept.lock().unwrap().len() == COUNT_MAX);
        made.put(&known, &request, wish(), &selection(LEN_MAX));
        made.put(&known, &ReadLayout { part_count: 0, ..request.clone() }, wish(), &selection(5));
        assert!(made.get(&known, &request, &wish()).is_none(), "too long, and not in parts");
    }
}
