//! Bytes that came on a connection and were not consumed yet.
//!
//! Promise: what stands behind the last message of one operation is there for the next. It holds what its user made
//! room for and no more, so its length is bounded by the bounds of the messages.

/// Room kept for the next operation: its answer, and what a small read brings. A guess.
const KEPT_LEN: usize = 16 << 10;

/// ```text
/// 0          at                 end                 len
/// ┌──────────┬──────────────────┬───────────────────┐
/// │ consumed │ came             │ room for the next │
/// └──────────┴──────────────────┴───────────────────┘
/// ```
#[derive(Debug, Default)]
pub struct Front {
    bytes: Vec<u8>,
    at: usize,
    end: usize,
}

impl Front {
    /// What came and is not consumed.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.at..self.end]
    }

    pub fn is_empty(&self) -> bool {
        self.at == self.end
    }

    pub fn consume(&mut self, len: usize) {
        assert!(len <= self.end - self.at, "{len} bytes consumed of {} that came", self.end - self.at);
        self.at += len;
        if self.at == self.end {
            (self.at, self.end) = (0, 0);
        }
    }

    /// Where the next `len` bytes go. What was left there before is no matter.
    pub fn room(&mut self, len: usize) -> &mut [u8] {
        if self.at > 0 && len > 0 {
            self.bytes.copy_within(self.at..self.end, 0);
            (self.at, self.end) = (0, self.end - self.at);
        }
        if self.bytes.len() < self.end + len {
            self.bytes.resize(self.end + len, 0);
        }
        &mut self.bytes[self.end..self.end + len]
    }

    /// So many bytes came into the room.
    pub fn received(&mut self, len: usize) {
        assert!(len <= self.bytes.len() - self.end, "{len} bytes came into less room");
        self.end += len;
    }

    /// An operation has ended: a connection that waits for the next one holds little.
    pub fn give_back(&mut self) {
        self.keep(KEPT_LEN);
    }

    /// Keeps no more room than this for what comes next.
    pub fn keep(&mut self, kept_len: usize) {
        self.bytes.copy_within(self.at..self.end, 0);
        (self.at, self.end) = (0, self.end - self.at);
        self.bytes.truncate(self.end.max(kept_len));
        self.bytes.shrink_to(kept_len);
    }

    /// What is not consumed, for another reader of the same connection.
    pub fn into_rest(mut self) -> Vec<u8> {
        self.bytes.truncate(self.end);
        self.bytes.drain(..self.at);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_between_two_operations_holds_little_and_loses_nothing() {
        let mut front = Front::default();
        front.room(1 << 20).fill(7);
        front.received(1 << 20);
        front.consume((1 << 20) - 3);
        front.give_back();
        assert_eq!(front.bytes(), [7; 3]);
        assert!(front.bytes.capacity() <= KEPT_LEN, "{}", front.bytes.capacity());
        front.keep(10);
        assert_eq!((front.bytes(), front.bytes.capacity()), (&[7; 3][..], 10));
    }
}
