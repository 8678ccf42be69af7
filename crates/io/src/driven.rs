//! A socket and the endpoint that speaks over it: bytes that came go to it, what it wants to be sent goes out, and it
//! is woken when it wants to be.
//!
//! ```text
//!            ┌── read into its buffer ◀──┐
//! Driven ◀───┤                           ├── socket
//!  (locked   └── pieces, many at once ──▶┘
//!  for each step; never while the socket is read or written)
//! ```

use crate::clock::{Clock, SystemClock};
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::Notify;
use types::endpoint::Endpoint;

/// Pieces of one write.
const PIECE_COUNT_MAX: usize = 128;

/// An endpoint that many use while [`Driven::run`] carries its bytes.
#[derive(Debug)]
pub struct Driven<E> {
    state: Mutex<State<E>>,
    clock: SystemClock,
    reader: Notify,
    writer: Notify,
    timer: Notify,
}

#[derive(Debug)]
struct State<E> {
    endpoint: E,
    /// When the timer will look again by itself.
    looks_at: Duration,
}

impl<E: Endpoint> Driven<E> {
    pub fn new(begin: impl FnOnce(Duration) -> E) -> Self {
        let clock = SystemClock::new();
        let state = State { endpoint: begin(clock.monotonic()), looks_at: Duration::MAX };
        Self { state: Mutex::new(state), clock, reader: Notify::new(), writer: Notify::new(), timer: Notify::new() }
    }

    /// Something happens to the endpoint; whatever follows from it is done soon.
    pub fn with<R>(&self, act: impl FnOnce(&mut E, Duration) -> R) -> R {
        let now = self.clock.monotonic();
        let mut state = self.lock();
        let result = act(&mut state.endpoint, now);
        let sooner = state.endpoint.poll_timeout().is_some_and(|at| at < state.looks_at);
        drop(state);
        self.reader.notify_one();
        self.writer.notify_one();
        if sooner {
            self.timer.notify_one();
        }
        result
    }

    pub fn is_ended(&self) -> bool {
        self.lock().endpoint.is_ended()
    }

    fn lock(&self) -> MutexGuard<'_, State<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries bytes until the endpoint has ended, and hands its events on.
    pub async fn run(&self, socket: &mut TcpStream, mut on_event: impl FnMut(E::Event)) {
        let (mut inward, mut outward) = socket.split();
        let lost = tokio::select! {
            read = self.read(&mut inward, &mut on_event) => read,
            written = self.write(&mut outward) => written,
            () = self.keep_time() => Ok(()),
        };
        if let Err(error) = lost {
            self.with(|endpoint, now| endpoint.on_lost(now, &error.to_string()));
        }
        self.hand_on(&mut on_event);
    }

    /// Events are handed on without the lock: who gets them may use the endpoint.
    fn hand_on(&self, on_event: &mut impl FnMut(E::Event)) {
        while let Some(event) = { self.lock().endpoint.poll_event() } {
            on_event(event);
        }
    }

    async fn read(&self, socket: &mut ReadHalf<'_>, on_event: &mut impl FnMut(E::Event)) -> io::Result<()> {
        while !self.is_ended() {
            let buffer = { self.lock().endpoint.take_buffer() };
            // There may be an answer instead of it.
            self.writer.notify_one();
            let Some(mut buffer) = buffer else {
                self.hand_on(on_event);
                self.reader.notified().await;
                continue;
            };
            let len = loop {
                self.hand_on(on_event);
                tokio::select! {
                    biased;
                    len = socket.read_buf(&mut buffer) => break len?,
                    () = self.reader.notified() => {}
                }
                if self.is_ended() {
                    return Ok(());
                }
            };
            self.with(|endpoint, now| endpoint.on_read(now, buffer, len));
        }
        Ok(())
    }

    async fn write(&self, socket: &mut WriteHalf<'_>) -> io::Result<()> {
        let mut pieces = VecDeque::new();
        loop {
            {
                let now = self.clock.monotonic();
                let endpoint = &mut self.lock().endpoint;
                while pieces.len() < PIECE_COUNT_MAX
                    && let Some(piece) = endpoint.transmit(now)
                {
                    pieces.push_back(piece);
                }
            }
            if pieces.is_empty() {
                self.writer.notified().await;
                continue;
            }
            let mut slices = [IoSlice::new(&[]); PIECE_COUNT_MAX];
            for (slice, piece) in slices.iter_mut().zip(&pieces) {
                *slice = IoSlice::new(piece);
            }
            let len = socket.write_vectored(&slices[..pieces.len()]).await?;
            if len == 0 && pieces.iter().any(|piece| !piece.is_empty()) {
                return Err(io::ErrorKind::WriteZero.into());
            }
            advance(&mut pieces, len);
            self.with(|endpoint, now| endpoint.on_sent(now, len));
        }
    }

    async fn keep_time(&self) {
        loop {
            let due = {
                let mut state = self.lock();
                let due = state.endpoint.poll_timeout();
                state.looks_at = due.unwrap_or(Duration::MAX);
                due
            };
            let Some(due) = due else {
                self.timer.notified().await;
                continue;
            };
            let rest = due.saturating_sub(self.clock.monotonic());
            if tokio::time::timeout(rest, self.timer.notified()).await.is_err() {
                // The timer may be a little early.
                self.with(|endpoint, now| endpoint.handle_timeout(now));
            }
        }
    }
}

/// Takes so many bytes off the front.
fn advance(pieces: &mut VecDeque<Bytes>, mut len: usize) {
    while let Some(piece) = pieces.front_mut() {
        if len < piece.len() {
            return piece.advance(len);
        }
        len -= piece.len();
        pieces.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use std::sync::Arc;

    /// Sends back what comes, until a second has passed without anything.
    struct Echo {
        back: VecDeque<Bytes>,
        sent_len: usize,
        heard: Duration,
        ended: bool,
    }

    impl Endpoint for Echo {
        type Event = usize;

        fn take_buffer(&mut self) -> Option<BytesMut> {
            (!self.ended).then(|| BytesMut::with_capacity(100))
        }

        fn on_read(&mut self, now: Duration, buffer: BytesMut, len: usize) {
            self.heard = now;
            self.ended |= len == 0;
            self.back.push_back(buffer.freeze());
        }

        fn on_lost(&mut self, _: Duration, _: &str) {
            self.ended = true;
        }

        fn transmit(&mut self, _: Duration) -> Option<Bytes> {
            self.back.pop_front()
        }

        fn on_sent(&mut self, _: Duration, len: usize) {
            self.sent_len += len;
        }

        fn poll_event(&mut self) -> Option<usize> {
            (self.sent_len > 0).then(|| std::mem::take(&mut self.sent_len))
        }

        fn poll_timeout(&self) -> Option<Duration> {
            (!self.ended).then_some(self.heard + Duration::from_millis(300))
        }

        fn handle_timeout(&mut self, now: Duration) {
            self.ended |= self.poll_timeout().is_some_and(|due| due <= now);
        }

        fn is_ended(&self) -> bool {
            self.ended
        }
    }

    #[tokio::test]
    async fn bytes_go_both_ways_and_time_ends_it() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut far, _) = listener.accept().await.unwrap();
        let begin = |heard| Echo { back: VecDeque::new(), sent_len: 0, heard, ended: false };
        let driven = Arc::new(Driven::new(begin));
        let its = Arc::clone(&driven);
        let echo = crate::task::spawn("echo", async move {
            let mut total = 0;
            its.run(&mut far, |len| total += len).await;
            total
        });
        let bytes: Vec<u8> = (0..100_000u32).map(|number| (number * 7 % 251) as u8).collect();
        let (mut inward, mut outward) = near.split();
        let (mut back, all) = (vec![0; bytes.len()], bytes.clone());
        let (written, read) = tokio::join!(outward.write_all(&all), inward.read_exact(&mut back));
        written.unwrap();
        read.unwrap();
        assert!(back == bytes);
        assert_eq!(echo.await.unwrap(), bytes.len());
        assert!(driven.is_ended());
    }
}
