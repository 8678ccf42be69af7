//! Queue of lines for the audit log's thread.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long lines are gathered before they are written. Written one by one each would wake the thread: 3 % of what a
/// `mkdir` costs this server (`perf`, 8 connections).
const GATHER_TIME: Duration = Duration::from_millis(50);
/// The part of the room at which they are written at once.
const GATHER_SHARE: usize = 4;

/// Lines since this process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) written: u64,
    pub(crate) dropped: u64,
}

#[derive(Debug)]
pub(super) struct Queue {
    len_max: usize,
    state: Mutex<State>,
    came: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: Vec<u8>,
    count: u64,
    /// Lines for which there was no room since the last batch.
    dropped: u64,
    is_closed: bool,
    counts: Counts,
}

/// What is written together.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) lines: Vec<u8>,
    pub(super) count: u64,
    /// Lines that are missing behind these.
    pub(super) dropped: u64,
}

impl Queue {
    pub(super) fn new(len_max: usize) -> Self {
        Self { len_max, state: Mutex::default(), came: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Counts and whole lines.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Never waits: a line without room is counted.
    pub(super) fn push(&self, line: &[u8]) {
        assert_eq!(line.last(), Some(&b'\n'), "a line ends with its end");
        let mut state = self.lock();
        if state.is_closed || state.lines.len() + line.len() > self.len_max {
            state.dropped += 1;
            state.counts.dropped += 1;
            return;
        }
        let was_gathered = self.is_gathered(&state);
        state.lines.extend_from_slice(line);
        state.count += 1;
        let must_wake = state.count == 1 || (!was_gathered && self.is_gathered(&state));
        drop(state);
        if must_wake {
            self.came.notify_one();
        }
    }

    fn is_gathered(&self, state: &State) -> bool {
        state.lines.len() >= self.len_max / GATHER_SHARE
    }

    /// All that waits, some moments after there is something. `None`: it is closed.
    pub(super) fn take(&self) -> Option<Batch> {
        let mut state = self.lock();
        while state.count == 0 && !state.is_closed {
            state = self.came.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let is_to_come = |state: &mut State| !state.is_closed && !self.is_gathered(state);
        let gathered = self.came.wait_timeout_while(state, GATHER_TIME, is_to_come);
        (state, _) = gathered.unwrap_or_else(PoisonError::into_inner);
        if state.count == 0 {
            return None;
        }
        assert!(state.lines.len() <= self.len_max, "{} bytes wait for the disk", state.lines.len());
        let lines = std::mem::take(&mut state.lines);
        debug_assert_eq!(lines.iter().filter(|byte| **byte == b'\n').count() as u64, state.count, "lines that wait");
        let (count, dropped) = (std::mem::take(&mut state.count), std::mem::take(&mut state.dropped));
        Some(Batch { lines, count, dropped })
    }

    pub(super) fn was_written(&self, count: u64) {
        self.lock().counts.written += count;
    }

    /// A batch could not be written. Its lines are missing before the next one.
    pub(super) fn was_lost(&self, count: u64, dropped: u64) {
        let mut state = self.lock();
        state.counts.dropped += count;
        state.dropped += count + dropped;
    }

    /// What waits is taken still.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.came.notify_one();
    }

    pub(super) fn counts(&self) -> Counts {
        self.lock().counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines that come one after the other are written together.
    #[test]
    fn lines_are_gathered() {
        let queue = Queue::new(1 << 20);
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| queue.take());
            queue.push(b"1\n");
            queue.push(b"2\n");
            let taken = taken.join().unwrap().unwrap();
            assert!(taken.count == 2 || queue.take().unwrap().count == 1, "{taken:?}");
        });
        queue.close();
        assert_eq!(queue.take(), None);
    }

    /// The disk does not keep up: lines are dropped, none is cut, and the file is told how many there were.
    #[test]
    fn what_has_no_room_is_counted() {
        let queue = Queue::new(10);
        ["1234\n", "567\n", "89\n", "0\n"].iter().for_each(|line| queue.push(line.as_bytes()));
        assert_eq!(queue.take(), Some(Batch { lines: b"1234\n567\n".to_vec(), count: 2, dropped: 2 }));
        queue.was_written(2);
        assert_eq!(queue.counts(), Counts { written: 2, dropped: 2 });
        queue.push(b"1\n");
        let Batch { count, dropped, .. } = queue.take().unwrap();
        queue.was_lost(count, dropped);
        queue.push(b"2\n");
        assert_eq!(queue.take().unwrap().dropped, 1, "a line that the disk refused");
        assert_eq!(queue.counts().dropped, 3);
        queue.push(b"3\n");
        queue.close();
        queue.push(b"4\n");
        assert_eq!(queue.take().unwrap().lines, b"3\n");
        assert_eq!(queue.take(), None);
    }
}
