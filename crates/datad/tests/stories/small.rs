//! Small blocks in one request: to all nodes at once, whoever of them is there.

use crate::support::{Ask, Cluster, POOL, SPEC, pattern};
use bytes::Bytes;
use hdfs::proto::StreamProto;
use io::request_connections::{RequestConnections, RequestError, Waiter};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;
use types::{BlockId, ContainerId, InodeId};
use wire::BlockScope;
use wire::small::{SmallAnswer, SmallWrite};
use xfer::small::{Caller, OutgoingRequest, Verdict};

type SmallConnections = RequestConnections<Caller<Waiter<SmallAnswer>>>;

const HOME: ContainerId = ContainerId(7);

fn block(index: u32) -> u64 {
    BlockId::new(HOME, index).0
}

/// A request for a block with this content, for the first of `nodes` and all others as its targets.
fn request(cluster: &Cluster, nodes: &[usize], index: u32, data: &[u8]) -> (SmallWrite, Bytes) {
    let mut body = Vec::new();
    SPEC.compute(data, &mut body);
    body.extend_from_slice(data);
    let header = SmallWrite {
        number: 0,
        block: block(index),
        generation: 1001,
        data_len: data.len() as u32,
        checksum_kind: SPEC.kind as u32,
        chunk_len: SPEC.chunk_len,
        pool: POOL.into(),
        token: BlockScope { file: InodeId(16_400), home: HOME }.encode().into(),
        password: bytes::Bytes::new(),
        targets: nodes[1..].iter().map(|node| addr(cluster, *node)).collect(),
        synced: false,
    };
    (header, body.into())
}

fn addr(cluster: &Cluster, node: usize) -> String {
    format!("127.0.0.1:{}", cluster.info(node).id.xfer_port)
}

/// Nodes of which none is late, however long this machine lets one wait.
fn patient(count: usize) -> Cluster {
    Cluster::with(count, |config| config.limits.small_late_ms = 60_000)
}

fn put(cluster: &Cluster, connections: &SmallConnections, nodes: &[usize], index: u32, data: &[u8]) -> SmallAnswer {
    let (header, body) = request(cluster, nodes, index, data);
    cluster.runtime.block_on(connections.call(&addr(cluster, nodes[0]), OutgoingRequest { header, body })).unwrap()
}

#[test]
fn a_small_block_is_on_all_nodes_when_it_is_answered() {
    let cluster = patient(3);
    let connections = SmallConnections::default();
    for (index, len) in [(1, 1), (2, 511), (3, 4096), (4, 262_144), (5, 262_145), (6, 300_000), (7, 4 << 20)] {
        let data = pattern(index.into(), len);
        let answer = put(&cluster, &connections, &[0, 1, 2], index, &data);
        assert_eq!((&answer.refusal[..], &answer.have[..]), ("", &[0, 1, 2][..]), "{len} bytes");
        for node in 0..3 {
            assert!(cluster.read(node, block(index), 0, len as u64).unwrap() == data, "{len} bytes on node {node}");
        }
    }
    // Asked again, it is there already; with other bytes it is in the way.
    let data = pattern(3, 4096);
    assert_eq!(put(&cluster, &connections, &[1, 2, 0], 3, &data).have, [0, 1, 2]);
    assert_eq!(put(&cluster, &connections, &[0, 1, 2], 3, &pattern(4, 4096)).have, [0; 0]);
    let long = pattern(6, 300_000);
    assert_eq!(put(&cluster, &connections, &[0, 1, 2], 6, &long).have, [0, 1, 2]);
}

#[test]
fn a_majority_is_enough_and_fewer_are_not() {
    let mut cluster = patient(3);
    let connections = SmallConnections::default();
    let data = pattern(1, 1000);
    let gone = addr(&cluster, 2);
    put(&cluster, &connections, &[0, 1, 2], 1, &data);
    let (mut two_of_three, body) = request(&cluster, &[0, 1, 2], 2, &data);
    cluster.stop(2);
    let first = addr(&cluster, 0);
    let answer = cluster
        .runtime
        .block_on(connections.call(&first, OutgoingRequest { header: two_of_three.clone(), body: body.clone() }))
        .unwrap();
    assert_eq!((&answer.refusal[..], &answer.have[..]), ("", &[0, 1][..]));
    assert!(cluster.read(1, block(2), 0, 1000).unwrap() == data);
    two_of_three.block = block(3);
    two_of_three.targets = vec![gone.clone()];
    let answer = cluster
        .runtime
        .block_on(connections.call(&first, OutgoingRequest { header: two_of_three, body: body.clone() }))
        .unwrap();
    assert!(answer.refusal.contains("1 of 2") && answer.refusal.contains(&gone), "{}", answer.refusal);
    assert_eq!(answer.have, [0]);
    let (header, body) = request(&cluster, &[0], 9, &data);
    let failed = cluster.runtime.block_on(connections.call(&gone, OutgoingRequest { header, body }));
    assert!(matches!(failed, Err(RequestError::Connect(_))), "{failed:?}");
    // It comes back under another address or the same: kept connections are tried anew.
    cluster.start(2);
    assert_eq!(put(&cluster, &connections, &[0, 1, 2], 4, &data).have, [0, 1, 2]);
}

/// The writer waits for the first node, and that one for the others: it must answer before it counts as silent itself.
#[test]
fn a_target_that_hangs_is_not_taken_for_the_first_node() {
    let cluster = patient(1);
    let hangs = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut header, body) = request(&cluster, &[0], 1, &pattern(1, 1000));
    header.targets = vec![hangs.local_addr().unwrap().to_string()];
    let asked = SmallConnections::default();
    let answer = cluster.runtime.block_on(asked.call(&addr(&cluster, 0), OutgoingRequest { header, body })).unwrap();
    assert_eq!(answer.have, [0], "{}", answer.refusal);
    assert_eq!(Verdict::new(Some(&answer), 2).blamed, [1]);
}

/// Whoever writes names the other nodes: these may be as many as he likes, and none of them there.
#[test]
fn connections_to_others_are_bounded() {
    let cluster = Cluster::with(1, |config| config.limits.connection_count_max = 2);
    let listeners: Vec<_> = (0..4).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let (mut header, body) = request(&cluster, &[0], 1, &pattern(1, 1000));
    header.targets = listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
    let asked = SmallConnections::default();
    let answer = cluster.runtime.block_on(asked.call(&addr(&cluster, 0), OutgoingRequest { header, body })).unwrap();
    assert_eq!(answer.refusal.matches("as many connections to others").count(), 2, "{}", answer.refusal);
}

/// Sixty-four writers over one connection, each its own block; the node goes down and comes back, and has them all.
#[test]
fn many_at_once_share_and_outlive_a_restart() {
    let mut cluster = Cluster::with(3, |config| {
        config.durability = datad::Durability::Synced;
        config.limits.small_late_ms = 60_000;
    });
    let connections = SmallConnections::default();
    let writes: Vec<_> =
        (0..64).map(|index| request(&cluster, &[0, 1, 2], index, &pattern(index.into(), 700))).collect();
    let first = addr(&cluster, 0);
    let answers: Vec<SmallAnswer> = cluster.runtime.block_on(async {
        let connections = std::sync::Arc::new(connections);
        let writers: Vec<_> = writes
            .into_iter()
            .map(|(header, body)| {
                let (connections, first) = (connections.clone(), first.clone());
                io::task::spawn("writer", async move {
                    connections.call(&first, OutgoingRequest { header, body }).await.unwrap()
                })
            })
            .collect();
        let mut answers = Vec::new();
        for writer in writers {
            answers.push(writer.await.unwrap());
        }
        answers
    });
    assert!(answers.iter().all(|answer| answer.have == [0, 1, 2]));
    cluster.stop(1);
    cluster.start(1);
    for index in 0..64 {
        assert!(cluster.read(1, block(index), 0, 700).unwrap() == pattern(index.into(), 700), "block {index}");
    }
}

#[test]
fn what_is_not_as_it_says_is_refused() {
    let cluster = patient(2);
    let connections = SmallConnections::default();
    let data = pattern(1, 1000);
    let check = |change: &dyn Fn(&mut SmallWrite), wanted: &str| {
        let (mut header, mut body) = request(&cluster, &[0, 1], 1, &data);
        change(&mut header);
        if wanted.contains("checksums") {
            let mut bytes = body.to_vec();
            bytes[500] ^= 1;
            body = bytes.into();
        }
        let answer =
            cluster.runtime.block_on(connections.call(&addr(&cluster, 0), OutgoingRequest { header, body })).unwrap();
        assert!(answer.refusal.contains(wanted) && answer.have.is_empty(), "{wanted}: {answer:?}");
    };
    check(&|_| {}, "do not match their checksums");
    check(&|header| header.token = Bytes::new(), "token");
    check(&|header| header.block |= 1 << 63, "erasure");
    assert!(cluster.read(0, block(1), 0, 1).is_err());

    // A header that promises too much ends the connection, and nothing else.
    let mut socket = TcpStream::connect(addr(&cluster, 0)).unwrap();
    let (header, _) = request(&cluster, &[0], 1, &data);
    socket.write_all(&SmallWrite { data_len: u32::MAX, ..header.clone() }.front()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert_eq!(socket.read(&mut [0; 10]).unwrap_or(0), 0);
    // One that breaks off in the middle leaves nothing.
    let mut socket = TcpStream::connect(addr(&cluster, 0)).unwrap();
    socket.write_all(&header.front()).unwrap();
    socket.write_all(&data[..300]).unwrap();
    drop(socket);
    assert_eq!(put(&cluster, &connections, &[0, 1], 2, &data).have, [0, 1]);
    assert!(cluster.read(0, block(1), 0, 1).is_err());
}

/// Writers that say how much they will send, and send nothing, take no memory from those who do.
#[test]
#[expect(clippy::disallowed_methods, reason = "nothing tells that a header was looked at")]
fn what_is_only_promised_others_can_have() {
    let cluster = Cluster::with(1, |config| {
        config.memory = 16 << 20;
        config.limits.small_late_ms = 60_000;
    });
    let connections = SmallConnections::default();
    let mut idle = Vec::new();
    for number in 0..40 {
        let (header, _) = request(&cluster, &[0], 100 + number, &[]);
        let mut socket = TcpStream::connect(addr(&cluster, 0)).unwrap();
        socket.write_all(&SmallWrite { data_len: 4 << 20, ..header }.front()).unwrap();
        let ask = Ask::create(200 + u64::from(number)).routed(&[]);
        let stream = ask.stream.clone().map(|stream| StreamProto { packet_len: Some(16 << 20), ..stream });
        let ask = Ask { stream, ..ask };
        idle.push((socket, (number < 20).then(|| cluster.chain(&[0], &ask).unwrap())));
    }
    std::thread::sleep(Duration::from_millis(200)); // until all headers were looked at
    assert_eq!(put(&cluster, &connections, &[0], 1, &pattern(1, 1 << 20)).refusal, "");
    cluster.write(&[0], 7, b"bytes");
}
