//! One content as one user reads it from the store: by the learned cache, as far as there is memory for that.
//!
//! Those who read the same content in the same name share one, so what one request has shown of a program serves the
//! next; HTTP's clients ask by many. It begins when something is missing: what is kept needs no reading ahead.

use super::tally::Tally;
use client::{Ahead, AheadOptions, RangeRead, Reader, Result};
use edge::Content;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::OnceCell;

#[derive(Debug)]
pub(super) struct Upstream {
    /// By which it was opened.
    pub(super) path: Box<str>,
    reader: Reader,
    ahead: OnceCell<Ahead>,
    reads_ahead: bool,
    /// Of what was read ahead, so much was counted.
    counted_len: AtomicU64,
    tally: Arc<Tally>,
}

impl Upstream {
    fn count_ahead(&self) {
        if let Some(ahead) = self.ahead.get() {
            let asked_len = ahead.statistics().asked_len;
            let before = self.counted_len.fetch_max(asked_len, Ordering::Relaxed);
            self.tally.fetched_len.add(asked_len.saturating_sub(before));
        }
    }
}

impl Upstream {
    pub(super) async fn fetch(&self, reads: &mut [RangeRead<'_>]) -> Result<()> {
        if self.reads_ahead {
            let ahead = self.ahead.get_or_try_init(async || self.reader.ahead(&AheadOptions::default()).await).await?;
            let fetched = ahead.read_ranges(reads).await;
            self.count_ahead();
            return fetched;
        }
        self.tally.fetched_len.add(reads.iter().map(|read| read.dest.len() as u64).sum());
        self.reader.read_ranges(reads).await
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.count_ahead();
    }
}

/// Those that are used. A file that nobody reads for a while gives up its window to another; while all are in use,
/// others are read as they are asked for.
#[derive(Debug)]
pub(super) struct Upstreams {
    /// Each has its window in memory.
    ahead_count_max: usize,
    tally: Arc<Tally>,
    known: Mutex<HashMap<Key, Used>>,
}

/// A user, and what he reads.
type Key = (String, Content);

#[derive(Debug)]
struct Used {
    upstream: Arc<Upstream>,
    at: Duration,
}

/// With those that do not read ahead. A guess: files that are read at a time.
const COUNT_MAX: usize = 1024;
/// After so long another file may have its window. A guess: a program that reads on asks sooner.
const IDLE_MIN: Duration = Duration::from_secs(10);
/// After so long it is begun anew when it is read again: what came of it is kept, and its profile.
const IDLE_MAX: Duration = Duration::from_secs(120);

impl Upstreams {
    pub(super) fn new(ahead_len: u64, tally: Arc<Tally>) -> Self {
        let ahead_count_max = (ahead_len / AheadOptions::default().cache_len) as usize;
        Self { ahead_count_max: ahead_count_max.min(COUNT_MAX), tally, known: Mutex::default() }
    }

    pub(super) fn known(&self, user: &str, content: Content, now: Duration) -> Option<Arc<Upstream>> {
        let mut known = self.lock();
        let used = known.get_mut(&(user.to_owned(), content))?;
        used.at = now;
        Some(Arc::clone(&used.upstream))
    }

    /// The one that reads this, or the one that there is already.
    pub(super) fn of(&self, user: &str, content: Content, path: &str, reader: Reader, now: Duration) -> Arc<Upstream> {
        if let Some(known) = self.known(user, content, now) {
            return known;
        }
        let mut known = self.lock();
        // What a layout takes is others' to have by then.
        known.retain(|_, used| now.saturating_sub(used.at) < IDLE_MAX);
        let oldest = |known: &HashMap<Key, Used>, only_ahead: bool| {
            let some = known.iter().filter(|(_, used)| used.upstream.reads_ahead || !only_ahead);
            some.min_by_key(|(_, used)| used.at).map(|(key, used)| (key.clone(), used.at))
        };
        let ahead_count = known.values().filter(|used| used.upstream.reads_ahead).count();
        let mut reads_ahead = ahead_count < self.ahead_count_max;
        if !reads_ahead
            && let Some((idle, at)) = oldest(&known, true)
            && now.saturating_sub(at) >= IDLE_MIN
        {
            known.remove(&idle);
            reads_ahead = true;
        }
        if known.len() >= COUNT_MAX
            && let Some((oldest, _)) = oldest(&known, false)
        {
            known.remove(&oldest);
        }
        let (ahead, counted_len, tally) = (OnceCell::new(), AtomicU64::new(0), Arc::clone(&self.tally));
        let upstream = Arc::new(Upstream { path: path.into(), reader, ahead, reads_ahead, counted_len, tally });
        known.insert((user.to_owned(), content), Used { upstream: Arc::clone(&upstream), at: now });
        upstream
    }

    /// It brings nothing any more. Another one, that was made meanwhile, stays.
    pub(super) fn forget(&self, user: &str, content: Content, upstream: &Arc<Upstream>) {
        let key = (user.to_owned(), content);
        let mut known = self.lock();
        if known.get(&key).is_some_and(|used| Arc::ptr_eq(&used.upstream, upstream)) {
            known.remove(&key);
        }
    }

    /// Nobody reads any more.
    pub(super) fn clear(&self) {
        let known = std::mem::take(&mut *self.lock());
        drop(known);
    }

    /// Nothing is left half done while it is held.
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Used>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
