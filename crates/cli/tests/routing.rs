//! Files written by our client over every routing table, to real datanodes in two racks.

use client::{Client, Create, Options, Routing, Url};
use datad::Datad;
use std::net::SocketAddr;
use tokio::task::JoinSet;

const NODE_COUNT: usize = 5;
const MB: usize = 1 << 20;

struct Store {
    metad: metad::Metad,
    configs: Vec<datad::Config>,
    nodes: Vec<Option<Datad>>,
    _dir: tempfile::TempDir,
}

impl Store {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let metad = metad::start(metad::Config::new(dir.path().join("meta"), any)).await.unwrap();
        let configs = (0..NODE_COUNT).map(|number| {
            let metad = metad.rpc_addr().to_string();
            let mut config = datad::Config::new(dir.path().join(number.to_string()), any, any, metad);
            config.rack = if number % 2 == 0 { "/left".into() } else { "/right".into() };
            config.durability = datad::Durability::Replicated;
            config
        });
        let configs: Vec<datad::Config> = configs.collect();
        let mut store = Self { metad, nodes: configs.iter().map(|_| None).collect(), configs, _dir: dir };
        store.start().await;
        store
    }

    /// Those that do not run.
    async fn start(&mut self) {
        for number in 0..NODE_COUNT {
            if self.nodes[number].is_none() {
                let node = datad::start(self.configs[number].clone()).await.unwrap();
                node.registered().await;
                self.nodes[number] = Some(node);
            }
        }
    }

    async fn stop_all_but(&mut self, left: usize) {
        let mut stopping = JoinSet::new();
        for number in (0..NODE_COUNT).filter(|number| *number != left) {
            stopping.spawn(self.nodes[number].take().unwrap().shutdown());
        }
        stopping.join_all().await;
    }

    fn client(&self, routing: Routing) -> Client {
        let url = Url::parse(&format!("hdfs://{}/", self.metad.rpc_addr())).unwrap();
        Client::with_options(&url, &io::user::current(), Options { routing, ..Options::default() })
    }
}

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut random = types::random::Seeded(seed);
    (0..len.div_ceil(8)).flat_map(|_| types::Random::next_u64(&mut random).to_le_bytes()).take(len).collect()
}

async fn read(client: &Client, path: &str) -> Vec<u8> {
    let mut reader = client.open(path).await.unwrap();
    let mut read = vec![0; reader.len() as usize];
    assert_eq!(reader.read(&mut read).await.unwrap(), read.len());
    read
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_table_brings_a_file_to_all_its_nodes() {
    let mut store = Store::new().await;
    let mut files = Vec::new();
    for (name, routing) in [("chain", Routing::Chain), ("tree", Routing::Tree), ("star", Routing::Star)] {
        let client = store.client(routing);
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
    let client = store.client(Routing::Chain);
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
        let client = store.client(Routing::Chain);
        for (path, _, data) in files.iter().filter(|(_, replication, _)| *replication == 5) {
            assert!(read(&client, path).await == *data, "{path} on node {left}");
        }
        store.start().await;
    }
}
