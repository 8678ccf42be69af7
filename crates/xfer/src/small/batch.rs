//! Which replicas are put in one step of a disk: in one append, with one sync for all.

use types::mutation::{Mutation, is};

/// Replicas of one batch: a batch holds up those behind it.
pub const COUNT_MAX: usize = 256;
/// Bytes of one batch, unless a single replica is longer: they are gathered once more for the one write.
pub const LEN_MAX: usize = 4 << 20;

/// How many of those that wait go together: the first of them, whose bytes are so many each.
pub fn count(lens: impl IntoIterator<Item = usize>) -> usize {
    let mut sum = 0usize;
    let fits = |len: &usize| {
        sum = sum.saturating_add(*len);
        sum <= LEN_MAX
    };
    let mut lens = lens.into_iter().peekable();
    let least = usize::from(lens.peek().is_some());
    lens.take(COUNT_MAX).take_while(fits).count().max(least)
}

/// Whether a batch is brought to disk before it is answered: as soon as one of it is to be.
pub fn is_synced(asked: impl IntoIterator<Item = bool>) -> bool {
    let mut asked = asked.into_iter();
    // As if the first spoke for all.
    if is(Mutation::SyncForFirst) { asked.next().unwrap_or(false) } else { asked.any(|asked| asked) }
}
