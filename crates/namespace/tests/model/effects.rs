//! What must follow from a change, by the rows before and after it: an operation that forgets to say it is found.

use namespace::read::{self, file_of_block};
use namespace::tables::{BLOCK, DOOMED_BLOCK, DOOMED_TREE, OWNER, RESIZED};
use namespace::{DoomedBlock, DoubtCause, Effects, Op};
use std::collections::{BTreeMap, BTreeSet};
use types::BlockId;
use types::rows::{MemoryRows, Table};

type Row<'a> = (Table, &'a [u8], &'a [u8]);

/// Rows of `after` that `before` has not, or not so.
fn changed<'a>(before: &'a MemoryRows, after: &'a MemoryRows) -> Vec<(Row<'a>, bool)> {
    let mut old = before.iter().peekable();
    let mut changed = Vec::new();
    for row @ (table, key, value) in after.iter() {
        while old.next_if(|(its_table, its_key, _)| (*its_table, *its_key) < (table, key)).is_some() {}
        match old.next_if(|(its_table, its_key, _)| (*its_table, *its_key) == (table, key)) {
            Some((_, _, its_value)) if its_value == value => {}
            known => changed.push((row, known.is_none())),
        }
    }
    changed
}

/// Panics if the effects of `op` are not those that the rows tell of.
pub(crate) fn check(before: &MemoryRows, after: &MemoryRows, op: &Op, effects: &Effects) {
    let rows = changed(before, after);
    let has_new = |table| rows.iter().any(|((its, ..), is_new)| *its == table && *is_new);
    assert!(effects.has_doomed_tree || !has_new(DOOMED_TREE), "a tree is doomed by {op:?}");
    assert!(effects.has_resized || !has_new(RESIZED), "a file is resized by {op:?}");
    if rows.iter().any(|((its, ..), _)| *its == DOOMED_BLOCK) || !effects.doomed.is_empty() {
        let all = |rows| read::doomed_blocks(rows, None, usize::MAX).unwrap().into_iter().collect::<BTreeSet<_>>();
        let (known, doomed): (_, BTreeSet<DoomedBlock>) = (all(before), all(after));
        let said: BTreeSet<DoomedBlock> = effects.doomed.iter().copied().collect();
        assert!(said.is_subset(&doomed), "{op:?} says {said:?} of {doomed:?}");
        assert!(doomed.difference(&known).all(|block| said.contains(block)), "{op:?} says {said:?} of {doomed:?}");
    }
    let places: BTreeSet<&[u8]> =
        rows.iter().filter(|((its, ..), _)| *its == BLOCK).map(|((_, key, _), _)| *key).collect();
    if places.is_empty() {
        assert!(effects.written.is_empty() && effects.doubts.is_empty(), "{op:?} says {effects:?}");
        return;
    }
    let mut written: BTreeMap<BlockId, u64> = effects.written.iter().map(|one| (one.block, one.grown)).collect();
    for (_, key, _) in after.iter().filter(|(table, _, place)| *table == OWNER && places.contains(place)) {
        let block = BlockId(u64::from_be_bytes(key.try_into().unwrap()));
        let was = file_of_block(before, block).unwrap().map(|(_, view)| view);
        let (_, is) = file_of_block(after, block).unwrap().unwrap();
        let doubt = effects.doubts.iter().find(|doubt| doubt.block == block);
        assert!(doubt.is_none_or(|doubt| doubt.home == is.home), "{op:?}: {doubt:?} of {is:?}");
        let is_completed = is.complete && was.is_none_or(|was| !was.complete);
        let is_reopened = matches!(op, Op::Complete(complete) if complete.last.is_none());
        assert!(doubt.is_some() || !is_completed || is_reopened, "{op:?} completes {is:?} without a doubt");
        let is_moved = matches!(op, Op::UpdatePipeline(_) | Op::MoveBlocks(_))
            && was.as_ref().is_some_and(|was| was.home != is.home);
        assert_eq!(doubt.is_some_and(|doubt| doubt.cause == DoubtCause::Moved), is_moved, "{op:?}: {was:?}, {is:?}");
        if doubt.is_some_and(|doubt| doubt.cause == DoubtCause::Recovered) {
            continue; // what nodes showed is no claim of a writer
        }
        if matches!(op, Op::MoveBlocks(_)) {
            continue; // who moved them counts them
        }
        let counted = was.filter(|was| was.home == is.home).map_or(0, |was| was.len);
        assert_eq!(written.remove(&block).unwrap_or(0), is.len.saturating_sub(counted), "{op:?}: {was:?}, {is:?}");
    }
    assert!(written.is_empty(), "{op:?} says {written:?} of other blocks");
}
