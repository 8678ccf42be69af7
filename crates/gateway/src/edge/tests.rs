//! What is kept, against a store that counts, fails and hangs.

use super::kept::{Kept, Origin, QueueLimits};
use super::tally::Tally;
use client::{Error, RangeRead, Result};
use edge::{Content, Limits};
use futures_util::FutureExt;
use futures_util::future::join_all;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Semaphore;
use types::{BlockId, Generation};

const LEN: u64 = 10_000_000;

/// As an edge takes it: others may not look into it.
fn private_dir() -> tempfile::TempDir {
    tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir().unwrap()
}

fn content() -> Content {
    Content::new("BP-1", BlockId(1), Generation(1), LEN)
}

fn byte(at: u64) -> u8 {
    (at % 251) as u8
}

#[derive(Debug)]
struct Store {
    fetched_len: AtomicU64,
    fetch_count: AtomicU64,
    /// Each fetch waits for a permit.
    gate: Semaphore,
    fails: bool,
}

impl Store {
    fn new() -> Arc<Self> {
        Self::with(Semaphore::MAX_PERMITS, false)
    }

    fn with(permits: usize, fails: bool) -> Arc<Self> {
        let (fetched_len, fetch_count) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { fetched_len, fetch_count, gate: Semaphore::new(permits), fails })
    }

    /// Others run until so many have asked.
    async fn asked_by(&self, count: u64) {
        while self.fetched().0 < count {
            tokio::task::yield_now().await;
        }
    }

    fn fetched(&self) -> (u64, u64) {
        (self.fetch_count.load(Ordering::Relaxed), self.fetched_len.load(Ordering::Relaxed))
    }
}

impl Origin for Arc<Store> {
    async fn fetch(&self, reads: &mut [RangeRead<'_>]) -> Result<()> {
        self.fetch_count.fetch_add(1, Ordering::Relaxed);
        let _permit = self.gate.acquire().await.expect("it is never closed");
        if self.fails {
            return Err(Error::NotFound);
        }
        for read in reads {
            self.fetched_len.fetch_add(read.dest.len() as u64, Ordering::Relaxed);
            read.dest.iter_mut().zip(read.offset..).for_each(|(dest, at)| *dest = byte(at));
        }
        Ok(())
    }
}

fn kept(dir: Option<&Path>, memory_len: u64) -> Kept {
    let limits = Limits { memory_len, disk_len: 64 << 20, segment_len: 4 << 20, disk_extent_count: 10_000 };
    open(dir, limits).unwrap()
}

fn open(dir: Option<&Path>, limits: Limits) -> std::io::Result<Kept> {
    Kept::open(dir, limits, QUEUES, Arc::new(Tally::default()))
}

const QUEUES: QueueLimits = QueueLimits { fetching_len: 16 << 20, waiting_len: 1 << 20, unwritten_len: 64 << 20 };

/// Reads these ranges, and holds them against what they should be.
async fn read(kept: &Kept, store: &Arc<Store>, ranges: &[(u64, usize)]) -> Result<()> {
    let mut buffers: Vec<Vec<u8>> = ranges.iter().map(|(_, len)| vec![0; *len]).collect();
    let reads = ranges.iter().zip(&mut buffers).map(|((offset, _), dest)| RangeRead { offset: *offset, dest });
    kept.read(content(), &mut reads.collect::<Vec<_>>(), store).await?;
    for ((offset, _), bytes) in ranges.iter().zip(&buffers) {
        assert!(bytes.iter().zip(*offset..).all(|(have, at)| *have == byte(at)), "{offset}");
    }
    Ok(())
}

#[tokio::test]
async fn what_overlaps_is_fetched_once_and_nothing_beside_it() {
    let (kept, store) = (kept(None, 32 << 20), Store::new());
    let ranges = [(5_000_000, 3_000_000), (5_999_999, 10), (0, 0), (17, 100), (17, 100)];
    read(&kept, &store, &ranges).await.unwrap();
    read(&kept, &store, &ranges).await.unwrap();
    assert_eq!(store.fetched(), (1, 3_000_100));
}

#[tokio::test]
async fn readers_wait_for_who_asked_first_and_go_on_without_him() {
    let (kept, store) = (kept(None, 32 << 20), Store::with(0, false));
    let mut first = Box::pin(read(&kept, &store, &[(0, 1000)]));
    assert!(first.as_mut().now_or_never().is_none());
    store.asked_by(1).await;
    let mut others = Box::pin(join_all((0..5).map(|_| read(&kept, &store, &[(500, 500)]))));
    assert!(others.as_mut().now_or_never().is_none());
    tokio::task::yield_now().await;
    assert_eq!(store.fetched().0, 1, "the others wait");
    // He goes away: one of the others fetches.
    drop(first);
    store.gate.add_permits(100);
    assert!(others.await.iter().all(Result::is_ok));
    assert_eq!(store.fetched(), (2, 500));
}

#[tokio::test]
async fn a_fetch_that_fails_fails_who_needs_it() {
    let (kept, store) = (kept(None, 32 << 20), Store::new());
    read(&kept, &store, &[(0, 1000)]).await.unwrap();
    let broken = Store::with(Semaphore::MAX_PERMITS, true);
    assert!(matches!(read(&kept, &broken, &[(0, 1001)]).await, Err(Error::NotFound)));
    read(&kept, &broken, &[(0, 1000)]).await.unwrap();
    read(&kept, &store, &[(0, 1001)]).await.unwrap();
    assert_eq!(store.fetched(), (2, 1001));
}

/// Two read what the other fetches at the same time.
#[tokio::test]
async fn nobody_waits_in_a_circle() {
    let (kept, store) = (kept(None, 32 << 20), Store::with(0, false));
    let mut one = Box::pin(read(&kept, &store, &[(0, 10)]));
    assert!(one.as_mut().now_or_never().is_none());
    let mut other = Box::pin(read(&kept, &store, &[(5, 10)]));
    assert!(other.as_mut().now_or_never().is_none());
    let third = read(&kept, &store, &[(0, 30)]);
    store.gate.add_permits(100);
    let (one, other, third) = futures_util::future::join3(one, other, third).await;
    assert!(one.is_ok() && other.is_ok() && third.is_ok());
    assert_eq!(store.fetched().1, 30);
}

#[tokio::test]
async fn without_memory_the_disk_serves_and_without_both_the_store() {
    let (dir, store) = (private_dir(), Store::new());
    let kept_there = kept(Some(dir.path()), 0);
    read(&kept_there, &store, &[(0, 3_000_000)]).await.unwrap();
    kept_there.close();
    read(&kept_there, &store, &[(1_000_000, 2_000_000), (5, 6)]).await.unwrap();
    assert_eq!(store.fetched(), (1, 3_000_000));
    drop(kept_there);
    let again = kept(Some(dir.path()), 0);
    read(&again, &store, &[(0, 3_000_000)]).await.unwrap();
    assert_eq!(store.fetched(), (1, 3_000_000));
    let nothing = kept(None, 0);
    read(&nothing, &store, &[(0, 10)]).await.unwrap();
    read(&nothing, &store, &[(0, 10)]).await.unwrap();
    assert_eq!(store.fetched(), (3, 3_000_020));
}

#[tokio::test]
async fn one_edge_works_on_a_directory() {
    let dir = private_dir();
    let limits = Limits { memory_len: 0, disk_len: 1 << 20, segment_len: 1 << 20, disk_extent_count: 10 };
    let open = || open(Some(dir.path()), limits);
    let first = open().unwrap();
    assert!(open().unwrap_err().to_string().contains("another edge"));
    first.close();
    open().unwrap();
}

#[tokio::test]
async fn what_is_kept_is_kept_from_others() {
    let dir = private_dir();
    for (mode, is_taken) in [(0o755, false), (0o720, false), (0o700, true)] {
        std::fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
        let limits = Limits { memory_len: 0, disk_len: 1 << 20, segment_len: 1 << 20, disk_extent_count: 10 };
        let opened = open(Some(dir.path()), limits);
        assert_eq!(opened.is_ok(), is_taken, "{mode:o}");
    }
}

/// Short records fill the only segment, again and again: what is kept is what was written.
#[tokio::test]
async fn short_records_do_not_end_what_is_kept() {
    let (dir, store) = (private_dir(), Store::new());
    // A name that no number goes on behind.
    for ending in ["bytes", "heads"] {
        std::fs::write(dir.path().join(format!("{:016x}.{ending}", u64::MAX)), edge::SEGMENT_BEGIN).unwrap();
    }
    let limits = Limits { memory_len: 0, disk_len: 1 << 20, segment_len: 1 << 20, disk_extent_count: 4 };
    let kept = open(Some(dir.path()), limits).unwrap();
    for offset in 0..40 {
        read(&kept, &store, &[(offset * 10, 5)]).await.unwrap();
    }
    kept.close();
    let fetched = store.fetched();
    read(&kept, &store, &[(390, 5)]).await.unwrap();
    assert_eq!(store.fetched(), fetched, "the newest is there");
    drop(kept);
    let kept = open(Some(dir.path()), limits).unwrap();
    read(&kept, &store, &[(390, 5)]).await.unwrap();
    assert_eq!(store.fetched(), fetched, "and is found again");
}

/// A client that takes nothing of its answer is not polled; what it asked for is there for others all the same.
#[tokio::test]
async fn what_was_asked_for_comes_also_where_nobody_waits_for_it() {
    let (kept, store) = (kept(None, 32 << 20), Store::new());
    let mut stalled = Box::pin(read(&kept, &store, &[(0, 1000)]));
    assert!(stalled.as_mut().now_or_never().is_none());
    store.asked_by(1).await;
    read(&kept, &store, &[(0, 1000)]).await.unwrap();
    assert_eq!((store.fetched(), kept.queues().fetches.running_count), ((1, 1000), 0));
    stalled.await.unwrap();
}

#[tokio::test]
async fn what_is_on_its_way_is_bounded() {
    let limits = Limits { memory_len: 32 << 20, disk_len: 0, segment_len: 0, disk_extent_count: 0 };
    let queues = QueueLimits { fetching_len: 10 << 10, waiting_len: 256, unwritten_len: 0 };
    let kept = Kept::open(None, limits, queues, Arc::new(Tally::default())).unwrap();
    let store = Store::with(0, false);
    let mut first = Box::pin(read(&kept, &store, &[(0, 8000)]));
    assert!(first.as_mut().now_or_never().is_none());
    store.asked_by(1).await;
    let mut second = Box::pin(read(&kept, &store, &[(8000, 8000)]));
    assert!(second.as_mut().now_or_never().is_none());
    while kept.queues().fetches.waiting_count == 0 {
        tokio::task::yield_now().await;
    }
    let refused = read(&kept, &store, &[(16_000, 8000)]).await.unwrap_err();
    assert_eq!(refused.kind(), client::ErrorKind::TryAgain, "{refused}");
    assert_eq!(store.fetched().0, 1);
    store.gate.add_permits(100);
    let (first, second) = futures_util::future::join(first, second).await;
    assert!(first.is_ok() && second.is_ok());
    read(&kept, &store, &[(16_000, 8000)]).await.unwrap();
    assert_eq!(store.fetched(), (3, 24_000));
}
