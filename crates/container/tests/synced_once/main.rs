//! In the mode `replicated` nothing is brought to disk by itself; but what a writer once had synced stays durable when
//! its replica is put. One story in a program of its own: it counts the syncs of the whole process.

#[path = "../stories/support/mod.rs"]
#[expect(dead_code, reason = "what the stories share; this one needs a part of it")]
mod support;

use container::{Options, Volume};
use std::time::Duration;
use support::*;

fn syncs(work: impl FnOnce()) -> u64 {
    let before = io::file::sync_count();
    work();
    io::file::sync_count() - before
}

#[test]
fn what_was_synced_once_is_put_with_a_sync() {
    let dir = tempfile::tempdir().unwrap();
    // No flush of the index meanwhile: it would be counted.
    let volume = Volume::open(dir.path(), Options { flush_interval: Duration::from_secs(3600), ..options() }).unwrap();
    for (index, len) in [(1, 1000), (2, 3 * PACK_LEN_MAX as usize)] {
        let data = pattern(index.into(), len);
        let plain = syncs(|| put(&volume, identity(index, 1001), &data));
        assert_eq!(plain, 0, "{len} bytes that nobody asked to sync");

        let again = index + 10;
        let spec = identity(again, 1001).checksum;
        let mut writer = volume.create(identity(again, 1001)).unwrap();
        writer.write(0, &data[..512], &sums(spec, &data[..512])).unwrap();
        assert!(syncs(|| writer.sync().unwrap()) >= 2, "data and checksums");
        writer.write(512, &data[512..], &sums(spec, &data[512..])).unwrap();
        // The bytes, wherever they move; the container's directory; the name of that; the mark that it must be looked
        // through.
        let put = syncs(|| writer.put(len as u64).unwrap());
        assert!(put >= 3, "{len} bytes, of which some were synced, are put with {put} syncs");
        check(&read(&volume, block(again)), &data);

        let grown = ask(container::ReopenKind::Append, 1001, 1002, len as u64, len as u64);
        let mut writer = None;
        let reopened = syncs(|| writer = Some(volume.reopen(block(again), grown).unwrap()));
        assert!(reopened >= 3, "only the new generation is believed from now on: data, checksums with it, their names");
        let writer = writer.unwrap();
        let put = syncs(|| writer.put(len as u64).unwrap());
        assert!(put >= 1, "{len} bytes that were durable are put anew with {put} syncs");
    }
}
