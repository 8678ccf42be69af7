//! Streams of our client while a datanode stops, dies or is cut off: they go on within three seconds, and no byte is
//! lost.
//!
//! The roles are processes; each datanode has a network namespace of its own behind a bridge, so that a cut is a cut.
//! Making those takes root; without it the test says so and ends. `LEVADA_STALL_ROUNDS=20 cargo test -p levada --test
//! stalls -- --nocapture` does every fault to every node, so often, for the percentiles.

mod network;

use client::{Client, Create, Options, Url};
use io::{Clock, SystemClock};
use network::{Net, inside};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const NODE_COUNT: usize = 3;
/// What is promised for a stream that loses a datanode.
const PAUSE_MAX: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug)]
enum Fault {
    Stop,
    Cut,
    Kill,
}

/// What a writer saw.
struct Seen {
    pause: Duration,
    len: u64,
}

#[test]
fn a_stream_goes_on_within_three_seconds_of_any_loss() {
    if !inside("a_stream_goes_on_within_three_seconds_of_any_loss") {
        return;
    }
    let rounds: Option<usize> =
        std::env::var("LEVADA_STALL_ROUNDS").ok().map(|rounds| rounds.parse().expect("a number"));
    let mut net = Net::start(NODE_COUNT);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut pauses = Vec::new();
    for round in 0..rounds.unwrap_or(1) {
        for (number, fault) in [Fault::Stop, Fault::Cut, Fault::Kill].into_iter().enumerate() {
            for node in (0..NODE_COUNT).filter(|node| rounds.is_some() || *node == number) {
                let name = format!("round{round}-{fault:?}-{node}");
                let seen = runtime.block_on(lose(&mut net, fault, node, &name));
                let text: Vec<String> =
                    seen.iter().map(|seen| format!("{:?} ({} bytes)", seen.pause, seen.len)).collect();
                println!("{name}: {}", text.join(", "));
                pauses.extend(seen.iter().map(|seen| (seen.pause, name.clone())));
            }
        }
    }
    pauses.sort();
    let at = |share: usize| &pauses[(pauses.len() - 1) * share / 100];
    println!("{} streams: pause p50 {:?}, p99 {:?}, longest {:?}", pauses.len(), at(50).0, at(99).0, at(100));
    assert!(at(99).0 < PAUSE_MAX, "{:?}", at(100));
}

/// Two streams lose a node in the middle; everything they wrote is there.
async fn lose(net: &mut Net, fault: Fault, node: usize, name: &str) -> Vec<Seen> {
    let client = Client::with_options(
        &Url::parse(&format!("hdfs://{}/", net.metad())).unwrap(),
        &host::user::current(),
        Options::default(),
    );
    let over = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for (number, flushes) in [true, false].into_iter().enumerate() {
        let (client, over, path) = (client.clone(), Arc::clone(&over), format!("/{name}-{number}"));
        writers.push(io::task::spawn("writer", async move { write(&client, &path, flushes, &over).await }));
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    match fault {
        Fault::Stop => net.signal(node, "STOP"),
        Fault::Cut => net.link(node, false),
        Fault::Kill => net.kill(node),
    }
    let enough = if matches!(fault, Fault::Kill) { 600 } else { 2600 };
    tokio::time::sleep(Duration::from_millis(enough)).await;
    over.store(true, Ordering::Relaxed);
    let mut all = Vec::new();
    for (number, writer) in writers.into_iter().enumerate() {
        let seen = writer.await.unwrap();
        let path = format!("/{name}-{number}");
        read(&client, &path, seen.len).await; // while the node is still away
        client.delete(&path, false).await.unwrap();
        all.push(seen);
    }
    match fault {
        Fault::Stop => net.signal(node, "CONT"),
        Fault::Cut => net.link(node, true),
        Fault::Kill => net.run(node),
    }
    // Until it beats again, so that the next streams have three nodes.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    all
}

fn content(offset: u64) -> u64 {
    offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (offset >> 7)
}

fn piece(offset: u64, bytes: &mut [u8]) {
    for (place, word) in bytes.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&content(offset + 8 * place as u64).to_le_bytes());
    }
}

/// Writes until it is over, in blocks so short that some faults fall between two. The longest wait counts.
async fn write(client: &Client, path: &str, flushes: bool, over: &AtomicBool) -> Seen {
    const PIECE_LEN: usize = 64 << 10;
    let clock = SystemClock::new();
    let create = Create { replication: Some(NODE_COUNT as u16), block_len: Some(8 << 20), ..Create::default() };
    let mut writer = client.create(path, &create).await.unwrap();
    let mut bytes = vec![0; PIECE_LEN];
    let mut pause = Duration::ZERO;
    let mut len = 0;
    loop {
        piece(len, &mut bytes);
        let begun = clock.monotonic();
        writer.write(&bytes).await.unwrap();
        len += PIECE_LEN as u64;
        if flushes {
            writer.flush().await.unwrap();
        }
        pause = pause.max(clock.monotonic() - begun);
        if over.load(Ordering::Relaxed) {
            let begun = clock.monotonic();
            writer.close().await.unwrap();
            return Seen { pause: pause.max(clock.monotonic() - begun), len };
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn read(client: &Client, path: &str, len: u64) {
    let mut reader = client.open(path).await.unwrap();
    assert_eq!(reader.len(), len, "{path}");
    let (mut got, mut wanted) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    let mut at = 0;
    while at < len {
        let count = reader.read(&mut got).await.unwrap();
        piece(at, &mut wanted[..count]);
        assert!(got[..count] == wanted[..count], "{path} from {at}");
        at += count as u64;
    }
}
