//! Many ranges of a file at once, among datanodes that lie, hang up and come back.

use crate::support::{Store, Trick, bytes, quick};
use client::{Error, Options, RangeRead};
use futures_util::StreamExt;
use std::sync::atomic::Ordering;
use std::time::Duration;
use types::ChecksumSpec;
use wire::Abilities;

/// A store with a file `/f` of three blocks, on each of the nodes.
async fn stored(node_count: usize, abilities: Option<u64>) -> (Store, Vec<u8>) {
    let store = Store::new(node_count).await;
    store.book.state().abilities = abilities;
    let data = bytes(1_500_000);
    store.book.add_file("/f", &[&data[..700_000], &data[700_000..700_100], &data[700_100..]]);
    (store, data)
}

/// Short ones, one over all blocks, an empty one, and one that overlaps another.
fn places() -> Vec<(usize, usize)> {
    let mut places: Vec<_> = (0..100).map(|i| (1_499_000 - i * 14_000, 436)).collect();
    places.extend([(600_000, 300_000), (5, 0), (699_990, 30), (0, 1), (1_499_999, 1)]);
    places
}

async fn reads_right(store: &Store, data: &[u8]) {
    let reader = store.client.open("/f").await.unwrap();
    let mut buffers: Vec<Vec<u8>> = places().iter().map(|(_, len)| vec![0; *len]).collect();
    let mut reads: Vec<_> = places()
        .iter()
        .zip(&mut buffers)
        .map(|((offset, _), dest)| RangeRead { offset: *offset as u64, dest })
        .collect();
    reader.read_ranges(&mut reads).await.unwrap();
    for ((offset, len), got) in places().into_iter().zip(&buffers) {
        assert!(got[..] == data[offset..offset + len], "{len} bytes at {offset}");
    }
}

fn requests(store: &Store) -> usize {
    store.nodes.iter().map(|node| node.range_requests.load(Ordering::Relaxed)).sum()
}

const RANGES: Option<u64> = Some(Abilities::RANGES.bits());

#[tokio::test]
async fn all_that_a_node_has_comes_by_one_request() {
    let (store, data) = stored(3, RANGES).await;
    reads_right(&store, &data).await;
    assert_eq!(requests(&store), 1);
    reads_right(&store, &data).await;
    assert_eq!(
        (requests(&store), store.nodes[0].connections.load(Ordering::Relaxed)),
        (2, 1),
        "the connection is kept"
    );
}

/// What a new connection brings in a round trip is little, and doubles with each: thirty-two of them save five. The
/// next call goes by those that are there.
#[tokio::test]
async fn from_far_away_a_long_read_comes_by_several_connections() {
    let far = Options { round_trip: Some(Duration::from_millis(240)), ..quick() };
    let store = Store::with(3, ChecksumSpec::DEFAULT, 64 << 10, far).await;
    store.book.state().abilities = RANGES;
    let data = bytes(3_000_000);
    // Short blocks, as these nodes sum up all of a block for each request.
    store.book.add_file("/f", &data.chunks(125_000).collect::<Vec<_>>());
    let reader = store.client.open("/f").await.unwrap();
    let connections = || store.nodes[0].connections.load(Ordering::Relaxed);

    let mut short = vec![0; 10_000];
    assert_eq!(reader.read_at(1_999_000, &mut short).await.unwrap(), short.len());
    assert!(short[..] == data[1_999_000..][..10_000]);
    assert_eq!(connections(), 1, "a short one needs no more");

    for _ in 0..2 {
        let mut long = vec![0; data.len()];
        assert_eq!(reader.read_at(0, &mut long).await.unwrap(), data.len());
        assert!(long == data);
        assert_eq!(connections(), 245, "one for each 12 KiB");
    }
    let before = requests(&store);
    let mut buffers = vec![vec![0; 1436]; 1000];
    let places = || (0..1000).map(|place| place * 2990);
    let mut reads: Vec<_> = places().zip(&mut buffers).map(|(offset, dest)| RangeRead { offset, dest }).collect();
    reader.read_ranges(&mut reads).await.unwrap();
    assert!(places().zip(&buffers).all(|(at, got)| got[..] == data[at as usize..][..1436]));
    // Twelve kilobytes are worth a connection.
    assert_eq!((requests(&store) - before, connections()), (117, 245));
}

#[tokio::test]
async fn a_store_that_cannot_do_it_is_read_the_old_way() {
    let (store, data) = stored(2, Some(Abilities::STREAMS.bits())).await;
    reads_right(&store, &data).await;
    assert_eq!(requests(&store), 0);
}

#[tokio::test]
async fn what_one_node_does_not_bring_comes_from_another() {
    let refuse = Trick::Refuse { first_bad_link: String::new() };
    for trick in [Trick::HangUp, refuse, Trick::CutAfter(0), Trick::CutAfter(200_000)] {
        let (store, data) = stored(2, RANGES).await;
        store.nodes[0].script([trick.clone()]);
        reads_right(&store, &data).await;
        let of_each = [0, 1].map(|node: usize| store.nodes[node].range_requests.load(Ordering::Relaxed));
        assert_eq!(of_each, [1, 1], "{trick:?}");
        assert_eq!(store.book.state().reported, [], "{trick:?}");
    }
}

/// It is not waited for until the limit of a read, as others have the same blocks.
#[tokio::test]
async fn what_a_slow_node_does_not_bring_comes_from_another() {
    let (store, data) = stored(2, RANGES).await;
    store.nodes[0].set_lag(Duration::from_secs(20));
    reads_right(&store, &data).await;
    let of_each = [0, 1].map(|node: usize| store.nodes[node].range_requests.load(Ordering::Relaxed));
    assert_eq!(of_each, [1, 1]);
}

/// It is the link that is waited for. Where the others are silent, too, it is the node.
#[tokio::test]
async fn a_connection_that_is_silent_while_others_fill_the_link_is_waited_for() {
    /// Of the nearest of what is far: half a second may be silent.
    const ROUND_TRIP: Duration = Duration::from_millis(5);
    const SILENCE: Duration = Duration::from_millis(1300);
    const SHARE_COUNT: usize = 50;
    let far = Options { round_trip: Some(ROUND_TRIP), timeout: 10 * SILENCE, ..quick() };
    // Before its answer, and behind some of it.
    let pauses = [0, 10_000].map(|after| Trick::Pause { after, time: SILENCE });
    for (others, is_asked_elsewhere) in [(Trick::Drip(SILENCE), false), (pauses[1].clone(), true)] {
        let store = Store::with(2, ChecksumSpec::DEFAULT, 64 << 10, far.clone()).await;
        store.book.state().abilities = RANGES;
        let data = bytes(6_000_000);
        store.book.add_file("/f", &data.chunks(125_000).collect::<Vec<_>>());
        let reader = store.client.open("/f").await.unwrap();
        // As many as tell how fast the node is.
        for _ in 0..40 {
            reader.read_ranges(&mut [RangeRead { offset: 0, dest: &mut [0; 100] }]).await.unwrap();
        }
        store.nodes[0].script([pauses.to_vec(), vec![others; SHARE_COUNT - 2]].concat());
        let mut got = vec![0; data.len()];
        reader.read_ranges(&mut [RangeRead { offset: 0, dest: &mut got }]).await.unwrap();
        assert!(got == data);
        assert_eq!(store.nodes[1].range_requests.load(Ordering::Relaxed) > 0, is_asked_elsewhere);
    }
}

/// The node finds what rotted where a range begins or ends, the reader the rest. Only that block is reported.
#[tokio::test]
async fn a_damaged_replica_is_reported_and_read_elsewhere() {
    // In the middle of the long range, and at the end of a short one.
    for at in [650_000, 113_100] {
        let (store, data) = stored(2, RANGES).await;
        store.nodes[0].script([Trick::Corrupt(at)]);
        reads_right(&store, &data).await;
        let reported: Vec<u64> = store.book.state().reported.iter().map(|(block, _)| *block).collect();
        assert_eq!(reported, [1], "{at}");
    }
}

/// However many ranges of it are damaged.
#[tokio::test]
async fn a_damaged_replica_is_reported_once() {
    let (store, data) = stored(2, RANGES).await;
    store.nodes[0].script([Trick::Corrupt(650_000)]);
    let reader = store.client.open("/f").await.unwrap();
    let mut buffers = vec![vec![0; 50_000]; 40];
    let mut reads: Vec<_> =
        (0..).zip(&mut buffers).map(|(i, dest)| RangeRead { offset: 630_000 + i % 3, dest }).collect();
    reader.read_ranges(&mut reads).await.unwrap();
    assert!((0..).zip(&buffers).all(|(i, got)| got[..] == data[630_000 + i % 3..][..50_000]));
    assert_eq!(store.book.state().reported.len(), 1);
}

/// Each byte once, though the first node closes in the midst of its answer; and nothing behind an error.
#[tokio::test]
async fn what_has_come_is_handed_over_as_it_comes() {
    let (store, data) = stored(2, RANGES).await;
    store.nodes[0].script([Trick::CutAfter(400_000)]);
    let reader = store.client.open("/f").await.unwrap();
    let mut buffer = vec![0; 1_200_000];
    let reads = (0..).zip(buffer.chunks_mut(100_000)).map(|(i, dest)| RangeRead { offset: i * 100_000, dest });
    let mut arrived = Box::pin(reader.stream_ranges(reads.collect()));
    let (mut offsets, mut before_cut) = (Vec::new(), 0);
    while let Some(read) = arrived.next().await {
        let RangeRead { offset, dest } = read.unwrap();
        assert!(*dest == data[offset as usize..][..dest.len()], "{} bytes at {offset}", dest.len());
        offsets.push((offset, dest.len() as u64));
        before_cut += usize::from(requests(&store) == 1);
    }
    assert!(before_cut > 0, "what the first node sent was there before the second one was asked");
    offsets.sort_unstable();
    let end = offsets.iter().fold(0, |end, (offset, len)| if *offset == end { end + len } else { end });
    assert_eq!(end, 1_200_000, "{offsets:?}");
    drop(arrived);
    let (mut one, mut beyond) = (vec![0; 10], vec![0; 10]);
    let reads = vec![RangeRead { offset: 0, dest: &mut one }, RangeRead { offset: 1_499_991, dest: &mut beyond }];
    let found: Vec<_> = reader.stream_ranges(reads).collect().await;
    assert!(matches!(found[..], [Err(Error::Invalid(_))]), "{found:?}");
}

/// More than one request may name.
#[tokio::test]
async fn a_file_of_very_many_blocks_takes_several_requests() {
    let store = Store::new(1).await;
    store.book.state().abilities = RANGES;
    let data = bytes(3000);
    let blocks: Vec<&[u8]> = data.chunks(1).collect();
    store.book.add_file("/f", &blocks);
    let reader = store.client.open("/f").await.unwrap();
    let mut got = vec![0; 3000];
    reader.read_ranges(&mut [RangeRead { offset: 0, dest: &mut got }]).await.unwrap();
    assert!(got == data);
    assert_eq!(requests(&store), 3);
}

#[tokio::test]
async fn when_nobody_has_it_that_is_said() {
    let (store, _) = stored(1, RANGES).await;
    store.nodes[0].script(vec![Trick::HangUp; 20]);
    let reader = store.client.open("/f").await.unwrap();
    let mut dest = [0; 10];
    let failed = reader.read_ranges(&mut [RangeRead { offset: 5, dest: &mut dest }]).await;
    assert!(matches!(failed, Err(Error::NoReplica { block: 1, .. })), "{failed:?}");
    let beyond = reader.read_ranges(&mut [RangeRead { offset: 1_499_991, dest: &mut dest }]).await;
    assert!(matches!(beyond, Err(Error::Invalid(_))), "{beyond:?}");
}
