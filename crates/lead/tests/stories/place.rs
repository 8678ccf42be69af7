//! Where blocks go that are to have another number of copies.

use blocks::{Command, Node, apply};
use lead::{Ask, Cluster, NodeUsage, Plan};
use std::time::Duration;
use types::random::Seeded;
use types::rows::MemoryRows;
use types::{ContainerId, NodeId, PipelineId, StorageUsage};

const NOW: Duration = Duration::from_secs(20);

/// Three nodes that hold a container, with so much room each.
fn full(free_len: u64) -> (MemoryRows, Cluster) {
    let mut rows = MemoryRows::default();
    let id = |number: u8| NodeId([number; 16]);
    let mut commands: Vec<Command> = (1..=3).map(|number| Command::Register(Node::example(number, "/r"))).collect();
    commands.push(Command::CreateSet { members: (1..=3).map(id).collect(), wanted: 3, planned: true });
    commands.push(Command::OpenContainer { pipeline: PipelineId(1) });
    for command in &commands {
        apply(&mut rows, command).unwrap().unwrap();
    }
    let mut cluster = Cluster::load(&rows, 1).unwrap();
    for number in 1..=3 {
        let usage = NodeUsage {
            storage: StorageUsage { capacity_len: 100 << 30, used_len: (100 << 30) - free_len, free_len },
            transfer_count: 0,
        };
        cluster.on_registered(NOW, id(number), usage);
    }
    (rows, cluster)
}

/// A writer that was turned away by disks that have just become full excludes their nodes, and is told all the same
/// what they lack, and what there is to do.
#[test]
fn who_excludes_full_nodes_hears_what_room_they_lack() {
    let (_, mut cluster) = full(1 << 20);
    let excluded = (1..=3).map(|number| NodeId([number; 16])).collect();
    let ask = Ask { replication: 3, block_len: 128 << 20, excluded, ..Ask::default() };
    let refusal = cluster.place(&ask, NOW, &mut Seeded(1)).unwrap_err().to_string();
    let lack = "3 of the datanodes have no room for a block of 134217728 bytes; the most that one has is 1048576: ";
    assert!(refusal.contains("3 node(s) are excluded") && refusal.contains(lack), "{refusal}");
}

/// A writer has lost one node after the other, and excludes them all. Two have started anew since: one of them takes
/// the place of the last that failed, and the next block goes to both.
#[test]
fn nodes_that_came_back_since_they_were_excluded_are_better_than_none() {
    let (mut rows, mut cluster) = full(100 << 30);
    let id = |number: u8| NodeId([number; 16]);
    let ask = Ask { replication: 3, block_len: 1 << 20, excluded: (1..=3).map(id).collect(), ..Ask::default() };
    assert!(cluster.place(&ask, NOW, &mut Seeded(1)).is_err(), "none has been away");
    assert_eq!(cluster.additional(&[], 2, &ask, NOW, &mut Seeded(1)), []);
    let usage = NodeUsage { storage: cluster.node(id(1)).unwrap().usage, transfer_count: 0 };
    (1..=2).for_each(|number| cluster.on_registered(NOW, id(number), usage));
    assert_eq!(cluster.additional(&[id(1)], 2, &ask, NOW, &mut Seeded(1)), [id(2)]);
    let found = loop {
        match cluster.place(&ask, NOW, &mut Seeded(1)).expect("two are back") {
            Plan::Use(found) => break found,
            Plan::Propose(command) => {
                let reply = apply(&mut rows, &command).unwrap();
                cluster.on_applied(&command, &reply);
            }
        }
    };
    let mut nodes = found.nodes;
    nodes.sort_unstable();
    assert_eq!(nodes, [id(1), id(2)]);
    let later = NOW + Duration::from_secs(601);
    (1..=3).for_each(|number| assert!(cluster.on_heartbeat(later, id(number), usage)));
    assert!(cluster.place(&ask, later, &mut Seeded(1)).is_err(), "whoever excludes it now means this process");
}

/// Who has the bytes needs no room for them: fewer copies are asked for when disks are full.
#[test]
fn fewer_copies_need_no_room() {
    let (mut rows, mut cluster) = full(3 << 30);
    let home = ContainerId(1);
    assert_eq!(cluster.member_ids(home).len(), 3);
    let to = loop {
        match cluster.home_of_size(home, 2, 5 << 30, NOW, &mut Seeded(1)).expect("a set") {
            Plan::Use(to) => break to,
            Plan::Propose(command) => {
                let reply = apply(&mut rows, &command).unwrap();
                cluster.on_applied(&command, &reply);
            }
        }
    };
    assert_eq!(cluster.member_ids(to).len(), 2);
}
