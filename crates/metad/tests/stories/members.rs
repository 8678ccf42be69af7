//! From where a metadata server takes the messages of other members.

use crate::certificates::equip;
use crate::support::{Datanode, held_ports};
use bytes::Bytes;
use hdfs::exception::{HADOOP_ILLEGAL_ARGUMENT, ILLEGAL_ARGUMENT, STANDBY};
use hdfs::proto::*;
use metad::{Config, MemberAddr, Metad};
use prost::Message;
use rpc::{CallError, Client, ClientOptions};
use security::node_name::{Expected, NodeName};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tls::Credentials;
use types::encoding::encode;
use wire::admin::ADMIN_PROTOCOL;
use wire::admin::meta::{
    ADD_MEMBER, AddMemberRequest, AddMemberResponse, LIST_MEMBERS, ListMembersRequest, ListMembersResponse, MemberRole,
    REMOVE_MEMBER, RemoveMemberRequest, RemoveMemberResponse,
};
use wire::raft::{MemberMessage, RAFT_PROTOCOL, TELL};

/// What a server that is set up by `set_up` answers to a message from this machine.
async fn check(set_up: impl FnOnce(&mut Config)) -> Result<MemberMessage, String> {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::new(dir.path().join("meta"), "127.0.0.1:0".parse().unwrap());
    set_up(&mut config);
    let metad = metad::start(config).await.unwrap();
    let client = Client::new(metad.rpc_addr().to_string(), host::user::current(), RAFT_PROTOCOL);
    let answer = client.call(TELL, &MemberMessage { bytes: Bytes::from_static(b"x") }).await;
    metad.shutdown().await;
    answer.map_err(|error| match error {
        CallError::Remote { message, .. } => message,
        other => panic!("{other}"),
    })
}

fn members(addrs: &[&str]) -> Vec<MemberAddr> {
    addrs.iter().zip(1..).map(|(addr, id)| MemberAddr { id, addr: (*addr).to_owned() }).collect()
}

#[tokio::test]
async fn messages_are_taken_from_the_addresses_of_members() {
    let elsewhere = ["192.0.2.1:8020", "192.0.2.2:8020"];
    let refused = check(|config| config.members = members(&elsewhere)).await.unwrap_err();
    assert!(refused.starts_with("127.0.0.1 is the address of no metadata server"), "{refused}");
    assert!(check(|config| config.members = members(&["192.0.2.1:8020", "127.0.0.1:8020"])).await.is_ok());
    assert!(check(|config| config.members = members(&["192.0.2.1:8020", "localhost:8020"])).await.is_ok());
    let also_from_here = |config: &mut Config| {
        config.members = members(&elsewhere);
        config.members_from = vec!["localhost".to_owned()];
    };
    assert!(check(also_from_here).await.is_ok());
}

#[tokio::test]
async fn one_that_is_to_join_cannot_know_who_adds_it() {
    assert!(check(|config| (config.id, config.join) = (4, true)).await.is_ok());
}

/// If it is told who its group is, it waits for that.
#[tokio::test]
async fn one_that_is_to_join_a_group_that_it_knows_takes_no_others() {
    let join = |from: &'static str| {
        move |config: &mut Config| (config.id, config.join, config.members_from) = (4, true, vec![from.to_owned()])
    };
    let refused = check(join("192.0.2.1")).await.unwrap_err();
    assert!(refused.starts_with("127.0.0.1 is the address of no metadata server"), "{refused}");
    assert!(check(join("localhost")).await.is_ok());
}

#[tokio::test]
async fn one_that_is_alone_takes_none() {
    let refused = check(|_| {}).await.unwrap_err();
    assert!(refused.contains("is alone"), "{refused}");
}

/// One that is listed alone looks at what comes from elsewhere, and does nothing that it is asked to.
#[tokio::test]
async fn one_that_is_listed_alone_answers_no_stranger() {
    let refused = check(|config| config.members = members(&["192.0.2.1:8020"])).await.unwrap_err();
    assert!(refused.contains("takes no messages of any"), "{refused}");
}

/// Three servers on one machine, known by a name, found a group; `more` wait to be added.
async fn group(dir: &Path, more: usize) -> (Vec<Metad>, Vec<String>) {
    group_with(dir, more, |_| {}).await
}

/// The same, each set up by `set`.
async fn group_with(dir: &Path, more: usize, set: impl Fn(&mut Config)) -> (Vec<Metad>, Vec<String>) {
    let (_held, ports) = held_ports(3 + more);
    let addrs: Vec<String> = ports.iter().map(|port| format!("localhost:{port}")).collect();
    let listed: Vec<&str> = addrs[..3].iter().map(String::as_str).collect();
    let mut servers = Vec::new();
    for (id, port) in (1..).zip(&ports) {
        let mut config = Config::new(dir.join(id.to_string()), ([127, 0, 0, 1], *port).into());
        config.id = id;
        if id > 3 {
            config.join = true
        } else {
            config.members = members(&listed)
        }
        set(&mut config);
        servers.push(metad::start(config).await.unwrap());
    }
    (servers, addrs)
}

/// One joins that knows none of the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_behind_names_takes_in_another() {
    let dir = tempfile::tempdir().unwrap();
    let (servers, addrs) = group(dir.path(), 1).await;
    add_fourth(&addrs).await;
    for server in servers {
        server.shutdown().await;
    }
}

fn administrators(addrs: &[String]) -> Vec<Client> {
    addrs.iter().map(|addr| Client::new(addr.clone(), host::user::current(), ADMIN_PROTOCOL)).collect()
}

async fn add_fourth(addrs: &[String]) {
    let clients = administrators(addrs);
    let joined = async {
        loop {
            for client in &clients[..3] {
                let request = AddMemberRequest { id: 4, addr: addrs[3].clone() };
                let added = client.call::<_, AddMemberResponse>(ADD_MEMBER, &request).await;
                if added.is_ok_and(|added| added.has_vote) {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), joined).await.expect("a leader takes it in");
}

/// A group that is founded, and takes in another server, by certificates. When that one is removed, it is no member any
/// more: its certificate counts for months, and makes no superuser of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_removed_shows_its_certificate_in_vain() {
    let dir = tempfile::tempdir().unwrap();
    let member = |id| equip(dir.path(), "ca", NodeName::Member(id));
    let certify = |config: &mut Config| config.security.node_certificates = Some(member(config.id));
    let (servers, addrs) = group_with(dir.path(), 1, certify).await;
    add_fourth(&addrs).await;
    let credentials = Arc::new(Credentials::open(&member(4)).unwrap());
    let shown = ClientOptions::default().with_node(Some(&credentials), Expected::AnyMember);
    let fourth: Vec<Client> = addrs[..3]
        .iter()
        .map(|addr| Client::with_options(addr.clone(), "x".into(), ADMIN_PROTOCOL, shown.clone()))
        .collect();
    let _: ListMembersResponse = ask_leader(&fourth, LIST_MEMBERS, &ListMembersRequest {}).await.unwrap();
    let remove = RemoveMemberRequest { id: 4 };
    let _: RemoveMemberResponse = ask_leader(&administrators(&addrs[..3]), REMOVE_MEMBER, &remove).await.unwrap();
    let listed: ListMembersResponse =
        ask_leader(&administrators(&addrs[..3]), LIST_MEMBERS, &ListMembersRequest {}).await.unwrap();
    let leader = listed.members.iter().find(|member| member.role() == MemberRole::Leader).expect("it leads");
    let leader = usize::try_from(leader.id - 1).unwrap();
    let refused = ask_leader::<_, ListMembersResponse>(&fourth[leader..=leader], LIST_MEMBERS, &ListMembersRequest {});
    let refused = refused.await.unwrap_err();
    assert!(refused.contains("metadata server 4, which is no member"), "{refused}");
    for server in servers {
        server.shutdown().await;
    }
}

/// One of the founders is removed, and stands in the configuration of the others as before: it is no member.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_removed_is_no_member_though_it_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let member = |id| equip(dir.path(), "ca", NodeName::Member(id));
    let certify = |config: &mut Config| config.security.node_certificates = Some(member(config.id));
    let (servers, addrs) = group_with(dir.path(), 1, certify).await;
    add_fourth(&addrs).await;
    let administrators = administrators(&addrs);
    let listed: ListMembersResponse = ask_leader(&administrators, LIST_MEMBERS, &ListMembersRequest {}).await.unwrap();
    let leader = listed.members.iter().find(|member| member.role() == MemberRole::Leader).expect("it leads").id;
    let removed = if leader == 3 { 2 } else { 3 };
    let _: RemoveMemberResponse =
        ask_leader(&administrators, REMOVE_MEMBER, &RemoveMemberRequest { id: removed }).await.unwrap();
    let credentials = Arc::new(Credentials::open(&member(removed)).unwrap());
    let shown = ClientOptions::default().with_node(Some(&credentials), Expected::AnyMember);
    let at = usize::try_from(leader - 1).unwrap();
    let its_calls = [Client::with_options(addrs[at].clone(), "x".into(), ADMIN_PROTOCOL, shown)];
    let refused = ask_leader::<_, ListMembersResponse>(&its_calls, LIST_MEMBERS, &ListMembersRequest {});
    let refused = refused.await.unwrap_err();
    assert!(refused.contains(&format!("metadata server {removed}, which is no member")), "{refused}");
    for server in servers {
        server.shutdown().await;
    }
}

/// Asks each server in turn until one answers that leads. Its refusal is an answer.
async fn ask_leader<Q: Message, A: Message + Default>(
    clients: &[Client],
    method: &str,
    request: &Q,
) -> Result<A, String> {
    let answered = async {
        loop {
            for client in clients {
                match client.call(method, request).await {
                    Ok(answer) => return Ok(answer),
                    Err(CallError::Remote { class, message, .. }) if class != STANDBY => {
                        return Err(format!("{class}: {message}"));
                    }
                    Err(_) => {}
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), answered).await.expect("a leader answers")
}

/// What no follower's port takes must not get into the log: no change behind it would be committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_that_are_too_long_are_refused_and_stop_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let (servers, addrs) = group(dir.path(), 0).await;
    let client = |addr: &String| Client::new(addr.clone(), host::user::current(), hdfs::protocol::CLIENT);
    let clients: Vec<Client> = addrs.iter().map(client).collect();
    let mkdirs = |src: &str| MkdirsRequestProto {
        src: src.into(),
        masked: FsPermissionProto { perm: 0o755 },
        create_parent: true,
        unmasked: None,
    };
    let made: MkdirsResponseProto = ask_leader(&clients, "mkdirs", &mkdirs("/before")).await.unwrap();
    assert!(made.result);
    let attribute = XAttrProto {
        namespace: x_attr_proto::XAttrNamespaceProto::User.into(),
        name: "x".into(),
        // As long as a request may be.
        value: Some(vec![b'x'; 4_194_100].into()),
    };
    let set = SetXAttrRequestProto { src: "/".into(), x_attr: Some(attribute), flag: Some(1) };
    let refused = ask_leader::<_, SetXAttrResponseProto>(&clients, "setXAttr", &set).await.unwrap_err();
    assert!(refused.starts_with(&format!("{HADOOP_ILLEGAL_ARGUMENT}: The XAttr is too big.")), "{refused}");
    let srcs = (0..9_999).map(|number| format!("/{number}{}", "x".repeat(250))).collect();
    let concat = ConcatRequestProto { trg: "/target".into(), srcs };
    let refused = ask_leader::<_, ConcatResponseProto>(&clients, "concat", &concat).await.unwrap_err();
    assert!(refused.starts_with(&format!("{ILLEGAL_ARGUMENT}: this change takes 25")), "{refused}");
    let made: MkdirsResponseProto = ask_leader(&clients, "mkdirs", &mkdirs("/behind")).await.unwrap();
    assert!(made.result);
    for server in servers {
        server.shutdown().await;
    }
}

/// Keys wait until all members know their form. Two of three lead, and tokens are not asked for so far: whoever asked
/// for them would stop all data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobodys_data_waits_for_a_member_that_is_down() {
    let dir = tempfile::tempdir().unwrap();
    let (_held, ports) = held_ports(3);
    let addrs: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let listed: Vec<&str> = addrs.iter().map(String::as_str).collect();
    let client = |addr: &String| Client::new(addr.clone(), host::user::current(), hdfs::protocol::CLIENT);
    let create = |src: &str| CreateRequestProto {
        src: src.into(),
        masked: FsPermissionProto { perm: 0o644 },
        client_name: "c".into(),
        create_flag: CreateFlagProto::Create as u32,
        create_parent: true,
        replication: 1,
        block_size: 1 << 20,
        ..CreateRequestProto::default()
    };
    let start = async |count: usize, block_tokens: bool| {
        let mut servers = Vec::new();
        for (id, port) in (1..).zip(&ports[..count]) {
            let mut config = Config::new(dir.path().join(id.to_string()), ([127, 0, 0, 1], *port).into());
            (config.id, config.members, config.block_tokens) = (id, members(&listed), block_tokens);
            servers.push(metad::start(config).await.unwrap());
        }
        servers
    };
    let founded = start(3, false).await;
    let all: Vec<Client> = addrs.iter().map(client).collect();
    let _: CreateResponseProto = ask_leader(&all, "create", &create("/before")).await.unwrap();
    for server in founded {
        server.shutdown().await;
    }
    let servers = start(2, true).await;
    let clients: Vec<Client> = addrs[..2].iter().map(client).collect();
    let path = "/f";
    let _: CreateResponseProto = ask_leader(&clients, "create", &create(path)).await.unwrap();
    let node = Datanode::new(1).await;
    let mut rules = None;
    for server in &servers {
        node.register(server.rpc_addr()).await;
        rules = rules.or(node.beat_with(server.rpc_addr(), 0).await.tokens);
    }
    assert!(!rules.expect("one of them leads").required);
    let add = AddBlockRequestProto { src: path.into(), client_name: "c".into(), ..AddBlockRequestProto::default() };
    let added: AddBlockResponseProto = ask_leader(&clients, "addBlock", &add).await.unwrap();
    assert!(wire::BlockScope::decode(&added.block.block_token.identifier).unwrap().is_some());
    for server in servers {
        server.shutdown().await;
    }
}

/// What another group would send to a member that has lost its data, as that group knows it: a heartbeat.
fn message_for_another_incarnation() -> Bytes {
    const VERSION: u8 = 5;
    const APPEND: u32 = 0;
    let (member, incarnation, sender, term) = (1_u64, 77_u64, 9_u64, 3_u64);
    let (none, entry_count) = (None::<(u64, u64)>, 0_u32);
    let fields = encode(&((term, sender, true), none, (none, entry_count)), Vec::new());
    encode(&encode(&((member, incarnation, sender), (APPEND, fields)), Vec::new()), vec![VERSION]).into()
}

/// Anybody can say that this server has lost its data. It believes that while it holds nothing that could be lost by a
/// lie, for it may have founded a second store in the place of its group's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strangers_word_ends_a_server_that_is_listed_alone_only_while_it_holds_no_files() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::new(dir.path().join("meta"), "127.0.0.1:0".parse().unwrap());
    config.members = members(&["192.0.2.1:8020"]);
    let tell = async |metad: &Metad| {
        let client = Client::new(metad.rpc_addr().to_string(), host::user::current(), RAFT_PROTOCOL);
        let message = MemberMessage { bytes: message_for_another_incarnation() };
        client.call::<_, MemberMessage>(TELL, &message).await.unwrap_err();
    };
    let metad = metad::start(config.clone()).await.unwrap();
    let client = [Client::new(metad.rpc_addr().to_string(), host::user::current(), hdfs::protocol::CLIENT)];
    let mkdirs = |src: &str| MkdirsRequestProto {
        src: src.into(),
        masked: FsPermissionProto { perm: 0o755 },
        create_parent: true,
        unmasked: None,
    };
    let delete = |src: &str| DeleteRequestProto { src: src.into(), recursive: true };
    let _: MkdirsResponseProto = ask_leader(&client, "mkdirs", &mkdirs("/kept")).await.unwrap();
    for _ in 0..3 {
        tell(&metad).await;
    }
    let gone: DeleteResponseProto = ask_leader(&client, "delete", &delete("/kept")).await.unwrap();
    assert!(gone.result, "it goes on");
    tell(&metad).await;
    let failed = tokio::time::timeout(Duration::from_secs(20), metad.failed()).await;
    let reason = failed.expect("it ends").reason;
    assert!(reason.contains("its own data was lost") || reason.contains("Its own data was lost"), "{reason}");
    metad.shutdown().await;
}
