//! Who is connected, and who goes when there are too many.
//!
//! Promise: no more than `max` connections stay, and none that is being answered goes for a new one. What goes is the one
//! whose client has been waited for longest: a request that does not come, an answer that is not taken. So thousands who
//! say nothing push out each other, and a client that asks at once is served.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

#[derive(Debug)]
pub(crate) struct Crowd {
    max: usize,
    seats: Mutex<Seats>,
}

#[derive(Debug, Default)]
struct Seats {
    taken: usize,
    /// Numbers the waits, in the order in which they began.
    next: u64,
    /// Those whose client is waited for.
    waiting: BTreeMap<u64, Arc<Notify>>,
}

/// The place of one connection, which it gives back when this is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    crowd: Arc<Crowd>,
    /// Its wait, if its client is waited for.
    wait: Mutex<Option<u64>>,
    leave: Arc<Notify>,
}

impl Crowd {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, seats: Mutex::default() })
    }

    /// A place for one more. `None`: all others are being answered.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Arc<Seat>> {
        let mut seats = self.seats();
        if seats.taken >= self.max {
            let (_, leave) = seats.waiting.pop_first()?;
            seats.taken -= 1; // it is as good as gone
            leave.notify_one();
        }
        seats.taken += 1;
        drop(seats);
        let seat = Seat { crowd: Arc::clone(self), wait: Mutex::default(), leave: Arc::default() };
        seat.waits();
        Some(Arc::new(seat))
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// From now on its client is waited for.
    pub(crate) fn waits(&self) {
        let mut wait = self.wait();
        if wait.is_none() {
            let mut seats = self.crowd.seats();
            let number = seats.next;
            seats.next += 1;
            seats.waiting.insert(number, Arc::clone(&self.leave));
            *wait = Some(number);
        }
    }

    /// From now on it is being answered.
    pub(crate) fn works(&self) {
        let mut wait = self.wait();
        // One that was told to leave stays told: its number remains with it, so that its place is not given back twice.
        if let Some(number) = *wait
            && self.crowd.seats().waiting.remove(&number).is_some()
        {
            *wait = None;
        }
    }

    /// Returns when another needs the place.
    pub(crate) async fn told_to_leave(&self) {
        self.leave.notified().await;
    }

    fn wait(&self) -> MutexGuard<'_, Option<u64>> {
        self.wait.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let wait = *self.wait();
        let mut seats = self.crowd.seats();
        let has_its_place = wait.is_none_or(|number| seats.waiting.remove(&number).is_some());
        seats.taken -= usize::from(has_its_place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn told(seat: &Seat) -> bool {
        seat.told_to_leave().now_or_never().is_some()
    }

    #[test]
    fn the_longest_wait_ends_for_who_is_new() {
        let crowd = Crowd::new(3);
        let seats: Vec<_> = (0..3).map(|_| crowd.enter().unwrap()).collect();
        seats[0].works();
        seats[0].waits(); // its wait has begun anew
        let fourth = crowd.enter().unwrap();
        assert_eq!(seats.iter().map(|seat| told(seat)).collect::<Vec<_>>(), [false, true, false]);
        seats[1].works(); // too late
        drop(seats);
        assert_eq!(crowd.seats().taken, 1);
        drop(fourth);
        let seats = crowd.seats();
        assert_eq!((seats.taken, seats.waiting.len()), (0, 0));
    }

    #[test]
    fn who_is_being_answered_stays() {
        let crowd = Crowd::new(2);
        let seats: Vec<_> = (0..2).map(|_| crowd.enter().unwrap()).collect();
        seats.iter().for_each(|seat| seat.works());
        assert!(crowd.enter().is_none());
        seats[1].waits();
        let third = crowd.enter().unwrap();
        assert!(told(&seats[1]) && !told(&seats[0]) && !told(&third));
    }
}
