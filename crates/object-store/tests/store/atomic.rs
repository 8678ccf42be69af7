//! What others see while an object is written, and what is left when it is not.

use crate::support::{Cluster, bytes, listed, read};
use client::{Create, Options};
use levada_object_store::{Levada, client_error};
use object_store::path::Path;
use object_store::{Error, GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutPayload, UpdateVersion};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

const MB: usize = 1 << 20;

/// The bytes of a version, of which each tells which it is: a mixture would show.
fn version(number: u8, len: usize) -> PutPayload {
    vec![number; len].into()
}

/// Reads until `done`: each time one version, of the length that it was put with, and never an older one than before.
async fn reads_whole_versions(objects: &Levada, path: &Path, len: impl Fn(u8) -> usize, done: &AtomicBool) -> usize {
    let (mut count, mut last) = (0, 0);
    while !done.load(Ordering::Relaxed) {
        let result = objects.get(path).await.unwrap();
        let (meta, range) = (result.meta.clone(), result.range.clone());
        let Ok(bytes) = result.bytes().await.map_err(|error| {
            // Its file was replaced, and its blocks are gone since.
            assert!(matches!(error, Error::NotFound { .. }) || client_error(&error).is_some(), "{error}");
        }) else {
            continue;
        };
        let number = bytes[0];
        assert!(bytes.iter().all(|byte| *byte == number), "two versions in one");
        assert_eq!((bytes.len(), meta.size as usize, range.end as usize), (len(number), len(number), len(number)));
        assert!(number >= last, "version {number} after {last}");
        (count, last) = (count + 1, number);
    }
    count
}

/// Small objects, which go by one request, and long ones, of several packets and blocks; and both in turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_sees_the_old_or_the_new_object() {
    let cluster = Cluster::new().await;
    let lens: [fn(u8) -> usize; 3] = [
        |number| 100 + usize::from(number),
        |number| MB + 1000 * usize::from(number),
        |number| if number % 2 == 0 { 10 } else { 2 * MB },
    ];
    for (case, len) in lens.into_iter().enumerate() {
        let (path, done) = (Path::from(format!("case{case}")), AtomicBool::new(false));
        cluster.objects.put(&path, version(0, len(0))).await.unwrap();
        let reader = cluster.other(Options::default());
        let writing = async {
            for number in 1..=30 {
                let put = cluster.objects.put(&path, version(number, len(number))).await.unwrap();
                assert_eq!(put.e_tag, cluster.objects.head(&path).await.unwrap().e_tag);
            }
            done.store(true, Ordering::Relaxed);
        };
        let ((), count) = tokio::join!(writing, reads_whole_versions(&reader, &path, len, &done));
        assert!(count > 0, "the reader came to nothing");
        assert_eq!(read(&reader, &path).await[0], 30);
    }
    assert_eq!(cluster.files().await, ["/case0", "/case1", "/case2"]);
}

/// Of many writers of one name one succeeds, and its bytes are there; the others are told why not, and leave nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_writer_creates_an_object() {
    let cluster = Cluster::new().await;
    let others: Vec<_> = (0..8).map(|_| cluster.other(Options::default())).collect();
    for (round, len) in [10, 10, 10, MB, MB, 3 * MB].into_iter().enumerate() {
        let path = Path::from(format!("race/{round}"));
        let puts = (1..).zip(&others).map(async |(number, objects): (u8, &Levada)| {
            let put = objects.put_opts(&path, version(number, len), PutMode::Create.into()).await;
            (number, put)
        });
        let mut winner = None;
        for (number, put) in futures_util::future::join_all(puts).await {
            match put {
                Ok(put) => assert_eq!(winner.replace((number, put.e_tag)), None, "two created one object"),
                Err(Error::AlreadyExists { path: at, .. }) => assert_eq!(at, path.as_ref()),
                Err(error) => panic!("{error}"),
            }
        }
        let (number, e_tag) = winner.expect("one created it");
        assert_eq!(read(&cluster.objects, &path).await, vec![number; len]);
        assert_eq!(cluster.objects.head(&path).await.unwrap().e_tag, e_tag);
    }
    assert_eq!(cluster.files().await.len(), 6);
}

/// Many count in one object, each replacing what it has read: no count is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_updates_an_object_replaces_what_he_has_read() {
    let cluster = Cluster::new().await;
    let path = Path::from("counter");
    for len in [8, 2 * MB] {
        let content = |count: u64| [&count.to_le_bytes()[..], &vec![0; len - 8]].concat();
        cluster.objects.put(&path, content(0).into()).await.unwrap();
        let others: Vec<_> = (0..4).map(|_| cluster.other(Options::default())).collect();
        let counted = others.iter().map(async |objects| {
            let (mut done, mut refused) = (0, 0);
            while done < 5 {
                let got = objects.get(&path).await.unwrap();
                let mode = PutMode::Update(UpdateVersion { e_tag: got.meta.e_tag.clone(), version: None });
                let count = u64::from_le_bytes(*got.bytes().await.unwrap().first_chunk().unwrap());
                match objects.put_opts(&path, content(count + 1).into(), mode.into()).await {
                    Ok(_) => done += 1,
                    Err(Error::Precondition { path: at, .. }) => {
                        assert_eq!(at, path.as_ref());
                        refused += 1;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            refused
        });
        let refused: usize = futures_util::future::join_all(counted).await.into_iter().sum();
        let count = u64::from_le_bytes(*read(&cluster.objects, &path).await.first_chunk().unwrap());
        assert_eq!(count, 20, "{refused} were refused");
    }
    for e_tag in ["\"1-2-3\"", "nonsense"] {
        let mode = PutMode::Update(UpdateVersion { e_tag: Some(e_tag.into()), version: None });
        let put = cluster.objects.put_opts(&path, version(9, 3), mode.into()).await;
        assert!(matches!(put, Err(Error::Precondition { .. })), "{put:?}");
    }
    assert_eq!(cluster.files().await, ["/counter"], "what is refused leaves nothing");
}

/// As for renames and copies to one name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_rename_and_one_copy_take_a_free_name() {
    let cluster = Cluster::new().await;
    let objects = &cluster.objects;
    let sources: Vec<_> = (0..6).map(|number| Path::from(format!("from/{number}"))).collect();
    for (seed, source) in (0..).zip(&sources) {
        objects.put(source, bytes(seed, 300_000).into()).await.unwrap();
    }
    let (copied, renamed) = (Path::from("new/copied"), Path::from("other/renamed"));
    let copies = sources.iter().map(|source| objects.copy_if_not_exists(source, &copied));
    let copies = futures_util::future::join_all(copies).await;
    let renames = sources.iter().map(|source| objects.rename_if_not_exists(source, &renamed));
    let renames = futures_util::future::join_all(renames).await;
    for (done, target) in [(&copies, &copied), (&renames, &renamed)] {
        let winners: Vec<_> = (0..).zip(done).filter(|(_, done)| done.is_ok()).map(|(seed, _)| seed).collect();
        assert_eq!(winners.len(), 1, "{done:?}");
        let refused = |done: &&object_store::Result<()>| matches!(done, Err(Error::AlreadyExists { .. }));
        assert_eq!(done.iter().filter(refused).count(), 5, "{done:?}");
        assert_eq!(read(objects, target).await, bytes(winners[0], 300_000));
    }
    assert_eq!(listed(objects, None).await.len(), 7);
    objects.rename(&renamed, &renamed).await.unwrap();
    assert!(matches!(objects.rename_if_not_exists(&renamed, &renamed).await, Err(Error::AlreadyExists { .. })));
    objects.copy(&renamed, &renamed).await.unwrap();
    assert_eq!(listed(objects, None).await.len(), 7);
    assert_eq!(cluster.files().await.len(), 7);
}

/// A program that gives up in the middle of a put, wherever that is: the old object stays, or the new one is there
/// whole, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_that_is_dropped_leaves_nothing() {
    let cluster = Cluster::new().await;
    let path = Path::from("d/o");
    for len in [1000, 3 * MB] {
        cluster.objects.put(&path, version(0, len)).await.unwrap();
        for poll_count in 1..60 {
            let mut put = std::pin::pin!(cluster.objects.put(&path, version(poll_count, len)));
            let mut left = poll_count;
            let done = poll_fn(|context| match put.as_mut().poll(context) {
                Poll::Ready(done) => Poll::Ready(Some(done)),
                Poll::Pending if left <= 1 => Poll::Ready(None),
                Poll::Pending => {
                    left -= 1;
                    Poll::Pending
                }
            });
            if let Some(done) = done.await {
                done.unwrap();
                break;
            }
        }
        cluster.comes_to(&["/d/o"]).await;
        let bytes = read(&cluster.objects, &path).await;
        assert!(bytes.len() == len && bytes.iter().all(|byte| *byte == bytes[0]));
    }
}

/// An ETag is that of one file with one content: it changes with each put, append and truncation, and with nothing
/// else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_e_tag_names_the_bytes() {
    let cluster = Cluster::new().await;
    let (objects, path, moved) = (&cluster.objects, Path::from("o"), Path::from("d/moved"));
    let tag = async |path: &Path| objects.head(path).await.unwrap().e_tag.unwrap();
    let mut seen = Vec::new();
    for len in [5, 5, 0, 0, MB, MB] {
        let put = objects.put(&path, version(1, len)).await.unwrap();
        assert_eq!(put.e_tag, Some(tag(&path).await));
        seen.extend(put.e_tag);
    }
    objects.rename(&path, &moved).await.unwrap();
    assert_eq!(tag(&moved).await, *seen.last().unwrap(), "the same file under another name");
    let mut writer = cluster.client().append("/d/moved").await.unwrap();
    writer.write(b"more").await.unwrap();
    writer.close().await.unwrap();
    seen.push(tag(&moved).await);
    objects.copy(&moved, &path).await.unwrap();
    seen.push(tag(&path).await);
    let listed: Vec<_> = objects.list_with_delimiter(None).await.unwrap().objects;
    assert_eq!(listed[0].e_tag, seen.last().cloned());
    let count = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), count, "{seen:?}");
    let stale = GetOptions::new().with_if_match(Some(seen[0].clone()));
    assert!(matches!(objects.get_opts(&moved, stale).await, Err(Error::Precondition { .. })));
}

/// What somebody else writes under the final name, as HDFS's clients do, is an object with the bytes that the metadata
/// server knows of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_grows_is_read_as_far_as_its_status_says() {
    let cluster = Cluster::new().await;
    let create = Create { block_len: Some(MB as u64), ..Create::default() };
    let mut writer = cluster.client().create("/log", &create).await.unwrap();
    let data = bytes(3, MB + 700);
    writer.write(&data).await.unwrap();
    writer.flush().await.unwrap();
    let result = cluster.objects.get(&Path::from("log")).await.unwrap();
    assert_eq!(result.meta.size, result.range.end);
    let read = result.bytes().await.unwrap();
    assert_eq!(read, data.slice(..read.len()));
    writer.close().await.unwrap();
    assert_eq!(crate::support::read(&cluster.objects, &Path::from("log")).await, data);
}
