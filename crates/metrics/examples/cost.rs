//! What one observation costs: `cargo run --profile sim -p metrics --example cost`.

use metrics::{Buckets, Histogram};
use std::hint::black_box;
use std::time::{Duration, Instant};

const ROUND_COUNT: u32 = 200;
const COUNT: u32 = 50_000;

/// The fastest round, as other programs take their share of the others.
#[expect(clippy::disallowed_methods, reason = "a measurement, which is no part of a server")]
fn measure(what: &str, threads: u32, run: impl Fn(u64) + Sync) {
    let round = |_| {
        let start = Instant::now();
        (0..u64::from(COUNT)).for_each(|nth| run(black_box(nth)));
        start.elapsed()
    };
    let best = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(|| (0..ROUND_COUNT).map(round).min())).collect();
        threads.into_iter().filter_map(|thread| thread.join().expect("it measures")).max()
    });
    println!("{what:<44} {:>6.1} ns", best.unwrap_or_default().as_nanos() as f64 / f64::from(COUNT));
}

fn main() {
    let (ours, count) = (Histogram::new(Buckets::LATENCY), metrics::Counter::<u64>::default());
    let bounds = [1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0];
    let theirs = prometheus_client::metrics::histogram::Histogram::new(bounds);
    // From 20 µs to 2 ms, as calls take.
    let time = |nth: u64| Duration::from_nanos(20_000 + (nth & 0xff) * 8_000);
    for threads in [1, 2] {
        println!("{threads} threads, on the same handle:");
        measure("the loop alone", threads, |nth| _ = black_box(time(nth)));
        measure("counter", threads, |_| _ = count.inc());
        measure("histogram", threads, |nth| ours.observe(time(nth)));
        measure("histogram of prometheus-client, with a lock", threads, |nth| theirs.observe(time(nth).as_secs_f64()));
    }
    #[expect(clippy::disallowed_methods, reason = "a measurement, which is no part of a server")]
    measure("reading the monotonic clock", 1, |_| _ = black_box(Instant::now()));
}
