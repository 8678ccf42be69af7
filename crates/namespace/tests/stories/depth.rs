//! Trees deeper than any path reaches, made by moving deep trees below each other.

use crate::world::{World, caller, path, removal};
use namespace::error::limit::Limit;
use namespace::{
    AddBlock, Allocated, BeginRecovery, Create, Delete, Mkdirs, NsError, RecoveryTarget, Rename, Rename2, Reply,
    SetPermission,
};
use types::{BlockId, ContainerId, FileId};

/// Levels one path reaches, less the two that the moves need.
const STEP: usize = 997;

fn below(top: &str) -> String {
    format!("{top}{}", "/a".repeat(STEP))
}

/// `/t` with an open file at its very end, as deep as moves of whole paths can make it.
fn dig(world: &mut World) -> FileId {
    let (root, alice) = (caller("root"), caller("alice"));
    world.apply(&root, SetPermission { path: path("/"), mode: 0o777 }).unwrap();
    let mkdirs = |top: &str| Mkdirs { path: path(&below(top)), mode: 0o755, unmasked: None, create_parent: true };
    world.apply(&alice, mkdirs("/t")).unwrap();
    let create = Create {
        path: path(&format!("{}/f", below("/t"))),
        client: "w".into(),
        client_host: "here".into(),
        mode: 0o644,
        unmasked: None,
        create: true,
        overwrite: false,
        create_parent: true,
        replication: 1,
        block_len: 100,
        block_len_min: 1,
        takeover: None,
    };
    let Reply::Status(file) = world.apply(&alice, create).unwrap() else { panic!("no status") };
    for is_refused in [false, true] {
        world.apply(&alice, mkdirs("/x")).unwrap();
        let into = Rename { from: path("/t"), to: path(&format!("{}/t", below("/x"))) };
        if is_refused {
            assert!(matches!(world.apply(&alice, into), Err(NsError::Limit(_))));
            world.apply(&root, Delete { path: path("/x"), recursive: true, examined: None }).unwrap();
        } else {
            assert_eq!(world.apply(&alice, into), Ok(Reply::Bool(true)));
            assert_eq!(world.apply(&alice, Rename { from: path("/x"), to: path("/t") }), Ok(Reply::Bool(true)));
        }
    }
    file.id
}

/// A move that would make a tree deeper than one change may climb is refused, and what stands at the greatest depth is
/// written and deleted.
#[test]
fn a_tree_too_deep_to_climb_is_never_made() {
    let mut world = World::new();
    let file = dig(&mut world);
    let alice = caller("alice");
    world.apply(&alice, Mkdirs { path: path("/x/y"), mode: 0o755, unmasked: None, create_parent: true }).unwrap();
    // From `/t` to `f` are 1997 levels.
    for (to, fits) in [("/x/y/t", true), ("/t", true), ("/x/a/b/c/t", false), ("/x/a/b/t", true)] {
        if to != "/t" {
            let above = path(to).parent().unwrap();
            world.apply(&alice, Mkdirs { path: above, mode: 0o755, unmasked: None, create_parent: true }).unwrap();
        }
        let from = path(if to == "/t" { "/x/y/t" } else { "/t" });
        let moved = world.apply(&alice, Rename { from: from.clone(), to: path(to) });
        assert_eq!(moved.is_ok(), fits, "{moved:?}");
        let rename = |overwrite| {
            let (from, to) = (from.clone(), path(to));
            Rename2 { from, to, overwrite, to_trash: false, examined: None, replaces: None }
        };
        if !fits {
            for moved in [moved, world.apply(&alice, rename(false)), world.apply(&alice, rename(true))] {
                let limit = Limit::RenamedDepth { path: "/t".into(), depth: 2001 };
                assert_eq!(moved, Err(NsError::Limit(limit.into())));
            }
        }
    }
    let allocated = Allocated { block: BlockId(1 << 20), home: ContainerId(1) };
    let add = AddBlock { path: path("/t/f"), client: "w".into(), file: Some(file), previous: None, allocated };
    assert!(matches!(world.apply(&alice, add), Ok(Reply::Block(_))));
    let begin = BeginRecovery { target: RecoveryTarget::File(file), holder: None };
    assert!(world.apply(&alice, begin).is_ok());
    let top = removal(&world.rows, &alice, &path("/x")).unwrap();
    let delete = Delete { path: path("/x"), recursive: true, examined: top };
    assert_eq!(world.apply(&alice, delete), Ok(Reply::Bool(true)));
}

/// Two directories that move into each other in turn, as in a rotation, do not come to count as deep: they have few
/// directories.
#[test]
fn moves_to_and_fro_add_no_depth() {
    let mut world = World::new();
    let root = caller("root");
    for top in ["/a/own", "/b/own"] {
        world.apply(&root, Mkdirs { path: path(top), mode: 0o755, unmasked: None, create_parent: true }).unwrap();
    }
    for _ in 0..1200 {
        for (from, to) in [("/a", "/b/a"), ("/b/a", "/a"), ("/b", "/a/b"), ("/a/b", "/b")] {
            let moved = world.apply(&root, Rename { from: path(from), to: path(to) });
            assert_eq!(moved, Ok(Reply::Bool(true)), "{from} to {to}");
        }
    }
}
