//! A metadata server and datanodes in this process; their directories go with it.

#![allow(dead_code, reason = "each test program uses a part")]

use client::{Client, Options, Url};
use datad::Datad;
use std::net::SocketAddr;
use std::path::Path;
use tokio::task::JoinSet;

pub(crate) struct Store {
    metad: Option<metad::Metad>,
    meta: metad::Config,
    configs: Vec<datad::Config>,
    nodes: Vec<Option<Datad>>,
    _dir: tempfile::TempDir,
}

impl Store {
    /// `set` changes what a test needs otherwise: of the metadata server, and of each datanode by its number.
    pub(crate) async fn new(
        node_count: usize,
        set_metad: impl FnOnce(&mut metad::Config),
        set_node: impl Fn(usize, &mut datad::Config),
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let mut config = metad::Config::new(dir.path().join("meta"), any);
        set_metad(&mut config);
        let metad = metad::start(config.clone()).await.unwrap();
        // When it starts anew it is found again.
        config.rpc_addr = metad.rpc_addr();
        let node_config = |number: usize| {
            let dir = dir.path().join(Path::new(&number.to_string()));
            let mut config = datad::Config::new(dir, any, any, metad.rpc_addr().to_string());
            config.durability = datad::Durability::Replicated;
            set_node(number, &mut config);
            config
        };
        let configs: Vec<datad::Config> = (0..node_count).map(node_config).collect();
        let nodes = configs.iter().map(|_| None).collect();
        let mut store = Self { metad: Some(metad), meta: config, nodes, configs, _dir: dir };
        store.start().await;
        store
    }

    /// Where a datanode has its disk.
    pub(crate) fn dir(&self, number: usize) -> &Path {
        &self.configs[number].dir
    }

    /// Those that do not run.
    pub(crate) async fn start(&mut self) {
        for (node, config) in self.nodes.iter_mut().zip(&self.configs).filter(|(node, _)| node.is_none()) {
            let started = datad::start(config.clone()).await.unwrap();
            started.registered().await;
            *node = Some(started);
        }
    }

    /// Of one that runs.
    pub(crate) fn node_id(&self, number: usize) -> String {
        self.nodes[number].as_ref().map(|node| node.node_id().to_string()).unwrap_or_default()
    }

    /// It ends without a word.
    pub(crate) fn vanish(&mut self, number: usize) {
        drop(self.nodes[number].take());
    }

    pub(crate) async fn stop(&mut self, number: usize) {
        if let Some(node) = self.nodes[number].take() {
            node.shutdown().await;
        }
    }

    /// It ends without a word, as if it was killed.
    pub(crate) fn vanish_meta(&mut self) {
        drop(self.metad.take());
    }

    pub(crate) async fn stop_meta(&mut self) {
        if let Some(metad) = self.metad.take() {
            metad.shutdown().await;
        }
    }

    pub(crate) async fn start_meta(&mut self) {
        self.metad = Some(metad::start(self.meta.clone()).await.unwrap());
    }

    pub(crate) async fn stop_all_but(&mut self, left: usize) {
        let mut stopping = JoinSet::new();
        for (_, node) in self.nodes.iter_mut().enumerate().filter(|(number, _)| *number != left) {
            node.take().map(|node| stopping.spawn(node.shutdown()));
        }
        stopping.join_all().await;
    }

    /// Where the metadata server has its directory, and listens.
    pub(crate) fn metad(&self) -> (std::path::PathBuf, SocketAddr) {
        (self._dir.path().join("meta"), self.meta.rpc_addr)
    }

    /// A metadata server in the place of the one there was, whose directory is lost.
    pub(crate) async fn replace_metad(&mut self, restore: impl AsyncFnOnce(), config: metad::Config) {
        self.stop_meta().await;
        std::fs::remove_dir_all(self._dir.path().join("meta")).unwrap();
        restore().await;
        self.metad = Some(metad::start(config).await.unwrap());
    }

    /// As commands take it.
    pub(crate) fn url(&self) -> String {
        format!("hdfs://{}", self.meta.rpc_addr)
    }

    pub(crate) fn client(&self, options: Options) -> Client {
        let url = Url::parse(&format!("hdfs://{}/", self.meta.rpc_addr)).unwrap();
        Client::with_options(&url, &host::user::current(), options)
    }
}

/// Bytes that hardly repeat, the same for the same seed.
pub(crate) fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut random = types::random::Seeded(seed);
    (0..len.div_ceil(8)).flat_map(|_| types::Random::next_u64(&mut random).to_le_bytes()).take(len).collect()
}

pub(crate) async fn read(client: &Client, path: &str) -> Vec<u8> {
    let mut reader = client.open(path).await.unwrap();
    let mut read = vec![0; reader.len() as usize];
    assert_eq!(reader.read(&mut read).await.unwrap(), read.len());
    read
}
