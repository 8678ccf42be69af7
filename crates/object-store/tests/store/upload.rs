//! Objects in parts.

use crate::support::{Cluster, bytes, listed, read};
use futures_util::future::{join_all, try_join_all};
use object_store::path::Path;
use object_store::{Error, MultipartUpload, ObjectStoreExt};

const PART_LEN: usize = 700_000;

fn part(number: u64) -> object_store::PutPayload {
    bytes(number, PART_LEN).into()
}

fn whole(count: u64) -> Vec<u8> {
    (0..count).flat_map(|number| bytes(number, PART_LEN)).collect()
}

async fn begin(cluster: &Cluster, path: &Path) -> Box<dyn MultipartUpload> {
    cluster.objects.put_multipart(path).await.unwrap()
}

/// Parts stand in the order of the calls, whichever is awaited when, or not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_stand_in_the_order_of_the_calls() {
    let cluster = Cluster::new().await;
    let path = Path::from("d/o");
    let mut upload = begin(&cluster, &path).await;
    let mut parts: Vec<_> = (0..9).map(|number| upload.put_part(part(number))).collect();
    parts.remove(8).await.unwrap();
    let (first, rest) = parts.split_at_mut(1);
    // Polled once, and then no more until the end: it holds up nobody.
    let polled = futures_util::poll!(&mut first[0]);
    try_join_all(rest.iter_mut().rev()).await.unwrap();
    drop(upload.put_part(part(9)));
    assert_eq!(listed(&cluster.objects, None).await, [""; 0]);
    let put = upload.complete().await.unwrap();
    assert_eq!(put.e_tag, cluster.objects.head(&path).await.unwrap().e_tag);
    if polled.is_pending() {
        parts.swap_remove(0).await.unwrap();
    }
    assert!(read(&cluster.objects, &path).await == whole(10));
    assert_eq!(cluster.files().await, ["/d/o"]);
    assert!(upload.put_part(part(1)).await.is_err(), "a part behind the end");
    assert!(upload.complete().await.is_err(), "a second end");
    assert!(read(&cluster.objects, &path).await == whole(10));
}

/// Nothing is left of what was aborted or forgotten, before its first part, in the midst of one, or at the end; and
/// what had the name before still has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_leaves_nothing() {
    let cluster = Cluster::new().await;
    let path = Path::from("d/o");
    cluster.objects.put(&path, "old".into()).await.unwrap();
    for part_count in [0, 1, 5] {
        for is_awaited in [true, false] {
            let mut upload = begin(&cluster, &path).await;
            let mut parts: Vec<_> = (0..part_count).map(|number| upload.put_part(part(number))).collect();
            match is_awaited {
                true => drop(try_join_all(parts.drain(..)).await.unwrap()),
                false => parts.iter_mut().for_each(|part| drop(futures_util::FutureExt::now_or_never(part))),
            }
            upload.abort().await.unwrap();
            assert_eq!(cluster.files().await, ["/d/o"]);
            assert!(upload.complete().await.is_err(), "what was aborted is not there any more");

            let mut upload = begin(&cluster, &path).await;
            try_join_all((0..part_count).map(|number| upload.put_part(part(number)))).await.unwrap();
            drop(upload);
            cluster.comes_to(&["/d/o"]).await;
        }
    }
    assert_eq!(read(&cluster.objects, &path).await, "old");
}

/// The store goes away in the midst: each part is told, and so is the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_fails_ends_the_upload() {
    let cluster = Cluster::new().await;
    let objects = cluster.other(client::Options::default());
    let mut upload = objects.put_multipart(&Path::from("o")).await.unwrap();
    upload.put_part(part(0)).await.unwrap();
    objects.close().await;
    let parts: Vec<_> = (1..4).map(|number| upload.put_part(part(number))).collect();
    for part in join_all(parts).await {
        assert!(matches!(part, Err(Error::Generic { .. })), "{part:?}");
    }
    assert!(matches!(upload.complete().await, Err(Error::Generic { .. })));
    assert_eq!(listed(&cluster.objects, None).await, [""; 0]);
}
