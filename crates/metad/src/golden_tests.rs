//! Tests of the bytes of commands in the log, and of the machine's own rows. Those of the namespace's operations and of
//! the block side's commands, which are nested in them, are tested where these are declared.

use crate::command::{Command, Founding};
use crate::machine::Machine;
use raft::Machine as _;
use security::joining;
use security::rings::{self, RingKind};
use testkit::golden::Golden;
use types::Millis;
use types::rows::{Rows, Table};

/// One of each, in the order of their numbers in the log.
fn commands() -> Vec<Command> {
    let (now, caller) = (Millis(1_700_000_000_000), namespace::Caller::system());
    let request = namespace::Request { now, caller, retry: None, op: namespace::Reserve { count: 100 }.into() };
    let seal = blocks::Command::Seal { container: types::ContainerId(700), len: 1 << 30 };
    vec![
        Command::Namespace(request),
        Command::Blocks(seal),
        Command::Found(Founding { pool: "BP-7-10.0.0.1-1700000000000".into() }),
        Command::Raise { level: 1 },
        Command::Rings(rings::Command::Revoke { kind: RingKind::BlockTokens, key: 7 }),
        Command::Joining(joining::Command::Withdraw { number: 7 }),
    ]
}

#[test]
fn commands_in_the_log() {
    let golden = Golden::of_variants(&commands());
    golden.hold(concat!(env!("CARGO_MANIFEST_DIR"), "/src/golden_commands.txt"));
}

/// Position, founding, digest and level. The position is Raft's, which holds its form.
#[test]
fn rows_in_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = kv::Store::open(&dir.path().join("store"), kv::Options::default()).unwrap();
    let machine = Machine::open(store, dir.path().join("incoming")).unwrap();
    for command in commands().into_iter().skip(2) {
        machine.apply(b"position", Some(command)).unwrap();
    }
    let mut golden = Golden::default();
    let view = machine.store().view();
    for table in 32..=35 {
        golden.add(format!("{table}."), &view.get(Table(table), &[]).unwrap().unwrap());
    }
    golden.hold(concat!(env!("CARGO_MANIFEST_DIR"), "/src/golden_rows.txt"));
    let declared = include_str!("machine.rs").matches(": Table = Table(").count();
    assert_eq!(declared, 4, "each table has its example");
}
