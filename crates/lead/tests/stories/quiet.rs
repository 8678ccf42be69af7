//! A node that has just fallen silent, before it counts as lost: it is asked last.

use blocks::{Command, Node, apply};
use lead::{Ask, Cluster, LivenessRules, NodeUsage, Plan, QUIET_MAX, SILENCE_MAX};
use std::time::Duration;
use types::random::Seeded;
use types::rows::MemoryRows;
use types::{ContainerId, NodeId, StorageUsage};

const BEGIN: Duration = Duration::from_secs(20);
const USAGE: NodeUsage = NodeUsage {
    storage: StorageUsage { capacity_len: 100 << 30, used_len: 1 << 30, free_len: 99 << 30 },
    transfer_count: 0,
};

fn id(number: u8) -> NodeId {
    NodeId([number; 16])
}

struct Store {
    rows: MemoryRows,
    cluster: Cluster,
    random: Seeded,
}

/// So many nodes, all heard at `BEGIN`, with the sets that are made ahead of time.
fn store(count: u8) -> Store {
    let mut store = unprepared(count);
    while let Some(command) = store.cluster.ahead(3, BEGIN, &mut store.random) {
        store.apply(&command);
    }
    store
}

fn unprepared(count: u8) -> Store {
    let mut rows = MemoryRows::default();
    for number in 1..=count {
        let node = Node::example(number, "/r");
        apply(&mut rows, &Command::Register(node)).unwrap().unwrap();
    }
    let mut cluster = Cluster::load(&rows, 1).unwrap();
    (1..=count).for_each(|number| cluster.on_registered(BEGIN, id(number), USAGE));
    Store { rows, cluster, random: Seeded(1) }
}

impl Store {
    fn apply(&mut self, command: &Command) {
        let reply = apply(&mut self.rows, command).unwrap();
        self.cluster.on_applied(command, &reply);
    }

    /// All but the first are heard again.
    fn only_the_first_is_silent(&mut self, count: u8, now: Duration) {
        (2..=count).for_each(|number| _ = self.cluster.on_heartbeat(now, id(number), USAGE));
    }

    fn place(&mut self, now: Duration) -> (ContainerId, Vec<NodeId>) {
        let ask = Ask { replication: 3, block_len: 1 << 20, ..Ask::default() };
        loop {
            match self.cluster.place(&ask, now, &mut self.random).expect("a place") {
                Plan::Use(found) => return (found.home, found.nodes),
                Plan::Propose(command) => self.apply(&command),
            }
        }
    }

    fn readers(&mut self, home: ContainerId, now: Duration) -> Vec<NodeId> {
        let members = self.cluster.readers_order(home, true, None, now, &mut self.random);
        members.into_iter().map(|member| member.node.id).collect()
    }
}

#[test]
fn it_gets_no_new_blocks_while_there_are_enough_others() {
    let mut store = store(5);
    let now = BEGIN + QUIET_MAX + Duration::from_millis(1);
    assert!((0..40).any(|_| store.place(BEGIN + QUIET_MAX).1.contains(&id(1))), "a heartbeat may be late");
    store.only_the_first_is_silent(5, now);
    for _ in 0..40 {
        let (_, nodes) = store.place(now);
        assert!(nodes.len() == 3 && !nodes.contains(&id(1)), "{nodes:?}");
    }
    let more = store.cluster.additional(&[id(2)], 3, &Ask { replication: 3, ..Ask::default() }, now, &mut store.random);
    assert_eq!(more.len(), 3);
    assert!(!more.contains(&id(1)), "{more:?}");
}

#[test]
fn no_sets_are_prepared_with_it() {
    let mut store = unprepared(5);
    let now = BEGIN + QUIET_MAX + Duration::from_millis(1);
    store.only_the_first_is_silent(5, now);
    let mut sets = 0;
    while let Some(command) = store.cluster.ahead(3, now, &mut store.random) {
        if let Command::CreateSet { members, .. } = &command {
            assert!(!members.contains(&id(1)), "{members:?}");
            sets += 1;
        }
        store.apply(&command);
    }
    assert_eq!(sets, 4, "all threes of the four others");
}

#[test]
fn a_node_that_hung_up_is_quiet_until_it_is_heard_again() {
    let mut store = store(5);
    store.cluster.on_dropped_from_chain(id(1));
    assert!((0..40).all(|_| !store.place(BEGIN).1.contains(&id(1))));
    assert!(store.cluster.on_heartbeat(BEGIN, id(1), USAGE));
    assert!((0..40).any(|_| store.place(BEGIN).1.contains(&id(1))));
}

#[test]
fn it_gets_blocks_if_there_are_no_others() {
    let mut store = store(3);
    let now = BEGIN + QUIET_MAX + Duration::from_millis(1);
    store.only_the_first_is_silent(3, now);
    assert_eq!(store.place(now).1.len(), 3);
    let later = BEGIN + SILENCE_MAX + Duration::from_millis(1);
    store.only_the_first_is_silent(3, later);
    assert_eq!(store.place(later).1.len(), 2);
}

/// A log may stay open for hours in a container that a node joins.
#[test]
fn who_joined_serves_what_is_complete_before_all_is() {
    let mut store = store(4);
    let (home, nodes) = store.place(BEGIN);
    let new = (1..=4).map(id).find(|node| !nodes.contains(node)).unwrap();
    let mut members = vec![nodes[0], nodes[1], new];
    members.sort();
    let pipeline = store.cluster.container(home).unwrap().pipeline;
    let epoch = |store: &Store| store.cluster.pipeline(pipeline).unwrap().row.epoch;
    store.apply(&Command::SetMembers { pipeline, epoch: epoch(&store), members });
    let readers = |store: &mut Store, complete| {
        let members = store.cluster.readers_order(home, complete, None, BEGIN, &mut store.random);
        members.iter().any(|member| member.node.id == new)
    };
    assert!(!readers(&mut store, true), "it has nothing yet");
    let joined = epoch(&store);
    store.cluster.on_copied(home, joined);
    assert!(readers(&mut store, true));
    assert!(!readers(&mut store, false), "it is in no chain that was begun before");
}

#[test]
fn readers_are_sent_to_it_last() {
    let mut store = store(3);
    let (home, _) = store.place(BEGIN);
    assert!((0..40).any(|_| store.readers(home, BEGIN)[0] == id(1)));
    let now = BEGIN + QUIET_MAX + Duration::from_millis(1);
    store.only_the_first_is_silent(3, now);
    assert!((0..40).all(|_| store.readers(home, now)[2] == id(1)));
}

/// Whoever has it has stolen it, perhaps; also if nobody else has the block.
#[test]
fn readers_are_not_sent_to_a_revoked_node() {
    let mut store = store(3);
    let (home, nodes) = store.place(BEGIN);
    for (place, node) in nodes.iter().enumerate() {
        store.cluster.on_revoked(*node);
        let readers = store.readers(home, BEGIN);
        assert!(readers.len() == nodes.len() - place - 1 && !readers.contains(node), "{readers:?}");
    }
}

/// It was live a moment ago, and may go on to send what it likes.
#[test]
fn a_revoked_node_is_lost_at_once_until_it_registers_again() {
    let mut store = store(3);
    let rules = LivenessRules {
        now: BEGIN,
        receiving_since: BEGIN,
        lost_after: Duration::from_secs(600),
        usual_replication: 3,
    };
    let is_lost = |store: &Store| rules.is_lost(store.cluster.node(id(1)));
    assert!(!is_lost(&store));
    store.cluster.on_revoked(id(1));
    assert!(is_lost(&store) && store.cluster.live_count(BEGIN) == 2);
    assert!(!store.cluster.on_heartbeat(BEGIN, id(1), USAGE), "it has to register first");
    store.cluster.on_message(BEGIN, id(1));
    assert!(is_lost(&store) && store.cluster.live_count(BEGIN) == 2);
    store.cluster.on_registered(BEGIN, id(1), USAGE);
    assert!(!is_lost(&store) && store.cluster.live_count(BEGIN) == 3);
}
