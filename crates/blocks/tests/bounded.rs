//! The rows that one command touches do not grow with the containers of the store: all members apply it, and all other changes wait
//! meanwhile.

use blocks::{Command, Node, apply};
use std::cell::Cell;
use std::ops::Bound;
use types::rows::{MemoryRows, Row, Rows, RowsError, RowsMut, Table, Visit};
use types::{ContainerId, Epoch, NodeId, PipelineId};

/// Rows that count how often one is read or written.
#[derive(Default)]
struct Counted {
    rows: MemoryRows,
    touched: Cell<usize>,
}

impl Counted {
    fn touch(&self) {
        self.touched.set(self.touched.get() + 1);
    }

    /// Rows touched by one command, which must be done.
    fn apply(&mut self, command: &Command) -> usize {
        self.touched.set(0);
        apply(self, command).unwrap().unwrap();
        self.touched.get()
    }
}

impl Rows for Counted {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, RowsError> {
        self.touch();
        self.rows.get(table, key)
    }

    fn scan(&self, table: Table, from: Bound<&[u8]>, visit: &mut Visit<'_>) -> Result<(), RowsError> {
        self.rows.scan(table, from, &mut |key, value| {
            self.touch();
            visit(key, value)
        })
    }

    fn last_at_most(&self, table: Table, key: &[u8]) -> Result<Option<Row>, RowsError> {
        self.touch();
        self.rows.last_at_most(table, key)
    }
}

impl RowsMut for Counted {
    fn put(&mut self, table: Table, key: &[u8], value: Vec<u8>) {
        self.touch();
        self.rows.put(table, key, value);
    }

    fn delete(&mut self, table: Table, key: &[u8]) {
        self.touch();
        self.rows.delete(table, key);
    }
}

fn ids(numbers: [u8; 3]) -> Vec<NodeId> {
    numbers.map(|number| NodeId([number; 16])).into()
}

/// Names of commands, and rows that each touches in a store with so many containers in two pipelines.
fn touched(container_count: u64) -> Vec<(&'static str, usize)> {
    let mut rows = Counted::default();
    (1..=4).for_each(|number| _ = rows.apply(&Command::Register(Node::example(number, "/r"))));
    rows.apply(&Command::CreateSet { members: ids([1, 2, 3]), wanted: 3, planned: true });
    rows.apply(&Command::CreateSet { members: ids([2, 3, 4]), wanted: 3, planned: true });
    let pipeline = |number: u64| PipelineId(1 + number % 2);
    (0..container_count).for_each(|number| _ = rows.apply(&Command::OpenContainer { pipeline: pipeline(number) }));
    let (first, epoch) = (ContainerId(1), Epoch(1));
    let members = ids([1, 2, 4]);
    let carve = Command::Carve { from: pipeline(0), epoch, containers: vec![ContainerId(3)], members: members.clone() };
    let commands = [
        ("register", Command::Register(Node::example(4, "/other"))),
        ("create", Command::CreateSet { members: members.clone(), wanted: 3, planned: true }),
        ("open", Command::OpenContainer { pipeline: pipeline(0) }),
        ("lease", Command::LeaseIndexes { container: first, from: 0, up_to: 10, lessee: 1, len: 1 }),
        ("seal", Command::Seal { container: first, len: 1 }),
        ("sealed", Command::FinishSeal { container: first }),
        ("carve", carve),
        ("members", Command::SetMembers { pipeline: pipeline(0), epoch, members }),
        ("whole", Command::Whole { containers: vec![(first, pipeline(0), Epoch(2))] }),
        ("remove", Command::RemoveContainer { container: first }),
    ];
    commands.iter().map(|(name, command)| (*name, rows.apply(command))).collect()
}

#[test]
fn a_command_touches_as_many_rows_in_a_large_store_as_in_a_small_one() {
    let (small, large) = (touched(10), touched(100_000));
    assert_eq!(small, large);
    let most = large.iter().map(|(_, count)| *count).max();
    assert!(most <= Some(12), "{large:?}");
}
