//! The rows that one change touches do not grow with the tree it is about: all members apply it, and all other changes
//! wait meanwhile.

use namespace::error::limit::Limit;
use namespace::read::{self, Summary};
use namespace::*;
use testkit::Counted;
use types::{BlockId, ContainerId, FsPath, InodeId, Millis};

/// What is done to rows, or looked up in them, by somebody.
trait Done {
    fn apply(&mut self, user: &str, op: impl Into<Op>) -> usize;
    fn try_apply(&mut self, user: &str, op: impl Into<Op>) -> Result<usize, NsError>;
    fn examine(&self, user: &str, at: &str) -> Option<InodeId>;
}

impl Done for Counted {
    /// Rows touched by one change, which must be done.
    fn apply(&mut self, user: &str, op: impl Into<Op>) -> usize {
        self.try_apply(user, op).unwrap()
    }

    fn try_apply(&mut self, user: &str, op: impl Into<Op>) -> Result<usize, NsError> {
        let caller = caller(user);
        let request = Request { now: Millis(1), caller, retry: None, op: op.into() };
        self.take_touched();
        apply(self, &request).unwrap()?;
        Ok(self.take_touched())
    }

    /// The tree that `user` may delete.
    fn examine(&self, user: &str, at: &str) -> Option<InodeId> {
        let mut removal = read::Removal::start(self, &caller(user), &path(at)).unwrap().unwrap()?;
        loop {
            if let Some(top) = removal.step(self, &caller(user), 1000).unwrap().unwrap() {
                return Some(top);
            }
        }
    }
}

fn caller(user: &str) -> Caller {
    Caller { user: user.into(), groups: Vec::new(), groups_known: true, superuser: user == "root" }
}

fn path(text: &str) -> FsPath {
    FsPath::parse(text).unwrap()
}

fn mkdirs(at: &str) -> Mkdirs {
    Mkdirs { path: path(at), mode: 0o755, unmasked: None, create_parent: true }
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
        block_len: 100,
        block_len_min: 1,
        takeover: None,
    }
}

fn limit(on: &str) -> SetQuota {
    SetQuota { path: path(on), names: QuotaChange::Set(u64::MAX), space: QuotaChange::Keep, of_type: None }
}

fn rename(from: &str, to: &str, examined: Option<InodeId>) -> Rename2 {
    let (from, to, to_trash) = (path(from), path(to), examined.is_some());
    Rename2 { from, to, overwrite: false, to_trash, examined, replaces: None }
}

fn formatted() -> Counted {
    let mut rows = Counted::default();
    rows.apply("root", Format { owner: "alice".into(), group: "users".into() });
    rows
}

/// Rows touched by everything that is done with a whole tree.
fn touched(file_count: usize) -> Vec<(&'static str, usize)> {
    let mut rows = formatted();
    for top in ["/home", "/trash", "/limited"] {
        rows.apply("alice", mkdirs(top));
    }
    rows.apply("root", limit("/limited"));
    for file in 0..file_count {
        let name = format!("/home/tree/{}/{file}", file % 7);
        rows.apply("alice", PutFile { create: create(&name), block: None });
    }
    let into = rows.apply("alice", rename("/home/tree", "/limited/tree", None));
    let set = rows.apply("root", limit("/limited/tree"));
    let out = rows.apply("alice", rename("/limited/tree", "/home/tree", None));
    let examined = rows.examine("alice", "/home/tree");
    let trash = rows.apply("alice", rename("/home/tree", "/trash/tree", examined));
    rows.take_touched();
    let mut summary = Summary::start(&rows, &caller("root"), &path("/trash")).unwrap().unwrap();
    let totals = summary.step(&rows, &caller("root"), 1).unwrap().unwrap().expect("one step");
    assert_eq!((totals.file_count, totals.directory_count), (file_count as u64, 9));
    let summed = rows.take_touched();
    // Another tree in its place has to be examined: the entry of the log does not do it.
    let other = Delete { path: path("/trash/tree"), recursive: true, examined: None };
    rows.take_touched();
    assert!(matches!(rows.try_apply("alice", other), Err(NsError::NotExamined(_))));
    let refused = rows.take_touched();
    let delete = rows.apply("alice", Delete { path: path("/trash/tree"), recursive: true, examined });
    let freed = rows.apply("root", Reap { inodes_max: 20 });
    vec![
        ("rename into a quota", into),
        ("set a quota", set),
        ("rename out of a quota", out),
        ("move to the trash", trash),
        ("content summary", summed),
        ("refused deletion", refused),
        ("delete", delete),
        ("free", freed),
    ]
}

#[test]
fn what_is_done_with_a_tree_costs_the_same_however_large_it_is() {
    let (small, large) = (touched(50), touched(5000));
    // Some of these are looked at by assertions of debug builds.
    assert!(large.iter().all(|(_, touched)| *touched < 160), "{large:?}, where {small:?} are touched for a small one");
    // What is freed is named by the entry; the rest depends on the paths alone.
    assert_eq!(small[..7], large[..7]);
}

/// A path of a thousand names: each new directory is counted in all above it, by one climb for all of them.
#[test]
fn a_deep_path_is_made_and_counted_in_one_climb() {
    let mut rows = formatted();
    let deep = "/a".repeat(999);
    let made = rows.apply("alice", mkdirs(&deep));
    assert!(made < 15 * 999, "{made}");
    let one_more = rows.apply("alice", mkdirs(&format!("{deep}/b")));
    assert!(one_more < 5 * 999, "{one_more}");
    let totals = Summary::start(&rows, &caller("root"), &FsPath::root()).unwrap().unwrap();
    let totals = totals.clone().step(&rows, &caller("root"), 1).unwrap().unwrap().unwrap();
    assert_eq!(totals.directory_count, 1001);
}

/// By moves a tree gets deeper than a path reaches; a small change of a file at its end, which its id names, is still
/// one of bounded cost.
#[test]
fn a_file_as_deep_as_can_be_is_changed_for_a_bounded_price() {
    let mut rows = formatted();
    let deep = |top: &str| format!("{top}{}", "/a".repeat(997));
    rows.apply("alice", mkdirs(&deep("/t")));
    let file = format!("{}/f", deep("/t"));
    rows.apply("alice", create(&file));
    let entry = FsPath::parse(&file).unwrap();
    let id = read::status(&rows, &caller("root"), &entry).unwrap().unwrap().expect("the file").id;
    let mut depth = 999;
    for _ in 0..20 {
        rows.apply("alice", mkdirs(&deep("/x")));
        if rows.try_apply("alice", rename("/t", &format!("{}/t", deep("/x")), None)).is_err() {
            rows.apply("root", Delete { path: path("/x"), recursive: true, examined: None });
            break;
        }
        rows.apply("alice", rename("/x", "/t", None));
        depth += 998;
    }
    let allocated = Allocated { block: BlockId::new(ContainerId(1), 1), home: ContainerId(1) };
    let client = || String::from("client");
    let add = AddBlock { path: path("/t"), client: client(), file: Some(id), previous: None, allocated };
    let added = rows.apply("alice", add);
    let fsync = Fsync { path: path("/t"), client: client(), file: Some(id), last_len: Some(1) };
    let synced = rows.apply("alice", fsync);
    // Three to find each level, and a count that is read and written.
    assert!(added.max(synced) < 4 * 2000, "{added} and {synced} rows at {depth} levels");
    assert_eq!(check::check(rows.inner()).unwrap(), []);
}

/// A file of `block_count` blocks of one byte.
fn put_blocks(rows: &mut Counted, at: &str, block_count: u64, first: u64) {
    rows.apply("alice", create(at));
    let block = |number: u64| BlockId::new(ContainerId(1), (first + number) as u32);
    let claim = |number: u64, generation| BlockRef { block: block(number), generation, len: 1 };
    let mut previous = None;
    for number in 0..block_count {
        let allocated = Allocated { block: block(number), home: ContainerId(1) };
        let add = AddBlock { path: path(at), client: "client".into(), file: None, previous, allocated };
        let request = Request { now: Millis(1), caller: caller("alice"), retry: None, op: add.into() };
        let Reply::Block(view) = apply(rows, &request).unwrap().unwrap().reply else { panic!("no block") };
        previous = Some(claim(number, view.generation));
    }
    rows.apply("alice", Complete { path: path(at), client: "client".into(), file: None, last: previous, seen: false });
}

/// Blocks that change by one entry of the log are bounded, whatever a file may have.
#[test]
fn a_file_of_many_blocks_is_cut_and_joined_in_pieces() {
    let mut rows = formatted();
    let many = u64::from(BLOCKS_CHANGED_MAX);
    put_blocks(&mut rows, "/target", 1, 1);
    put_blocks(&mut rows, "/long", many + 2, 10);
    let cut = |len| Truncate {
        path: path("/long"),
        len,
        client: "client".into(),
        client_host: "here".into(),
        takeover: None,
    };
    let refused = rows.try_apply("alice", cut(0)).unwrap_err();
    let limit = Limit::TruncatedBlocks { path: path("/long"), len: 0 };
    assert_eq!(refused, NsError::Limit(limit.into()));
    let concat = Concat { target: path("/target"), sources: vec![path("/long")], remembers: Some(true) };
    let refused = rows.try_apply("alice", concat.clone()).unwrap_err();
    assert!(matches!(refused, NsError::Limit(limit) if matches!(*limit, Limit::ConcatBlocks { .. })));
    rows.apply("alice", cut(many));
    rows.apply("alice", concat);
    assert_eq!(check::check(rows.inner()).unwrap(), []);
}
