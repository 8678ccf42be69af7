//! Tests of the table: each row is called by permitted and by refused callers, and the audit log is checked.

use super::table::PROTOCOLS;
use super::*;
use crate::container_sealing::tests::with_node;
use crate::telemetry::RowNumber;
use crate::{fsck, http_query};
use hdfs::exception::{ACCESS_CONTROL, RPC_NO_SUCH_METHOD, RPC_NO_SUCH_PROTOCOL};
use hdfs::proto::{
    ConcatRequestProto, FsPermissionProto, GetFileInfoRequestProto, MkdirsRequestProto, SafeModeActionProto,
    SetSafeModeRequestProto,
};
use metrics::class_name;
use prost::Message;
use security::joining;
use security::node_name::{Certified, NodeName};
use serde_json::Value;
use std::collections::BTreeSet;
use types::{Millis, NodeId};
use wire::admin::ADMIN_PROTOCOL;
use wire::admin::joining::{INVITE, InviteRequest};

const STRANGER: &str = "nobody";

fn call(protocol: &str, version: Option<u64>, method: &str, user: &str, body: Vec<u8>) -> Call {
    Call {
        protocol: protocol.into(),
        method: method.into(),
        version: version.unwrap_or(1),
        body: body.into(),
        user: rpc::Identity::simple(user, None).into(),
        client_id: Bytes::new(),
        call_id: 0,
        retry_count: 0,
        peer: ([127, 0, 0, 1], 40_000).into(),
        is_private: true,
        untaken: rpc::Untaken::default(),
    }
}

fn mkdirs(path: &str, user: &str) -> Call {
    let masked = FsPermissionProto { perm: 0o755 };
    let request = MkdirsRequestProto { src: path.into(), masked, create_parent: true, unmasked: None };
    call(hdfs::protocol::CLIENT, None, "mkdirs", user, request.encode_to_vec())
}

#[test]
fn each_call_has_one_row() {
    let mut seen = BTreeSet::new();
    for protocol in PROTOCOLS {
        assert!(!protocol.methods.is_empty(), "{}", protocol.name);
        for method in protocol.methods {
            assert!(seen.insert((protocol.name, method.name)), "{} {}", protocol.name, method.name);
            let (_, found, _) = table::find(protocol.name, method.name).unwrap();
            assert!(std::ptr::eq(found, method), "{} is found as {}", method.name, found.name);
        }
    }
}

#[test]
fn rows_are_numbered_in_the_order_of_their_names() {
    let names: Vec<_> = table::names().collect();
    let mut labels = BTreeSet::new();
    for (number, (protocol, method)) in names.iter().enumerate() {
        assert_eq!(table::find(protocol, method).unwrap().2, RowNumber(number), "{protocol} {method}");
        labels.insert((class_name(protocol), method));
    }
    // Calls without a row, of HDFS's protocol for clients and of ours, share a series.
    assert_eq!(labels.len() + 1, names.len());
}

/// Superusers' calls are denied to others in HDFS's words; each row is one that its handler answers, and what has no
/// row is refused.
#[tokio::test]
async fn rows_hold_what_they_say() {
    let (_dir, metad, core) = with_node().await;
    let leadership = Arc::clone(&metad.running().as_ref().unwrap().server.leadership);
    let owner = leadership.users.owner().to_owned();
    for protocol in PROTOCOLS.iter().filter(|protocol| !protocol.has_reports) {
        for method in protocol.methods {
            let ask = |user: &str| call(protocol.name, protocol.version, method.name, user, Vec::new());
            let answer = pass(&leadership, ask(STRANGER)).await;
            let message = answer.as_ref().map_or_else(|refused| refused.message.clone(), |_| String::new());
            let denied = "Access denied for user nobody. Superuser privilege is required";
            match method.who {
                Who::Administrator | Who::Superuser => {
                    let operation = if protocol.names_operations {
                        format!(" for operation {}", method.name)
                    } else {
                        String::new()
                    };
                    assert_eq!(message, format!("{denied}{operation}"), "{}", method.name);
                    assert_eq!(answer.unwrap_err().class, ACCESS_CONTROL);
                }
                // Everybody may ask whether it is on; without anything in it the call would end it.
                Who::User if method.name == "setSafeMode" => assert!(message.starts_with(denied), "{message}"),
                Who::Anyone | Who::User | Who::Node | Who::Member | Who::Newcomer => {
                    assert!(!message.starts_with(denied), "{}: {message}", method.name);
                }
            }
            if method.who != Who::Member {
                let refused = pass(&leadership, ask(&owner)).await.err();
                let is_let_in = refused.as_ref().is_none_or(|refused| {
                    refused.class != RPC_NO_SUCH_METHOD && !refused.message.starts_with("Access denied")
                });
                assert!(is_let_in, "{}: {refused:?}", method.name);
            }
        }
        let refused = pass(&leadership, call(protocol.name, protocol.version, "juggle", &owner, Vec::new())).await;
        assert_eq!(refused.unwrap_err().class, RPC_NO_SUCH_METHOD, "{}", protocol.name);
    }
    let over_rpc = pass(&leadership, call(table::HTTP, None, fsck::METHOD, &owner, Vec::new())).await;
    assert_eq!(over_rpc.unwrap_err().class, RPC_NO_SUCH_PROTOCOL);
    let refused = pass(&leadership, call("org.example.Protocol", None, "mkdirs", &owner, Vec::new())).await;
    assert_eq!(refused.unwrap_err().class, RPC_NO_SUCH_PROTOCOL);
    drop((core, leadership));
    metad.shutdown().await;
}

#[tokio::test]
async fn what_changes_or_is_denied_is_written_down() {
    let (dir, metad, core) = with_node().await;
    let leadership = Arc::clone(&metad.running().as_ref().unwrap().server.leadership);
    let owner = leadership.users.owner().to_owned();
    let read = |path: &str| {
        let body = GetFileInfoRequestProto { src: path.into() }.encode_to_vec();
        call(hdfs::protocol::CLIENT, None, "getFileInfo", &owner, body)
    };
    pass(&leadership, mkdirs("/a", &owner)).await.unwrap();
    pass(&leadership, read("/a")).await.unwrap();
    pass(&leadership, mkdirs("/a/b", STRANGER)).await.unwrap_err();
    pass(&leadership, call(hdfs::protocol::CLIENT, None, "refreshNodes", STRANGER, Vec::new())).await.unwrap_err();
    let acting = rpc::Identity::simple(owner.clone(), Some(STRANGER.into()));
    pass(&leadership, Call { user: acting.into(), ..read("/secret") }).await.unwrap_err();
    let concat = ConcatRequestProto { trg: "/a/all".into(), srcs: vec!["/a/1".into(), "/a/2".into()] };
    pass(&leadership, call(hdfs::protocol::CLIENT, None, "concat", STRANGER, concat.encode_to_vec()))
        .await
        .unwrap_err();
    pass(&leadership, call(hdfs::protocol::CLIENT, None, "renewLease", &owner, Vec::new())).await.unwrap();
    pass(&leadership, mkdirs(&"/x".repeat(100_000), &owner)).await.unwrap_err();
    let stop = wire::admin::jobs::StopJobRequest { id: 77 }.encode_to_vec();
    pass(&leadership, call(wire::admin::ADMIN_PROTOCOL, None, wire::admin::jobs::STOP_JOB, &owner, stop))
        .await
        .unwrap_err();
    let safe_mode = |action: SafeModeActionProto, user: &str| {
        let request = SetSafeModeRequestProto { action: action.into(), checked: None };
        call(hdfs::protocol::CLIENT, None, "setSafeMode", user, request.encode_to_vec())
    };
    for action in [SafeModeActionProto::SafemodeGet, SafeModeActionProto::SafemodeLeave] {
        pass(&leadership, safe_mode(action, &owner)).await.unwrap();
    }
    pass(&leadership, safe_mode(SafeModeActionProto::SafemodeEnter, STRANGER)).await.unwrap_err();
    let query = |user: &str| [("ugi", user), ("path", "/a")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let check = async |user: &str| {
        let mut pieces = http_query::fsck(&leadership, query(user).into(), [10, 0, 0, 7].into(), None).unwrap();
        let mut report = String::new();
        while let Some(piece) = pieces.recv().await {
            report.push_str(&piece);
        }
        report
    };
    assert!(check(&owner).await.ends_with("The filesystem under path '/a' is HEALTHY"));
    let refused = check("no:name").await;
    // As HDFS ends a check that it refused (`NamenodeFsck.fsck`): the time, the reason, the outcome.
    let (end, rest) = refused.split_once(" milliseconds\n").unwrap();
    assert!(end.starts_with("FSCK ended at "), "{refused}");
    let (reason, outcome) = rest.split_once('\n').unwrap();
    assert!(!reason.is_empty() && outcome == "\n\nFsck on path '/a' FAILED", "{refused}");
    drop((core, leadership));
    metad.shutdown().await;
    let text = std::fs::read_to_string(dir.path().join("audit/audit.log")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shown = |line: &Value| {
        let paths = line["paths"].as_array().into_iter().flatten().map(|path| path.as_str().unwrap());
        let paths: Vec<&str> = paths.map(|path| &path[..path.len().min(10)]).collect();
        let path = if paths.is_empty() { line["subject"].as_str().unwrap_or("-").to_owned() } else { paths.join(" ") };
        let user = line["user"].as_str().unwrap();
        let is_proxy = line["real_user"].is_string();
        assert_eq!(line["authentication"], if is_proxy { "PROXY" } else { "SIMPLE" });
        assert_eq!(line["real_authentication"].as_str(), is_proxy.then_some("SIMPLE"));
        assert_eq!(line["address"], if line["protocol"] == "http" { "10.0.0.7" } else { "127.0.0.1:40000" });
        let error = line["error"].as_str().and_then(|class| class.rsplit('.').next()).unwrap_or("-");
        let user = if user == owner { "owner" } else { user };
        let real = line["real_user"].as_str().map(|real| format!(" by {real}")).unwrap_or_default();
        let method = line["method"].as_str().unwrap();
        format!("{user}{real} {method} {path} allowed={} {error}", line["allowed"])
    };
    let lines: Vec<String> = lines.iter().map(shown).collect();
    assert_eq!(
        lines,
        [
            "owner mkdirs /a allowed=true -",
            "nobody mkdirs /a/b allowed=false AccessControlException",
            "nobody refreshNodes - allowed=false AccessControlException",
            "owner by nobody getFileInfo /secret allowed=false AuthorizationException",
            "nobody concat /a/1 /a/2 /a/all allowed=true FileNotFoundException",
            "owner mkdirs /x/x/x/x/x allowed=true IOException",
            "owner stopJob 77 allowed=true IllegalArgumentException",
            "owner setSafeMode leave allowed=true -",
            "nobody setSafeMode enter allowed=false AccessControlException",
            "owner fsck /a allowed=true -",
            "no:name fsck /a allowed=false AccessControlException",
        ]
    );
    assert!(text.len() < 10_000, "a long path is cut");
}

/// Its holder may be a thief, who would have the log forget what he did before. Each refusal ends the connection, and
/// strangers' refusals have lines still.
#[tokio::test]
async fn who_has_a_revoked_certificate_does_not_fill_the_audit_log() {
    const CALL_COUNT: usize = 2000;
    let (dir, metad, core) = with_node().await;
    let leadership = Arc::clone(&metad.running().as_ref().unwrap().server.leadership);
    let (owner, node) = (leadership.users.owner().to_owned(), NodeId([1; 16]));
    assert!(core.raise_level(crate::command::LEVEL).await.unwrap(), "revocations can be written");
    core.change_joining(joining::Command::Revoke { node, before: Millis(2) }).await.unwrap().unwrap();
    let proof = rpc::Proof::Node(Certified { name: NodeName::Datanode(node), issued_at: Millis(1) });
    let user = rpc::Identity { proof, ..rpc::Identity::simple(node.to_string(), None) };
    let stolen = Call { user: user.into(), ..mkdirs("/stolen", "") };
    for _ in 0..CALL_COUNT {
        let refused = pass(&leadership, stolen.clone()).await.unwrap_err();
        assert!(refused.is_fatal() && refused.class == NODE_REVOKED, "{refused}");
    }
    pass(&leadership, mkdirs("/a", &owner)).await.unwrap();
    drop((core, leadership));
    metad.shutdown().await;
    let text = std::fs::read_to_string(dir.path().join("audit/audit.log")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let refused = lines.iter().filter(|line| line["paths"][0] == "/stolen").count();
    // Beyond the first ones there is one in three seconds, so a slow machine has some more.
    assert!((20..CALL_COUNT / 2).contains(&refused), "{refused} lines");
    assert!(lines.iter().any(|line| line["paths"][0] == "/a"), "{text}");
}

/// A join token is a secret that the answer has in it.
#[tokio::test]
async fn nobody_is_invited_where_others_could_hear_it() {
    let (_dir, metad, _core) = with_node().await;
    let leadership = Arc::clone(&metad.running().as_ref().unwrap().server.leadership);
    let request = InviteRequest { datanode: String::new(), lifetime_ms: 1000 };
    let private = call(ADMIN_PROTOCOL, None, INVITE, leadership.users.owner(), request.encode_to_vec());
    let heard = Call { is_private: false, ..private.clone() };
    let refused = pass(&leadership, heard).await.unwrap_err();
    assert!(refused.message.contains("a join token") && refused.message.contains("rpc_protection"), "{refused}");
    let refused = pass(&leadership, private).await.unwrap_err();
    assert!(refused.message.contains("has no authority"), "{refused}");
}
