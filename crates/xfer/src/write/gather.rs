//! When a stream waits for several packets at once.
//!
//! A node that is quicker than its writer sleeps between two packets and wakes for each, and for each ack from below:
//! on a virtual machine that costs more than what is done with a packet. So once bytes have come without a pause for a
//! while, it sleeps until several packets are here, and takes the acks with them. Most writers have far more under way
//! than that before they wait for an ack.
//!
//! Who does wait for one, as after `hflush`, is held up by [`Gather::patience`], once for the whole chain, since all of
//! its nodes begin to wait at about the same time. That is a pause, after which packets are taken one by one again, for
//! as long as [`Gather`] thinks right.

use std::time::Duration;

#[derive(Debug)]
pub struct Gather {
    /// Bytes since the last pause.
    came: usize,
    /// From so many on it gathers.
    needed: usize,
    /// The longest of the last waits that brought all.
    took: Duration,
}

impl Gather {
    /// What it waits for: three packets of any stock client (Java's have 65,047 bytes), or most of one of ours.
    pub const LEN: usize = 190 << 10;
    /// Files of a few megabytes, and parts of files, are not held up at their end.
    const NEEDED_MIN: usize = 4 << 20;
    /// Who pauses again and again, as one that writes a log does, is held up once for so many bytes, in each block
    /// more often at first.
    const NEEDED_MAX: usize = 16 << 20;
    /// A pause is no shorter than what a busy machine may need to run a writer's next thread.
    const PATIENCE_MIN: Duration = Duration::from_micros(500);
    /// A client of 50 MB/s, as one that encrypts, sends [`Self::LEN`] meanwhile.
    const PATIENCE_MAX: Duration = Duration::from_millis(4);

    pub fn is_due(&self) -> bool {
        self.came >= self.needed
    }

    /// How long it waits.
    pub fn patience(&self) -> Duration {
        (3 * self.took).clamp(Self::PATIENCE_MIN, Self::PATIENCE_MAX)
    }

    pub fn on_received(&mut self, len: usize) {
        self.came += len;
        if self.came >= 2 * self.needed {
            self.needed = (self.needed / 2).max(Self::NEEDED_MIN);
        }
    }

    /// It waited so long, and all came.
    pub fn on_gathered(&mut self, took: Duration) {
        self.took = took.max(self.took * 7 / 8);
    }

    /// It waited, and less came.
    pub fn on_pause(&mut self) {
        self.came = 0;
        self.needed = (2 * self.needed).min(Self::NEEDED_MAX);
        self.took = Self::PATIENCE_MAX;
    }
}

impl Default for Gather {
    fn default() -> Self {
        Self { came: 0, needed: Self::NEEDED_MIN, took: Self::PATIENCE_MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often a writer was held up that pauses after so many bytes.
    fn pauses(gather: &mut Gather, every: usize, count: usize) -> usize {
        let mut pauses = 0;
        for _ in 0..count {
            gather.on_received(every);
            if gather.is_due() {
                gather.on_pause();
                pauses += 1;
            }
        }
        pauses
    }

    #[test]
    fn who_pauses_again_and_again_is_hardly_held_up() {
        let mut gather = Gather::default();
        assert_eq!(pauses(&mut gather, 1000, 1000), 0, "a file of a megabyte");
        for every in [1000, 100_000, 1 << 20] {
            let count = (256 << 20) / every;
            let pauses = pauses(&mut Gather::default(), every, count);
            assert!((10..=20).contains(&pauses), "{pauses} pauses of {count}, each behind {every} bytes");
        }
    }

    #[test]
    fn a_quick_writer_is_held_up_for_a_shorter_time_than_a_slow_one() {
        let mut gather = Gather::default();
        assert_eq!(gather.patience(), Gather::PATIENCE_MAX);
        (0..50).for_each(|_| gather.on_gathered(Duration::from_micros(400)));
        assert_eq!(gather.patience(), Duration::from_micros(1200));
        gather.on_pause();
        assert_eq!(gather.patience(), Gather::PATIENCE_MAX);
    }

    #[test]
    fn a_pause_now_and_then_is_soon_forgotten() {
        let mut gather = Gather::default();
        for _ in 0..10 {
            gather.on_received(Gather::NEEDED_MAX);
            assert!(gather.is_due());
            gather.on_pause();
        }
        assert!(gather.needed <= 2 * Gather::NEEDED_MIN, "{}", gather.needed);
    }
}
