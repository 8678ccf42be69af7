//! What peers hold of a node's memory that have proven nothing.

use crate::support::{Cluster, POOL, SPEC, pattern};
use io::request_connections::{RequestConnections, Waiter};
use metrics::Format;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use types::{BlockId, ContainerId, InodeId};
use wire::small::{SmallAnswer, SmallWrite};
use wire::{BlockScope, Op, OpHeader};
use xfer::small::{Caller, OutgoingRequest};

const HOME: ContainerId = ContainerId(7);
const MEMORY_LEN: u64 = 16 << 20;

fn node() -> Cluster {
    Cluster::with(1, |config| config.memory = MEMORY_LEN)
}

fn connect(cluster: &Cluster) -> TcpStream {
    TcpStream::connect(cluster.node(0).xfer_addr()).unwrap()
}

/// Bytes that the node counts as held.
fn held_len(cluster: &Cluster) -> u64 {
    let text = cluster.node(0).metrics().render(Format::Prometheus);
    let value =
        text.lines().find_map(|line| line.strip_prefix("levada_buffer_bytes ")).unwrap_or_else(|| panic!("{text}"));
    value.parse::<f64>().unwrap() as u64
}

/// A block of four megabytes, with a token or without one.
fn request(index: u32, token: bool) -> OutgoingRequest {
    let (data, mut body) = (pattern(index.into(), 4 << 20), Vec::new());
    SPEC.compute(&data, &mut body);
    body.extend_from_slice(&data);
    let token = if token { BlockScope { file: InodeId(16_400), home: HOME }.encode() } else { Vec::new() };
    let header = SmallWrite {
        block: BlockId::new(HOME, index).0,
        generation: 1001,
        data_len: data.len() as u32,
        checksum_kind: SPEC.kind as u32,
        chunk_len: SPEC.chunk_len,
        pool: POOL.into(),
        token: token.into(),
        ..SmallWrite::default()
    };
    OutgoingRequest { header, body: body.into() }
}

fn put(cluster: &Cluster, index: u32, token: bool) -> SmallAnswer {
    let addr = cluster.node(0).xfer_addr().to_string();
    let connections = RequestConnections::<Caller<Waiter<SmallAnswer>>>::default();
    cluster.runtime.block_on(connections.call(&addr, request(index, token))).unwrap()
}

/// All but the last byte of each is there for as long as its sender likes.
#[test]
fn megabytes_that_come_without_a_token_take_nothing_from_those_with_one() {
    let cluster = node();
    let strangers: Vec<TcpStream> = (0..8)
        .map(|index| {
            let OutgoingRequest { header, body } = request(index, false);
            let mut socket = connect(&cluster);
            socket.write_all(&header.front()).unwrap();
            socket.write_all(&body[..body.len() - 1]).unwrap();
            socket
        })
        .collect();
    assert_eq!(held_len(&cluster), 0);
    assert_eq!(put(&cluster, 100, true).refusal, "");
    let refused = put(&cluster, 101, false);
    assert!(refused.refusal.contains("token") && refused.have.is_empty(), "it is told why: {refused:?}");
    drop(strangers);
}

/// Operations of which no end comes hold what the node has for them, and no more; the first ones make way.
#[test]
fn requests_that_are_never_whole_share_a_part_of_the_memory() {
    const COUNT: usize = 80;
    // Twice what came of each, in a sixteenth of the memory or as much as the longest one takes.
    const LEFT_MAX: usize = 20;

    for (op, promised) in [(Op::WriteBlock, 1 << 20), (Op::WriteSmall, 64 << 10)] {
        let cluster = node();
        let mut begun = OpHeader { op }.encode().to_vec();
        prost::encode_length_delimiter(promised, &mut begun).unwrap();
        begun.resize(begun.len() + 60_000, 0x52);
        let mut strangers: Vec<TcpStream> = Vec::new();
        for _ in 0..COUNT {
            let mut socket = connect(&cluster);
            socket.write_all(&begun).unwrap();
            socket.set_nonblocking(true).unwrap();
            strangers.push(socket);
        }
        let is_there =
            |mut socket: &TcpStream| socket.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        while strangers.iter().filter(|socket| is_there(socket)).count() > LEFT_MAX {
            std::thread::yield_now();
        }
        assert!(held_len(&cluster) <= MEMORY_LEN / 4, "{op:?}: {}", held_len(&cluster));
        cluster.write(&[0], 7, b"bytes");
        assert_eq!(cluster.read(0, 7, 0, 5).unwrap(), b"bytes");
        assert_eq!(put(&cluster, 1, true).refusal, "");
    }
}
