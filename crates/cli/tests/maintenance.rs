//! Datanodes that come and go, under clients that write and read: a store of six in this process.

mod store;

use client::admin::datanodes::LeaveKind;
use client::explain::PlaceState;
use client::{Client, Create, ErrorKind, Options, Patience};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use store::{Store, bytes, read};
use tokio::time::{sleep, timeout};

const NODE_COUNT: usize = 6;
const BLOCK_LEN: u64 = 256 << 10;
const FILE_LEN: usize = 600 << 10;
/// Longer than a busy machine holds up a thread: who is slow is not to be taken for one that is down.
const SLOW: Duration = Duration::from_secs(60);
/// The least that can be set: who is away for longer, and was not expected to be, is lost.
const LOST_AFTER: Duration = Duration::from_secs(2);
const LOOK_EACH: Duration = Duration::from_millis(100);
const HOUR_MS: u64 = 3600 * 1000;

async fn six() -> Store {
    of(NODE_COUNT).await
}

async fn of(node_count: usize) -> Store {
    let set = |config: &mut metad::Config| {
        config.lost_after_ms = LOST_AFTER.as_millis() as u64;
        (config.lease_soft_ms, config.block_len_min) = (1500, 1);
    };
    let set_node = |_, config: &mut datad::Config| {
        (config.limits.stalled_ms, config.limits.small_late_ms) = (SLOW.as_millis() as u64, SLOW.as_millis() as u64);
    };
    Store::new(node_count, set, set_node).await
}

fn client(store: &Store) -> Client {
    store.client(Options { local_reads: false, stalled: SLOW, ..Options::default() })
}

/// Writes and reads until it is told to end.
struct Load {
    ending: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    worker: io::task::Owned<Vec<String>>,
}

impl Load {
    /// Small files and such of several blocks, in turn.
    fn begin(client: Client, seed: u64) -> Self {
        let (ending, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (is_ending, count) = (Arc::clone(&ending), Arc::clone(&written));
        let worker = io::task::spawn_owned("load", async move {
            let mut failed = Vec::new();
            while !is_ending.load(Ordering::Relaxed) {
                let number = count.fetch_add(1, Ordering::Relaxed);
                let (path, len) =
                    (format!("/load/{seed}-{number}"), if number.is_multiple_of(2) { 1000 } else { FILE_LEN });
                if let Err(error) = put(&client, &path, &bytes(number, len)).await {
                    failed.push(format!("{path}: {error}"));
                } else if read(&client, &path).await != bytes(number, len) {
                    failed.push(format!("{path}: other bytes"));
                }
                sleep(LOOK_EACH / 4).await;
            }
            failed
        });
        Self { ending, written, worker }
    }

    /// Something is written that was begun from now on.
    async fn goes_on(&self) {
        let before = self.written.load(Ordering::Relaxed);
        while self.written.load(Ordering::Relaxed) < before + 3 {
            sleep(LOOK_EACH).await;
        }
    }

    async fn end(self) {
        self.ending.store(true, Ordering::Relaxed);
        assert_eq!(self.worker.await.unwrap(), [""; 0]);
        assert!(self.written.load(Ordering::Relaxed) > 0);
    }
}

async fn put(client: &Client, path: &str, data: &[u8]) -> client::Result<()> {
    let mut writer = client.create(path, &Create { block_len: Some(BLOCK_LEN), ..Create::default() }).await?;
    writer.write(data).await?;
    writer.close().await
}

/// Returns when the node may be stopped: what it has is elsewhere, and nobody writes there any more.
async fn begin_maintenance(client: &Client, node: &str) {
    client.admin().maintenance(node, HOUR_MS).await.unwrap();
    loop {
        sleep(Duration::from_secs(1)).await;
        let nodes = client.admin().datanodes().await.unwrap();
        let node = nodes.into_iter().find(|known| known.id == node).unwrap();
        if node.covered && !node.leased && node.transfer_count == 0 {
            return;
        }
    }
}

async fn copied(client: &Client) -> u64 {
    client.admin().repair_status().await.unwrap().copied_len
}

/// Each node in its turn goes and comes back, the first one after more time than silence may last.
#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_copies_nothing_and_fails_nobody() {
    let mut store = six().await;
    let admin = client(&store);
    let loads = [Load::begin(client(&store), 1), Load::begin(client(&store), 2)];
    for number in 0..NODE_COUNT {
        let id = store.node_id(number);
        begin_maintenance(&admin, &id).await;
        store.stop(number).await;
        if number == 0 {
            sleep(LOST_AFTER + Duration::from_secs(1)).await;
        }
        for load in &loads {
            load.goes_on().await;
        }
        store.start().await;
        admin.admin().maintenance(&id, 0).await.unwrap();
    }
    for load in loads {
        load.end().await;
    }
    assert_eq!(copied(&admin).await, 0);
}

/// Appends a little to a file now and then, and flushes it.
struct SlowLog {
    ending: Arc<AtomicBool>,
    flushed: Arc<AtomicU64>,
    worker: io::task::Owned<client::Result<()>>,
}

impl SlowLog {
    fn begin(client: Client, path: &'static str, data: Vec<u8>) -> Self {
        let (ending, flushed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (is_ending, len) = (Arc::clone(&ending), Arc::clone(&flushed));
        let worker = io::task::spawn_owned("slow log", async move {
            let mut writer = client.create(path, &Create::default()).await?;
            for piece in data.chunks(100) {
                writer.write(piece).await?;
                writer.flush().await?;
                len.store(writer.position(), Ordering::Relaxed);
                if is_ending.load(Ordering::Relaxed) {
                    break;
                }
                sleep(LOOK_EACH).await;
            }
            writer.close().await
        });
        Self { ending, flushed, worker }
    }

    fn len(&self) -> usize {
        self.flushed.load(Ordering::Relaxed) as usize
    }

    async fn goes_on(&self) {
        let before = self.len();
        while self.len() < before + 300 {
            assert!(!self.worker.is_finished(), "the writer lost its file");
            sleep(LOOK_EACH).await;
        }
    }

    async fn end(self) -> usize {
        self.ending.store(true, Ordering::Relaxed);
        self.worker.await.unwrap().unwrap();
        self.flushed.load(Ordering::Relaxed) as usize
    }
}

/// Each of three nodes goes and comes back, in turn: a file that is open all the while is lost with none of them. Its
/// writer leaves chains that lost nodes, and who may go is asked before, so the last node of a chain stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_writer_outlives_a_restart_of_all_nodes() {
    let mut store = of(3).await;
    let admin = client(&store);
    let data = bytes(7, FILE_LEN);
    let log = SlowLog::begin(client(&store), "/log", data.clone());
    for number in 0..3 {
        log.goes_on().await;
        let id = store.node_id(number);
        admin.admin().maintenance(&id, HOUR_MS).await.unwrap();
        loop {
            let nodes = admin.admin().datanodes().await.unwrap();
            let node = nodes.into_iter().find(|known| known.id == id).unwrap();
            if node.covered && !node.leased {
                break;
            }
            assert!(!log.worker.is_finished(), "the writer lost its file");
            sleep(LOOK_EACH).await;
        }
        store.stop(number).await;
        log.goes_on().await;
        store.start().await;
        admin.admin().maintenance(&id, 0).await.unwrap();
    }
    let len = log.end().await;
    assert!(read(&admin, "/log").await == data[..len], "other bytes than those written");
}

/// One ends in order, and is expected back: nothing is copied. Another one vanishes, and its replicas are copied when
/// its time is over; a hold on repair makes that wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_is_told_from_a_loss() {
    let mut store = six().await;
    let client = client(&store);
    for number in 0..10 {
        put(&client, &format!("/f{number}"), &bytes(number, FILE_LEN)).await.unwrap();
    }
    store.stop(0).await;
    sleep(2 * LOST_AFTER).await;
    assert_eq!(copied(&client).await, 0, "it is expected back");
    store.start().await;
    client.admin().hold_repair(HOUR_MS).await.unwrap();
    store.vanish(1);
    sleep(2 * LOST_AFTER).await;
    assert_eq!(copied(&client).await, 0, "repair is held");
    client.admin().hold_repair(0).await.unwrap();
    while copied(&client).await == 0 {
        sleep(LOOK_EACH).await;
    }
}

/// Its last heartbeat came a moment before: from its goodbye on it is away, as it announced.
#[tokio::test(flavor = "multi_thread")]
async fn who_said_goodbye_is_explained_as_away_at_once() {
    let mut store = of(3).await;
    let client = client(&store);
    put(&client, "/f", &bytes(1, FILE_LEN)).await.unwrap();
    store.stop(0).await;
    for block in client.explain("/f", 0).await.unwrap().blocks {
        let away: Vec<_> = block.replicas.iter().filter(|replica| replica.state() == PlaceState::Down).collect();
        assert!(matches!(&away[..], [one] if one.leave() == LeaveKind::Restart && one.leave_left_ms > 0), "{block:?}");
    }
}

/// The only metadata server is away for a moment: who is patient does not notice.
#[tokio::test(flavor = "multi_thread")]
async fn calls_wait_for_a_metadata_server_that_starts_anew() {
    let mut store = Store::new(1, |config| config.block_len_min = 1, |_, _| {}).await;
    let hasty = client(&store);
    let patience = Patience { time_max: Duration::from_secs(60), notice: None };
    let patient = store.client(Options { patience, ..Options::default() });
    put(&patient, "/before", &bytes(1, 1000)).await.unwrap();
    store.stop_meta().await;
    assert_eq!(put(&hasty, "/hasty", &bytes(2, 1000)).await.unwrap_err().kind(), ErrorKind::Unreachable);
    let data = bytes(3, FILE_LEN);
    let mut putting = pin!(put(&patient, "/patient", &data));
    assert!(timeout(2 * LOOK_EACH, &mut putting).await.is_err(), "it waits");
    store.start_meta().await;
    putting.await.unwrap();
    assert!(read(&patient, "/patient").await == data && read(&patient, "/before").await == bytes(1, 1000));
}
