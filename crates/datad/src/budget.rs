//! The memory that streams may take, all together.
//!
//! ```text
//! all             │████████████████████████████████│  reads
//! seven eighths   │████████████████████████████    │  streams that send on to nobody
//! of them, 3/4    │█████████████████████           │  streams with one node behind, or more
//! of them, 1/2    │██████████████                  │  streams with two nodes behind, or more
//! ```
//!
//! Promise: never more is taken than there is, and what streams hold that come from strangers leaves room for reads. A
//! stream that finds no memory waits for a while, in the order in which
//! they came, so that a crowd of writers is slow and not refused. Who is further up in a chain leaves room for those
//! further down, so a chain that has begun to form on other nodes finds room here, and chains of three do not wait for
//! each other in a circle; longer ones give up in time.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use xfer::memory::{Held, Memory};

/// Reads; then streams with nobody behind, with one, with two or more. Chains are seldom longer than three.
const CLASS_COUNT: usize = 4;
const READS: usize = 0;
const STREAMS: usize = 1;
/// One of so many parts is for reads alone: they hold memory only while their reader takes bytes, or nobody else needs
/// it; streams while their writer lives. A guess.
const READS_PART: u64 = 8;

#[derive(Clone, Debug)]
pub(crate) struct Budget {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    len: u64,
    state: Mutex<State>,
    /// Some came back.
    freed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// By class.
    taken: [u64; CLASS_COUNT],
    /// By class, the first that came at the front.
    waiting: [VecDeque<Waiting>; CLASS_COUNT],
    next_number: u64,
    /// The node stops: nobody waits any more.
    closed: bool,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    len: u64,
    granted: Sender<Reservation>,
}

/// Bytes taken from a budget; they go back when this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    len: u64,
    class: usize,
    shared: Arc<Shared>,
}

impl Budget {
    pub(crate) fn new(len: u64) -> Self {
        Self { shared: Arc::new(Shared { len, state: Mutex::default(), freed: Notify::new() }) }
    }

    /// Bytes that there are.
    pub(crate) fn len(&self) -> u64 {
        self.shared.len
    }

    /// Bytes that are taken now.
    pub(crate) fn used_len(&self) -> u64 {
        self.shared.lock().taken.iter().sum()
    }

    /// Returns when some was given back, after this was called.
    pub(crate) fn freed(&self) -> Notified<'_> {
        self.shared.freed.notified()
    }

    /// For a read. It does not wait.
    pub(crate) fn take_for_read(&self, len: u64) -> Option<Reservation> {
        self.take_now(len, READS)
    }

    fn take_now(&self, len: u64, class: usize) -> Option<Reservation> {
        self.shared.take(&mut self.shared.lock(), len, class).then(|| self.reservation(len, class))
    }

    /// For a stream with so many nodes behind this one. Blocks for `limit` at most; `None`: there was no room all the
    /// while.
    pub(crate) fn take_within(&self, len: u64, behind_count: usize, limit: Duration) -> Option<Reservation> {
        let class = stream_class(behind_count);
        let (number, granted) = {
            let mut state = self.shared.lock();
            if state.waiting[class].is_empty() && self.shared.take(&mut state, len, class) {
                return Some(self.reservation(len, class));
            }
            if state.closed || len > self.shared.share(class) {
                return None;
            }
            let (sender, granted) = mpsc::channel();
            let number = state.next_number;
            state.next_number += 1;
            state.waiting[class].push_back(Waiting { number, len, granted: sender });
            (number, granted)
        };
        let reservation = granted.recv_timeout(limit).ok();
        if reservation.is_none() {
            self.shared.lock().waiting[class].retain(|waiting| waiting.number != number);
            // Those behind it may need less. What was granted at this moment goes back with the channel.
            drop(granted);
            self.shared.grant();
        }
        reservation
    }

    /// Whether there is no room for such a stream because readers have too much, and no other streams.
    pub(crate) fn readers_have(&self, len: u64, behind_count: usize) -> bool {
        let (state, class) = (self.shared.lock(), stream_class(behind_count));
        let fits = |classes| self.shared.fits(&state, len, classes);
        fits(STREAMS..=class) && !fits(READS..=READS)
    }

    /// The node stops.
    pub(crate) fn close(&self) {
        let mut state = self.shared.lock();
        state.closed = true;
        state.waiting.iter_mut().for_each(VecDeque::clear);
    }

    fn reservation(&self, len: u64, class: usize) -> Reservation {
        Reservation { len, class, shared: Arc::clone(&self.shared) }
    }
}

impl Memory for Budget {
    type Held = Reservation;

    /// For who sends on to nobody and does not wait.
    fn take(&self, len: u64) -> Option<Reservation> {
        self.take_now(len, STREAMS)
    }
}

fn stream_class(behind_count: usize) -> usize {
    behind_count.min(CLASS_COUNT - 1 - STREAMS) + STREAMS
}

impl Shared {
    /// What streams of this class and of those above it may have together.
    fn share(&self, class: usize) -> u64 {
        let streams = self.len - self.len / READS_PART;
        class.checked_sub(STREAMS).map_or(self.len, |class| streams - streams / 4 * class as u64)
    }

    /// Whether the shares of these classes have room for `len` more.
    fn fits(&self, state: &State, len: u64, mut classes: RangeInclusive<usize>) -> bool {
        classes.all(|class| {
            let taken: u64 = state.taken[class..].iter().sum();
            taken.checked_add(len).is_some_and(|taken| taken <= self.share(class))
        })
    }

    fn take(&self, state: &mut State, len: u64, class: usize) -> bool {
        let fits = self.fits(state, len, READS..=class);
        if fits {
            state.taken[class] += len;
        }
        assert!(state.taken.iter().sum::<u64>() <= self.len, "more memory is taken than there is");
        fits
    }

    /// Gives what is free to those who wait.
    fn grant(self: &Arc<Self>) {
        loop {
            let (Waiting { len, granted, .. }, class) = {
                let mut state = self.lock();
                let mut classes = 0..CLASS_COUNT;
                let next = classes.find_map(|class| {
                    let len = state.waiting[class].front()?.len;
                    self.take(&mut state, len, class).then(|| (state.waiting[class].pop_front(), class))
                });
                let Some((Some(waiting), class)) = next else { return };
                (waiting, class)
            };
            // If nobody waits there any more, it comes back at once.
            let _ = granted.send(Reservation { len, class, shared: Arc::clone(self) });
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held for Reservation {
    fn held_len(&self) -> u64 {
        self.len
    }

    fn grow_to(&mut self, len: u64) -> bool {
        self.grow_if(len, |_| true)
    }

    fn shrink_to(&mut self, len: u64) {
        let back = self.len.saturating_sub(len);
        if back > 0 {
            self.len -= back;
            // What goes back is a reservation of its own for a moment.
            drop(Reservation { len: back, class: self.class, shared: Arc::clone(&self.shared) });
        }
    }

    /// The same, but only if half of all is free then, and nobody waits.
    fn grow_to_if_plenty(&mut self, len: u64) -> bool {
        let most = self.shared.len / 2;
        let more = len.saturating_sub(self.len);
        self.grow_if(len, |state| {
            state.waiting.iter().all(VecDeque::is_empty) && state.taken.iter().sum::<u64>() + more <= most
        })
    }
}

impl Reservation {
    fn grow_if(&mut self, len: u64, may: impl FnOnce(&State) -> bool) -> bool {
        let more = len.saturating_sub(self.len);
        let mut state = self.shared.lock();
        let grown = may(&state) && self.shared.take(&mut state, more, self.class);
        if grown {
            self.len += more;
        }
        grown
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let taken = state.taken[self.class].checked_sub(self.len);
        state.taken[self.class] = taken.expect("what goes back was taken");
        drop(state);
        self.shared.grant();
        self.shared.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_secs(60);

    impl Budget {
        /// One of which streams may take so much.
        fn of_streams(len: u64) -> Self {
            Self::new(len * READS_PART / (READS_PART - 1))
        }
    }

    #[test]
    fn what_is_taken_comes_back() {
        let budget = Budget::of_streams(100);
        let mut first = budget.take(60).unwrap();
        assert!(budget.take(41).is_none());
        let second = budget.take(30).unwrap();
        assert!(!first.grow_to(71) && first.grow_to(70));
        first.shrink_to(40);
        assert!(first.held_len() == 40 && !first.grow_to(71) && first.grow_to(70));
        drop((first, second));
        assert!(budget.take(100).is_some());
    }

    #[test]
    fn who_is_further_up_leaves_room_for_those_further_down() {
        let budget = Budget::of_streams(100);
        let heads: Vec<_> = std::iter::from_fn(|| budget.take_within(10, 2, NOW)).collect();
        let middles: Vec<_> = std::iter::from_fn(|| budget.take_within(10, 1, NOW)).collect();
        let tails: Vec<_> = std::iter::from_fn(|| budget.take_within(10, 0, NOW)).collect();
        assert_eq!((heads.len(), middles.len(), tails.len()), (5, 2, 3));
        drop(tails);
        assert!(budget.take_within(10, 7, NOW).is_none() && budget.take_within(10, 1, NOW).is_none());
        let tails: Vec<_> = std::iter::from_fn(|| budget.take_within(10, 0, NOW)).collect();
        drop((heads, middles));
        assert_eq!((tails.len(), budget.take_within(70, 0, NOW).map(|all| all.held_len())), (3, Some(70)));
    }

    /// Writers that hold all that they may get, for as long as they like, leave room for readers.
    #[test]
    fn streams_leave_room_for_reads() {
        let budget = Budget::new(80);
        let streams: Vec<_> = std::iter::from_fn(|| budget.take_within(10, 0, NOW)).collect();
        assert!(streams.len() == 7 && budget.take(1).is_none());
        let read = budget.take_for_read(10).unwrap();
        assert!(budget.take_for_read(1).is_none(), "never more than there is");
        drop((streams, read));
        assert!(budget.take_for_read(80).is_some());
    }

    #[test]
    fn plenty_is_half_of_all_and_nobody_waiting() {
        let budget = Budget::of_streams(100);
        let mut one = budget.take(10).unwrap();
        assert!(one.grow_to_if_plenty(57) && !one.grow_to_if_plenty(58) && one.grow_to(60));
    }

    #[test]
    fn who_waits_gets_what_comes_back_one_after_the_other() {
        let budget = Budget::of_streams(100);
        let all = budget.take(100).unwrap();
        let (sender, order) = mpsc::channel();
        let threads: Vec<_> = (0..3)
            .map(|number| {
                let (its_budget, sender) = (budget.clone(), sender.clone());
                let thread = io::task::thread("waits", move || {
                    let reservation = its_budget.take_within(60, 0, LONG).unwrap();
                    sender.send(number).unwrap();
                    drop(reservation);
                });
                while budget.shared.lock().waiting[STREAMS].len() <= number {
                    std::thread::yield_now();
                }
                thread.unwrap()
            })
            .collect();
        assert!(budget.take_within(10, 0, NOW).is_none(), "there is no room, and others came before");
        drop(all);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(order.try_iter().collect::<Vec<_>>(), [0, 1, 2]);
        assert!(budget.take(100).is_some(), "all came back");
    }

    #[test]
    fn nobody_waits_for_more_than_there_will_ever_be_or_for_a_node_that_stops() {
        let budget = Budget::of_streams(100);
        assert!(budget.take_within(101, 0, LONG).is_none() && budget.take_within(51, 2, LONG).is_none());
        let all = budget.take(100).unwrap();
        let waits = {
            let budget = budget.clone();
            io::task::thread("waits", move || assert!(budget.take_within(1, 0, LONG).is_none())).unwrap()
        };
        while budget.shared.lock().waiting[STREAMS].is_empty() {
            std::thread::yield_now();
        }
        budget.close();
        waits.join().unwrap();
        assert!(budget.take_within(1, 0, LONG).is_none());
        drop(all);
        assert!(budget.take(100).is_some());
    }
}
