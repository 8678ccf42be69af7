//! The kept seeds, and exact replay.

use sim::{Options, run, run_caught};
use std::path::PathBuf;

/// A seed is a whole history: run twice, every step comes at the same time in the same order.
#[test]
fn a_seed_replays_to_the_last_step() {
    for seed in [1, 5, 11] {
        let (first, second) = (run(seed, Options::default()), run(seed, Options::default()));
        assert_eq!(first, second);
        assert!(first.fingerprint.0 > 10_000, "little happened: {first:?}");
    }
}

/// Seeds that once failed, each in a file of `seeds/` with a line that says why.
#[test]
fn kept_seeds_stay_well() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../seeds");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("seeds/") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        let Ok(seed) = name.parse::<u64>() else { continue };
        let why = std::fs::read_to_string(&path).expect("a line why");
        assert!(!why.trim().is_empty(), "seeds/{seed} says why it is kept");
        let outcome = run_caught(seed, Options::default());
        assert!(outcome.failures.is_empty(), "seed {seed} fails again ({}): {:#?}", why.trim(), outcome.failures);
        count += 1;
    }
    assert!(count > 0, "no seed is kept");
}
