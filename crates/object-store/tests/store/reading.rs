//! Reads: of ranges, of long objects, by few requests.

use crate::support::{Cluster, bytes, read};
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode};
use std::ops::Range;

const MB: u64 = 1 << 20;

/// A thousand ranges of a file of four blocks: at most one request a block, and no other of any kind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_ranges_are_one_request_a_block() {
    let cluster = Cluster::new().await;
    let client = cluster.client().clone();
    let create = client::Create { block_len: Some(MB), ..client::Create::default() };
    let objects = levada_object_store::Levada::with_create(client, create);
    let (path, data) = (Path::from("columns"), bytes(1, 4 * MB as usize));
    objects.put(&path, data.clone().into()).await.unwrap();
    let ranges: Vec<Range<u64>> = (0..1000).map(|number| number * 4000..number * 4000 + 1436).collect();
    let (before, reads_before) = (cluster.operation_count("read_ranges"), cluster.operation_count("read"));
    let read = objects.get_ranges(&path, &ranges).await.unwrap();
    for (range, bytes) in ranges.iter().zip(&read) {
        assert_eq!(*bytes, data.slice(range.start as usize..range.end as usize), "{range:?}");
    }
    let asked = cluster.operations_since(before, "read_ranges").await;
    assert!((1..=4).contains(&asked), "{asked} requests for 4 blocks on 2 nodes");
    assert_eq!(cluster.operation_count("read"), reads_before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_of_all_kinds() {
    let cluster = Cluster::new().await;
    let objects = &cluster.objects;
    let (path, len) = (Path::from("long"), 11 * MB + 77);
    let data = bytes(2, len as usize);
    objects.put_opts(&path, data.clone().into(), PutMode::Create.into()).await.unwrap();
    let wanted = [
        (GetRange::Bounded(0..1), 0..1),
        (GetRange::Bounded(511..513), 511..513),
        (GetRange::Bounded(5..4 * MB + 5), 5..4 * MB + 5),
        (GetRange::Bounded(5..4 * MB + 6), 5..4 * MB + 6),
        (GetRange::Bounded(1000..len + 1000), 1000..len),
        (GetRange::Offset(len - 1), len - 1..len),
        (GetRange::Offset(3), 3..len),
        (GetRange::Suffix(0), len..len),
        (GetRange::Suffix(6 * MB), len - 6 * MB..len),
        (GetRange::Suffix(2 * len), 0..len),
    ];
    for (range, wanted) in wanted {
        let result = objects.get_opts(&path, GetOptions::new().with_range(Some(range))).await.unwrap();
        assert_eq!((result.range.clone(), result.meta.size), (wanted.clone(), len));
        let items: Vec<_> = result.into_stream().try_collect().await.unwrap();
        assert!(items.iter().all(|item| item.len() as u64 <= 4 * MB), "an item may have a bounded length");
        assert!(items.concat() == data[wanted.start as usize..wanted.end as usize], "{wanted:?}");
    }
    for bad in [GetRange::Bounded(len..len + 1), GetRange::Bounded(5..5), GetRange::Offset(len)] {
        let refused = objects.get_opts(&path, GetOptions::new().with_range(Some(bad.clone()))).await;
        assert!(refused.is_err(), "{bad:?}");
    }
    // As with `get_range`: what lies behind the end is left out, what begins there is an error.
    let ends = objects.get_ranges(&path, &[len - 2..len + 5, 0..2]).await.unwrap();
    assert_eq!(ends, [data.slice(len as usize - 2..), data.slice(..2)]);
    assert_eq!(objects.get_ranges(&path, &[]).await.unwrap().len(), 0);
    objects.get_ranges(&path, &[0..1, len..len + 1]).await.unwrap_err();
    objects.get_ranges(&Path::from("missing"), &[0..1, 2..3]).await.unwrap_err();
}

/// Only what is asked about is fetched: a head opens nothing, a stream that is dropped is read no further.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_reads_nothing() {
    let cluster = Cluster::new().await;
    let path = Path::from("o");
    cluster.objects.put(&path, bytes(1, 9 * MB as usize).into()).await.unwrap();
    let before = cluster.operation_count("read");
    assert_eq!(cluster.objects.head(&path).await.unwrap().size, 9 * MB);
    drop(cluster.objects.get(&path).await.unwrap());
    assert_eq!(cluster.operation_count("read"), before);
    let mut stream = cluster.objects.get(&path).await.unwrap().into_stream();
    assert_eq!(stream.try_next().await.unwrap().map(|item| item.len() as u64), Some(MB));
    drop(stream);
    assert_eq!(read(&cluster.objects, &path).await, bytes(1, 9 * MB as usize));
}
