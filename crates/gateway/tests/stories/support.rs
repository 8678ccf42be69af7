//! A store in this process, with a gateway before it.

use client::{Client, Create, Options, Store, Url};
use gateway::{Config, EdgeConfig, FilesConfig, Gateway, HdfsConfig, Place, RootLimits, TunnelConfig};
use std::net::SocketAddr;
use std::path::Path;
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
            place: Place::NearStore(TunnelConfig { addr: any, connection_count_max, beside_servers: true }),
            url,
            user: user.clone(),
            files: Some(FilesConfig { addr: any, user: user.clone() }),
            root: Some(FilesConfig { addr: any, user }),
            root_limits,
            metrics_addr: Some(any),
        })
        .await
        .unwrap();
        Self { metad, node, gateway, _dir: dir }
    }

    /// An edge far from the store, which it reaches by the gateway alone.
    pub(crate) async fn edge(&self, cache_dir: Option<&Path>) -> Gateway {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let user = host::user::current();
        let edge = EdgeConfig { cache_dir: cache_dir.map(Path::to_owned), cache_len: 64 << 20, memory: 256 << 20 };
        let config = Config {
            place: Place::NearReaders { edge, hdfs: Some(HdfsConfig { addr: any, data_addr: any }) },
            url: Url::parse(&format!("hdfs://{}", self.metad.rpc_addr())).unwrap(),
            user: user.clone(),
            files: Some(FilesConfig { addr: any, user: user.clone() }),
            root: Some(FilesConfig { addr: any, user }),
            root_limits: RootLimits::default(),
            metrics_addr: Some(any),
        };
        let options = Options { gateway: Some(self.gateway_addr().to_string()), ..Options::default() };
        Gateway::start_with(config, options).await.unwrap()
    }

    /// Where clients come through.
    pub(crate) fn gateway_addr(&self) -> SocketAddr {
        self.gateway.tunnel_addr().unwrap()
    }

    /// Nobody reaches the store any more.
    pub(crate) async fn cut(&mut self) -> SocketAddr {
        let addr = self.gateway_addr();
        let other = self.gateway_on("127.0.0.1:0".parse().unwrap()).await;
        std::mem::replace(&mut self.gateway, other).stop().await;
        addr
    }

    /// It is reached there again.
    pub(crate) async fn mend(&mut self, addr: SocketAddr) {
        let there = self.gateway_on(addr).await;
        std::mem::replace(&mut self.gateway, there).stop().await;
    }

    async fn gateway_on(&self, addr: SocketAddr) -> Gateway {
        let config = Config {
            place: Place::NearStore(TunnelConfig { addr, connection_count_max: 100, beside_servers: true }),
            url: Url::parse(&format!("hdfs://{}", self.metad.rpc_addr())).unwrap(),
            user: host::user::current(),
            files: None,
            root: None,
            root_limits: RootLimits::default(),
            metrics_addr: None,
        };
        Gateway::start(config).await.unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        let url = Url::parse(&format!("hdfs://{}", self.metad.rpc_addr())).unwrap();
        let options = Options { gateway: Some(self.gateway_addr().to_string()), ..Options::default() };
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
        Metrics::of(&self.gateway).await
    }

    pub(crate) async fn stop(self) {
        self.gateway.stop().await;
        self.node.shutdown().await;
        self.metad.shutdown().await;
    }
}

impl Metrics {
    pub(crate) async fn of(gateway: &Gateway) -> Self {
        let mut socket = TcpStream::connect(gateway.metrics_addr().unwrap()).await.unwrap();
        socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut page = String::new();
        socket.read_to_string(&mut page).await.unwrap();
        Self(page)
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
