//! What the name of a file says of its opening, as long as no run has told more.

use prefetch::Span;
use prefetch::profile::OPENING_LEN_MAX;

/// ROOT writes a tree's header behind its last basket, and the list of keys behind that. The header of a tree of 152
/// branches with 2,400 baskets each is an 86th of its file; of one with longer baskets it is less. A 75th was
/// slower: what 256 new connections bring of it in their first round trip is less.
const ROOT_TAIL_SHARE: u64 = 80;
const ROOT_TAIL_LEN_MIN: u64 = 64 << 10;

/// What goes out with the opening: a guess, for which bytes may be fetched in vain.
pub(super) fn opening_of(path: &str, file_len: u64) -> Vec<Span> {
    if !path.ends_with(".root") {
        return Vec::new();
    }
    let tail_len = (file_len / ROOT_TAIL_SHARE).clamp(ROOT_TAIL_LEN_MIN, OPENING_LEN_MAX);
    let head_end = layout::HEAD_LEN.min(file_len);
    vec![Span::between(0, head_end), Span::between(file_len.saturating_sub(tail_len).max(head_end), file_len)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_tree_are_fetched() {
        assert_eq!(opening_of("/a.root", 80 << 20), [Span::new(0, 1024), Span::between(79 << 20, 80 << 20)]);
        assert_eq!(opening_of("/a.root", 100), [Span::new(0, 100), Span::new(100, 0)]);
        assert_eq!(opening_of("/a.root/b", 80 << 20), []);
    }
}
