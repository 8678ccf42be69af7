//! Readers among datanodes that lie, hang up and come back.

use crate::support::{Store, Trick, bytes, quick};
use client::Error;
use hdfs::proto::HdfsFileStatusProto;
use std::sync::atomic::Ordering;
use std::time::Duration;
use types::{ChecksumKind, ChecksumSpec};

/// Reads `/f` to its end in steps of `step`, and holds it against what was written.
async fn reads_whole(store: &Store, step: usize, want: &[u8]) {
    let mut reader = store.client.open("/f").await.unwrap();
    assert_eq!(reader.len(), want.len() as u64);
    let mut got = Vec::new();
    let mut buffer = vec![0; step];
    loop {
        let len = reader.read(&mut buffer).await.unwrap();
        if len == 0 {
            break;
        }
        got.extend_from_slice(&buffer[..len]);
    }
    assert!(got == want, "{} bytes read, not those that were written", got.len());
}

/// Whoever copies a tree to this machine appends these names to a path of it.
#[tokio::test]
async fn a_listing_leads_to_nothing_outside_of_its_directory() {
    let store = Store::new(0).await;
    let listed = |names: &[&str], file_type| {
        let entry = |name: &&str| HdfsFileStatusProto {
            path: name.as_bytes().to_vec().into(),
            file_type,
            ..Default::default()
        };
        store.book.state().listed = names.iter().map(entry).collect();
    };
    for name in ["..", ".", "a/b", "/etc/passwd", "../x", "a\0b"] {
        listed(&["well", name], 2);
        assert_eq!(store.client.list("/d").await.unwrap_err().kind(), client::ErrorKind::Protocol, "{name:?}");
    }
    for (names, file_type) in [(&[""][..], 1), (&["", "a"], 2)] {
        listed(names, file_type);
        assert_eq!(store.client.list("/d").await.unwrap_err().kind(), client::ErrorKind::Protocol, "its own directory");
    }
    for names in [&[""][..], &["...", ".a", "a..b", "ü"]] {
        listed(names, 2);
        let found: Vec<String> = store
            .client
            .list("/d")
            .await
            .unwrap()
            .collect()
            .await
            .unwrap()
            .into_iter()
            .map(|entry| entry.name)
            .collect();
        assert_eq!(found, names);
    }
}

#[tokio::test]
async fn a_damaged_replica_is_reported_and_read_elsewhere() {
    let store = Store::new(3).await;
    let data = bytes(300_000);
    store.book.add_file("/f", &[&data]);
    store.nodes[0].script([Trick::Corrupt(200_000)]);
    reads_whole(&store, 70_000, &data).await;
    assert_eq!(store.book.state().reported, [(1, format!(":{}", store.nodes[0].port()))]);
}

/// The first node is slow, so a second one is asked beside it; then the first brings damage. The reader gets what the
/// second has, and the damage must be known all the same.
#[tokio::test]
async fn damage_is_reported_also_by_a_read_that_another_node_serves() {
    let store = Store::new(2).await;
    let data = bytes(100_000);
    store.book.add_file("/f", &[&data]);
    store.nodes[0].set_lag(Duration::from_millis(200));
    store.nodes[0].script([Trick::Corrupt(50_000)]);
    store.nodes[1].set_lag(Duration::from_millis(500));
    let reader = store.client.open("/f").await.unwrap();
    let mut read = vec![0; 70_000];
    assert_eq!(reader.read_at(10_000, &mut read).await.unwrap(), read.len());
    assert!(read == data[10_000..80_000]);
    assert_eq!(store.book.state().reported, [(1, format!(":{}", store.nodes[0].port()))]);
}

#[tokio::test]
async fn a_broken_stream_goes_on_at_the_same_byte() {
    let data = bytes(300_000);
    for cut in [0, 5, 31, 500, 543, 544, 70_000, 65_536 + 543, 66_100, 150_000, 302_000] {
        let store = Store::new(2).await;
        store.book.add_file("/f", &[&data]);
        store.nodes[0].script([Trick::CutAfter(cut)]);
        reads_whole(&store, 100_000, &data).await;
        assert!(store.book.state().reported.is_empty(), "a broken stream is no damage");
    }
}

#[tokio::test]
async fn nodes_that_refuse_or_hang_up_are_passed_over() {
    let store = Store::new(3).await;
    let data = bytes(100_000);
    store.book.add_file("/f", &[&data, &data]);
    store.nodes[0].script([Trick::Refuse { first_bad_link: String::new() }]);
    store.nodes[1].script([Trick::HangUp]);
    reads_whole(&store, 1 << 20, &[&data[..], &data].concat()).await;
    // The second block was not tried on them again.
    assert_eq!(store.nodes.iter().map(|node| node.connections.load(Ordering::Relaxed)).collect::<Vec<_>>(), [1, 1, 1]);
}

#[tokio::test]
async fn when_all_have_failed_the_server_is_asked_anew() {
    let store = Store::new(3).await;
    let data = bytes(100_000);
    store.book.add_file("/f", &[&data]);
    store.book.state().show.extend([vec![0, 1], vec![2]]);
    store.nodes[0].script(vec![Trick::HangUp; 9]);
    store.nodes[1].script(vec![Trick::Corrupt(0); 9]);
    reads_whole(&store, 1 << 20, &data).await;
    assert_eq!(store.book.count("getBlockLocations"), 2);
}

#[tokio::test]
async fn a_block_that_nobody_has_whole_is_an_error_that_names_them_all() {
    let store = Store::new(2).await;
    store.book.add_file("/f", &[&bytes(1000)]);
    store.nodes[0].script(vec![Trick::HangUp; 9]);
    store.nodes[1].script(vec![Trick::Corrupt(512); 9]);
    let mut reader = store.client.open("/f").await.unwrap();
    let error = reader.read(&mut [0; 1000]).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::NoReplica { block: 1, .. }), "{text}");
    for wanted in [&store.nodes[0].addr(), &store.nodes[1].addr(), "checksum error at offset 512"] {
        assert!(text.contains(wanted), "{text}");
    }
    // The reader stands where it stood, and what lies before the damage can be read.
    assert_eq!(reader.position(), 0);
    assert_eq!(reader.read_at(0, &mut [0; 512]).await.unwrap(), 512);
}

#[tokio::test]
async fn any_offset_any_length_any_layout() {
    let mut random = types::random::Seeded(7);
    let mut below = |end: usize| types::Random::below(&mut random, end);
    for kind in [ChecksumKind::Crc32c, ChecksumKind::Crc32] {
        for (chunk_len, packet_len) in [(512, 64 << 10), (512, 512), (1000, 3000), (4096, 8192), (1, 50)] {
            let spec = ChecksumSpec { kind, chunk_len };
            let store = Store::with(1, spec, packet_len, quick()).await;
            let (first, second) = (bytes(10_000), bytes(5_001));
            store.book.add_file("/f", &[&first, &second]);
            let whole = [first, second].concat();
            for step in [1, 100, 511, 4096, 20_000] {
                reads_whole(&store, step, &whole).await;
            }
            let mut reader = store.client.open("/f").await.unwrap();
            for _ in 0..50 {
                let (at, len) = (below(whole.len() + 10), below(6000));
                let want = &whole[at.min(whole.len())..(at + len).min(whole.len())];
                let mut got = vec![0; len];
                let count = reader.read_at(at as u64, &mut got).await.unwrap();
                assert_eq!(
                    &got[..count],
                    want,
                    "{count} bytes at {at}, chunks of {chunk_len} in packets of {packet_len}"
                );
                if below(3) == 0 {
                    reader.seek(at as u64);
                }
                let at = reader.position() as usize;
                let want = &whole[at.min(whole.len())..(at + len).min(whole.len())];
                let count = reader.read(&mut got).await.unwrap();
                assert_eq!(&got[..count], want);
            }
        }
    }
}

#[tokio::test]
async fn positioned_reads_share_one_connection() {
    let store = Store::new(1).await;
    let data = bytes(100_000);
    store.book.add_file("/f", &[&data]);
    let reader = store.client.open("/f").await.unwrap();
    for at in 0..20 {
        let mut got = [0; 100];
        assert_eq!(reader.read_at(at * 4999, &mut got).await.unwrap(), 100);
        assert_eq!(got, data[at as usize * 4999..][..100]);
    }
    assert_eq!(store.nodes[0].connections.load(Ordering::Relaxed), 1);
    // A kept connection that the server has closed meanwhile is no fault of the replica.
    store.nodes[0].script([Trick::HangUp]);
    assert_eq!(reader.read_at(7, &mut [0; 5]).await.unwrap(), 5);
    assert_eq!(store.nodes[0].connections.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_file_that_is_being_written_is_read_as_far_as_its_nodes_show_it() {
    let store = Store::new(2).await;
    let (first, open) = (bytes(4096), bytes(1234));
    store.book.add_file("/f", &[&first, &open]);
    store.book.state().open = true;
    reads_whole(&store, 1000, &[first, open].concat()).await;
}

/// Callers make room for as many bytes as a file has.
#[tokio::test]
async fn no_node_shows_more_than_a_block_may_have() {
    let store = Store::new(2).await;
    store.book.add_file("/f", &[&bytes(10)]);
    store.book.state().open = true;
    store.book.state().visible_len = Some(u64::MAX);
    let refused = store.client.open("/f").await.unwrap_err();
    assert_eq!(refused.kind(), client::ErrorKind::NoReplica, "{refused}");
    assert!(refused.to_string().contains("more than a block may have"), "{refused}");
}

/// As `levada get` does when datanodes were started anew: in the same file, and in no other of its length.
#[tokio::test]
async fn a_reader_goes_on_in_the_same_file_alone() {
    for names_files in [false, true] {
        let store = Store::new(1).await;
        store.book.state().names_files = names_files;
        let (first, second) = (bytes(1000), vec![7; 1000]);
        store.book.add_file("/f", &[&first, &second]);
        let mut reader = store.client.open("/f").await.unwrap();
        let mut read = vec![0; 500];
        reader.read(&mut read).await.unwrap();
        let mut again = reader.reopened().await.unwrap();
        assert_eq!((again.position(), again.read(&mut read).await.unwrap()), (500, 500));
        assert!(read == first[500..]);
        // Replaced, cut and written on, and gone.
        let mut others = vec![reader, again];
        others.push(store.client.open_pinned("/f").await.unwrap());
        store.book.add_file("/f", &[&second, &first]);
        for reader in &others {
            let refused = reader.reopened().await.unwrap_err();
            assert!(refused.to_string().contains("was changed while it was read"), "{refused}");
        }
        let reader = store.client.open("/f").await.unwrap();
        let blocks = store.book.state().files["/f"].0.clone();
        store.book.add_file("/g", &[&first]);
        let other = store.book.state().files["/g"].0[0];
        store.book.state().files.get_mut("/f").unwrap().0 = vec![blocks[0], other];
        assert_eq!(reader.reopened().await.unwrap_err().kind(), client::ErrorKind::Invalid);
        store.book.state().files.clear();
        assert!(matches!(reader.reopened().await, Err(Error::NotFound)));
    }
}

/// Its writer goes on meanwhile: what was read is what the file begins with, also once it is closed.
#[tokio::test]
async fn a_reader_goes_on_in_a_file_that_is_being_written() {
    let store = Store::new(1).await;
    store.book.state().names_files = true;
    let (first, open) = (bytes(4096), bytes(1234));
    store.book.add_file("/f", &[&first, &open]);
    store.book.state().open = true;
    store.book.state().visible_len = Some(100);
    let reader = store.client.open("/f").await.unwrap();
    store.book.state().visible_len = Some(200);
    let again = reader.reopened().await.unwrap();
    assert_eq!((reader.len(), again.len()), (4196, 4296));
    store.book.state().open = false;
    assert_eq!(again.reopened().await.unwrap().len(), 4096 + 1234);
    assert!(again.reopened().await.unwrap().reopened().await.is_ok());
    let fewer = store.book.state().files["/f"].0[..1].to_vec();
    store.book.state().files.get_mut("/f").unwrap().0 = fewer;
    assert_eq!(again.reopened().await.unwrap_err().kind(), client::ErrorKind::Invalid, "it was cut");
}

#[tokio::test]
async fn a_missing_file_is_not_found() {
    let store = Store::new(1).await;
    assert!(matches!(store.client.open("/nothing").await, Err(Error::NotFound)));
}
