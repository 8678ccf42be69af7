//! Rebuilding begins where the fewest copies are left.

use crate::next_change::next_change;
use blocks::{Command, Node, apply};
use lead::{Cluster, LivenessRules, NodeUsage};
use std::time::Duration;
use types::random::Seeded;
use types::rows::MemoryRows;
use types::{Epoch, NodeId, PipelineId, StorageUsage};

const NOW: Duration = Duration::from_secs(100);

fn set(numbers: &[u8]) -> Vec<NodeId> {
    numbers.iter().map(|number| NodeId([*number; 16])).collect()
}

/// Nodes 5 and 6 are lost. The set that was made first has two copies left, the second one: that one gets another
/// member first, and then again.
#[test]
fn the_set_with_the_fewest_copies_is_completed_first() {
    let (mut rows, mut commands) = (MemoryRows::default(), Vec::new());
    commands.extend((1..=6).map(|number| Command::Register(Node::example(number, "/r"))));
    for members in [[1, 2, 5], [3, 5, 6]] {
        commands.push(Command::CreateSet { members: set(&members), wanted: 3, planned: true });
    }
    commands.extend((1..=2).map(|number| Command::OpenContainer { pipeline: PipelineId(number) }));
    commands.iter().for_each(|command| _ = apply(&mut rows, command).unwrap().unwrap());
    let mut cluster = Cluster::load(&rows, 1).unwrap();
    let storage = StorageUsage { capacity_len: 1 << 40, used_len: 0, free_len: 1 << 39 };
    for node in set(&[1, 2, 3, 4]) {
        cluster.on_registered(NOW, node, NodeUsage { storage, transfer_count: 0 });
    }
    let lost_after = Duration::from_secs(15);
    let rules = LivenessRules { now: NOW, receiving_since: Duration::ZERO, lost_after, usual_replication: 3 };
    let mut order = Vec::new();
    while let Some(command) = next_change(&cluster, &rules, &mut Seeded(1)) {
        let reply = apply(&mut rows, &command).unwrap();
        cluster.on_applied(&command, &reply);
        let Command::SetMembers { pipeline, epoch, .. } = command else { continue };
        order.push(pipeline);
        if epoch == Epoch(2) {
            break;
        }
    }
    assert_eq!(order, [PipelineId(2), PipelineId(2)]);
}
