//! Writers that come back, writers that do not, and who may write after them.

use crate::support::*;
use container::{Advice, Durability, Options, ReopenKind, ReplicaError, Volume, Writer};
use std::os::unix::fs::FileExt;
use types::{Generation, ReplicaState};

const ALL_KINDS: [ReopenKind; 4] =
    [ReopenKind::Append, ReopenKind::AppendRecovery, ReopenKind::StreamingRecovery, ReopenKind::CloseRecovery];

fn started(volume: &Volume, index: u32, data: &[u8], visible: u64) -> Writer {
    let mut writer = volume.create(identity(index, 1001)).unwrap();
    writer.write(0, data, &[]).unwrap();
    writer.set_visible(visible);
    writer
}

fn is_fenced(outcome: Result<(), ReplicaError>) {
    assert!(matches!(outcome, Err(ReplicaError::Fenced { .. })), "{outcome:?}");
}

/// The chain breaks: of what was not acknowledged nothing stays, and the client sends it again.
#[test]
fn a_writer_that_returns_goes_on_from_what_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open(dir.path());
    let data = pattern(1, 9000);
    let mut old = started(&volume, 1, &data[..5000], 3333);
    let mut new = volume.reopen(block(1), ask(ReopenKind::StreamingRecovery, 1001, 1002, 3000, 5000)).unwrap();
    assert_eq!((new.received(), new.visible_len(), new.identity().generation), (3333, 3333, Generation(1002)));
    is_fenced(old.write(5000, &data[5000..6000], &[]));
    // A late acknowledgement reaches the overtaken writer: it must not show what was cut off.
    let late = old.progress();
    late.set_visible(5000);
    old.set_visible(5000);
    drop(old);
    assert_eq!(new.visible_len(), 3333);
    check(&read(&volume, block(1)), &data[..3333]);
    // Packets keep their bounds: the first one overlaps.
    new.write(3072, &data[3072..], &sums(new.identity().checksum, &data[3072..])).unwrap();
    new.put(9000).unwrap();
    let reader = volume.read(block(1), Generation(1002)).unwrap();
    check(&reader, &data);
}

/// What the disk was asked to write ahead of the last sync lies beyond the cut.
#[test]
fn a_writer_goes_on_behind_a_cut_into_what_was_written_back() {
    let dir = tempfile::tempdir().unwrap();
    let volume = Volume::open(dir.path(), Options { durability: Durability::Synced, ..options() }).unwrap();
    let data = pattern(1, 20 << 20);
    let _old = started(&volume, 1, &data[..17 << 20], 1 << 20);
    let ask = ask(ReopenKind::StreamingRecovery, 1001, 1002, 1 << 20, 17 << 20);
    let mut new = volume.reopen(block(1), ask).unwrap();
    for at in (1 << 20..20 << 20).step_by(1 << 20) {
        new.write(at as u64, &data[at..at + (1 << 20)], &[]).unwrap();
    }
    new.put(20 << 20).unwrap();
    check(&read(&volume, block(1)), &data);
}

/// A recovery has replicas read that nobody will ever put: a partial last chunk, in files or in a slot, is no damage,
/// whether somebody writes still or is shut out; a bit that turned over is.
#[test]
fn what_is_open_verifies_until_it_rots() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open(dir.path());
    for (index, len) in [(1, 1), (2, 700), (3, 5000), (4, 200_001), (5, 0)] {
        let data = pattern(index.into(), len);
        let mut writer = started(&volume, index, &data[..len / 2], len as u64 / 3);
        volume.verify(block(index)).unwrap();
        writer.write(len as u64 / 2, &data[len / 2..], &[]).unwrap();
        volume.verify(block(index)).unwrap();
        let shown = volume.begin_recovery(block(index), Generation(1005)).unwrap();
        assert_eq!((shown.len, shown.state), (len as u64, ReplicaState::Open));
        volume.verify(block(index)).unwrap();
    }
    let reader = read(&volume, block(4));
    reader.data().write_all_at(&[!pattern(4, 200_001)[150_000]], reader.data_offset() + 150_000).unwrap();
    assert!(matches!(volume.verify(block(4)), Err(ReplicaError::Corrupt { .. })));
}

#[test]
fn what_the_client_knows_must_fit_what_is_here() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open(dir.path());
    let data = pattern(1, 5000);
    let _writer = started(&volume, 1, &data, 3000);
    let reopen = |ask| volume.reopen(block(1), ask).map(|writer| writer.received());
    let streaming = |old, new, min, max| ask(ReopenKind::StreamingRecovery, old, new, min, max);
    assert_eq!(reopen(streaming(1001, 1002, 5001, 6000)).unwrap_err().advice(), Advice::Refuse);
    assert_eq!(reopen(streaming(1001, 1002, 1000, 2999)).unwrap_err().advice(), Advice::Refuse);
    assert_eq!(reopen(streaming(1002, 1003, 0, 5000)).unwrap_err().advice(), Advice::RefreshLocations);
    assert_eq!(reopen(streaming(999, 1000, 0, 5000)).unwrap_err().advice(), Advice::RefreshLocations);
    assert!(reopen(ask(ReopenKind::Append, 1001, 1002, 5000, 5000)).is_err(), "it is not finalized");
    assert!(reopen(ask(ReopenKind::CloseRecovery, 1001, 1002, 4000, 4000)).is_err(), "bytes are missing");
    assert!(reopen(ask(ReopenKind::CloseRecovery, 1001, 1002, 5000, 5001)).is_err(), "its writer sent more");
    // The acknowledgement reached the client before this node noted it.
    assert_eq!(reopen(streaming(1001, 1002, 4000, 5000)).unwrap(), 4000);
    // A client that does not say how much it sent.
    assert_eq!(reopen(streaming(1002, 1003, 4000, 0)).unwrap(), 4000);
    assert!(volume.reopen(block(9), streaming(1, 2, 0, 0)).is_err());
}

#[test]
fn a_finalized_replica_grows_by_append_whether_packed_or_not() {
    for (len, grown) in [(100, 200), (700, 90_000), (3000, 3000), (80_000, 80_001), (0, 10)] {
        for equal_stamp in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let volume = open(dir.path());
            let data = pattern(1, grown);
            put(&volume, identity(1, 1001), &data[..len]);
            let early = read(&volume, block(1));
            let new = if equal_stamp { 1001 } else { 1002 };
            let short = ask(ReopenKind::Append, 1001, new, len as u64 + 1, 0);
            assert!(volume.reopen(block(1), short).is_err(), "the writer knows of more bytes");
            let length = len as u64;
            let mut writer = volume.reopen(block(1), ask(ReopenKind::Append, 1001, new, length, length)).unwrap();
            check(&read(&volume, block(1)), &data[..len]);
            for at in len..grown.min(len + 600) {
                writer.write(at as u64, &data[at..=at], &sums(writer.identity().checksum, &data[at..=at])).unwrap();
            }
            writer.write(len as u64, &data[len..], &[]).unwrap();
            check(&read(&volume, block(1)), &data);
            writer.put(grown as u64).unwrap();
            check(&volume.read(block(1), Generation(new)).unwrap(), &data);
            check(&early, &data[..len]);
            assert_eq!(volume.usage().unwrap().replica_count, 1);
            assert!(volume.delete(block(1), Generation(new)).unwrap());
            assert_eq!(shelved(dir.path()), [""; 0], "the old record and the new are gone");
            assert_eq!(volume.usage().unwrap().used, 0);
        }
    }
}

/// Only the last acknowledgement was lost: this node has put the block, the client does not know.
#[test]
fn a_finalized_replica_is_reopened_for_a_writer_that_missed_its_end() {
    for len in [1000, 50_000] {
        for kind in ALL_KINDS {
            let dir = tempfile::tempdir().unwrap();
            let volume = open(dir.path());
            let data = pattern(1, len);
            put(&volume, identity(1, 1001), &data);
            let mut writer = volume.reopen(block(1), ask(kind, 1001, 1002, len as u64, len as u64)).unwrap();
            assert_eq!(writer.received(), len as u64);
            writer.write(0, &data, &[]).unwrap();
            writer.put(len as u64).unwrap();
            check(&volume.read(block(1), Generation(1002)).unwrap(), &data);
        }
    }
}

#[test]
fn recovery_fences_the_writer_cuts_and_finalizes() {
    for (len, agreed) in [(5000, 4700), (5000, 5000), (5000, 0), (90_000, 77_777)] {
        let dir = tempfile::tempdir().unwrap();
        let volume = open(dir.path());
        let data = pattern(1, len);
        let mut writer = started(&volume, 1, &data, agreed as u64);
        let info = volume.begin_recovery(block(1), Generation(1005)).unwrap();
        assert_eq!(
            (info.state, info.len, info.identity.generation),
            (ReplicaState::Open, len as u64, Generation(1001))
        );
        is_fenced(writer.write(len as u64, b"more", &[]));
        is_fenced(writer.sync());
        check(&read(&volume, block(1)), &data);
        for kind in ALL_KINDS {
            let error = volume.reopen(block(1), ask(kind, 1001, 1004, 0, 0)).unwrap_err();
            assert_eq!(error.advice(), Advice::StopWriting);
        }
        assert!(volume.create(identity(1, 1004)).is_err());
        assert!(volume.finish_recovery(block(1), Generation(1005), len as u64 + 1).is_err());
        assert!(volume.finish_recovery(block(1), Generation(1004), agreed as u64).is_err(), "overtaken");
        for _retry in 0..2 {
            volume.finish_recovery(block(1), Generation(1005), agreed as u64).unwrap();
            check(&volume.read(block(1), Generation(1005)).unwrap(), &data[..agreed]);
        }
        is_fenced(writer.put(len as u64));
        assert!(volume.begin_recovery(block(1), Generation(1005)).is_err(), "done is done");
        assert_eq!(volume.find(block(1)).unwrap().unwrap().state, ReplicaState::Finalized);
    }
}

#[test]
fn recovery_takes_finalized_replicas_as_well() {
    for (len, agreed) in [(900, 900), (900, 10), (90_000, 90_000), (90_000, 513)] {
        let dir = tempfile::tempdir().unwrap();
        {
            let volume = open(dir.path());
            put(&volume, identity(1, 1001), &pattern(1, len));
            let info = volume.begin_recovery(block(1), Generation(1002)).unwrap();
            assert_eq!((info.state, info.len), (ReplicaState::Finalized, len as u64));
            // The one who led the recovery died; the next one starts over.
            volume.begin_recovery(block(1), Generation(1003)).unwrap();
            assert!(volume.finish_recovery(block(1), Generation(1002), agreed as u64).is_err());
            volume.finish_recovery(block(1), Generation(1003), agreed as u64).unwrap();
        }
        let volume = open(dir.path());
        check(&volume.read(block(1), Generation(1003)).unwrap(), &pattern(1, len)[..agreed]);
    }
}

/// A node whose own replica is damaged cannot take part in the end of a recovery: what that came to repairs it.
#[test]
fn a_copy_of_what_a_recovery_came_to_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open(dir.path());
    put(&volume, identity(1, 1001), &pattern(1, 900));
    volume.begin_recovery(block(1), Generation(1005)).unwrap();
    assert!(volume.create(identity(1, 1005)).is_err(), "a writer is shut out");
    assert!(volume.create_copy(identity(1, 1004)).is_err(), "overtaken");
    let data = pattern(1, 700);
    let mut writer = volume.create_copy(identity(1, 1005)).unwrap();
    writer.write(0, &data, &[]).unwrap();
    writer.put(700).unwrap();
    check(&volume.read(block(1), Generation(1005)).unwrap(), &data);
}

#[test]
fn a_writer_under_a_newer_generation_ends_a_recovery_that_never_finished() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open(dir.path());
    put(&volume, identity(1, 1001), &pattern(1, 100));
    volume.begin_recovery(block(1), Generation(1002)).unwrap();
    let writer = volume.reopen(block(1), ask(ReopenKind::Append, 1001, 1003, 100, 100)).unwrap();
    assert!(volume.finish_recovery(block(1), Generation(1002), 100).is_err());
    writer.put(100).unwrap();
}

/// A recovery that began before a crash ends after it: fencing needs no memory, the generation alone decides.
#[test]
fn recovery_goes_on_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let data = pattern(1, 5000);
    {
        let volume = open(dir.path());
        let _writer = started(&volume, 1, &data, 5000);
        volume.begin_recovery(block(1), Generation(1002)).unwrap();
    }
    let volume = open(dir.path());
    let info = volume.find(block(1)).unwrap().unwrap();
    assert_eq!((info.state, info.visible_len), (ReplicaState::WaitingForRecovery, 0));
    assert_eq!(volume.read(block(1), Generation(0)).unwrap_err().advice(), Advice::ReadElsewhere);
    volume.finish_recovery(block(1), Generation(1002), 4999).unwrap();
    check(&volume.read(block(1), Generation(1002)).unwrap(), &data[..4999]);
}

/// The node restarts in mid-stream and its writer finds it again.
#[test]
fn a_waiting_replica_goes_on_with_its_writer() {
    let dir = tempfile::tempdir().unwrap();
    let data = pattern(1, 9000);
    {
        let volume = open(dir.path());
        let _writer = started(&volume, 1, &data[..5000], 4000);
    }
    let volume = open(dir.path());
    let mut writer = volume.reopen(block(1), ask(ReopenKind::StreamingRecovery, 1001, 1002, 4000, 6000)).unwrap();
    assert_eq!(writer.received(), 5000, "what verifies stays");
    check(&read(&volume, block(1)), &data[..5000]);
    writer.write(4096, &data[4096..], &[]).unwrap();
    writer.put(9000).unwrap();
    check(&read(&volume, block(1)), &data);
}

/// A put and a recovery at the same moment: one of them is first, and the bytes are whole either way.
#[test]
fn a_put_races_with_a_recovery() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open(dir.path());
    let data = pattern(1, 6000);
    for index in 0..50 {
        let writer = started(&volume, index, &data, 6000);
        let thread = io::task::thread("writer", move || writer.put(6000)).unwrap();
        let info = volume.begin_recovery(block(index), Generation(1002)).unwrap();
        let put = thread.join().unwrap();
        assert_eq!(put.is_ok(), info.state == ReplicaState::Finalized, "{put:?} {info:?}");
        volume.finish_recovery(block(index), Generation(1002), 6000).unwrap();
        check(&volume.read(block(index), Generation(1002)).unwrap(), &data);
    }
}
