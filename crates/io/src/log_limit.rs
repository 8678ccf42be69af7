//! Messages of the log that others can cause as often as they like.
//!
//! Promise: of one [`LogLimit`] a message is logged at most once in its pause, and says how many were passed over.

use crate::time::Moment;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// For one message of the log.
#[derive(Debug)]
pub struct LogLimit {
    pause: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    logged: Option<Moment>,
    passed_over: u64,
}

impl LogLimit {
    /// Once in `pause` at most.
    pub const fn new(pause: Duration) -> Self {
        Self { pause, state: Mutex::new(State { logged: None, passed_over: 0 }) }
    }

    /// Whether the message is to be logged now; if so, how many were not since the last one that was.
    pub fn due(&self) -> Option<u64> {
        self.due_at(Moment::now())
    }

    fn due_at(&self, now: Moment) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.logged.is_some_and(|logged| now < logged + self.pause) {
            state.passed_over = state.passed_over.saturating_add(1);
            return None;
        }
        state.logged = Some(now);
        Some(std::mem::take(&mut state.passed_over))
    }
}

/// Once in five seconds, as people read it. A guess.
impl Default for LogLimit {
    fn default() -> Self {
        Self::new(Duration::from_secs(5))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_logged_once_in_its_pause_with_the_number_passed_over() {
        let (limit, begin) = (LogLimit::default(), Moment::now());
        let due = |ms| limit.due_at(begin + Duration::from_millis(ms));
        assert_eq!(due(0), Some(0));
        assert_eq!([due(1), due(2), due(4999)], [None; 3]);
        assert_eq!(due(5000), Some(3));
        assert_eq!(due(5001), None);
        assert_eq!(due(20_000), Some(1));
    }
}
