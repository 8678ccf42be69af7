//! Stories of the end, after a clean stop. What was acknowledged is there afterwards. The other end is in `killed.rs`.

use crate::support::{Datanode, MB, World, config, written};
use hdfs::proto::*;
use std::collections::BTreeSet;
use types::BlockId;

#[tokio::test]
async fn a_clean_stop_keeps_everything() {
    let mut world = World::new(3).await;
    let root = world.root();
    let blocks = root.write(&world, "/whole", &[MB, 5]).await;
    root.create("/open", "writer").await.unwrap();
    let open = root.add_block("/open", "writer", None).await.unwrap();
    world.write(&open, 77);
    let pool = open.b.pool_id.clone();
    let attempt = root.rpc.name_call();
    let request = RenameRequestProto { src: "/whole".into(), dst: "/moved".into() };
    let answer: RenameResponseProto = root.rpc.attempt(attempt, "rename", &request).await.unwrap();
    assert!(answer.result);

    world.restart().await;
    let after = world.root();
    // Before any datanode is back: everything is listed where it was known to be.
    let located = after.locations("/moved", 0, 10 * MB).await.unwrap();
    assert_eq!((located.file_length, located.blocks.len()), (MB + 5, 2));
    assert!(located.blocks.iter().all(|block| block.locs.len() == 3));
    assert_eq!(located.blocks[0].b.block_id, blocks[0].b.block_id);
    assert_eq!(located.blocks[0].b.pool_id, pool);
    for node in &world.nodes {
        assert!(!node.beat(world.addr()).await.known, "a node must register with the new process");
        assert_eq!(node.register(world.addr()).await, pool);
        assert!(node.tell_catalogue(world.addr()).await.delete.is_empty());
    }
    assert_eq!(world.replica_count(blocks[1].b.block_id), 3);

    // The writer goes on: its lease counts as just renewed, and its next block has an id of its own.
    let next = after.add_block("/open", "writer", Some(written(&open, 77))).await.unwrap();
    let mut ids: BTreeSet<u64> = blocks.iter().map(|block| block.b.block_id).collect();
    assert!(ids.insert(open.b.block_id) && ids.insert(next.b.block_id), "an id is never given out twice");
    world.put(&next, 1);
    assert!(after.complete("/open", "writer", Some(written(&next, 1))).await.unwrap());
    assert_eq!(after.status("/open").await.unwrap().length, 78);
}

/// The rename's answer got lost with the server; the retry finds that it happened.
#[tokio::test]
async fn the_retry_cache_outlives_the_process() {
    let mut world = World::new(0).await;
    let root = world.root();
    root.mkdirs("/a", 0o755).await.unwrap();
    let attempt = root.rpc.name_call();
    let request = DeleteRequestProto { src: "/a".into(), recursive: true };
    let answer: DeleteResponseProto = root.rpc.attempt(attempt, "delete", &request).await.unwrap();
    assert!(answer.result);
    // The client must keep its id and find the server where it was.
    let addr = world.addr();
    world.metad.shutdown().await;
    let again = metad::Config { rpc_addr: addr, ..config(world.dir.path()) };
    world.metad = metad::start_with_clock(again, world.clock.clone()).await.unwrap();
    let answer: DeleteResponseProto = root.rpc.attempt(attempt.again(), "delete", &request).await.unwrap();
    assert!(answer.result);
}

/// Deleted while a node was away: it hears of it by its catalogue. What is not known at all is left alone.
#[tokio::test]
async fn a_node_that_comes_back_is_put_right() {
    let mut world = World::new(3).await;
    let root = world.root();
    let gone = root.write(&world, "/gone", &[10]).await.remove(0).b.block_id;
    let kept = root.write(&world, "/kept", &[10]).await.remove(0).b.block_id;
    world.nodes[2].is_up = false;
    assert!(root.delete("/gone", true).await.unwrap());
    world.until("the others deleted it", async || world.replica_count(gone) == 1).await;
    // The node is silent for longer than anybody waits, so the block is forgotten.
    world.until("nothing is owed", async || world.metad.status()["doomed_blocks"] == 0).await;

    world.restart().await;
    world.register_all().await;
    world.nodes[2].is_up = true;
    let stranger = BlockId(u64::MAX >> 1).0;
    let mut replica = world.nodes[2].replica(kept).unwrap();
    replica.block = stranger;
    world.nodes[2].replicas.lock().unwrap().insert(stranger, replica);
    let orders = world.nodes[2].tell_catalogue(world.addr()).await;
    let deleted: Vec<u64> = orders.delete.iter().map(|order| order.block).collect();
    assert_eq!(deleted, [gone]);
    assert_eq!((world.replica_count(kept), world.replica_count(stranger)), (3, 1));
}

/// Whoever is taken out of the list of hosts is to register, whatever it says: its orders are nobody's.
#[tokio::test]
async fn a_node_that_is_not_listed_any_more_is_not_known() {
    let dir = tempfile::tempdir().unwrap();
    let hosts = dir.path().join("hosts");
    std::fs::write(&hosts, "node1\n").unwrap();
    let include = hosts.clone();
    let mut world = World::with(dir, |config| config.hosts_include = Some(include)).await;
    world.nodes.push(Datanode::new(1).await);
    world.register_all().await;
    let node = &world.nodes[0];
    assert!(node.beat(world.addr()).await.known && node.tell_catalogue(world.addr()).await.known);
    std::fs::write(&hosts, "another\n").unwrap();
    let root = world.root();
    let _: RefreshNodesResponseProto = root.rpc.call("refreshNodes", &RefreshNodesRequestProto {}).await.unwrap();
    assert!(!node.beat(world.addr()).await.known && !node.tell_catalogue(world.addr()).await.known);
}

/// A large tree goes in one step, and its replicas within moments.
#[tokio::test]
async fn a_deleted_tree_is_freed() {
    let world = World::new(3).await;
    let root = world.root();
    let mut blocks = Vec::new();
    for number in 0..30 {
        blocks.extend(root.write(&world, &format!("/tree/{}/{number}", number % 7), &[1, 1]).await);
    }
    assert!(root.delete("/tree", true).await.unwrap());
    assert_eq!(root.status("/tree").await, None);
    world
        .until("no replica is left", async || world.nodes.iter().all(|node| node.replicas.lock().unwrap().is_empty()))
        .await;
    world.until("nothing is owed", async || world.metad.status()["doomed_blocks"] == 0).await;
    assert_eq!(blocks.len(), 60);
}

/// The recovery of a file is under way when the server goes down; the next one takes it up.
#[tokio::test]
async fn a_recovery_goes_on_after_a_restart() {
    let mut world = World::new(1).await;
    let root = world.root();
    root.create("/f", "writer").await.unwrap();
    let block = root.add_block("/f", "writer", None).await.unwrap();
    world.write(&block, 30);
    let replicas = world.nodes[0].replicas.clone();
    world.nodes[0].kill();
    world.nodes[0].register(world.addr()).await;
    assert!(!root.recover_lease("/f").await.unwrap());
    world.restart().await;
    let back = Datanode::new(1).await;
    *back.replicas.lock().unwrap() = replicas.lock().unwrap().clone();
    back.register(world.addr()).await;
    world.nodes[0] = back;
    let root = world.root();
    world.until("the file is closed", async || root.is_closed("/f").await.unwrap()).await;
    assert_eq!(root.status("/f").await.unwrap().length, 30);
}

#[tokio::test]
async fn a_directory_in_use_and_a_wrong_setting_are_refused() {
    let world = World::new(0).await;
    let second = metad::start(config(world.dir.path())).await;
    let message = second.unwrap_err().to_string();
    assert!(message.contains("in use"), "{message}");
    let wrong = metad::Config { replication: 0, ..config(world.dir.path()) };
    assert!(metad::start(wrong).await.unwrap_err().to_string().contains("give 1 to 512"));
}
