//! Stories of repair: what is called bad, who does not answer, what clients wrote short.

use crate::support::small_files::{self, lease_request, put, put_request};
use crate::support::{Datanode, MB, User, World};
use hdfs::proto::*;
use std::time::Duration;
use types::ReplicaState;
use wire::admin::ADMIN_PROTOCOL;
use wire::admin::datanodes::{DRAIN, DrainRequest, DrainResponse};
use wire::admin::jobs::{
    BEGIN_DISK_BALANCE, BeginDiskBalanceRequest, BegunResponse, Job, JobKind, JobState, LIST_JOBS, ListJobsRequest,
    ListJobsResponse,
};
use wire::admin::placement::{Trouble, UNDER_REPLICATED, UnderReplicatedRequest, UnderReplicatedResponse};
use wire::client::{LeaseBlocksResponse, LeasedBlock, PutFileRequest};
use wire::node::{self, Replica};

async fn trouble(user: &User) -> UnderReplicatedResponse {
    let request = UnderReplicatedRequest {};
    user.ask_in(ADMIN_PROTOCOL, UNDER_REPLICATED, &request).await.unwrap()
}

fn is_damaged(report: &UnderReplicatedResponse, block: u64, node: &Datanode) -> bool {
    let port = format!(":{}", 10_000 + u32::from(node.number));
    let damaged = |short: &&wire::admin::placement::ShortBlock| short.trouble() == Trouble::Damaged;
    report.blocks.iter().filter(damaged).any(|short| short.block == block && short.datanode.ends_with(&port))
}

/// A reader complains of replicas of `node`.
async fn complain(user: &User, block: &LocatedBlockProto, node: &Datanode) {
    let places = block.locs.iter().filter(|place| place.id.datanode_uuid == node.id.to_string());
    let bad = LocatedBlockProto { locs: places.cloned().collect(), ..block.clone() };
    let request = ReportBadBlocksRequestProto { blocks: vec![bad] };
    let _: ReportBadBlocksResponseProto = user.ask("reportBadBlocks", &request).await.unwrap();
}

/// One node beats, but its disk or its port hangs: it is not waited for to hear another one, however much it is
/// complained of.
#[tokio::test]
async fn a_node_that_hangs_holds_up_no_other() {
    let world = World::new(3).await;
    let root = world.root();
    let mut blocks = Vec::new();
    for number in 0..12 {
        blocks.extend(root.write(&world, &format!("/f{number}"), &[MB]).await);
    }
    let (hanging, damaged) = (&world.nodes[0], &world.nodes[1]);
    hanging.manners.lock().unwrap().hangs = true;
    let victim = blocks.iter().map(|block| block.b.block_id).max().unwrap();
    damaged.manners.lock().unwrap().damaged.insert(victim);
    for block in &blocks {
        complain(&root, block, hanging).await;
    }
    complain(&root, blocks.iter().find(|block| block.b.block_id == victim).unwrap(), damaged).await;
    world.until("the damage is known", async || is_damaged(&trouble(&root).await, victim, damaged)).await;
    assert!(!is_damaged(&trouble(&root).await, victim, hanging), "it has said nothing");
}

/// Each complaint costs a datanode a read, so it must be of a replica that there is.
#[tokio::test]
async fn complaints_of_what_is_not_there_take_no_place() {
    let world = World::new(3).await;
    let root = world.root();
    let block = root.write(&world, "/f", &[MB]).await.remove(0);
    world.nodes.iter().for_each(|node| node.manners.lock().unwrap().hangs = true);
    let count = || world.metad.status()["bad_replicas_reported"].as_u64().unwrap();
    // A node reads one at a time, and hangs: those that it was asked for are not counted any more.
    for _ in 0..2 {
        for at in 1..100 {
            let b = ExtendedBlockProto { block_id: block.b.block_id + at, ..block.b.clone() };
            complain(&root, &LocatedBlockProto { b, ..block.clone() }, &world.nodes[0]).await;
        }
    }
    assert_eq!(count(), 0);
    let blocks = root.write(&world, "/g", &[MB, MB, MB]).await;
    for block in &blocks {
        complain(&root, block, &world.nodes[0]).await;
    }
    assert!((2..=3).contains(&count()), "{}", count());
}

/// All replicas of a block read wrong, as behind a bad controller. When one reads well again it is found, and it is the
/// others' source.
#[tokio::test]
async fn damage_that_was_none_is_taken_back() {
    let world = World::new(3).await;
    let root = world.root();
    let block = root.write(&world, "/f", &[MB]).await.remove(0);
    let id = block.b.block_id;
    for node in &world.nodes {
        node.manners.lock().unwrap().damaged.insert(id);
        complain(&root, &block, node).await;
    }
    world
        .until("nobody has it", async || {
            let report = trouble(&root).await;
            (report.damaged_count, report.missing_count) == (3, 1)
        })
        .await;
    world.nodes[2].manners.lock().unwrap().damaged.clear();
    let ordered = |node: &Datanode| {
        let copies = node.copies.lock().unwrap();
        let from = world.nodes[2].id.to_string();
        copies.iter().any(|copy: &node::CopyOrder| copy.block == id && copy.replaces && copy.sources[0].node == from)
    };
    world.until("the others copy it", async || ordered(&world.nodes[0]) && ordered(&world.nodes[1])).await;
    // A count is told for longer than it took, by the clock that is turned here.
    world
        .until("the count says so", async || {
            let report = trouble(&root).await;
            (report.damaged_count, report.missing_count) == (2, 0)
        })
        .await;
}

async fn drain(user: &User, node: &Datanode) -> u64 {
    let request = DrainRequest { datanode: node.id.to_string(), drain: true };
    let answer: DrainResponse = user.ask_in(ADMIN_PROTOCOL, DRAIN, &request).await.unwrap();
    answer.job
}

async fn job(user: &User, id: u64) -> Job {
    let request = ListJobsRequest {};
    let answer: ListJobsResponse = user.ask_in(ADMIN_PROTOCOL, LIST_JOBS, &request).await.unwrap();
    answer.jobs.into_iter().find(|job| job.id == id).unwrap()
}

async fn lease(user: &User) -> LeaseBlocksResponse {
    small_files::lease(user, &lease_request("w", 2, "/short")).await.unwrap()
}

fn named<'a>(world: &'a World, leased: &LeaseBlocksResponse, place: usize) -> &'a Datanode {
    world.nodes.iter().find(|node| node.id.to_string() == leased.nodes[place].id).unwrap()
}

/// A small file was acknowledged by two of three. The client says so, and the third one gets a copy at once, not when
/// all is looked through.
#[tokio::test]
async fn a_small_file_that_one_node_lacks_is_filled_up() {
    let world = World::new(3).await;
    let root = world.root();
    let leased = lease(&root).await;
    let LeasedBlock { block, file, ref token, .. } = leased.blocks[0];
    let home = wire::BlockScope::decode(token).unwrap().unwrap().home.0;
    for place in [0, 1] {
        let state = ReplicaState::Finalized as i32;
        let replica = Replica { block, generation: leased.generation, len: 7, file, home, state };
        named(&world, &leased, place).replicas.lock().unwrap().insert(block, replica);
    }
    put(&root, &PutFileRequest { short: true, ..put_request(&leased, 0, "/short", "w") }).await.unwrap();
    let late = named(&world, &leased, 2);
    let ordered = || late.copies.lock().unwrap().iter().any(|copy| copy.block == block && copy.sources.len() == 2);
    let begun = world.now();
    world.until("the third one is told to copy it", async || ordered()).await;
    assert!(world.now().0 - begun.0 < 20_000, "long before the audit");
}

/// Ids that a client holds name the node: what it puts with them may still arrive there.
#[tokio::test]
async fn a_drain_waits_for_ids_that_clients_hold() {
    let world = World::new(4).await;
    let root = world.root();
    let leased = lease(&root).await;
    let node = named(&world, &leased, 0);
    let id = drain(&root, node).await;
    let waits = async || {
        root.renew("w").await; // for as long as its machine is slow
        job(&root, id).await.note.contains("small files")
    };
    world.until("nothing but the ids is left", waits).await;
    assert_eq!(job(&root, id).await.state(), JobState::Waiting);
    world.pass(Duration::from_secs(70)).await;
    world.until("it is drained", async || job(&root, id).await.state() == JobState::Done).await;
}

/// The node is in no set any more, and what it has was left there as surplus; but nobody else has it. It is not called
/// drained before the members have it.
#[tokio::test]
async fn a_drain_waits_for_what_only_this_node_has() {
    let world = World::new(4).await;
    let root = world.root();
    let block = root.write(&world, "/f", &[MB]).await.remove(0);
    let id = block.b.block_id;
    let members: Vec<&Datanode> = block.locs.iter().map(|place| world.node_of(place)).collect();
    let only = world.nodes.iter().find(|node| members.iter().all(|member| member.id != node.id)).unwrap();
    for member in &members {
        let replica = member.replicas.lock().unwrap().remove(&id).unwrap();
        only.replicas.lock().unwrap().insert(id, replica);
    }
    let job_id = drain(&root, only).await;
    world.until("it was looked through", async || job(&root, job_id).await.note.contains("compared")).await;
    let ordered = |node: &&Datanode| {
        let copies = node.copies.lock().unwrap();
        copies.iter().any(|copy| copy.block == id && copy.sources[0].node == only.id.to_string())
    };
    world.until("the members are told to copy it", async || members.iter().all(&ordered)).await;
    assert_eq!(job(&root, job_id).await.state(), JobState::Waiting);
    assert!(only.replica(id).is_some(), "it is all there is");
    for member in &members {
        let replica = only.replica(id).unwrap();
        member.replicas.lock().unwrap().insert(id, replica);
        member.tell_puts(world.addr()).await;
    }
    world.until("it is drained", async || job(&root, job_id).await.state() == JobState::Done).await;
    world.until("others have it, and it goes", async || only.replica(id).is_none()).await;
}

/// Disks are to be made even, and no datanode has heard of it yet when another leader comes: it goes on, under the same
/// number.
#[tokio::test]
async fn balancing_of_disks_outlives_its_leader() {
    let mut world = World::new(2).await;
    let root = world.root();
    let request = BeginDiskBalanceRequest { len_per_s: 1, within: 2, ..BeginDiskBalanceRequest::default() };
    let begun: BegunResponse = root.ask_in(ADMIN_PROTOCOL, BEGIN_DISK_BALANCE, &request).await.unwrap();
    world.restart().await;
    let job = job(&world.root(), begun.job).await;
    assert_eq!((job.kind(), job.state()), (JobKind::BalanceDisks, JobState::Running), "{job:?}");
}

/// It is down, and is to be taken away: those who took its places copy from the others, and not before they have is it
/// called drained.
#[tokio::test]
async fn a_node_that_is_down_is_drained_when_others_have_its_blocks() {
    let mut world = World::new(4).await;
    let root = world.root();
    let block = root.write(&world, "/f", &[MB]).await.remove(0);
    let id = block.b.block_id;
    let place =
        |world: &World, has: bool| world.nodes.iter().position(|node| node.replica(id).is_some() == has).unwrap();
    let (dead, spare) = (place(&world, true), place(&world, false));
    world.nodes[dead].kill();
    let job_id = drain(&root, &world.nodes[dead]).await;
    let ordered = || world.nodes[spare].copies.lock().unwrap().iter().any(|copy| copy.block == id);
    world.until("another one is told to copy it", async || ordered()).await;
    world.pass(Duration::from_secs(30)).await;
    assert_ne!(job(&root, job_id).await.state(), JobState::Done);
    let replica = world.nodes[dead].replica(id).unwrap();
    world.nodes[spare].replicas.lock().unwrap().insert(id, replica);
    world.nodes[spare].tell_puts(world.addr()).await;
    world.until("it is drained", async || job(&root, job_id).await.state() == JobState::Done).await;
}

/// Two datanodes and files of three copies: nobody can make the third, and everybody is told that it is not there.
#[tokio::test]
async fn copies_that_nobody_can_make_are_counted() {
    let mut world = World::new(2).await;
    let root = world.root();
    root.write(&world, "/f", &[MB, MB]).await;
    let counts = async || {
        let report = trouble(&root).await;
        let stats: GetFsStatsResponseProto = root.ask("getFsStats", &GetFsStatusRequestProto {}).await.unwrap();
        let short = report.blocks.iter().filter(|block| block.trouble() == Trouble::Short);
        assert_eq!(short.filter(|block| block.wanted_count == 3).count() as u64, report.under_replicated_count);
        [(report.under_replicated_count, report.missing_count), (stats.under_replicated, stats.missing_blocks)]
    };
    world.until("both blocks lack a copy", async || counts().await == [(2, 0); 2]).await;
    world.nodes[0].kill();
    world.pass(Duration::from_secs(60)).await;
    assert_eq!(counts().await, [(2, 0); 2]);
    world.nodes[1].kill();
    // A count during which the clock of the test is put forward seems to take long: it is told again for a while.
    world.until("both blocks are missing", async || counts().await == [(0, 2); 2]).await;
}
