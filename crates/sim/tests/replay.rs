//! The kept seeds, exact replay, and faults made on purpose: a check that finds none of them would be no check.

mod found;

use found::is_found_with;
use sim::{Mutation, Options, run, run_caught};
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

/// Runs seeds with a deliberate fault until one fails as it must.
fn is_found(mutation: Mutation, by: &[&str]) {
    is_found_with(Options { mutation: Some(mutation), ..Options::default() }, 0..300, by);
}

#[test]
fn a_packet_acknowledged_and_forgotten_is_found() {
    is_found(Mutation::AckBeforeStore, &["cannot be read", "bytes, but Promise"]);
}

#[test]
fn a_put_without_a_sync_is_found() {
    is_found(Mutation::PutWithoutSync, &["cannot be read", "bytes, but Promise"]);
}

#[test]
fn reads_of_a_leader_that_fell_are_found() {
    is_found(Mutation::StaleReads, &["no order explains"]);
}

#[test]
fn a_log_that_is_not_synced_is_found() {
    is_found(
        Mutation::LogWithoutSync,
        &["is damaged", "does not belong to this store", "no order explains", "is gone, and nobody deleted it"],
    );
}

#[test]
fn deletions_that_are_forgotten_are_found() {
    is_found(Mutation::ForgetDeletions, &["it does not come to rest"]);
}

#[test]
fn small_files_on_a_majority_that_nobody_looks_after_are_found() {
    is_found(Mutation::ForgetShortPuts, &["it does not come to rest"]);
}

#[test]
fn members_that_go_with_what_only_they_have_are_found() {
    let options = Options { mutation: Some(Mutation::ForgetChains), rolling: true, ..Options::default() };
    is_found_with(options, 0..300, &["gave up the last copy", "bytes, but Promise"]);
}

#[test]
fn a_node_that_is_called_empty_too_early_is_found() {
    let options = Options { mutation: Some(Mutation::HastyDrain), rolling: true, ..Options::default() };
    // Some seeds in a thousand come to it, the first of these is 240.
    is_found_with(options, 230..400, &["gave up the last copy", "cannot be read"]);
}

#[test]
fn a_recovery_that_believes_what_has_rotted_is_found() {
    let options = Options { mutation: Some(Mutation::BelieveUnread), ..Options::default() };
    // One seed in three hundred comes to it.
    is_found_with(options, 340..740, &["a recovery believed"]);
}

/// Disks are nearly full and a node goes for good: what it had fits on the others in pieces only.
#[test]
fn pipelines_that_are_healed_as_a_whole_or_not_at_all_are_found() {
    is_found(Mutation::WholePipelinesOnly, &["has room for it"]);
}

/// A datanode comes back with replicas of a container that was emptied and removed while it was away.
#[test]
fn what_is_left_of_containers_that_are_gone_is_found() {
    is_found(Mutation::KeepRemoved, &["it does not come to rest"]);
}

#[test]
fn bytes_that_are_lost_with_a_call_that_was_given_up_are_found() {
    let options = Options { mutation: Some(Mutation::ForgetGivenUp), ..Options::default() };
    // One seed in thirty comes to it.
    is_found_with(options, 30..100, &["cannot be read", "bytes, but Promise"]);
}

#[test]
fn a_length_that_is_believed_is_found() {
    is_found(Mutation::BelieveLengths, &["was believed that"]);
}

/// A writer claimed more than it wrote: what else is in its container comes back to the right nodes all the same.
#[test]
fn a_block_that_nobody_has_and_all_wait_for_is_found() {
    let options = Options { mutation: Some(Mutation::WaitForMissing), ..Options::default() };
    // One seed in thirty comes to it.
    is_found_with(options, 0..200, &["it does not come to rest"]);
}

#[test]
fn changes_in_safe_mode_are_found() {
    is_found(Mutation::ForgetSafeMode, &["in safe mode"]);
}

#[test]
fn deletions_in_safe_mode_are_found() {
    is_found(Mutation::DeleteInSafeMode, &["in safe mode"]);
}

#[test]
fn copies_of_damage_are_found() {
    is_found(Mutation::CopyUnverified, &["contradict each other", "read a wrong byte", "has a wrong byte"]);
}

/// A node that was away has an older replica, and the source of the newer one goes away.
#[test]
fn copies_that_make_room_before_they_have_come_are_found() {
    is_found(Mutation::CopyInPlace, &["to a copy that failed"]);
}

/// A file system that allocates late finds out by a sync that it is full; what was dirty then is lost, and the next
/// sync succeeds.
#[test]
fn trust_in_a_disk_that_was_full_is_found() {
    is_found(Mutation::TrustFullDisk, &["durable after a sync of it has failed"]);
}

/// A datanode's machine is copied and both run: at any time one of them is the node.
#[test]
fn two_processes_of_one_datanode_are_found() {
    is_found(Mutation::BelieveCopies, &["two processes are node"]);
}

#[test]
fn renames_that_count_nothing_are_found() {
    is_found(Mutation::UncountedRenames, &["has counted"]);
}
