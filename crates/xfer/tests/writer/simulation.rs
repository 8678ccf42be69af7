//! Whole blocks from a seed: a writer that gives up wherever it waits, nodes that crash, stall, refuse and complain, a
//! metadata server, and a network that cuts bytes anywhere.
//!
//! What is held at every step:
//! - what is acknowledged is on every node that was not dropped, byte for byte;
//! - whoever is dropped had a fault;
//! - packets go down a stream in order, without a gap, and whole;
//! - the server is told of rising generations, and of no fewer bytes than it knows;
//! - a writer ends: all nodes that are left have put the whole block, or none is left.

use super::block::{block_of, members};
use super::{PATIENCE, answer, content, millis, packet};
use hdfs::proto::op_write_block_proto::BlockConstructionStage as Stage;
use hdfs::proto::{BlockOpResponseProto, OpWriteBlockProto, TokenProto};
use std::time::Duration;
use types::Generation;
use types::mutation::{self, Mutation};
use types::random::{Random, Seeded};
use wire::packet::{PacketFrame, Parsed};
use wire::{Abilities, OpHeader, PipelineAck, Status, delimited};
use xfer::fault::Fault;
use xfer::writer::{Block, Break, RECOVERIES_MAX, SetUp, Shape, Step, Stream};

const NODE_COUNT: usize = 4;
const PACKET_COUNT: i64 = 12;
const SEED_COUNT: u64 = 1000;
/// Seeds within which each deliberate fault must be found.
const FOUND_WITHIN: u64 = 300;
/// A run has not this many steps unless it hangs.
const STEP_COUNT_MAX: usize = 20_000;

#[derive(Default)]
struct Node {
    addr: String,
    data: Vec<u8>,
    generation: u64,
    put: bool,
    /// What is wrong with it.
    crashed: bool,
    stalled: bool,
    complained: bool,
}

impl Node {
    fn is_faulty(&self) -> bool {
        self.crashed || self.stalled || self.complained
    }
}

/// The nodes' side of one connection: what has come, and what is still to be received by the writer.
#[derive(Default)]
struct Connection {
    chain: Vec<usize>,
    branches: bool,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    closed: bool,
    next_seqno: Option<i64>,
}

struct World {
    random: Seeded,
    now: Duration,
    nodes: Vec<Node>,
    fault_one_in: usize,
    /// What the server has written down.
    generation: u64,
    recorded: (u64, u64),
}

impl World {
    fn one_in(&mut self, count: usize) -> bool {
        self.random.below(count) == 0
    }

    fn fault(&mut self) -> bool {
        self.fault_one_in > 0 && self.one_in(self.fault_one_in)
    }

    /// The request as a node reads it, and how the nodes answer.
    fn serve(&mut self, request: &[u8]) -> Connection {
        let (_, message) = request.split_at(OpHeader::LEN);
        let (message, _) = delimited::split(message, "op", 1 << 20).unwrap().unwrap();
        let op: OpWriteBlockProto = delimited::decode(message, "op").unwrap();
        let mut connection = Connection::default();
        let first = self.named(op.storage_id());
        let targets = op.target_storage_ids.iter().map(|storage| self.named(storage));
        connection.chain = [first].into_iter().chain(targets).collect();
        connection.branches = op.stream.as_ref().is_some_and(|stream| !stream.parents.is_empty());
        let abilities = op.stream.is_some().then_some(Abilities::OF_STREAM.bits());
        let mut reply = BlockOpResponseProto { abilities, ..BlockOpResponseProto::default() };
        for node in connection.chain.clone() {
            if self.fault() {
                self.nodes[node].crashed = true;
            }
            if self.nodes[node].crashed && node != first {
                reply.status = Status::ERROR.0.into();
                reply.first_bad_link = Some(self.nodes[node].addr.clone());
                break;
            }
        }
        if self.nodes[first].crashed || self.nodes[first].stalled {
            connection.closed = self.nodes[first].crashed;
            return connection;
        }
        if reply.status == i32::from(Status::SUCCESS.0) {
            connection.chain.iter().for_each(|node| self.nodes[*node].join(&op));
        }
        while self.one_in(3) {
            let status = Status::IN_PROGRESS.0.into();
            connection.outbox.extend(answer(&BlockOpResponseProto { status, ..BlockOpResponseProto::default() }));
        }
        connection.outbox.extend(answer(&reply));
        connection
    }

    fn named(&self, storage: &str) -> usize {
        storage[1..].parse().unwrap()
    }

    /// The nodes take what has come, packet by packet.
    fn work(&mut self, connection: &mut Connection) {
        let first = connection.chain[0];
        while let Parsed::Whole(frame) = PacketFrame::parse(&connection.inbox).expect("a packet where one begins") {
            if self.nodes[first].stalled || connection.closed {
                return;
            }
            let bytes: Vec<u8> = connection.inbox.drain(..frame.packet_len()).collect();
            let mut replies = vec![Status::SUCCESS; connection.chain.len()];
            for (place, node) in connection.chain.iter().enumerate() {
                if self.fault_one_in > 0 && self.random.below(self.fault_one_in) == 0 {
                    let node = &mut self.nodes[*node];
                    match self.random.below(3) {
                        0 => node.crashed = true,
                        1 if place == 0 => node.stalled = true,
                        _ => node.complained = true,
                    }
                    replies[place] = Status::ERROR;
                }
            }
            if self.nodes[first].crashed || self.nodes[first].stalled {
                connection.closed = self.nodes[first].crashed;
                return;
            }
            // Those before a node that failed have the packet; in a chain those behind it do not.
            let bad = replies.iter().position(|reply| *reply != Status::SUCCESS);
            if let (Some(bad), false) = (bad, connection.branches) {
                replies.truncate(bad + 1);
            }
            if !frame.header.is_heartbeat() {
                assert!(connection.next_seqno.is_none_or(|next| next == frame.header.seqno), "out of order");
                connection.next_seqno = Some(frame.header.seqno + 1);
                for (node, reply) in connection.chain.iter().zip(&replies) {
                    if *reply == Status::SUCCESS {
                        self.nodes[*node].store(&frame, &bytes, bad.is_none());
                    }
                }
            }
            if self.one_in(4) {
                PipelineAck::KEEPALIVE.put(&mut connection.outbox);
            }
            PipelineAck { seqno: frame.header.seqno, replies }.put(&mut connection.outbox);
            if bad.is_some() {
                connection.closed = true;
            }
        }
    }

    /// Gives the writer some of what was sent to it.
    fn deliver(&mut self, connection: &mut Connection) -> Vec<u8> {
        let len = self.random.below(connection.outbox.len() + 1);
        connection.outbox.drain(..len).collect()
    }
}

impl Node {
    fn join(&mut self, op: &OpWriteBlockProto) {
        let (min, max) = (op.min_bytes_rcvd as usize, op.max_bytes_rcvd as usize);
        if op.stage() == Stage::PipelineSetupCreate {
            return;
        }
        assert!(op.latest_generation_stamp > self.generation, "a generation that the node knows already");
        assert!(self.data.len() >= min, "an acknowledged byte is missing");
        assert!(self.data.len() <= max, "bytes that nobody sent");
        self.generation = op.latest_generation_stamp;
        if op.stage() == Stage::PipelineCloseRecovery {
            assert!(min == max, "closed, though data is missing");
            self.put = true;
        } else {
            self.data.truncate(min);
        }
    }

    fn store(&mut self, frame: &PacketFrame, bytes: &[u8], can_put: bool) {
        let offset = frame.header.offset as usize;
        assert!(offset <= self.data.len(), "a gap before {offset}");
        self.data.truncate(offset);
        self.data.extend_from_slice(&bytes[frame.data.clone()]);
        self.put |= frame.header.last && can_put;
    }
}

struct Writer {
    block: Block,
    stream: Option<(Stream, Connection)>,
    pushed: i64,
    offset: u64,
    acked_len: u64,
}

impl Writer {
    /// One thing that a writer does, or that happens to it.
    fn step(&mut self, world: &mut World) {
        let Some((stream, connection)) = &mut self.stream else { return };
        stream.check();
        match world.random.below(6) {
            // As the client does it: the end alone, when all data is acknowledged. Sometimes not, which must do no
            // harm.
            0 if stream.has_room() && self.pushed <= PACKET_COUNT => {
                let last = self.pushed == PACKET_COUNT;
                let len = if last { 0 } else { 1 + world.random.below(20) };
                if last && !stream.is_drained() && !world.one_in(20) {
                    return;
                }
                let packet = packet(self.block.next_seqno(), self.offset, len, last);
                self.pushed += 1;
                self.offset += len as u64;
                self.block.on_pushed(&packet);
                stream.push(packet);
            }
            1 | 2 => {
                if let Some(outgoing) = stream.next(world.now) {
                    let len = world.random.below(outgoing.bytes().len() + 1);
                    if connection.closed && world.one_in(2) {
                        return stream.on_send_failed(world.now, "closed");
                    }
                    connection.inbox.extend_from_slice(&outgoing.bytes()[..len]);
                    if world.one_in(4) {
                        world.work(connection); // the ack may be faster than the note
                        stream.handle_bytes(world.now, &std::mem::take(&mut connection.outbox));
                    }
                    stream.on_sent(world.now, &outgoing, len);
                    if world.one_in(3) {
                        stream.pause(world.now);
                    }
                }
            }
            3 => world.work(connection),
            4 => {
                let bytes = world.deliver(connection);
                if bytes.is_empty() && connection.closed && connection.outbox.is_empty() {
                    stream.on_receive_failed("closed");
                } else if !bytes.is_empty() {
                    stream.handle_bytes(world.now, &bytes);
                }
            }
            _ => {
                let later = world.now + millis(world.random.below(30) as u64);
                // Nothing else happens: time passes until the stream wants to be woken.
                let is_still = world.nodes[connection.chain[0]].stalled && world.one_in(4);
                world.now = if is_still { stream.poll_timeout().unwrap_or(later).max(later) } else { later };
                if stream.poll_timeout().is_some_and(|until| world.now >= until) {
                    stream.handle_timeout(world.now);
                }
            }
        }
        for packet in stream.take_spent() {
            self.acked_len = self.acked_len.max(packet.end_offset());
        }
        self.check(world);
    }

    fn check(&self, world: &World) {
        for member in self.block.members() {
            let node = &world.nodes[world.named(&member.storage)];
            let acked = &node.data[..];
            assert!(acked.len() as u64 >= self.acked_len, "{} of {} bytes", acked.len(), self.acked_len);
            assert!((0..).zip(acked).all(|(offset, byte)| *byte == content(offset)), "other bytes");
        }
        for (member, fault) in self.block.faults() {
            assert!(
                world.nodes[world.named(&member.storage)].is_faulty(),
                "{} did nothing wrong: {fault}",
                member.addr()
            );
        }
    }

    /// Sets up a stream as the driver does; `None` if that is given up half-way.
    fn open(&mut self, world: &mut World, ours: bool) -> Option<Result<(Stream, Connection), Break>> {
        let opening = self.block.opening(ours);
        let mut set_up = SetUp::new(world.now, &opening, PATIENCE);
        let first = world.named(&self.block.members()[0].storage);
        if world.nodes[first].crashed {
            set_up.on_lost(Fault::NoConnection("refused".into()));
            return Some(set_up.into_stream(world.now).map(|_| unreachable!()));
        }
        set_up.on_connected(world.now);
        let mut request = Vec::new();
        while !set_up.unsent().is_empty() {
            let len = 1 + world.random.below(set_up.unsent().len());
            request.extend_from_slice(&set_up.unsent()[..len]);
            set_up.on_sent(world.now, len);
        }
        let mut connection = world.serve(&request);
        while !set_up.is_over() {
            if world.one_in(30) {
                return None;
            }
            let bytes = world.deliver(&mut connection);
            if !bytes.is_empty() {
                set_up.handle_bytes(world.now, &bytes);
            } else if connection.closed {
                set_up.on_lost(Fault::Broken("closed".into()));
            } else if connection.outbox.is_empty() {
                world.now = set_up.poll_timeout().unwrap();
                set_up.handle_timeout(world.now);
            }
        }
        Some(set_up.into_stream(world.now).map(|stream| (stream, connection)))
    }

    /// One attempt to recover, which may be given up wherever it waits.
    fn recover(&mut self, world: &mut World, ours: bool) {
        if let Some((mut stream, _)) = self.stream.take() {
            self.block.on_broken(stream.take_rest());
        }
        let mut opened = None;
        loop {
            self.check(world);
            let step = self.block.next_step();
            if world.one_in(10) && !matches!(step, Step::Stream) {
                return;
            }
            match step {
                Step::Stream | Step::Finished | Step::Failed => return,
                Step::AskGeneration => {
                    world.generation += 1;
                    if world.one_in(10) {
                        return; // the server gave one, and the writer did not wait for it
                    }
                    self.block.on_generation(Generation(world.generation), TokenProto::default());
                }
                Step::Open => match self.open(world, ours) {
                    None => return,
                    Some(Ok(stream)) => {
                        self.block.on_opened();
                        opened = Some(stream);
                    }
                    Some(Err(broken)) => self.block.on_open_failed(broken),
                },
                Step::UpdatePipeline(update) => {
                    let (generation, len) = world.recorded;
                    assert!(update.new.generation.0 > generation && update.new.len >= len, "the server goes back");
                    world.recorded = (update.new.generation.0, update.new.len);
                    if world.one_in(10) {
                        return;
                    }
                    let resend = self.block.on_updated();
                    self.stream = opened.take().filter(|_| !self.block.is_finished());
                    if let Some((stream, _)) = &mut self.stream {
                        resend.into_iter().for_each(|packet| stream.push(packet));
                    }
                }
            }
        }
    }

    fn is_complete(&self) -> bool {
        let is_ended = self.stream.as_ref().is_some_and(|(stream, _)| stream.is_over() && !stream.is_broken());
        self.block.is_finished() || (self.pushed > PACKET_COUNT && is_ended)
    }
}

/// How it ended.
#[derive(Debug, PartialEq, Eq)]
enum Ending {
    NotBegun,
    Complete { node_count: usize },
    Lost,
}

fn run(seed: u64) -> Ending {
    let mut random = Seeded(seed);
    let shape = [Shape::Chain, Shape::Star { leader: None }, Shape::Tree][random.below(3)].clone();
    let ours = random.below(3) > 0;
    let members = members(&["/a", "/b", "/a", "/b"]);
    let nodes = members.iter().map(|member| Node { addr: member.addr(), ..Node::default() }).collect();
    let fault_one_in = [0, 15, 30, 80][random.below(4)];
    let mut world = World { random, now: Duration::ZERO, nodes, fault_one_in, generation: 1, recorded: (1, 0) };
    assert_eq!(world.nodes.len(), NODE_COUNT);
    let block = block_of(members, shape, RECOVERIES_MAX);
    let mut writer = Writer { block, stream: None, pushed: 0, offset: 0, acked_len: 0 };
    match writer.open(&mut world, ours) {
        Some(Ok(stream)) => {
            writer.block.on_opened();
            writer.stream = Some(stream);
        }
        Some(Err(broken)) => {
            writer.block.on_open_failed(broken);
            writer.check(&world);
            return Ending::NotBegun;
        }
        None => return Ending::NotBegun,
    }
    for _ in 0..STEP_COUNT_MAX {
        if writer.is_complete() {
            for member in writer.block.members() {
                let node = &world.nodes[world.named(&member.storage)];
                assert!(node.put && node.data.len() as u64 == writer.offset, "a block that is not whole");
            }
            return Ending::Complete { node_count: writer.block.members().len() };
        }
        match &writer.stream {
            Some((stream, _)) if !stream.is_broken() => writer.step(&mut world),
            _ if writer.block.members().is_empty() => {
                assert_eq!(writer.block.next_step(), Step::Failed);
                return Ending::Lost;
            }
            _ => writer.recover(&mut world, ours),
        }
    }
    panic!("seed {seed} does not end: {:?}", writer.block);
}

#[test]
fn whole_blocks() {
    let seeds = std::env::var("LEVADA_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEED_COUNT);
    let mut endings = [0; 3 + NODE_COUNT];
    for seed in 0..seeds {
        let ending = std::panic::catch_unwind(|| run(seed)).unwrap_or_else(|panic| {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic)
        });
        let place = match ending {
            Ending::NotBegun => 0,
            Ending::Lost => 1,
            Ending::Complete { node_count } => 1 + node_count,
        };
        endings[place] += 1;
    }
    assert!(seeds < SEED_COUNT || endings[..2 + NODE_COUNT].iter().all(|count| *count > 0), "{endings:?}");
}

#[test]
fn deliberate_faults_are_found() {
    for mutation in [
        Mutation::ForgetGivenUp,
        Mutation::TakeBadReplies,
        Mutation::BlameNodeAbove,
        Mutation::TrustWritten,
        Mutation::ForgetPartWrites,
        Mutation::WaitForever,
        Mutation::ForgetUnacked,
        Mutation::CloseTooSoon,
    ] {
        mutation::set(Some(mutation));
        let found = (0..FOUND_WITHIN).find(|seed| std::panic::catch_unwind(|| run(*seed)).is_err());
        mutation::set(None);
        println!("{}: {found:?}", mutation.name());
        assert!(found.is_some(), "nobody notices {}", mutation.name());
    }
}
