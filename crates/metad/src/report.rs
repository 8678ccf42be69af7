//! A report on its way to a client over HTTP, in pieces, and the turn it has among the few that are made at a time.
//!
//! Promise: a client that takes nothing for a while is taken for gone. One that takes pieces slowly, all in all, has
//! its turn as long as nobody else wants one: it gives way to whoever comes, while this server waits for it. So
//! readers that make a report last, however many, keep none from those who read theirs.

use io::{Clock, ConnectionLimit, ConnectionPermit, RequestGuard};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::{self, OwnedPermit};

/// Pieces of a report on their way to a client.
const PIECE_COUNT_MAX: usize = 16;
/// A client that reads nothing for so long is taken for gone.
const TAKEN_WITHIN: Duration = Duration::from_secs(30);
/// A client may be waited for as long as this, all in all, and for each of so many bytes a second more, before it is a
/// slow one. Guesses: a terminal far away takes more.
const SPARE: Duration = Duration::from_secs(10);
const LEN_PER_SECOND_MIN: u64 = 1 << 20;

/// How many reports are made at a time.
#[derive(Debug)]
pub(crate) struct Turns(Arc<ConnectionLimit>);

impl Turns {
    pub(crate) fn new(count_max: usize) -> Self {
        assert!(count_max > 0, "no report may be made");
        Self(ConnectionLimit::new(count_max))
    }

    /// Begins a report: who reads it has the receiver. `None`: as many are made as may be, for those who read theirs.
    pub(crate) fn begin(&self, clock: Arc<dyn Clock>) -> Option<(Report, mpsc::Receiver<String>)> {
        let turn = self.0.admit()?;
        let made = turn.begin_request();
        let (out, pieces) = mpsc::channel(PIECE_COUNT_MAX);
        let parts = Parts { out, turn, _made: made, clock, taken: Taken::default() };
        Some((Report(Arc::new(parts)), pieces))
    }
}

/// What is sent of it. The turn ends with the last of these.
#[derive(Clone)]
pub(crate) struct Report(Arc<Parts>);

struct Parts {
    out: mpsc::Sender<String>,
    turn: Arc<ConnectionPermit>,
    _made: RequestGuard,
    clock: Arc<dyn Clock>,
    taken: Taken,
}

/// What the client has taken so far, and how long it was waited for.
#[derive(Debug, Default)]
struct Taken {
    len: AtomicU64,
    waited_ms: AtomicU64,
}

/// The client went away, or gave way.
#[derive(Debug)]
pub(crate) struct Gone;

impl Taken {
    /// How long it may be waited for until it is a slow one.
    fn left(&self) -> Duration {
        let for_all = SPARE + Duration::from_secs(self.len.load(Ordering::Relaxed) / LEN_PER_SECOND_MIN);
        for_all.saturating_sub(Duration::from_millis(self.waited_ms.load(Ordering::Relaxed)))
    }
}

impl Report {
    /// Sends a piece; comes back when there is room for it.
    pub(crate) async fn send(&self, text: String) -> Result<(), Gone> {
        if text.is_empty() {
            return Ok(());
        }
        let began = self.0.clock.monotonic();
        let room = self.room().await;
        let waited = self.0.clock.monotonic().saturating_sub(began);
        self.0.taken.waited_ms.fetch_add(waited.as_millis() as u64, Ordering::Relaxed);
        self.0.taken.len.fetch_add(text.len() as u64, Ordering::Relaxed);
        room?.send(text);
        Ok(())
    }

    async fn room(&self) -> Result<OwnedPermit<String>, Gone> {
        let left = self.0.taken.left().min(TAKEN_WITHIN);
        let mut reserving = pin!(self.0.out.clone().reserve_owned());
        if let Ok(room) = io::time::timeout(left, &mut reserving).await {
            return room.map_err(|_| Gone);
        }
        let _slow = self.0.turn.response_stalled();
        tokio::select! {
            biased;
            () = self.0.turn.evicted() => Err(Gone),
            room = io::time::timeout(TAKEN_WITHIN - left, &mut reserving) => match room {
                Ok(Ok(room)) => Ok(room),
                _ => Err(Gone),
            },
        }
    }
}

impl std::fmt::Debug for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Report").field("taken", &self.0.taken).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> Arc<dyn Clock> {
        Arc::new(io::SystemClock::new())
    }

    /// As if its client had been waited for so long.
    fn slow(report: &Report) {
        report.0.taken.waited_ms.store(SPARE.as_millis() as u64, Ordering::Relaxed);
    }

    async fn fill(report: &Report) {
        for _ in 0..PIECE_COUNT_MAX {
            report.send("piece".into()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn readers_that_make_a_report_last_give_way_to_who_comes() {
        let turns = Turns::new(2);
        let slow_ones = [turns.begin(clock()).unwrap(), turns.begin(clock()).unwrap()];
        assert!(turns.begin(clock()).is_none(), "both are being made");
        for (report, _) in &slow_ones {
            fill(report).await;
            slow(report);
        }
        let [(first, _first_reads), (second, mut second_reads)] = slow_ones;
        let its = first.clone();
        let waits = io::task::spawn_owned("slow", async move { its.send("more".into()).await });
        let third = loop {
            tokio::task::yield_now().await;
            if let Some(begun) = turns.begin(clock()) {
                break begun;
            }
        };
        assert!(waits.await.unwrap().is_err(), "it gave way");
        assert!(turns.begin(clock()).is_none(), "the second is not waited for at the moment");
        // Nobody came while it was waited for.
        assert!(second_reads.recv().await.is_some() && second.send("more".into()).await.is_ok());
        drop((first, third));
        assert!(turns.begin(clock()).is_some());
    }

    #[tokio::test]
    async fn a_reader_that_was_seldom_waited_for_keeps_its_turn() {
        let turns = Turns::new(1);
        let (report, mut reads) = turns.begin(clock()).unwrap();
        fill(&report).await;
        let its = report.clone();
        let waits = io::task::spawn_owned("waits", async move { its.send("more".into()).await });
        for _ in 0..100 {
            tokio::task::yield_now().await;
            assert!(turns.begin(clock()).is_none());
        }
        while reads.recv().await.is_some_and(|piece| piece != "more") {}
        assert!(waits.await.unwrap().is_ok());
    }

    #[test]
    fn who_takes_much_may_be_waited_for_longer() {
        let left = |len: u64, waited_ms: u64| Taken { len: len.into(), waited_ms: waited_ms.into() }.left().as_secs();
        assert_eq!([left(0, 0), left(0, 11_000), left(5 << 20, 11_000)], [10, 0, 4]);
    }
}
