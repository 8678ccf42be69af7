//! Balancing between many nodes: by steps, and with the plan that fits.

use blocks::{Command, Node, Reply, apply};
use lead::{BalancePlan, Cluster, FULL_PARTS, LivenessRules, NodeUsage};
use std::collections::BTreeMap;
use std::time::Duration;
use types::random::Seeded;
use types::rows::MemoryRows;
use types::{NodeId, Random, StorageUsage};

const GB: u64 = 1 << 30;
const NODE_COUNT: u8 = 40;
const NOW: Duration = Duration::from_secs(100);
const CAPACITY: u64 = 1000 * GB;

/// Sets of three nodes on three racks, filled so that some nodes have thrice as much as others.
#[test]
fn moves_bring_all_nodes_near_to_the_mean() {
    let (mut rows, mut random) = (MemoryRows::default(), Seeded(1));
    let mut used: BTreeMap<NodeId, u64> = BTreeMap::new();
    let id = |number: u8| NodeId([number; 16]);
    let mut run = |command: &Command| apply(&mut rows, command).unwrap().unwrap();
    for number in 1..=NODE_COUNT {
        run(&Command::Register(Node::example(number, &format!("/rack{}", number % 3))));
    }
    for first in 1..=NODE_COUNT - 3 {
        let members: Vec<NodeId> = [first, first + 1, first + 2].map(id).to_vec();
        let Reply::Pipeline(pipeline) = run(&Command::CreateSet { members: members.clone(), wanted: 3, planned: true })
        else {
            panic!()
        };
        for _ in 0..u64::from(first) / 2 + 5 {
            let Reply::Container(container) = run(&Command::OpenContainer { pipeline }) else { panic!() };
            let len = GB * (1 + random.below(5) as u64);
            run(&Command::LeaseIndexes { container, from: 0, up_to: 10, lessee: 1, len });
            members.iter().for_each(|node| *used.entry(*node).or_default() += len);
        }
    }
    let mut cluster = Cluster::load(&rows, 1).unwrap();
    for number in 1..=NODE_COUNT {
        let used_len = used.get(&id(number)).copied().unwrap_or_default();
        let usage = NodeUsage {
            storage: StorageUsage { used_len, free_len: CAPACITY - used_len, ..StorageUsage::default() },
            transfer_count: 0,
        };
        cluster.on_registered(NOW, id(number), usage);
    }
    let (now, lost_after) = (NOW, Duration::from_secs(15));
    let rules = LivenessRules { now, receiving_since: Duration::ZERO, lost_after, usual_replication: 3 };
    let within = FULL_PARTS / 50;
    let mut balancing = BalancePlan::begin(&cluster, &rules, within);
    while !balancing.step(&cluster) {}
    let moves = balancing.into_moves();
    for next in &moves {
        let before = used[&next.from];
        *used.entry(next.from).or_default() -= next.len;
        *used.entry(next.to).or_default() += next.len;
        assert!(used[&next.to] < before, "{next:?}");
        let members = cluster.member_ids(next.container);
        assert!(members.contains(&next.from) && !members.contains(&next.to), "{next:?}");
        let rack = |node: &NodeId| node.0[0] % 3;
        assert_eq!(rack(&next.from), rack(&next.to), "sets stay on three racks");
    }
    let containers: std::collections::BTreeSet<_> = moves.iter().map(|next| next.container).collect();
    assert_eq!(containers.len(), moves.len(), "no container moves twice");
    let mean = used.values().sum::<u64>() / u64::from(NODE_COUNT);
    let far = used.values().map(|used| used.abs_diff(mean)).max().unwrap();
    assert!(far <= CAPACITY / 50 + 5 * GB, "{} GB from the mean of {} GB", far / GB, mean / GB);
}
