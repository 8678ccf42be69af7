//! Found blocks: a metadata server goes on with a backup, and datanodes have a block that was made since.

use crate::support::{Datanode, User, World, config, refusal};
use hdfs::proto::LocatedBlockProto;
use rpc::CallError;
use security::block_token::Identifier;
use types::{BlockId, InodeId, ReplicaState};
use wire::admin::ADMIN_PROTOCOL;
use wire::admin::backup::{
    BlockToken, FoundBlock, LIST_FOUND, ListFoundResponse, RECOVER_FOUND, RecoverFoundRequest, RecoverFoundResponse,
};
use wire::admin::placement::PageRequest;
use wire::node::Replica;

/// What `/since` has when its row is lost.
const LEN: u64 = 77;

/// Three datanodes have a block that nobody had finished, and of which no row tells any more. They are not registered
/// with the restored server yet.
async fn restored(set: impl Fn(&mut metad::Config)) -> (World, LocatedBlockProto) {
    let mut world = World::with(tempfile::tempdir().unwrap(), &set).await;
    for number in 1..=3 {
        world.nodes.push(Datanode::new(number).await);
    }
    world.register_all().await;
    world.metad.shutdown().await;
    let mut config = config(world.dir.path());
    set(&mut config);
    let backup = world.dir.path().join("backup");
    metad::back_up_stopped(&config, &backup, world.now()).unwrap();

    world.metad = metad::start_with_clock(config.clone(), world.clock.clone()).await.unwrap();
    world.register_all().await;
    let root = world.root();
    root.create("/since", "writer").await.unwrap();
    let block = root.add_block("/since", "writer", None).await.unwrap();
    world.write(&block, LEN);
    world.metad.shutdown().await;
    std::fs::rename(&config.dir, world.dir.path().join("lost")).unwrap();
    metad::restore_backup(&config, &backup, world.now()).unwrap();
    world.metad = metad::start_with_clock(config, world.clock.clone()).await.unwrap();
    (world, block)
}

async fn list(user: &User) -> Vec<FoundBlock> {
    let page: ListFoundResponse = user.ask_in(ADMIN_PROTOCOL, LIST_FOUND, &PageRequest { after: 0 }).await.unwrap();
    page.blocks
}

async fn recover(user: &User, block: u64, force: bool) -> Result<FoundBlock, CallError> {
    let request = RecoverFoundRequest { block, force };
    let answer: RecoverFoundResponse = user.ask_in(ADMIN_PROTOCOL, RECOVER_FOUND, &request).await?;
    Ok(answer.block.expect("it is shown"))
}

/// Datanodes tell what they have, and beat until so many replicas of the block are listed.
async fn listed(world: &World, replica_count: usize) {
    for node in &world.nodes {
        node.register(world.addr()).await;
        node.tell_catalogue(world.addr()).await;
    }
    let root = world.root();
    let is_listed = async || matches!(&*list(&root).await, [found] if found.replicas.len() == replica_count);
    world.until("the block is found", is_listed).await;
}

fn is_for(token: &BlockToken, block: u64) -> bool {
    Identifier::parse(&token.identifier).unwrap().0.block == Some(BlockId(block))
}

/// Whose file a found block was of is not known, so a token for it is nobody's but a superuser's; nor is it for another
/// block of that file, which may be there.
#[tokio::test]
async fn only_a_superuser_gets_what_reads_a_found_block() {
    let (world, block) = restored(|config| {
        config.block_tokens = true;
        config.security.administrators = "ada".into();
        config.security.observers = "auditor".into();
    })
    .await;
    let block = block.b.block_id;
    listed(&world, 3).await;
    for name in ["ada", "auditor"] {
        let user = world.user(name);
        let found = list(&user).await;
        assert_eq!((found.len(), found[0].block, found[0].replicas.len()), (1, block, 3), "{name} sees it");
        assert_eq!(found[0].token, None, "{name}");
        let (class, message) = refusal(recover(&user, block, true).await);
        assert_eq!(class, "AccessControl");
        assert_eq!(message, format!("Access denied for user {name}. Superuser privilege is required"));
    }
    let root = world.root();
    let shown = list(&root).await.remove(0);
    let recovered = recover(&root, block, false).await.unwrap();
    for found in [shown, recovered] {
        assert!(is_for(found.token.as_ref().unwrap(), block), "{found:?}");
    }
    world.metad.shutdown().await;
}

/// One datanode has the block as another file's, under a generation above the others'. An order for that file would
/// fence its replica alone, which would outrank what the others have.
#[tokio::test]
async fn no_datanode_alone_says_whose_a_found_block_is() {
    let (world, block) = restored(|_| {}).await;
    let block = block.b.block_id;
    let (root, liar) = (world.root(), &world.nodes[0]);
    let honest = liar.replica(block).unwrap();
    let other = honest.file + 1;
    let lie = Replica { file: other, generation: honest.generation + 1, ..honest };
    liar.replicas.lock().unwrap().insert(block, lie);
    listed(&world, 3).await;
    assert_eq!(list(&root).await[0].token, None, "nobody reads it as either file's");
    for force in [false, true] {
        let (_, message) = refusal(recover(&root, block, force).await);
        let [first, second, third] = [1, 2, 3].map(|number| format!("127.0.0.1:{}", 10_000 + number));
        assert!(
            message.contains(&format!("{}: {second}, {third}; {}: {first}.", InodeId(honest.file), InodeId(other))),
            "{message}"
        );
    }
    // As it names the others' file, too, all are recovered.
    liar.replicas.lock().unwrap().insert(block, honest);
    listed(&world, 3).await;
    let recovered = recover(&root, block, false).await.unwrap();
    assert_eq!((recovered.file, recovered.best().unwrap().len), (Some(honest.file), LEN));
    assert!(world.nodes.iter().all(|node| node.replica(block).unwrap().file == honest.file));
    world.metad.shutdown().await;
}

/// The others have not reported theirs: only when they are asked it shows that these are another file's.
#[tokio::test]
async fn who_refuses_to_have_a_found_block_recovered_is_not_passed_over() {
    let (world, block) = restored(|_| {}).await;
    let block = block.b.block_id;
    let (root, liar) = (world.root(), &world.nodes[0]);
    let honest = liar.replica(block).unwrap();
    let others = &world.nodes[1..];
    let put_back = |replica: Option<Replica>| {
        for node in others {
            let mut replicas = node.replicas.lock().unwrap();
            match replica {
                Some(replica) => replicas.insert(block, replica),
                None => replicas.remove(&block),
            };
        }
    };
    liar.replicas.lock().unwrap().insert(block, Replica { file: 999, ..honest });
    put_back(None);
    listed(&world, 1).await;
    put_back(Some(honest));
    for compares_tokens in [true, false] {
        others.iter().for_each(|node| node.manners.lock().unwrap().compares_tokens = compares_tokens);
        for force in [false, true] {
            let (_, message) = refusal(recover(&root, block, force).await);
            assert!(message.contains("datanodes refuse that, which may have it as another file's: "), "{message}");
            assert_eq!(message.matches("127.0.0.1:").count(), 2, "{message}");
        }
    }
    assert!(world.nodes.iter().all(|node| node.replica(block).unwrap().state != ReplicaState::Finalized as i32));
    world.metad.shutdown().await;
}
