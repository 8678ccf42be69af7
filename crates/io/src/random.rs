//! Chance from the operating system, for identifiers, keys and placement; in a simulation what its
//! [`crate::simulated::Simulator`] draws.

use rustix::rand::{GetRandomFlags, getrandom};
use std::fmt;
use types::Random;

/// Draws from the kernel, some numbers at a time.
pub struct OsRandom {
    drawn: [u8; 256],
    left: usize,
}

impl OsRandom {
    pub fn new() -> Self {
        Self { drawn: [0; 256], left: 0 }
    }
}

impl Default for OsRandom {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for OsRandom {
    /// Says nothing of the numbers still to come.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OsRandom")
    }
}

impl Random for OsRandom {
    fn next_u64(&mut self) -> u64 {
        if self.left == 0 {
            fill(&mut self.drawn);
            self.left = self.drawn.len();
        }
        let mut number = [0; 8];
        number.copy_from_slice(&self.drawn[self.left - 8..self.left]);
        // What was handed out must not be found in memory later: it may have become a key.
        self.drawn[self.left - 8..self.left].fill(0);
        self.left -= 8;
        u64::from_ne_bytes(number)
    }
}

/// One random number.
pub fn random_u64() -> u64 {
    let mut bytes = [0; 8];
    fill(&mut bytes);
    u64::from_ne_bytes(bytes)
}

/// Sixteen random bytes: a node, a volume, a client.
pub fn uuid() -> [u8; 16] {
    let mut bytes = [0; 16];
    fill(&mut bytes);
    // RFC 9562: version 4, variant 1.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

/// Fills `bytes`. The kernel's generator cannot fail once the machine is up, and nothing sound can follow if it does.
pub fn fill(mut bytes: &mut [u8]) {
    if let Some(simulator) = crate::simulated::simulator() {
        for piece in bytes.chunks_mut(8) {
            piece.copy_from_slice(&simulator.random_u64().to_ne_bytes()[..piece.len()]);
        }
        return;
    }
    while !bytes.is_empty() {
        match getrandom(&mut *bytes, GetRandomFlags::empty()) {
            Ok(drawn) => bytes = &mut bytes[drawn..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the kernel gives no random numbers: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_differ() {
        let mut random = OsRandom::new();
        let mut drawn: Vec<u64> = (0..1000).map(|_| random.next_u64()).collect();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), 1000);
        assert_ne!(random_u64(), random_u64());
        assert_ne!(uuid(), uuid());
        assert_eq!(uuid()[6] >> 4, 4);
    }
}
