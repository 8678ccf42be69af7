//! Writers at random, from a seed: packets of odd lengths, flushes, broken chains, recoveries, appends, restarts, and
//! readers of what was acknowledged, all the while.

use crate::support::{Ask, Chain, Cluster, GENERATION, pattern};
use hdfs::proto::BlockConstructionStage as Stage;
use types::Random;
use types::random::Seeded;

struct World {
    cluster: Cluster,
    random: Seeded,
    nodes: Vec<usize>,
    block: u64,
    generation: u64,
    content: Vec<u8>,
    /// Bytes sent at least once, and bytes acknowledged.
    sent: usize,
    acked: usize,
    waiting: std::collections::VecDeque<(i64, usize)>,
}

const CHUNK_LEN: usize = 512;

impl World {
    /// Where the next packet may start: at the end, or at the start of the chunk that is not full.
    fn next_offset(&mut self, at: usize) -> usize {
        if self.random.below(2) == 0 { at } else { at - at % CHUNK_LEN }
    }

    fn ask(&self, stage: Stage, generation: u64) -> Ask {
        let (min, max) = (self.acked as u64, self.sent as u64);
        Ask { generation: self.generation, ..Ask::again(self.block, stage, generation, min, max) }
    }

    /// One packet somewhere at the end, or one that asks only for the disk.
    fn send(&mut self, chain: &mut Chain, end: usize) -> usize {
        let offset = self.next_offset(end);
        let room = if offset.is_multiple_of(CHUNK_LEN) { 150_000 } else { CHUNK_LEN - offset % CHUNK_LEN };
        let len = self.random.below(room + 1).max(end - offset).min(self.content.len() - offset);
        let sync = self.random.below(10) == 0;
        chain.send_at(offset as u64, &self.content[offset..offset + len], sync);
        self.waiting.push_back((chain.seqno - 1, offset + len));
        self.sent = self.sent.max(offset + len);
        offset + len
    }

    fn take_ack(&mut self, chain: &mut Chain) {
        if let Some((seqno, end)) = self.waiting.pop_front() {
            chain.acked(seqno);
            self.acked = self.acked.max(end);
        }
    }

    fn look(&mut self) {
        let node = self.nodes[self.random.below(self.nodes.len())];
        let offset = self.random.below(self.acked + 1);
        let len = self.random.below(self.acked - offset + 1);
        let read = self.cluster.read(node, self.block, offset as u64, len as u64).unwrap();
        assert!(read == self.content[offset..offset + len], "{len} bytes at {offset} of node {node}");
    }

    fn write_block(&mut self) {
        let mut chain = self.cluster.chain(&self.nodes, &Ask::create(self.block)).unwrap();
        let mut end = 0;
        while end < self.content.len() {
            match self.random.below(12) {
                0 => self.look(),
                1..=4 => self.take_ack(&mut chain),
                5 if self.random.below(4) == 0 => {
                    (chain, end) = self.break_and_recover(chain);
                }
                6 if self.waiting.is_empty() => {
                    chain.heartbeat();
                    chain.acked(-1);
                }
                _ => end = self.send(&mut chain, end),
            }
        }
        while !self.waiting.is_empty() {
            self.take_ack(&mut chain);
        }
        if self.random.below(5) == 0 {
            // Only the end is missing.
            drop(chain);
            let generation = self.generation + 1;
            let ask = self.ask(Stage::PipelineCloseRecovery, generation);
            let _closed = self.cluster.chain(&self.nodes, &ask).unwrap();
            self.generation = generation;
        } else {
            chain.offset = self.content.len() as u64;
            chain.finish();
        }
    }

    fn break_and_recover(&mut self, chain: Chain) -> (Chain, usize) {
        drop(chain);
        self.waiting.clear();
        let generation = self.generation + 1;
        let mut again =
            self.cluster.chain(&self.nodes, &self.ask(Stage::PipelineSetupStreamingRecovery, generation)).unwrap();
        self.generation = generation;
        again.seqno = 100;
        (again, self.acked)
    }

    fn append(&mut self) {
        let more = pattern(self.random.next_u64(), 1 + self.random.below(5000));
        let generation = self.generation + self.random.below(2) as u64; // hdfs-native keeps the generation
        let ask = self.ask(Stage::PipelineSetupAppend, generation);
        let mut chain = self.cluster.chain(&self.nodes, &ask).unwrap();
        self.generation = generation;
        let mut end = self.content.len();
        self.content.extend(more);
        while end < self.content.len() {
            end = self.send(&mut chain, end);
            self.take_ack(&mut chain);
        }
        chain.offset = end as u64;
        chain.finish();
    }
}

struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("DATAD_SEED={} replays what the writer did, though not when", self.0);
        }
    }
}

#[test]
fn whatever_a_writer_does_what_was_acknowledged_is_read() {
    let only = std::env::var("DATAD_SEED").ok().map(|seed| seed.parse::<u64>().expect("a number"));
    for seed in only.map_or(0..25, |seed| seed..seed + 1) {
        let _named = Named(seed);
        let mut random = Seeded(seed);
        let node_count = 1 + random.below(3);
        let len = random.below(600_000);
        let mut world = World {
            cluster: Cluster::new(node_count),
            nodes: (0..node_count).collect(),
            block: 1 + seed,
            generation: GENERATION,
            content: pattern(seed, len),
            sent: 0,
            acked: 0,
            waiting: Default::default(),
            random,
        };
        world.write_block();
        for _ in 0..world.random.below(3) {
            world.append();
        }
        if world.random.below(2) == 0 {
            let node = world.random.below(node_count);
            world.cluster.stop(node);
            world.cluster.start(node);
        }
        for node in 0..node_count {
            let read = world.cluster.read(node, world.block, 0, world.content.len() as u64).unwrap();
            assert!(read == world.content, "node {node}");
        }
    }
}
