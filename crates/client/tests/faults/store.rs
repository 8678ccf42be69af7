//! What the users of a store share, and what its end leaves.

use crate::support::{Store, Trick, bytes, poll_without_runtime, quick};
use client::{Client, Create, ErrorKind, Kind, Options, Result, Status};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use types::{ChecksumSpec, Millis};
use wire::Abilities;

fn kind<T>(done: Result<T>) -> Option<ErrorKind> {
    done.err().map(|error| error.kind())
}

fn listed(len: usize, modified: u64) -> Status {
    Status {
        kind: Kind::File,
        name: "f".into(),
        len: len as u64,
        mode: 0o644,
        owner: "ann".into(),
        group: "users".into(),
        modified: Millis(modified),
        accessed: Millis(0),
        replication: 3,
        block_len: 1 << 20,
        id: 16386,
        child_count: 0,
        unusable: None,
    }
}

#[tokio::test]
async fn users_of_a_store_share_its_connections() {
    let store = Store::new(1).await;
    let data = bytes(1000);
    store.book.add_file("/f", &[&data]);
    for user in ["ann", "bob"] {
        let reader = store.client.store().client(user).open("/f").await.unwrap();
        assert_eq!(reader.read_at(0, &mut [0; 500]).await.unwrap(), 500);
    }
    assert_eq!(store.nodes[0].connections.load(Ordering::Relaxed), 1);
}

/// Renewals, idle connections and whoever waits: all of it ends, and what is called later is told so.
#[tokio::test]
async fn closing_a_store_ends_everything() {
    let store = Store::new(1).await;
    let client = &store.client;
    store.book.add_file("/f", &[&bytes(1000)]);
    let mut reader = client.open("/f").await.unwrap();
    assert_eq!(reader.read_at(0, &mut [0; 500]).await.unwrap(), 500);
    let mut writer = client.create("/g", &Create::default()).await.unwrap();
    writer.write(&[1; 100]).await.unwrap();
    writer.flush().await.unwrap();
    while store.book.count("renewLease") == 0 {
        sleep(Duration::from_millis(5)).await;
    }

    store.nodes[0].set_lag(Duration::from_secs(60));
    let (mut buffer, mut other) = ([0; 500], [0; 500]);
    let waiting = reader.read_at(0, &mut buffer);
    let closing = async {
        sleep(Duration::from_millis(50)).await;
        client.store().close().await;
    };
    let (waited, ()) = timeout(Duration::from_secs(5), async { tokio::join!(waiting, closing) }).await.unwrap();
    assert_eq!(kind(waited), Some(ErrorKind::Closed));

    let renewed = store.book.count("renewLease");
    let closed = Some(ErrorKind::Closed);
    assert_eq!(kind(reader.read(&mut other).await), closed);
    assert_eq!(kind(writer.flush().await), closed);
    assert_eq!(kind(writer.close().await), closed);
    assert_eq!(kind(client.status("/f").await), closed);
    assert_eq!(kind(client.open("/f").await), closed);
    assert_eq!(kind(client.create("/h", &Create::default()).await), closed);
    assert_eq!(kind(client.store().client("bob").list("/").await), closed);
    assert_eq!(kind(client.admin().members().await), closed);
    drop(reader);
    sleep(Duration::from_millis(150)).await;
    assert_eq!(
        store.book.count("renewLease"),
        renewed,
        "leases are renewed every 50 ms, also of a store that was closed"
    );
    client.store().close().await;
}

/// Tasks of connections are among them, even if a caller that is not polled any more still holds one.
#[tokio::test]
async fn no_task_runs_once_a_store_is_closed() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let options = Options { runtime: Some(runtime.handle().clone()), ..quick() };
    let store = Store::with(1, ChecksumSpec::DEFAULT, 64 << 10, options).await;
    store.book.state().abilities = Some(Abilities::SMALL_FILES.bits());
    store.nodes[0].set_lag(Duration::from_secs(60));
    let mut writer = store.client.create("/f", &Create::default()).await.unwrap();
    writer.write(&[1; 100]).await.unwrap();
    let mut putting = Box::pin(writer.close());
    let under_way = async {
        while store.nodes[0].connections.load(Ordering::Relaxed) == 0 {
            sleep(Duration::from_millis(5)).await;
        }
        sleep(Duration::from_millis(100)).await;
    };
    tokio::select! { _ = &mut putting => panic!("the node has not answered"), () = under_way => {} }
    let task_count = || runtime.metrics().num_alive_tasks();
    assert!(task_count() >= 2, "connections to the metadata server and to a datanode");
    store.client.store().close().await;
    let none = async {
        // One that was counted out just now may be on its last step.
        while task_count() > 0 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(1), none).await.expect("all have ended");
    assert_eq!(kind(putting.await), Some(ErrorKind::Closed));
    runtime.shutdown_background();
}

/// A connection that waits for its next operation ends with the store, and not when it has been idle for long.
#[tokio::test]
async fn idle_connections_end_with_the_store() {
    let store = Store::new(1).await;
    store.book.add_file("/f", &[&bytes(1000)]);
    let reader = store.client.open("/f").await.unwrap();
    assert_eq!(reader.read_at(0, &mut [0; 500]).await.unwrap(), 500);
    sleep(Duration::from_millis(50)).await;
    let ended = || store.nodes[0].ended.load(Ordering::Relaxed);
    assert_eq!(ended(), 0);
    store.client.store().close().await;
    let all = async {
        while ended() == 0 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(1), all).await.expect("the node sees the end of its connection");
}

/// A file of a listing is opened again without a call, by whoever opened it before, while it is the same.
#[tokio::test]
async fn a_listed_file_is_opened_again_without_a_call() {
    let store = Store::new(1).await;
    let data = bytes(1000);
    store.book.add_file("/f", &[&data]);
    store.book.state().names_files = true;
    let asked = || store.book.count("getBlockLocations");
    let (ann, bob) = (store.client.clone(), store.client.store().client("bob"));
    for (client, modified, count) in [(&ann, 1, 1), (&ann, 1, 1), (&bob, 1, 2), (&ann, 2, 3), (&ann, 2, 3)] {
        let mut reader = client.open_listed("/f", &listed(1000, modified)).await.unwrap();
        let mut read = vec![0; 1001];
        assert_eq!(reader.read(&mut read).await.unwrap(), 1000);
        assert!(read[..1000] == data);
        assert_eq!(asked(), count);
    }
    // The status is older than the file: what is read is what the server names, and is not kept under that status.
    for count in [4, 5] {
        assert_eq!(ann.open_listed("/f", &listed(900, 1)).await.unwrap().len(), 1000);
        assert_eq!(asked(), count);
    }
    // Nor if another file of that length has its name by now.
    let other = vec![7; 1000];
    store.book.add_file("/f", &[&other]);
    for count in [6, 7] {
        let mut reader = ann.open_listed("/f", &listed(1000, 3)).await.unwrap();
        let mut read = vec![0; 1000];
        assert_eq!(reader.read(&mut read).await.unwrap(), 1000);
        assert!(read == other);
        assert_eq!(asked(), count);
    }
}

/// Where a file's blocks are is asked anew once all replicas that are known have failed, and all readers learn it.
#[tokio::test]
async fn known_locations_that_fail_are_asked_anew() {
    let store = Store::new(2).await;
    let data = bytes(1000);
    store.book.add_file("/f", &[&data]);
    store.book.state().names_files = true;
    store.book.state().show.extend([vec![0], vec![1]]);
    let status = listed(1000, 1);
    let open = || store.client.open_listed("/f", &status);
    let (first, second) = (open().await.unwrap(), open().await.unwrap());
    assert_eq!(store.book.count("getBlockLocations"), 1);
    store.nodes[0].script(vec![Trick::HangUp; 9]);
    assert_eq!(first.read_at(0, &mut [0; 1000]).await.unwrap(), 1000);
    assert_eq!(second.read_at(0, &mut [0; 1000]).await.unwrap(), 1000);
    assert_eq!(store.book.count("getBlockLocations"), 2);

    // Another file is there now: the bytes that were opened are gone, and the next one who opens it asks.
    store.book.add_file("/f", &[&data]);
    store.nodes[1].script(vec![Trick::HangUp; 9]);
    assert_eq!(kind(first.read_at(0, &mut [0; 1000]).await), Some(ErrorKind::NotFound));
    let asked = store.book.count("getBlockLocations");
    open().await.unwrap();
    assert_eq!(store.book.count("getBlockLocations"), asked + 1);
}

/// A file of more blocks than are kept of an answer, replaced under its name while it is read. Our servers say which
/// file a block is of, HDFS's do not.
#[tokio::test]
async fn a_reader_mixes_no_bytes_of_two_files() {
    for names_files in [true, false] {
        let store = Store::new(1).await;
        store.book.state().names_files = names_files;
        let data = bytes(10);
        // The first answer has a thousand of them, and the last one.
        let blocks = vec![&data[..]; 1002];
        store.book.add_file("/f", &blocks);
        let (whole, replaced) = (store.client.open("/f").await.unwrap(), store.client.open("/f").await.unwrap());
        let mut last = [0; 10];
        assert_eq!(whole.read_at(10_000, &mut last).await.unwrap(), 10);
        assert!(last == data[..]);

        assert_eq!(replaced.read_at(0, &mut last).await.unwrap(), 10);
        store.book.add_file("/f", &blocks);
        assert_eq!(kind(replaced.read_at(10_000, &mut last).await), Some(ErrorKind::NotFound), "{names_files}");
    }
}

/// A store without a runtime of its own, used from one that ends and then from another.
struct Visits {
    store: Store,
    /// That of the servers.
    _runtime: tokio::runtime::Runtime,
}

impl Visits {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let store = runtime.block_on(Store::new(3));
        store.book.state().abilities = Some(Abilities::SMALL_FILES.bits());
        Self { store, _runtime: runtime }
    }

    /// Does this on a runtime that ends with it. Panics if it waits for ever.
    fn visit<T>(&self, work: impl AsyncFnOnce(&Client) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let done = async { timeout(Duration::from_secs(5), work(&self.store.client)).await };
        runtime.block_on(done).expect("it comes to an end")
    }
}

#[test]
fn small_files_are_put_from_one_runtime_after_the_other() {
    let visits = Visits::new();
    let data = bytes(1000);
    for path in ["/a", "/b"] {
        visits.visit(async |client| {
            let mut writer = client.create(path, &Create::default()).await.unwrap();
            writer.write(&data).await.unwrap();
            writer.close().await.unwrap();
        });
        assert!(visits.store.book.contents(path) == data);
    }
    assert_eq!(visits.store.book.count("putFile"), 2);
}

/// Its stream is gone, as if the first node were. Its lease is renewed as soon as another file is open.
#[test]
fn a_writer_goes_on_on_another_runtime() {
    let visits = Visits::new();
    let (data, renewals) = (bytes(2000), || visits.store.book.count("renewLease"));
    let mut writer = visits.visit(async |client| {
        let mut writer = client.create("/a", &Create::default()).await.unwrap();
        writer.write(&data[..1000]).await.unwrap();
        writer.flush().await.unwrap();
        writer
    });
    visits.visit(async |client| {
        writer.write(&data[1000..]).await.unwrap();
        writer.flush().await.unwrap();
        let mut other = client.create("/b", &Create::default()).await.unwrap();
        other.write(&data).await.unwrap();
        other.flush().await.unwrap();
        let before = renewals();
        while renewals() == before {
            sleep(Duration::from_millis(5)).await;
        }
        writer.close().await.unwrap();
        other.close().await.unwrap();
    });
    assert!(visits.store.book.contents("/a") == data);
}

/// A program without a runtime, as one in Python: it polls, and the store's runtime has sockets, timers and tasks.
#[test]
fn a_store_with_a_runtime_of_its_own_is_used_from_anywhere() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let options = Options { runtime: Some(runtime.handle().clone()), ..quick() };
    let store = runtime.block_on(Store::with(3, ChecksumSpec::DEFAULT, 64 << 10, options));
    let data = bytes(300_000);
    let written = poll_without_runtime(async {
        let mut writer = store.client.create("/f", &Create::default()).await?;
        writer.write(&data).await?;
        writer.close().await?;
        let mut reader = store.client.open("/f").await?;
        let mut read = vec![0; data.len()];
        reader.read_at(0, &mut read[..1000]).await?;
        reader.read(&mut read).await?;
        store.client.store().close().await;
        Ok::<_, client::Error>(read)
    });
    assert!(written.unwrap() == data);
}

/// Also where it has to wait between two calls.
#[test]
fn a_file_without_bytes_is_completed_from_anywhere() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let options = Options { runtime: Some(runtime.handle().clone()), ..quick() };
    let store = runtime.block_on(Store::with(0, ChecksumSpec::DEFAULT, 64 << 10, options));
    store.book.state().unready = 1;
    let completed = poll_without_runtime(async {
        store.client.create_open("/f", &Create::default()).await?.complete().await?;
        store.client.store().close().await;
        Ok::<_, client::Error>(())
    });
    assert!(completed.is_ok() && store.book.count("complete") == 2);
}
