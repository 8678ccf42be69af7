//! Stories of writers in trouble: nodes that fail, leases that are lost, chains that are repaired.

use crate::support::{MB, World, home_of, refusal, written};
use hdfs::proto::*;
use std::time::Duration;
use types::{NodeId, ReplicaState};

#[tokio::test]
async fn excluded_nodes_get_no_block() {
    let world = World::new(3).await;
    let root = world.root();
    root.create("/f", "writer").await.unwrap();
    let block = root.add_block("/f", "writer", None).await.unwrap();
    let bad = block.locs[0].clone();
    let abandon =
        AbandonBlockRequestProto { b: block.b.clone(), src: "/f".into(), holder: "writer".into(), file_id: None };
    let _: AbandonBlockResponseProto = root.ask("abandonBlock", &abandon).await.unwrap();
    let _: AbandonBlockResponseProto = root.ask("abandonBlock", &abandon).await.unwrap();
    let next = root.add_block_without("/f", "writer", None, vec![bad.clone()]).await.unwrap();
    assert_eq!(next.locs.len(), 2, "fewer is fine when there are no more");
    assert!(next.locs.iter().all(|place| place.id != bad.id) && next.b.block_id != block.b.block_id);
    let _: AbandonBlockResponseProto =
        root.ask("abandonBlock", &AbandonBlockRequestProto { b: next.b.clone(), ..abandon }).await.unwrap();
    let answer = root.add_block_without("/f", "writer", None, block.locs.clone()).await;
    let (class, message) = refusal(answer);
    assert_eq!(class, "IO");
    assert_eq!(
        message,
        "File /f could only be written to 0 of the 1 minReplication nodes. There are 3 datanode(s) running and 3 \
         node(s) are excluded in this operation."
    );
}

/// Files are found by their ids, and how clients call themselves others may hear: neither makes a writer.
#[tokio::test]
async fn a_file_is_written_by_its_writers_user_alone() {
    let world = World::new(3).await;
    world.root().mkdirs("/private", 0o777).await.unwrap();
    let (alice, mallory) = (world.user("alice"), world.user("mallory"));
    alice.mkdirs("/private/alice", 0o700).await.unwrap();
    let path = "/private/alice/secret";
    let file = alice.create(path, "writer").await.unwrap().file_id;
    let located = alice.add_block(path, "writer", None).await.unwrap();
    let block = located.b.clone();
    let (src, client_name) = ("/x".to_owned(), "writer".to_owned());
    let mut answers = Vec::new();
    for client in ["writer", "another"] {
        let client = client.to_owned();
        let fsync = FsyncRequestProto { src: src.clone(), client, file_id: file, ..FsyncRequestProto::default() };
        answers.push(mallory.ask::<_, FsyncResponseProto>("fsync", &fsync).await.map(drop));
    }
    let next = AddBlockRequestProto {
        src: src.clone(),
        client_name: client_name.clone(),
        file_id: file,
        ..Default::default()
    };
    answers.push(mallory.ask::<_, AddBlockResponseProto>("addBlock", &next).await.map(drop));
    let more = GetAdditionalDatanodeRequestProto {
        src: src.clone(),
        blk: block.clone(),
        num_additional_nodes: 1,
        client_name: client_name.clone(),
        file_id: file,
        ..Default::default()
    };
    answers.push(mallory.ask::<_, GetAdditionalDatanodeResponseProto>("getAdditionalDatanode", &more).await.map(drop));
    let anew = UpdateBlockForPipelineRequestProto { block: block.clone(), client_name: client_name.clone() };
    answers
        .push(mallory.ask::<_, UpdateBlockForPipelineResponseProto>("updateBlockForPipeline", &anew).await.map(drop));
    let away =
        AbandonBlockRequestProto { b: block.clone(), src: src.clone(), holder: client_name.clone(), file_id: file };
    answers.push(mallory.ask::<_, AbandonBlockResponseProto>("abandonBlock", &away).await.map(drop));
    let end = CompleteRequestProto { src, client_name, last: Some(block.clone()), file_id: file };
    answers.push(mallory.ask::<_, CompleteResponseProto>("complete", &end).await.map(drop));
    for answer in answers {
        let (class, message) = refusal(answer);
        assert_eq!(class, "LeaseExpired", "{message}");
        assert!(!message.contains("secret"), "{message}");
    }
    world.put(&located, 7);
    assert!(alice.complete(path, "writer", Some(ExtendedBlockProto { num_bytes: Some(7), ..block })).await.unwrap());
}

/// One node of three fails under a stream; the client takes another in and goes on.
#[tokio::test]
async fn a_broken_chain_is_mended() {
    let mut world = World::new(4).await;
    let root = world.root();
    root.create("/f", "writer").await.unwrap();
    let block = root.add_block("/f", "writer", None).await.unwrap();
    world.write(&block, 1000);
    let failed = block.locs[1].clone();
    let left: Vec<DatanodeInfoProto> = block.locs.iter().filter(|place| place.id != failed.id).cloned().collect();
    let request = GetAdditionalDatanodeRequestProto {
        src: "/f".into(),
        blk: block.b.clone(),
        existings: left.clone(),
        excludes: vec![failed.clone()],
        num_additional_nodes: 1,
        client_name: "writer".into(),
        existing_storage_uuids: Vec::new(),
        file_id: None,
    };
    let more: GetAdditionalDatanodeResponseProto = root.ask("getAdditionalDatanode", &request).await.unwrap();
    let chain = more.block;
    let ids = |places: &[DatanodeInfoProto]| places.iter().map(|place| place.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&chain.locs)[..2], ids(&left)[..], "the existing ones come first, in their order");
    assert_eq!((chain.locs.len(), chain.storage_i_ds.len()), (3, 3));
    assert!(!ids(&chain.locs).contains(&failed.id));

    let request = UpdateBlockForPipelineRequestProto { block: block.b.clone(), client_name: "writer".into() };
    let bumped: UpdateBlockForPipelineResponseProto = root.ask("updateBlockForPipeline", &request).await.unwrap();
    let bumped = bumped.block;
    assert!(bumped.b.generation_stamp > block.b.generation_stamp && bumped.locs.is_empty());
    assert_eq!(bumped.offset, u64::MAX);
    let other = UpdateBlockForPipelineRequestProto { client_name: "stranger".into(), ..request };
    let answer: Result<UpdateBlockForPipelineResponseProto, _> = root.ask("updateBlockForPipeline", &other).await;
    assert_eq!(refusal(answer).0, "LeaseExpired");

    let mended = LocatedBlockProto { b: bumped.b.clone(), block_token: bumped.block_token.clone(), ..chain.clone() };
    world.write(&mended, 1000);
    let request = UpdatePipelineRequestProto {
        client_name: "writer".into(),
        old_block: block.b.clone(),
        new_block: written(&mended, 1000),
        new_nodes: ids(&chain.locs),
        storage_i_ds: chain.storage_i_ds.clone(),
    };
    let other = UpdatePipelineRequestProto { client_name: "stranger".into(), ..request.clone() };
    let answer: Result<UpdatePipelineResponseProto, _> = root.ask("updatePipeline", &other).await;
    assert_eq!(refusal(answer).0, "LeaseExpired");
    let attempt = root.rpc.name_call();
    let _: UpdatePipelineResponseProto = root.rpc.attempt(attempt, "updatePipeline", &request).await.unwrap();
    let _: UpdatePipelineResponseProto = root.rpc.attempt(attempt.again(), "updatePipeline", &request).await.unwrap();
    root.create("/next", "writer").await.unwrap();
    let next = root.add_block("/next", "writer", None).await.unwrap();
    assert!(!ids(&next.locs).contains(&failed.id), "who was dropped gets nothing new until it is heard again");
    world.put(&mended, 2000);
    assert!(root.complete("/f", "writer", Some(written(&mended, 2000))).await.unwrap());

    let located = root.locations("/f", 0, 1).await.unwrap();
    let mut now = ids(&located.blocks[0].locs);
    let mut wanted = ids(&chain.locs);
    now.sort_by(|a, b| a.datanode_uuid.cmp(&b.datanode_uuid));
    wanted.sort_by(|a, b| a.datanode_uuid.cmp(&b.datanode_uuid));
    assert_eq!(now, wanted);
    assert_ne!(home_of(&located.blocks[0]), home_of(&block));
    // The node that failed keeps a stale replica until it hears of it; the others keep theirs and learn the new home.
    let block_id = block.b.block_id;
    world.until("the stale replica is gone", async || world.replica_count(block_id) == 3).await;
    assert!(world.node_of(&failed).replica(block_id).is_none());
    let orders = world.node_of(&chain.locs[0]).tell_puts(world.addr()).await;
    assert!(orders.delete.is_empty());
    assert_eq!(orders.owners[0].home, home_of(&located.blocks[0]));
    world.nodes.clear();
}

/// A client that holds a file says which nodes its chain has, and that others failed. It is not asked who gave it
/// those, as members change while a block is written. But each set of nodes is a row for ever: a file may need a
/// bounded number, and what is refused changes nothing else.
#[tokio::test]
async fn chains_make_a_bounded_number_of_sets_and_are_refused_for_nothing_else() {
    let world = World::new(7).await;
    let root = world.root();
    root.create("/f", "writer").await.unwrap();
    let block = root.add_block("/f", "writer", None).await.unwrap();
    world.write(&block, 1000);
    let request = UpdateBlockForPipelineRequestProto { block: block.b.clone(), client_name: "writer".into() };
    let bumped: UpdateBlockForPipelineResponseProto = root.ask("updateBlockForPipeline", &request).await.unwrap();
    let place = |node: &NodeId| DatanodeIdProto { datanode_uuid: node.to_string(), ..block.locs[0].id.clone() };
    let all: Vec<NodeId> = world.nodes.iter().map(|node| node.id).collect();
    let request = |generation_stamp: u64, new_nodes: Vec<DatanodeIdProto>| UpdatePipelineRequestProto {
        client_name: "writer".into(),
        old_block: block.b.clone(),
        new_block: ExtendedBlockProto { num_bytes: Some(1000), generation_stamp, ..bumped.block.b.clone() },
        storage_i_ds: vec![String::new(); new_nodes.len()],
        new_nodes,
    };
    let issued = bumped.block.b.generation_stamp;
    let mut refusals = Vec::new();
    for set in 1..128u32 {
        let members = all.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1).map(|(_, node)| place(node));
        let answer: Result<UpdatePipelineResponseProto, _> =
            root.ask("updatePipeline", &request(issued + 1, members.collect())).await;
        refusals.push(refusal(answer).1);
    }
    let refused = |text: &str| refusals.iter().filter(|refusal| refusal.contains(text)).count();
    let (made, bounded) = (refused("never issued"), refused("new sets of datanodes"));
    assert!(made >= 32 && bounded > 32 && made + bounded == 127, "{made} {bounded}");
    root.create("/next", "writer").await.unwrap();
    let next = root.add_block("/next", "writer", None).await.unwrap();
    assert_eq!(next.locs.len(), 3, "nobody was called lost");
    // Neither a member nor one that was asked for: it was a member when the block began, say, and its place was taken
    // since.
    world.pass(Duration::from_secs(601)).await;
    let outsider = world.nodes.iter().find(|node| node.replica(block.b.block_id).is_none()).unwrap();
    let chain = vec![block.locs[0].id.clone(), place(&outsider.id)];
    let _: UpdatePipelineResponseProto = root.ask("updatePipeline", &request(issued, chain)).await.unwrap();
}

/// A writer dies while its chain is mended: the node that just got a copy is in no home, and tells of it only once,
/// while the file is still open. The file is recovered without it; then the copy goes.
#[tokio::test]
async fn a_copy_that_no_chain_took_up_goes() {
    let world = World::new(4).await;
    let root = world.root();
    root.create("/f", "writer").await.unwrap();
    let block = root.add_block("/f", "writer", None).await.unwrap();
    world.write(&block, 1000);
    let outsider = world.nodes.iter().find(|node| node.replica(block.b.block_id).is_none()).unwrap();
    outsider.put(&block, 1000, ReplicaState::Open);
    let orders = outsider.tell_puts(world.addr()).await;
    assert!(orders.delete.is_empty(), "its home may follow as long as the block is written");
    assert!(outsider.beat(world.addr()).await.delete.is_empty());
    assert!(root.recover_lease("/f").await.unwrap());
    world.until("the copy is gone", async || outsider.replica(block.b.block_id).is_none()).await;
    assert_eq!(world.replica_count(block.b.block_id), 3);
}

/// hdfs-native tells of bytes that no node ever got, and gives up. The recovery must not look for them.
#[tokio::test]
async fn bytes_that_were_only_meant_to_be_sent_keep_no_file_open() {
    let world = World::new(3).await;
    let root = world.root();
    let holder = "hdfs_native_client-1";
    root.create("/f", holder).await.unwrap();
    let block = root.add_block("/f", holder, None).await.unwrap();
    let request = UpdateBlockForPipelineRequestProto { block: block.b.clone(), client_name: holder.into() };
    let bumped: UpdateBlockForPipelineResponseProto = root.ask("updateBlockForPipeline", &request).await.unwrap();
    let request = UpdatePipelineRequestProto {
        client_name: holder.into(),
        old_block: block.b.clone(),
        new_block: written(&bumped.block, 70_000),
        new_nodes: block.locs[1..].iter().map(|place| place.id.clone()).collect(),
        storage_i_ds: block.storage_i_ds[1..].to_vec(),
    };
    let _: UpdatePipelineResponseProto = root.ask("updatePipeline", &request).await.unwrap();
    assert!(root.recover_lease("/f").await.unwrap());
    assert_eq!(root.locations("/f", 0, 1).await.unwrap().file_length, 0);
}

#[tokio::test]
async fn appending_opens_the_last_block_again() {
    let world = World::new(3).await;
    let root = world.root();
    root.write(&world, "/f", &[100]).await;
    let appended = root.append("/f", "appender").await.unwrap();
    let block = appended.block.unwrap();
    assert_eq!((block.b.num_bytes, block.offset, block.locs.len(), block.storage_i_ds.len()), (Some(100), 0, 3, 3));
    assert_eq!(appended.stat.unwrap().length, 100, "hdfs-native needs the status");
    let second = refusal(root.append("/f", "other").await);
    assert_eq!(second.0, "AlreadyBeingCreated");
    // Nothing written: closed with the block as it was.
    assert!(root.complete("/f", "appender", Some(written(&block, 100))).await.unwrap());

    let flags = CreateFlagProto::Append as u32 | CreateFlagProto::NewBlock as u32;
    let request = AppendRequestProto { src: "/f".into(), client_name: "appender".into(), flag: Some(flags) };
    let appended: AppendResponseProto = root.ask("append", &request).await.unwrap();
    let position = appended.block.unwrap();
    assert!(position.locs.is_empty() && position.b.num_bytes == Some(100));
    let next = root.add_block("/f", "appender", Some(position.b)).await.unwrap();
    assert_eq!(next.offset, 100);
    world.put(&next, 7);
    assert!(root.complete("/f", "appender", Some(written(&next, 7))).await.unwrap());
    assert_eq!(root.status("/f").await.unwrap().length, 107);
}

/// hsync tells the length; flushing alone leaves it.
#[tokio::test]
async fn fsync_records_what_it_is_told() {
    let world = World::new(3).await;
    let root = world.root();
    root.create("/f", "writer").await.unwrap();
    let block = root.add_block("/f", "writer", None).await.unwrap();
    let fsync = |len, client: &str| FsyncRequestProto {
        src: "/f".into(),
        client: client.into(),
        last_block_length: Some(len),
        file_id: None,
    };
    let _: FsyncResponseProto = root.ask("fsync", &fsync(-1, "writer")).await.unwrap();
    assert_eq!(root.status("/f").await.unwrap().length, 0);
    let _: FsyncResponseProto = root.ask("fsync", &fsync(50, "writer")).await.unwrap();
    assert_eq!(root.status("/f").await.unwrap().length, 50, "trap 27");
    let located = root.locations("/f", 0, 100).await.unwrap();
    assert_eq!((located.file_length, located.last_block.unwrap().b.num_bytes), (0, Some(50)));
    for len in [-1, 60] {
        let answer: Result<FsyncResponseProto, _> = root.ask("fsync", &fsync(len, "other")).await;
        assert_eq!(refusal(answer).0, "LeaseExpired");
    }
    world.put(&block, 60);
}

/// A writer goes silent; a minute later another one may have its file, and what all nodes hold is in it.
#[tokio::test]
async fn a_silent_writer_loses_its_file() {
    let world = World::new(3).await;
    let root = world.root();
    root.create("/f", "first").await.unwrap();
    let block = root.add_block("/f", "first", None).await.unwrap();
    for (place, len) in block.locs.iter().zip([700, 500, 600]) {
        world.node_of(place).put(&block, len, ReplicaState::Open);
    }
    world.pass(Duration::from_secs(50)).await;
    assert_eq!(refusal(root.append("/f", "second").await).0, "AlreadyBeingCreated");
    root.renew("first").await;
    world.pass(Duration::from_secs(50)).await;
    assert_eq!(refusal(root.append("/f", "second").await).0, "AlreadyBeingCreated", "it was heard since");
    world.pass(Duration::from_secs(20)).await;
    assert_eq!(refusal(root.append("/f", "second").await).0, "RecoveryInProgress");
    world.until("the file is closed", async || root.is_closed("/f").await.unwrap()).await;
    let located = root.locations("/f", 0, MB).await.unwrap();
    assert_eq!(located.file_length, 500);
    for node in &world.nodes {
        let replica = node.replica(block.b.block_id).unwrap();
        let found = (replica.len, replica.generation, replica.state());
        assert_eq!(found, (500, located.blocks[0].b.generation_stamp, ReplicaState::Finalized));
    }
    let late = root.complete("/f", "first", Some(written(&block, 700))).await;
    assert_eq!(refusal(late).0, "LeaseExpired");
    let again = root.append("/f", "second").await.unwrap();
    assert_eq!(again.block.unwrap().b.num_bytes, Some(500));
}

#[tokio::test]
async fn recover_lease_takes_a_file_at_once() {
    let world = World::new(3).await;
    let root = world.root();
    root.create("/f", "writer").await.unwrap();
    let block = root.add_block("/f", "writer", None).await.unwrap();
    world.write(&block, 400);
    world.node_of(&block.locs[2]).put(&block, 400, ReplicaState::Finalized);
    assert!(root.recover_lease("/f").await.unwrap(), "all nodes answer, so it is done in a moment");
    assert_eq!(root.status("/f").await.unwrap().length, 400);
    assert!(root.recover_lease("/f").await.unwrap(), "it is closed");
    assert_eq!(refusal(root.add_block("/f", "writer", Some(block.b)).await).0, "LeaseExpired");
    assert_eq!(refusal(root.recover_lease("/none").await).0, "FileNotFound");
    root.mkdirs("/d", 0o755).await.unwrap();
    assert_eq!(refusal(root.recover_lease("/d").await).0, "FileNotFound");
    assert_eq!(refusal(world.user("alice").recover_lease("/f").await).0, "AccessControl");
}

/// A block that nothing was written of is taken out of its file.
#[tokio::test]
async fn a_block_without_replicas_goes() {
    let world = World::new(3).await;
    let root = world.root();
    root.create("/f", "writer").await.unwrap();
    let first = root.add_block("/f", "writer", None).await.unwrap();
    world.put(&first, MB);
    root.add_block("/f", "writer", Some(written(&first, MB))).await.unwrap();
    assert!(root.recover_lease("/f").await.unwrap());
    let located = root.locations("/f", 0, 2 * MB).await.unwrap();
    assert_eq!((located.file_length, located.blocks.len(), located.is_last_block_complete), (MB, 1, true));
}

/// The only node with the bytes is away: nobody drops them, and when it is back the file is closed with them.
#[tokio::test]
async fn a_recovery_waits_for_the_last_replica() {
    let mut world = World::new(3).await;
    let root = world.root();
    root.create("/f", "writer").await.unwrap();
    let block = root.add_block("/f", "writer", None).await.unwrap();
    let holder = world.node_of(&block.locs[0]).number as usize - 1;
    world.nodes[holder].put(&block, 300, ReplicaState::Open);
    let up = world.nodes[holder].replicas.clone();
    world.nodes[holder].kill();
    world.nodes[holder].register(world.addr()).await; // Its address is now one where nobody answers.
    assert!(!root.recover_lease("/f").await.unwrap());
    world.pass(Duration::from_secs(60)).await;
    assert!(!root.recover_lease("/f").await.unwrap());
    assert!(!root.is_closed("/f").await.unwrap());
    let back = crate::support::Datanode::new(world.nodes[holder].number).await;
    *back.replicas.lock().unwrap() = up.lock().unwrap().clone();
    back.register(world.addr()).await;
    world.nodes[holder] = back;
    world.until("the file is closed", async || root.is_closed("/f").await.unwrap()).await;
    assert_eq!(root.status("/f").await.unwrap().length, 300);
}

/// One of three is away: the others are enough, after a moment.
#[tokio::test]
async fn a_recovery_goes_on_without_a_dead_node() {
    let mut world = World::new(3).await;
    let root = world.root();
    root.create("/f", "writer").await.unwrap();
    let block = root.add_block("/f", "writer", None).await.unwrap();
    world.write(&block, 300);
    world.nodes[0].kill();
    world.nodes[0].register(world.addr()).await;
    root.recover_lease("/f").await.unwrap();
    world.until("the file is closed", async || root.is_closed("/f").await.unwrap()).await;
    assert_eq!(root.status("/f").await.unwrap().length, 300);
}

/// The only node that answers shows all bytes, and they have rotted: it is not believed while others may have sound
/// ones, which would be old from then on.
#[tokio::test]
async fn a_recovery_reads_before_it_goes_on_without_others() {
    let mut world = World::new(3).await;
    let root = world.root();
    root.create("/f", "writer").await.unwrap();
    let block = root.add_block("/f", "writer", None).await.unwrap();
    for place in &block.locs {
        world.node_of(place).put(&block, 300, ReplicaState::Finalized);
    }
    world.nodes[0].manners.lock().unwrap().damaged.insert(block.b.block_id);
    for away in [1, 2] {
        world.nodes[away].kill();
        world.nodes[away].register(world.addr()).await; // Its address is now one where nobody answers.
    }
    assert!(!root.recover_lease("/f").await.unwrap());
    world.pass(Duration::from_secs(60)).await;
    assert!(!root.is_closed("/f").await.unwrap());
    let sound = world.nodes[1].replicas.lock().unwrap().clone();
    let back = crate::support::Datanode::new(world.nodes[1].number).await;
    *back.replicas.lock().unwrap() = sound;
    back.register(world.addr()).await;
    world.nodes[1] = back;
    world.until("the file is closed", async || root.is_closed("/f").await.unwrap()).await;
    let located = root.locations("/f", 0, 1).await.unwrap();
    assert_eq!(located.file_length, 300);
    let generation = |node: usize| world.nodes[node].replica(block.b.block_id).unwrap().generation;
    assert_eq!(generation(1), located.blocks[0].b.generation_stamp);
    assert!(generation(0) < generation(1), "who is damaged takes no part");
}

#[tokio::test]
async fn after_twenty_minutes_the_server_recovers_by_itself() {
    let world = World::new(3).await;
    let root = world.root();
    root.create("/f", "writer").await.unwrap();
    let block = root.add_block("/f", "writer", None).await.unwrap();
    world.write(&block, 10);
    root.create("/kept", "careful").await.unwrap();
    for _ in 0..25 {
        world.pass(Duration::from_secs(50)).await;
        root.renew("careful").await;
    }
    world.until("the file is closed", async || root.is_closed("/f").await.unwrap()).await;
    assert_eq!(root.status("/f").await.unwrap().length, 10);
    assert!(!root.is_closed("/kept").await.unwrap());
}

/// An open file is overwritten by another client: no lease is in the way, and its block goes.
#[tokio::test]
async fn overwriting_an_open_file_frees_its_blocks() {
    let world = World::new(3).await;
    let root = world.root();
    root.create("/f", "first").await.unwrap();
    let block = root.add_block("/f", "first", None).await.unwrap();
    world.write(&block, 10);
    let request = crate::support::User::create_request("/f", "second", 3);
    let _: CreateResponseProto = root.ask("create", &request).await.unwrap();
    world.until("the replicas are gone", async || world.replica_count(block.b.block_id) == 0).await;
    assert_eq!(refusal(root.add_block("/f", "first", None).await).0, "LeaseExpired");
}
