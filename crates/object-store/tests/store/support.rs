//! A metadata server and datanodes in this process; their directories go with it.

use bytes::Bytes;
use client::{Client, Options, Url};
use datad::Datad;
use futures_util::TryStreamExt;
use levada_object_store::Levada;
use metrics::Format;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::net::SocketAddr;
use std::time::Duration;

const NODE_COUNT: usize = 2;

pub(crate) struct Cluster {
    metad: metad::Metad,
    nodes: Vec<Datad>,
    /// Of the user that runs the servers, who may do anything.
    pub(crate) objects: Levada,
    _dir: tempfile::TempDir,
}

impl Cluster {
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let mut config = metad::Config::new(dir.path().join("meta"), any);
        (config.block_len_min, config.replication) = (1, NODE_COUNT as u16);
        let metad = metad::start(config).await.unwrap();
        let mut nodes = Vec::new();
        for number in 0..NODE_COUNT {
            let dir = dir.path().join(number.to_string());
            let mut config = datad::Config::new(dir, any, any, metad.rpc_addr().to_string());
            config.durability = datad::Durability::Replicated; // the disks of tests are slow, and not what is tested
            let node = datad::start(config).await.unwrap();
            node.registered().await;
            nodes.push(node);
        }
        let objects = levada(&metad, Options::default());
        Self { metad, nodes, objects, _dir: dir }
    }

    /// Another process, as it were: with sockets and caches of its own.
    pub(crate) fn other(&self, options: Options) -> Levada {
        levada(&self.metad, options)
    }

    pub(crate) fn client(&self) -> &Client {
        self.objects.client()
    }

    /// Operations of this kind that the datanodes have served since they were `before`, at least one. A node counts one
    /// when it is over, which its client may learn before.
    pub(crate) async fn operations_since(&self, before: u64, op: &str) -> u64 {
        for _ in 0..400 {
            if self.operation_count(op) > before {
                break;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        self.operation_count(op) - before
    }

    pub(crate) fn operation_count(&self, op: &str) -> u64 {
        let name = format!("levada_transfer_duration_seconds_count{{op=\"{op}\"");
        let of_node = |node: &Datad| {
            let text = node.metrics().render(Format::OpenMetrics);
            let counts = text.lines().filter(|line| line.starts_with(&name));
            counts.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64).sum::<u64>()
        };
        self.nodes.iter().map(of_node).sum()
    }

    /// All files of the store, those under temporary names as well.
    pub(crate) async fn files(&self) -> Vec<String> {
        let (mut files, mut left) = (Vec::new(), vec![String::new()]);
        while let Some(directory) = left.pop() {
            let listing = self.client().list(if directory.is_empty() { "/" } else { &directory }).await.unwrap();
            for status in listing.collect().await.unwrap() {
                let path = format!("{directory}/{}", status.name);
                if status.is_dir() { left.push(path) } else { files.push(path) }
            }
        }
        files.sort_unstable();
        files
    }

    /// Waits until there are just these files.
    pub(crate) async fn comes_to(&self, wanted: &[&str]) {
        for _ in 0..400 {
            if self.files().await == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        assert_eq!(self.files().await, wanted);
    }
}

fn levada(metad: &metad::Metad, options: Options) -> Levada {
    let url = Url::parse(&format!("hdfs://{}", metad.rpc_addr())).unwrap();
    Levada::new(Client::with_options(&url, &host::user::current(), options))
}

/// Bytes that hardly repeat, the same for the same seed.
pub(crate) fn bytes(seed: u64, len: usize) -> Bytes {
    let mut random = types::random::Seeded(seed);
    (0..len.div_ceil(8)).flat_map(|_| types::Random::next_u64(&mut random).to_le_bytes()).take(len).collect()
}

pub(crate) async fn read(objects: &dyn ObjectStore, path: &Path) -> Bytes {
    objects.get(path).await.unwrap().bytes().await.unwrap()
}

/// The paths of all objects, sorted.
pub(crate) async fn listed(objects: &dyn ObjectStore, prefix: Option<&Path>) -> Vec<String> {
    let objects = objects.list(prefix).map_ok(|object| object.location.to_string());
    let mut paths: Vec<_> = objects.try_collect().await.unwrap();
    paths.sort_unstable();
    paths
}
