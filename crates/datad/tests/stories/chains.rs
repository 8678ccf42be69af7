//! Chains of real datanodes: written, broken, recovered, and read back from every node.

use crate::support::{
    Ask, Chain, Cluster, GENERATION, PACKET_LEN, block_proto, chain, eventually, header, info, pattern,
};
use hdfs::proto::{self, BlockConstructionStage as Stage};
use types::{ChecksumKind, ChecksumSpec};
use wire::{Op, PacketHeader, PipelineAck, Status};

#[test]
fn a_block_written_through_three_nodes_is_read_from_each() {
    let cluster = Cluster::new(3);
    for (block, len) in [(1, 0), (2, 1), (3, 511), (4, 512), (5, 70_000), (6, 3_000_001)] {
        let data = pattern(block, len);
        cluster.write(&[0, 1, 2], block, &data);
        for node in 0..3 {
            assert!(cluster.read(node, block, 0, len as u64).unwrap() == data, "block {block} on node {node}");
        }
    }
    // One connection serves one read after another.
    let (data, mut connection) = (pattern(6, 3_000_001), cluster.connect(1));
    for (offset, len) in [(0, 1), (511, 2), (1_000_000, 600_000), (262_143, 2), (3_000_000, 1), (512, 512), (7, 0)] {
        let read = connection.read(6, offset, len).unwrap();
        assert!(read == data[offset as usize..(offset + len) as usize], "{len} bytes at {offset}");
    }
}

#[test]
fn other_checksums_and_chunks_are_kept() {
    let cluster = Cluster::new(2);
    let specs = [
        (ChecksumKind::Crc32, 512),
        (ChecksumKind::Crc32c, 4096),
        (ChecksumKind::Null, 512),
        (ChecksumKind::Crc32c, 1),
    ];
    for (block, (kind, chunk_len)) in (1..).zip(specs) {
        let spec = ChecksumSpec::new(kind, chunk_len).unwrap();
        let data = pattern(block, 200_000);
        let mut chain = cluster.chain(&[0, 1], &Ask { spec, ..Ask::create(block) }).unwrap();
        for piece in data.chunks(65_536) {
            chain.send(piece);
            chain.acked(chain.seqno - 1);
        }
        chain.finish();
        assert!(cluster.read(1, block, 0, 200_000).unwrap() == data, "{spec:?}");
        assert!(cluster.read(0, block, 70_001, 5000).unwrap() == data[70_001..75_001], "{spec:?}");
    }
}

#[test]
fn a_large_packet_and_one_without_checksums_are_taken() {
    let cluster = Cluster::new(2);
    let data = pattern(9, 5 << 20);
    let mut chain = cluster.chain(&[0, 1], &Ask::create(9)).unwrap();
    chain.send(&data[..4 << 20]);
    let header = PacketHeader { offset: 4 << 20, seqno: 1, data_len: 1 << 20, ..PacketHeader::default() };
    chain.packet(header, Some(&[]), &data[4 << 20..]);
    (chain.seqno, chain.offset) = (2, 5 << 20);
    chain.acked(0);
    chain.acked(1);
    chain.finish();
    assert!(cluster.read(1, 9, 0, 5 << 20).unwrap() == data);
}

/// hflush in mid-chunk: readers see it, and the chunk comes again with more in it. hdfs-native goes on from the middle.
#[test]
fn what_is_flushed_is_seen_while_the_writer_goes_on() {
    let cluster = Cluster::new(3);
    let data = pattern(7, 10_000);
    let mut chain = cluster.chain(&[0, 1, 2], &Ask::create(7)).unwrap();
    chain.send(&data[..1000]);
    chain.acked(0);
    chain.heartbeat();
    chain.acked(PacketHeader::HEARTBEAT);
    for node in 0..3 {
        assert!(cluster.read(node, 7, 0, 1000).unwrap() == data[..1000]);
    }
    chain.send_at(512, &data[512..3000], false);
    chain.acked(1);
    chain.send_at(3000, &data[3000..3072], true); // to the chunk's end, not aligned, and on disk
    chain.acked(2);
    chain.send_at(3072, &[], true);
    chain.acked(3);
    assert!(cluster.read(2, 7, 100, 2972).unwrap() == data[100..3072]);
    chain.send_at(3072, &data[3072..], false);
    chain.acked(4);
    chain.finish();
    for node in 0..3 {
        assert!(cluster.read(node, 7, 0, 10_000).unwrap() == data);
    }
}

/// After some megabytes without a pause each node sleeps until several packets are here; and then comes a small one,
/// whose ack is waited for.
#[test]
fn who_waits_for_an_ack_behind_many_bytes_gets_it() {
    let cluster = Cluster::new(3);
    let data = pattern(10, 16 << 20);
    let mut chain = cluster.chain(&[0, 1, 2], &Ask::create(10)).unwrap();
    for megabytes in [3, 5, 16] {
        let from = chain.offset as usize;
        chain.send_all(&data[from..(megabytes << 20) - 3072]);
        for _ in 0..3 {
            let from = chain.offset as usize;
            chain.send(&data[from..from + 1024]);
            chain.acked(chain.seqno - 1);
        }
    }
    chain.finish();
    for node in 0..3 {
        assert!(cluster.read(node, 10, 0, 16 << 20).unwrap() == data);
    }
}

/// Sends until an ack tells of a failure, or the connection ends; says which node of the chain is to blame.
fn send_until_failure(chain: &mut Chain, data: &[u8]) -> (u64, usize) {
    let (first, start) = (chain.seqno, chain.offset);
    loop {
        let at = chain.offset as usize;
        chain.send(&data[at..at + PACKET_LEN]);
        let ack = chain.ack();
        let bad = match &ack {
            None => Some(0),
            Some(ack) => ack.replies.iter().rposition(|reply| *reply != Status::SUCCESS),
        };
        if let Some(bad) = bad {
            let acked = start + (chain.seqno - first - 1) as u64 * PACKET_LEN as u64;
            return (acked, bad);
        }
    }
}

#[test]
fn a_node_that_dies_in_mid_stream_is_named_and_the_others_go_on() {
    for dying in [1, 2] {
        let mut cluster = Cluster::new(3);
        let data = pattern(8, 6_000_000);
        let mut chain = cluster.chain(&[0, 1, 2], &Ask::create(8)).unwrap();
        chain.send_all(&data[..PACKET_LEN * 5]);
        cluster.stop(dying);
        let (acked, bad) = send_until_failure(&mut chain, &data);
        assert_eq!(bad, dying);
        let left: Vec<usize> = (0..3).filter(|node| *node != dying).collect();
        let stage = Stage::PipelineSetupStreamingRecovery;
        let ask = Ask::again(8, stage, GENERATION + 1, acked, chain.offset);
        let mut chain = cluster.chain(&left, &ask).unwrap();
        chain.seqno = 50; // packets keep their numbers
        chain.send_all(&data[acked as usize..]);
        chain.finish();
        for node in left {
            assert!(cluster.read(node, 8, 0, 6_000_000).unwrap() == data);
        }
    }
}

#[test]
fn a_writer_that_dies_leaves_what_was_acknowledged() {
    let cluster = Cluster::new(2);
    let data = pattern(3, 500_000);
    let mut chain = cluster.chain(&[0, 1], &Ask::create(3)).unwrap();
    chain.send_all(&data[..PACKET_LEN * 4]);
    drop(chain);
    let acked = PACKET_LEN as u64 * 4;
    for node in 0..2 {
        assert!(cluster.read(node, 3, 0, acked).unwrap() == data[..acked as usize]);
        eventually("its streams end", || cluster.node(node).transfer_count() == 0);
    }
    // Its successor goes on where it stopped, and the old generation is shut out.
    let ask = Ask::again(3, Stage::PipelineSetupStreamingRecovery, GENERATION + 1, acked, acked);
    let mut chain = cluster.chain(&[0, 1], &ask).unwrap();
    chain.send_all(&data[acked as usize..]);
    assert!(cluster.chain(&[0, 1], &Ask::create(3)).is_err());
    chain.finish();
    assert!(cluster.read(1, 3, 0, 500_000).unwrap() == data);
}

/// The old writer still has its connections when its block is recovered under a new generation.
#[test]
fn a_writer_that_was_overtaken_writes_nothing_more() {
    let cluster = Cluster::new(1);
    let data = pattern(4, 4 * PACKET_LEN);
    let mut old = cluster.chain(&[0], &Ask::create(4)).unwrap();
    old.send(&data[..PACKET_LEN]);
    old.acked(0);
    let len = PACKET_LEN as u64;
    let ask = Ask::again(4, Stage::PipelineSetupStreamingRecovery, GENERATION + 1, len, len);
    let mut new = cluster.chain(&[0], &ask).unwrap();
    old.send(&pattern(99, PACKET_LEN));
    assert_eq!(old.ack(), None);
    new.send_all(&data[PACKET_LEN..]);
    new.finish();
    assert!(cluster.read(0, 4, 0, 4 * len).unwrap() == data);
}

#[test]
fn a_node_out_of_reach_is_named_as_the_client_wrote_it() {
    let mut cluster = Cluster::new(3);
    let gone = cluster.info(2);
    cluster.stop(2);
    let text = format!("127.0.0.1:{}", gone.id.xfer_port);
    let refused = chain(cluster.connect(0), vec![cluster.info(1), gone], &Ask::create(5)).err().unwrap();
    assert_eq!((refused.status, refused.first_bad_link()), (1, text.as_str()));
    let mut nowhere = info(cluster.node(1).xfer_addr());
    nowhere.id.ip_addr = "no address".into();
    let refused = chain(cluster.connect(0), vec![nowhere], &Ask::create(5)).err().unwrap();
    assert!(refused.first_bad_link().starts_with("no address:"));
    // The block was abandoned on all nodes, so the same id is free.
    cluster.write(&[0, 1], 5, b"now");
}

/// The node below refuses for itself and names nobody: then it is the one.
#[test]
fn a_node_below_that_refuses_is_named() {
    let cluster = Cluster::new(2);
    cluster.write(&[1], 5, b"in the way");
    let refused = cluster.chain(&[0, 1], &Ask::create(5)).err().unwrap();
    assert_eq!(refused.first_bad_link(), cluster.node(1).xfer_addr().to_string());
    assert!(refused.message().contains("exists already"), "{refused:?}");
    let refused = cluster.chain(&[1, 0], &Ask::create(5)).err().unwrap();
    assert_eq!(refused.first_bad_link(), "");
}

/// As hdfs-native does: it streams on whatever the answer says, learns from an ack who is to blame, has a node put in
/// its place, and goes on with nodes that never heard of the block.
#[test]
fn who_does_not_read_the_answer_learns_from_an_ack_and_goes_on_with_the_others() {
    let mut cluster = Cluster::new(4);
    let gone = cluster.info(1);
    cluster.stop(1);
    let mut connection = cluster.connect(0);
    connection.send_op(Op::WriteBlock, &Ask::create(4).op(vec![gone, cluster.info(2)]));
    assert_eq!(connection.answer().status, 1);
    let ack = connection.ack().expect("an ack behind the answer");
    assert_eq!(ack.replies, [Status::SUCCESS, Status::ERROR]);
    let copy = proto::OpTransferBlockProto {
        header: header(block_proto(4, GENERATION, 70_000)),
        targets: vec![cluster.info(3)],
        target_storage_types: vec![1],
        ..Default::default()
    };
    let mut connection = cluster.connect(2);
    connection.send_op(Op::TransferBlock, &copy);
    assert_eq!(connection.answer().status, 0, "there is nothing to copy");
    let ask = Ask::again(4, Stage::PipelineSetupStreamingRecovery, GENERATION + 1, 0, 70_000);
    let mut chain = cluster.chain(&[0, 2, 3], &ask).unwrap();
    let data = pattern(4, 70_000);
    chain.send_all(&data);
    chain.finish();
    for node in [0, 2, 3] {
        assert!(cluster.read(node, 4, 0, 70_000).unwrap() == data);
    }
    // Who has acknowledged bytes to look for finds out that they are not there.
    let ask = Ask::again(5, Stage::PipelineSetupStreamingRecovery, GENERATION + 1, 1, 70_000);
    assert!(cluster.chain(&[0], &ask).err().unwrap().message().contains("not on this volume"));
}

#[test]
fn bytes_that_do_not_match_are_told_by_the_first_that_sees_them() {
    let cluster = Cluster::new(3);
    let data = pattern(6, PACKET_LEN);
    let mut chain = cluster.chain(&[0, 1, 2], &Ask::create(6)).unwrap();
    chain.send(&data);
    chain.acked(0);
    let header = PacketHeader { offset: PACKET_LEN as i64, seqno: 1, data_len: 512, ..PacketHeader::default() };
    chain.packet(header, Some(&[1, 2, 3, 4]), &data[..512]);
    assert_eq!(chain.ack(), Some(PipelineAck { seqno: 1, replies: vec![Status::ERROR_CHECKSUM] }));
    assert_eq!(chain.ack(), None);
    assert!(cluster.read(0, 6, 0, PACKET_LEN as u64).unwrap() == data, "what was acknowledged stays");
}

#[test]
fn a_replica_grows_by_append() {
    let cluster = Cluster::new(2);
    let data = pattern(2, 5000);
    cluster.write(&[0, 1], 2, &data[..1000]);
    let ask = Ask::again(2, Stage::PipelineSetupAppend, GENERATION + 1, 1000, 1000);
    let mut chain = cluster.chain(&[0, 1], &ask).unwrap();
    chain.send_at(1000, &data[1000..1024], false);
    chain.acked(0);
    chain.send(&data[1024..]);
    chain.acked(1);
    chain.finish();
    assert!(cluster.read(1, 2, 0, 5000).unwrap() == data);
    // hdfs-native appends under the block's own generation.
    let ask =
        Ask { generation: GENERATION + 1, ..Ask::again(2, Stage::PipelineSetupAppend, GENERATION + 1, 5000, 5000) };
    let mut chain = cluster.chain(&[0, 1], &ask).unwrap();
    chain.send_at(5000, b"!", false);
    chain.acked(0);
    chain.finish();
    assert_eq!(cluster.read(0, 2, 5000, 1).unwrap(), b"!");
    let ask = Ask::again(2, Stage::PipelineSetupAppend, GENERATION + 9, 7, 7);
    assert!(cluster.chain(&[0, 1], &ask).is_err(), "of another length");
}

/// Its packets are covered as the client likes it, the replica stays as it began.
#[test]
fn an_append_may_bring_other_checksums() {
    let cluster = Cluster::new(2);
    let data = pattern(2, 50_000);
    let crc32 = ChecksumSpec::new(ChecksumKind::Crc32, 512).unwrap();
    let mut chain = cluster.chain(&[0, 1], &Ask { spec: crc32, ..Ask::create(2) }).unwrap();
    chain.send(&data[..1000]);
    chain.acked(0);
    chain.finish();
    let spec = ChecksumSpec::new(ChecksumKind::Crc32c, 1000).unwrap();
    let ask = Ask { spec, ..Ask::again(2, Stage::PipelineSetupAppend, GENERATION + 1, 1000, 1000) };
    let mut chain = cluster.chain(&[0, 1], &ask).unwrap();
    for (seqno, range) in (0..).zip([1000..9500, 9000..20_000, 20_000..50_000]) {
        chain.send_at(range.start as u64, &data[range], false);
        chain.acked(seqno);
    }
    chain.finish();
    for node in 0..2 {
        assert!(cluster.read(node, 2, 0, 50_000).unwrap() == data);
    }
}

#[test]
fn when_only_the_last_ack_was_lost_the_setup_closes_the_block() {
    let mut cluster = Cluster::new(3);
    let data = pattern(2, 300_000);
    let mut chain = cluster.chain(&[0, 1, 2], &Ask::create(2)).unwrap();
    chain.send_all(&data);
    cluster.stop(2);
    chain.send_last();
    let bad = vec![Status::SUCCESS, Status::SUCCESS, Status::ERROR];
    assert_eq!(chain.ack(), Some(PipelineAck { seqno: chain.seqno - 1, replies: bad }));
    let len = data.len() as u64;
    let ask = Ask::again(2, Stage::PipelineCloseRecovery, GENERATION + 1, len, len);
    let mut closed = cluster.chain(&[0, 1], &ask).unwrap();
    assert!(closed.connection.is_closed());
    for node in 0..2 {
        assert!(cluster.read(node, 2, 0, len).unwrap() == data);
        // Finalized, so it can be appended to.
        let ask =
            Ask { generation: GENERATION + 1, ..Ask::again(2, Stage::PipelineSetupAppend, GENERATION + 2, len, len) };
        assert!(cluster.chain(&[node], &ask).is_ok());
    }
}

#[test]
fn what_was_put_is_there_after_a_restart() {
    let mut cluster = Cluster::new(1);
    let data = pattern(1, 1_000_000);
    cluster.write(&[0], 1, &data);
    cluster.write(&[0], 2, &data[..100]);
    let mut open = cluster.chain(&[0], &Ask::create(3)).unwrap();
    open.send_all(&data[..1000]);
    cluster.stop(0);
    cluster.start(0);
    assert!(cluster.read(0, 1, 0, 1_000_000).unwrap() == data);
    assert!(cluster.read(0, 2, 0, 100).unwrap() == data[..100]);
    let refused = cluster.read(0, 3, 0, 10).unwrap_err();
    assert!(refused.message().contains("waiting for recovery"), "{refused:?}");
}
