//! Nodes with several disks: each a directory here, which can be taken away, swapped, or filled by hand.

use crate::support::metad::{Metad, Notes};
use crate::support::{Cluster, GENERATION, POOL, SPEC, eventually, make_pipe, pattern};
use container::{Options, SmallPut, Volume};
use io::request_connections::{RequestConnections, Waiter};
use prost::Message;
use std::path::{Path, PathBuf};
use types::{BlockId, ContainerId, Fitness, Generation, InodeId, ReplicaState};
use wire::BlockScope;
use wire::node::*;
use wire::small::{SmallAnswer, SmallWrite};
use xfer::small::{Caller, OutgoingRequest};

/// One datanode.
struct World {
    cluster: Cluster,
    metad: Metad,
}

/// Blocks of this length get files of their own.
const LONG: usize = 300_000;
const SHORT: usize = 3000;
/// In which the fullness of disks is counted, as orders to balance name it.
const PARTS: u128 = 1_000_000_000;

impl World {
    /// With disks of these names.
    fn new(disks: &[&str]) -> Self {
        let metad = Metad::start();
        let addr = metad.addr();
        let cluster = Cluster::with(1, |config| {
            config.metad.clone_from(&addr);
            set_disks(config, disks);
        });
        cluster.runtime.block_on(cluster.node(0).registered());
        Self { cluster, metad }
    }

    fn metad<T>(&self, look: impl FnOnce(&mut Notes) -> T) -> T {
        self.metad.notes(look)
    }

    fn dir(&self, disk: &str) -> PathBuf {
        self.cluster.dir().join(disk)
    }

    fn restart(&mut self, disks: &[&str]) {
        self.cluster.stop(0);
        self.start(disks).unwrap();
    }

    fn start(&mut self, disks: &[&str]) -> Result<(), String> {
        self.metad(|metad| metad.told = HeartbeatRequest::default());
        let started = self.cluster.start_with(0, |config| set_disks(config, disks));
        started.map_err(|error| error.to_string())?;
        self.cluster.runtime.block_on(self.cluster.node(0).registered());
        Ok(())
    }

    /// Writes these blocks: every second one long, the others as small writes of our client.
    fn write(&self, blocks: std::ops::Range<u64>) {
        let connections = RequestConnections::<Caller<Waiter<SmallAnswer>>>::default();
        for block in blocks {
            let data = data(block);
            if block.is_multiple_of(2) {
                self.cluster.write(&[0], block, &data);
                continue;
            }
            let mut body = Vec::new();
            SPEC.compute(&data, &mut body);
            body.extend_from_slice(&data);
            let header = SmallWrite {
                number: 0,
                block,
                generation: GENERATION,
                data_len: data.len() as u32,
                checksum_kind: SPEC.kind as u32,
                chunk_len: SPEC.chunk_len,
                pool: POOL.into(),
                token: BlockScope { file: InodeId(16_400), home: ContainerId(7) }.encode().into(),
                password: bytes::Bytes::new(),
                targets: Vec::new(),
                synced: false,
            };
            let addr = self.cluster.node(0).xfer_addr().to_string();
            let answer = self
                .cluster
                .runtime
                .block_on(connections.call(&addr, OutgoingRequest { header, body: body.into() }))
                .unwrap();
            assert_eq!(answer.have, [0], "{}", answer.refusal);
        }
    }

    /// Which of these blocks are read, each of them right.
    fn readable(&self, blocks: std::ops::Range<u64>) -> Vec<u64> {
        let reads = |block: &u64| match self.cluster.read(0, *block, 0, len(*block) as u64) {
            Ok(read) => {
                assert!(read == data(*block), "block {block}");
                true
            }
            Err(_) => false,
        };
        blocks.filter(reads).collect()
    }

    fn check(&self, blocks: std::ops::Range<u64>) {
        assert_eq!(self.readable(blocks.clone()), blocks.collect::<Vec<_>>());
    }

    fn ask<A: Message + Default>(&self, method: &str, request: &impl Message) -> A {
        let addr = self.cluster.node(0).ipc_addr().to_string();
        let client = rpc::Client::new(addr, "test".into(), REPLICA_PROTOCOL);
        self.cluster.runtime.block_on(client.call(method, request)).unwrap()
    }

    /// Which of these blocks the node says it has, when the metadata server compares.
    fn fit(&self, blocks: std::ops::Range<u64>) -> Vec<u64> {
        let wanted = |block| Replica {
            block,
            generation: GENERATION,
            len: len(block) as u64,
            state: ReplicaState::Finalized.into(),
            ..Replica::default()
        };
        let replicas = blocks.clone().map(wanted).collect();
        let request = CompareRequest { replicas, ..CompareRequest::default() };
        let answer: CompareResponse = self.ask(COMPARE, &request);
        let fit = blocks.zip(answer.fitness).filter(|(_, fitness)| *fitness == i32::from(Fitness::Fit));
        fit.map(|(block, _)| block).collect()
    }

    /// The disks as the metadata server is told of them, once `good` likes that.
    fn disks(&self, what: &str, good: impl Fn(&[Disk]) -> bool) -> Vec<Disk> {
        let mut told = Vec::new();
        eventually(what, || {
            told = self.metad(|metad| metad.told.disks.clone());
            good(&told)
        });
        told
    }
}

fn set_disks(config: &mut datad::Config, disks: &[&str]) {
    let parent = config.dir.parent().or_else(|| config.dirs.first().and_then(|dir| dir.parent())).unwrap().to_owned();
    (config.dir, config.dirs) = (PathBuf::new(), disks.iter().map(|disk| parent.join(disk)).collect());
}

fn len(block: u64) -> usize {
    if block.is_multiple_of(2) { LONG } else { SHORT }
}

fn data(block: u64) -> Vec<u8> {
    pattern(block, len(block))
}

/// How many replicas a volume has; nobody else may have it open.
fn count(dir: &Path) -> u64 {
    Volume::open(dir, Options::default()).unwrap().usage().unwrap().replica_count
}

fn rename(from: &Path, to: &Path) {
    std::fs::rename(from, to).unwrap();
}

#[test]
fn blocks_go_to_all_disks_and_are_found_wherever_these_lie_later() {
    let mut world = World::new(&["a", "b", "c"]);
    world.write(0..60);
    world.check(0..60);
    let disks = world.disks("all is told", |disks| disks.iter().map(|disk| disk.replica_count).sum::<u64>() == 60);
    // How many each has depends on when they were looked at: the emptiest takes all until the next look.
    assert!(disks.iter().all(|disk| disk.replica_count > 0 && disk.failure.is_empty()), "{disks:?}");
    // Not always in one heartbeat: a disk may be looked at between the two.
    eventually("the node uses what its disks do", || {
        let told = world.metad(|metad| metad.told.clone());
        told.usage.unwrap().used_len == told.disks.iter().map(|disk| disk.used_len).sum::<u64>()
    });
    let id = world.cluster.node(0).node_id();
    // Another order, and one of them under another path.
    world.cluster.stop(0);
    rename(&world.dir("b"), &world.dir("elsewhere"));
    world.start(&["c", "elsewhere", "a"]).unwrap();
    assert_eq!(world.cluster.node(0).node_id(), id);
    world.check(0..60);
    world.write(60..80);
    world.check(0..80);
    let disks = world.disks("all is told", |disks| disks.len() == 3);
    assert!(disks.iter().all(|disk| disk.failure.is_empty()), "{disks:?}");
}

#[test]
fn a_node_with_one_directory_gets_another() {
    let mut world = World::new(&["a"]);
    world.write(0..10);
    assert!(!world.dir("a").join("DISKS").exists(), "a node with one disk has what it always had");
    world.restart(&["a", "b"]);
    world.check(0..10);
    world.write(10..40);
    world.check(0..40);
    let disks = world.disks("the new one is used", |disks| disks.len() == 2 && disks[1].replica_count > 0);
    assert!(disks.iter().all(|disk| disk.failure.is_empty()), "{disks:?}");
    assert!(world.dir("a").join("DISKS").exists() && world.dir("b").join("DISKS").exists());
}

/// What it had is absent, and the server is asked to compare; the others go on. When it is back at a start, all is
/// there again.
#[test]
fn a_disk_that_vanishes_is_out_until_it_is_back() {
    let mut world = World::new(&["a", "b", "c"]);
    world.write(0..60);
    let all = |disks: &[Disk]| disks.iter().map(|disk| disk.replica_count).sum::<u64>();
    world.disks("all is told", |disks| all(disks) == 60);
    let before = world.metad(|metad| metad.registered);
    rename(&world.dir("b"), &world.dir("away"));
    let disks = world.disks("it is told", |disks| disks.iter().any(|disk| !disk.failure.is_empty()));
    let failed: Vec<&Disk> = disks.iter().filter(|disk| !disk.failure.is_empty()).collect();
    assert!(failed.len() == 1 && failed[0].dir.ends_with("/b") && failed[0].failure.contains("gone"), "{disks:?}");
    eventually("it registers again", || world.metad(|metad| metad.registered) > before);
    let left = world.readable(0..60);
    assert!(!left.is_empty() && left.len() < 60, "{left:?}");
    assert_eq!(left.len() as u64 + failed[0].replica_count, 60);
    world.write(60..90);
    world.check(60..90);
    // A copy that comes for what is lost goes to a disk that works.
    let lost = (0..60).find(|block| !left.contains(block)).unwrap();
    world.write(lost..lost + 1);
    world.check(lost..lost + 1);
    assert!(!world.dir("b").exists(), "nothing was made in its place");

    // At a start it is missed, not taken for an empty one.
    world.cluster.stop(0);
    std::fs::create_dir(world.dir("b")).unwrap();
    world.start(&["a", "b", "c"]).unwrap();
    let disks = world.disks("it is missed", |disks| disks.len() == 3);
    assert!(disks.iter().any(|disk| disk.failure.contains("missing") && disk.dir.ends_with("/b")), "{disks:?}");
    assert!(std::fs::read_dir(world.dir("b")).unwrap().next().is_none());
    world.check(60..90);
    world.check(lost..lost + 1);
    // Nor if it is the first that is named, and the one that the hash trees would lie on.
    world.restart(&["b", "a", "c"]);
    let request = wire::tree::TreeRequest::default();
    eventually("a hash tree is kept", || {
        let answer: wire::tree::TreeResponse = world.ask(wire::tree::TREE, &request);
        !answer.building && world.dir("a").join("trees").exists()
    });
    assert!(std::fs::read_dir(world.dir("b")).unwrap().next().is_none());

    world.cluster.stop(0);
    std::fs::remove_dir(world.dir("b")).unwrap();
    rename(&world.dir("away"), &world.dir("b"));
    world.start(&["a", "b", "c"]).unwrap();
    world.check(0..90);
    // The block that it and another one have is on one in the end.
    world.disks("one copy goes", |disks| all(disks) == 90 && disks.iter().all(|disk| disk.failure.is_empty()));
    world.check(0..90);
}

/// A node whose disks have all failed has nothing that counts, though what still reads is served. One disk is all
/// disks, too.
#[test]
fn nothing_counts_once_all_disks_have_failed() {
    for names in [&["a", "b"][..], &["a"]] {
        let world = World::new(names);
        world.write(0..20);
        assert_eq!(world.fit(0..20), (0..20).collect::<Vec<_>>());
        for (number, name) in names.iter().enumerate() {
            let before = world.metad(|metad| metad.registered);
            rename(&world.dir(name), &world.dir("away").with_extension(name));
            world.disks("it is told", |disks| {
                disks.iter().filter(|disk| !disk.failure.is_empty()).count() == number + 1
            });
            eventually("it registers again", || world.metad(|metad| metad.registered) > before);
            let left = world.fit(0..20);
            assert_eq!(left.is_empty(), number + 1 == names.len(), "{left:?}");
        }
        let told = world.metad(|metad| metad.told.clone());
        let usage = told.usage.unwrap();
        assert_eq!((usage.capacity_len, usage.free_len), (0, 0), "so that its heartbeats count as silence");
        // The small ones are in packs, which are open still.
        assert!(!world.readable(0..20).is_empty());
        assert!(names.iter().all(|name| !world.dir(name).exists()), "nothing was made in their place");
    }
}

/// A disk hangs: each look at it does, for the file that is read is a pipe in which nobody writes.
fn hang(dir: &Path) {
    std::fs::copy(dir.join("VERSION"), dir.join("kept")).unwrap();
    let _of_before = std::fs::remove_file(dir.join("pipe"));
    make_pipe(&dir.join("pipe"));
    rename(&dir.join("pipe"), &dir.join("VERSION")); // no look finds neither
}

fn wake(dir: &Path) {
    let text = std::fs::read(dir.join("kept")).unwrap();
    rename(&dir.join("VERSION"), &dir.join("pipe"));
    rename(&dir.join("kept"), &dir.join("VERSION"));
    // Waits for who reads. A look opens it twice, and the first time reads nothing: it may be gone before this is
    // written.
    match std::fs::write(dir.join("pipe"), text) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => panic!("{error}"),
        _ => {}
    }
}

/// A stall of all disks is no failure of any of them. One that hangs alone is declared failed in the end, and the node
/// lives all the while.
#[test]
fn a_disk_that_hangs_is_declared_failed_if_others_answer() {
    let mut world = World::new(&["a", "b"]);
    world.cluster.stop(0);
    world.cluster.configs[0].limits.disk_answer_ms = 3000;
    world.start(&["a", "b"]).unwrap();
    world.write(0..10);
    let beats = || world.metad(|metad| metad.beats);
    ["a", "b"].iter().for_each(|name| hang(&world.dir(name)));
    let before = beats();
    io::task::sleep(std::time::Duration::from_secs(6));
    eventually("it lives", || beats() > before + 3);
    world.check(0..10);
    ["a", "b"].iter().for_each(|name| wake(&world.dir(name)));
    world.write(10..20);
    let disks = world.disks("all is told", |disks| disks.iter().map(|disk| disk.replica_count).sum::<u64>() == 20);
    assert!(disks.iter().all(|disk| disk.failure.is_empty()), "{disks:?}");

    hang(&world.dir("a"));
    let disks = world.disks("it is told", |disks| disks.iter().any(|disk| !disk.failure.is_empty()));
    assert!(disks[0].failure.contains("not answered") && disks[1].failure.is_empty(), "{disks:?}");
    world.write(20..30);
    world.check(20..30);
    wake(&world.dir("a"));
}

#[test]
fn a_disk_is_replaced_by_a_new_one() {
    let mut world = World::new(&["a", "b"]);
    world.write(0..20);
    world.cluster.stop(0);
    std::fs::remove_dir_all(world.dir("b")).unwrap();
    std::fs::create_dir(world.dir("b")).unwrap();
    std::fs::write(world.dir("b").join("NEW-DISK"), "").unwrap();
    world.start(&["a", "b"]).unwrap();
    let disks = world.disks("it joins", |disks| disks.len() == 2);
    assert!(disks.iter().all(|disk| disk.failure.is_empty()), "{disks:?}");
    assert!(!world.dir("b").join("NEW-DISK").exists());
    world.write(20..60);
    world.check(20..60);
    // One that is in no directory any more was taken away.
    world.restart(&["a"]);
    assert_eq!(world.disks("it is told", |disks| !disks.is_empty()).len(), 1);
}

#[test]
fn foreign_and_busy_directories_are_refused() {
    let mut world = World::new(&["a", "b"]);
    let taken = Cluster::with(1, |_| {});
    let busy = world.start(&["a", "b"]).unwrap_err();
    assert!(busy.contains("in use by another process"), "{busy}");
    drop(taken);
    world.cluster.stop(0);
    let other = World::new(&["x", "y"]);
    let refuse = |world: &mut World, disks: &[&str], why: &str| {
        let refused = world.start(disks).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    };
    let foreign = other.dir("x").display().to_string();
    refuse(&mut world, &["a", &foreign], "belongs to node");
    refuse(&mut world, &["a", "b", "a"], "named twice");
    std::os::unix::fs::symlink(world.dir("a"), world.dir("link")).unwrap();
    refuse(&mut world, &["a", "b", "link"], "same disk");
    // Of another cluster, whatever its node is called.
    let version = world.dir("b").join("VERSION");
    let text = std::fs::read_to_string(&version).unwrap();
    std::fs::write(&version, text.replace(POOL, "BP-of-others")).unwrap();
    refuse(&mut world, &["a", "b"], "BP-of-others");
    // One that cannot be read, nor its copy, is a disk that failed.
    std::fs::write(&version, "nonsense").unwrap();
    std::fs::write(world.dir("b").join("containers/VERSION"), "nonsense").unwrap();
    world.start(&["a", "b"]).unwrap();
    world.disks("it is told", |disks| disks.iter().any(|disk| disk.failure.contains("identity")));
}

/// A crash in the middle of a move leaves two equal replicas, packed or not.
#[test]
fn of_two_equal_replicas_one_goes() {
    let mut world = World::new(&["a", "b"]);
    world.write(0..20);
    world.cluster.stop(0);
    let (a, b) = (world.dir("a"), world.dir("b"));
    {
        let open = |dir: &Path| Volume::open(dir, Options::default()).unwrap();
        let (a, b) = (open(&a), open(&b));
        for (from, to) in [(&a, &b), (&b, &a)] {
            for info in from.replicas(BlockId(0), 3).unwrap() {
                let (identity, data) = (info.identity, data(info.identity.block.0));
                let mut sums = Vec::new();
                SPEC.compute(&data, &mut sums);
                to.put_whole(&SmallPut { identity, data: &data, sums: &sums }, true).unwrap();
            }
        }
        // And a stale one, of which the other disk has a newer.
        let first = a.replicas(BlockId(0), 1).unwrap()[0].identity;
        let stale = types::BlockId(1000);
        for (volume, generation) in [(&a, 5), (&b, 6)] {
            let identity = container::Identity { block: stale, generation: Generation(generation), ..first };
            let data = [generation as u8; 10];
            let mut sums = Vec::new();
            SPEC.compute(&data, &mut sums);
            volume.put_whole(&SmallPut { identity, data: &data, sums: &sums }, true).unwrap();
        }
    }
    assert!(count(&a) + count(&b) > 24);
    world.start(&["a", "b"]).unwrap();
    world.check(0..20);
    let all = |disks: &[Disk]| disks.iter().map(|disk| disk.replica_count).sum::<u64>();
    world.disks("one of each goes", |disks| all(disks) == 21);
    world.check(0..20);
    world.cluster.stop(0);
    assert_eq!(count(&a) + count(&b), 21);
    assert!(Volume::open(&b, Options::default()).unwrap().find(BlockId(1000)).unwrap().is_some());
}

#[test]
fn replicas_move_to_the_emptier_disk_when_that_is_asked_for() {
    let mut world = World::new(&["a"]);
    world.write(0..100);
    world.restart(&["a", "b"]);
    let disks = world.disks("both are there", |disks| disks.len() == 2);
    assert_eq!((disks[0].replica_count, disks[1].replica_count), (100, 0));
    // A long block's part of the disk that both directories share. Less would not end while others fill that disk: how
    // much is free differs between two looks at it.
    let within = PARTS * LONG as u128 / u128::from(disks[0].used_len + disks[0].free_len);
    let within = (within as u64).max(1);
    world.metad(|metad| {
        metad.balance = Some(DiskBalanceOrder { number: 7, len_per_s: 50_000_000, stop: false, within });
    });
    let report = || world.metad(|metad| metad.told.disk_balance.clone());
    eventually("it ends", || report().is_some_and(|report| report.number == 7 && report.ended));
    let report = report().unwrap();
    assert!(report.done_count >= 15 && report.failed_count == 0, "{report:?}");
    assert!(report.done_len > 3_000_000 && report.done_len <= report.total_len.max(report.done_len), "{report:?}");
    world.check(0..100);
    let all = |disks: &[Disk]| disks.iter().map(|disk| disk.replica_count).sum::<u64>();
    let disks = world.disks("nothing is there twice", |disks| all(disks) == 100);
    let uneven = disks[0].used_len.abs_diff(disks[1].used_len);
    assert!(uneven < 3 * LONG as u64, "{disks:?}");
    // Some may have gone back: here both directories share what is free, and others use it.
    assert!((15..=report.done_count).contains(&disks[1].replica_count), "{disks:?} {report:?}");
    world.restart(&["b", "a"]);
    world.check(0..100);
}
