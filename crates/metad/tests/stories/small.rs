//! Stories of small files: blocks on lease, put by one call, and what becomes of those that are never put.

use crate::support::small_files::{self, lease_request, put, put_request};
use crate::support::{MB, User, World, refusal};
use hdfs::proto::*;
use rpc::CallError;
use std::time::Duration;
use types::{NodeId, ReplicaState};
use wire::BlockScope;
use wire::client::*;
use wire::node::Replica;

async fn lease(user: &User, holder: &str, count: u32) -> Result<LeaseBlocksResponse, CallError> {
    small_files::lease(user, &lease_request(holder, count, "/file")).await
}

/// The data request: the replica is whole on all nodes.
pub(crate) fn write(world: &World, leased: &LeaseBlocksResponse, place: usize) {
    let LeasedBlock { block, file, .. } = leased.blocks[place];
    let scope = BlockScope::decode(&leased.blocks[place].token).unwrap().unwrap();
    assert_eq!(scope.file.0, file);
    for named in &leased.nodes {
        let node = world.nodes.iter().find(|node| node.id == NodeId::parse(&named.id).unwrap()).unwrap();
        let state = ReplicaState::Finalized as i32;
        let replica = Replica { block, generation: leased.generation, len: 7, file, home: scope.home.0, state };
        node.replicas.lock().unwrap().insert(block, replica);
    }
}

async fn tell(world: &World) {
    for node in &world.nodes {
        node.tell_puts(world.addr()).await;
    }
}

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_small_file_is_one_call() {
    let world = World::new(3).await;
    let root = world.root();
    let leased = lease(&root, "w", 10).await.unwrap();
    assert_eq!((leased.blocks.len(), leased.nodes.len(), leased.limit_ms), (10, 3, 60_000));
    write(&world, &leased, 0);
    let file = put(&root, &put_request(&leased, 0, "/d/f", "w")).await.unwrap();
    assert_eq!(file, leased.blocks[0].file);
    tell(&world).await;
    let status = root.status("/d/f").await.unwrap();
    assert_eq!((status.length, status.file_id, status.permission.perm), (7, Some(file), 0o640));
    assert!(root.is_closed("/d/f").await.unwrap());
    let located = root.locations("/d/f", 0, MB).await.unwrap();
    assert_eq!((located.blocks.len(), located.blocks[0].locs.len(), located.is_last_block_complete), (1, 3, true));
    assert_eq!(located.blocks[0].b.block_id, leased.blocks[0].block);
    assert_eq!(world.replica_count(leased.blocks[0].block), 3);

    let again = put(&root, &put_request(&leased, 1, "/d/f", "w")).await;
    assert_eq!(refusal(again).0, "FileAlreadyExists");
    let alice = world.user("alice");
    assert_eq!(refusal(lease(&alice, "a", 1).await).0, "AccessControl", "who may write nowhere fills no disk");
    root.mkdirs("/alice", 0o777).await.unwrap();
    let leased = small_files::lease(&alice, &lease_request("a", 1, "/alice/x")).await.unwrap();
    assert_eq!(refusal(put(&alice, &put_request(&leased, 0, "/x", "a")).await).0, "AccessControl");
    let leased = lease(&root, "w", 1).await.unwrap();
    let empty = PutFileRequest { block: None, ..put_request(&leased, 0, "/d/empty", "w") };
    put(&root, &empty).await.unwrap();
    assert_eq!(root.status("/d/empty").await.unwrap().length, 0);
}

/// The answer got lost; the client asks again, and is told the same.
#[tokio::test]
async fn a_repeated_put_gets_the_first_answer() {
    let world = World::new(3).await;
    let root = world.root();
    let leased = lease(&root, "w", 2).await.unwrap();
    let request = put_request(&leased, 0, "/f", "w");
    let attempt = root.rpc.name_call();
    let first: PutFileResponse = root.rpc.attempt_in(CLIENT_PROTOCOL, attempt, PUT_FILE, &request).await.unwrap();
    let again: PutFileResponse =
        root.rpc.attempt_in(CLIENT_PROTOCOL, attempt.again(), PUT_FILE, &request).await.unwrap();
    assert_eq!(first, again);
    assert_eq!(refusal(put(&root, &request).await).0, "LeaseExpired", "another call is no repeat");
}

/// Between the data request and the put the metadata server goes and comes back: it does not know the leases any more.
#[tokio::test]
async fn a_restart_between_write_and_put_loses_nothing() {
    let mut world = World::new(3).await;
    let leased = lease(&world.root(), "w", 3).await.unwrap();
    write(&world, &leased, 0);
    world.restart().await;
    world.register_all().await;
    let root = world.root();
    for node in &world.nodes {
        assert!(node.tell_catalogue(world.addr()).await.delete.is_empty(), "it may still be put");
    }
    put(&root, &put_request(&leased, 0, "/f", "w")).await.unwrap();
    tell(&world).await;
    world.pass(3 * MINUTE).await;
    assert_eq!(world.replica_count(leased.blocks[0].block), 3);
    assert_eq!(root.locations("/f", 0, MB).await.unwrap().blocks[0].b.block_id, leased.blocks[0].block);
    // Ids are given out once: what is leased now is new, and what was leased then serves no more.
    let fresh = lease(&root, "w", 3).await.unwrap();
    assert!(
        fresh
            .blocks
            .iter()
            .all(|block| leased.blocks.iter().all(|old| old.block != block.block && old.file != block.file))
    );
    write(&world, &leased, 1);
    assert_eq!(refusal(put(&root, &put_request(&leased, 1, "/g", "w")).await).0, "LeaseExpired");
}

/// The client hears nothing from the leader for so long that its lease ends and its replicas go; then another leads,
/// which would take its word for the lease.
#[tokio::test]
async fn a_put_whose_replicas_are_gone_is_refused_by_the_next_leader() {
    let mut world = World::new(3).await;
    let leased = lease(&world.root(), "w", 2).await.unwrap();
    (0..2).for_each(|place| write(&world, &leased, place));
    tell(&world).await;
    world.pass(MINUTE + Duration::from_secs(10)).await;
    assert_eq!(world.replica_count(leased.blocks[0].block), 0);
    // One node was away, and did not hear of the second block's end.
    let scope = BlockScope::decode(&leased.blocks[1].token).unwrap().unwrap();
    let LeasedBlock { block, file, .. } = leased.blocks[1];
    let state = ReplicaState::Finalized as i32;
    let replica = Replica { block, generation: leased.generation, len: 7, file, home: scope.home.0, state };
    world.nodes[0].replicas.lock().unwrap().insert(block, replica);
    world.restart().await;
    world.register_all().await;
    let root = world.root();
    assert_eq!(refusal(put(&root, &put_request(&leased, 0, "/f", "w")).await).0, "LeaseExpired");
    assert!(root.locations("/f", 0, MB).await.is_err(), "no file without bytes");
    put(&root, &put_request(&leased, 1, "/g", "w")).await.unwrap();
}

/// The same for the next block of an open file: it is not added when its replicas are gone, and it is while one is
/// left.
#[tokio::test]
async fn a_block_whose_replicas_are_gone_is_not_added_by_the_next_leader() {
    let mut world = World::new(3).await;
    let root = world.root();
    let file = root.create("/f", "w").await.unwrap().file_id.unwrap();
    let request = LeaseBlocksRequest { file, ..lease_request("w", 2, "") };
    let leased = small_files::lease(&root, &request).await.unwrap();
    write(&world, &leased, 1);
    world.restart().await;
    world.register_all().await;
    let root = world.root();
    let add = |place: usize| {
        let LeasedBlock { block, token, password, .. } = leased.blocks[place].clone();
        let (path, holder, generation) = ("/f".into(), "w".into(), leased.generation);
        let request = AddLeasedRequest { path, holder, file, block, generation, token, password, previous: None };
        let root = &root;
        async move { root.ask_in::<_, AddLeasedResponse>(CLIENT_PROTOCOL, ADD_LEASED, &request).await }
    };
    assert_eq!(refusal(add(0).await).0, "LeaseExpired", "no node has it");
    add(1).await.unwrap();
}

/// The client dies after the data request: a minute later its block is gone from all nodes.
#[tokio::test]
async fn a_client_that_dies_leaves_no_garbage() {
    let world = World::new(3).await;
    let root = world.root();
    let leased = lease(&root, "w", 3).await.unwrap();
    write(&world, &leased, 0);
    tell(&world).await;
    world.pass(MINUTE).await;
    assert_eq!(world.replica_count(leased.blocks[0].block), 3, "its client may be slow");
    world.pass(Duration::from_secs(10)).await;
    assert_eq!(world.replica_count(leased.blocks[0].block), 0);
}

#[tokio::test]
async fn a_lease_is_renewed_like_any_other_and_ends_in_silence() {
    let world = World::new(3).await;
    let root = world.root();
    let leased = lease(&root, "w", 3).await.unwrap();
    write(&world, &leased, 0);
    write(&world, &leased, 1);
    tell(&world).await;
    for _ in 0..4 {
        world.pass(MINUTE / 2).await;
        root.renew("w").await;
    }
    assert_eq!(refusal(put(&root, &put_request(&leased, 0, "/f", "other")).await).0, "LeaseExpired");
    put(&root, &put_request(&leased, 0, "/f", "w")).await.unwrap();
    world.pass(MINUTE + Duration::from_secs(5)).await;
    root.renew("w").await;
    assert_eq!(refusal(put(&root, &put_request(&leased, 1, "/g", "w")).await).0, "LeaseExpired");
    assert_eq!(root.status("/g").await, None);
    world.until("the block nobody put is gone", async || world.replica_count(leased.blocks[1].block) == 0).await;
    assert_eq!(world.replica_count(leased.blocks[0].block), 3);
}

#[tokio::test]
async fn a_file_in_the_way_is_replaced_and_its_blocks_go() {
    let world = World::new(3).await;
    let root = world.root();
    let old = root.write(&world, "/f", &[10]).await.remove(0).b.block_id;
    let leased = lease(&root, "w", 3).await.unwrap();
    write(&world, &leased, 0);
    put(&root, &PutFileRequest { overwrite: true, ..put_request(&leased, 0, "/f", "w") }).await.unwrap();
    world.until("the old block is gone", async || world.replica_count(old) == 0).await;
    assert_eq!(world.replica_count(leased.blocks[0].block), 3);
    // An open file is not replaced without being told to.
    root.create("/open", "somebody").await.unwrap();
    let busy = put(&root, &put_request(&leased, 1, "/open", "w")).await;
    assert_eq!(refusal(busy).0, "AlreadyBeingCreated");
    let strange = LeaseBlocksRequest { replication: 0, ..LeaseBlocksRequest::default() };
    assert_eq!(refusal(small_files::lease(&root, &strange).await).0, "IllegalArgument");
    let stats: GetFsStatsResponseProto = root.ask("getFsStats", &GetFsStatusRequestProto {}).await.unwrap();
    assert!(stats.capacity > 0, "and the server goes on");
}

/// The block after next is in hand before it is needed, and registering it is a call that nobody waits for.
#[tokio::test]
async fn an_open_file_takes_a_block_on_lease() {
    let world = World::new(3).await;
    let root = world.root();
    let created = root.create("/f", "w").await.unwrap();
    let file = created.file_id.unwrap();
    let first = root.add_block("/f", "w", None).await.unwrap();
    let request = LeaseBlocksRequest { file, ..lease_request("w", 1, "") };
    let leased = small_files::lease(&root, &request).await.unwrap();
    assert_eq!((leased.blocks.len(), leased.blocks[0].file), (1, file));
    assert!(leased.nodes.iter().all(|node| node.rack.starts_with('/')));
    let previous = PreviousBlock { block: first.b.block_id, generation: first.b.generation_stamp, len: MB };
    let add = AddLeasedRequest {
        path: "/f".into(),
        holder: "w".into(),
        file,
        block: leased.blocks[0].block,
        generation: leased.generation,
        previous: Some(previous),
        ..AddLeasedRequest::default()
    };
    let registered = |add: AddLeasedRequest| {
        let root = &root;
        async move { root.ask_in::<_, AddLeasedResponse>(CLIENT_PROTOCOL, ADD_LEASED, &add).await }
    };
    assert!(registered(AddLeasedRequest { holder: "v".into(), ..add.clone() }).await.is_err());
    assert!(registered(AddLeasedRequest { block: 99 << 20, ..add.clone() }).await.is_err());
    assert!(registered(AddLeasedRequest { generation: 1 << 40, ..add.clone() }).await.is_err());
    // A refusal ends the lease, so the writer takes another block.
    assert!(registered(add.clone()).await.is_err());
    let leased = small_files::lease(&root, &request).await.unwrap();
    let add = AddLeasedRequest { block: leased.blocks[0].block, generation: leased.generation, ..add };
    write(&world, &leased, 0);
    registered(add.clone()).await.unwrap();
    registered(add.clone()).await.unwrap(); // the answer got lost
    tell(&world).await;
    world.pass(MINUTE * 2).await;
    assert_eq!(world.replica_count(add.block), 3, "it is the file's");
    let last =
        ExtendedBlockProto { block_id: add.block, generation_stamp: add.generation, num_bytes: Some(7), ..first.b };
    root.complete("/f", "w", Some(last)).await.unwrap();
    assert_eq!(root.status("/f").await.unwrap().length, MB + 7);
}
