//! Memory that nobody counts: a client's own.

use xfer::memory::Held;

#[derive(Debug, Default)]
pub struct Uncounted(u64);

impl Held for Uncounted {
    fn held_len(&self) -> u64 {
        self.0
    }

    fn grow_to(&mut self, len: u64) -> bool {
        self.0 = self.0.max(len);
        true
    }
}
