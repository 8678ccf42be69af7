//! Datanodes on this machine that pass descriptors, as they should and otherwise.

use crate::support::{Store, Way, bytes, quick};
use client::{Options, RangeRead};
use std::sync::atomic::Ordering;
use types::ChecksumSpec;
use wire::Abilities;

/// The second block is so short that nobody asks for it.
const LENS: [usize; 3] = [700_000, 100, 799_900];

/// A store with a file `/f` on one node.
async fn stored(abilities: Abilities, options: Options) -> (Store, Vec<u8>) {
    let store = Store::with(1, ChecksumSpec::DEFAULT, 64 << 10, options).await;
    store.book.state().abilities = Some(abilities.bits() | Abilities::RANGES.bits());
    let data = bytes(LENS.iter().sum());
    let (first, rest) = data.split_at(LENS[0]);
    let (second, third) = rest.split_at(LENS[1]);
    store.book.add_file("/f", &[first, second, third]);
    (store, data)
}

/// By each kind of reading.
async fn reads_right(store: &Store, data: &[u8]) {
    let mut reader = store.client.open("/f").await.unwrap();
    let mut all = vec![0; data.len() + 1];
    assert_eq!(reader.read(&mut all).await.unwrap(), data.len());
    assert!(all[..data.len()] == *data);
    for (offset, len) in [(0, 1), (511, 2), (699_000, 2000), (1_000_000, 300_000)] {
        let (mut dest, mut beside) = (vec![0; len], [0; 10]);
        assert_eq!(reader.read_at(offset as u64, &mut dest).await.unwrap(), len);
        assert!(dest == data[offset..offset + len], "{len} bytes at {offset}");
        let reads = &mut [
            RangeRead { offset: offset as u64, dest: &mut dest },
            RangeRead { offset: 1_200_001, dest: &mut beside },
        ];
        reader.read_ranges(reads).await.unwrap();
        assert!(dest == data[offset..offset + len] && beside == data[1_200_001..1_200_011], "{len} at {offset}");
    }
}

fn passed_len(store: &Store) -> u64 {
    store.client.store().local_read_len()
}

#[tokio::test]
async fn blocks_on_this_machine_are_read_by_descriptors() {
    let (store, data) = stored(Abilities::LOCAL_READS, quick()).await;
    let _dir = store.nodes[0].listen(Way::Honest);
    reads_right(&store, &data).await;
    assert!(passed_len(&store) >= (LENS[0] + LENS[2]) as u64, "{}", passed_len(&store));
    assert_eq!(store.nodes[0].passed_count.load(Ordering::Relaxed), 2, "once a block");
    reads_right(&store, &data).await;
    assert_eq!(store.nodes[0].passed_count.load(Ordering::Relaxed), 4, "another reader has its own");
}

#[tokio::test]
async fn what_goes_wrong_there_is_read_over_tcp() {
    use Way::*;
    for way in [Refuses, HangsUp, SendsNone, SendsOne, SendsFour, SendsDamage, SaysTooMuch] {
        let (store, data) = stored(Abilities::LOCAL_READS, quick()).await;
        let _dir = store.nodes[0].listen(way);
        reads_right(&store, &data).await;
        assert_eq!(passed_len(&store), 0, "{way:?}");
        assert!(store.book.state().reported.is_empty(), "{way:?}: over TCP nothing was wrong");
    }
}

/// As for a client in a container.
#[tokio::test]
async fn a_socket_that_is_not_there_is_looked_for_once() {
    let (store, data) = stored(Abilities::LOCAL_READS, quick()).await;
    drop(store.nodes[0].listen(Way::Honest));
    for _again in 0..2 {
        reads_right(&store, &data).await;
    }
    assert_eq!((passed_len(&store), store.nodes[0].asked_count.load(Ordering::Relaxed)), (0, 1));
}

#[tokio::test]
async fn who_may_not_or_cannot_is_not_asked() {
    for (abilities, local_reads) in [(Abilities::LOCAL_READS, false), (Abilities::STREAMS, true)] {
        let (store, data) = stored(abilities, Options { local_reads, ..quick() }).await;
        let _dir = store.nodes[0].listen(Way::Honest);
        reads_right(&store, &data).await;
        assert_eq!((passed_len(&store), store.nodes[0].asked_count.load(Ordering::Relaxed)), (0, 0));
    }
}
