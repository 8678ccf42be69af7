//! Connections of data transfer, recorded between the Java client and real datanodes: every byte of them is an op, a
//! message, a packet or an ack as this crate knows them, and is written again as it was.

use std::path::PathBuf;
use types::{ChecksumKind, ChecksumSpec};
use wire::packet::Parsed;
use wire::{Op, OpHeader, PacketFrame, PacketPrefix, PipelineAck, Status, delimited};

fn recorded(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What the recordings carried: byte `i` of the file is this.
fn content(offset: i64, len: usize) -> Vec<u8> {
    (offset as usize..offset as usize + len).map(|at| (7 * at + at / 251) as u8).collect()
}

/// Takes the op and its message off a client's side.
fn after_op(bytes: &[u8], op: Op) -> &[u8] {
    let header = OpHeader::decode(bytes[..OpHeader::LEN].try_into().unwrap()).unwrap();
    assert_eq!(header, OpHeader { op });
    assert_eq!(header.encode(), bytes[..OpHeader::LEN]);
    after_message(&bytes[OpHeader::LEN..])
}

fn after_message(bytes: &[u8]) -> &[u8] {
    let (_, len) = delimited::split(bytes, "message", 1 << 20).unwrap().unwrap();
    &bytes[len..]
}

/// Takes packets off `bytes` through the last one of the block; checks each, and that it is written again as it was.
fn packets<'a>(mut bytes: &'a [u8], spec: ChecksumSpec, sent_sums: bool, name: &str) -> (Vec<PacketFrame>, &'a [u8]) {
    let mut found = Vec::new();
    loop {
        // Byte by byte, as the network may bring it, the parser asks for more and never for too much.
        let mut have = 0;
        let frame = loop {
            match PacketFrame::parse(&bytes[..have]).unwrap() {
                Parsed::Needs(more) => {
                    assert!(more > have && more <= bytes.len(), "{name}: asks for {more} at {have}");
                    have = more;
                }
                Parsed::Whole(frame) => break frame,
            }
        };
        let (data, sums) = (&bytes[frame.data.clone()], &bytes[frame.sums.clone()]);
        let mut again = Vec::new();
        frame.header.put(sums.len() as u32, &mut again);
        assert_eq!(again, bytes[..frame.sums.start], "{name}: prefix and header");
        if sent_sums && frame.header.offset % i64::from(spec.chunk_len) == 0 {
            assert_eq!(spec.verify(data, sums), Ok(()), "{name}: the checksums are ours too");
        }
        bytes = &bytes[frame.packet_len()..];
        let last = frame.header.last;
        found.push(frame);
        if last {
            return (found, bytes);
        }
    }
}

#[test]
fn a_java_client_writes() {
    let crc32c = ChecksumSpec::DEFAULT;
    let crc32 = ChecksumSpec { kind: ChecksumKind::Crc32, chunk_len: 1024 };
    let null = ChecksumSpec { kind: ChecksumKind::Null, chunk_len: 512 };
    let cases = [
        ("write", crc32c, 20_000),
        ("write_middle", crc32c, 20_000),
        ("write_tail", crc32c, 20_000),
        ("write_crc32", crc32, 3000),
        ("write_null", null, 3000),
    ];
    for (name, spec, len) in cases {
        let client = recorded(&format!("{name}.client.bin"));
        let rest = after_op(&client, Op::WriteBlock);
        let (sent, rest) = packets(rest, spec, true, name);
        assert!(rest.is_empty(), "{name}");
        let written: i64 = sent.iter().map(|frame| i64::from(frame.header.data_len)).sum();
        assert_eq!(written, len, "{name}");

        let server = recorded(&format!("{name}.server.bin"));
        let mut rest = after_message(&server);
        let mut acked = Vec::new();
        while let Some((ack, len)) = PipelineAck::split(rest).unwrap() {
            assert!(ack.replies.iter().all(|reply| *reply == Status::SUCCESS), "{name}: {ack:?}");
            acked.push(ack.seqno);
            rest = &rest[len..];
        }
        assert!(rest.is_empty(), "{name}");
        assert_eq!(acked, sent.iter().map(|frame| frame.header.seqno).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn a_java_client_reads() {
    let crc32c = ChecksumSpec::DEFAULT;
    let crc32 = ChecksumSpec { kind: ChecksumKind::Crc32, chunk_len: 1024 };
    for (name, spec, sent_sums, from, to) in [
        ("read", crc32c, true, 0, 20_000),
        ("read_crc32", crc32, true, 0, 3000),
        ("read_unverified", crc32c, false, 0, 20_000),
        ("read_tail", crc32c, true, 18_944, 20_000), // the tail begins at 18,976; chunks begin at multiples of 512
    ] {
        let client = recorded(&format!("{name}.client.bin"));
        let status = after_op(&client, Op::ReadBlock);
        assert!(after_message(status).is_empty(), "{name}: the client's status is the last it says");
        let server = recorded(&format!("{name}.server.bin"));
        let packed = after_message(&server);
        let (frames, rest) = packets(packed, spec, sent_sums, name);
        assert!(rest.is_empty(), "{name}");
        let mut at = packed;
        let mut read = Vec::new();
        assert_eq!(frames[0].header.offset, from, "{name}");
        for frame in &frames {
            assert_eq!(frame.sums.is_empty(), !sent_sums || frame.header.last, "{name}");
            read.extend_from_slice(&at[frame.data.clone()]);
            at = &at[frame.packet_len()..];
        }
        assert_eq!(read, content(from, (to - from) as usize), "{name}");
    }
}

/// hflush in the middle of a chunk sends the chunk again from its start; hsync asks for the disk.
#[test]
fn a_java_client_flushes_and_syncs() {
    let client = recorded("hflush.client.bin");
    let rest = after_op(&client, Op::WriteBlock);
    let (sent, _) = packets(rest, ChecksumSpec::DEFAULT, true, "hflush");
    let received = |upto: usize| sent[..upto].iter().map(|f| f.header.offset + i64::from(f.header.data_len)).max();
    let again = sent.iter().enumerate().skip(1).find(|(at, frame)| Some(frame.header.offset) < received(*at));
    assert!(again.is_some(), "a chunk that was flushed half is sent again");
    assert!(
        sent.iter().any(|frame| frame.header.sync),
        "hsync sets syncBlock, which makes the header two bytes longer"
    );
}

/// A damaged recording is refused or read as something else, but nothing panics and no length runs away.
#[test]
fn damage_never_panics() {
    let client = recorded("write.client.bin");
    let start = client.len() - after_op(&client, Op::WriteBlock).len();
    for at in start..start + 64 {
        for bit in 0..8 {
            let mut bytes = client[start..].to_vec();
            bytes[at - start] ^= 1 << bit;
            if let Ok(Parsed::Needs(more)) = PacketFrame::parse(&bytes[..PacketPrefix::LEN]) {
                assert!(more <= (types::limits::PACKET_LEN_MAX as usize) + 2048, "{more}");
            }
            let _ = PacketFrame::parse(&bytes);
        }
    }
}
