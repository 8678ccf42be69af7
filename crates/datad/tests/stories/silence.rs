//! Peers that are there and do nothing, or talk nonsense: every wait has its limit.

use crate::support::{Ask, Chain, Cluster, chain, eventually, info, pattern};
use hdfs::proto;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use wire::{PacketHeader, PipelineAck, Status, delimited};

/// A node below that does what it is told after it took the operation.
fn below(then: impl FnOnce(TcpStream) + Send + 'static) -> proto::DatanodeInfoProto {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let node = info(listener.local_addr().unwrap());
    let serve = move || {
        let (mut socket, _) = listener.accept().unwrap();
        let _op = socket.read(&mut [0; 4096]).unwrap();
        then(socket);
    };
    let _runs_on = io::task::thread("below", serve).unwrap();
    node
}

fn well(socket: &mut TcpStream) {
    let mut bytes = Vec::new();
    delimited::put(&proto::BlockOpResponseProto::default(), &mut bytes);
    socket.write_all(&bytes).unwrap();
}

fn wait_for_end(mut socket: TcpStream) {
    while socket.read(&mut [0; 4096]).is_ok_and(|len| len > 0) {}
}

/// A node that has to answer a setup gets the time that it usually has: the thread that plays it may have to wait for
/// its turn.
fn cluster() -> Cluster {
    hasty(|_| {})
}

fn hasty(change: impl Fn(&mut datad::Config)) -> Cluster {
    Cluster::with(1, |config| {
        config.limits.stalled_ms = 20_000;
        config.limits.below_silent_ms = 300;
        config.limits.writer_silent_ms = 1500;
        config.limits.per_node_ms = 0;
        change(config);
    })
}

fn joined(cluster: &Cluster, node: proto::DatanodeInfoProto) -> Chain {
    chain(cluster.connect(0), vec![node], &Ask::create(1)).unwrap()
}

fn bad_below(seqno: i64) -> Option<PipelineAck> {
    Some(PipelineAck { seqno, replies: vec![Status::SUCCESS, Status::ERROR] })
}

#[test]
fn a_node_that_does_not_answer_a_setup_is_named() {
    let cluster = hasty(|config| config.limits.setup_ms = 300);
    for node in [below(wait_for_end), below(drop), below(|mut socket| socket.write_all(&[0xff; 64]).unwrap())] {
        let name = format!("127.0.0.1:{}", node.id.xfer_port);
        let refused = chain(cluster.connect(0), vec![node], &Ask::create(1)).err().unwrap();
        assert_eq!(refused.first_bad_link(), name);
    }
}

/// The client names these nodes, as many as it likes.
#[test]
fn no_more_nodes_are_joined_than_there_may_be_connections() {
    let cluster = hasty(|config| (config.limits.connection_count_max, config.limits.crowded_ms) = (1, 100));
    let node = || {
        below(|mut socket| {
            well(&mut socket);
            wait_for_end(socket);
        })
    };
    let refused = chain(cluster.connect(0), vec![node(), node()], &Ask::create(1).routed(&[0, 0])).err().unwrap();
    assert!(refused.message().contains("as many connections to others"), "{refused:?}");
    assert!(chain(cluster.connect(0), vec![node()], &Ask::create(2)).is_ok(), "the place of the other one is free");
}

#[test]
fn what_a_node_answers_is_passed_on() {
    let cluster = cluster();
    let node = below(|mut socket| {
        let mut bytes = Vec::new();
        let answer = proto::BlockOpResponseProto {
            status: proto::Status::ErrorAccessToken.into(),
            first_bad_link: Some("10.0.0.9:9866".into()),
            message: Some("why".into()),
            ..Default::default()
        };
        delimited::put(&answer, &mut bytes);
        socket.write_all(&bytes).unwrap();
    });
    let refused = chain(cluster.connect(0), vec![node], &Ask::create(1)).err().unwrap();
    assert_eq!((refused.status(), refused.first_bad_link()), (proto::Status::ErrorAccessToken, "10.0.0.9:9866"));
}

#[test]
fn a_node_that_falls_silent_is_told_of() {
    let cluster = cluster();
    let mut chain = joined(
        &cluster,
        below(|mut socket| {
            well(&mut socket);
            wait_for_end(socket);
        }),
    );
    chain.send(&pattern(1, 1000));
    assert_eq!(chain.ack(), bad_below(0));
}

#[test]
fn a_node_that_takes_no_bytes_is_told_of() {
    let cluster = cluster();
    let (_held, release) = std::sync::mpsc::channel::<()>();
    let mut chain = joined(
        &cluster,
        below(move |mut socket| {
            well(&mut socket);
            let _until_the_test_ends = release.recv();
        }),
    );
    let data = pattern(1, 8 << 20);
    chain.send(&data);
    chain.send(&data); // more than the sockets between the two hold
    assert_eq!(chain.ack(), bad_below(0));
}

#[test]
fn a_node_that_acks_what_nobody_sent_is_told_of() {
    let cluster = cluster();
    let mut chain = joined(
        &cluster,
        below(|mut socket| {
            well(&mut socket);
            let mut bytes = Vec::new();
            PipelineAck { seqno: 7, replies: vec![Status::SUCCESS] }.put(&mut bytes);
            socket.write_all(&bytes).unwrap();
            wait_for_end(socket);
        }),
    );
    chain.send(&pattern(1, 1000));
    assert_eq!(chain.ack(), bad_below(0));
}

#[test]
fn a_writer_that_says_nothing_loses_its_place() {
    let cluster = cluster();
    let mut silent = cluster.chain(&[0], &Ask::create(1)).unwrap();
    silent.send(&pattern(1, 100));
    silent.acked(0);
    eventually("its stream ends", || cluster.node(0).transfer_count() == 0);
    assert_eq!(silent.ack(), None);
    assert_eq!(cluster.read(0, 1, 0, 100).unwrap(), pattern(1, 100));
}

/// A writer that sends for ever and takes no ack is not read any more: what it leaves lying is bounded, here and in the
/// kernel.
#[test]
fn a_writer_that_takes_no_acks_is_made_to_wait() {
    /// More than both kernels' buffers and ours hold: an ack takes a quarter of a heartbeat's bytes.
    const SENT_LEN_MAX: usize = 256 << 20;
    let cluster = cluster();
    let chain = chain(cluster.connect(0), vec![], &Ask::create(1)).unwrap();
    let mut bytes = Vec::new();
    for _ in 0..10_000 {
        PacketHeader { seqno: PacketHeader::HEARTBEAT, ..PacketHeader::default() }.put(0, &mut bytes);
    }
    let mut socket = &chain.connection.socket;
    let mut sent_len = 0;
    socket.set_write_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
    while sent_len < SENT_LEN_MAX && socket.write_all(&bytes).is_ok() {
        sent_len += bytes.len();
    }
    assert!(sent_len < SENT_LEN_MAX);
}
