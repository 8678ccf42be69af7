//! A store in this process, with a gateway before it.

use client::{Client, Options, Store, Url};
use gateway::{Config, FilesConfig, Gateway, RootLimits};
use std::net::SocketAddr;

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

    pub(crate) async fn stop(self) {
        self.gateway.stop().await;
        self.node.shutdown().await;
        self.metad.shutdown().await;
    }
}
