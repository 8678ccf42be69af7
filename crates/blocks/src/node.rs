//! A datanode: what is remembered of it for ever.

use types::NodeId;

/// One process of a datanode, from its start to its end. Two at the same time with one node's id are a copied disk or
/// machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Incarnation {
    /// When it started, by its machine's clock: tells which of two is the later one. Milliseconds since 1970.
    pub start_ms: u64,
    /// Drawn at random, so that two that started at the same time differ, and nobody can guess it.
    pub nonce: u64,
}
types::record!(Incarnation { 0: start_ms, 1: nonce });

/// Who a datanode is and where it is dialled, as it registered last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub id: NodeId,
    /// Address and name that clients dial.
    pub ip: String,
    pub host: String,
    pub xfer_port: u16,
    pub ipc_port: u16,
    pub info_port: u16,
    /// Id of its storage, shown to clients beside each location.
    pub storage: String,
    /// As HDFS writes it, `/default-rack`; never empty, since Java clients take an empty one for null.
    pub rack: String,
    pub incarnation: Incarnation,
    /// The address its registration came from; another one than `ip` where it has several or is behind NAT.
    pub from: String,
    /// Where clients dial it that are not on its network.
    pub outside: Option<Outside>,
}

/// Where a datanode is dialled from outside of its network: a name or an address, and the ports there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    pub host: String,
    pub xfer_port: u16,
    pub ipc_port: u16,
    pub info_port: u16,
}
types::record!(Outside { 0: host, 1: xfer_port, 2: ipc_port, 3: info_port });

/// Where one client dials a datanode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// An address; from outside perhaps a name.
    pub ip: &'a str,
    /// For clients that prefer names.
    pub host: &'a str,
    pub xfer_port: u16,
    pub ipc_port: u16,
    pub info_port: u16,
}

impl Place<'_> {
    pub fn xfer_addr(&self) -> String {
        addr(self.ip, self.xfer_port)
    }
}
types::record!(Node {
    0: id,
    1: ip,
    2: host,
    3: xfer_port,
    4: ipc_port,
    5: info_port,
    6: storage,
    7: rack,
    8: incarnation,
    9: from,
    10: outside,
});

impl Node {
    /// True if a program on `host` (a name or an address) runs on this node's machine.
    pub fn is_on(&self, host: &str) -> bool {
        self.ip == host || self.host == host
    }

    /// Where a client dials it, by whether that is on the node's network.
    pub fn place(&self, is_inside: bool) -> Place<'_> {
        let Self { ip, host, xfer_port, ipc_port, info_port, .. } = self;
        let outside = self.outside.as_ref().filter(|_| !is_inside);
        outside.map_or(
            Place { ip, host, xfer_port: *xfer_port, ipc_port: *ipc_port, info_port: *info_port },
            |Outside { host, xfer_port, ipc_port, info_port }| Place {
                ip: host,
                host,
                xfer_port: *xfer_port,
                ipc_port: *ipc_port,
                info_port: *info_port,
            },
        )
    }

    /// True if some client dials it there.
    pub fn is_dialled_at(&self, host: &str, xfer_port: u32) -> bool {
        [true, false].iter().any(|is_inside| {
            let place = self.place(*is_inside);
            place.ip == host && u32::from(place.xfer_port) == xfer_port
        })
    }

    pub fn is_at(&self, other: &Self) -> bool {
        self.ip == other.ip && self.xfer_port == other.xfer_port
    }

    /// Two processes cannot have one port: whoever has it now, on that machine, outlived the other.
    pub fn outlived(&self, other: &Self) -> bool {
        self.incarnation.start_ms > other.incarnation.start_ms && self.is_at(other) && self.from == other.from
    }

    pub fn xfer_addr(&self) -> String {
        addr(&self.ip, self.xfer_port)
    }

    pub fn ipc_addr(&self) -> String {
        addr(&self.ip, self.ipc_port)
    }
}

/// IPv6 addresses stand in brackets before a port.
fn addr(ip: &str, port: u16) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}
