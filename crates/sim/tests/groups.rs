//! Groups of Raft members: exact replay.

use sim::{Options, run_group};

const GROUPS: Options = Options { mutation: None, trace: false, rolling: false, groups: true };

/// openraft and all around it: run twice, every step comes at the same time in the same order, and every message is the same.
#[test]
fn a_seed_replays_to_the_last_step() {
    for (seed, rolling) in [(1, false), (2, true), (3, true), (4, false)] {
        let options = Options { rolling, ..GROUPS };
        let (first, second) = (run_group(seed, options), run_group(seed, options));
        assert_eq!(first, second);
        assert!(first.fingerprint.0 > 3_000, "little happened: {first:?}");
    }
}
