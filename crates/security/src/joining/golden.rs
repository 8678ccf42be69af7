//! The bytes of every command, as the log has it, and of every kind of row: no change of them is made by accident.

use super::command::{Command, apply};
use super::row::{self, Invitation, Taken};
use super::token::JoinToken;
use testkit::golden::Golden;
use types::rows::MemoryRows;
use types::{Millis, NodeId};

/// One of each, in the order of their numbers in the log.
fn commands() -> Vec<Command> {
    let (now, node) = (Millis(1_700_000_000_000), NodeId([0xab; 16]));
    let (hash, expires) = (JoinToken::hash(&[5; 16]), Millis(now.0 + 86_400_000));
    let invitation = Invitation { hash, expires, node: Some(node), made_by: "ada".into(), taken: None };
    vec![
        Command::Invite { number: 7, now, invitation },
        Command::Take { number: 7, hash, now, by: Taken { node, key: [9; 32] } },
        Command::Withdraw { number: 7 },
        Command::Revoke { node: NodeId([0xcd; 16]), before: now },
    ]
}

#[test]
fn commands_in_the_log() {
    let golden = Golden::of_variants(&commands());
    golden.hold(concat!(env!("CARGO_MANIFEST_DIR"), "/src/joining/golden_commands.txt"));
}

#[test]
fn rows_in_the_store() {
    let mut rows = MemoryRows::default();
    let all = commands();
    for command in [&all[0], &all[1], &all[3]] {
        apply(&mut rows, command).unwrap().unwrap();
    }
    let mut golden = Golden::default();
    for (table, key, value) in rows.iter() {
        let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        golden.add(format!("{}.{key}", table.0), value);
    }
    golden.hold(concat!(env!("CARGO_MANIFEST_DIR"), "/src/joining/golden_rows.txt"));
    assert_eq!(include_str!("row.rs").matches(": Table = Table(").count(), 2, "each table has its example");
    let mut newer = row::encode(&row::invitation(&rows, 7).unwrap().unwrap());
    newer[0] += 1;
    assert!(row::decode::<Invitation>(&newer).is_err(), "a row that a newer program wrote is refused, not misread");
}
