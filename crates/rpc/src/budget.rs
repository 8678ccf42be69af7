//! How much memory requests and answers of all connections may take together.
//!
//! A request is let in when there is room for it. An answer is counted as what it is expected to need before its call
//! starts, and as what it has when it is there: so what is held exceeds the limit only by what nobody expected, and
//! while it does nothing more is let in.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// What the connections of a server hold of something, and may hold together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of `requests`, `long_requests`, `decoded_requests`, each also with `urgent_` before it for the urgent
    /// protocol, and of `answers`; or the number of `connections`.
    pub of: &'static str,
    pub now: usize,
    pub max: usize,
}

#[derive(Debug)]
pub(crate) struct Budget {
    held_len: AtomicUsize,
    /// That part of it which is there, and not only expected.
    made_len: AtomicUsize,
    held_len_max: usize,
    room: Notify,
    coming: Mutex<Queue>,
}

/// Requests that have not come whole, in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    next: u64,
    numbers: BTreeSet<u64>,
    /// What is held of them all.
    pub(crate) len: usize,
}

impl Queue {
    pub(crate) fn enter(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.numbers.insert(number);
        number
    }

    pub(crate) fn oldest(&self) -> Option<u64> {
        self.numbers.first().copied()
    }

    /// Of one that left already, `len` is zero.
    pub(crate) fn leave(&mut self, number: u64, len: usize) {
        self.numbers.remove(&number);
        self.len -= len;
    }
}

impl Budget {
    pub(crate) fn new(held_len_max: usize) -> Arc<Self> {
        Arc::new(Self {
            held_len: AtomicUsize::new(0),
            made_len: AtomicUsize::new(0),
            held_len_max,
            room: Notify::new(),
            coming: Mutex::default(),
        })
    }

    /// Waits for room. What alone exceeds the limit is let in when nothing else is held.
    pub(crate) async fn admit(self: &Arc<Self>, len: usize) -> Charge {
        let mut charge = None;
        self.when_room(|| {
            charge = self.try_admit(len);
            charge.is_some()
        })
        .await;
        charge.expect("it was let in")
    }

    /// Asks again whenever there is more room, until the answer is yes.
    pub(crate) async fn when_room(&self, mut goes: impl FnMut() -> bool) {
        loop {
            // Listen first, so that room made after the look is not missed.
            let room = self.room.notified();
            if goes() {
                return;
            }
            room.await;
        }
    }

    pub(crate) fn look_again(&self) {
        self.room.notify_waiters();
    }

    pub(crate) fn coming(&self) -> MutexGuard<'_, Queue> {
        self.coming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Budget::admit`], and what would exceed the limit is counted as the limit.
    pub(crate) async fn admit_at_most(self: &Arc<Self>, len: usize) -> Charge {
        self.admit(len.min(self.held_len_max)).await
    }

    /// All there is.
    pub(crate) fn held_len_max(&self) -> usize {
        self.held_len_max
    }

    /// Lets in without waiting: for what is so short that it is not worth a wait.
    pub(crate) fn count(self: &Arc<Self>, len: usize) -> Charge {
        self.held_len.fetch_add(len, Ordering::AcqRel);
        Charge { budget: self.clone(), len, made: false }
    }

    fn try_admit(self: &Arc<Self>, len: usize) -> Option<Charge> {
        let fits = |held: usize| (held == 0 || held + len <= self.held_len_max).then_some(held + len);
        self.held_len.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).ok()?;
        Some(Charge { budget: self.clone(), len, made: false })
    }

    /// Whether who holds some of it without need should be asked to leave.
    pub(crate) fn is_short(&self) -> bool {
        self.held_len() > self.held_len_max / 2
    }

    /// Waits until what was made has been taken, but for half of what may be held: who is about to make much more waits
    /// here, since what it was expected to need may have been too little.
    pub(crate) async fn taken(&self) {
        self.when_room(|| self.made_len.load(Ordering::Acquire) <= self.held_len_max / 2).await;
    }

    pub(crate) fn usage(&self, of: &'static str) -> Usage {
        Usage { of, now: self.held_len(), max: self.held_len_max }
    }

    pub(crate) fn held_len(&self) -> usize {
        self.held_len.load(Ordering::Acquire)
    }
}

/// Bytes that are held until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    len: usize,
    made: bool,
}

impl Charge {
    /// Counts what was made instead of what was expected. Once.
    pub(crate) fn made(&mut self, len: usize) {
        assert!(!self.made, "an answer is made once");
        self.made = true;
        self.budget.made_len.fetch_add(len, Ordering::AcqRel);
        self.resize(len);
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Holds more, whether there is room or not.
    pub(crate) fn grow(&mut self, more: usize) {
        self.resize(self.len + more);
    }

    pub(crate) fn resize(&mut self, len: usize) {
        if len > self.len {
            self.budget.held_len.fetch_add(len - self.len, Ordering::AcqRel);
        } else if len < self.len {
            self.budget.held_len.fetch_sub(self.len - len, Ordering::AcqRel);
            self.budget.room.notify_waiters();
        }
        self.len = len;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.held_len.fetch_sub(self.len, Ordering::AcqRel);
        if self.made {
            self.budget.made_len.fetch_sub(self.len, Ordering::AcqRel);
        }
        self.budget.room.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn who_finds_no_room_waits_for_it() {
        let budget = Budget::new(100);
        let first = budget.admit(60).await;
        let mut answer = budget.admit(10).await;
        answer.made(70);
        assert!(budget.is_short());
        let taken = budget.taken();
        tokio::pin!(taken);
        assert!(tokio::time::timeout(Duration::from_millis(5), &mut taken).await.is_err());
        let waiting = budget.admit(30);
        tokio::pin!(waiting);
        assert!(tokio::time::timeout(Duration::from_millis(5), &mut waiting).await.is_err());
        drop(first);
        assert!(tokio::time::timeout(Duration::from_millis(5), &mut waiting).await.is_ok());
        drop(answer);
        assert!(tokio::time::timeout(Duration::from_millis(5), &mut taken).await.is_ok());
        assert_eq!(budget.held_len(), 0, "the charge of the finished wait is dropped with it");
        let _large = budget.admit(1000).await;
    }
}
