//! Changes and views beside each other: `cargo run --release -p kv --example speed`.
//!
//! A change is six rows of 150 bytes at random keys, about what making a file is, and a look at a row before. A listing
//! is a view and a scan of 1,000 rows. The time is that which the thread had a processor, so that other work on the
//! machine counts little.

use kv::{Options, Store};
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use types::random::{Random, Seeded};
use types::rows::{Rows, RowsMut, Table};

const TABLE: Table = Table(1);
const TIME: Duration = Duration::from_secs(3);

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::default()).unwrap();
    for _ in 0..40_000 {
        change(&store, &mut Seeded(store.overlay_len() as u64));
    }
    store.flush().unwrap();
    println!("{:8} changes/s", each_second(&store, &[], &|store, random| change(store, random)));
    println!("{:8} views with one row/s", each_second(&store, &[], &|store, random| get(store, random)));
    println!("{:8} listings/s", each_second(&store, &[], &|store, random| list(store, random)));
    let beside: &[Job] = &[&|store, random| list(store, random)];
    println!("{:8} changes/s beside listings", each_second(&store, beside, &|store, random| change(store, random)));
    let beside: &[Job] = &[&|store, random| change(store, random)];
    println!("{:8} listings/s beside changes", each_second(&store, beside, &|store, random| list(store, random)));
}

type Job<'a> = &'a (dyn Fn(&Store, &mut Seeded) + Sync);

/// How often `job` is done in a second of a processor, while others do theirs and one flushes.
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn each_second(store: &Store, beside: &[Job<'_>], job: Job<'_>) -> u128 {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (number, job) in beside.iter().enumerate() {
            let done = &done;
            scope.spawn(move || {
                let mut random = Seeded(1 + number as u64);
                while !done.load(Ordering::Relaxed) {
                    job(store, &mut random);
                }
            });
        }
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(500));
                store.flush().unwrap();
            }
        });
        let (begin, used, mut random, mut count) = (Instant::now(), used(), Seeded(0), 0u128);
        while begin.elapsed() < TIME {
            job(store, &mut random);
            count += 1;
        }
        let each_second = count * 1_000_000_000 / (self::used() - used);
        done.store(true, Ordering::Relaxed);
        each_second
    })
}

/// Nanoseconds that this thread had a processor.
fn used() -> u128 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

fn key(random: &mut Seeded) -> [u8; 8] {
    (random.next_u64() % 200_000).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn change(store: &Store, random: &mut Seeded) {
    let mut change = store.change();
    change.get(TABLE, &key(random)).unwrap();
    for _ in 0..6 {
        change.put(TABLE, &key(random), vec![7; 142]);
    }
    change.commit();
}

fn get(store: &Store, random: &mut Seeded) {
    store.view().get(TABLE, &key(random)).unwrap();
}

fn list(store: &Store, random: &mut Seeded) {
    let (from, mut count) = (key(random), 0);
    let mut visit = |_: &[u8], _: &[u8]| {
        count += 1;
        if count < 1000 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    store.view().scan(TABLE, Bound::Included(&from[..]), &mut visit).unwrap();
}
