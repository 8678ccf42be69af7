//! The talk's query by each way of reading it: `cargo run --release -p prefetch --example talk`.
//!
//! `stalls` is how often the program waited, `trips` for how many round trips together, with the time that the bytes
//! take.

#[path = "../tests/talk/mod.rs"]
mod talk;

use prefetch::Settings;
use talk::{COLUMNS_READ, File, TALK, exactly, needed_len};

fn main() {
    let file = File::new(1);
    println!(
        "{:<10} {:<22} {:>7} {:>8} {:>9} {:>8} {:>8} {:>7}",
        "order", "cache", "stalls", "trips", "requests", "asked", "wasted", "s"
    );
    let orders = [("entries", file.by_entries(&COLUMNS_READ)), ("columns", file.by_columns(&COLUMNS_READ))];
    for (order, trace) in orders {
        let needed = needed_len(&trace);
        let learned = file.play(&trace, TALK, None).observed;
        let small = Settings { cache_len: 64 << 10, ..TALK };
        let ways = [
            ("none", Settings::off(), None),
            ("64 KB, not enlarged", exactly(64 << 10), None),
            ("64 KB", small, None),
            ("10 MB", TALK, None),
            ("64 KB, profile", small, Some(&learned)),
            ("10 MB, profile", TALK, Some(&learned)),
        ];
        for (name, settings, profile) in ways {
            let score = file.play(&trace, settings, profile);
            println!(
                "{order:<10} {name:<22} {:>7} {:>8} {:>9} {:>8.3} {:>8.3} {:>7.2}",
                score.stalls,
                score.round_trips_waited,
                score.requests,
                score.asked_len as f64 / needed as f64,
                score.wasted_len as f64 / needed as f64,
                score.elapsed_us as f64 / 1e6,
            );
        }
    }
}
