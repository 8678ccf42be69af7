//! Faults made on purpose: a check that finds none of them would be no check.

use sim::{Options, run_caught};
use std::ops::Range;

/// Runs seeds with a deliberate fault until one fails as it must.
pub(crate) fn is_found_with(options: Options, seeds: Range<u64>, by: &[&str]) {
    for seed in seeds.clone() {
        let outcome = run_caught(seed, options);
        if outcome.failures.iter().any(|failure| by.iter().any(|by| failure.contains(by))) {
            return;
        }
    }
    panic!("{:?} is not found by seeds {seeds:?}", options.mutation);
}
