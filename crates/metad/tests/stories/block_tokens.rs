//! Block tokens: what the leader signs, as a datanode with its keys sees it.

use crate::support::small_files::{self, lease_request, put, put_request};
use crate::support::{Datanode, MB, User, World, refusal, written};
use hdfs::proto::*;
use rpc::CallError;
use security::block_token::{Admission, Identifier, Mode, Refusal};
use security::encryption_key;
use security::keys::{Key, KeyId, KeySet};
use security::secret::Secret;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use types::{BlockId, FileId, InodeId};
use wire::client::{LeaseBlocksRequest, LeaseBlocksResponse, PutBlock, PutFileRequest};
use wire::node::TokenRules;

const HOUR: Duration = Duration::from_secs(3600);

async fn world() -> World {
    let mut world = World::with(tempfile::tempdir().unwrap(), |config| {
        config.block_tokens = true;
        config.replication = 3;
    })
    .await;
    for number in 1..=3 {
        let node = Datanode::new(number).await;
        node.register(world.addr()).await;
        world.nodes.push(node);
    }
    world
}

/// What a datanode hears of tokens, if it has the keys of this revision.
async fn rules(world: &World, revision: u64) -> TokenRules {
    world.nodes[0].beat_with(world.addr(), revision).await.tokens.expect("the leader says it each time")
}

async fn keys(world: &World) -> KeySet {
    let TokenRules { required, revision, keys, .. } = rules(world, 0).await;
    assert!(required);
    let key = |key: wire::node::TokenKey| Key {
        id: KeyId(key.id),
        expires: types::Millis(key.expires_ms),
        secret: Secret::new(key.secret[..].try_into().unwrap()),
    };
    KeySet::new(revision, keys.into_iter().map(key).collect()).unwrap()
}

/// Whether a datanode lets this be done with a block of the file.
fn admits(
    world: &World,
    keys: &KeySet,
    token: &TokenProto,
    (file, block): (FileId, u64),
    (mode, makes): (Mode, bool),
) -> Result<(), Refusal> {
    let admission = Admission { now: world.now(), user: Some("alice"), file, block: BlockId(block), makes, mode };
    admission.check(keys, &token.identifier, &token.password).map(drop)
}

fn file_of(token: &TokenProto) -> FileId {
    Identifier::parse(&token.identifier).unwrap().0.file
}

const READ: (Mode, bool) = (Mode::Read, false);
const MAKE: (Mode, bool) = (Mode::Write, true);

#[tokio::test]
async fn a_writer_may_write_its_blocks_and_a_reader_read_those_of_the_file() {
    let world = world().await;
    world.root().mkdirs("/d", 0o777).await.unwrap();
    let (alice, keys) = (world.user("alice"), keys(&world).await);
    let blocks = alice.write(&world, "/d/f", &[MB, MB, 5]).await;
    let file = InodeId(alice.status("/d/f").await.unwrap().file_id.unwrap());
    for block in &blocks {
        let of = (file, block.b.block_id);
        assert_eq!(admits(&world, &keys, &block.block_token, of, MAKE), Ok(()));
        assert!(admits(&world, &keys, &block.block_token, of, READ).is_err(), "to write alone");
        let other = (file, block.b.block_id + 1);
        assert!(matches!(admits(&world, &keys, &block.block_token, other, MAKE), Err(Refusal::Block { .. })));
    }
    let located = alice.locations("/d/f", 0, 3 * MB).await.unwrap();
    let token = &located.blocks[0].block_token;
    for block in located.blocks.iter().chain(&located.last_block) {
        assert_eq!(admits(&world, &keys, &block.block_token, (file, block.b.block_id), READ), Ok(()));
        assert_eq!(block.block_token.password, token.password, "one signature for all");
        assert!(admits(&world, &keys, &block.block_token, (file, block.b.block_id), MAKE).is_err());
    }
    // A node that takes the place of another is asked with the token with which that one sends.
    alice.append("/d/f", "again").await.unwrap();
    let last = blocks.last().unwrap();
    let more = GetAdditionalDatanodeRequestProto {
        src: "/d/f".into(),
        client_name: "again".into(),
        blk: last.b.clone(),
        num_additional_nodes: 1,
        ..Default::default()
    };
    let more: GetAdditionalDatanodeResponseProto = alice.ask("getAdditionalDatanode", &more).await.unwrap();
    for how in [(Mode::Copy, false), MAKE] {
        assert_eq!(admits(&world, &keys, &more.block.block_token, (file, last.b.block_id), how), Ok(()));
    }
    // Who lists a directory may perhaps not read what is in it.
    let listed = alice.listing("/d", "", true).await.unwrap().unwrap();
    let listed = listed.partial_listing[0].locations.as_ref().unwrap();
    assert!(listed.blocks.iter().all(|block| block.block_token.password.is_empty()));
}

/// Its files have the keys.
#[tokio::test]
async fn nobody_else_enters_the_directory_of_a_server_with_keys() {
    let world = world().await;
    let mode = std::fs::metadata(world.dir.path().join("meta")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[tokio::test]
async fn a_block_on_lease_has_a_token_of_its_own() {
    let world = world().await;
    world.root().mkdirs("/d", 0o777).await.unwrap();
    let (alice, keys) = (world.user("alice"), keys(&world).await);
    let leased = lease(&alice, "a", None).await.unwrap();
    for block in &leased.blocks {
        let (identifier, password) = (block.token.clone(), block.password.clone());
        let token = TokenProto { identifier, password, ..TokenProto::none() };
        assert_eq!(admits(&world, &keys, &token, (InodeId(block.file), block.block), (Mode::Put, true)), Ok(()));
        // A stream may be as long as its writer likes, and there is no file yet whose quota it counts for.
        let refused = admits(&world, &keys, &token, (InodeId(block.file), block.block), MAKE);
        assert!(matches!(refused, Err(Refusal::Mode { .. })), "{refused:?}");
    }
}

/// Blocks for an open file, or for new ones below `/d`.
async fn lease(user: &User, holder: &str, file: Option<u64>) -> Result<LeaseBlocksResponse, CallError> {
    let path = if file.is_none() { "/d/file" } else { "" };
    let request = LeaseBlocksRequest { file: file.unwrap_or(0), ..lease_request(holder, 3, path) };
    small_files::lease(user, &request).await
}

/// What is signed with a block on lease opens all that its file has. So the file is the caller's, or nobody's.
#[tokio::test]
async fn nobody_gets_a_token_for_a_file_of_somebody_else() {
    let world = world().await;
    world.root().mkdirs("/d", 0o777).await.unwrap();
    let (alice, bob) = (world.user("alice"), world.user("bob"));
    // Replicas of a file that was joined to another go on naming it, though there is none of that id any more.
    alice.write(&world, "/d/one", &[5]).await;
    alice.write(&world, "/d/two", &[5]).await;
    let joined = alice.status("/d/two").await.unwrap().file_id.unwrap();
    let concat = ConcatRequestProto { trg: "/d/one".into(), srcs: vec!["/d/two".into()] };
    let _: ConcatResponseProto = alice.ask("concat", &concat).await.unwrap();
    let open = alice.create("/d/open", "alice's").await.unwrap().file_id.unwrap();
    let given = lease(&alice, "alice's", None).await.unwrap().blocks[0].file;
    for (file, holder) in [(joined, "bob's"), (open, "bob's"), (given, "bob's"), (given, "alice's"), (1 << 40, "bob's")]
    {
        assert!(lease(&bob, holder, Some(file)).await.is_err(), "{file} for {holder}");
    }
    // Nor does a file take the id of an open one, of the caller's own neither.
    let next = lease(&alice, "alice's", Some(open)).await.unwrap();
    assert_eq!(refusal(put(&alice, &put_request(&next, 0, "/d/other", "alice's")).await).0, "LeaseExpired");
}

/// How clients call themselves is told to who finds a file open.
#[tokio::test]
async fn a_block_on_lease_is_of_one_user() {
    let world = world().await;
    world.root().mkdirs("/d", 0o777).await.unwrap();
    let (alice, bob) = (world.user("alice"), world.user("bob"));
    let leased = lease(&alice, "same", None).await.unwrap();
    assert_eq!(refusal(put(&bob, &put_request(&leased, 0, "/d/bobs", "same")).await).0, "LeaseExpired");
    let returned = leased.blocks.iter().map(|block| block.block).collect();
    let returned = LeaseBlocksRequest { returned, ..lease_request("same", 1, "/d/file") };
    small_files::lease(&bob, &returned).await.unwrap();
    put(&alice, &put_request(&leased, 0, "/d/alices", "same")).await.unwrap();
}

/// It does not know what the one before gave out, and believes who has a token for it.
#[tokio::test]
async fn a_young_leader_believes_tokens() {
    let mut world = world().await;
    world.root().mkdirs("/d", 0o777).await.unwrap();
    let leased = lease(&world.user("alice"), "a", None).await.unwrap();
    crate::small::write(&world, &leased, 0);
    world.restart_with(|config| config.block_tokens = true).await;
    world.register_all().await;
    let (alice, bob) = (world.user("alice"), world.user("bob"));
    let good = put_request(&leased, 0, "/d/f", "a");
    assert_eq!(refusal(put(&bob, &good).await).0, "LeaseExpired", "it is alice's");
    let changed = |change: fn(&mut PutBlock)| {
        let mut block = good.block.clone().unwrap();
        change(&mut block);
        PutFileRequest { block: Some(block), ..good.clone() }
    };
    let wrong: [fn(&mut PutBlock); 4] = [
        |block| block.file += 1,
        |block| block.block += 1,
        |block| (block.token, block.password) = Default::default(),
        |block| block.password = vec![0; block.password.len()].into(),
    ];
    for change in wrong {
        assert_eq!(refusal(put(&alice, &changed(change)).await).0, "LeaseExpired");
    }
    put(&alice, &good).await.unwrap();
}

/// Replicas go on naming the file under which they were written.
#[tokio::test]
async fn blocks_that_were_joined_keep_the_file_of_their_tokens() {
    let world = world().await;
    world.root().mkdirs("/d", 0o777).await.unwrap();
    let (alice, keys) = (world.user("alice"), keys(&world).await);
    let mut files = Vec::new();
    for path in ["/d/one", "/d/two", "/d/three"] {
        alice.write(&world, path, &[5]).await;
        files.push(InodeId(alice.status(path).await.unwrap().file_id.unwrap()));
    }
    let concat = |trg: &str, srcs: &str| ConcatRequestProto { trg: trg.into(), srcs: vec![srcs.into()] };
    let _: ConcatResponseProto = alice.ask("concat", &concat("/d/two", "/d/three")).await.unwrap();
    let _: ConcatResponseProto = alice.ask("concat", &concat("/d/one", "/d/two")).await.unwrap();
    let located = alice.locations("/d/one", 0, MB).await.unwrap();
    let named: Vec<FileId> = located.blocks.iter().map(|block| file_of(&block.block_token)).collect();
    assert_eq!(named, files);
    for (block, file) in located.blocks.iter().zip(files) {
        assert_eq!(admits(&world, &keys, &block.block_token, (file, block.b.block_id), READ), Ok(()));
    }
    // Also to go on with the last one.
    let last = alice.append("/d/one", "again").await.unwrap().block.unwrap();
    assert_eq!(admits(&world, &keys, &last.block_token, (named[2], last.b.block_id), MAKE), Ok(()));
    assert!(alice.complete("/d/one", "again", Some(written(&last, 5))).await.unwrap());
}

/// Datanodes hear of a roll with the next heartbeat, and of nothing that they know.
#[tokio::test]
async fn keys_roll_and_reach_datanodes_before_they_sign() {
    let world = world().await;
    let alice = world.user("alice");
    world.root().mkdirs("/d", 0o777).await.unwrap();
    alice.write(&world, "/d/f", &[5]).await;
    let before = keys(&world).await;
    assert_eq!(rules(&world, before.revision()).await.keys, []);
    let of = |located: LocatedBlocksProto| located.blocks[0].block_token.clone();
    let first = of(alice.locations("/d/f", 0, MB).await.unwrap());
    world.clock_on(11 * HOUR).await;
    world.until("the keys roll", async || rules(&world, 0).await.revision > before.revision()).await;
    let second = of(alice.locations("/d/f", 0, MB).await.unwrap());
    assert_ne!(first, second);
    let block = alice.locations("/d/f", 0, MB).await.unwrap().blocks[0].b.block_id;
    let after = keys(&world).await;
    for (keys, token) in [(&before, &second), (&after, &first), (&after, &second)] {
        assert_eq!(admits(&world, keys, token, (file_of(token), block), READ), Ok(()));
    }
}

/// A file says so: the same store, without keys that count.
#[tokio::test]
async fn a_store_that_asks_for_no_tokens_signs_none() {
    let world = World::new(3).await;
    let root = world.root();
    root.write(&world, "/f", &[5]).await;
    let located = root.locations("/f", 0, MB).await.unwrap();
    assert!(located.blocks[0].block_token.password.is_empty());
    assert_eq!(rules(&world, 0).await, TokenRules::default());
}

/// Clients hear that they are to encrypt, and get a key that datanodes know; another one each time.
#[tokio::test]
async fn an_encrypting_store_gives_out_keys_that_datanodes_know() {
    let mut world = World::with(tempfile::tempdir().unwrap(), |config| {
        (config.block_tokens, config.security.encrypt_data_transfer) = (true, true);
        config.security.data_transfer_key_bits = 256;
    })
    .await;
    let node = Datanode::new(1).await;
    let pool = node.register(world.addr()).await;
    world.nodes.push(node);
    let root = world.root();
    let defaults: GetServerDefaultsResponseProto =
        root.ask("getServerDefaults", &GetServerDefaultsRequestProto::default()).await.unwrap();
    assert_eq!(defaults.server_defaults.encrypt_data_transfer, Some(true));
    assert_eq!(defaults.server_defaults.data_transfer_protection, ["privacy"]);
    let said = rules(&world, 0).await;
    assert_eq!((&said.data_transfer_protection[..], said.cipher_key_bits), (&["privacy".to_owned()][..], 256));
    let mut nonces = Vec::new();
    for _ in 0..2 {
        let given: GetDataEncryptionKeyResponseProto =
            root.ask("getDataEncryptionKey", &GetDataEncryptionKeyRequestProto {}).await.unwrap();
        let key = given.data_encryption_key.unwrap();
        let user = encryption_key::user_name(KeyId(key.key_id), &key.block_pool_id, &key.nonce);
        let known = encryption_key::authenticate(world.now(), &keys(&world).await, &pool, &user).unwrap();
        assert_eq!(known.bytes()[..], key.encryption_key[..]);
        nonces.push(key.nonce);
    }
    assert_ne!(nonces[0], nonces[1]);
}

#[tokio::test]
async fn what_does_not_encrypt_gives_out_no_keys() {
    let world = world().await;
    let given: GetDataEncryptionKeyResponseProto =
        world.root().ask("getDataEncryptionKey", &GetDataEncryptionKeyRequestProto {}).await.unwrap();
    assert_eq!(given.data_encryption_key, None);
}
