//! One of two disks hangs, or is full. To hang, some files of it are pipes: whoever opens one waits until somebody
//! comes to the other end. To be full it is a small file system of its own.

use crate::support::metad::{Metad, Notes};
use crate::support::{Cluster, Connection, GENERATION, eventually, make_pipe, pattern};
use container::{Options, Volume};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use types::BlockId;
use wire::node::*;
use wire::tree::{TREE, TreeRequest, TreeResponse};

const LEN: usize = 300_000;
/// Those that a chain of tests writes are at home nowhere, and lie where they were born.
const SHELF: &str = "0";

/// A node with the disks a and b, and another that knows no metadata server.
struct World {
    cluster: Cluster,
    metad: Metad,
    pipes: Vec<PathBuf>,
}

impl World {
    fn new() -> Self {
        Self::with(|_| {})
    }

    /// The order to copy blocks from the other node, in place of what is here if it `replaces`.
    fn copies(&self, blocks: &[u64], replaces: bool) -> Vec<CopyOrder> {
        let other = self.cluster.node(1);
        let source = Source { node: other.node_id().to_string(), addr: other.xfer_addr().to_string() };
        let copy = |block: &u64| CopyOrder {
            token: None,
            block: *block,
            generation: GENERATION,
            len: LEN as u64,
            sources: vec![source.clone()],
            replaces,
            ..CopyOrder::default()
        };
        blocks.iter().map(copy).collect()
    }

    /// `prepare` is shown the directory in which those of the disks will be.
    fn with(prepare: impl Fn(&Path)) -> Self {
        let metad = Metad::start();
        let addr = metad.addr();
        let cluster = Cluster::with(2, |config| {
            if config.dir.ends_with("0") {
                let dir = config.dir.parent().unwrap().to_owned();
                prepare(&dir);
                (config.dir, config.dirs) = (PathBuf::new(), vec![dir.join("a"), dir.join("b")]);
                config.metad.clone_from(&addr);
                config.limits.disk_answer_ms = 5000;
            }
        });
        cluster.runtime.block_on(cluster.node(0).registered());
        Self { cluster, metad, pipes: Vec::new() }
    }

    fn metad<T>(&self, look: impl FnOnce(&mut Notes) -> T) -> T {
        self.metad.notes(look)
    }

    fn dir(&self, disk: &str) -> PathBuf {
        self.cluster.dir().join(disk)
    }

    /// Writes these blocks; answers those on disk a, and those on b. Nothing is under way there any more.
    fn write(&mut self, blocks: std::ops::Range<u64>) -> (Vec<u64>, Vec<u64>) {
        blocks.for_each(|block| self.cluster.write(&[0], block, &pattern(block, LEN)));
        self.cluster.stop(0);
        let of = |disk| {
            let volume = Volume::open(&self.dir(disk), Options::default()).unwrap();
            let there = volume.replicas(BlockId(0), 1000).unwrap();
            there.iter().map(|info| info.identity.block.0).collect()
        };
        let there = (of("a"), of("b"));
        self.cluster.start(0);
        self.cluster.runtime.block_on(self.cluster.node(0).registered());
        there
    }

    /// Puts a pipe in the place of a file, if there is one; nobody finds neither.
    fn pipe(&mut self, path: PathBuf) {
        let beside = self.cluster.dir().join("pipe");
        make_pipe(&beside);
        std::fs::rename(&beside, &path).unwrap();
        self.pipes.push(path);
    }

    /// From now on whoever puts or deletes something on disk a waits.
    fn hang_changes(&mut self) {
        self.pipe(self.dir("a").join("ahead").join(SHELF));
    }

    /// Looks at disk a wait, too.
    fn hang_looks(&mut self) {
        self.pipe(self.dir("a").join("VERSION"));
    }

    fn hang_read(&mut self, block: u64) {
        self.pipe(self.dir("a").join("containers").join(SHELF).join(format!("{block}.data")));
    }

    fn check(&self, blocks: &[u64]) {
        for block in blocks {
            let read = self.cluster.read(0, *block, 0, LEN as u64).unwrap_or_else(|refused| panic!("{refused:?}"));
            assert!(read == pattern(*block, LEN), "block {block}");
        }
    }

    fn is_declared_failed(&self) -> bool {
        self.metad(|metad| metad.told.disks.iter().any(|disk| disk.failure.contains("not answered")))
    }
}

/// The other ends of the pipes come, and who comes later finds none: those that waited go on, to nonsense or the end.
fn wake(pipes: &[PathBuf]) {
    for pipe in pipes {
        let both_ends = std::fs::OpenOptions::new().read(true).write(true).open(pipe).unwrap();
        std::fs::remove_file(pipe).unwrap();
        io::task::sleep(Duration::from_millis(50));
        drop(both_ends);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        wake(&self.pipes);
    }
}

fn deletions(blocks: &[u64]) -> Vec<Deletion> {
    blocks.iter().map(|block| Deletion { block: *block, generation_at_most: GENERATION }).collect()
}

/// Files were deleted whose replicas are on both disks.
#[test]
fn deletions_of_other_disks_go_on() {
    let mut world = World::new();
    let (on_a, on_b) = world.write(0..16);
    assert!(on_a.len() > 3 && on_b.len() > 3, "{on_a:?} {on_b:?}");
    world.hang_changes();
    world.metad(|metad| metad.delete = deletions(&on_a[..2]));
    eventually("they hang", || world.metad(|metad| metad.told.deletions_waiting == 2));
    world.metad(|metad| metad.delete = deletions(&[&on_a[..], &on_b[1..]].concat()));
    let left = |world: &World| world.cluster.read(0, *on_b.last().unwrap(), 0, LEN as u64).is_ok();
    eventually("those on b go", || !left(&world));
    world.check(&on_b[..1]);
    world.check(&on_a[3..4]);
    // Once it is given up there is nothing to delete there any more.
    world.hang_looks();
    eventually("it is declared failed", || world.is_declared_failed());
    eventually("nothing waits", || world.metad(|metad| metad.told.deletions_waiting == 0));
}

/// As many read what hangs as the disk may hold threads, and some more. Those are told to go elsewhere, and who wants
/// something of the other disk notices nothing.
#[test]
fn reads_that_hang_hold_a_share_of_the_threads() {
    let mut world = World::new();
    let (on_a, on_b) = world.write(0..16);
    world.hang_read(on_a[0]);
    let ask = |_| {
        let mut connection = world.cluster.connect(0);
        connection.send_read(on_a[0], 0, LEN as u64);
        connection
    };
    let mut waiting: Vec<Connection> = (0..70).map(ask).collect();
    world.check(&on_b);
    // 64 threads are held, and six are told so.
    let told = |connection: &&mut Connection| {
        connection.socket.set_nonblocking(true).unwrap();
        let told = matches!(connection.socket.peek(&mut [0]), Ok(1));
        connection.socket.set_nonblocking(false).unwrap();
        told
    };
    eventually("some are told", || waiting.iter_mut().filter(told).count() == 6);
    assert!(waiting.iter_mut().find(told).unwrap().answer().message().contains("try another node"));
    world.check(&on_b);
    let before = world.metad(|metad| metad.beats);
    eventually("it lives", || world.metad(|metad| metad.beats) > before + 1);
    // When the disk is given up, nobody waits for it any more.
    world.hang_looks();
    eventually("it is declared failed", || world.is_declared_failed());
    eventually("all are told", || waiting.iter_mut().filter(told).count() == 69);
    world.check(&on_b);
}

/// A disk hangs while the node copies what it lacks: what was on its way there is ordered again, and goes to the other
/// one.
#[test]
fn copies_go_on_beside_a_disk_that_hangs() {
    let mut world = World::new();
    world.write(0..2);
    let blocks: Vec<u64> = (100..130).collect();
    blocks.iter().for_each(|block| world.cluster.write(&[1], *block, &pattern(*block, LEN)));
    world.hang_changes();
    let copies = world.copies(&blocks, false);
    world.metad(|metad| metad.copy = copies);
    // All threads wait for it.
    eventually("copies begin", || world.metad(|metad| !metad.told.copying.is_empty()));
    world.hang_looks();
    eventually("it is declared failed", || world.is_declared_failed());
    eventually("all are copied", || world.metad(|metad| blocks.iter().all(|block| metad.put.contains(block))));
    world.check(&blocks);
    assert!(world.metad(|metad| metad.told.copying.is_empty()));
}

/// All is to be read, and one replica of disk a hangs its reader: the scrub ends without what else is there, and so
/// does the next one.
#[test]
fn a_scrub_goes_on_without_a_disk_that_was_given_up() {
    let mut world = World::new();
    let (on_a, _) = world.write(0..16);
    world.hang_read(on_a[0]);
    let order = |number| Some(ScrubOrder { number, len_per_s: 0, stop: false });
    let report = |world: &World| world.metad(|metad| metad.told.scrub).unwrap_or_default();
    world.metad(|metad| metad.scrub = order(1));
    eventually("it begins", || report(&world).total_count == 16);
    assert!(!report(&world).ended);
    world.hang_looks();
    eventually("it is declared failed", || world.is_declared_failed());
    eventually("it ends", || report(&world).ended);
    assert_eq!((report(&world).number, report(&world).bad_count), (1, 0));
    world.metad(|metad| metad.scrub = order(2));
    eventually("the next one", || report(&world).number == 2 && report(&world).ended);
}

/// A hash tree is asked for, and one replica hangs who makes it.
#[test]
fn hash_trees_are_made_without_a_disk_that_was_given_up() {
    let mut world = World::new();
    let (on_a, on_b) = world.write(0..16);
    let tree = |world: &World| -> TreeResponse {
        let addr = world.cluster.node(0).ipc_addr().to_string();
        let client = rpc::Client::new(addr, "test".into(), REPLICA_PROTOCOL);
        world.cluster.runtime.block_on(client.call(TREE, &TreeRequest::default())).unwrap()
    };
    world.hang_read(on_a[0]);
    assert!(tree(&world).building);
    world.hang_looks();
    eventually("it is declared failed", || world.is_declared_failed());
    eventually("it is made", || !tree(&world).building);
    assert_eq!(tree(&world).root.unwrap().count, on_b.len() as u64);
}

/// Replicas are to move off disk a, and each hangs who reads it.
#[test]
fn balancing_ends_when_a_disk_is_declared_failed() {
    let mut world = World::new();
    let (on_a, on_b) = world.write(0..16);
    world.metad(|metad| metad.delete = deletions(&on_b[1..]));
    eventually("b is emptier", || world.cluster.read(0, *on_b.last().unwrap(), 0, LEN as u64).is_err());
    on_a.iter().for_each(|block| world.hang_read(*block));
    let order = |number| Some(DiskBalanceOrder { number, len_per_s: 0, stop: false, within: 1 });
    let report = |world: &World| world.metad(|metad| metad.told.disk_balance.clone()).unwrap_or_default();
    world.metad(|metad| metad.balance = order(1));
    eventually("it begins", || report(&world).total_len > 0);
    assert!(!report(&world).ended);
    world.hang_looks();
    eventually("it is declared failed", || world.is_declared_failed());
    eventually("it ends", || report(&world).ended);
    assert!(report(&world).note.contains("does not answer"), "{:?}", report(&world));
    world.metad(|metad| metad.balance = order(2));
    eventually("the next one", || report(&world).number == 2 && report(&world).ended);
    world.check(&on_b[..1]);
}

/// It is asked to end while threads wait for a disk, of which nobody has noticed yet that it hangs.
#[test]
fn a_node_with_a_disk_that_hangs_ends_when_it_is_asked_to() {
    let mut world = World::new();
    let (on_a, on_b) = world.write(0..16);
    world.hang_changes();
    world.metad(|metad| metad.delete = deletions(&[&on_a[..2], &on_b[..2]].concat()));
    eventually("they hang", || world.metad(|metad| metad.told.deletions_waiting == 2));
    let (pipes, is_late) = (std::mem::take(&mut world.pipes), Arc::new(AtomicBool::new(false)));
    let (ended, end) = std::sync::mpsc::channel::<()>();
    let late = Arc::clone(&is_late);
    let waker = io::task::thread("wake", move || {
        let waited = end.recv_timeout(Duration::from_secs(40));
        late.store(waited == Err(RecvTimeoutError::Timeout), Ordering::Relaxed);
        wake(&pipes);
    });
    world.cluster.stop(0);
    drop(ended);
    waker.unwrap().join().unwrap();
    assert!(!is_late.load(Ordering::Relaxed), "it waited for the disk");
    // The other one was closed as it should be: it is not looked through at the next start.
    assert_eq!(std::fs::read_dir(world.dir("b").join("ahead")).unwrap().count(), 0);
}

/// A small file system in memory.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _it_goes_later = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Replicas on a full disk are damaged: good copies take their place, on the disk that has room.
#[test]
fn what_is_damaged_on_a_full_disk_is_replaced_on_another() {
    let mounted = Mutex::new(None);
    let mut world = World::with(|dir| {
        let at = dir.join("a");
        std::fs::create_dir(&at).unwrap();
        let tmpfs = ["-t", "tmpfs", "-o", "size=64m", "none"];
        let done = std::process::Command::new("mount").args(tmpfs).arg(&at).status();
        *mounted.lock().unwrap() = done.is_ok_and(|status| status.success()).then_some(Mounted(at));
    });
    if mounted.lock().unwrap().is_none() {
        eprintln!("not tested: no file system can be mounted here");
        return;
    }
    // It has all that was written before the other one came.
    (0..10).for_each(|block| world.cluster.write(&[1], block, &pattern(block, LEN)));
    world.cluster.stop(0);
    let dirs = std::mem::take(&mut world.cluster.configs[0].dirs);
    world.cluster.configs[0].dirs = dirs[..1].to_vec();
    std::fs::remove_dir_all(&dirs[1]).unwrap();
    world.cluster.start(0);
    (0..10).for_each(|block| world.cluster.write(&[0], block, &pattern(block, LEN)));
    world.cluster.stop(0);
    world.cluster.configs[0].dirs = dirs;
    world.cluster.start(0);
    world.cluster.runtime.block_on(world.cluster.node(0).registered());
    let on_a: Vec<u64> = (0..10).collect();
    let (damaged, whole) = on_a.split_at(3);
    for block in damaged {
        let path = world.dir("a").join("containers").join(SHELF).join(format!("{block}.data"));
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[LEN / 2] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    let ballast = std::fs::File::create(world.dir("a").join("ballast")).unwrap();
    while std::os::unix::fs::FileExt::write_at(&ballast, &[1; 1 << 16], ballast.metadata().unwrap().len()).is_ok() {}
    let has_seen =
        |told: &HeartbeatRequest| told.disks.iter().any(|disk| disk.dir.ends_with("a") && disk.free_len == 0);
    eventually("it is full", || world.metad(|metad| has_seen(&metad.told)));
    let copies = world.copies(damaged, true);
    world.metad(|metad| {
        metad.put.clear();
        metad.copy = copies;
    });
    eventually("they are replaced", || world.metad(|metad| damaged.iter().all(|block| metad.put.contains(block))));
    world.check(damaged);
    world.check(whole);
    world.cluster.stop(0);
    let there = |disk: &str| {
        let volume = Volume::open(&world.dir(disk), Options::default()).unwrap();
        volume.replicas(BlockId(0), 1000).unwrap().into_iter().map(|info| info.identity.block.0).collect::<Vec<_>>()
    };
    assert_eq!(there("a"), whole);
    assert_eq!(there("b"), damaged);
}
