//! Programs that drop the futures of our client, say by a deadline around them, and go on with the writer: against a
//! real metadata server and real datanodes. Whatever a later call says is there must be there, on every node.

mod store;

use client::{Client, Create, Options, Writer};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use store::{Store, read};

const NODE_COUNT: usize = 3;
const CHUNK: usize = 512;
const BLOCK_LEN: usize = 16 * CHUNK;
/// Calls of one operation that are dropped, before one is let be.
const DROP_COUNT_MAX: usize = 8;

async fn small_blocks() -> Store {
    Store::new(NODE_COUNT, |config| config.block_len_min = 1, |_, _| {}).await
}

/// `small_len_max`: files up to there go in one request. Hardly anything fits into a chain's window, so that all have
/// to wait.
fn client(store: &Store, small_len_max: u32) -> Client {
    let packet_len = 2 * CHUNK as u32;
    store.client(Options { packet_len, packets_in_flight_max: 2, small_len_max, ..Options::default() })
}

/// Each file, of each node alone.
async fn is_on_every_node(store: &mut Store, files: &[(String, usize)]) {
    for left in 0..NODE_COUNT {
        store.stop_all_but(left).await;
        let client = client(store, 0);
        for (path, len) in files {
            assert!(read(&client, path).await == bytes(*len), "{path} of node {left}");
        }
        store.start().await;
    }
}

fn bytes(len: usize) -> Vec<u8> {
    store::bytes(7, len)
}

/// Polls `future` so often, and drops it if it is not ready by then.
async fn polled<T>(future: impl Future<Output = T>, poll_count: usize) -> Option<T> {
    let (mut future, mut left) = (pin!(future), poll_count);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if left <= 1 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

/// A program that polls every future `poll_count` times and drops it then; and asks again.
struct Program {
    writer: Writer,
    poll_count: usize,
    drop_count: usize,
}

impl Program {
    async fn create(client: &Client, path: &str, poll_count: usize) -> Self {
        let create = Create { block_len: Some(BLOCK_LEN as u64), len: Some(1 << 20), ..Create::default() };
        Self { writer: client.create(path, &create).await.unwrap(), poll_count, drop_count: 0 }
    }

    /// Polls of the next call.
    fn next_count(&mut self, dropped: usize) -> usize {
        if dropped < DROP_COUNT_MAX { self.poll_count } else { usize::MAX }
    }

    async fn write_up_to(&mut self, len: usize) {
        let all = bytes(len);
        for dropped in 0.. {
            let (at, count) = (self.writer.position() as usize, self.next_count(dropped));
            match polled(self.writer.write(&all[at..]), count).await {
                Some(written) => return written.unwrap(),
                None => self.was_dropped().await,
            }
        }
    }

    async fn flush(&mut self, sync: bool) {
        for dropped in 0.. {
            let count = self.next_count(dropped);
            let flushed = match sync {
                true => polled(self.writer.sync(), count).await,
                false => polled(self.writer.flush(), count).await,
            };
            match flushed {
                Some(flushed) => return flushed.unwrap(),
                None => self.was_dropped().await,
            }
        }
    }

    async fn was_dropped(&mut self) {
        self.drop_count += 1;
        // What goes on by itself may go on, or not have begun.
        if self.drop_count.is_multiple_of(3) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// What was flushed is there for all who open the file, whatever was dropped before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_byte_is_lost_with_a_future() {
    let mut store = small_blocks().await;
    let mut files = Vec::new();
    for small_len_max in [0, 3 * CHUNK as u32] {
        let client = client(&store, small_len_max);
        for poll_count in 1..=12 {
            let path = format!("/{small_len_max}/{poll_count}");
            let mut program = Program::create(&client, &path, poll_count).await;
            let ends = [100, 700, 5000, BLOCK_LEN, 2 * BLOCK_LEN + 300, 4 * BLOCK_LEN, 5 * BLOCK_LEN + 1];
            for (place, end) in ends.into_iter().enumerate() {
                program.write_up_to(end).await;
                if place % 3 < 2 {
                    program.flush(place % 3 == 1).await;
                    assert!(read(&client, &path).await == bytes(end), "{path}, flushed at {end}");
                }
            }
            assert!(poll_count > 2 || program.drop_count >= 5, "{} futures were dropped", program.drop_count);
            program.writer.close().await.unwrap();
            files.push((path, ends[ends.len() - 1]));
        }
    }
    is_on_every_node(&mut store, &files).await;
}

/// A close that was dropped leaves a file that is whole, or none that is closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_that_is_dropped_closes_all_or_nothing() {
    let mut store = small_blocks().await;
    let mut files = Vec::new();
    for (small_len_max, len) in [(0, BLOCK_LEN + 700), (4096, 900)] {
        let client = client(&store, small_len_max);
        for poll_count in 1..=12 {
            let path = format!("/{small_len_max}/{poll_count}");
            let mut program = Program::create(&client, &path, poll_count).await;
            program.write_up_to(len).await;
            let closed = polled(program.writer.close(), poll_count).await;
            match (closed, client.open(&path).await) {
                (Some(closed), _) => closed.unwrap(),
                // It is open, or was never made; or its writer's last call came through.
                (None, Err(_)) => continue,
                (None, Ok(_)) => {
                    let closed = async {
                        while !client.recover_lease(&path).await.unwrap() {
                            tokio::time::sleep(Duration::from_millis(20)).await;
                        }
                    };
                    tokio::time::timeout(Duration::from_secs(20), closed).await.expect("it is closed in the end");
                    let there = read(&client, &path).await;
                    assert!(there == bytes(there.len()), "{path}");
                    files.push((path, there.len()));
                    continue;
                }
            }
            files.push((path, len));
        }
    }
    is_on_every_node(&mut store, &files).await;
}

/// Whatever stage of a recovery is dropped, the next call goes on with the same bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recovery_that_is_dropped_is_begun_anew() {
    let mut store = small_blocks().await;
    let mut files = Vec::new();
    for poll_count in 1..=9 {
        let client = client(&store, 0);
        let path = format!("/{poll_count}");
        let mut program = Program::create(&client, &path, poll_count).await;
        program.writer.write(&bytes(3000)).await.unwrap();
        program.writer.flush().await.unwrap();
        store.stop(poll_count % NODE_COUNT).await;
        program.write_up_to(BLOCK_LEN - 100).await;
        program.flush(false).await;
        assert!(read(&client, &path).await == bytes(BLOCK_LEN - 100), "{path}");
        program.write_up_to(2 * BLOCK_LEN).await;
        program.writer.close().await.unwrap();
        assert!(read(&client, &path).await == bytes(2 * BLOCK_LEN), "{path}");
        files.push((path, 2 * BLOCK_LEN));
        store.start().await;
    }
    let client = client(&store, 0);
    for (path, len) in &files {
        assert!(read(&client, path).await == bytes(*len), "{path}");
    }
}

/// A reader is where it was, and gives the same bytes again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_is_dropped_skips_nothing() {
    let store = small_blocks().await;
    let client = client(&store, 0);
    let all = bytes(5 * BLOCK_LEN + 77);
    let mut program = Program::create(&client, "/f", usize::MAX).await;
    program.write_up_to(all.len()).await;
    program.writer.close().await.unwrap();
    for poll_count in 1..=8 {
        let mut reader = client.open("/f").await.unwrap();
        let mut there = Vec::new();
        let mut piece = vec![0; 3000];
        for call in 0.. {
            let count = if call % 3 == 0 { usize::MAX } else { poll_count };
            assert_eq!(reader.position(), there.len() as u64);
            match polled(reader.read(&mut piece), count).await.transpose().unwrap() {
                Some(0) => break,
                Some(got) => there.extend_from_slice(&piece[..got]),
                None => {}
            }
        }
        assert!(there == all, "{poll_count} polls");
    }
}
