//! Files written by our client over every routing table, to real datanodes in two racks.

mod store;

use client::{Create, Options, Routing};
use store::{Store, bytes, read};

const NODE_COUNT: usize = 5;
const MB: usize = 1 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_table_brings_a_file_to_all_its_nodes() {
    let rack = |number| if number % 2 == 0 { "/left" } else { "/right" };
    let mut store = Store::new(NODE_COUNT, |_| {}, |number, config| config.rack = rack(number).into()).await;
    let mut files = Vec::new();
    for (name, routing) in [("chain", Routing::Chain), ("tree", Routing::Tree), ("star", Routing::Star)] {
        let client = store.client(Options { routing, ..Options::default() });
        for replication in [1, 2, 3, 5] {
            let path = format!("/{name}{replication}");
            let data = bytes(files.len() as u64, 2 * MB + 500_000);
            let create = Create { replication: Some(replication), block_len: Some(MB as u64), ..Create::default() };
            let mut writer = client.create(&path, &create).await.unwrap();
            writer.write(&data[..300_000]).await.unwrap();
            writer.sync().await.unwrap();
            writer.write(&data[300_000..]).await.unwrap();
            writer.close().await.unwrap();
            assert!(read(&client, &path).await == data, "{path}");
            let locations = client.locations(&path).await.unwrap();
            assert!(locations.iter().all(|block| block.hosts.len() == usize::from(replication)), "{locations:?}");
            files.push((path, replication, data));
        }
    }
    // Nothing of the blocks that were looked for ahead of time, in vain, is in the way.
    let client = store.client(Options { routing: Routing::Chain, ..Options::default() });
    for len in [MB, 2 * MB, 2 * MB - 1, 2 * MB + 1, 3 * MB - 200_000] {
        let data = bytes(len as u64, len);
        let known = [None, Some(len as u64), Some(10 * MB as u64)];
        for (number, known) in known.into_iter().enumerate() {
            let path = format!("/long{len}-{number}");
            let create = Create { block_len: Some(MB as u64), len: known, ..Create::default() };
            let mut writer = client.create(&path, &create).await.unwrap();
            for piece in data.chunks(100_000) {
                writer.write(piece).await.unwrap();
            }
            writer.close().await.unwrap();
            assert!(read(&client, &path).await == data, "{path}");
        }
    }
    // Any node alone has all of the files that are on all five.
    for left in 0..NODE_COUNT {
        store.stop_all_but(left).await;
        let client = store.client(Options { routing: Routing::Chain, ..Options::default() });
        for (path, _, data) in files.iter().filter(|(_, replication, _)| *replication == 5) {
            assert!(read(&client, path).await == *data, "{path} on node {left}");
        }
        store.start().await;
    }
}
