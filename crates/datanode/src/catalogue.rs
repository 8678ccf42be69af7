//! All that is here, told page by page.

use crate::held::Held;
use types::{BlockId, ReplicaState};
use wire::node::{CatalogueRequest, PAGE_COUNT_MAX};

/// Replicas in a page: small enough that a page is looked up and sent in a blink.
pub const PAGE_COUNT: usize = 2000;
/// What changed is not told for so long while a disk does not say what it has.
pub const HELD_BACK_MAX: std::time::Duration = std::time::Duration::from_secs(20);

const _: () = assert!(PAGE_COUNT <= PAGE_COUNT_MAX);

/// The page of `held`, which are the first `count_max` replicas from this block on, or all there are. The pages
/// together cover all block ids; the next one begins behind `through`, unless that is the last id.
pub fn page(from: BlockId, held: &[Held], count_max: usize, is_writing: impl Fn(BlockId) -> bool) -> CatalogueRequest {
    assert!(held.len() <= count_max, "a page has its limit");
    assert!(held.is_sorted_by(|one, other| one.block < other.block), "a page is in the order of blocks");
    let through = match held.last() {
        Some(last) if held.len() == count_max => last.block.0,
        _ => u64::MAX,
    };
    // Of what a chain writes now nothing can be said but that it is there.
    let is_written =
        |held: &&Held| held.state != ReplicaState::Finalized && (held.has_writer || is_writing(held.block));
    let (writing, reported): (Vec<&Held>, Vec<&Held>) = held.iter().partition(is_written);
    CatalogueRequest {
        from: from.0,
        through,
        replicas: reported.into_iter().map(Held::report).collect(),
        writing: writing.into_iter().map(|held| held.block.0).collect(),
        ..CatalogueRequest::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(block: u64, state: ReplicaState) -> Held {
        Held { block: BlockId(block), state, ..Held::EXAMPLE }
    }

    #[test]
    fn pages_cover_all_blocks() {
        let two = [held(3, ReplicaState::Finalized), held(5, ReplicaState::Open)];
        let full = page(BlockId(1), &two, 2, |_| false);
        assert_eq!((full.from, full.through, full.replicas.len()), (1, 5, 2));
        let last = page(BlockId(6), &[], 2, |_| false);
        assert_eq!((last.from, last.through, last.replicas.len()), (6, u64::MAX, 0));
    }

    #[test]
    fn of_what_is_being_written_nothing_is_said_but_that_it_is_there() {
        let with_writer = Held { has_writer: true, ..held(2, ReplicaState::Open) };
        let all =
            [held(1, ReplicaState::Open), with_writer, held(3, ReplicaState::Open), held(4, ReplicaState::Finalized)];
        let page = page(BlockId(0), &all, 10, |block| block == BlockId(3) || block == BlockId(4));
        assert_eq!(page.writing, [2, 3]);
        assert_eq!(page.replicas, [all[0].report(), all[3].report()], "what is finalized is being read at most");
    }
}
