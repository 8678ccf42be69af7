//! Settings of a metadata server that change while it runs: those that a new reading of its file may give other values.
//!
//! Promise: whoever asks gets the value of the last reading; nobody keeps one for longer than a step. All other
//! settings are those of the start.

use crate::config::Config;
use std::sync::atomic::{AtomicU64, Ordering};

/// The names of these settings, as the file has them. What else differs in it waits for the next start.
pub(crate) const KEYS: &[&str] = &["trash_interval_ms", "trash_checkpoint_ms", "balance_each_ms", "balance_len_per_s"];

#[derive(Debug)]
pub(crate) struct Live {
    trash_interval_ms: AtomicU64,
    trash_checkpoint_ms: AtomicU64,
    balance_each_ms: AtomicU64,
    balance_len_per_s: AtomicU64,
}

impl Live {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            trash_interval_ms: AtomicU64::new(config.trash_interval_ms),
            trash_checkpoint_ms: AtomicU64::new(config.trash_checkpoint_ms),
            balance_each_ms: AtomicU64::new(config.balance_each_ms),
            balance_len_per_s: AtomicU64::new(config.balance_len_per_s),
        }
    }

    /// Takes what a checked configuration has for them.
    pub(crate) fn set(&self, config: &Config) {
        self.trash_interval_ms.store(config.trash_interval_ms, Ordering::Relaxed);
        self.trash_checkpoint_ms.store(config.trash_checkpoint_ms, Ordering::Relaxed);
        self.balance_each_ms.store(config.balance_each_ms, Ordering::Relaxed);
        self.balance_len_per_s.store(config.balance_len_per_s, Ordering::Relaxed);
    }

    /// How often balancing begins by itself; `None`: never.
    pub(crate) fn balance_each_ms(&self) -> Option<u64> {
        Some(self.balance_each_ms.load(Ordering::Relaxed)).filter(|each| *each > 0)
    }

    /// 0: no limit.
    pub(crate) fn balance_len_per_s(&self) -> u64 {
        self.balance_len_per_s.load(Ordering::Relaxed)
    }

    /// How long a checkpoint of the trash is kept; `None`: there is no trash.
    pub(crate) fn trash_interval_ms(&self) -> Option<u64> {
        Some(self.trash_interval_ms.load(Ordering::Relaxed)).filter(|interval| *interval > 0)
    }

    /// Between two checkpoints of the trash. As in HDFS: none means, and more counts as, the interval itself.
    pub(crate) fn trash_checkpoint_ms(&self) -> Option<u64> {
        let interval = self.trash_interval_ms()?;
        let checkpoint = self.trash_checkpoint_ms.load(Ordering::Relaxed);
        let each = if checkpoint == 0 { interval } else { checkpoint.min(interval) };
        assert!((1..=interval).contains(&each), "a checkpoint each {each} ms, kept for {interval} ms");
        Some(each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_come_at_least_as_often_as_the_interval() {
        let of = |interval, checkpoint| {
            let mut config = Config::new("/d".into(), ([127, 0, 0, 1], 1).into());
            (config.trash_interval_ms, config.trash_checkpoint_ms) = (interval, checkpoint);
            Live::new(&config).trash_checkpoint_ms()
        };
        assert_eq!([of(0, 5), of(9, 0), of(9, 5), of(9, 20)], [None, Some(9), Some(5), Some(9)]);
    }
}
