//! The bytes of every operation, as the log has it, and of every kind of row: no change of them is made by accident.

use crate::acl::AclChange;
use crate::acl_entry::{AclEntry, AclKey, AclKind, AclScope};
use crate::caller::Caller;
use crate::delegation_token::DelegationToken;
use crate::ops::*;
use crate::quota::StorageType;
use crate::record::{BlockRow, BlockState};
use crate::request::Request;
use crate::retry_key::RetryKey;
use crate::view::BlockRef;
use crate::view::DoomedBlock;
use crate::xattr_name::{Xattr, XattrName, XattrSpace};
use std::collections::BTreeSet;
use testkit::golden::{Golden, variant};
use types::encoding::encode;
use types::rows::MemoryRows;
use types::{BlockId, ContainerId, FsPath, Generation, InodeId, Millis};

fn path(text: &str) -> FsPath {
    FsPath::parse(text).unwrap()
}

fn create(text: &str) -> Create {
    Create {
        path: path(text),
        client: "client-1".into(),
        client_host: "10.0.0.7".into(),
        mode: 0o640,
        unmasked: Some(0o660),
        create: true,
        overwrite: false,
        create_parent: true,
        replication: 3,
        block_len: 1 << 20,
        block_len_min: 1 << 20,
        takeover: Some("next".into()),
    }
}

fn mkdirs(text: &str) -> Mkdirs {
    Mkdirs { path: path(text), mode: 0o755, unmasked: None, create_parent: true }
}

fn xattr_name() -> XattrName {
    XattrName { space: XattrSpace::User, name: "colour".into() }
}

const BLOCK: BlockId = BlockId(7 << 20 | 3);
const HOME: ContainerId = ContainerId(7);
const FILE: InodeId = InodeId(16_388);
const LAST: BlockRef = BlockRef { block: BLOCK, generation: Generation(1_002), len: 600_000 };

fn add(text: &str) -> AddBlock {
    let allocated = Allocated { block: BLOCK, home: HOME };
    AddBlock { path: path(text), client: "client-1".into(), file: Some(FILE), previous: Some(LAST), allocated }
}

fn put() -> PutFile {
    let generation = Generation(1_002);
    let block = PutBlock { file: FILE, block: BLOCK, generation, len: 5, home: HOME };
    PutFile { create: create("/put"), block: Some(block) }
}

/// One of each.
fn operations() -> Vec<Op> {
    let (client, client_host) = (|| "client-1".to_owned(), || "10.0.0.7".to_owned());
    let entry =
        AclEntry { key: AclKey { scope: AclScope::Access, kind: AclKind::User, name: Some("eve".into()) }, access: 5 };
    vec![
        Format { owner: "root".into(), group: "supergroup".into() }.into(),
        mkdirs("/a/b").into(),
        create("/a/file").into(),
        Append { path: path("/a/f"), client: client(), client_host: client_host(), new_block: true, takeover: None }
            .into(),
        add("/a/file").into(),
        AbandonBlock { path: path("/a/file"), client: client(), file: Some(FILE), block: BLOCK }.into(),
        BumpGeneration { block: BLOCK, client: client() }.into(),
        UpdatePipeline {
            client: client(),
            block: BLOCK,
            old: Generation(1_002),
            new: Generation(1_003),
            len: 300,
            home: Some(HOME),
        }
        .into(),
        Complete { path: path("/a/file"), client: client(), file: Some(FILE), last: Some(LAST), seen: false }.into(),
        Fsync { path: path("/a/file"), client: client(), file: None, last_len: Some(300) }.into(),
        Rename { from: path("/a"), to: path("/b") }.into(),
        Rename2 {
            from: path("/a"),
            to: path("/b"),
            overwrite: true,
            to_trash: true,
            examined: Some(FILE),
            replaces: Some(FileVersion { file: FILE, modified: Millis(9), len: 300 }),
        }
        .into(),
        Delete { path: path("/a"), recursive: true, examined: None }.into(),
        SetPermission { path: path("/a"), mode: 0o1777 }.into(),
        SetOwner { path: path("/a"), owner: Some("eve".into()), group: None }.into(),
        SetTimes { path: path("/a"), modified: Some(Millis(9)), accessed: None }.into(),
        SetReplication { path: path("/a/file"), replication: 2 }.into(),
        BeginRecovery { target: RecoveryTarget::Path(path("/a/file")), holder: Some(client()) }.into(),
        FinishRecovery { file: FILE, block: BLOCK, generation: Generation(1_004), len: Some(300) }.into(),
        Reap { inodes_max: 1_000 }.into(),
        ForgetDoomed { blocks: vec![DoomedBlock { block: BLOCK, home: HOME, generation: Generation(1_004) }] }.into(),
        TouchAccessTime { path: path("/a/file"), at: Millis(9) }.into(),
        put().into(),
        Reserve { count: 100 }.into(),
        SetAcl { path: path("/a"), change: AclChange::Modify(vec![entry]) }.into(),
        SetXattr {
            path: path("/a"),
            attribute: Xattr { name: xattr_name(), value: b"blue".to_vec() },
            create: true,
            replace: false,
        }
        .into(),
        RemoveXattr { path: path("/a"), name: xattr_name() }.into(),
        Concat { target: path("/a/file"), sources: vec![path("/a/more"), path("/a/most")], remembers: None }.into(),
        AddLeased { add: add("/a/file"), generation: Generation(1_002) }.into(),
        MoveBlocks {
            moves: vec![BlockMove { block: BLOCK, generation: Generation(1_002), from: HOME, to: ContainerId(9) }],
        }
        .into(),
        ForgetResized { file: FILE, replication: 2 }.into(),
        SetQuota {
            path: path("/a"),
            names: QuotaChange::Set(100),
            space: QuotaChange::Lift,
            of_type: Some(StorageType::Ssd),
        }
        .into(),
        Truncate { path: path("/a/f"), len: 100, client: client(), client_host: client_host(), takeover: None }.into(),
        SetSafeMode { on: true }.into(),
        issue(7).into(),
        RenewToken { number: 7, hash: [5; 32], expires: Millis(1_700_172_800_000) }.into(),
        CancelToken { number: 7, hash: [5; 32] }.into(),
        ForgetTokens { numbers: vec![7, 300] }.into(),
    ]
}

fn issue(number: u32) -> IssueToken {
    let token = DelegationToken {
        expires: Millis(1_700_086_400_000),
        max: Millis(1_700_604_800_000),
        hash: [5; 32],
        owner: "ada@EXAMPLE.COM".into(),
        renewer: "yarn".into(),
    };
    IssueToken { number, token }
}

fn request(now: u64, call: i32, op: Op) -> Request {
    let caller = Caller { user: "alice".into(), groups: vec!["staff".into()], groups_known: true, superuser: true };
    Request { now: Millis(now), caller, retry: Some(RetryKey { client: [7; 16], call }), op }
}

#[test]
fn operations_in_the_log() {
    let operations = operations();
    let names: BTreeSet<String> = operations.iter().map(variant).collect();
    assert_eq!(names.len(), Op::COUNT, "each operation has its example");
    let mut golden = Golden::default();
    for op in operations {
        golden.add(variant(&op), &encode(&op, Vec::new()));
    }
    let concat = Concat { target: path("/a/file"), sources: vec![path("/a/more")], remembers: Some(true) };
    golden.add("Concat.remembers", &encode(&Op::from(concat), Vec::new()));
    let whole = request(1_700_000_000_000, 3, Rename { from: path("/a"), to: path("/b") }.into());
    golden.add("request", &encode(&whole, Vec::new()));
    golden.hold(concat!(env!("CARGO_MANIFEST_DIR"), "/src/golden_operations.txt"));
}

/// What a store has after a few calls that leave something in each table.
#[test]
fn rows_in_the_store() {
    let in_home = |index| Allocated { block: BlockId::new(HOME, index), home: HOME };
    let visitor = Allocated { block: BlockId::new(ContainerId(6), 1), home: HOME };
    let of = |text: &str, allocated, previous| AddBlock { file: None, previous, allocated, ..add(text) };
    let done =
        |text: &str, last| Complete { path: path(text), client: "client-1".into(), file: None, last, seen: false };
    let open = |text: &str| Create { takeover: None, ..create(text) };
    let whole = |index, generation| {
        Some(BlockRef { block: BlockId::new(HOME, index), generation: Generation(generation), len: 1 << 20 })
    };
    let acl = operations().into_iter().find(|op| matches!(op, Op::SetAcl(_))).unwrap();
    let colour = operations().into_iter().find(|op| matches!(op, Op::SetXattr(_))).unwrap();
    let calls: Vec<Op> = vec![
        Format { owner: "root".into(), group: "supergroup".into() }.into(),
        mkdirs("/a/b").into(),
        acl,
        colour,
        SetQuota { path: path("/a"), names: QuotaChange::Set(100), space: QuotaChange::Set(1 << 40), of_type: None }
            .into(),
        open("/a/whole").into(),
        of("/a/whole", in_home(1), None).into(),
        of("/a/whole", in_home(2), whole(1, 1_001)).into(),
        done("/a/whole", whole(2, 1_002)).into(),
        SetReplication { path: path("/a/whole"), replication: 2 }.into(),
        open("/a/open").into(),
        of("/a/open", visitor, None).into(),
        open("/a/gone").into(),
        of("/a/gone", in_home(3), None).into(),
        done("/a/gone", whole(3, 1_004)).into(),
        Delete { path: path("/a/gone"), recursive: true, examined: None }.into(),
        Reap { inodes_max: 10 }.into(),
        mkdirs("/tree/below").into(),
        Delete { path: path("/tree"), recursive: true, examined: None }.into(),
        Reserve { count: 10 }.into(),
        SetSafeMode { on: true }.into(),
    ];
    let mut rows = MemoryRows::default();
    crate::apply(&mut rows, &request(1_700_000_000_000, 0, issue(7).into())).unwrap().unwrap();
    for (at, op) in calls.into_iter().enumerate() {
        let request = request(1_700_000_000_000 + at as u64, at as i32, op);
        let answer = crate::apply(&mut rows, &request).unwrap();
        assert!(answer.is_ok(), "{:?}: {answer:?}", request.op);
    }
    let mut golden = Golden::default();
    let mut tables = BTreeSet::new();
    for (table, key, value) in rows.iter() {
        tables.insert(table.0);
        let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        golden.add(format!("{}.{key}", table.0), value);
    }
    // A block that concat gave to another file.
    let (block, generation, state) = (BLOCK, Generation(1_002), BlockState::Complete);
    let row = BlockRow {
        block,
        generation,
        issued: generation,
        len: 5,
        home: HOME,
        state,
        replaces: None,
        written_for: Some(FILE),
    };
    golden.add("3.written_for", &crate::record::encode(&row));
    golden.hold(concat!(env!("CARGO_MANIFEST_DIR"), "/src/golden_rows.txt"));
    let all: BTreeSet<u8> = crate::tables::ALL.iter().map(|table| table.0).collect();
    assert_eq!(tables, all, "each table has its example");
}
