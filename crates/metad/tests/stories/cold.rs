//! A store on a cold disk, where a page takes 10 ms: who reads it waits, and nobody else.
//!
//! `cargo test -p metad --test stories cold -- --nocapture` tells the times.

use crate::support::{User, World};
use io::time::Moment;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PAGE: Duration = Duration::from_millis(10);
const NAME_COUNT: usize = 1000;
/// Between two of them are so many others, so that they lie on many pages.
const OTHERS: usize = 3;
/// Callers that ask for what is on cold pages, at the same time.
const CALLER_COUNT: usize = 32;

fn at(times: &[Duration], percent: usize) -> Duration {
    times[(times.len() * percent / 100).min(times.len() - 1)]
}

/// What a look at a path, and a change, take until `done`; sorted.
async fn probe(user: &User, done: Arc<AtomicBool>) -> Vec<Duration> {
    let mut times = Vec::new();
    while !done.load(Ordering::Relaxed) {
        let begun = Moment::now();
        user.status("/probe/is there").await.unwrap();
        times.push(begun.elapsed());
        let begun = Moment::now();
        user.mkdirs("/probe/made", 0o755).await.unwrap();
        user.delete("/probe/made", false).await.unwrap();
        times.push(begun.elapsed() / 2);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    times.sort();
    times
}

/// The probe's times beside some work, and how long that took.
async fn beside(world: &World, what: &str, work: impl Future<Output = ()>) -> (Vec<Duration>, Duration) {
    let (done, user, begun) = (Arc::new(AtomicBool::new(false)), world.root(), Moment::now());
    let probe = io::task::spawn("probe", {
        let done = Arc::clone(&done);
        async move { probe(&user, done).await }
    });
    work.await;
    let took = begun.elapsed();
    done.store(true, Ordering::Relaxed);
    let times = probe.await.unwrap();
    let [p50, p99, most] = [50, 99, 100].map(|percent| at(&times, percent));
    println!("{what:40} {took:7.1?}: {} other calls, p50 {p50:.2?}, p99 {p99:.2?}, most {most:.2?}", times.len());
    (times, took)
}

async fn make(world: &World) {
    let user = world.root();
    for number in 0..NAME_COUNT {
        let others = (0..OTHERS).map(|other| format!("/other/{number}-{other}"));
        // Long names, for the same reason.
        let made = others.chain([format!("/listed/{number:0>200}")]).map(|path| {
            let user = user.clone();
            io::task::spawn("mkdirs", async move { user.mkdirs(&path, 0o755).await.unwrap() })
        });
        for task in made.collect::<Vec<_>>() {
            assert!(task.await.unwrap());
        }
    }
    user.mkdirs("/probe/is there", 0o755).await.unwrap();
    // About once a second all is brought to disk; the store is cold from there on.
    tokio::time::sleep(Duration::from_secs(4)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_cold_pages_delays_nobody() {
    let world = World::new(0).await;
    make(&world).await;
    let warm = tokio::time::sleep(Duration::from_secs(1));
    kv::cold::begin(PAGE);
    beside(&world, "warming up", warm).await;
    let (alone, _) = beside(&world, "alone", tokio::time::sleep(Duration::from_secs(2))).await;

    let callers = async {
        let callers = (0..CALLER_COUNT).map(|caller| {
            let user = world.root();
            io::task::spawn("caller", async move {
                for number in (caller..NAME_COUNT).step_by(CALLER_COUNT) {
                    user.status(&format!("/other/{number}-0")).await.unwrap();
                }
            })
        });
        for caller in callers.collect::<Vec<_>>() {
            caller.await.unwrap();
        }
    };
    beside(&world, "beside 32 callers", callers).await;

    kv::cold::begin(PAGE);
    beside(&world, "warming up", tokio::time::sleep(Duration::from_secs(1))).await;
    let user = world.root();
    let listing = async {
        let listing = user.listing("/listed", "", false).await.unwrap().unwrap();
        assert!(listing.partial_listing.len() > NAME_COUNT / 2);
    };
    let (listed, took) = beside(&world, "beside a listing of 1,000 names", listing).await;
    assert!(took > PAGE * 50, "it was cold: {took:?}");
    // On a machine that does much else: without the repair each waits for the whole listing.
    let limit = at(&alone, 99) + took / 4;
    assert!(at(&listed, 99) < limit, "{:?} beside a listing, {:?} alone", at(&listed, 99), at(&alone, 99));
    kv::cold::begin(Duration::ZERO);
    world.metad.shutdown().await;
}
