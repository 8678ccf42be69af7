//! Waiting for the only server of a store, which starts anew: which errors are waited for, for how long, and who hears
//! of it.
//!
//! ```text
//! nobody listens                    ──▶ the call is made again, with growing pauses, for `time_max`
//! it ends, or does not lead yet     ──▶ the same, for a moment: otherwise it is somebody else, or stands by
//! ```

use crate::call_error::CallError;
use hdfs::exception::{RETRIABLE, STANDBY};
use std::fmt::Display;
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// The first pause; each is twice as long as the one before.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// For a server that answers, and says that it ends or does not lead. Alone it leads within a second of its start.
const MOMENT: Duration = Duration::from_secs(3);
/// Whoever waits for longer is told what for.
const TOLD_AFTER: Duration = Duration::from_secs(2);

/// How long calls wait for a server that starts anew. As Hadoop's `ipc.client.connect.max.retries` (10, a second
/// apart), in time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patience {
    /// Zero: a call fails at once.
    pub time_max: Duration,
    /// Hears once in each outage which server is waited for, why, and for how much longer.
    pub notice: Option<fn(addr: &str, error: &dyn Display, left: Duration)>,
}

/// The waiting of one call.
#[derive(Debug)]
pub(crate) struct Waiting {
    patience: Patience,
    /// Since the first failure.
    over: Option<Pin<Box<Sleep>>>,
    pause: Duration,
    paused: Duration,
    /// Somebody was told of this outage, by this call or another one.
    told: Arc<AtomicBool>,
}

impl Waiting {
    pub(crate) fn new(patience: Patience, told: &Arc<AtomicBool>) -> Self {
        let told = Arc::clone(told);
        Self { patience, over: None, pause: PAUSE_FIRST, paused: Duration::ZERO, told }
    }

    /// The call failed at this server. True, after a pause: it is to be made again.
    pub(crate) async fn pause(&mut self, addr: &str, error: &CallError) -> bool {
        let time_max = self.patience.time_max;
        let limit = limit(error, time_max);
        if self.paused >= limit {
            return false;
        }
        if self.paused >= TOLD_AFTER.min(time_max / 2)
            && let Some(notice) = self.patience.notice
            && !self.told.swap(true, Ordering::Relaxed)
        {
            notice(addr, error, limit.saturating_sub(self.paused));
        }
        // Attempts take time as well: who does not answer at all is not waited for once for each of them.
        let over = self.over.get_or_insert_with(|| Box::pin(sleep(time_max)));
        let pause = self.pause.min(limit.saturating_sub(self.paused));
        tokio::select! {
            biased;
            () = over.as_mut() => return false,
            () = sleep(pause) => {}
        }
        self.paused += pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        true
    }

    /// The server has answered.
    pub(crate) fn end(self) {
        if self.over.is_some() {
            self.told.store(false, Ordering::Relaxed);
        }
    }
}

/// How long this error is waited for.
fn limit(error: &CallError, time_max: Duration) -> Duration {
    match () {
        () if is_down(error) => time_max,
        () if is_passing(error) => time_max.min(MOMENT),
        () => Duration::ZERO,
    }
}

/// Nobody listens there, as while a server starts anew. Not so if the name is not known or the network not there.
fn is_down(error: &CallError) -> bool {
    use ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, TimedOut};
    let kinds = [ConnectionAborted, ConnectionRefused, ConnectionReset, TimedOut];
    matches!(error, CallError::Connect(error) if kinds.contains(&error.kind()))
}

fn is_passing(error: &CallError) -> bool {
    matches!(error, CallError::Broken(_)) || error.is_class(STANDBY) || error.is_class(RETRIABLE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    static TOLD: Mutex<Vec<Duration>> = Mutex::new(Vec::new());

    fn tell(_addr: &str, _error: &dyn Display, left: Duration) {
        TOLD.lock().unwrap().push(left);
    }

    fn refused() -> CallError {
        CallError::Connect(ErrorKind::ConnectionRefused.into())
    }

    fn standby() -> CallError {
        CallError::Remote { class: STANDBY.into(), message: String::new(), detail: None }
    }

    async fn waited(patience: Patience, told: &Arc<AtomicBool>) -> Duration {
        let mut waiting = Waiting::new(patience, told);
        while waiting.pause("h:1", &refused()).await {}
        waiting.paused
    }

    #[test]
    fn who_does_not_lead_is_waited_for_shortly_and_what_is_hopeless_not() {
        let time_max = Duration::from_secs(30);
        assert_eq!([limit(&refused(), time_max), limit(&standby(), time_max)], [time_max, MOMENT]);
        let unknown = CallError::Connect(ErrorKind::NotFound.into());
        for hopeless in [CallError::Decode(String::new()), unknown, CallError::TimedOut] {
            assert_eq!(limit(&hopeless, time_max), Duration::ZERO, "{hopeless}");
        }
    }

    #[tokio::test]
    async fn one_outage_is_told_once() {
        let told = Arc::default();
        let patience = Patience { time_max: Duration::from_millis(200), notice: Some(tell) };
        assert_eq!(waited(Patience::default(), &told).await, Duration::ZERO);
        for _ in 0..2 {
            assert!(waited(patience, &told).await > Duration::ZERO);
            assert_eq!(TOLD.lock().unwrap().len(), 1);
        }
        let mut next = Waiting::new(patience, &told);
        assert!(next.pause("h:1", &refused()).await);
        next.end();
        waited(patience, &told).await;
        assert_eq!(TOLD.lock().unwrap().len(), 2);
    }
}
