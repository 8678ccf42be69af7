//! Faults made on purpose: a check that finds none of them would be no check.

use sim::{DELIBERATE, FOUND_WITHIN, Mutation};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Seeds from the one that found a fault when the table was made. Any change of the code may move it, so that the
/// others are looked through after these.
const NEAR: u64 = 40;
const THREADS: usize = 2;

/// Each fault is found, and by the check that stands for it.
#[test]
fn every_fault_is_found() {
    let next = AtomicUsize::new(0);
    let look = || {
        let mut missed = Vec::new();
        while let Some(deliberate) = DELIBERATE.get(next.fetch_add(1, Ordering::Relaxed)) {
            let near = deliberate.first..deliberate.first + NEAR;
            let others = [near.clone(), 0..near.start, near.end..FOUND_WITHIN];
            match others.into_iter().find_map(|seeds| deliberate.find(seeds, 1)) {
                Some((_, said)) if deliberate.is_shown_by(&said) => {}
                found => missed.push(format!("{}: {found:?}", deliberate.mutation.name())),
            }
        }
        missed
    };
    let missed: Vec<String> = std::thread::scope(|scope| {
        let lookers: Vec<_> = (0..THREADS).map(|_| scope.spawn(look)).collect();
        lookers.into_iter().flat_map(|looker| looker.join().expect("it ends")).collect()
    });
    assert!(missed.is_empty(), "not found below {FOUND_WITHIN}, or by something else: {missed:#?}");
}

#[test]
fn every_fault_is_in_the_table_once() {
    let known: BTreeSet<Mutation> = DELIBERATE.iter().map(|deliberate| deliberate.mutation).collect();
    assert_eq!(known.len(), DELIBERATE.len());
    assert_eq!(known, Mutation::ALL.iter().copied().collect());
    assert!(DELIBERATE.iter().all(|deliberate| deliberate.first < FOUND_WITHIN));
}
