//! What makes of a gateway an edge: one that is near its readers, and far from the store.

use crate::roles::StartError;
use crate::shell::size;
use client::Options;
use gateway::{EdgeConfig, HdfsConfig};
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct EdgeArgs {
    /// Be near the readers, and far from the store: keep what is read over HTTP and XRootD, and fetch the rest
    #[arg(long)]
    edge: bool,
    /// Where an edge reaches the store: hdfs://HOST:PORT of its metadata servers, or HOST:PORT of a gateway near it, to
    /// which all connections go; --url names the metadata servers then
    #[arg(long, value_name = "ADDR", requires = "edge")]
    upstream: Option<String>,
    /// Where an edge keeps what was read, also when it is started anew [default: in memory alone]
    #[arg(long, value_name = "DIR", requires = "edge")]
    cache_dir: Option<PathBuf>,
    /// What it keeps there at most, as in 100G
    #[arg(long, value_name = "SIZE", default_value = "100G", value_parser = size::parse, requires = "cache_dir")]
    cache_size: u64,
    /// Serve HDFS's own clients, too, read-only: hdfs://ADDR; it needs no setting of theirs
    #[arg(long, value_name = "ADDR", requires = "edge")]
    hdfs: Option<SocketAddr>,
    /// Where they read blocks [default: port 9866 of the same address]
    #[arg(long, value_name = "ADDR", requires = "hdfs")]
    hdfs_data: Option<SocketAddr>,
    /// Memory of an edge: a half for what is read and what waits for its disk, the rest for reading ahead, its index
    /// and what is on its way
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size::parse, requires = "edge")]
    memory: u64,
}

/// HDFS's.
const DATA_PORT: u16 = 9866;
/// Less makes no sense: a segment on the disk has 2 MiB, and a few go at a time; a window that is read ahead has 32.
const CACHE_LEN_MIN: u64 = 16 << 20;
const MEMORY_MIN: u64 = 128 << 20;

/// How the store is reached, and what is kept of it.
#[derive(Debug)]
pub(crate) struct Reached {
    /// Of its metadata servers.
    pub(crate) url: String,
    pub(crate) options: Options,
    /// `None`: it is no edge.
    pub(crate) edge: Option<EdgeConfig>,
}

impl EdgeArgs {
    pub(crate) fn is_edge(&self) -> bool {
        self.edge
    }

    pub(crate) fn hdfs(&self) -> Option<HdfsConfig> {
        let addr = self.hdfs?;
        Some(HdfsConfig { addr, data_addr: self.hdfs_data.unwrap_or_else(|| SocketAddr::new(addr.ip(), DATA_PORT)) })
    }

    /// `url`: as `--url` or the environment has it.
    pub(crate) fn reached(self, url: Option<String>) -> Result<Reached, StartError> {
        let (mut url, mut options) = (url, Options::default());
        match self.upstream {
            Some(upstream) if upstream.contains("://") => url = Some(upstream),
            upstream => options.gateway = upstream,
        }
        let url = url.ok_or_else(|| StartError("--url has to name the metadata servers of the store".into()))?;
        if !self.edge {
            return Ok(Reached { url, options, edge: None });
        }
        for (name, given, least, text) in
            [("--cache-size", self.cache_size, CACHE_LEN_MIN, "16M"), ("--memory", self.memory, MEMORY_MIN, "128M")]
        {
            if given < least {
                return Err(StartError(format!("{name} {given} is too little; give at least {text}")));
            }
        }
        let edge = EdgeConfig { cache_dir: self.cache_dir, cache_len: self.cache_size, memory: self.memory };
        Ok(Reached { url, options, edge: Some(edge) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(upstream: Option<&str>, url: Option<&str>) -> Option<(String, Option<String>)> {
        let upstream = upstream.map(str::to_owned);
        let args = EdgeArgs {
            edge: true,
            upstream,
            cache_dir: None,
            cache_size: 1 << 30,
            hdfs: None,
            hdfs_data: None,
            memory: 1 << 30,
        };
        args.reached(url.map(str::to_owned)).ok().map(|reached| (reached.url, reached.options.gateway))
    }

    #[test]
    fn an_upstream_is_a_store_or_a_gateway_before_one() {
        let (store, other) = ("hdfs://a:8020", "hdfs://b:8020");
        assert_eq!(reached(Some(store), None), Some((store.into(), None)));
        assert_eq!(reached(Some(store), Some(other)), Some((store.into(), None)));
        assert_eq!(reached(Some("g:8030"), Some(other)), Some((other.into(), Some("g:8030".into()))));
        assert_eq!(reached(None, Some(other)), Some((other.into(), None)));
        assert_eq!(reached(Some("g:8030"), None), None);
    }
}
