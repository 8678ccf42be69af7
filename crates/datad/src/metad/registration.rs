//! Who this node is, as metadata servers are told: its addresses, and which process of it this one is.

use crate::config::Config;
use crate::outside::Outside;
use disks::Disks;
use host::version::VERSION;
use io::{Clock, OsRandom, SystemClock};
use std::net::{IpAddr, SocketAddr};
use types::Random;
use wire::node::{Incarnation, RegisterRequest, Usage};

#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) config: Config,
    /// Of this process, in all that it says to metadata servers.
    pub(crate) incarnation: Incarnation,
    pub(crate) xfer_addr: SocketAddr,
    pub(crate) ipc_addr: SocketAddr,
}

impl Registration {
    /// `xfer_addr` and `ipc_addr`: what the node listens on.
    pub(crate) fn new(config: Config, xfer_addr: SocketAddr, ipc_addr: SocketAddr) -> Self {
        // Zero is none.
        let nonce = OsRandom::new().next_u64().max(1);
        let incarnation = Incarnation { start_ms: SystemClock::new().now().0, nonce };
        Self { config, incarnation, xfer_addr, ipc_addr }
    }

    /// The address that clients are to dial, as it is seen by this metadata server.
    pub(super) async fn ip(&self, metad: &str) -> IpAddr {
        match self.config.ip {
            Some(ip) => ip,
            None => own_ip(self.xfer_addr.ip(), metad.to_owned()).await,
        }
    }

    pub(super) fn request(&self, ip: IpAddr, disks: &Disks, usage: Usage) -> RegisterRequest {
        let config = &self.config;
        RegisterRequest {
            node: disks.node_id().to_string(),
            ip: ip.to_string(),
            host: config.host.clone().unwrap_or_else(|| own_host(ip)),
            xfer_port: self.xfer_addr.port().into(),
            ipc_port: self.ipc_addr.port().into(),
            info_port: config.info_port.into(),
            storage: disks.storage_id().to_string(),
            rack: config.rack.clone(),
            usage: Some(usage),
            version: VERSION.to_owned(),
            pool: disks.pool().unwrap_or_default(),
            incarnation: Some(self.incarnation),
            // The address that was found out is the one that the request comes from, or the way back is another.
            outside: Outside::of(config).told(self.xfer_addr.port(), self.ipc_addr.port(), config.info_port),
            advertised: config.ip.is_some() || !self.xfer_addr.ip().is_unspecified(),
        }
    }
}

/// The address under which this machine is seen by the metadata server, if the transfer port is open on all.
async fn own_ip(bound: IpAddr, metad: String) -> IpAddr {
    if !bound.is_unspecified() {
        return bound;
    }
    // Connecting a datagram socket sends nothing; it only picks the way. Finding the name's address may take a while.
    let any: SocketAddr = if bound.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let seen = io::task::blocking(move || {
        let socket = std::net::UdpSocket::bind(any)?;
        socket.connect(metad)?;
        socket.local_addr()
    });
    seen.await.map_or(bound, |addr| addr.ip())
}

/// The machine's name; a node on the loopback alone is called what everybody can resolve.
fn own_host(ip: IpAddr) -> String {
    if ip.is_loopback() {
        return "localhost".to_owned();
    }
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { ip.to_string() } else { name.trim().to_owned() }
}
