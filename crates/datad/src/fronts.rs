//! The memory of what asks for operations, while it is not whole: of who sends it nothing is known yet.
//!
//! Promise: all connections together hold no more of it than there is, apart from the first few KiB of each, whose
//! number is bounded. Where there is no more, the request that began first is given up for one that goes on: it had the
//! most time, and a crowd of requests that never end makes way for those that do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use types::limits::OP_MESSAGE_LEN_MAX;
use xfer::memory::Held;

/// One of so many parts of a node's memory is for this. A guess.
const PART: u64 = 16;
/// The longest operation, in a buffer that grew to twice its length.
const LONGEST_LEN: u64 = 2 * (OP_MESSAGE_LEN_MAX as u64 + (64 << 10));

#[derive(Debug)]
pub(crate) struct Fronts {
    len_max: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken_len: u64,
    /// In the order in which they began.
    held: BTreeMap<u64, (u64, Arc<Notify>)>,
    next: u64,
}

/// Of one connection. What it holds goes back when this is dropped.
#[derive(Debug)]
pub(crate) struct Front {
    fronts: Arc<Fronts>,
    /// Its number, if it holds something or did until another needed that.
    number: Option<u64>,
    given_up: Arc<Notify>,
}

impl Fronts {
    /// Of all the memory of a node: what its buffers have, and this beside them.
    pub(crate) fn of(memory_len: u64) -> (u64, Arc<Self>) {
        // Also where there is little: the longest operation, but no more than half.
        let len_max = (memory_len / PART).max(LONGEST_LEN).min(memory_len / 2);
        (memory_len - len_max, Arc::new(Self { len_max, state: Mutex::default() }))
    }

    /// Bytes that there are.
    pub(crate) fn len(&self) -> u64 {
        self.len_max
    }

    /// Bytes that are held now.
    pub(crate) fn used_len(&self) -> u64 {
        self.lock().taken_len
    }

    /// For the next request of a connection. It holds nothing yet. `given_up`: who hears it when another request needed
    /// what this one held; the connection ends there.
    pub(crate) fn front(self: &Arc<Self>, given_up: &Arc<Notify>) -> Front {
        Front { fronts: Arc::clone(self), number: None, given_up: Arc::clone(given_up) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Gives the one up that began first, other than `number`; false if there is none.
    fn give_up_first(&mut self, number: u64) -> bool {
        let Some(first) = self.held.keys().copied().find(|first| *first != number) else { return false };
        if let Some((len, given_up)) = self.held.remove(&first) {
            self.taken_len -= len; // its connection closes at once
            given_up.notify_one();
        }
        true
    }
}

impl Held for Front {
    fn held_len(&self) -> u64 {
        let state = self.fronts.lock();
        self.number.and_then(|number| state.held.get(&number)).map_or(0, |(len, _)| *len)
    }

    fn grow_to(&mut self, len: u64) -> bool {
        let mut state = self.fronts.lock();
        let number = *self.number.get_or_insert_with(|| {
            let number = state.next;
            state.next += 1;
            state.held.insert(number, (0, Arc::clone(&self.given_up)));
            number
        });
        // One that was given up stays so.
        let Some(held_len) = state.held.get(&number).map(|(len, _)| *len) else { return false };
        let more = len.saturating_sub(held_len);
        if len > self.fronts.len_max {
            return false;
        }
        while state.taken_len + more > self.fronts.len_max {
            if !state.give_up_first(number) {
                return false;
            }
        }
        state.taken_len += more;
        if let Some((held, _)) = state.held.get_mut(&number) {
            *held += more;
        }
        assert_eq!(state.taken_len, state.held.values().map(|(len, _)| len).sum::<u64>(), "a sum kept by hand");
        true
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let mut state = self.fronts.lock();
            if let Some((len, _)) = state.held.remove(&number) {
                state.taken_len -= len;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_given_up(front: &Front) -> bool {
        pin!(front.given_up.notified()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_first_makes_way_and_no_more_is_held_than_there_is() {
        let (rest, fronts) = Fronts::of(100);
        assert_eq!((rest, fronts.len()), (50, 50));
        let mut held: Vec<Front> = (0..3).map(|_| fronts.front(&Arc::default())).collect();
        assert!(held.iter_mut().all(|front| front.grow_to(16)));
        assert!(held[2].grow_to(18) && !held.iter().any(is_given_up));
        assert!(held[1].grow_to(20), "the first one makes way");
        assert!(is_given_up(&held[0]) && !held[0].grow_to(17), "it stays given up");
        assert!(!held[2].grow_to(51) && !is_given_up(&held[1]), "nobody makes way for what never fits");
        assert_eq!((fronts.used_len(), held[0].held_len(), held[1].held_len()), (38, 0, 20));
        assert!(held[2].grow_to(50) && is_given_up(&held[1]));
        drop(held);
        assert_eq!((fronts.used_len(), fronts.lock().held.len()), (0, 0));
    }

    #[test]
    fn the_longest_operation_fits_where_there_is_any_memory() {
        let (rest, fronts) = Fronts::of(256 << 20);
        assert_eq!((rest, fronts.len()), (240 << 20, 16 << 20));
        assert_eq!(Fronts::of(16 << 20).1.len(), LONGEST_LEN);
    }
}
