//! Which ports a store on one machine takes.
//!
//! Free ports are taken again at the next start. A client's address stays true that way, and a datanode that ended
//! without a goodbye is known at once: at another address it would have to wait until the metadata server has missed
//! the heartbeats of the process that it replaces.

use crate::roles::{DataReady, MetaReady};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// HDFS's for calls of clients.
const RPC: u16 = 8020;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ports {
    /// Those of HDFS: 8020 and 9870, one more for each further metadata server, and 9866, 9867 and 9868 for the
    /// first datanode, ten more for each further one. (HDFS's port for HTTP of datanodes, 9864, has one in reach that a
    /// fifth metadata server takes.)
    Hdfs,
    /// `N` RPC, `N+1` HTTP, two more for each further metadata server, and `N+10·i` and the next two for the i-th
    /// datanode.
    From(u16),
    /// Whatever is free: those of the last start, where nobody has them now, as [`io::HeldPorts`] finds out.
    Free(LastPorts),
}

/// Of each role the ports that it had when the store was ready last; 0: none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastPorts {
    meta: Vec<[u16; 2]>,
    data: Vec<[u16; 3]>,
}

impl Ports {
    /// `dir` is the store's.
    pub(crate) fn from_base(base: Option<u16>, dir: &Path) -> Self {
        match base {
            None => Self::Hdfs,
            Some(0) => Self::Free(LastPorts::load(dir)),
            Some(base) => Self::From(base),
        }
    }

    /// RPC port of the first metadata server, as clients are told it; 0: whatever is free.
    pub(crate) fn rpc_port(&self) -> u16 {
        match self {
            Self::Hdfs => RPC,
            Self::From(base) => *base,
            Self::Free(_) => 0,
        }
    }

    /// RPC and HTTP address of the metadata server `number`, counted from 1, which listens on `ip`.
    pub(crate) fn meta(&self, ip: IpAddr, number: u16) -> (SocketAddr, SocketAddr) {
        let step = number - 1;
        let [rpc, http] = match self {
            Self::Hdfs => [RPC + step, 9870 + step],
            Self::From(base) => [2 * step, 2 * step + 1].map(|offset| base.saturating_add(offset)),
            Self::Free(last) => last.meta.get(usize::from(step)).copied().unwrap_or_default(),
        };
        (SocketAddr::new(ip, rpc), SocketAddr::new(ip, http))
    }

    /// Transfer, RPC and HTTP address of the datanode `number`, counted from 1.
    pub(crate) fn data(&self, ip: IpAddr, number: u16) -> (SocketAddr, SocketAddr, SocketAddr) {
        let step = number - 1;
        let [xfer, ipc, http] = match self {
            Self::Hdfs => [9866, 9867, 9868].map(|first| first + 10 * step),
            Self::From(base) => [10, 11, 12].map(|first| base.saturating_add(first + 10 * step)),
            Self::Free(last) => last.data.get(usize::from(step)).copied().unwrap_or_default(),
        };
        (SocketAddr::new(ip, xfer), SocketAddr::new(ip, ipc), SocketAddr::new(ip, http))
    }
}

impl LastPorts {
    pub(crate) fn of(meta: &[MetaReady], data: &[DataReady]) -> Self {
        let of_data = |node: &DataReady| [node.data.port(), node.rpc.port(), node.http.map_or(0, |http| http.port())];
        Self {
            meta: meta.iter().map(|meta| [meta.rpc.port(), meta.http.port()]).collect(),
            data: data.iter().map(of_data).collect(),
        }
    }

    /// Nothing depends on them, so a file that is not there or cannot be read counts as an empty one.
    fn load(dir: &Path) -> Self {
        std::fs::read(path(dir)).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    pub(crate) fn save(&self, dir: &Path) -> std::io::Result<()> {
        std::fs::write(path(dir), serde_json::to_vec(self).expect("numbers are plain data"))
    }
}

fn path(dir: &Path) -> PathBuf {
    dir.join("conf").join("ports.json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const IP: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn addr(port: u16) -> SocketAddr {
        SocketAddr::new(IP, port)
    }

    fn numbers(ports: &Ports) -> [u16; 7] {
        let (xfer, ipc, data_http) = ports.data(IP, 3);
        [ports.meta(IP, 1).0, ports.meta(IP, 1).1, ports.meta(IP, 3).0, ports.meta(IP, 3).1, xfer, ipc, data_http]
            .map(|addr| addr.port())
    }

    #[test]
    fn they_follow_hdfs_or_the_base() {
        let dir = Path::new("/no/such/store");
        assert_eq!(numbers(&Ports::from_base(None, dir)), [8020, 9870, 8022, 9872, 9886, 9887, 9888]);
        assert_eq!(numbers(&Ports::from_base(Some(7000), dir)), [7000, 7001, 7004, 7005, 7030, 7031, 7032]);
        assert_eq!(numbers(&Ports::from_base(Some(0), dir)), [0; 7]);
    }

    #[test]
    fn free_ones_are_those_of_the_last_start() {
        let dir = std::env::temp_dir().join(format!("levada-ports-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("conf")).unwrap();
        let last = LastPorts { meta: vec![[4001, 4002]], data: Vec::new() };
        last.save(&dir).unwrap();
        assert_eq!(LastPorts::load(&dir), last);
        let ports = Ports::from_base(Some(0), &dir);
        assert_eq!(ports.meta(IP, 1), (addr(4001), addr(4002)));
        assert_eq!((ports.meta(IP, 2).0, ports.data(IP, 1).0), (addr(0), addr(0)));
        std::fs::write(path(&dir), b"{\"meta\": [[").unwrap();
        assert_eq!(LastPorts::load(&dir), LastPorts::default());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
