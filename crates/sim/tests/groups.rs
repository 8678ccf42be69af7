//! Groups of Raft members: exact replay, and the kept seeds.

use sim::{Options, Outcome, run_caught, run_group};
use std::path::PathBuf;

const GROUPS: Options = Options { mutation: None, trace: false, rolling: false, groups: true };

/// openraft and all around it: run twice, every step comes at the same time in the same order, and every message is the
/// same.
#[test]
fn a_seed_replays_to_the_last_step() {
    for (seed, rolling) in [(1, false), (2, true), (3, true), (4, false)] {
        let options = Options { rolling, ..GROUPS };
        let (first, second) = (run_group(seed, options), run_group(seed, options));
        assert_eq!(first, second);
        assert!(first.fingerprint.0 > 3_000, "little happened: {first:?}");
    }
}

/// Seeds that once failed, or in which much happens, each in a file of `seeds/groups/`, or `seeds/groups/rolling/`,
/// with a line that says why.
#[test]
fn kept_seeds_stay_well() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../seeds/groups");
    for (folder, rolling) in [(folder.clone(), false), (folder.join("rolling"), true)] {
        let mut count = 0;
        for entry in std::fs::read_dir(&folder).expect("seeds/groups/") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
            let Ok(seed) = name.parse::<u64>() else { continue };
            let why = std::fs::read_to_string(&path).expect("a line why");
            assert!(!why.trim().is_empty(), "{} says why it is kept", path.display());
            let Outcome { failures, .. } = run_caught(seed, Options { rolling, ..GROUPS });
            assert!(failures.is_empty(), "seed {seed} fails again ({}): {failures:#?}", why.trim());
            count += 1;
        }
        assert!(count > 0, "no seed is kept in {}", folder.display());
    }
}
