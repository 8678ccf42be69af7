//! Whether a client keeps up while memory is held for it: others wait for that memory.

use crate::budget::Budget;
use crate::options::ServerOptions;
use ::io::{Clock, SystemClock};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// What is asked of the clients of a server, in one direction.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    /// For a frame or a batch of frames, and a second more for each `per_second_min` bytes of it.
    time_max: Duration,
    per_second_min: usize,
    /// While `budget` is short, so many bytes a second must move, looked at in these intervals.
    look_every: Duration,
    budget: Arc<Budget>,
}

impl Patience {
    pub(crate) fn new(time_max: Duration, options: &ServerOptions, budget: &Arc<Budget>) -> Self {
        Self {
            time_max,
            per_second_min: options.len_per_second_min.max(1),
            look_every: options.stall_time_max,
            budget: budget.clone(),
        }
    }

    /// Begins to wait for `len` bytes.
    pub(crate) fn begin(&self, len: usize) -> Pace<'_> {
        let end = self.time_max + Duration::from_secs_f64(len as f64 / self.per_second_min as f64);
        Pace { patience: self, clock: SystemClock::new(), end, look: self.look_every, moved_len: 0 }
    }
}

/// One client that moves some bytes.
#[derive(Debug)]
pub(crate) struct Pace<'a> {
    patience: &'a Patience,
    clock: SystemClock,
    /// On that clock.
    end: Duration,
    look: Duration,
    /// Since the last look.
    moved_len: usize,
}

impl Pace<'_> {
    /// Waits for what the client has no part in: its time stands still.
    pub(crate) async fn pause<T>(&mut self, wait: impl Future<Output = T>) -> T {
        let before = self.clock.monotonic();
        let done = wait.await;
        let waited = self.clock.monotonic().saturating_sub(before);
        self.end += waited;
        self.look += waited;
        done
    }

    /// Waits for one read or write, unless the client is too slow.
    pub(crate) async fn step(&mut self, transfer: impl Future<Output = io::Result<usize>>) -> io::Result<usize> {
        tokio::pin!(transfer);
        loop {
            let left = self.look.min(self.end).saturating_sub(self.clock.monotonic());
            let moved = match timeout(left, &mut transfer).await {
                Ok(moved) => Some(moved?),
                Err(_elapsed) => None,
            };
            self.moved_len += moved.unwrap_or(0);
            let now = self.clock.monotonic();
            if now >= self.end {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if now >= self.look {
                let due = self.patience.look_every.as_secs_f64() * self.patience.per_second_min as f64;
                if (self.moved_len as f64) < due && self.patience.budget.is_short() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                (self.look, self.moved_len) = (now + self.patience.look_every, 0);
            }
            if let Some(moved) = moved {
                return Ok(moved);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patience(budget: &Arc<Budget>) -> Patience {
        let options = ServerOptions {
            len_per_second_min: 1000,
            stall_time_max: Duration::from_millis(20),
            ..ServerOptions::default()
        };
        Patience::new(Duration::from_secs(60), &options, budget)
    }

    /// Moves one byte each five milliseconds, for a fifth of a second.
    async fn dribble(patience: &Patience) -> io::Result<()> {
        let mut pace = patience.begin(40);
        for _ in 0..40 {
            let byte = async {
                tokio::time::sleep(Duration::from_millis(5)).await;
                Ok(1)
            };
            pace.step(byte).await?;
        }
        Ok(())
    }

    #[tokio::test]
    async fn our_own_waits_are_not_the_clients() {
        let budget = Budget::new(100);
        let _held = budget.admit(60).await;
        let patience = patience(&budget);
        let mut pace = patience.begin(40);
        pace.pause(tokio::time::sleep(Duration::from_millis(100))).await;
        assert_eq!(pace.step(async { Ok(40) }).await.unwrap(), 40);
    }

    #[tokio::test]
    async fn who_is_slow_is_only_cut_off_where_memory_is_short() {
        let budget = Budget::new(100);
        let patience = patience(&budget);
        dribble(&patience).await.unwrap();
        let _held = budget.admit(60).await;
        assert_eq!(dribble(&patience).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
