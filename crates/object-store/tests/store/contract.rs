//! The integration tests of the crate `object_store`, all that are about what this store has.
//!
//! `LEVADA_TEST_FS=hdfs://host:port` has them run against another store, of Apache HDFS say, below
//! `/object-store-test`.

use crate::support::Cluster;
use levada_object_store::Levada;
use object_store::integration::*;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{Error, ObjectStore, ObjectStoreExt};

/// What is tested, all of which these tests take for theirs.
struct Subject {
    objects: Box<dyn ObjectStore>,
    levada: Levada,
    directory: String,
    cluster: Option<Cluster>,
}

impl Subject {
    async fn new(name: &str) -> Self {
        let Ok(url) = std::env::var("LEVADA_TEST_FS") else {
            let cluster = Cluster::new().await;
            let levada = cluster.objects.clone();
            let objects = Box::new(levada.clone());
            return Self { objects, levada, directory: String::new(), cluster: Some(cluster) };
        };
        let levada = Levada::connect(url, [("replication", "1")]).unwrap();
        let directory = format!("/object-store-test/{name}");
        levada.client().delete(&directory, true).await.unwrap();
        let objects = Box::new(PrefixStore::new(levada.clone(), directory.as_str()));
        Self { objects, levada, directory, cluster: None }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_put_listed_and_deleted() {
    let subject = Subject::new("list").await;
    put_get_delete_list(&*subject.objects).await;
    list_uses_directories_correctly(&*subject.objects).await;
    list_with_delimiter(&*subject.objects).await;
    list_with_offset_exclusivity(&*subject.objects).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_of_reads_and_writes_hold() {
    let subject = Subject::new("conditions").await;
    get_opts(&*subject.objects).await;
    // A server of HDFS replaces an object whatever it is by now.
    put_opts(&*subject.objects, subject.cluster.is_some()).await;
    put_get_attributes(&*subject.objects).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_copied_and_renamed() {
    let subject = Subject::new("names").await;
    rename_and_copy(&*subject.objects).await;
    copy_if_not_exists(&*subject.objects).await;
    copy_rename_nonexistent_object(&*subject.objects).await;
    let left = crate::support::listed(&*subject.objects, None).await;
    assert_eq!(left, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_come_in_parts() {
    let subject = Subject::new("parts").await;
    stream_get(&*subject.objects).await;
    multipart_out_of_order(&*subject.objects).await;
    multipart_race_condition(&*subject.objects, true).await;
    // Where each part begins.
    let (path, len) = (Path::from("test_multipart_out_of_order"), 5 << 20);
    let ranges = [len - 2..len + 2, 2 * len - 2..2 * len + 2];
    assert_eq!(subject.objects.get_ranges(&path, &ranges).await.unwrap(), ["1122", "2233"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_there_is_not_found() {
    let subject = Subject::new("missing").await;
    // A name, a name below a file, a directory, the root.
    let directory = format!("{}/directory/empty", subject.directory);
    subject.levada.client().mkdirs(&directory, 0o755, true).await.unwrap();
    subject.objects.put(&Path::from("file"), "x".into()).await.unwrap();
    for name in [None, Some("file/below"), Some("directory"), Some("directory/empty"), Some("")] {
        let got = get_nonexistent_object(&*subject.objects, name.map(Path::from)).await;
        assert!(matches!(got, Err(Error::NotFound { .. })), "{name:?}: {got:?}");
    }
}
