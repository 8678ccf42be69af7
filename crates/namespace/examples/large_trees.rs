//! The longest wait of others for one change of a large tree: `cargo run --release -p namespace --example large_trees
//! -- 1000000`.
//!
//! Rows lie in a store on disk, as a metadata server keeps them. Everything that ordinary users and administrators do
//! with a whole tree is done once; what is told is how long the entry of the log took to apply, since all others wait
//! for that.

#![expect(clippy::disallowed_methods, reason = "it measures")]

use kv::{Options, Store};
use namespace::*;
use std::time::{Duration, Instant};
use types::{FsPath, InodeId, Millis};

/// Files of a directory.
const DIRECTORY_LEN: u64 = 1000;
/// Directories of a directory.
const FAN: u64 = 100;
/// As in a metadata server: entries examined by one read, and inodes freed by one entry of the log.
const STEP_COUNT: usize = 5000;
const REAP_COUNT: u32 = 1000;

fn main() {
    let count: u64 = std::env::args().nth(1).map_or(1_000_000, |count| count.parse().expect("a number of files"));
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path(), Options::default()).expect("a store");
    let (root, alice) = (caller("root"), caller("alice"));
    apply_as(&store, &root, Format { owner: "root".into(), group: "supergroup".into() });
    for top in ["/home", "/trash", "/limited"] {
        apply_as(&store, &root, Mkdirs { path: path(top), mode: 0o755, unmasked: None, create_parent: true });
        apply_as(&store, &root, SetOwner { path: path(top), owner: Some("alice".into()), group: None });
    }
    let limit = |on: &str| SetQuota {
        path: path(on),
        names: QuotaChange::Set(u64::MAX),
        space: QuotaChange::Keep,
        of_type: None,
    };
    apply_as(&store, &root, limit("/limited"));
    flush_always(store.clone());
    let started = Instant::now();
    let mut longest = Duration::ZERO;
    for file in 0..count {
        let directory = file / DIRECTORY_LEN;
        let name = format!("/home/tree/{:03}/{:03}/f{:09}", directory / FAN, directory % FAN, file);
        longest = longest.max(apply_as(&store, &alice, PutFile { create: create(&name), block: None }));
    }
    store.flush().expect("a flush");
    let each = started.elapsed().as_secs_f64() * 1e6 / count as f64;
    println!("{count} files made, {each:.1} us each with flushes; the longest took {longest:.1?}");
    let tell = |what: &str, took: Duration| println!("{what}: {took:.1?}");
    let rename = |from: &str, to: &str, examined: Option<InodeId>| {
        let to_trash = examined.is_some();
        Rename2 { from: path(from), to: path(to), overwrite: false, to_trash, examined, replaces: None }
    };
    tell("rename", apply_as(&store, &alice, rename("/home/tree", "/home/moved", None)));
    let examined = examine(&store, &alice, "/home/moved");
    tell("move to the trash", apply_as(&store, &alice, rename("/home/moved", "/trash/tree", examined)));
    tell("rename into a quota", apply_as(&store, &alice, rename("/trash/tree", "/limited/tree", None)));
    tell("set another quota", apply_as(&store, &root, limit("/limited/tree")));
    tell("rename out of a quota", apply_as(&store, &alice, rename("/limited/tree", "/home/tree", None)));
    sum_up(&store, &root, "/home/tree");
    sum_up(&store, &alice, "/home/tree");
    let examined = examine(&store, &alice, "/home/tree");
    tell("delete", apply_as(&store, &alice, Delete { path: path("/home/tree"), recursive: true, examined }));
    let mut longest = Duration::ZERO;
    let mut steps = 0;
    while read::has_deleted_trees(&store.view()).expect("rows that can be read") {
        longest = longest.max(apply_as(&store, &root, Reap { inodes_max: REAP_COUNT }));
        steps += 1;
    }
    println!("free what was deleted: {steps} entries of the log, the longest {longest:.1?}");
}

/// As a metadata server does it.
fn flush_always(store: Store) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(if store.is_large() { Duration::ZERO } else { Duration::from_millis(100) });
            store.flush().expect("a flush");
        }
    });
}

/// As the leader does it beside all changes, before a tree is deleted or moved to the trash.
fn examine(store: &Store, caller: &Caller, at: &str) -> Option<InodeId> {
    let mut removal = read::Removal::start(&store.view(), caller, &path(at)).unwrap().unwrap().expect("a tree");
    let steps = Steps::run(|| removal.step(&store.view(), caller, STEP_COUNT).unwrap().unwrap());
    println!("  its rights examined: {}", steps.told);
    Some(steps.found)
}

fn sum_up(store: &Store, caller: &Caller, at: &str) {
    let mut summary = read::Summary::start(&store.view(), caller, &path(at)).unwrap().unwrap();
    let steps = Steps::run(|| summary.step(&store.view(), caller, STEP_COUNT).unwrap().unwrap());
    println!("content summary for {}: {} files; {}", caller.user, steps.found.file_count, steps.told);
}

struct Steps<T> {
    found: T,
    told: String,
}

impl<T> Steps<T> {
    fn run(mut step: impl FnMut() -> Option<T>) -> Self {
        let (started, mut longest, mut count) = (Instant::now(), Duration::ZERO, 0);
        loop {
            let begun = Instant::now();
            let found = step();
            longest = longest.max(begun.elapsed());
            count += 1;
            if let Some(found) = found {
                let told = format!("{count} steps in {:.1?}, the longest {longest:.1?}", started.elapsed());
                return Self { found, told };
            }
        }
    }
}

fn caller(user: &str) -> Caller {
    Caller { user: user.into(), groups: Vec::new(), groups_known: true, superuser: user == "root" }
}

fn path(text: &str) -> FsPath {
    FsPath::parse(text).expect("a sound path")
}

fn create(at: &str) -> Create {
    Create {
        path: path(at),
        client: "client".into(),
        client_host: "here".into(),
        mode: 0o644,
        unmasked: None,
        create: true,
        overwrite: false,
        create_parent: true,
        replication: 3,
        block_len: 128 << 20,
        block_len_min: 1,
        takeover: None,
    }
}

/// How long it took.
fn apply_as(store: &Store, caller: &Caller, op: impl Into<Op>) -> Duration {
    let request = Request { now: Millis(1), caller: caller.clone(), retry: None, op: op.into() };
    // If too much is in memory this waits for a flush, as any change does.
    let mut change = store.change();
    let started = Instant::now();
    apply(&mut change, &request).expect("rows that can be read").expect("not refused");
    change.commit();
    started.elapsed()
}
