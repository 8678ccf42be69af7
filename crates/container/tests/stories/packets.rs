//! Packets as stock writers send them: overlaps after hflush, bytes in mid-chunk after append, what was sent twice.

use crate::support::*;
use container::{Advice, Packet, ReplicaError, Volume, Writer};
use std::ops::Range;
use types::random::{Random, Seeded};
use types::{ChecksumKind, ChecksumSpec};

const SPEC: ChecksumSpec = ChecksumSpec { kind: ChecksumKind::Crc32c, chunk_len: 512 };

/// A replica of some bytes, written in one packet.
fn started(volume: &Volume, data: &[u8]) -> Writer {
    let mut writer = volume.create(identity(1, 1001)).unwrap();
    writer.write(0, data, &sums(SPEC, data)).unwrap();
    writer
}

/// Sends the bytes `range` of `data` with the checksums a client would send for them.
fn send(writer: &mut Writer, data: &[u8], range: std::ops::Range<usize>) -> Result<(), ReplicaError> {
    writer.write(range.start as u64, &data[range.clone()], &sums(SPEC, &data[range]))
}

#[test]
fn after_hflush_the_partial_chunk_comes_again_from_its_start() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open(dir.path());
    let data = pattern(1, 6000);
    let mut writer = started(&volume, &data[..1300]);
    for (from, to) in [(1024, 1400), (1024, 1401), (1024, 2048), (2048, 2050), (1536, 6000)] {
        send(&mut writer, &data, from..to).unwrap();
        check(&read(&volume, block(1)), &data[..to]);
    }
    writer.put(6000).unwrap();
    check(&read(&volume, block(1)), &data);
}

#[test]
fn after_append_bytes_in_mid_chunk_come_with_a_checksum_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open(dir.path());
    let data = pattern(1, 2000);
    let mut writer = started(&volume, &data[..700]);
    // The second one starts below what is here, as a packet sent again after a recovery may.
    for (from, to) in [(700, 710), (705, 900), (900, 1024), (1024, 1100), (1100, 1536), (1536, 2000)] {
        send(&mut writer, &data, from..to).unwrap();
        check(&read(&volume, block(1)), &data[..to]);
    }
    writer.put(2000).unwrap();
    check(&read(&volume, block(1)), &data);
}

/// Whole chunks mostly, sometimes a partial one whose chunk comes again, sometimes what was sent before: however they
/// are taken together.
#[test]
fn packets_that_came_together_leave_what_they_leave_one_by_one() {
    for seed in 0..40 {
        let mut random = Seeded(seed);
        let dir = tempfile::tempdir().unwrap();
        let volume = if seed % 2 == 0 { open(dir.path()) } else { open_without_slots(dir.path()) };
        let data = pattern(1, 300_000);
        let mut ranges = Vec::new();
        let mut end = 0;
        while end < data.len() {
            let start = match random.below(8) {
                0 => end.saturating_sub(512 * random.below(40)) / 512 * 512,
                _ => end / 512 * 512,
            };
            let len = if random.below(4) == 0 { 1 + random.below(30_000) } else { 512 * (1 + random.below(60)) };
            ranges.push(start..data.len().min(start + len));
            end = end.max(data.len().min(start + len));
        }
        let mut writer = volume.create(identity(1, 1001)).unwrap();
        let (mut rest, mut written) = (&ranges[..], 0);
        while !rest.is_empty() {
            let (run, later) = rest.split_at(1 + random.below(rest.len().min(9)));
            let own: Vec<Vec<u8>> = run.iter().map(|range| sums(SPEC, &data[range.clone()])).collect();
            let packet = |(range, sums): (&Range<usize>, _)| Packet {
                offset: range.start as u64,
                data: &data[range.clone()],
                sums,
            };
            let packets: Vec<Packet> = run.iter().zip(own.iter().map(Vec::as_slice)).map(packet).collect();
            writer.write_run(&packets).unwrap();
            written = run.iter().map(|range| range.end).fold(written, usize::max);
            assert_eq!(writer.received(), written as u64, "seed {seed}");
            check(&read(&volume, block(1)), &data[..written]);
            rest = later;
        }
        writer.put(data.len() as u64).unwrap();
        check(&read(&volume, block(1)), &data);
        volume.verify(block(1)).unwrap();
    }
}

/// A replica outgrows its slot in the middle of a run whose last packet was sent again.
#[test]
fn a_run_that_ends_with_an_old_packet_outgrows_its_slot_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open(dir.path());
    let data = pattern(1, 600_000);
    let mut writer = volume.create(identity(1, 1001)).unwrap();
    let sums = sums(SPEC, &data);
    let long = Packet { offset: 0, data: &data, sums: &sums };
    let old = Packet { offset: 0, data: &data[..512], sums: &sums[..4] };
    writer.write_run(&[long, old]).unwrap();
    check(&read(&volume, block(1)), &data);
    writer.put(data.len() as u64).unwrap();
    check(&read(&volume, block(1)), &data);
}

#[test]
fn what_is_here_already_is_not_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open(dir.path());
    let data = pattern(1, 5000);
    let mut writer = started(&volume, &data);
    let other = pattern(2, 5000);
    for range in [0..512, 512..5000, 4096..5000, 0..0, 5000..5000, 300..400] {
        send(&mut writer, &other, range).unwrap();
    }
    assert_eq!(writer.received(), 5000);
    check(&read(&volume, block(1)), &data);
}

#[test]
fn checksums_that_were_left_out_are_made() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open(dir.path());
    let data = pattern(1, 5000);
    let mut writer = volume.create(identity(1, 1001)).unwrap();
    for range in [0..100, 100..1000, 512..1300, 1300..1301, 1000..5000] {
        writer.write(range.start as u64, &data[range.clone()], &[]).unwrap();
        check(&read(&volume, block(1)), &data[..range.end]);
    }
}

#[test]
fn packets_that_no_writer_sends_are_refused_and_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open(dir.path());
    let data = pattern(1, 3000);
    let mut writer = started(&volume, &data[..700]);
    let refused = |outcome: Result<(), ReplicaError>| assert_eq!(outcome.unwrap_err().advice(), Advice::Refuse);
    refused(send(&mut writer, &data, 701..800));
    refused(send(&mut writer, &data, 1024..1500));
    // More than one chunk in a packet that starts in mid-chunk, with one checksum and with two.
    refused(send(&mut writer, &data, 700..1300));
    refused(writer.write(700, &data[700..1030], &[0; 4]));
    // Too few checksums, too many.
    refused(writer.write(512, &data[512..2000], &[0; 8]));
    refused(writer.write(512, &data[512..1024], &[0; 8]));
    refused(writer.write(u64::MAX, &data[..1], &[]));
    refused(writer.write(700, &data[700..710], &[0; 3]));
    check(&read(&volume, block(1)), &data[..700]);
    send(&mut writer, &data, 512..3000).unwrap();
    refused(writer.put(2999));
    check(&read(&volume, block(1)), &data);
}

/// A bit flips on disk under our partial chunk: a new checksum must not cover the damage up.
#[test]
fn damage_in_our_partial_chunk_stops_the_writer() {
    for in_slot in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let volume = if in_slot { open(dir.path()) } else { open_without_slots(dir.path()) };
        let data = pattern(1, 1000);
        let mut writer = started(&volume, &data[..700]);
        let (name, offset) = if in_slot { ("slot-0".into(), 4096) } else { (format!("{}.data", block(1).0), 0) };
        let path = dir.path().join("open").join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[offset + 600] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let error = send(&mut writer, &data, 700..800).unwrap_err();
        assert_eq!(error.advice(), Advice::ReportBad, "{error}");
        assert_eq!(volume.verify(block(1)).unwrap_err().advice(), Advice::ReportBad);
        // The packet that brings the whole chunk again repairs it.
        send(&mut writer, &data, 512..1000).unwrap();
        check(&read(&volume, block(1)), &data);
    }
}
