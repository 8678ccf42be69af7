//! A store in this process, with a gateway before it.

use client::{Client, Create, Options, Store, Url};
use gateway::{Config, FilesConfig, Gateway, RootLimits};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) struct Cluster {
    pub(crate) metad: metad::Metad,
    node: datad::Datad,
    pub(crate) gateway: Gateway,
    _dir: tempfile::TempDir,
}

impl Cluster {
    pub(crate) async fn new(connection_count_max: usize) -> Self {
        Self::with(connection_count_max, RootLimits::default()).await
    }

    pub(crate) async fn with(connection_count_max: usize, root_limits: RootLimits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let mut config = metad::Config::new(dir.path().join("meta"), any);
        (config.block_len_min, config.replication) = (1, 1);
        let metad = metad::start(config).await.unwrap();
        let mut config = datad::Config::new(dir.path().join("data"), any, any, metad.rpc_addr().to_string());
        config.durability = datad::Durability::Replicated;
        let node = datad::start(config).await.unwrap();
        node.registered().await;
        let url = Url::parse(&format!("hdfs://{}", metad.rpc_addr())).unwrap();
        let user = host::user::current();
        let gateway = Gateway::start(Config {
            addr: any,
            url,
            user: user.clone(),
            files: Some(FilesConfig { addr: any, user: user.clone() }),
            root: Some(FilesConfig { addr: any, user }),
            root_limits,
            metrics_addr: Some(any),
            connection_count_max,
            beside_servers: true,
        })
        .await
        .unwrap();
        Self { metad, node, gateway, _dir: dir }
    }

    pub(crate) fn client(&self) -> Client {
        let url = Url::parse(&format!("hdfs://{}", self.metad.rpc_addr())).unwrap();
        let options = Options { gateway: Some(self.gateway.addr().to_string()), ..Options::default() };
        Store::new(&url, options).client(&host::user::current())
    }

    /// Writes a file, in place of another of this name.
    pub(crate) async fn put(&self, path: &str, bytes: &[u8]) {
        let client = self.client();
        let create = Create { overwrite: true, ..Create::default() };
        let mut writer = client.create(path, &create).await.unwrap();
        writer.write(bytes).await.unwrap();
        writer.close().await.unwrap();
        client.store().close().await;
    }

    /// What a scraper sees.
    pub(crate) async fn metrics(&self) -> Metrics {
        let mut socket = TcpStream::connect(self.gateway.metrics_addr().unwrap()).await.unwrap();
        socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut page = String::new();
        socket.read_to_string(&mut page).await.unwrap();
        Metrics(page)
    }

    pub(crate) async fn stop(self) {
        self.gateway.stop().await;
        self.node.shutdown().await;
        self.metad.shutdown().await;
    }
}

/// Bytes of a file, of which no two neighbours are the same.
pub(crate) fn bytes(len: u32) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

/// The page for scrapers.
pub(crate) struct Metrics(String);

impl Metrics {
    /// The value of a line by its name and labels.
    pub(crate) fn value(&self, name: &str) -> f64 {
        let line = self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name}")).parse().unwrap()
    }
}
