//! Stories of files, told by a client over real RPC.

use crate::support::{CLIENT, MB, User, World, refusal, written};
use hdfs::exception::Kind;
use hdfs::proto::*;
use rpc::CallError;
use std::time::Duration;

#[tokio::test]
async fn a_new_store_answers_every_stranger() {
    let world = World::new(0).await;
    let alice = world.user("alice");
    let root = alice.status("/").await.unwrap();
    assert_eq!((root.file_type, root.permission.perm, root.file_id), (1, 0o755, Some(16_385)));
    assert_eq!((root.owner, root.group), (host::user::current(), "supergroup".to_owned()));
    assert_eq!(alice.status("/none").await, None, "never an exception");
    assert_eq!(alice.listing("/", "", true).await.unwrap().unwrap().partial_listing.len(), 0);
    assert_eq!(alice.listing("/none", "", false).await.unwrap(), None);

    let defaults: GetServerDefaultsResponseProto =
        alice.ask("getServerDefaults", &GetServerDefaultsRequestProto {}).await.unwrap();
    let defaults = defaults.server_defaults;
    assert_eq!((defaults.block_size, defaults.replication, defaults.bytes_per_checksum), (128 << 20, 3, 512));
    assert_eq!(defaults.checksum_type, Some(2), "CRC-32C");
    let state: HaServiceStateResponseProto =
        alice.ask("getHAServiceState", &HaServiceStateRequestProto {}).await.unwrap();
    assert_eq!(state.state, 1);
    let _: MsyncResponseProto = alice.ask("msync", &MsyncRequestProto {}).await.unwrap();
    let safe = |action| SetSafeModeRequestProto { action, checked: None };
    let answer: SetSafeModeResponseProto = alice.ask("setSafeMode", &safe(3)).await.unwrap();
    assert!(!answer.result);
    let answer: Result<SetSafeModeResponseProto, _> = alice.ask("setSafeMode", &safe(2)).await;
    assert_eq!(refusal(answer).0, "AccessControl");

    let answer: Result<MsyncResponseProto, _> = alice.ask("getSlots", &MsyncRequestProto {}).await;
    let (class, message) = refusal(answer);
    assert_eq!(class, "RpcNoSuchMethod");
    assert_eq!(message, format!("Unknown method getSlots called on {CLIENT} protocol."));
    let other = rpc::Client::new(world.addr().to_string(), "alice".into(), "org.apache.hadoop.ha.HAServiceProtocol");
    let status: GetServiceStatusResponseProto = other.call("getServiceStatus", &MsyncRequestProto {}).await.unwrap();
    assert_eq!((status.state, status.ready_to_become_active, status.not_ready_reason), (1, Some(true), None));
    let answer: Result<MsyncResponseProto, _> = other.call("transitionToStandby", &MsyncRequestProto {}).await;
    assert_eq!(refusal(answer).0, "AccessControl");
    let other = rpc::Client::new(world.addr().to_string(), "alice".into(), "org.apache.hadoop.ha.ZKFCProtocol");
    let answer: Result<MsyncResponseProto, _> = other.call("cedeActive", &MsyncRequestProto {}).await;
    assert_eq!(refusal(answer).0, "RpcNoSuchProtocol");
}

#[tokio::test]
async fn a_file_from_create_to_read() {
    let world = World::new(3).await;
    let root = world.root();
    let created = root.create("/dir/file", "writer").await.unwrap();
    assert_eq!((created.length, created.blocksize, created.block_replication), (0, Some(MB), Some(3)));
    assert_eq!((created.children_num, created.flags, created.storage_policy), (Some(0), Some(0), Some(0)));
    assert!(created.path.is_empty() && created.file_id.unwrap() > 16_385);

    let first = root.add_block("/dir/file", "writer", None).await.unwrap();
    assert_eq!((first.offset, first.b.num_bytes, first.b.generation_stamp), (0, Some(0), 1001));
    assert_eq!((first.locs.len(), first.storage_types.len(), first.storage_i_ds.len()), (3, 3, 3));
    assert!(first.locs.iter().all(|place| place.location.as_ref().unwrap().starts_with("/rack")));
    let scope = wire::BlockScope::decode(&first.block_token.identifier).unwrap().unwrap();
    assert_eq!(Some(scope.file.0), created.file_id, "the token names the file");
    let again = root.add_block("/dir/file", "writer", None).await.unwrap();
    assert_eq!(again.b, first.b, "trap 31: a repeated request gets the same block");

    world.put(&first, MB);
    let open = root.locations("/dir/file", 0, 10 * MB).await.unwrap();
    assert!(open.under_construction && !open.is_last_block_complete);
    assert_eq!((open.file_length, open.blocks.len()), (0, 0), "trap 26: the open block is not counted");
    assert_eq!(open.last_block.unwrap().b.block_id, first.b.block_id);

    let second = root.add_block("/dir/file", "writer", Some(written(&first, MB))).await.unwrap();
    assert_eq!(second.offset, MB);
    world.put(&second, 100);
    assert!(root.complete("/dir/file", "writer", Some(written(&second, 100))).await.unwrap());
    assert!(root.complete("/dir/file", "writer", Some(written(&second, 100))).await.unwrap(), "a repeat");
    assert!(root.is_closed("/dir/file").await.unwrap());

    let all = root.locations("/dir/file", 0, i64::MAX as u64).await.unwrap();
    assert_eq!((all.file_length, all.under_construction, all.is_last_block_complete), (MB + 100, false, true));
    let ranges: Vec<_> = all.blocks.iter().map(|block| (block.offset, block.b.num_bytes.unwrap())).collect();
    assert_eq!(ranges, [(0, MB), (MB, 100)]);
    assert!(all.blocks.iter().all(|block| block.locs.len() == 3 && !block.corrupt));
    let tail = root.locations("/dir/file", MB + 50, 1).await.unwrap();
    assert_eq!((tail.blocks.len(), tail.blocks[0].b.block_id), (1, second.b.block_id));
    let beyond = root.locations("/dir/file", 5 * MB, 1).await.unwrap();
    assert!(beyond.blocks.is_empty() && beyond.last_block.is_some(), "trap 25");
    let negative = root.locations("/dir/file", u64::MAX, 1).await;
    assert_eq!(refusal(negative).0, "IllegalArgument");

    let listing = root.listing("/dir", "", true).await.unwrap().unwrap();
    let entry = &listing.partial_listing[0];
    assert_eq!((&entry.path[..], entry.length), (&b"file"[..], MB + 100));
    assert_eq!(entry.locations.as_ref().unwrap().blocks.len(), 2);
    let of_file = root.listing("/dir/file", "", false).await.unwrap().unwrap();
    assert!(of_file.partial_listing[0].path.is_empty() && of_file.partial_listing[0].locations.is_none());

    let request = GetLocatedFileInfoRequestProto { src: Some("/dir/file".into()), need_block_token: Some(true) };
    let located: GetLocatedFileInfoResponseProto = root.ask("getLocatedFileInfo", &request).await.unwrap();
    assert_eq!(located.fs.unwrap().locations.unwrap().blocks.len(), 2);
    let request = GetContentSummaryRequestProto { path: "/".into() };
    let summary: GetContentSummaryResponseProto = root.ask("getContentSummary", &request).await.unwrap();
    let summary = summary.summary;
    assert_eq!((summary.length, summary.file_count, summary.directory_count), (MB + 100, 1, 2));
    assert_eq!(
        (summary.space_consumed, summary.quota, summary.space_quota),
        (3 * (MB + 100), i64::MAX as u64, u64::MAX)
    );
    let stats: GetFsStatsResponseProto = root.ask("getFsStats", &GetFsStatusRequestProto {}).await.unwrap();
    assert_eq!((stats.capacity, stats.used, stats.remaining), (3 << 40, 3 << 30, 3 << 39));
}

#[tokio::test]
async fn an_empty_file_has_no_blocks() {
    let world = World::new(1).await;
    let root = world.root();
    root.create("/empty", "writer").await.unwrap();
    assert!(root.complete("/empty", "writer", None).await.unwrap());
    let located = root.locations("/empty", 0, 100).await.unwrap();
    assert!(located.blocks.is_empty() && located.last_block.is_none() && !located.is_last_block_complete);
    let listing = root.listing("/", "", true).await.unwrap().unwrap();
    assert!(listing.partial_listing[0].locations.is_some(), "trap 24");
}

#[tokio::test]
async fn refusals_have_javas_names() {
    let world = World::new(1).await;
    let (root, alice) = (world.root(), world.user("alice"));
    root.write(&world, "/d/f", &[1]).await;
    let class = |answer| refusal::<bool>(answer).0;
    assert_eq!(class(alice.mkdirs("/d/x", 0o755).await), "AccessControl");
    let (_, message) = refusal(alice.mkdirs("/d/x", 0o755).await);
    let owner = host::user::current();
    assert_eq!(
        message,
        format!("Permission denied: user=alice, access=WRITE, inode=\"/d\":{owner}:supergroup:drwxr-xr-x")
    );
    assert_eq!(class(root.mkdirs("/d/f", 0o755).await), "FileAlreadyExists");
    assert_eq!(class(root.mkdirs("/d/f/x", 0o755).await), "ParentNotDirectory");
    assert_eq!(class(root.mkdirs("/d/../x", 0o755).await), "InvalidPath");
    assert_eq!(class(root.mkdirs("relative", 0o755).await), "InvalidPath");
    let (_, message) = refusal(root.mkdirs("/d/../x", 0o755).await);
    assert_eq!(message, "Invalid path name Invalid file name: /d/../x");
    assert_eq!(refusal(root.create("/d/./x", "w").await), ("InvalidPath".into(), "Invalid path name /d/./x".into()));
    // What no name can be is looked for in vain, as in HDFS.
    assert_eq!(root.status("/d/../f").await, None);
    assert_eq!(refusal(root.locations("/d/./f", 0, 1).await).1, "File does not exist: /d/./f");
    let info = GetFileInfoRequestProto { src: "relative".into() };
    let answer: Result<GetFileInfoResponseProto, CallError> = root.ask("getFileInfo", &info).await;
    let Err(CallError::Remote { class: name, message, .. }) = answer else { panic!("{answer:?}") };
    assert_eq!((&*name, &*message), ("java.lang.AssertionError", "Absolute path required, but got 'relative'"));
    assert_eq!(class(root.mkdirs(&format!("/{}", "x".repeat(256)), 0o755).await), "PathComponentTooLong");
    assert_eq!(class(root.delete("/d", false).await), "PathIsNotEmptyDirectory");
    assert_eq!(
        refusal(root.locations("/none", 0, 1).await),
        ("FileNotFound".into(), "File does not exist: /none".into())
    );
    assert_eq!(refusal(root.locations("/d", 0, 1).await), ("FileNotFound".into(), "Path is not a file: /d".into()));
    // What the class leaves open is in a field of ours.
    let detail_of = async |src: &str| {
        let request = GetBlockLocationsRequestProto { src: src.into(), offset: 0, length: 1 };
        let answer: Result<GetBlockLocationsResponseProto, _> = root.ask("getBlockLocations", &request).await;
        let Err(CallError::Remote { detail, .. }) = answer else { panic!("{answer:?}") };
        detail.and_then(|detail| detail.known_kind())
    };
    assert_eq!(detail_of("/none").await, Some(Kind::NotFound));
    assert_eq!(detail_of("/d").await, Some(Kind::IsADirectory));
    assert_eq!(detail_of("/d/f/x").await, Some(Kind::NotADirectory));
    assert_eq!(class(root.is_closed("/none").await), "FileNotFound");
    assert_eq!(refusal(root.create("/d/f", "other").await).0, "FileAlreadyExists");
    assert_eq!(refusal(root.create("/d", "other").await).0, "FileAlreadyExists");
    assert_eq!(refusal(root.append("/none", "other").await).0, "FileNotFound");
    assert_eq!(refusal(root.add_block("/d/f", "other", None).await).0, "LeaseExpired");
    assert_eq!(refusal(root.add_block("/none", "other", None).await).0, "FileNotFound");
    let small = CreateRequestProto { block_size: 512, ..User::create_request("/d/s", "w", 1) };
    let answer: Result<CreateResponseProto, _> = root.ask("create", &small).await;
    // In the words of Hadoop 3.5; those of 3.4 differ.
    let text =
        "Specified block size 512 is less than configured minimum value dfs.namenode.fs-limits.min-block-size=1048576";
    assert_eq!(refusal(answer), ("IO".into(), text.into()));
    assert!(!root.delete("/none", true).await.unwrap(), "trap 11");
    assert!(!root.delete("/", true).await.unwrap());
    let rename = |src: &str, dst: &str| RenameRequestProto { src: src.into(), dst: dst.into() };
    let renamed: RenameResponseProto = root.ask("rename", &rename("/none", "/x")).await.unwrap();
    assert!(!renamed.result, "trap 12");
    let renamed: RenameResponseProto = root.ask("rename", &rename("/d/f", "/g")).await.unwrap();
    assert!(renamed.result);
    let request = CheckAccessRequestProto { path: "/g".into(), mode: 2 };
    let answer: Result<CheckAccessResponseProto, _> = alice.ask("checkAccess", &request).await;
    assert_eq!(refusal(answer).0, "AccessControl");
    let request = CheckAccessRequestProto { path: "/g".into(), mode: 4 };
    let _: CheckAccessResponseProto = alice.ask("checkAccess", &request).await.unwrap();
    for absent in ["/none", "/d/../g"] {
        let request = CheckAccessRequestProto { path: absent.into(), mode: 4 };
        let answer: Result<CheckAccessResponseProto, _> = alice.ask("checkAccess", &request).await;
        assert_eq!(refusal(answer), ("FileNotFound".into(), format!("Path not found: {absent}")));
    }
}

/// Both renames, and both kinds of limits.
#[tokio::test]
async fn a_rename_over_a_quota_is_refused_as_such() {
    let world = World::new(3).await;
    let root = world.root();
    root.write(&world, "/f", &[MB]).await;
    root.write(&world, "/q/other", &[MB]).await;
    let limit = |names, space| SetQuotaRequestProto {
        path: "/q".into(),
        namespace_quota: names,
        storagespace_quota: space,
        storage_type: None,
    };
    let none = u64::MAX; // -1
    for (names, space, class) in [(2, none, "NSQuotaExceeded"), (none, 3 * MB, "DSQuotaExceeded")] {
        let _: SetQuotaResponseProto = root.ask("setQuota", &limit(names, space)).await.unwrap();
        let request = RenameRequestProto { src: "/f".into(), dst: "/q/f".into() };
        let answer: Result<RenameResponseProto, _> = root.ask("rename", &request).await;
        assert_eq!(refusal(answer).0, class);
        let request = Rename2RequestProto { src: "/f".into(), dst: "/q/f".into(), ..Rename2RequestProto::default() };
        let answer: Result<Rename2ResponseProto, _> = root.ask("rename2", &request).await;
        assert_eq!(refusal(answer).0, class);
    }
}

#[tokio::test]
async fn attributes_change_as_asked() {
    let world = World::new(1).await;
    let root = world.root();
    root.write(&world, "/f", &[10]).await;
    let request = SetPermissionRequestProto { src: "/f".into(), permission: FsPermissionProto { perm: 0o600 } };
    let _: SetPermissionResponseProto = root.ask("setPermission", &request).await.unwrap();
    let request =
        SetOwnerRequestProto { src: "/f".into(), username: Some("alice".into()), groupname: Some(String::new()) };
    let _: SetOwnerResponseProto = root.ask("setOwner", &request).await.unwrap();
    let request = SetTimesRequestProto { src: "/f".into(), mtime: 1234, atime: u64::MAX };
    let _: SetTimesResponseProto = root.ask("setTimes", &request).await.unwrap();
    let request = SetReplicationRequestProto { src: "/f".into(), replication: 2 };
    let answer: SetReplicationResponseProto = root.ask("setReplication", &request).await.unwrap();
    assert!(answer.result);
    let status = root.status("/f").await.unwrap();
    assert_eq!((status.permission.perm, status.owner.as_str(), status.group.as_str()), (0o600, "alice", "supergroup"));
    assert_eq!((status.modification_time, status.access_time), (1234, world.now().0));
    assert_eq!(status.block_replication, Some(2));
    for (src, result) in [("/none", false), ("/", false)] {
        let request = SetReplicationRequestProto { src: src.into(), replication: 2 };
        let answer: SetReplicationResponseProto = root.ask("setReplication", &request).await.unwrap();
        assert_eq!(answer.result, result);
    }
    let request = SetReplicationRequestProto { src: "/f".into(), replication: 600 };
    let answer: Result<SetReplicationResponseProto, _> = root.ask("setReplication", &request).await;
    assert_eq!(refusal(answer).0, "IO");

    // A reader a minute later changes nothing; one two hours later does.
    world.pass(Duration::from_secs(60)).await;
    root.locations("/f", 0, 1).await.unwrap();
    let before = root.status("/f").await.unwrap().access_time;
    world.pass(Duration::from_secs(7200)).await;
    root.locations("/f", 0, 1).await.unwrap();
    world.until("the access time", async || root.status("/f").await.unwrap().access_time > before + 7_000_000).await;
}

/// A thousand at a time, in the order of bytes, and nothing twice.
#[tokio::test]
async fn a_long_listing_comes_in_pages() {
    let world = World::new(0).await;
    let root = world.root();
    let mut names: Vec<String> = (0..1100).map(|number| format!("{number}é")).collect();
    let calls: Vec<_> = names.iter().map(|name| (root.clone(), format!("/list/{name}"))).collect();
    let calls =
        calls.into_iter().map(|(root, path)| io::task::spawn("mkdirs", async move { root.mkdirs(&path, 0o755).await }));
    for call in calls.collect::<Vec<_>>() {
        assert!(call.await.unwrap().unwrap());
    }
    names.sort();
    let (mut seen, mut after, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = root.listing("/list", &after, false).await.unwrap().unwrap();
        pages += 1;
        assert!(page.partial_listing.len() <= 1000);
        assert!(page.remaining_entries == 0 || !page.partial_listing.is_empty(), "trap 14");
        seen.extend(page.partial_listing.iter().map(|entry| String::from_utf8(entry.path.to_vec()).unwrap()));
        if page.remaining_entries == 0 {
            break;
        }
        after = seen.last().unwrap().clone();
    }
    assert_eq!((seen, pages), (names.clone(), 2));
    several_at_once(&root, &names).await;
}

/// Pages of several directories in one answer; one that cannot be listed says so for itself.
async fn several_at_once(root: &User, names: &[String]) {
    root.mkdirs("/empty", 0o755).await.unwrap();
    root.mkdirs("/two/a", 0o755).await.unwrap();
    root.mkdirs("/two/b", 0o755).await.unwrap();
    let paths = ["/two", "/none", "/list", "/empty", "/list"].map(String::from).to_vec();
    let mut request = GetBatchedListingRequestProto { paths, start_after: Default::default(), need_location: false };
    let (mut seen, mut answers) = (vec![Vec::new(); 5], 0);
    loop {
        let answer: GetBatchedListingResponseProto = root.ask("getBatchedListing", &request).await.unwrap();
        answers += 1;
        assert!(!answer.listings.is_empty());
        for listing in answer.listings {
            let is_absent =
                listing.exception.is_some_and(|exception| exception.class_name.ends_with("FileNotFoundException"));
            assert_eq!(is_absent, listing.parent_idx == 1);
            let entries = listing.partial_listing.iter().map(|entry| String::from_utf8(entry.path.to_vec()).unwrap());
            seen[listing.parent_idx as usize].extend(entries);
        }
        if !answer.has_more {
            break;
        }
        request.start_after = answer.start_after;
    }
    let two = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(seen, [two, Vec::new(), names.to_vec(), Vec::new(), names.to_vec()]);
    assert_eq!(answers, 3, "1002 entries, 1100, 100");
    for start_after in [&b"\0\0\0\x05"[..], b"\xff\xff\xff\xffx", b"no"] {
        request.start_after = start_after.into();
        let answer: Result<GetBatchedListingResponseProto, _> = root.ask("getBatchedListing", &request).await;
        assert_eq!(refusal(answer).0, "IllegalArgument");
    }
    request.paths = vec!["/".to_owned(); 101];
    let answer: Result<GetBatchedListingResponseProto, _> = root.ask("getBatchedListing", &request).await;
    assert!(refusal(answer).1.contains("Too many source paths (101 > 100)"));
}

/// The answer got lost, and the client asks again under the same name.
#[tokio::test]
async fn a_repeated_call_happens_once() {
    let world = World::new(0).await;
    let root = world.root();
    root.mkdirs("/a", 0o755).await.unwrap();
    let attempt = root.rpc.name_call();
    let request = DeleteRequestProto { src: "/a".into(), recursive: true };
    for attempt in [attempt, attempt.again()] {
        let answer: DeleteResponseProto = root.rpc.attempt(attempt, "delete", &request).await.unwrap();
        assert!(answer.result);
    }
    assert!(!root.delete("/a", true).await.unwrap(), "under a new name it is a new call");
    let attempt = root.rpc.name_call();
    let request = User::create_request("/f", "writer", 1);
    let first: CreateResponseProto = root.rpc.attempt(attempt, "create", &request).await.unwrap();
    let second: CreateResponseProto = root.rpc.attempt(attempt.again(), "create", &request).await.unwrap();
    assert_eq!(first.fs.unwrap().file_id, second.fs.unwrap().file_id);
}

#[tokio::test]
async fn malformed_requests_are_refused_and_the_connection_lives() {
    let world = World::new(0).await;
    let root = world.root();
    // Field 1 as a number instead of a text.
    let garbage = node_usage(7);
    let answer: Result<GetFileInfoResponseProto, _> = root.ask("getFileInfo", &garbage).await;
    assert_eq!(refusal(answer).0, "RpcServer");
    assert!(root.status("/").await.is_some());
}

fn node_usage(capacity_len: u64) -> wire::node::Usage {
    wire::node::Usage { capacity_len, used_len: 0, free_len: 0 }
}
