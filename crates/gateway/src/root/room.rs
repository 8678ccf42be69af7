//! Room that all sessions share, for open files or for answers, and which session is closed when there is none.
//!
//! ```text
//! a session needs room ──▶ there is some ─────────────────────────────────────▶ its share
//!                     └──▶ none: of the sessions that hold some, the one whose
//!                          client was waited for longest is closed ───────────▶ its share
//! ```
//!
//! Promise: a session gets room as long as another one holds some and waits for its client. Sessions that are being
//! answered are not closed; while all are, who needs room waits.

use io::ConnectionPermit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Until a session that was closed has certainly given back its room, and others are looked at again. A guess.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(super) struct Room {
    free: Arc<Semaphore>,
    /// One at a time closes others: so no more of them are than have to be.
    turn: tokio::sync::Mutex<()>,
    holders: Mutex<Vec<Weak<Holder>>>,
    /// A client that was waited for less keeps its session open.
    wait_time_min: Duration,
}

/// A session, and how much of the room it holds.
#[derive(Debug)]
pub(super) struct Holder {
    connection: Arc<ConnectionPermit>,
    held: AtomicUsize,
}

/// Room that is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Share {
    len: usize,
    holder: Arc<Holder>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.holder.held.fetch_sub(self.len, Ordering::Relaxed);
    }
}

impl Room {
    pub(super) fn new(len: usize, wait_time_min: Duration) -> Self {
        let (free, turn, holders) = (Arc::new(Semaphore::new(len)), tokio::sync::Mutex::default(), Mutex::default());
        Self { free, turn, holders, wait_time_min }
    }

    /// A session, which holds nothing yet.
    pub(super) fn join(&self, connection: Arc<ConnectionPermit>) -> Arc<Holder> {
        let holder = Arc::new(Holder { connection, held: AtomicUsize::new(0) });
        let mut holders = self.holders();
        holders.retain(|other| other.strong_count() > 0);
        holders.push(Arc::downgrade(&holder));
        holder
    }

    /// Room for this session, once there is some. `None`: there will be none.
    pub(super) async fn share(&self, holder: &Arc<Holder>, len: usize) -> Option<Share> {
        let permit = self.permit(len).await?;
        holder.held.fetch_add(len, Ordering::Relaxed);
        Some(Share { len, holder: Arc::clone(holder), _permit: permit })
    }

    async fn permit(&self, len: usize) -> Option<OwnedSemaphorePermit> {
        let count = u32::try_from(len).ok()?;
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_many_owned(count) {
            return Some(permit);
        }
        let _turn = self.turn.lock().await;
        // What is given back while this waits is kept together for it.
        let acquiring = Arc::clone(&self.free).acquire_many_owned(count);
        tokio::pin!(acquiring);
        loop {
            tokio::select! {
                biased;
                permit = &mut acquiring => return permit.ok(),
                () = std::future::ready(()) => self.evict(len),
            }
            if let Ok(permit) = tokio::time::timeout(LOOK_INTERVAL, &mut acquiring).await {
                return permit.ok();
            }
        }
    }

    /// Closes sessions that hold as much, those first whose clients were waited for longest.
    fn evict(&self, len: usize) {
        let holders: Vec<Arc<Holder>> = self.holders().iter().filter_map(Weak::upgrade).collect();
        let waited = |holder: Arc<Holder>| {
            let waited = holder.connection.waited().filter(|waited| *waited >= self.wait_time_min)?;
            (holder.held.load(Ordering::Relaxed) > 0).then_some((waited, holder))
        };
        let mut waiting: Vec<(Duration, Arc<Holder>)> = holders.into_iter().filter_map(waited).collect();
        waiting.sort_unstable_by_key(|(waited, _)| std::cmp::Reverse(*waited));
        let mut freed = 0;
        for (_, holder) in waiting {
            if freed >= len {
                return;
            }
            if holder.connection.evict() {
                freed += holder.held.load(Ordering::Relaxed);
            }
        }
    }

    fn holders(&self) -> MutexGuard<'_, Vec<Weak<Holder>>> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::ConnectionLimit;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn connection() -> Arc<ConnectionPermit> {
        ConnectionLimit::new(1).admit().unwrap()
    }

    fn is_evicted(holder: &Holder) -> bool {
        pin!(holder.connection.evicted()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// Room for three: two are held by a session that is being answered, one by one whose client is waited for, and a
    /// fourth session holds nothing.
    #[tokio::test]
    async fn a_session_that_waits_for_its_client_makes_room() {
        let room = Arc::new(Room::new(3, Duration::ZERO));
        let [empty, busy, idle, new] = [(); 4].map(|()| room.join(connection()));
        let request = busy.connection.begin_request();
        let _two = room.share(&busy, 2).await.unwrap();
        let one = room.share(&idle, 1).await.unwrap();
        let sharing = room.share(&new, 1);
        tokio::pin!(sharing);
        assert!(sharing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!([&empty, &busy, &idle].map(|holder| is_evicted(holder)), [false, false, true]);
        drop(one);
        let _one = sharing.await.unwrap();
        assert!(pin!(room.share(&new, 1)).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(!is_evicted(&busy), "while it is being answered");
        let _stall = busy.connection.response_stalled();
        let _request = new.connection.begin_request();
        assert!(pin!(room.share(&new, 1)).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(is_evicted(&busy), "its answer is not taken");
        drop(request);
    }

    #[tokio::test]
    async fn a_client_that_was_not_waited_for_long_keeps_its_session() {
        let room = Room::new(1, Duration::from_secs(3600));
        let [idle, new] = [(); 2].map(|()| room.join(connection()));
        let _one = room.share(&idle, 1).await.unwrap();
        assert!(pin!(room.share(&new, 1)).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(!is_evicted(&idle));
    }
}
