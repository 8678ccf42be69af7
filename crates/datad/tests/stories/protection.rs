//! Protected data transfer: what writers, readers and other datanodes say is sealed, and otherwise as it always is.

use crate::support::metad::Metad;
use crate::support::{
    Ask, Chain, Cluster, Connection, GENERATION, PACKET_LEN, POOL, base_header, block_proto, chain, eventually, info,
    pattern,
};
use crate::tokens::{FILE, Keys, token};
use hdfs::proto::{self, BlockConstructionStage as Stage, TokenProto};
use io::{Clock, SystemClock};
use sasl::{Protected, Secret, Uncounted};
use security::block_token::Mode;
use security::sasl::digest::{Protection, Qop};
use security::sasl::transfer::{KeyBits, Secrets, Settings};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener as AsyncListener, TcpStream};
use wire::node::{BlockToken, CopyOrder, Source, TokenRules};
use wire::{Op, PipelineAck, Status, delimited};

/// Sealed pieces, and AES.
const QOPS: [Qop; 2] = [Qop::Integrity, Qop::Privacy];
const LEN: usize = 1_500_000;

struct World {
    cluster: Cluster,
    keys: Keys,
    qop: Qop,
}

impl World {
    fn new(qop: Qop, node_count: usize) -> Self {
        Self::with(qop, node_count, |_| {})
    }

    fn with(qop: Qop, node_count: usize, change: impl Fn(&mut datad::Config)) -> Self {
        let world = Self { cluster: Cluster::with(node_count, change), keys: Keys::new(), qop };
        for node in (0..node_count).map(|node| world.cluster.node(node)) {
            node.join_pool(POOL);
            let data_transfer_protection = vec![qop.setting().to_owned()];
            node.hear_token_rules(&TokenRules { data_transfer_protection, ..world.keys.said() });
        }
        world
    }

    /// For all that is done with a block.
    fn token(&self, block: u64) -> TokenProto {
        token(&self.keys.ring, FILE, &[Mode::Read, Mode::Write, Mode::Copy], Some(block))
    }

    /// A connection behind its handshake.
    fn dial(&self, node: usize, block: u64) -> Protected {
        let token = self.token(block);
        let secret = Secret { identifier: &token.identifier, password: &token.password };
        let held = [(); 2].map(|()| Uncounted::default());
        let dialling = async {
            let socket = TcpStream::connect(self.cluster.node(node).xfer_addr()).await.unwrap();
            sasl::connect(socket, secret, Protection::of(&[self.qop]), held).await.unwrap()
        };
        self.cluster.runtime.block_on(dialling)
    }

    fn connect(&self, node: usize, block: u64) -> Connection {
        let connection = self.dial(node, block);
        let pumped = self.cluster.runtime.block_on(async { connection.pumped(None).unwrap().into_std().unwrap() });
        pumped.set_nonblocking(false).unwrap();
        Connection::over(pumped)
    }

    fn chain(&self, nodes: &[usize], ask: Ask) -> Chain {
        let infos = nodes[1..].iter().map(|node| self.cluster.info(*node)).collect();
        let token = self.token(ask.block);
        let ask = Ask { token: token.identifier.to_vec(), password: token.password.to_vec(), ..ask };
        chain(self.connect(nodes[0], ask.block), infos, &ask).unwrap()
    }

    fn write(&self, nodes: &[usize], block: u64, data: &[u8]) {
        let mut chain = self.chain(nodes, Ask::create(block));
        chain.send_all(data);
        chain.finish();
    }

    fn header(&self, block: u64, len: usize) -> proto::BaseHeaderProto {
        let block_proto = block_proto(block, GENERATION, len as u64);
        proto::BaseHeaderProto { token: Some(self.token(block)), ..base_header(block_proto) }
    }

    fn client_header(&self, block: u64) -> proto::ClientOperationHeaderProto {
        proto::ClientOperationHeaderProto { base_header: self.header(block, 0), client_name: "client".into() }
    }

    fn read_over(&self, connection: &mut Connection, block: u64, offset: u64, len: u64) -> Vec<u8> {
        let op = proto::OpReadBlockProto { header: self.client_header(block), offset, len, ..Default::default() };
        connection.send_op(Op::ReadBlock, &op);
        let data = connection.receive_read(offset, len).unwrap();
        let mut status = Vec::new();
        let checked = proto::ClientReadStatusProto { status: Status::CHECKSUM_OK.0.into() };
        delimited::put(&checked, &mut status);
        connection.socket.write_all(&status).unwrap();
        data
    }

    fn read(&self, node: usize, block: u64, len: usize) -> Vec<u8> {
        self.read_over(&mut self.connect(node, block), block, 0, len as u64)
    }
}

/// Several operations of a connection, of all kinds, and long ones behind short ones.
#[test]
fn what_a_chain_took_readers_get_from_each_node() {
    for qop in QOPS {
        let world = World::new(qop, 3);
        let data = pattern(5, LEN);
        world.write(&[0, 1, 2], 5, &data);
        for node in 0..3 {
            let mut connection = world.connect(node, 5);
            assert!(world.read_over(&mut connection, 5, 0, 4) == data[..4]);
            assert!(world.read_over(&mut connection, 5, 0, LEN as u64) == data, "{qop:?}, node {node}");
            let (offset, len) = (712_345, 777_777);
            assert!(world.read_over(&mut connection, 5, offset, len) == data[offset as usize..][..len as usize]);
            let op = proto::OpBlockChecksumProto { header: world.header(5, LEN), ..Default::default() };
            connection.send_op(Op::BlockChecksum, &op);
            assert_eq!(connection.answer().status, 0);
        }
    }
}

/// What is not in the page cache is sealed as well.
#[test]
fn a_replica_that_is_cold_is_read() {
    for qop in QOPS {
        let world = World::new(qop, 1);
        let data = pattern(6, LEN);
        world.write(&[0], 6, &data);
        let containers = std::fs::read_dir(world.cluster.configs[0].dir.join("containers")).unwrap();
        let stored = containers.map(|dir| dir.unwrap().path().join("6.data")).find(|path| path.exists());
        let stored = std::fs::File::open(stored.expect("a file of its own")).unwrap();
        io::file::sync_all(&stored).unwrap();
        io::file::drop_cache(&stored, 0, LEN as u64).unwrap();
        assert!(world.read(0, 6, LEN) == data, "{qop:?}");
    }
}

/// Many short packets, and a writer that looks at no ack before it has sent all: acks pile up in sockets.
#[test]
fn acks_that_were_not_taken_at_once_come_in_their_order() {
    for qop in QOPS {
        let world = World::new(qop, 2);
        let mut chain = world.chain(&[0, 1], Ask::create(7));
        let data = pattern(7, 300 * 512);
        data.chunks(512).for_each(|piece| chain.send(piece));
        (0..300).for_each(|seqno| chain.acked(seqno));
        chain.finish();
        assert!(world.read(1, 7, data.len()) == data);
    }
}

/// A stream goes on after a pause in which all that it does not need went back.
#[test]
fn a_writer_that_pauses_goes_on() {
    for qop in QOPS {
        let world = World::new(qop, 2);
        let data = pattern(8, 400_000);
        let mut chain = world.chain(&[0, 1], Ask::create(8));
        for piece in data.chunks(200_000 / 512 * 512) {
            chain.send_all(piece);
            io::task::sleep(3 * sasl::IDLE_AFTER);
        }
        chain.finish();
        assert!(world.read(0, 8, data.len()) == data);
    }
}

/// A tree: one node sends to two.
#[test]
fn a_node_sends_on_to_several() {
    for qop in QOPS {
        let world = World::new(qop, 3);
        let data = pattern(9, LEN);
        let mut chain = world.chain(&[0, 1, 2], Ask::create(9).routed(&[0, 0]));
        chain.send_all(&data);
        chain.finish();
        for node in 0..3 {
            assert!(world.read(node, 9, LEN) == data, "{qop:?}, node {node}");
        }
    }
}

#[test]
fn a_replica_is_copied_and_its_copy_joins_the_chain() {
    for qop in QOPS {
        let world = World::new(qop, 2);
        let data = pattern(10, LEN);
        let mut chain = world.chain(&[0], Ask::create(10));
        chain.send_all(&data[..1_000_000 / 512 * 512]);
        let len = chain.offset;
        let mut connection = world.connect(0, 10);
        let (header, targets) = (world.client_header(10), vec![world.cluster.info(1)]);
        connection.send_op(Op::TransferBlock, &proto::OpTransferBlockProto { header, targets, ..Default::default() });
        let copied = connection.answer();
        assert_eq!(copied.status, 0, "{copied:?}");
        let ask = Ask::again(10, Stage::PipelineSetupStreamingRecovery, GENERATION + 1, len, len);
        let mut chain = world.chain(&[0, 1], ask);
        chain.send_all(&data[len as usize..]);
        chain.finish();
        assert!(world.read(1, 10, LEN) == data, "{qop:?}");
    }
}

/// The metadata server orders copies: they are read over a protected connection, one after the other.
#[test]
fn ordered_copies_are_read_behind_a_handshake() {
    for qop in QOPS {
        let metad = Metad::start();
        let addr = metad.addr();
        let world = World::with(qop, 2, |config| {
            if config.dir.ends_with("0") {
                config.metad.clone_from(&addr);
            }
        });
        world.cluster.runtime.block_on(world.cluster.node(0).registered());
        let blocks = [(11, LEN), (12, 1), (13, 4096), (14, 600_000)];
        for (block, len) in blocks {
            world.write(&[1], block, &pattern(block, len));
        }
        let other = world.cluster.node(1);
        let source = Source { node: other.node_id().to_string(), addr: other.xfer_addr().to_string() };
        let copies = blocks.map(|(block, len)| {
            let TokenProto { identifier, password, .. } = world.token(block);
            let (token, len) = (Some(BlockToken { identifier, password }), len as u64);
            let sources = vec![source.clone()];
            CopyOrder { token, block, generation: GENERATION, len, file: FILE.0, sources, ..CopyOrder::default() }
        });
        metad.notes(|notes| notes.copy = copies.to_vec());
        eventually("all are copied", || metad.notes(|notes| blocks.iter().all(|(block, _)| notes.put.contains(block))));
        for (block, len) in blocks {
            assert!(world.read(0, block, len) == pattern(block, len), "{qop:?}, block {block}");
        }
        drop(world);
    }
}

/// A node below that takes nothing for a while, then everything, and answers. Answers what it got.
fn slow_node(listener: TcpListener) -> mpsc::Receiver<Vec<u8>> {
    let (sender, got) = mpsc::channel();
    let serve = move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let accepting = async {
            let (mut socket, _) = AsyncListener::from_std(listener).unwrap().accept().await.unwrap();
            let (mut came, keys) = (Vec::new(), Keys::new());
            while sasl::is_handshake(&came).is_none() {
                socket.read_buf(&mut came).await.unwrap();
            }
            let settings = Settings { protection: Protection::of(&QOPS), aes: Some(KeyBits::B128) };
            let secrets = Secrets { now: SystemClock::new().now(), keys: keys.ring.keys(), pool: POOL };
            let held = [(); 2].map(|()| Uncounted::default());
            let accepted = sasl::accept(socket, came, settings, |user| secrets.claim(user), held).await.unwrap();
            accepted.connection.pumped(None).unwrap().into_std().unwrap()
        };
        let socket = runtime.block_on(accepting);
        socket.set_nonblocking(false).unwrap();
        let mut connection = Connection::over(socket);
        connection.socket.read_exact(&mut [0; wire::OpHeader::LEN]).unwrap();
        let _op: proto::OpWriteBlockProto = connection.message().unwrap();
        let mut answer = Vec::new();
        delimited::put(&proto::BlockOpResponseProto::default(), &mut answer);
        connection.socket.write_all(&answer).unwrap();
        io::task::sleep(Duration::from_millis(700));
        let mut data = Vec::new();
        loop {
            let (bytes, frame) = connection.packet();
            data.extend_from_slice(&bytes[frame.data]);
            let (mut ack, seqno) = (Vec::new(), frame.header.seqno);
            PipelineAck { seqno, replies: vec![Status::SUCCESS] }.put(&mut ack);
            connection.socket.write_all(&ack).unwrap();
            if frame.header.last {
                break;
            }
        }
        sender.send(data).unwrap();
        assert!(connection.is_closed());
    };
    let _runs_on = io::task::thread("slow node", serve).unwrap();
    got
}

/// Sockets are full in between, and sealed bytes wait in the node: all of them leave, in their order, and the stream
/// reads nothing from its writer meanwhile.
#[test]
fn a_node_that_takes_nothing_for_a_while_gets_all_of_it() {
    for qop in QOPS {
        let world = World::new(qop, 1);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 16 << 10).unwrap();
        let slow = info(listener.local_addr().unwrap());
        let got = slow_node(listener);
        let token = world.token(16);
        let ask = Ask { token: token.identifier.to_vec(), password: token.password.to_vec(), ..Ask::create(16) };
        let mut chain = chain(world.connect(0, 16), vec![slow], &ask).unwrap();
        let data = pattern(16, 50 * PACKET_LEN);
        data.chunks(PACKET_LEN).for_each(|piece| chain.send(piece));
        (0..50).for_each(|seqno| chain.acked(seqno));
        chain.finish();
        assert!(got.recv().unwrap() == data, "{qop:?}");
        assert!(world.read(0, 16, data.len()) == data, "{qop:?}");
    }
}

/// Bytes that nobody sealed, in the middle of a stream, and a stream that ends within a piece: what was acknowledged
/// stays, and nothing else is believed.
#[test]
fn what_was_not_sealed_ends_a_connection() {
    let world = World::new(Qop::Integrity, 1);
    let mut bytes = vec![0, 0, 0, 30];
    bytes.extend(pattern(1, 30));
    for bytes in [&bytes[..], &bytes[..10], &[0xff; 4]] {
        let connection = world.dial(0, 15);
        let mut socket = world.cluster.runtime.block_on(async { connection.socket.into_std().unwrap() });
        socket.set_nonblocking(false).unwrap();
        socket.write_all(bytes).unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(Connection::over(socket).message_or_end(), "it answered");
    }
    world.write(&[0], 15, b"others are served");
    assert!(world.read(0, 15, 17) == b"others are served");
}
