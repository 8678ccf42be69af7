//! Stories of safe mode: nothing of the namespace changes, no replica goes, and it outlives the server.

use crate::support::{MB, User, World, refusal, written};
use hdfs::proto::*;
use std::time::Duration;

const LEAVE: i32 = SafeModeActionProto::SafemodeLeave as i32;
const ENTER: i32 = SafeModeActionProto::SafemodeEnter as i32;
const GET: i32 = SafeModeActionProto::SafemodeGet as i32;

async fn order(user: &User, action: i32) -> bool {
    let request = SetSafeModeRequestProto { action, checked: None };
    let answer: SetSafeModeResponseProto = user.ask("setSafeMode", &request).await.unwrap();
    answer.result
}

#[tokio::test]
async fn it_is_read_only_and_outlives_the_server() {
    let mut world = World::new(3).await;
    let (root, alice) = (world.root(), world.user("alice"));
    root.write(&world, "/kept", &[MB]).await;
    root.create("/open", "writer").await.unwrap();
    let block = root.add_block("/open", "writer", None).await.unwrap();
    world.put(&block, MB);
    root.create("/dead", "dead").await.unwrap();
    let answer: Result<SetSafeModeResponseProto, _> =
        alice.ask("setSafeMode", &SetSafeModeRequestProto { action: ENTER, checked: None }).await;
    assert_eq!(refusal(answer).0, "AccessControl");
    assert!(!order(&root, GET).await);
    assert!(order(&root, ENTER).await && order(&alice, GET).await);

    world.restart().await;
    world.register_all().await;
    let (root, alice) = (world.root(), world.user("alice"));
    assert!(order(&alice, GET).await, "it stands in the log");
    let status = world.metad.status();
    assert_eq!((&status["safe_mode"], &status["safe_mode_by"]), (&true.into(), &host::user::current().into()));
    let (class, message) = refusal(root.mkdirs("/d", 0o755).await);
    assert_eq!(class, "SafeMode");
    let text = "Cannot create directory /d. Name node is in safe mode.\nIt was turned on manually. Use \"hdfs \
                dfsadmin -safemode leave\" to turn safe mode off. NamenodeHostName:";
    assert!(message.starts_with(text), "{message}");
    assert_eq!(refusal(root.complete("/open", "writer", Some(written(&block, MB))).await).0, "SafeMode");
    assert_eq!(refusal(root.add_block("/open", "writer", Some(written(&block, MB))).await).0, "SafeMode");
    assert_eq!(refusal(root.recover_lease("/open").await).0, "SafeMode");
    assert_eq!(refusal(root.delete("/kept", false).await).0, "SafeMode");
    assert_eq!(root.status("/kept").await.unwrap().length, MB);
    assert_eq!(root.locations("/kept", 0, MB).await.unwrap().blocks.len(), 1);
    let request = SaveNamespaceRequestProto { time_window: None, tx_gap: None };
    let saved: SaveNamespaceResponseProto = root.ask("saveNamespace", &request).await.unwrap();
    assert_eq!(saved.saved, Some(true));
    // One writer lives, the other does not; nobody takes either's file.
    for _ in 0..30 {
        world.pass(Duration::from_secs(60)).await;
        root.renew("writer").await;
    }
    tokio::time::sleep(Duration::from_millis(1500)).await; // leases are looked after each second
    assert!(!root.is_closed("/dead").await.unwrap() && world.metad.status()["recoveries"] == 0);
    assert!(!order(&root, LEAVE).await);
    assert!(root.complete("/open", "writer", Some(written(&block, MB))).await.unwrap());
    world.until("the dead writer's file is closed", async || root.is_closed("/dead").await.unwrap()).await;
}

/// What was deleted before, and what a node tells of that no file owns: all stays until safe mode is left, and goes
/// then.
#[tokio::test]
async fn no_replica_goes_while_it_is_on() {
    let world = World::new(3).await;
    let root = world.root();
    let deleted = root.write(&world, "/deleted", &[MB]).await.remove(0);
    root.create("/open", "writer").await.unwrap();
    let orphan = root.add_block("/open", "writer", None).await.unwrap();
    let abandon =
        AbandonBlockRequestProto { b: orphan.b.clone(), src: "/open".into(), holder: "writer".into(), file_id: None };
    let _: AbandonBlockResponseProto = root.ask("abandonBlock", &abandon).await.unwrap();
    assert!(root.delete("/deleted", false).await.unwrap());
    assert!(order(&root, ENTER).await);
    // The chain put it all the same, and the nodes tell of it.
    world.put(&orphan, MB);
    for node in &world.nodes {
        node.tell_puts(world.addr()).await;
    }
    for _ in 0..20 {
        world.pass(Duration::from_secs(30)).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let counts = || (world.replica_count(deleted.b.block_id), world.replica_count(orphan.b.block_id));
    assert_eq!(counts(), (3, 3));
    assert!(!order(&root, LEAVE).await);
    world.until("both are gone", async || counts() == (0, 0)).await;
}

/// A replica that is found damaged is made good, while nothing of the namespace changes.
#[tokio::test]
async fn missing_copies_are_made_while_it_is_on() {
    let world = World::new(4).await;
    let root = world.root();
    let block = root.write(&world, "/f", &[MB]).await.remove(0);
    let holders: Vec<_> = block.locs.iter().map(|place| place.id.datanode_uuid.clone()).collect();
    let of = |id: &str| world.nodes.iter().find(|node| node.id.to_string() == id).unwrap();
    assert!(order(&root, ENTER).await);
    let damaged = of(&holders[0]);
    damaged.manners.lock().unwrap().damaged.insert(block.b.block_id);
    let b = LocatedBlockProto { locs: vec![block.locs[0].clone()], ..block.clone() };
    let _: ReportBadBlocksResponseProto =
        root.ask("reportBadBlocks", &ReportBadBlocksRequestProto { blocks: vec![b] }).await.unwrap();
    let ordered = |id: &str| of(id).copies.lock().unwrap().iter().any(|copy| copy.block == block.b.block_id);
    world.until("the damaged one is replaced", async || ordered(&holders[0])).await;
    assert!(order(&root, GET).await);
}
