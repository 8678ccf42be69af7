//! Readers on the datanode's own machine: they get descriptors over its Unix socket, as HDFS's client asks for them and
//! as ours does.

use crate::support::{Ask, Cluster, Connection, GENERATION, SPEC, base_header, block_proto, eventually, pattern};
use hdfs::proto::{self, BlockConstructionStage as Stage, TokenProto};
use prost::Message;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use wire::{Op, OpHeader, Status, delimited};

const LEN: usize = 700_000;
/// Packs take it.
const SMALL_LEN: usize = 1000;
const VALID: u64 = 1 << 63;
const SLOT_LEN: u64 = 64;

pub(crate) fn with_socket(config: &mut datad::Config) {
    config.domain_socket = Some(config.dir.with_extension("socket._PORT"));
}

/// A connection to the first node's Unix socket.
pub(crate) struct Local(UnixStream);

/// An answer, and what came with the byte behind it.
struct Answered<M> {
    message: M,
    byte: Option<u8>,
    files: Vec<File>,
}

impl Local {
    pub(crate) fn to(cluster: &Cluster) -> Self {
        let port = cluster.node(0).xfer_addr().port();
        let path = cluster.configs[0].domain_socket.as_ref().unwrap().to_str().unwrap();
        Self(UnixStream::connect(path.replace("_PORT", &port.to_string())).unwrap())
    }

    fn send(&mut self, op: Op, message: &impl Message) {
        let mut bytes = OpHeader { op }.encode().to_vec();
        delimited::put(message, &mut bytes);
        self.0.write_all(&bytes).unwrap();
    }

    fn receive<M: Message + Default>(&mut self, brings: impl Fn(&M) -> bool) -> Answered<M> {
        let (mut came, mut descriptors) = (Vec::new(), Vec::<OwnedFd>::new());
        loop {
            if let Some((message, len)) = delimited::split(&came, "answer", 1 << 20).unwrap() {
                let message = M::decode(message).unwrap();
                let byte = came.get(len).copied();
                if byte.is_some() || !brings(&message) {
                    let files = descriptors.into_iter().map(File::from).collect();
                    return Answered { message, byte, files };
                }
            }
            let mut bytes = [0; 4096];
            let len = io::descriptors::receive(&self.0, &mut bytes, &mut descriptors).unwrap();
            assert!(len > 0, "the node closed instead of an answer");
            came.extend_from_slice(&bytes[..len]);
        }
    }

    fn ask(&mut self, op: &proto::OpRequestShortCircuitAccessProto) -> Answered<proto::BlockOpResponseProto> {
        self.send(Op::RequestShortCircuitFds, op);
        self.receive(|answer: &proto::BlockOpResponseProto| answer.status == 0)
    }

    /// Has the node share memory, which is there as long as the connection is.
    fn share(&mut self) -> (proto::ShortCircuitShmIdProto, File) {
        let request = proto::ShortCircuitShmRequestProto { client_name: "client".into() };
        self.send(Op::RequestShortCircuitShm, &request);
        let mut answered = self.receive(|answer: &proto::ShortCircuitShmResponseProto| answer.status == 0);
        assert_eq!((answered.message.status, answered.byte, answered.files.len()), (0, Some(0), 1));
        (answered.message.id.unwrap(), answered.files.remove(0))
    }

    fn release(&mut self, slot: proto::ShortCircuitShmSlotProto) -> i32 {
        let request = proto::ReleaseShortCircuitAccessRequestProto { slot_id: slot };
        self.send(Op::ReleaseShortCircuitFds, &request);
        self.receive(|_: &proto::ReleaseShortCircuitAccessResponseProto| false).message.status
    }
}

fn ours(block: u64) -> proto::OpRequestShortCircuitAccessProto {
    proto::OpRequestShortCircuitAccessProto {
        header: base_header(block_proto(block, GENERATION, LEN as u64)),
        max_version: 1,
        as_stored: Some(true),
        ..Default::default()
    }
}

fn hdfs(block: u64, slot: Option<proto::ShortCircuitShmSlotProto>) -> proto::OpRequestShortCircuitAccessProto {
    proto::OpRequestShortCircuitAccessProto { slot_id: slot, as_stored: None, ..ours(block) }
}

fn slot(id: proto::ShortCircuitShmIdProto, index: i32) -> proto::ShortCircuitShmSlotProto {
    proto::ShortCircuitShmSlotProto { shm_id: id, slot_idx: index }
}

fn bytes_of(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn is_valid(memory: &File, index: u64) -> bool {
    let mut word = [0; 8];
    memory.read_exact_at(&mut word, index * SLOT_LEN).unwrap();
    u64::from_ne_bytes(word) & VALID != 0
}

/// What a client of HDFS gets for a block; it takes the slot before.
fn take(cluster: &Cluster, memory: &File, block: u64, slot: proto::ShortCircuitShmSlotProto) -> Vec<File> {
    memory.write_all_at(&VALID.to_ne_bytes(), slot.slot_idx as u64 * SLOT_LEN).unwrap();
    let answered = Local::to(cluster).ask(&hdfs(block, Some(slot)));
    assert_eq!(answered.message.status, 0, "{:?}", answered.message);
    assert_eq!(answered.message.short_circuit_access_version, Some(1));
    answered.files
}

/// The status of a request with this token, for [`crate::tokens`].
pub(crate) fn status(cluster: &Cluster, block: u64, token: &TokenProto) -> i32 {
    let mut sharing = Local::to(cluster);
    let (id, _memory) = sharing.share();
    let mut op = hdfs(block, Some(slot(id, 0)));
    op.header.token = Some(token.clone());
    Local::to(cluster).ask(&op).message.status
}

#[test]
fn our_client_is_told_where_the_socket_is_and_gets_the_files() {
    let cluster = Cluster::with(1, with_socket);
    cluster.write(&[0], 1, &pattern(1, LEN));
    let mut over_tcp = cluster.connect(0);
    over_tcp.send_op(Op::RequestShortCircuitFds, &ours(1));
    let said = over_tcp.answer();
    let path = said.local_replica.unwrap().socket_path.unwrap();
    assert!(std::path::Path::new(&path).exists(), "{path}");
    assert_eq!(over_tcp.read(1, 0, 10).unwrap(), pattern(1, 10), "the connection may go on");
    let mut local = Local::to(&cluster);
    for _again in 0..2 {
        let answered = local.ask(&ours(1));
        let said = answered.message.local_replica.unwrap();
        assert_eq!((said.len, said.checksum_kind, said.chunk_len), (Some(LEN as u64), Some(2), Some(512)));
        assert_eq!(bytes_of(&answered.files[0]), pattern(1, LEN));
        let (mut sums, stored) = (Vec::new(), bytes_of(&answered.files[1]));
        SPEC.compute(&pattern(1, LEN), &mut sums);
        assert_eq!(stored[said.sums_offset.unwrap() as usize..], sums);
        assert_eq!(said.last_sum.unwrap().to_be_bytes(), sums[sums.len() - 4..]);
        for file in &answered.files {
            assert!(file.write_at(b"x", 0).is_err() && file.set_len(0).is_err(), "it is for reading");
        }
    }
}

#[test]
fn a_node_without_a_socket_says_that_it_has_none() {
    let cluster = Cluster::new(1);
    let mut connection = cluster.connect(0);
    connection.send_op(Op::RequestShortCircuitFds, &ours(1));
    assert_eq!(connection.answer().status(), proto::Status::ErrorUnsupported);
}

#[test]
fn hdfs_client_gets_data_and_checksums_in_its_own_form() {
    let cluster = Cluster::with(1, with_socket);
    let mut sharing = Local::to(&cluster);
    let (id, memory) = sharing.share();
    for (block, len) in [(1, LEN), (2, SMALL_LEN), (3, SMALL_LEN)] {
        cluster.write(&[0], block, &pattern(block, len));
    }
    for (block, len) in [(1, LEN), (2, SMALL_LEN), (3, SMALL_LEN)] {
        let files = take(&cluster, &memory, block, slot(id, block as i32));
        // All that is there: nothing of the other block in the same pack.
        assert_eq!(bytes_of(&files[0]), pattern(block, len));
        let mut sums = vec![0, 1, 2, 0, 0, 2, 0];
        SPEC.compute(&pattern(block, len), &mut sums);
        assert_eq!(bytes_of(&files[1]), sums);
        for file in &files {
            assert!(file.write_at(b"x", 0).is_err() && file.set_len(0).is_err(), "it is for reading");
        }
    }
}

/// It reads them over TCP.
#[test]
fn what_cannot_be_passed_is_refused_by_itself() {
    let cluster = Cluster::with(1, with_socket);
    let mut sharing = Local::to(&cluster);
    let (id, _memory) = sharing.share();
    cluster.write(&[0], 1, &pattern(1, SMALL_LEN));
    let mut open = cluster.chain(&[0], &Ask::create(2)).unwrap();
    open.send(&pattern(2, SMALL_LEN));
    open.acked(0);
    let old = proto::OpRequestShortCircuitAccessProto { max_version: 0, ..hdfs(1, Some(slot(id, 1))) };
    let asked = [
        ("in a pack with others", ours(1)),
        ("being written", hdfs(2, Some(slot(id, 0)))),
        ("not there", hdfs(3, Some(slot(id, 0)))),
        ("without a slot", hdfs(1, None)),
        ("with a slot beyond the last", hdfs(1, Some(slot(id, 128)))),
        ("with a slot before the first", hdfs(1, Some(slot(id, -1)))),
        ("in a form that is not known", old),
    ];
    let mut local = Local::to(&cluster);
    for (what, op) in asked {
        let answered = local.ask(&op);
        assert_eq!(answered.message.status, i32::from(Status::ERROR_UNSUPPORTED.0), "{what}");
        assert_eq!(
            answered.message.short_circuit_access_version,
            Some(1),
            "{what}: or it would ask for no other either"
        );
        assert!(answered.files.is_empty());
    }
    // What was refused has taken no slot.
    assert_eq!(local.ask(&hdfs(1, Some(slot(id, 0)))).message.status, 0);
    assert_eq!(local.ask(&hdfs(1, Some(slot(id, 0)))).message.status, i32::from(Status::ERROR_UNSUPPORTED.0));
    assert_eq!((local.release(slot(id, 0)), local.release(slot(id, 0))), (0, 3));
    assert_eq!(local.ask(&hdfs(1, Some(slot(id, 0)))).message.status, 0);
}

/// A client keeps descriptors for minutes, and takes them for those of a younger generation, too.
#[test]
fn a_client_learns_that_a_replica_has_changed() {
    let cluster = Cluster::with(1, with_socket);
    let mut sharing = Local::to(&cluster);
    let (id, memory) = sharing.share();
    for block in [1, 2] {
        cluster.write(&[0], block, &pattern(block, LEN));
    }
    let files = take(&cluster, &memory, 1, slot(id, 1));
    take(&cluster, &memory, 2, slot(id, 2));
    assert!(is_valid(&memory, 1));
    let append = Ask::again(1, Stage::PipelineSetupAppend, GENERATION + 1, LEN as u64, LEN as u64);
    let mut chain = cluster.chain(&[0], &append).unwrap();
    assert!(!is_valid(&memory, 1) && is_valid(&memory, 2));
    chain.offset = LEN as u64 / 512 * 512;
    let both = [pattern(1, LEN), pattern(3, 1000)].concat();
    chain.send_all(&both[chain.offset as usize..]);
    chain.finish();
    let mut op = hdfs(1, Some(slot(id, 3)));
    op.header.block.generation_stamp = GENERATION + 1;
    let younger = Local::to(&cluster).ask(&op);
    assert_eq!(bytes_of(&younger.files[0]), both);
    // Who has the old ones reads what they were, with the checksums they had.
    let mut sums = vec![0, 1, 2, 0, 0, 2, 0];
    SPEC.compute(&pattern(1, LEN), &mut sums);
    assert_eq!(bytes_of(&files[1]), sums);
    assert_eq!(bytes_of(&files[0])[..LEN], pattern(1, LEN));
}

#[test]
fn a_client_that_ends_leaves_nothing_behind() {
    let mut cluster = Cluster::with(1, with_socket);
    cluster.write(&[0], 1, &pattern(1, LEN));
    let mut sharing = Local::to(&cluster);
    let (id, memory) = sharing.share();
    take(&cluster, &memory, 1, slot(id, 1));
    drop(sharing);
    eventually("the segment is gone", || {
        let mut local = Local::to(&cluster);
        local.release(slot(id, 1)) != 0 && local.ask(&hdfs(1, Some(slot(id, 2)))).message.status != 0
    });
    let mut idle = Local::to(&cluster);
    idle.share();
    let path = idle.0.peer_addr().unwrap().as_pathname().unwrap().to_owned();
    cluster.stop(0);
    assert!(!path.exists(), "nothing is left where nobody listens");
    cluster.start(0);
}

/// With the receipt the node waits for, the slot is the client's; of a client that ends before it is free again.
#[test]
fn a_client_that_asks_for_it_says_that_it_has_the_descriptors() {
    let cluster = Cluster::with(1, with_socket);
    cluster.write(&[0], 1, &pattern(1, LEN));
    let mut sharing = Local::to(&cluster);
    let (id, _memory) = sharing.share();
    let op = |index| proto::OpRequestShortCircuitAccessProto {
        supports_receipt_verification: Some(true),
        ..hdfs(1, Some(slot(id, index)))
    };
    let mut local = Local::to(&cluster);
    assert_eq!(local.ask(&op(1)).byte, Some(1));
    local.0.write_all(&[0]).unwrap();
    assert_eq!(local.release(slot(id, 1)), 0);
    let mut leaves = Local::to(&cluster);
    leaves.ask(&op(2));
    drop(leaves);
    eventually("the slot is free", || Local::to(&cluster).ask(&hdfs(1, Some(slot(id, 2)))).message.status == 0);
}

#[test]
fn the_other_operations_are_served_there_as_over_tcp() {
    let cluster = Cluster::with(1, with_socket);
    cluster.write(&[0], 1, &pattern(1, LEN));
    let mut connection = Connection::over(std::net::TcpStream::from(OwnedFd::from(Local::to(&cluster).0)));
    assert_eq!(connection.read(1, 5, 10).unwrap(), pattern(1, LEN)[5..15]);
    let mut over_tcp = cluster.connect(0);
    over_tcp.send_op(Op::RequestShortCircuitShm, &proto::ShortCircuitShmRequestProto { client_name: "c".into() });
    assert_eq!(over_tcp.answer().status(), proto::Status::ErrorUnsupported);
}

/// Descriptors and bytes that nobody asked for.
#[test]
fn a_stranger_at_the_socket_harms_nobody() {
    let cluster = Cluster::with(1, with_socket);
    cluster.write(&[0], 1, &pattern(1, LEN));
    let file = tempfile::tempfile().unwrap();
    for seed in 0..40 {
        let local = Local::to(&cluster);
        let bytes = [vec![0, 28, 87 + (seed % 3) as u8], pattern(seed, 2000)].concat();
        let _closed_early = io::descriptors::send(&local.0, &bytes, &[file.as_fd(), file.as_fd()]);
        let _shut = local.0.shutdown(std::net::Shutdown::Write);
    }
    eventually("all transfers end", || cluster.node(0).transfer_count() == 0);
    assert_eq!(Local::to(&cluster).ask(&ours(1)).message.status, 0);
}
