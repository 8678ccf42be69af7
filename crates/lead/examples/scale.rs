//! How long each piece of work takes that is done under the lock of the cluster's picture, with a million containers on
//! a thousand nodes.
//!
//! ```text
//! cargo run --release -p lead --example scale [CONTAINERS [NODES]]
//! ```
//!
//! A node is lost, its pipelines are mended, the store is balanced, an administrator drains a node. What a server does
//! between two pieces (it proposes a command, asks datanodes) is not counted.

use blocks::{Command, Node, Reply, Service, apply};
use lead::{
    BalancePlan, Cluster, LivenessRules, MembershipRound, MembershipStep, NodeUsage, Repair, RepairContext, Surplus,
};
use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::{Duration, Instant};
use types::random::Seeded;
use types::rows::MemoryRows;
use types::{ContainerId, NodeId, PipelineId, Random, StorageUsage};

const GB: u64 = 1 << 30;
const NOW: Duration = Duration::from_secs(100);
const LATER: Duration = Duration::from_secs(200);
const RACK_COUNT: usize = 25;
/// As in `metad`.
const LISTED_COUNT: usize = 5000;

/// The longest of some pieces, and how many there were.
#[derive(Default)]
struct Pieces {
    longest: Duration,
    count: usize,
}

impl Pieces {
    #[expect(clippy::disallowed_methods, reason = "it measures")]
    fn time<T>(&mut self, piece: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let found = black_box(piece());
        self.longest = self.longest.max(begun.elapsed());
        self.count += 1;
        found
    }

    fn print(&self, what: &str) {
        println!("{what:44} {:>6} pieces, the longest {:>9.3} ms", self.count, self.longest.as_secs_f64() * 1e3);
    }
}

fn id(number: usize) -> NodeId {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&(number as u64).to_be_bytes());
    NodeId(id)
}

fn node(number: usize) -> Node {
    Node { id: id(number), ..Node::example(1, &format!("/rack{}", number % RACK_COUNT)) }
}

/// As full as `percent`, or a little less.
fn beat(cluster: &mut Cluster, node_count: usize, now: Duration, percent: u64, but: Option<usize>) {
    for number in (0..node_count).filter(|number| Some(*number) != but) {
        let used_len: u64 = cluster.pipelines_of(id(number)).iter().map(|pipeline| held_len(cluster, *pipeline)).sum();
        let capacity_len = used_len / percent * 100 / 20 * (20 + number as u64 % 3) + 10 * GB;
        let usage = NodeUsage {
            storage: StorageUsage { capacity_len, used_len, free_len: capacity_len - used_len },
            transfer_count: 0,
        };
        cluster.on_registered(now, id(number), usage);
    }
}

fn held_len(cluster: &Cluster, pipeline: PipelineId) -> u64 {
    let lens = cluster.containers_of(pipeline).filter_map(|home| cluster.container(home));
    lens.map(|container| container.len_about()).sum()
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let container_count: usize = arguments.next().unwrap_or(1_000_000);
    let node_count: usize = arguments.next().unwrap_or(1000);
    let (mut rows, mut random) = (MemoryRows::default(), Seeded(1));
    let mut cluster = Cluster::load(&rows, 1).expect("empty rows");
    let mut propose = |cluster: &mut Cluster, command: &Command| {
        let reply = apply(&mut rows, command).expect("memory can be read");
        cluster.on_applied(command, &reply);
        reply.expect("it is not refused")
    };
    (0..node_count).for_each(|number| _ = propose(&mut cluster, &Command::Register(node(number))));
    beat(&mut cluster, node_count, NOW, 50, None);
    let mut sets: Vec<PipelineId> = Vec::new();
    while sets.len() < node_count {
        let mut members: BTreeSet<NodeId> = BTreeSet::new();
        while members.len() < 3 {
            members.insert(id(random.below(node_count)));
        }
        let members = members.into_iter().collect();
        if let Reply::Pipeline(made) = propose(&mut cluster, &Command::CreateSet { members, wanted: 3, planned: true })
        {
            sets.push(made);
        }
    }
    for number in 0..container_count {
        let pipeline = sets[(number * 7919 + number / 3) % sets.len()];
        let Reply::Container(container) = propose(&mut cluster, &Command::OpenContainer { pipeline }) else { continue };
        let len = 4 * GB + random.below(GB as usize) as u64;
        propose(&mut cluster, &Command::Seal { container, len });
        cluster.on_measured(container, len);
        propose(&mut cluster, &Command::FinishSeal { container });
    }
    // Nearly full: no node has room for a whole pipeline of the one that is lost.
    let most = (0..node_count).max_by_key(|number| cluster.pipelines_of(id(*number)).len()).unwrap_or_default();
    beat(&mut cluster, node_count, LATER, 95, Some(most));
    println!("{container_count} containers, {node_count} nodes, {} pipelines", cluster.pipeline_count());

    let rules =
        LivenessRules { now: LATER, receiving_since: Duration::ZERO, lost_after: 15 * NOW / 100, usual_replication: 3 };
    let (mut repair, mut surplus) = (Repair::default(), Surplus::default());
    let mut known = BTreeSet::new();
    let mut watched = Pieces::default();
    while watched
        .time(|| {
            let cluster = &mut cluster;
            RepairContext { cluster, repair: &mut repair, surplus: &mut surplus, rules }.watch(&mut known)
        })
        .is_some()
    {}
    watched.print("a node is lost: its containers are listed");

    let mut short = Pieces::default();
    let doubtful = short.time(|| cluster.doubtful_pipelines(|member| member.is_live(LATER)));
    for pipeline in doubtful {
        short.time(|| cluster.containers_of(pipeline).filter(|home| cluster.is_short(*home, LATER)).count());
    }
    short.print("census: containers with too few members");

    let (mut begun, mut steps, mut applied, mut listed) = <(Pieces, Pieces, Pieces, Pieces)>::default();
    let (mut splits, mut shortage) = (0, None);
    let mut round = begun.time(|| MembershipRound::begin(&cluster, &repair, &surplus, &rules));
    while shortage.is_none() {
        let command = match steps.time(|| round.step(&cluster, &repair, &rules, &mut random)) {
            MembershipStep::Propose(command) => command,
            MembershipStep::Again => continue,
            MembershipStep::Done(lacking) => {
                shortage = Some(lacking);
                continue;
            }
        };
        splits += usize::from(matches!(command, Command::Carve { .. }));
        applied.time(|| propose(&mut cluster, &command));
        let before = [id(most)];
        listed.time(|| {
            let cluster = &mut cluster;
            RepairContext { cluster, repair: &mut repair, surplus: &mut surplus, rules }.on_members(&command, &before);
        });
    }
    begun.print("membership: a round begins");
    steps.print("membership: a step");
    applied.print("membership: a change is applied, and mirrored");
    listed.print("membership: its containers are listed");
    println!("    {splits} splits, {:?}", shortage.unwrap_or_default());

    let mut drained = Pieces::default();
    propose(&mut cluster, &Command::SetService { node: id(7), service: Service::Draining });
    drained.time(|| cluster.drain_picture(id(7), &rules, &repair));
    drained.print("a drain's progress");

    let mut balanced = Pieces::default();
    let mut balancing = balanced.time(|| BalancePlan::begin(&cluster, &rules, 0));
    while !balanced.time(|| balancing.step(&cluster)) {}
    balanced.print("balancing: a step of a plan");
    println!("    {} moves", balancing.into_moves().len());

    let mut listed = Pieces::default();
    let mut after: Option<ContainerId> = None;
    loop {
        let some = listed.time(|| cluster.sealed_after(after, LISTED_COUNT));
        after = some.last().copied();
        if some.len() < LISTED_COUNT {
            break;
        }
    }
    listed.print("hash trees: sealed containers are listed");
    let (mut checked, mut loaded) = (Pieces::default(), Pieces::default());
    checked.time(|| cluster.check());
    checked.print("(for tests alone: everything is recounted)");
    loaded.time(|| Cluster::load(&rows, 2).expect("memory can be read"));
    loaded.print("(before leading: the rows are mirrored)");
}
