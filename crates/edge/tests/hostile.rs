//! A disk of a stranger: whatever a segment's files say, nothing panics.

use edge::{Content, Head, SEGMENT_BEGIN};
use proptest::prelude::*;
use types::{BlockId, Generation};

fn heads() -> impl Strategy<Value = Vec<u8>> {
    let head =
        (0..3u64, any::<u64>(), 0..400u64, 0..400u64, 0..300u32).prop_map(|(block, file_len, offset, at, len)| {
            let file_len = if file_len % 2 == 0 { file_len } else { file_len % 1000 };
            let content = Content { store: 1, block: BlockId(block), generation: Generation(1), len: file_len };
            Head { content, offset, at, len }.encode()
        });
    prop::collection::vec(head, 0..30).prop_map(|heads| [&SEGMENT_BEGIN[..], &heads.concat()].concat())
}

proptest! {
    #[test]
    fn heads_that_fit_their_sums_are_believed_as_far_as_they_can_be(list in heads()) {
        edge::fuzz::segment(&list);
    }

    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
        edge::fuzz::segment(&bytes);
        edge::fuzz::segment(&[&SEGMENT_BEGIN[..], &bytes].concat());
    }
}
