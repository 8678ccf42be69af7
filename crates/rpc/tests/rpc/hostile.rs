//! Bytes as they are, from clients that speak strangely, wrongly, or not at all.

use crate::support::{
    A_WHILE, Raw, SOON, call, context, context_for, frame, header, ping, sasl, server, server_with, what,
};
use hdfs::call_id;
use hdfs::opening::{Auth, Opening};
use hdfs::proto::{
    GetBatchedListingRequestProto, RpcErrorCodeProto, RpcRequestHeaderProto, RpcSaslProto, RpcStatusProto, SaslState,
};
use prost::Message;
use rpc::ServerOptions;
use std::sync::atomic::Ordering;
use tokio::time::timeout;

/// Sends `bytes` behind a preamble, and expects one FATAL answer of this code, then the end.
async fn check_fatal(auth: Auth, bytes: &[u8], code: RpcErrorCodeProto, says: &str) {
    let (server, _service) = server().await;
    let mut raw = Raw::opened(&server, auth).await;
    raw.send(bytes).await;
    let mut answer = raw.answer().await.expect("an answer");
    while answer.header.status() == RpcStatusProto::Success {
        answer = raw.answer().await.expect("a FATAL answer");
    }
    assert_eq!((answer.header.status(), answer.header.error_detail()), (RpcStatusProto::Fatal, code));
    assert!(answer.header.error_msg().contains(says), "{}", answer.header.error_msg());
    assert_eq!(raw.answer().await, None);
}

const HEADER: RpcErrorCodeProto = RpcErrorCodeProto::FatalInvalidRpcHeader;
const UNREADABLE: RpcErrorCodeProto = RpcErrorCodeProto::FatalDeserializingRequest;
const UNAUTHORIZED: RpcErrorCodeProto = RpcErrorCodeProto::FatalUnauthorized;

/// As stock clients do: preamble, context and calls in one segment, nothing read in between.
#[tokio::test]
async fn everything_may_come_at_once() {
    let (server, _service) = server().await;
    let mut raw = Raw::connect(&server).await;
    let all =
        [&Opening::encode(Auth::Simple)[..], &context("bob"), &call(0, "who", ""), &call(1, "echo", "x")].concat();
    raw.send(&all).await;
    let mut answers = [raw.response().await, raw.response().await];
    answers.sort();
    assert_eq!(answers, ["bob by itself", "x"]);
}

#[tokio::test]
async fn bytes_may_come_one_by_one() {
    let (server, _service) = server().await;
    let mut raw = Raw::connect(&server).await;
    raw.socket.set_nodelay(true).unwrap();
    let all = [&Opening::encode(Auth::Simple)[..], &context("bob"), &ping(), &call(7, "echo", "x")].concat();
    for byte in all {
        raw.send(&[byte]).await;
        tokio::task::yield_now().await;
    }
    let answer = raw.answer().await.unwrap();
    assert_eq!(answer.call_id(), 7);
    assert_eq!(answer.header.client_id(), b"0123456789abcdef");
    assert_eq!(answer.header.server_ipc_version_num(), 9);
}

/// Spark's tasks, and readers of open files: SASL although there is no security.
#[tokio::test]
async fn sasl_is_told_to_go_on_without() {
    let (server, _service) = server().await;
    let mut raw = Raw::opened(&server, Auth::Sasl).await;
    raw.send(&sasl(SaslState::Negotiate, None)).await;
    let answer = raw.answer().await.unwrap();
    assert_eq!(answer.call_id(), call_id::SASL);
    let message = RpcSaslProto::decode(answer.response).unwrap();
    assert_eq!((message.state(), message.token, message.auths.len()), (SaslState::Success, None, 0));
    raw.send(&context("blk_1073741835_1013")).await;
    raw.send(&call(0, "who", "")).await;
    assert_eq!(raw.response().await, "blk_1073741835_1013 by itself");
}

#[tokio::test]
async fn simple_may_be_chosen_unasked_and_nobody_named() {
    let (server, _service) = server().await;
    let mut raw = Raw::opened(&server, Auth::Sasl).await;
    raw.send(&sasl(SaslState::Initiate, Some("SIMPLE"))).await;
    raw.hears_nothing().await;
    raw.send(&frame(&[&header(call_id::CONTEXT), &()])).await;
    raw.send(&call(0, "who", "")).await;
    assert_eq!(raw.response().await, "anonymous by itself");
}

#[tokio::test]
async fn a_ping_is_never_answered() {
    let (server, _service) = server().await;
    let mut raw = Raw::known(&server).await;
    raw.send(&[ping(), ping()].concat()).await;
    raw.hears_nothing().await;
    raw.send(&call(0, "echo", "x")).await;
    assert_eq!(raw.response().await, "x");
}

#[tokio::test]
async fn who_breaks_the_rules_is_told_and_cut_off() {
    let known = |more: &[u8]| [&context("a")[..], more].concat();
    let mut other = header(1);
    check_fatal(Auth::Simple, &call(0, "echo", ""), HEADER, "context not established").await;
    check_fatal(Auth::Simple, &known(&context("b")), HEADER, "already processed").await;
    check_fatal(Auth::Simple, &known(&frame(&[&header(-7)])), HEADER, "out of band call #-7").await;
    check_fatal(Auth::Simple, &sasl(SaslState::Negotiate, None), HEADER, "not requested").await;
    check_fatal(Auth::Sasl, &context("a"), HEADER, "during SASL").await;
    for (kind, op, says) in
        [(None, Some(0), "kind"), (Some(2), None, "op"), (Some(1), Some(0), "kind"), (Some(2), Some(2), "operation")]
    {
        (other.rpc_kind, other.rpc_op) = (kind, op);
        check_fatal(Auth::Simple, &known(&frame(&[&other, &what("echo"), &()])), HEADER, says).await;
    }
    check_fatal(Auth::Sasl, &sasl(SaslState::Initiate, Some("KERBEROS")), UNAUTHORIZED, "KERBEROS").await;
    check_fatal(Auth::Sasl, &sasl(SaslState::Response, None), UNAUTHORIZED, "RESPONSE").await;
    let twice = [sasl(SaslState::Negotiate, None), sasl(SaslState::Negotiate, None)].concat();
    check_fatal(Auth::Sasl, &twice, UNAUTHORIZED, "NEGOTIATE").await;
}

/// Whatever comes, the server goes on serving others.
#[test]
fn no_bytes_take_the_server_down() {
    use proptest::prelude::*;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (server, _service) = runtime.block_on(server());
    let byte = prop_oneof![any::<u8>(), 0u8..16];
    let pieces = proptest::collection::vec(
        prop_oneof![
            proptest::collection::vec(byte, 0..40).prop_map(bytes::Bytes::from),
            any::<i32>().prop_map(|id| call(id, "echo", "x")),
            Just(context("a")),
            Just(ping()),
            Just(call(3, "panic", "x")),
            Just(sasl(SaslState::Negotiate, None)),
        ],
        0..6,
    );
    let openings = vec![Opening::encode(Auth::Simple).to_vec(), Opening::encode(Auth::Sasl).to_vec(), vec![]];
    let opening = proptest::sample::select(openings);
    proptest!(ProptestConfig::with_cases(100), |(pieces in pieces, opening in opening)| {
        runtime.block_on(async {
            let mut stranger = Raw::connect(&server).await;
            // It may be cut off in mid-sentence.
            let _ = stranger.try_send(&[opening, pieces.concat()].concat()).await;
            let mut other = Raw::known(&server).await;
            other.send(&call(0, "echo", "x")).await;
            assert_eq!(other.response().await, "x");
        });
    });
}

#[tokio::test]
async fn who_sends_nonsense_is_told_and_cut_off() {
    let known = |more: &[u8]| [&context("a")[..], more].concat();
    for len in [0, -1, i32::MIN, i32::MAX, ServerOptions::default().frame_len_max as i32 + 1] {
        check_fatal(Auth::Simple, &len.to_be_bytes(), UNREADABLE, "a frame of").await;
        check_fatal(Auth::Simple, &known(&len.to_be_bytes()), UNREADABLE, "a frame of").await;
    }
    check_fatal(Auth::Simple, &[0, 0, 0, 3, 2, 0xff, 0xff], UNREADABLE, "request header").await;
    check_fatal(Auth::Simple, &[0, 0, 0, 1, 9], UNREADABLE, "request header").await;
    check_fatal(Auth::Simple, &known(&frame(&[&header(0)])), UNREADABLE, "call header").await;
    check_fatal(Auth::Simple, &known(&frame(&[&header(0), &what("echo")])), UNREADABLE, "request").await;
    check_fatal(Auth::Simple, &frame(&[&header(call_id::CONTEXT)]), UNREADABLE, "context").await;
}

/// A call whose own message is nonsense fails alone.
#[tokio::test]
async fn a_bad_request_costs_one_call() {
    let (server, _service) = server().await;
    let mut raw = Raw::known(&server).await;
    raw.send(&frame(&[&header(0), &what("echo"), &vec![0xff_u8, 0xff]])).await;
    let answer = raw.answer().await.unwrap();
    assert_eq!(answer.header.status(), RpcStatusProto::Error);
    assert_eq!(answer.header.exception_class_name(), "org.apache.hadoop.ipc.RpcServerException");
    raw.send(&call(1, "echo", "x")).await;
    assert_eq!(raw.response().await, "x");
}

#[tokio::test]
async fn other_languages_get_an_answer_of_theirs() {
    let (server, _service) = server().await;
    let mut browser = Raw::connect(&server).await;
    browser.send(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").await;
    let text = String::from_utf8(browser.rest().await).unwrap();
    assert!(text.starts_with("HTTP/1.1 404 Not Found\r\n"), "{text}");

    let mut old = Raw::connect(&server).await;
    old.send(b"hrpc\x04\x50rest of an old preamble").await;
    let bytes = old.rest().await;
    assert_eq!(bytes[..8], [0xff; 8]);
    assert!(bytes.ends_with(b"cannot communicate with client version 4"));

    let mut young = Raw::connect(&server).await;
    young.send(b"hrpc\x0a\x00\x00").await;
    let answer = young.answer().await.unwrap();
    assert_eq!(answer.call_id(), call_id::REFUSED);
    assert_eq!(answer.header.error_detail(), RpcErrorCodeProto::FatalVersionMismatch);
    assert_eq!(answer.header.exception_class_name(), "org.apache.hadoop.ipc.RPC$VersionMismatch");
    assert_eq!(young.answer().await, None);

    for stranger in [&b"\x16\x03\x01\x02\x00"[..], b"SSH-2.0", b"hrpc\x09\x00\x50"] {
        let mut raw = Raw::connect(&server).await;
        raw.send(stranger).await;
        assert_eq!(raw.rest().await, b"");
    }
}

/// A client that only connects, and one that begins a frame, make room after a time.
#[tokio::test]
async fn who_dawdles_is_cut_off() {
    let (server, _service) = server_with(ServerOptions { opening_time_max: A_WHILE, ..ServerOptions::default() }).await;
    assert_eq!(Raw::connect(&server).await.rest().await, b"");
    assert_eq!(Raw::opened(&server, Auth::Simple).await.rest().await, b"");
    let (server, _service) = server_with(ServerOptions { frame_time_max: A_WHILE, ..ServerOptions::default() }).await;
    let mut slow = Raw::known(&server).await;
    slow.send(&call(0, "echo", "x")[..9]).await;
    assert_eq!(slow.rest().await, b"");
}

#[tokio::test]
async fn the_silent_go_when_there_are_too_many() {
    let few = ServerOptions { idle_time_max: A_WHILE, idle_connections_max: 1, ..ServerOptions::default() };
    let (server, service) = server_with(few).await;
    let mut first = Raw::known(&server).await;
    first.send(&call(0, "echo", "x")).await;
    assert_eq!(first.response().await, "x");
    timeout(3 * A_WHILE, first.rest()).await.expect_err("alone it may stay");
    let mut busy = Raw::known(&server).await;
    busy.send(&call(0, "wait", "y")).await;
    assert_eq!(first.rest().await, b"", "the idle one goes");
    busy.hears_nothing().await;
    service.gate.add_permits(1);
    assert_eq!(busy.response().await, "y", "the one that waits stays");
}

#[tokio::test]
async fn who_waits_for_an_answer_keeps_the_last_place() {
    let (server, service) = server_with(ServerOptions { connections_max: 1, ..ServerOptions::default() }).await;
    let mut first = Raw::known(&server).await;
    first.send(&call(0, "wait", "x")).await;
    service.started(1).await;
    assert_eq!(Raw::connect(&server).await.rest().await, b"");
    service.gate.add_permits(1);
    assert_eq!(first.response().await, "x");
}

#[tokio::test]
async fn a_crowd_that_says_nothing_keeps_nobody_out() {
    let (server, _service) = server_with(ServerOptions { connections_max: 8, ..ServerOptions::default() }).await;
    let mut crowd = Vec::new();
    for _ in 0..30 {
        for _ in 0..4 {
            crowd.extend([Raw::connect(&server).await, Raw::opened(&server, Auth::Simple).await]);
        }
        let mut client = Raw::known(&server).await;
        client.send(&call(0, "echo", "x")).await;
        assert_eq!(client.response().await, "x");
    }
    assert_eq!(crowd[0].rest().await, b"");
}

/// One client asks for 80 MB and takes none of it, and holds all memory there is. It is cut off, and the other goes on.
#[tokio::test]
async fn who_takes_no_answers_is_cut_off() {
    let options = ServerOptions {
        answer_time_max: A_WHILE,
        len_per_second_min: 100_000_000,
        held_len_max: 8 << 20,
        ..ServerOptions::default()
    };
    let (server, _service) = server_with(options).await;
    let mut greedy = Raw::known(&server).await;
    for id in 0..2 {
        greedy.send(&call(id, "long", "40000000")).await;
    }
    let mut modest = Raw::known(&server).await;
    for id in 0..5 {
        modest.send(&call(id, "echo", "x")).await;
        assert_eq!(modest.response().await, "x");
    }
    tokio::time::sleep(20 * A_WHILE).await;
    assert!(greedy.rest().await.len() < 80_000_000);
}

/// A crowd asks for far more than there is memory, and takes nothing. Who asks for little meanwhile is served soon,
/// each time.
#[tokio::test]
async fn who_takes_no_answers_holds_nobody_up() {
    let options = ServerOptions { held_len_max: 64 << 20, stall_time_max: A_WHILE, ..ServerOptions::default() };
    let (server, service) = server_with(options).await;
    let mut crowd = Vec::new();
    for _ in 0..100 {
        let mut raw = Raw::known(&server).await;
        for id in 0..50 {
            raw.send(&call(id, "long", "3000000")).await;
        }
        crowd.push(raw);
    }
    let mut modest = Raw::known(&server).await;
    for id in 0..20 {
        modest.send(&call(id, "echo", "x")).await;
        assert_eq!(timeout(SOON, modest.response()).await.expect("an answer soon"), "x");
        tokio::time::sleep(A_WHILE / 4).await;
    }
    let made = service.started_count.load(std::sync::atomic::Ordering::SeqCst);
    assert!(made < 1000, "{made} answers were made that nobody takes");
}

/// Half of the connection is closed; what was asked is answered still.
#[tokio::test]
async fn a_client_may_close_its_half() {
    use tokio::io::AsyncWriteExt;
    let (server, service) = server().await;
    let mut raw = Raw::known(&server).await;
    raw.send(&call(0, "wait", "x")).await;
    raw.socket.shutdown().await.unwrap();
    raw.hears_nothing().await;
    service.gate.add_permits(1);
    assert_eq!(raw.response().await, "x");
    assert_eq!(raw.answer().await, None);
}

/// Two bytes of it are an empty message in a list, which takes hundreds when it is decoded: that is refused before, and
/// others are served.
#[tokio::test]
async fn a_list_that_would_take_all_memory_is_refused() {
    let (server, _service) = server_with(ServerOptions { held_len_max: 2_000_000, ..ServerOptions::default() }).await;
    let mut raw = Raw::known(&server).await;
    let list = GetBatchedListingRequestProto { paths: vec![String::new(); 10_000], ..Default::default() };
    raw.send(&frame(&[&header(1), &what("echo"), &list])).await;
    let answer = raw.answer().await.expect("an answer before the end");
    assert_eq!((answer.header.status(), answer.header.error_detail()), (RpcStatusProto::Fatal, UNREADABLE));
    assert!(answer.header.error_msg().contains("more memory than there is for one"), "{}", answer.header.error_msg());
    assert_eq!(raw.answer().await, None);
    let mut raw = Raw::known(&server).await;
    raw.send(&call(1, "echo", "x")).await;
    assert_eq!(raw.response().await, "x");
}

/// Calls that wait hold what their requests take when they are decoded, also if these are short: others are not read
/// meanwhile.
#[tokio::test]
async fn what_short_requests_grow_to_is_counted() {
    const HELD_LEN_MAX: usize = 4 << 20;
    // A sixteenth is for short requests as they come, and as much may be held uncounted.
    let fit_count = |grown: usize| 2 * (HELD_LEN_MAX / 16 / grown + 1);
    for message_count in [100, 150] {
        let (server, service) =
            server_with(ServerOptions { held_len_max: HELD_LEN_MAX, ..ServerOptions::default() }).await;
        let list = GetBatchedListingRequestProto { paths: vec![String::new(); message_count], ..Default::default() };
        let mut crowd = Vec::new();
        for id in 0..40 {
            let mut raw = Raw::known(&server).await;
            raw.send(&frame(&[&header(id), &what("wait"), &list])).await;
            crowd.push(raw);
        }
        tokio::time::sleep(10 * A_WHILE).await;
        let started = service.started_count.load(Ordering::SeqCst);
        let max = fit_count(message_count * hdfs::fields::FIELD_LEN);
        assert!((1..=max).contains(&started), "{started} of {message_count} messages each, not {max}");
        service.gate.add_permits(crowd.len());
        for raw in &mut crowd {
            assert_eq!(raw.response().await, "", "each is answered in the end");
        }
    }
}

/// What looks like such a list within another message may be a text, as here. One is let in at a time; others are
/// served meanwhile.
#[tokio::test]
async fn a_list_that_lies_deeper_waits_for_all_the_memory() {
    let (server, service) = server_with(ServerOptions { held_len_max: 2_000_000, ..ServerOptions::default() }).await;
    let list = "x".repeat(10_000);
    let (mut first, mut second) = (Raw::known(&server).await, Raw::known(&server).await);
    first.send(&call(0, "wait", &list)).await;
    first.hears_nothing().await;
    second.send(&call(1, "echo", &list)).await;
    second.hears_nothing().await;
    let mut other = Raw::known(&server).await;
    other.send(&call(2, "echo", "y")).await;
    assert_eq!(other.response().await, "y");
    service.gate.add_permits(1);
    assert_eq!([first.response().await, second.response().await], [list.clone(), list]);
}

/// Some connections promise long requests and send nothing of them: others are served as if they were not there.
#[tokio::test]
async fn who_only_promises_long_requests_holds_nobody_up() {
    let (server, _service) = server_with(ServerOptions { held_len_max: 256 << 20, ..ServerOptions::default() }).await;
    let mut greedy = Vec::new();
    for _ in 0..16 {
        let mut raw = Raw::known(&server).await;
        raw.send(&(4u32 << 20).to_be_bytes()).await;
        raw.hears_nothing().await;
        greedy.push(raw);
    }
    let mut raw = Raw::known(&server).await;
    raw.send(&call(1, "echo", "x")).await;
    assert_eq!(timeout(SOON, raw.response()).await.expect("an answer soon"), "x");
    raw.send(&call(2, "echo", &"x".repeat(1 << 20))).await;
    assert_eq!(timeout(SOON, raw.response()).await.expect("an answer soon").len(), 1 << 20);
}

/// A call whose frame has this length.
fn call_of(whole_len: usize, id: i32, method: &str) -> bytes::Bytes {
    let text_len = whole_len - 200;
    let more = whole_len - call(id, method, &"x".repeat(text_len)).len();
    let bytes = call(id, method, &"x".repeat(text_len + more));
    assert_eq!(bytes.len(), whole_len);
    bytes
}

/// Sends what the server takes of a long request within a while.
async fn begin_to_send(raw: &mut Raw, bytes: &[u8]) {
    let _ = timeout(10 * A_WHILE, raw.try_send(bytes)).await;
}

/// One that takes no answers has a long request, and fifteen others have one each: that is all the memory for requests.
#[tokio::test]
async fn who_takes_no_answers_holds_no_room_for_requests() {
    let (server, service) = server().await;
    let mut holder = Raw::known(&server).await;
    holder.send(&call(0, "long", "20000000")).await;
    service.started(1).await;
    tokio::time::sleep(10 * A_WHILE).await;
    let long = call_of(4 << 20, 1, "nothing");
    begin_to_send(&mut holder, &long).await;
    let mut crowd = Vec::new();
    for _ in 0..15 {
        let mut raw = Raw::known(&server).await;
        timeout(SOON, raw.send(&long)).await.expect("there is room");
        crowd.push(raw);
    }
    for raw in &mut crowd {
        raw.answer().await.expect("an answer");
    }
    assert_eq!(service.started_count.load(Ordering::SeqCst), 16, "what the first one sent waits for its answers");
}

/// Long requests that are being answered take all the memory for such; others of their kind wait for a while, and short
/// ones do not.
#[tokio::test]
async fn short_requests_do_not_wait_for_long_ones() {
    let (server, service) =
        server_with(ServerOptions { decoded_wait_max: 100 * A_WHILE, ..ServerOptions::default() }).await;
    let long = call_of(4 << 20, 1, "wait");
    let mut first = Raw::known(&server).await;
    first.send(&long).await;
    service.started(1).await;
    let mut crowd = Vec::new();
    for _ in 0..16 {
        let mut raw = Raw::known(&server).await;
        begin_to_send(&mut raw, &long).await;
        crowd.push(raw);
    }
    let mut modest = Raw::known(&server).await;
    modest.send(&call(1, "echo", "x")).await;
    let answered = timeout(40 * A_WHILE, modest.response()).await;
    assert_eq!(answered.expect("an answer before any of the others gives up"), "x");
    let refused = crowd[0].answer().await.expect("an answer");
    assert_eq!(refused.header.status(), RpcStatusProto::Fatal);
    assert!(refused.header.error_msg().contains("no memory for this long request"), "{}", refused.header.error_msg());
    assert_eq!(crowd[0].answer().await, None);
    service.gate.add_permits(1);
    assert_eq!(first.answer().await.expect("an answer").call_id(), 1);
}

/// What a connection says of itself is kept as long as it lives, and goes with each of its calls.
#[tokio::test]
async fn names_and_headers_have_a_limit() {
    check_fatal(Auth::Simple, &context(&"n".repeat(256)), UNAUTHORIZED, "256 bytes: give one of 1 to 255").await;
    check_fatal(Auth::Simple, &context_for("a", &"p".repeat(4 << 10)), UNREADABLE, "4096 are allowed").await;
    let known = |more: &[u8]| [&context("a")[..], more].concat();
    let long = RpcRequestHeaderProto { client_id: vec![0; 4 << 10].into(), ..header(1) };
    check_fatal(Auth::Simple, &known(&frame(&[&long, &what("echo"), &()])), UNREADABLE, "request header").await;
    check_fatal(Auth::Simple, &known(&call(1, &"m".repeat(4 << 10), "x")), UNREADABLE, "call header").await;
    let (server, _service) = server().await;
    let mut raw = Raw::opened(&server, Auth::Simple).await;
    raw.send(&context(&"n".repeat(255))).await;
    raw.send(&call(0, "who", "")).await;
    assert_eq!(raw.response().await.len(), 255 + " by itself".len());
}

/// What an operator sees of it.
#[tokio::test]
async fn what_holds_memory_is_told() {
    let (server, _service) = server_with(ServerOptions::default()).await;
    let reader = server.usage();
    let now = |of: &str| reader.read().iter().find(|usage| usage.of == of).expect("it is told").now;
    assert!(reader.read().iter().all(|usage| usage.now == 0 && usage.max > 0), "{reader:?}");
    let mut raw = Raw::known(&server).await;
    begin_to_send(&mut raw, &call_of(1 << 20, 1, "echo")[..200_000]).await;
    let told = async {
        while now("long_requests") < 100_000 {
            tokio::time::sleep(A_WHILE / 10).await;
        }
    };
    timeout(SOON, told).await.expect("it is counted as it comes");
    assert_eq!(now("connections"), 1);
    server.shutdown().await;
    assert!(reader.read().is_empty());
}
