//! Setting up: whom a refusal blames, how long the answer may take, and that acks behind it are not lost.

use super::{PATIENCE, ack, answer, millis, opening, packet};
use hdfs::proto::BlockOpResponseProto;
use std::time::Duration;
use wire::{Op, OpHeader, Routing, Status};
use xfer::fault::Fault;
use xfer::writer::{Opening, SetUp};

fn says(status: Status, first_bad_link: &str) -> Vec<u8> {
    let message = Some("no room".into()).filter(|_| !first_bad_link.is_empty());
    let first_bad_link = Some(first_bad_link.into());
    answer(&BlockOpResponseProto {
        status: status.0.into(),
        first_bad_link,
        message,
        ..BlockOpResponseProto::default()
    })
}

/// One whose request is sent.
fn asked(opening: &Opening) -> SetUp {
    let mut set_up = SetUp::new(Duration::ZERO, opening, PATIENCE);
    assert!(set_up.unsent().is_empty());
    set_up.on_connected(Duration::ZERO);
    assert_eq!(set_up.unsent()[..3], OpHeader { op: Op::WriteBlock }.encode());
    set_up.on_sent(Duration::ZERO, 3);
    set_up.on_sent(Duration::ZERO, set_up.unsent().len());
    set_up
}

fn ours(node_count: usize) -> Opening {
    opening(node_count, Some(Routing::chain(node_count)), true)
}

fn fault(set_up: SetUp) -> (usize, String) {
    let broken = set_up.into_stream(Duration::ZERO).expect_err("no stream");
    assert_eq!(broken.nodes.len(), 1);
    (broken.nodes[0].0, broken.nodes[0].1.to_string())
}

#[test]
fn a_refusal_blames_whom_it_names() {
    for (named, blamed) in [("a", 0), ("b", 1), ("c", 2), ("z", 0)] {
        let mut set_up = asked(&ours(3));
        set_up.handle_bytes(Duration::ZERO, &says(Status::ERROR, named));
        assert_eq!(fault(set_up), (blamed, "it answered: no room".into()));
    }
    let mut set_up = asked(&ours(3));
    set_up.handle_bytes(Duration::ZERO, &says(Status::ERROR_ACCESS_TOKEN, ""));
    assert_eq!(fault(set_up), (0, "it answered: the block's token is not valid".into()));
}

#[test]
fn answers_and_the_acks_behind_them_may_come_in_any_pieces() {
    let mut bytes = says(Status::IN_PROGRESS, "").repeat(3);
    bytes.extend(says(Status::SUCCESS, ""));
    let len = bytes.len();
    bytes.extend(ack(-1, "++-"));
    for cut in 0..bytes.len() {
        let mut set_up = asked(&ours(3));
        set_up.handle_bytes(Duration::ZERO, &bytes[..cut]);
        assert_eq!(set_up.is_over(), cut >= len);
        set_up.handle_bytes(Duration::ZERO, &bytes[cut..]);
        let mut stream = set_up.into_stream(Duration::ZERO).expect("a stream");
        assert!(stream.is_broken(), "the node that was named behind the answer");
        assert_eq!(stream.take_rest().broken.nodes[0].0, 2);
    }
}

/// A server may give a token of any length.
#[test]
fn a_request_that_no_node_takes_is_a_fault() {
    let mut opening = ours(2);
    opening.request.header.client_name = "x".repeat(1 << 20);
    let set_up = SetUp::new(Duration::ZERO, &opening, PATIENCE);
    assert!(set_up.is_over() && fault(set_up).1.ends_with("which no server takes"));
}

#[test]
fn each_part_has_its_time() {
    let until = |set_up: &SetUp| set_up.poll_timeout().unwrap();
    // Where others can take its place, a node of ours has two seconds for each step.
    let mut set_up = SetUp::new(Duration::ZERO, &ours(3), PATIENCE);
    assert_eq!(until(&set_up), millis(2000));
    set_up.on_connected(millis(1500));
    assert_eq!(until(&set_up), millis(3500));
    set_up.on_sent(millis(1600), set_up.unsent().len());
    for second in 2..76 {
        set_up.handle_timeout(millis(second * 1000));
        set_up.handle_bytes(millis(second * 1000), &says(Status::IN_PROGRESS, ""));
        assert_eq!(until(&set_up), millis(second * 1000 + 2000).min(millis(76_600)), "all of it has a limit");
    }
    set_up.handle_timeout(millis(76_600));
    assert_eq!(fault(set_up), (0, "no answer in time".into()));
    for opening in [opening(3, None, true), opening(3, Some(Routing::chain(3)), false)] {
        let mut set_up = SetUp::new(Duration::ZERO, &opening, PATIENCE);
        assert_eq!(until(&set_up), millis(10_000));
        set_up.on_connected(millis(1000));
        assert_eq!(until(&set_up), millis(76_000));
    }
    let mut set_up = SetUp::new(Duration::ZERO, &ours(3), PATIENCE);
    set_up.handle_timeout(millis(1999));
    assert!(!set_up.is_over());
    set_up.handle_timeout(millis(2000));
    assert_eq!(fault(set_up), (0, "no answer in time".into()));
}

#[test]
fn nonsense_and_losses_blame_the_first_node() {
    for (bytes, reason) in [(vec![0xff; 9], "not understood"), (vec![1, 0xff], "not understood")] {
        let mut set_up = asked(&ours(2));
        set_up.handle_bytes(Duration::ZERO, &bytes);
        let (node, text) = fault(set_up);
        assert!(node == 0 && text.starts_with(reason), "{text}");
    }
    let mut set_up = SetUp::new(Duration::ZERO, &ours(2), PATIENCE);
    set_up.on_lost(Fault::NoConnection("refused".into()));
    set_up.on_lost(Fault::Silent);
    assert_eq!(set_up.poll_timeout(), None);
    assert_eq!(fault(set_up), (0, "no connection: refused".into()));
    let mut early = SetUp::new(Duration::ZERO, &ours(2), PATIENCE);
    early.on_connected(Duration::ZERO);
    early.handle_bytes(Duration::ZERO, &says(Status::SUCCESS, ""));
    assert_eq!(fault(early), (0, "not understood: an answer before the question".into()));
}

#[test]
fn a_recovered_stream_begins_where_acks_ended() {
    let mut opening = ours(2);
    opening.request.min_bytes_rcvd = 90;
    let mut set_up = asked(&opening);
    set_up.handle_bytes(Duration::ZERO, &says(Status::SUCCESS, ""));
    let mut stream = set_up.into_stream(Duration::ZERO).expect("a stream");
    stream.push(packet(7, 90, 5, false));
    assert_eq!(stream.take_rest().acked_len, 90);
}
