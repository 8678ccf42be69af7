//! Names that are no plain words, files that are no objects, and directories.

use crate::support::{Cluster, bytes, listed, read};
use client::Create;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt};

/// Each object is found under the name that it was put under, listed under it, and is one file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_names_come_back() {
    let cluster = Cluster::new().await;
    let long = "x".repeat(255);
    let mut names: Vec<Path> =
        ["a b/c=d&e+f/ü.ß", "%", "100%", "a%2Fb", "a\\b", "{x}*?", "\"q\"", "..", "...", ".hidden", "~", "#1", &long]
            .map(Path::from)
            .into();
    names.extend(
        ["a~b", "a%2Fb", "%48", "a*", "🙀/\u{202e}x", "COPYING_", "._COPYING"].map(|text| Path::parse(text).unwrap()),
    );
    names.push(Path::from_iter(["one", "two/three"]));
    for (seed, name) in (0..).zip(&names) {
        cluster.objects.put(name, bytes(seed, 10).into()).await.unwrap();
    }
    let mut wanted: Vec<_> = names.iter().map(ToString::to_string).collect();
    wanted.sort_unstable();
    assert_eq!(listed(&cluster.objects, None).await, wanted);
    for (seed, name) in (0..).zip(&names) {
        assert_eq!(read(&cluster.objects, name).await, bytes(seed, 10), "{name}");
        assert_eq!(cluster.objects.head(name).await.unwrap().location, *name);
    }
    let files: Vec<_> = wanted.iter().map(|name| format!("/{name}")).collect();
    assert_eq!(cluster.files().await, files);
    let too_long = cluster.objects.put(&Path::from("x".repeat(256)), "x".into()).await;
    assert!(matches!(too_long, Err(Error::Generic { .. })), "{too_long:?}");
}

/// Files of others that a path cannot name, or that are not whole yet, are passed over; names of ours for such files
/// are nobody's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_object_is_not_shown() {
    let cluster = Cluster::new().await;
    for file in ["/d/plain", "/d/a\nb", "/d/x._COPYING_", "/t._COPYING_/y"] {
        cluster.client().create(file, &Create::default()).await.unwrap().close().await.unwrap();
    }
    cluster.client().mkdirs("/empty/below/below", 0o755, true).await.unwrap();
    assert_eq!(listed(&cluster.objects, None).await, ["d/plain"]);
    let result = cluster.objects.list_with_delimiter(None).await.unwrap();
    assert_eq!((result.common_prefixes, result.objects), (vec![Path::from("d")], vec![]));
    for unfinished in ["d/x._COPYING_", "t._COPYING_/y"].map(Path::from) {
        assert!(matches!(cluster.objects.head(&unfinished).await, Err(Error::NotFound { .. })), "{unfinished}");
        assert!(matches!(cluster.objects.delete(&unfinished).await, Err(Error::NotFound { .. })), "{unfinished}");
        assert!(cluster.objects.put(&unfinished, "x".into()).await.is_err(), "{unfinished}");
        assert_eq!(listed(&cluster.objects, Some(&unfinished)).await, [""; 0]);
    }
    assert_eq!(cluster.files().await, ["/d/a\nb", "/d/plain", "/d/x._COPYING_", "/t._COPYING_/y"]);
}

/// A directory is nothing that could be read, deleted or renamed; and nothing can be put where one is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directories_are_left_alone() {
    let cluster = Cluster::new().await;
    let (directory, object) = (Path::from("d"), Path::from("d/o"));
    cluster.objects.put(&object, "x".into()).await.unwrap();
    assert!(matches!(cluster.objects.delete(&directory).await, Err(Error::NotFound { .. })));
    assert!(matches!(cluster.objects.rename(&directory, &Path::from("e")).await, Err(Error::NotFound { .. })));
    assert!(matches!(cluster.objects.copy(&directory, &Path::from("e")).await, Err(Error::NotFound { .. })));
    for len in [1, 1 << 20] {
        let put = cluster.objects.put(&directory, bytes(1, len).into()).await;
        assert!(put.is_err(), "{put:?}");
        let below = cluster.objects.put(&object.clone().join("below"), bytes(1, len).into()).await;
        assert!(below.is_err(), "{below:?}");
    }
    assert_eq!(cluster.files().await, ["/d/o"]);
}

/// More than a page of names, and directories in all depths.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_and_deep_listings_are_whole() {
    let cluster = Cluster::new().await;
    let mut names: Vec<_> = (0..2500).map(|number| Path::from(format!("flat/{number:04}"))).collect();
    names.extend((0..40).map(|depth| Path::from(format!("deep/{}f", "d/".repeat(depth)))));
    names.extend((0..60).map(|number| Path::from(format!("wide/{number}/f"))));
    let puts = names.iter().map(|name| cluster.objects.put(name, object_store::PutPayload::default()));
    let puts: Vec<_> = puts.collect();
    for some in futures_util::stream::iter(puts).ready_chunks(100).collect::<Vec<_>>().await {
        futures_util::future::try_join_all(some).await.unwrap();
    }
    let mut wanted: Vec<_> = names.iter().map(ToString::to_string).collect();
    wanted.sort_unstable();
    assert_eq!(listed(&cluster.objects, None).await, wanted);
    let offset = Path::from("flat/1234");
    let behind: Vec<_> = cluster.objects.list_with_offset(None, &offset).try_collect().await.unwrap();
    assert_eq!(behind.len(), wanted.iter().filter(|name| name.as_str() > offset.as_ref()).count());
    let result = cluster.objects.list_with_delimiter(Some(&Path::from("flat"))).await.unwrap();
    assert_eq!((result.objects.len(), result.common_prefixes.len()), (2500, 0));
    let result = cluster.objects.list_with_delimiter(Some(&Path::from("wide"))).await.unwrap();
    assert_eq!((result.objects.len(), result.common_prefixes.len()), (0, 60));
}
