//! Streams with branches: each node sends to those that the routing table gives it, and speaks for all of them.

use crate::support::{Ask, Cluster, GENERATION, PACKET_LEN, chain, info, pattern};
use hdfs::proto::BlockConstructionStage as Stage;
use io::Clock;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;
use wire::{PipelineAck, Routing, Status, delimited};

fn tables(count: usize) -> Vec<Vec<u32>> {
    let racks: Vec<usize> = (0..count).map(|node| node / 2).collect();
    [Routing::chain(count), Routing::star(count), Routing::tree(&racks).1].map(|routing| routing.encode()).to_vec()
}

#[test]
fn a_block_reaches_all_its_nodes_whatever_the_table() {
    let cluster = Cluster::new(5);
    let data = pattern(7, 3_000_000);
    let mut block = 0;
    for count in [1, 2, 3, 5] {
        for parents in tables(count) {
            block += 1;
            let nodes: Vec<usize> = (0..count).collect();
            let mut stream = cluster.chain(&nodes, &Ask::create(block).routed(&parents)).unwrap();
            stream.send_all(&data[..1_000_000]);
            stream.heartbeat();
            stream.acked(-1);
            stream.send_at(1_000_000, &data[1_000_000..1_000_100], true);
            stream.acked(stream.seqno - 1);
            stream.send_at(999_936, &data[999_936..1_000_448], false); // the chunk again
            stream.acked(stream.seqno - 1);
            stream.send_all(&data[1_000_448..]);
            stream.finish();
            for node in 0..count {
                assert!(cluster.read(node, block, 0, data.len() as u64).unwrap() == data, "{parents:?}, node {node}");
            }
        }
    }
}

#[test]
fn a_table_that_is_none_is_refused() {
    let cluster = Cluster::new(3);
    for parents in [&[1, 0][..], &[0], &[0, 7]] {
        let refused = cluster.chain(&[0, 1, 2], &Ask::create(1).routed(parents)).err().unwrap();
        assert!(refused.message().contains("routing table"), "{refused:?}");
    }
    cluster.write(&[0, 1, 2], 1, b"nothing of it was left");
}

/// The ack names it by its place in the list, and says nothing of those that were not heard of.
#[test]
fn a_lost_branch_is_named_and_the_others_go_on() {
    for (dying, parents) in [(1, [0, 0, 2]), (2, [0, 0, 2]), (3, [0, 0, 2]), (2, [0, 0, 0]), (1, [0, 1, 1])] {
        let mut cluster = Cluster::new(4);
        let data = pattern(8, 6_000_000);
        let mut stream = cluster.chain(&[0, 1, 2, 3], &Ask::create(8).routed(&parents)).unwrap();
        stream.send_all(&data[..PACKET_LEN * 5]);
        cluster.stop(dying);
        let mut acked = stream.offset;
        let bad = loop {
            let at = stream.offset as usize;
            stream.send(&data[at..at + PACKET_LEN]);
            let ack = stream.ack().expect("the head lives");
            let bad: Vec<usize> = (0..ack.replies.len())
                .filter(|node| ![Status::SUCCESS, Status::IN_PROGRESS].contains(&ack.replies[*node]))
                .collect();
            if !bad.is_empty() {
                break bad;
            }
            acked = stream.offset;
        };
        assert_eq!(bad, [dying], "{parents:?}");
        let left: Vec<usize> = (0..4).filter(|node| *node != dying).collect();
        let ask = Ask::again(8, Stage::PipelineSetupStreamingRecovery, GENERATION + 1, acked, stream.offset);
        let mut stream = cluster.chain(&left, &ask.routed(&[0, 0])).unwrap();
        stream.send_all(&data[acked as usize..]);
        stream.finish();
        for node in left {
            assert!(cluster.read(node, 8, 0, 6_000_000).unwrap() == data);
        }
    }
}

#[test]
fn a_branch_out_of_reach_is_named() {
    let mut cluster = Cluster::new(4);
    let gone = cluster.info(3);
    cluster.stop(3);
    for (block, parents) in (5..).zip([[0, 0, 0], [0, 0, 2], [0, 1, 1]]) {
        let targets = vec![cluster.info(1), cluster.info(2), gone.clone()];
        let refused = chain(cluster.connect(0), targets, &Ask::create(block).routed(&parents)).err().unwrap();
        assert_eq!(refused.first_bad_link(), format!("127.0.0.1:{}", gone.id.xfer_port));
    }
}

/// A node that takes the operation, and then does what it is told.
fn scripted(answer: hdfs::proto::BlockOpResponseProto, then: impl FnOnce(TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = move || {
        let (mut socket, _) = listener.accept().unwrap();
        let _op = socket.read(&mut [0; 4096]).unwrap();
        let mut bytes = Vec::new();
        delimited::put(&answer, &mut bytes);
        socket.write_all(&bytes).unwrap();
        then(socket);
    };
    let _runs_on = io::task::thread("scripted", serve).unwrap();
    port
}

fn at(port: u16) -> hdfs::proto::DatanodeInfoProto {
    info(format!("127.0.0.1:{port}").parse().unwrap())
}

fn with_keepalives() -> hdfs::proto::BlockOpResponseProto {
    hdfs::proto::BlockOpResponseProto { abilities: Some(wire::Abilities::OF_STREAM.bits()), ..Default::default() }
}

/// One that sends no keepalives may be one of HDFS: it gets its minute.
fn without_keepalives() -> hdfs::proto::BlockOpResponseProto {
    hdfs::proto::BlockOpResponseProto::default()
}

/// For so long a node may be silent that owes a keepalive: longer than a busy machine lets one of the sound nodes wait
/// for its turn, or that one would be blamed.
const STALLED: Duration = Duration::from_secs(3);

fn quick(keepalive_interval_ms: u64) -> Cluster {
    Cluster::with(3, |config| {
        config.limits.keepalive_interval_ms = keepalive_interval_ms;
        config.limits.stalled_ms = STALLED.as_millis() as u64;
    })
}

/// A slow node makes the others wait, and takes no memory: what was not forwarded is not received.
#[test]
fn a_slow_branch_holds_the_writer_back() {
    let cluster = quick(20);
    let (release, held) = std::sync::mpsc::channel::<()>();
    let port = scripted(without_keepalives(), move |mut socket| {
        held.recv().unwrap();
        while socket.read(&mut [0; 65536]).is_ok_and(|len| len > 0) {}
    });
    let ask = Ask::create(3).routed(&[0, 0]);
    let stream = chain(cluster.connect(0), vec![cluster.info(1), at(port)], &ask).unwrap();
    let mut socket = &stream.connection.socket;
    socket.set_write_timeout(Some(Duration::from_millis(700))).unwrap();
    let mut packet = Vec::new();
    let data = pattern(1, 1 << 20);
    let mut sums = Vec::new();
    crate::support::SPEC.compute(&data, &mut sums);
    let mut sent_len = 0;
    for seqno in 0..200 {
        let header = wire::PacketHeader { offset: seqno << 20, seqno, data_len: 1 << 20, ..Default::default() };
        packet.clear();
        header.put(sums.len() as u32, &mut packet);
        packet.extend(&sums);
        packet.extend(&data);
        match socket.write_all(&packet) {
            Ok(()) => sent_len += packet.len(),
            Err(_) => break,
        }
    }
    // Two pairs of socket buffers, and the packet in hand.
    assert!(sent_len < 40 << 20, "{sent_len} bytes were taken");
    drop(release);
}

/// The one above the stopped node tells; nodes further up hear that those below them are still at it, and blame nobody
/// else.
#[test]
fn a_node_that_stands_still_is_found_by_the_one_above_it() {
    let cluster = quick(50);
    let clock = io::SystemClock::new();
    for (parents, bad) in [([0, 1, 2], 3), ([0, 1, 1], 3), ([0, 0, 0], 3)] {
        let (held, release) = std::sync::mpsc::channel::<()>();
        let port = scripted(with_keepalives(), move |_socket| _ = release.recv());
        let targets = vec![cluster.info(1), cluster.info(2), at(port)];
        let block = bad as u64 + u64::from(parents[2]) * 100 + u64::from(parents[1]) * 10;
        let mut stream = chain(cluster.connect(0), targets, &Ask::create(block).routed(&parents)).unwrap();
        let began = clock.monotonic();
        stream.send(&pattern(1, 100_000));
        let mut keepalive_count = 0;
        let ack = loop {
            let word = stream.word().unwrap();
            if !word.is_keepalive() {
                break word;
            }
            keepalive_count += 1;
        };
        let took = clock.monotonic() - began;
        assert_eq!(ack.replies.iter().rposition(|reply| *reply == Status::ERROR), Some(bad), "{ack:?}");
        assert_eq!(ack.replies.iter().filter(|reply| **reply == Status::ERROR).count(), 1);
        // Not by the minute that nodes without keepalives get.
        let silent = Duration::from_millis(cluster.configs[0].limits.below_silent_ms);
        assert!(took >= STALLED && took < silent, "{took:?}");
        assert!(keepalive_count >= 3, "{keepalive_count} keepalives");
        drop(held);
    }
}

/// As in a long sync: it says each now and then that it is at it, and is waited for.
#[test]
fn a_node_that_sends_keepalives_is_waited_for() {
    let cluster = quick(50);
    let port = scripted(with_keepalives(), |mut socket| {
        let mut keepalive = Vec::new();
        PipelineAck::KEEPALIVE.put(&mut keepalive);
        for _ in 0..12 {
            std::thread::park_timeout(STALLED / 8);
            socket.write_all(&keepalive).unwrap();
        }
        let mut ack = Vec::new();
        PipelineAck { seqno: 0, replies: vec![Status::SUCCESS] }.put(&mut ack);
        socket.write_all(&ack).unwrap();
        let _until_the_end = socket.read(&mut [0; 1]);
    });
    let mut stream = chain(cluster.connect(0), vec![at(port)], &Ask::create(1).routed(&[])).unwrap();
    stream.send(&pattern(1, 1000));
    stream.acked(0);
}

/// Stock clients take an ack without replies for nonsense: they get none, but the nodes among themselves still notice.
#[test]
fn a_stock_client_gets_no_keepalives() {
    let cluster = quick(50);
    let (_held, release) = std::sync::mpsc::channel::<()>();
    let port = scripted(with_keepalives(), move |_socket| _ = release.recv());
    let mut stream = chain(cluster.connect(0), vec![cluster.info(1), at(port)], &Ask::create(1)).unwrap();
    stream.send(&pattern(1, 1000));
    let bad = PipelineAck { seqno: 0, replies: vec![Status::SUCCESS, Status::SUCCESS, Status::ERROR] };
    assert_eq!(stream.word(), Some(bad));
}

/// An idle stream owes nothing, so nobody is suspected.
#[test]
fn silence_without_a_debt_is_no_stall() {
    let cluster = quick(20);
    let data = pattern(1, 10_000);
    let mut stream = cluster.chain(&[0, 1, 2], &Ask::create(1).routed(&[0, 0])).unwrap();
    for piece in data.chunks(5120) {
        std::thread::park_timeout(STALLED + STALLED / 4);
        stream.send(piece);
        stream.acked(stream.seqno - 1);
    }
    stream.finish();
}
