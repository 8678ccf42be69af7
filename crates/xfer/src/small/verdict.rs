//! What a writer makes of an answer: who has its block, whether those are enough, and who gets no more for a while.

use std::time::Duration;
use types::mutation::{Mutation, is};
use wire::Status;
use wire::small::{SmallAnswer, majority};

/// A node that failed is not asked for again for so long; the server finds out in the meantime.
pub(super) const EXCLUDED_FOR: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Places of the nodes that have put the block, ascending; the first node, which was asked, is 0.
    pub have: Vec<usize>,
    /// Places of those that are to be avoided.
    pub blamed: Vec<usize>,
    /// The block may be given to a file.
    pub enough: bool,
    /// Its token is not valid any more: nobody is to blame, and another lease has another token.
    pub needs_token: bool,
}

impl Verdict {
    /// Of a block that was to be put on so many nodes; without an answer, of the silence of the first.
    pub fn new(answer: Option<&SmallAnswer>, node_count: usize) -> Self {
        let nothing = Self { have: Vec::new(), blamed: vec![0], enough: false, needs_token: false };
        let Some(answer) = answer else { return nothing };
        if !answer.refusal.is_empty() && answer.status == u32::from(Status::ERROR_ACCESS_TOKEN.0) {
            return Self { blamed: Vec::new(), needs_token: true, ..nothing };
        }
        let mut have: Vec<usize> = answer.have.iter().map(|place| *place as usize).collect();
        have.sort_unstable();
        let named_twice = have.windows(2).any(|pair| pair[0] == pair[1]);
        if named_twice || have.last().is_some_and(|last| *last >= node_count) {
            return nothing; // whoever says so is not to be believed in anything
        }
        // If nobody has it, it never got beyond the first.
        let reached = if have.is_empty() { 1 } else { node_count };
        let blamed = (0..reached).filter(|place| !have.contains(place)).collect();
        let refused = !answer.refusal.is_empty() && !is(Mutation::BelieveRefused);
        let needs_token = false;
        Self {
            needs_token,
            enough: !refused && (have.len() >= majority(node_count) || is(Mutation::BelieveRefused)),
            have,
            blamed,
        }
    }
}
