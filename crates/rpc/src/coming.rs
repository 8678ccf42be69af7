//! Requests whose bytes are still coming: they are counted by what is here, not by the length that was promised.
//!
//! ```text
//! length ──▶ Coming: room for the next piece ──▶ read it ──▶ … ──▶ whole ──▶ a charge of the budget, until answered
//! ```
//!
//! Promise: a connection that sends nothing holds one short piece. The oldest request always goes on, unless whole ones
//! hold the memory: so requests that share it and have each a part of what they need do not wait for each other.

use crate::budget::{Budget, Charge};
use std::sync::Arc;

/// The first piece; each next one is as long as what has come, up to the second.
const PIECE_LEN_MIN: usize = 8 << 10;
const PIECE_LEN_MAX: usize = 256 << 10;

#[derive(Debug)]
pub(crate) struct Coming {
    budget: Arc<Budget>,
    /// Lower is older.
    number: u64,
    charge: Charge,
}

impl Coming {
    pub(crate) fn begin(budget: &Arc<Budget>) -> Self {
        Self { number: budget.coming().enter(), budget: Arc::clone(budget), charge: budget.count(0) }
    }

    /// How many bytes may be read when `here` of `whole` have come, once there is room for them.
    pub(crate) async fn room(&mut self, here: usize, whole: usize) -> usize {
        let piece = here.clamp(PIECE_LEN_MIN, PIECE_LEN_MAX).min(whole - here);
        let more = (here + piece).saturating_sub(self.charge.len());
        let budget = Arc::clone(&self.budget);
        budget
            .when_room(|| {
                let mut coming = budget.coming();
                let held_by_whole = budget.held_len().saturating_sub(coming.len);
                let goes_first = coming.oldest() == Some(self.number);
                let fits = budget.held_len() + more <= budget.held_len_max();
                let fits_alone = held_by_whole == 0 || held_by_whole + here + piece <= budget.held_len_max();
                let goes = fits || (goes_first && fits_alone);
                if goes {
                    coming.len += more;
                    self.charge.grow(more);
                }
                goes
            })
            .await;
        piece
    }

    /// All of it is here.
    pub(crate) fn whole(mut self, len: usize) -> Charge {
        let mut charge = self.budget.count(0);
        std::mem::swap(&mut charge, &mut self.charge);
        self.leave(charge.len());
        // What was read beyond its end belongs to the next request.
        charge.resize(len);
        charge
    }

    fn leave(&self, len: usize) {
        self.budget.coming().leave(self.number, len);
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        self.leave(self.charge.len());
        // Another one may be the oldest now.
        self.budget.look_again();
    }
}
