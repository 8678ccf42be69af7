//! Where datanodes are for clients that are not on their network, and the way back from there.
//!
//! ```text
//! client ── gate:19866 ══▶ one 10.0.0.2:9866 ── this node sends on to "gate:19876" ──▶ two 10.0.0.2:9876
//! ```
//!
//! A client hands on to its first datanode where the others of the chain are, as it dials them itself. From inside that
//! may lead nowhere: a gateway need not let its own side in. A node that has another name outside knows those beside it
//! by that name, and dials them where they are.

use crate::config::Config;
use hdfs::proto;
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use wire::node;
use wire::small::SmallWrite;

/// A node of which nothing is known but what a client said of it.
const NO_ADDRESS: &str = "is no address";

/// What this node is called outside.
#[derive(Debug)]
pub(crate) struct Outside {
    host: Option<String>,
    shift: i32,
    /// Of the nodes on this machine.
    own: IpAddr,
}

impl Outside {
    pub(crate) fn of(config: &Config) -> Self {
        let bound = config.xfer_addr.ip();
        // One that listens everywhere listens there as well.
        let own = match bound {
            IpAddr::V4(ip) if ip.is_unspecified() => std::net::Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => std::net::Ipv6Addr::LOCALHOST.into(),
            bound => bound,
        };
        Self { host: config.outside_host.clone(), shift: config.outside_port_shift, own }
    }

    /// What metadata servers are told; `None`: the same as inside. A port that would not be one is none.
    pub(crate) fn told(&self, xfer_port: u16, ipc_port: u16, info_port: u16) -> Option<node::Outside> {
        let there = |port: u16| match port {
            0 => 0,
            port => shifted(port.into(), self.shift).unwrap_or(0).into(),
        };
        let host = self.host.clone()?;
        Some(node::Outside {
            host,
            xfer_port: there(xfer_port),
            ipc_port: there(ipc_port),
            info_port: there(info_port),
        })
    }

    /// A small write whose targets are called as they are here. Names of other gateways stay: nobody asks for them, and
    /// the write is refused, which clients take for a reason to stream.
    pub(crate) fn inwards<'a>(&self, header: &'a SmallWrite) -> Cow<'a, SmallWrite> {
        let Some(host) = &self.host else { return Cow::Borrowed(header) };
        let inside = |target: &String| {
            let own = target.rsplit_once(':').filter(|(name, _)| name.trim_matches(['[', ']']) == host);
            let port = own.and_then(|(_, port)| self.port_here(port.parse().ok()?));
            port.map_or_else(|| target.clone(), |port| SocketAddr::new(self.own, port).to_string())
        };
        Cow::Owned(SmallWrite { targets: header.targets.iter().map(inside).collect(), ..header.clone() })
    }

    /// Of a port outside.
    fn port_here(&self, port: u32) -> Option<u16> {
        shifted(port, self.shift.saturating_neg())
    }

    /// Where to dial the datanode that a client names. It may ask for the address of a name, which takes its time: only
    /// where nodes have names outside, as clients of others name addresses alone.
    pub(crate) fn addr(&self, target: &proto::DatanodeInfoProto) -> Result<SocketAddr, String> {
        let proto::DatanodeIdProto { ip_addr, xfer_port, .. } = &target.id;
        if let Some(host) = &self.host
            && host == ip_addr
        {
            let port = self.port_here(*xfer_port).ok_or(NO_ADDRESS)?;
            return Ok(SocketAddr::new(self.own, port));
        }
        let port = u16::try_from(*xfer_port).map_err(|_| NO_ADDRESS)?;
        match ip_addr.parse::<IpAddr>() {
            Ok(ip) => Ok(SocketAddr::new(ip, port)),
            Err(_) if self.host.is_none() => Err(NO_ADDRESS.to_owned()),
            Err(_) => {
                let found = (&**ip_addr, port).to_socket_addrs();
                found.ok().and_then(|mut addrs| addrs.next()).ok_or_else(|| "is not found by its name".to_owned())
            }
        }
    }
}

fn shifted(port: u32, shift: i32) -> Option<u16> {
    u16::try_from(i64::from(port) + i64::from(shift)).ok().filter(|port| *port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outside(host: Option<&str>, bound: &str) -> Outside {
        let bound = bound.parse().unwrap();
        let mut config = Config::new("/d".into(), bound, bound, "m:8020".into());
        (config.outside_host, config.outside_port_shift) = (host.map(str::to_owned), 10_000);
        Outside::of(&config)
    }

    fn target(ip: &str, port: u32) -> proto::DatanodeInfoProto {
        let id = proto::DatanodeIdProto { ip_addr: ip.into(), xfer_port: port, ..Default::default() };
        proto::DatanodeInfoProto { id, ..Default::default() }
    }

    #[test]
    fn nodes_beside_this_one_are_dialled_where_they_are() {
        let at = |outside: &Outside, ip, port| outside.addr(&target(ip, port)).ok().map(|addr| addr.to_string());
        let anywhere = outside(Some("gate"), "0.0.0.0:9866");
        assert_eq!(at(&anywhere, "gate", 19876).as_deref(), Some("127.0.0.1:9876"));
        assert_eq!(
            at(&outside(Some("203.0.113.9"), "10.0.0.2:9866"), "203.0.113.9", 19876).as_deref(),
            Some("10.0.0.2:9876")
        );
        // Inside, and of another gate.
        assert_eq!(at(&anywhere, "10.0.0.3", 9866).as_deref(), Some("10.0.0.3:9866"));
        assert_eq!(at(&anywhere, "localhost", 9866).map(|addr| addr.ends_with(":9866")), Some(true));
        for wrong in [("gate", 10_000), ("gate", 5), ("10.0.0.3", 70_000), ("no such name", 9866)] {
            assert_eq!(at(&anywhere, wrong.0, wrong.1), None, "{wrong:?}");
        }
        assert_eq!(at(&outside(None, "0.0.0.0:9866"), "localhost", 9866), None, "nobody asks for names");
    }

    #[test]
    fn targets_of_a_small_write_are_called_as_they_are_here() {
        let inwards = |outside: &Outside, target: &str| {
            outside.inwards(&SmallWrite { targets: vec![target.into()], ..SmallWrite::default() }).targets[0].clone()
        };
        let gate = outside(Some("gate"), "0.0.0.0:9866");
        assert_eq!(inwards(&gate, "gate:19876"), "127.0.0.1:9876");
        for other in ["10.0.0.3:9866", "gates:19876", "gate:5", "gate", "gate:x"] {
            assert_eq!(inwards(&gate, other), other);
        }
        assert_eq!(inwards(&outside(Some("::1"), "10.0.0.2:9866"), "[::1]:19876"), "10.0.0.2:9876");
        assert_eq!(inwards(&outside(None, "0.0.0.0:9866"), "gate:19876"), "gate:19876");
    }

    #[test]
    fn ports_are_told_as_they_are_outside() {
        let told = outside(Some("gate"), "0.0.0.0:9866").told(9866, 60_000, 0).unwrap();
        assert_eq!((told.xfer_port, told.ipc_port, told.info_port), (19866, 0, 0));
        assert_eq!(outside(None, "0.0.0.0:9866").told(1, 2, 3), None);
    }
}
