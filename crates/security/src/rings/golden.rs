//! The bytes of every command, as the log has it, and of every kind of row: no change of them is made by accident.

use super::command::{Command, apply};
use super::row::{self, RingKind};
use crate::keys::Lifetimes;
use crate::secret::{SECRET_LEN, Secret};
use testkit::golden::{Golden, is_variant};
use types::Millis;
use types::rows::MemoryRows;

/// One of each, in the order of their numbers in the log.
fn commands() -> Vec<Command> {
    let kind = RingKind::DelegationTokens;
    let [current, next, secret] = [1, 2, 3].map(|byte| Secret::new([byte; SECRET_LEN]));
    let (now, roll_interval_ms, token_lifetime_ms) = (Millis(1_700_000_000_000), 86_400_000, 604_800_000);
    let rolled = Millis(now.0 + roll_interval_ms);
    vec![
        Command::Begin { kind, revision: 0, now, roll_interval_ms, token_lifetime_ms, current, next },
        Command::Roll { kind, revision: 1, now: rolled, secret },
        Command::Revoke { kind, key: 1 },
    ]
}

#[test]
fn commands_in_the_log() {
    let golden = Golden::of_variants(&commands());
    golden.hold(concat!(env!("CARGO_MANIFEST_DIR"), "/src/rings/golden_commands.txt"));
}

#[test]
fn rows_in_the_store() {
    let mut rows = MemoryRows::default();
    for command in &commands()[..2] {
        apply(&mut rows, command).unwrap().unwrap();
    }
    let (now, secrets) = (Millis(1_700_000_000_000), [4, 5].map(|byte| Secret::new([byte; SECRET_LEN])));
    let begin = Command::begin(RingKind::BlockTokens, None, now, Lifetimes::BLOCK_TOKENS, secrets);
    apply(&mut rows, &begin).unwrap().unwrap();
    let mut golden = Golden::default();
    for (table, key, value) in rows.iter() {
        let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        golden.add(format!("{}.{key}", table.0), value);
    }
    golden.hold(concat!(env!("CARGO_MANIFEST_DIR"), "/src/rings/golden_rows.txt"));
    assert_eq!(include_str!("row.rs").matches(": Table = Table(").count(), 1, "each table has its example");
    assert!(!is_variant::<RingKind>(RingKind::ALL.len()), "each kind has its example");
    let mut newer = row::encode(&row::ring(&rows, RingKind::BlockTokens).unwrap().unwrap());
    newer[0] += 1;
    assert!(row::decode(&newer).is_err(), "a row that a newer program wrote is refused, not misread");
}
