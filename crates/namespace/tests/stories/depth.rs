//! Trees deeper than any path reaches, made by moving deep trees below each other.

use crate::world::{World, caller, path, removal};
use namespace::{
    AddBlock, Allocated, BeginRecovery, Complete, Create, Delete, Mkdirs, NsError, RecoveryTarget, Rename, Reply,
    SetPermission,
};
use types::{BlockId, ContainerId, FileId};

/// Levels one path reaches, less the two that the moves need.
const STEP: usize = 997;

fn below(top: &str) -> String {
    format!("{top}{}", "/a".repeat(STEP))
}

/// `/t` with an open file at its very end, some `rounds` thousand levels down.
fn dig(world: &mut World, rounds: usize) -> FileId {
    let (root, alice) = (caller("root"), caller("alice"));
    world.apply(&root, SetPermission { path: path("/"), mode: 0o777 }).unwrap();
    let mkdirs = |top: &str| Mkdirs { path: path(&below(top)), mode: 0o755, create_parent: true };
    world.apply(&alice, mkdirs("/t")).unwrap();
    let create = Create {
        path: path(&format!("{}/f", below("/t"))),
        client: "w".into(),
        client_host: "here".into(),
        mode: 0o644,
        create: true,
        overwrite: false,
        create_parent: true,
        replication: 1,
        block_len: 100,
        block_len_min: 1,
        takeover: None,
    };
    let Reply::Status(file) = world.apply(&alice, create).unwrap() else { panic!("no status") };
    for _ in 0..rounds {
        world.apply(&alice, mkdirs("/x")).unwrap();
        let into = Rename { from: path("/t"), to: path(&format!("{}/t", below("/x"))) };
        assert_eq!(world.apply(&alice, into), Ok(Reply::Bool(true)));
        assert_eq!(world.apply(&alice, Rename { from: path("/x"), to: path("/t") }), Ok(Reply::Bool(true)));
    }
    file.id
}

/// A server that called this a fault of its own would stop for ever: the same entry of its log comes again at each start.
#[test]
fn a_tree_too_deep_to_climb_is_refused_and_stops_nobody() {
    let mut world = World::new();
    let file = dig(&mut world, 17);
    let alice = caller("alice");
    let allocated = Allocated { block: BlockId(1 << 20), home: ContainerId(1) };
    let add = AddBlock { path: path("/t/f"), client: "w".into(), file: Some(file), previous: None, allocated };
    assert!(matches!(world.apply(&alice, add), Err(NsError::NotFound(_))));
    let complete = Complete { path: path("/t/f"), client: "w".into(), file: Some(file), last: None };
    assert!(matches!(world.apply(&alice, complete), Err(NsError::NotFound(_))));
    let begin = BeginRecovery { target: RecoveryTarget::File(file), holder: None };
    assert!(matches!(world.apply(&alice, begin), Err(NsError::NotFound(_))));
    assert!(matches!(removal(&world.rows, &alice, &path("/t")), Err(NsError::Other(_))));
    let delete = Delete { path: path("/t"), recursive: true, examined: None };
    // Who needs no rights on each directory needs not look at each.
    assert_eq!(world.apply(&caller("root"), delete), Ok(Reply::Bool(true)));
}
