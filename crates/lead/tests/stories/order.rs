//! In which order a chain passes its nodes.

use blocks::{Command, Node, apply};
use lead::{Ask, Cluster, NodeUsage, Plan};
use std::collections::BTreeMap;
use std::time::Duration;
use types::random::Seeded;
use types::rows::MemoryRows;
use types::{NodeId, Random, StorageUsage};

const NOW: Duration = Duration::from_secs(1);

struct World {
    rows: MemoryRows,
    cluster: Cluster,
    random: Seeded,
}

impl World {
    fn new(racks: &[&str]) -> Self {
        let rows = MemoryRows::default();
        let cluster = Cluster::load(&rows, 1).unwrap();
        let mut world = Self { rows, cluster, random: Seeded(7) };
        for (number, rack) in (1..).zip(racks) {
            world.propose(&Command::Register(Node::example(number, rack)));
            let usage = NodeUsage {
                storage: StorageUsage { capacity_len: 1 << 40, used_len: 0, free_len: 1 << 40 },
                transfer_count: 0,
            };
            world.cluster.on_registered(NOW, NodeId([number; 16]), usage);
        }
        world
    }

    fn propose(&mut self, command: &Command) {
        let reply = apply(&mut self.rows, command).unwrap();
        self.cluster.on_applied(command, &reply);
    }

    /// Numbers of the nodes of the next block, for a client on node `client`.
    fn chain(&mut self, replication: u16, client: u8) -> Vec<u8> {
        let client_host = Some(format!("node{client}"));
        let ask = Ask { replication, block_len: 1 << 20, client_host, ..Ask::default() };
        loop {
            match self.cluster.place(&ask, NOW, &mut self.random).unwrap() {
                Plan::Use(allocation) => return allocation.nodes.iter().map(|id| id.0[0]).collect(),
                Plan::Propose(command) => self.propose(&command),
            }
        }
    }
}

/// Writers on every node: each node is head as often as middle and tail, whatever else is going on.
#[test]
fn writers_everywhere_make_every_node_forward_as_much() {
    let mut world = World::new(&["/r"; 3]);
    let mut places: BTreeMap<(u8, usize), usize> = BTreeMap::new();
    for _ in 0..60 {
        let client = 1 + world.random.below(3) as u8;
        let chain = world.chain(3, client);
        assert_eq!(chain[0], client, "the nearest is the client's own");
        assert_eq!(chain[1], client % 3 + 1, "then around");
        for (place, node) in chain.into_iter().enumerate() {
            *places.entry((node, place)).or_default() += 1;
        }
    }
    let count = |node, place| places[&(node, place)];
    for node in 1..=3u8 {
        assert_eq!(count(node, 1), count((node + 1) % 3 + 1, 0), "{places:?}");
    }
}

/// The link between two racks is crossed once.
#[test]
fn a_chain_leaves_a_rack_once() {
    let mut world = World::new(&["/a", "/b", "/a", "/b", "/b"]);
    for client in 1..=5 {
        let chain = world.chain(5, client);
        let rack = |node: &u8| if [1, 3].contains(node) { 'a' } else { 'b' };
        let crossings = chain.windows(2).filter(|pair| rack(&pair[0]) != rack(&pair[1])).count();
        assert_eq!((chain[0], crossings), (client, 1), "{chain:?}");
    }
}

#[test]
fn a_client_on_no_node_writes_and_reads_in_the_rack_that_a_script_told() {
    let mut world = World::new(&["/a", "/a", "/b", "/b", "/c", "/c"]);
    assert!(!world.cluster.knows_rack("node99"));
    world.cluster.on_rack_found("node99".into(), "/b".into());
    assert!(world.cluster.knows_rack("node99"));
    for _ in 0..20 {
        let chain = world.chain(3, 99);
        assert!([3, 4].contains(&chain[0]), "{chain:?}");
        let home = world.cluster.place(
            &Ask { replication: 3, block_len: 1 << 20, client_host: Some("node99".into()), ..Ask::default() },
            NOW,
            &mut world.random,
        );
        let Ok(Plan::Use(allocation)) = home else { panic!("{home:?}") };
        let readers = world.cluster.readers_order(allocation.home, true, Some("node99"), NOW, &mut world.random);
        assert_eq!(readers[0].node.rack, "/b");
    }
}
