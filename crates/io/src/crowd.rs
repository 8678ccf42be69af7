//! Who is connected to a port, and who goes when there are too many.
//!
//! Promise: no more than `max` connections stay, and none that is being answered goes for a new one. What goes is the
//! one whose peer has been waited for longest: a request that does not come, an answer that is not taken. So thousands
//! who say nothing push out each other, and a client that asks at once is served.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

#[derive(Debug)]
pub struct Crowd {
    max: usize,
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    taken: usize,
    /// Numbers the waits, in the order in which they began.
    next: u64,
    /// Those whose peer is waited for.
    waiting: BTreeMap<u64, Arc<Notify>>,
}

/// The place of one connection, which it gives back when this is dropped.
#[derive(Debug)]
pub struct Seat {
    crowd: Arc<Crowd>,
    state: Mutex<State>,
    leave: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    /// Requests under way, and those of them whose answer is not being taken.
    works: usize,
    stalls: usize,
    /// Its wait, if its peer is waited for.
    wait: Option<u64>,
}

/// A request that is under way.
#[derive(Debug)]
pub struct Work(Arc<Seat>);

/// An answer that its peer does not take at the moment.
#[derive(Debug)]
pub struct Stall(Arc<Seat>);

impl Crowd {
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, places: Mutex::default() })
    }

    /// A place for one more, who is waited for. `None`: all others are being answered.
    pub fn enter(self: &Arc<Self>) -> Option<Arc<Seat>> {
        let mut places = self.places();
        if places.taken >= self.max {
            let (_, leave) = places.waiting.pop_first()?;
            places.taken -= 1; // it is as good as gone
            leave.notify_one();
        }
        places.taken += 1;
        drop(places);
        let seat = Seat { crowd: Arc::clone(self), state: Mutex::default(), leave: Arc::default() };
        seat.change(|_| {});
        Some(Arc::new(seat))
    }

    /// How many are connected.
    pub fn count(&self) -> usize {
        self.places().taken
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// A request begins; it ends when what is returned is dropped. There may be several at a time.
    pub fn work(self: &Arc<Self>) -> Work {
        self.change(|state| state.works += 1);
        Work(Arc::clone(self))
    }

    /// The answer of a request waits to be taken, until what is returned is dropped.
    pub fn stall(self: &Arc<Self>) -> Stall {
        self.change(|state| state.stalls += 1);
        Stall(Arc::clone(self))
    }

    /// Returns when another needs the place.
    pub async fn evicted(&self) {
        self.leave.notified().await;
    }

    fn change(&self, how: impl FnOnce(&mut State)) {
        let mut state = self.state();
        how(&mut state);
        match (state.works == 0 || state.stalls > 0, state.wait) {
            (true, None) => {
                let mut places = self.crowd.places();
                let number = places.next;
                places.next += 1;
                places.waiting.insert(number, Arc::clone(&self.leave));
                state.wait = Some(number);
            }
            // One that was told to leave stays told: its number remains with it, so that its place is not given back
            // twice.
            (false, Some(number)) if self.crowd.places().waiting.remove(&number).is_some() => state.wait = None,
            _ => {}
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let wait = self.state().wait;
        let mut places = self.crowd.places();
        let has_its_place = wait.is_none_or(|number| places.waiting.remove(&number).is_some());
        places.taken -= usize::from(has_its_place);
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.change(|state| state.works -= 1);
    }
}

impl Drop for Stall {
    fn drop(&mut self) {
        self.0.change(|state| state.stalls -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_evicted(seat: &Seat) -> bool {
        pin!(seat.evicted()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_longest_wait_ends_for_who_is_new() {
        let crowd = Crowd::new(3);
        let seats: Vec<_> = (0..3).map(|_| crowd.enter().unwrap()).collect();
        drop(seats[0].work()); // its wait has begun anew
        let fourth = crowd.enter().unwrap();
        assert_eq!(seats.iter().map(|seat| is_evicted(seat)).collect::<Vec<_>>(), [false, true, false]);
        drop(seats[1].work()); // too late
        drop(seats);
        assert_eq!(crowd.count(), 1);
        drop(fourth);
        assert_eq!((crowd.count(), crowd.places().waiting.len()), (0, 0));
    }

    #[test]
    fn who_is_being_answered_stays() {
        let crowd = Crowd::new(2);
        let seats: Vec<_> = (0..2).map(|_| crowd.enter().unwrap()).collect();
        let [_first, second, third] = [&seats[0], &seats[1], &seats[1]].map(Seat::work);
        assert!(crowd.enter().is_none());
        drop(second);
        assert!(crowd.enter().is_none());
        drop(third);
        let third = crowd.enter().unwrap();
        assert!(is_evicted(&seats[1]) && !is_evicted(&seats[0]) && !is_evicted(&third));
    }

    #[test]
    fn who_does_not_take_an_answer_goes() {
        let crowd = Crowd::new(1);
        let seat = crowd.enter().unwrap();
        let _work = seat.work();
        drop(seat.stall());
        assert!(crowd.enter().is_none());
        let _stall = seat.stall();
        assert!(crowd.enter().is_some() && is_evicted(&seat));
    }
}
