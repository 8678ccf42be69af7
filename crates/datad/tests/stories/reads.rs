//! Reading, digests and copies: what a client of each kind asks of one or two nodes.

use crate::support::{Ask, Cluster, GENERATION, PACKET_LEN, base_header, block_proto, eventually, header, pattern};
use hdfs::proto::{self, BlockChecksumTypeProto, BlockConstructionStage as Stage};
use md5::Digest;
use std::io::Write;
use types::ChecksumKind;
use wire::Op;

#[test]
fn a_reader_that_wants_no_checksums_gets_none() {
    let cluster = Cluster::new(1);
    let data = pattern(1, 700_000);
    cluster.write(&[0], 1, &data);
    let mut connection = cluster.connect(0);
    let header = header(block_proto(1, GENERATION, 0));
    let op = proto::OpReadBlockProto {
        header,
        offset: 1000,
        len: 600_000,
        send_checksums: Some(false),
        ..Default::default()
    };
    connection.send_op(Op::ReadBlock, &op);
    assert!(connection.receive_read(1000, 600_000).unwrap() == data[1000..601_000]);
}

#[test]
fn what_is_not_here_is_refused_with_a_reason() {
    let cluster = Cluster::new(1);
    cluster.write(&[0], 1, &pattern(1, 1000));
    let why = |block, offset, len| cluster.read(0, block, offset, len).unwrap_err().message().to_owned();
    assert!(why(2, 0, 1).contains("not on this volume"));
    assert!(why(1, 0, 1001).contains("don't match"));
    assert!(why(1, u64::MAX, 2).contains("don't match"));
    let mut connection = cluster.connect(0);
    let header = header(block_proto(1, GENERATION + 1, 0));
    connection.send_op(Op::ReadBlock, &proto::OpReadBlockProto { header, len: 1, ..Default::default() });
    assert!(connection.answer().message().contains("the request names generation 1002"));
    assert!(connection.is_closed(), "as Hadoop's server does after an error");
}

#[test]
fn readers_hang_up_whenever_they_like() {
    let cluster = Cluster::new(1);
    cluster.write(&[0], 1, &pattern(1, 20 << 20));
    for _ in 0..20 {
        let mut connection = cluster.connect(0);
        connection.send_read(1, 0, 20 << 20);
        let _one = connection.answer();
    }
    eventually("all transfers end", || cluster.node(0).transfer_count() == 0);
    assert_eq!(cluster.read(0, 1, 5, 10).unwrap(), pattern(1, 20 << 20)[5..15]);
}

#[test]
fn a_reader_that_takes_nothing_is_cut_off() {
    let cluster = Cluster::with(1, |config| config.limits.reader_stalled_ms = 200);
    cluster.write(&[0], 1, &pattern(1, 30 << 20));
    let mut connection = cluster.connect(0);
    connection.send_read(1, 0, 30 << 20);
    let _answer = connection.answer();
    eventually("the transfer ends", || cluster.node(0).transfer_count() == 0);
}

/// They hold all places: some read nothing of what is sent, the others never say that they have it. Who comes behind
/// them is served.
#[test]
fn readers_that_do_nothing_keep_nobody_out() {
    const PLACE_COUNT: usize = 4;
    for len in [30 << 20, 100] {
        let cluster = Cluster::with(1, |config| {
            (config.limits.transfer_count_max, config.limits.slow_reader_ms) = (PLACE_COUNT, 0);
        });
        let data = pattern(1, 30 << 20);
        cluster.write(&[0], 1, &data);
        eventually("the write's thread ends", || cluster.node(0).transfer_count() == 0);
        let mut crowd: Vec<_> = (0..PLACE_COUNT).map(|_| cluster.connect(0)).collect();
        crowd.iter_mut().for_each(|reader| reader.send_read(1, 0, len));
        eventually("all places are taken", || cluster.node(0).transfer_count() == PLACE_COUNT);
        eventually("a reader is served", || cluster.read(0, 1, 7, 100).is_ok_and(|got| got == data[7..107]));
        let _writer = cluster.chain(&[0], &Ask::create(2)).unwrap();
        eventually("a writer is served", || cluster.chain(&[0], &Ask::create(3)).is_ok());
    }
}

/// They hold all memory: a few reads have as much.
#[test]
fn readers_that_take_nothing_leave_memory_to_others() {
    let cluster = Cluster::with(1, |config| {
        (config.memory, config.limits.slow_reader_ms, config.limits.crowded_ms) = (1 << 20, 0, 100);
    });
    let data = pattern(1, 30 << 20);
    cluster.write(&[0], 1, &data);
    eventually("the write's thread ends", || cluster.node(0).transfer_count() == 0);
    let mut crowd: Vec<_> = (0..30).map(|_| cluster.connect(0)).collect();
    for reader in &mut crowd {
        reader.send_read(1, 0, 30 << 20);
        let _answer = reader.answer();
    }
    eventually("a reader is served", || cluster.read(0, 1, 7, 100).is_ok_and(|got| got == data[7..107]));
    eventually("a writer is served", || cluster.chain(&[0], &Ask::create(2)).is_ok());
}

#[test]
fn an_idle_connection_is_closed_and_one_transfer_too_many_refused() {
    let cluster = Cluster::with(1, |config| {
        config.limits.keepalive_ms = 100;
        config.limits.transfer_count_max = 1;
    });
    cluster.write(&[0], 1, b"abc");
    eventually("the write's thread ends", || cluster.node(0).transfer_count() == 0);
    let mut connection = cluster.connect(0);
    assert_eq!(connection.read(1, 0, 3).unwrap(), b"abc");
    assert!(connection.is_closed());
    let _chain = cluster.chain(&[0], &Ask::create(2)).unwrap();
    let refused = cluster.read(0, 1, 0, 3).unwrap_err();
    assert!(refused.message().contains("as many transfers"), "{refused:?}");
}

/// Who connects and says nothing, or only begins, is pushed out by the next; who is being served is not.
#[test]
fn a_crowd_that_says_nothing_keeps_nobody_out() {
    let cluster = Cluster::with(1, |config| config.limits.connection_count_max = 8);
    let data = pattern(1, 30 << 20);
    cluster.write(&[0], 1, &data);
    eventually("the write's thread ends", || cluster.node(0).transfer_count() == 0);
    let mut reader = cluster.connect(0);
    reader.send_read(1, 0, 30 << 20);
    eventually("the reader is served", || cluster.node(0).transfer_count() == 1);
    let mut crowd = Vec::new();
    for round in 0..30 {
        for place in 0..8 {
            let mut silent = cluster.connect(0);
            silent.socket.write_all(&[0, 28, 81][..place % 4]).unwrap();
            crowd.push(silent);
        }
        assert_eq!(cluster.read(0, 1, round, 100).unwrap(), data[round as usize..round as usize + 100]);
    }
    assert!(crowd[0].is_closed());
    assert!(reader.receive_read(0, 30 << 20).unwrap() == data);
}

#[test]
fn writes_beyond_the_memory_wait_for_others() {
    let cluster = Cluster::with(1, |config| {
        config.memory = 200 << 10; // half of it is for requests that are not whole
        config.limits.crowded_ms = 3_600_000;
    });
    let chain = cluster.chain(&[0], &Ask::create(1)).unwrap();
    std::thread::scope(|scope| {
        let second = scope.spawn(|| cluster.chain(&[0], &Ask::create(2)).is_ok());
        eventually("the second one waits", || cluster.node(0).transfer_count() == 2);
        drop(chain);
        assert!(second.join().unwrap());
    });
}

#[test]
fn writes_that_others_leave_no_memory_are_refused_at_last() {
    let cluster = Cluster::with(1, |config| {
        config.memory = 200 << 10; // half of it is for requests that are not whole
        config.limits.crowded_ms = 100;
    });
    let chain = cluster.chain(&[0], &Ask::create(1)).unwrap();
    let refused = cluster.chain(&[0], &Ask::create(2)).err().unwrap();
    assert!(refused.message().contains("all of the 102400 bytes of memory"), "{refused:?}");
    drop(chain);
    eventually("memory comes back", || cluster.node(0).transfer_count() == 0);
    assert!(cluster.chain(&[0], &Ask::create(3)).is_ok());
}

fn digest(
    cluster: &Cluster,
    block: u64,
    len: u64,
    kind: BlockChecksumTypeProto,
) -> proto::OpBlockChecksumResponseProto {
    let options = proto::BlockChecksumOptionsProto { block_checksum_type: Some(kind.into()), stripe_length: None };
    let header = base_header(block_proto(block, GENERATION, len));
    let mut connection = cluster.connect(0);
    let op = proto::OpBlockChecksumProto { header, block_checksum_options: Some(options) };
    connection.send_op(Op::BlockChecksum, &op);
    let answer = connection.answer();
    assert_eq!(answer.status, 0, "{answer:?}");
    let response = answer.checksum_response.unwrap();
    assert_eq!(response.block_checksum_options, Some(options));
    response
}

#[test]
fn digests_are_those_of_the_bytes() {
    let cluster = Cluster::new(1);
    let data = pattern(5, 300_001);
    cluster.write(&[0], 5, &data);
    for len in [300_001, 512, 100_000, 1, 0] {
        let part = &data[..len];
        let mut sums = Vec::new();
        crate::support::SPEC.compute(part, &mut sums);
        let response = digest(&cluster, 5, len as u64, BlockChecksumTypeProto::Md5crc);
        assert_eq!(response.block_checksum[..], md5::Md5::digest(&sums)[..], "{len} bytes");
        assert_eq!(
            (response.bytes_per_crc, response.crc_per_block, response.crc_type()),
            (512, 586, proto::ChecksumTypeProto::ChecksumCrc32c)
        );
        let response = digest(&cluster, 5, len as u64, BlockChecksumTypeProto::CompositeCrc);
        assert_eq!(response.block_checksum[..], ChecksumKind::Crc32c.of(part).to_be_bytes());
    }
}

fn transfer(cluster: &Cluster, block: u64, len: u64) -> proto::BlockOpResponseProto {
    let op = proto::OpTransferBlockProto {
        header: header(block_proto(block, GENERATION, len)),
        targets: vec![cluster.info(1)],
        target_storage_types: vec![1],
        ..Default::default()
    };
    let mut connection = cluster.connect(0);
    connection.send_op(Op::TransferBlock, &op);
    connection.answer()
}

/// A chain of one lost its other nodes; the client has the open replica copied, and a chain of two goes on.
#[test]
fn an_open_replica_is_copied_and_its_copy_joins_the_chain() {
    let cluster = Cluster::new(2);
    let data = pattern(3, 1_000_000);
    let mut chain = cluster.chain(&[0], &Ask::create(3)).unwrap();
    chain.send_all(&data[..PACKET_LEN * 2]);
    chain.send_at(chain.offset, &data[PACKET_LEN * 2..][..700], false);
    chain.acked(chain.seqno - 1);
    let len = PACKET_LEN as u64 * 2 + 700;
    // hdfs-native names what it has written, sent or not.
    let copied = transfer(&cluster, 3, len + 5000);
    assert_eq!(copied.status, 0, "{copied:?}");
    assert!(cluster.read(1, 3, 0, len).unwrap() == data[..len as usize]);
    let ask = Ask::again(3, Stage::PipelineSetupStreamingRecovery, GENERATION + 1, len, len);
    let mut chain = cluster.chain(&[0, 1], &ask).unwrap();
    let chunk = len - len % 512;
    chain.send_at(chunk, &data[chunk as usize..][..PACKET_LEN], false);
    chain.acked(0);
    chain.send_all(&data[chunk as usize + PACKET_LEN..]);
    chain.finish();
    assert!(cluster.read(1, 3, 0, 1_000_000).unwrap() == data);
}

#[test]
fn a_whole_replica_is_copied_whole() {
    let cluster = Cluster::new(2);
    let data = pattern(4, 3_000_000);
    cluster.write(&[0], 4, &data);
    let copied = transfer(&cluster, 4, 3_000_000);
    assert_eq!(copied.status, 0, "{copied:?}");
    assert!(cluster.read(1, 4, 0, 3_000_000).unwrap() == data);
    let again = transfer(&cluster, 4, 3_000_000);
    assert!(again.message().contains("127.0.0.1"), "the target has it already: {again:?}");
}

/// Bytes that no client would send. The node closes such connections, or answers, and serves everybody else.
#[test]
fn hostile_bytes_hurt_nobody_else() {
    let cluster = Cluster::with(1, |config| config.limits.op_ms = 500);
    cluster.write(&[0], 1, b"still here");
    let mut hostile: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0xde, 0xad, 0xbe, 0xef, 0],
        vec![0, 28, 81, 0xff, 0xff, 0xff, 0xff, 0x7f],
        vec![0, 28, 81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        vec![0, 28, 81, 5, 1, 2, 3, 4, 5],
        vec![0, 28, 80, 0],
        vec![0, 28, 85, 0],
        vec![0, 28, 86, 0],
        vec![0, 28],
        vec![],
    ];
    hostile.extend((0..40).map(|seed| {
        let mut bytes = vec![0, 28, 80 + (seed % 8) as u8];
        bytes.extend(pattern(seed, 3000));
        bytes
    }));
    for bytes in &hostile {
        let mut connection = cluster.connect(0);
        let _closed_early = connection.socket.write_all(bytes);
        let _closed = connection.message_or_end();
    }
    for op in [Op::Other(82), Op::Other(83), Op::Other(127)] {
        let mut connection = cluster.connect(0);
        connection.send_op(op, &proto::OpReadBlockProto::default());
        assert_eq!(connection.answer().status(), proto::Status::ErrorUnsupported);
    }
    // And bytes that go wrong behind a proper setup.
    for seed in 0..20u64 {
        let mut chain = cluster.chain(&[0], &Ask::create(100 + seed)).unwrap();
        let mut bytes = pattern(seed, 5000);
        if seed % 2 == 0 {
            bytes.splice(..6, [0, 0, 16, 4, 0, 25]); // a packet of some length
        }
        if seed % 4 == 0 {
            bytes.splice(..6, [0x7f, 0, 0, 0, 0, 25]); // and one of an enormous length
        }
        let _closed_early = chain.connection.socket.write_all(&bytes);
        let _shut = chain.connection.socket.shutdown(std::net::Shutdown::Write);
        assert!(chain.connection.message_or_end(), "it answered to nonsense");
    }
    eventually("all transfers end", || cluster.node(0).transfer_count() == 0);
    assert_eq!(cluster.read(0, 1, 0, 10).unwrap(), b"still here");
}
