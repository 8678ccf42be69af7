//! The lane of the servers of a group: who may use it, and what those can do to it who only say that they do.

use crate::support::{
    PROTOCOL, Raw, SOON, URGENT, call, context_for, frame, header, server_with, urgent_call, what_for,
};
use hdfs::opening::{Auth, Opening};
use hdfs::proto::{GetBatchedListingRequestProto, RpcErrorCodeProto, RpcStatusProto};
use rpc::ServerOptions;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;
use tokio::time::timeout;

fn options() -> ServerOptions {
    ServerOptions { urgent_protocol: Some(URGENT), ..ServerOptions::default() }
}

/// `count` connections promise requests of 4 MiB and send `sent_len` bytes of them. Meanwhile a member is served, with
/// short and long requests.
async fn check_silent(count: usize, sent_len: usize) {
    let (server, _service) = server_with(options()).await;
    let mut silent = Vec::new();
    for _ in 0..count {
        let mut raw = Raw::known_for(&server, URGENT).await;
        raw.send(&(4u32 << 20).to_be_bytes()).await;
        let bytes = vec![0; sent_len];
        // Without an end: the server reads no more than it has room for.
        silent.push(::io::task::spawn_owned("silent", async move {
            let _ = raw.socket.write_all(&bytes).await;
            std::future::pending::<()>().await;
        }));
    }
    tokio::time::sleep(crate::support::A_WHILE).await;
    let mut member = Raw::known_for(&server, URGENT).await;
    for (id, len) in [(1, 100), (2, 1 << 20), (3, 100)] {
        member.send(&urgent_call(id, "echo", &"x".repeat(len))).await;
        assert_eq!(timeout(SOON, member.response()).await.expect("an answer soon").len(), len);
    }
}

#[tokio::test]
async fn four_silent_connections_hold_no_member_up() {
    check_silent(4, 0).await;
}

#[tokio::test]
async fn forty_silent_connections_hold_no_member_up() {
    check_silent(40, 0).await;
}

/// All memory of the lane is held by requests that do not go on: they are cut off within seconds.
#[tokio::test]
async fn connections_that_stop_in_the_middle_are_cut_off() {
    check_silent(12, 3 << 20).await;
}

/// Requests that have each a part of what they need, and together all there is, do not wait for each other.
#[tokio::test]
async fn long_requests_at_the_same_time_all_come() {
    let (server, _service) = server_with(ServerOptions { urgent_len_max: 1 << 20, ..options() }).await;
    let long = "x".repeat(900_000);
    let mut members = Vec::new();
    for id in 0..6 {
        let mut raw = Raw::known_for(&server, URGENT).await;
        let request = urgent_call(id, "echo", &long);
        members.push(::io::task::spawn("member", async move {
            raw.send(&request).await;
            raw.response().await.len()
        }));
    }
    for member in members {
        assert_eq!(timeout(SOON, member).await.expect("an answer soon").unwrap(), long.len());
    }
}

async fn check_refused(mut raw: Raw, code: RpcErrorCodeProto, says: &str) {
    let answer = raw.answer().await.expect("an answer before the end");
    assert_eq!((answer.header.status(), answer.header.error_detail()), (RpcStatusProto::Fatal, code));
    assert!(answer.header.error_msg().contains(says), "{}", answer.header.error_msg());
    assert_eq!(raw.answer().await, None);
}

/// Two million empty entries, which would take hundreds of megabytes when they are decoded.
#[tokio::test]
async fn long_lists_are_refused_there_too() {
    let (server, _service) = server_with(options()).await;
    let list = GetBatchedListingRequestProto { paths: vec![String::new(); 2_000_000], ..Default::default() };
    let mut raw = Raw::known_for(&server, URGENT).await;
    raw.send(&frame(&[&header(1), &what_for(URGENT, "echo"), &list])).await;
    check_refused(raw, RpcErrorCodeProto::FatalDeserializingRequest, "more memory than there is for one").await;
}

#[tokio::test]
async fn each_lane_answers_its_own_protocol() {
    let (server, _service) = server_with(options()).await;
    let mut urgent = Raw::known_for(&server, URGENT).await;
    urgent.send(&call(1, "echo", "x")).await;
    check_refused(urgent, RpcErrorCodeProto::FatalUnauthorized, PROTOCOL).await;
    let mut usual = Raw::known(&server).await;
    usual.send(&urgent_call(1, "echo", "x")).await;
    check_refused(usual, RpcErrorCodeProto::FatalUnauthorized, URGENT).await;
}

/// Before it is refused it gets no memory, and its request is not looked at.
#[tokio::test]
async fn a_stranger_is_refused() {
    let (server, service) = server_with(options()).await;
    let stranger = std::net::Ipv4Addr::new(127, 0, 0, 2);
    service.strangers.lock().unwrap().push(stranger.into());
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((stranger, 0).into()).unwrap();
    let socket = socket.connect(server.local_addr()).await.unwrap();
    let mut raw = Raw { socket, buffer: Default::default() };
    raw.send(&Opening::encode(Auth::Simple)).await;
    raw.send(&context_for("alice", URGENT)).await;
    raw.send(&(4u32 << 20).to_be_bytes()).await;
    check_refused(raw, RpcErrorCodeProto::FatalUnauthorized, "127.0.0.2 is a stranger").await;
    let mut member = Raw::known_for(&server, URGENT).await;
    member.send(&urgent_call(1, "echo", "x")).await;
    assert_eq!(member.response().await, "x");
}
