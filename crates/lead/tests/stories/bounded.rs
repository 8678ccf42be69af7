//! The rows that one command touches do not grow with the containers of the store: all members apply it, and all other
//! changes wait meanwhile.

use blocks::{Command, Node, apply};
use testkit::Counted;
use types::{ContainerId, Epoch, NodeId, PipelineId};

/// Rows touched by one command, which must be done.
fn touched_by(rows: &mut Counted, command: &Command) -> usize {
    rows.take_touched();
    apply(rows, command).unwrap().unwrap();
    rows.take_touched()
}

fn ids(numbers: [u8; 3]) -> Vec<NodeId> {
    numbers.map(|number| NodeId([number; 16])).into()
}

/// Names of commands, and rows that each touches in a store with so many containers in two pipelines.
fn touched(container_count: u64) -> Vec<(&'static str, usize)> {
    let mut rows = Counted::default();
    (1..=4).for_each(|number| _ = touched_by(&mut rows, &Command::Register(Node::example(number, "/r"))));
    touched_by(&mut rows, &Command::CreateSet { members: ids([1, 2, 3]), wanted: 3, planned: true });
    touched_by(&mut rows, &Command::CreateSet { members: ids([2, 3, 4]), wanted: 3, planned: true });
    let pipeline = |number: u64| PipelineId(1 + number % 2);
    (0..container_count)
        .for_each(|number| _ = touched_by(&mut rows, &Command::OpenContainer { pipeline: pipeline(number) }));
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
    commands.iter().map(|(name, command)| (*name, touched_by(&mut rows, command))).collect()
}

#[test]
fn a_command_touches_as_many_rows_in_a_large_store_as_in_a_small_one() {
    let (small, large) = (touched(10), touched(100_000));
    assert_eq!(small, large);
    let most = large.iter().map(|(_, count)| *count).max();
    assert!(most <= Some(12), "{large:?}");
}
