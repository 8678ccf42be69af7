//! From where a store that `levada up` runs is reached, and what it tells clients of where its servers are.
//!
//! ```text
//! up                                         this machine alone, at 127.0.0.1
//! up --host 0.0.0.0                          every machine of its networks, at this machine's address
//! up --host 0.0.0.0 --advertise NAME[:PORT]  those as before, and all others at NAME: by a container's ports, or NAT
//! ```
//!
//! Three addresses, then, which are one where neither option is given: where servers listen, where those beside them
//! and inside dial them, and where those outside do. Ports outside are all as far from those inside as PORT is from the
//! first metadata server's.

use crate::roles::StartError;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use tls::Host;

/// `--advertise`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Advertised {
    host: Host,
    /// `None`: ports are the same outside.
    port: Option<u16>,
}

impl FromStr for Advertised {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self { host: address.ip().into(), port: Some(address.port()) });
        }
        if let Ok(host) = text.trim_matches(['[', ']']).parse() {
            return Ok(Self { host, port: None });
        }
        let (host, port) = text.rsplit_once(':').ok_or("neither an IP address nor the name of a host")?;
        let port = port.parse().ok().filter(|port| *port != 0);
        Ok(Self { host: host.parse()?, port: Some(port.ok_or("behind the colon comes a port")?) })
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    listen: IpAddr,
    /// Where others inside dial what listens.
    inside: IpAddr,
    outside: Option<Outside>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Outside {
    host: Host,
    shift: i32,
}

impl Reach {
    /// `rpc_port`: of the first metadata server; 0: not known yet. Waits for the name of `host` to be looked up.
    pub(crate) fn new(host: Option<&str>, advertised: Option<&Advertised>, rpc_port: u16) -> Result<Self, StartError> {
        let listen = host.map_or(Ok(Ipv4Addr::LOCALHOST.into()), address_of)?;
        let inside = if listen.is_unspecified() {
            host::network::own_address().unwrap_or_else(|| beside(listen))
        } else {
            listen
        };
        let outside = advertised.map(|Advertised { host, port }| {
            let shift = match port {
                None => 0,
                Some(_) if rpc_port == 0 => {
                    return Err(StartError(
                        "--advertise with a port is for ports that are known: not for --port-base 0".into(),
                    ));
                }
                Some(port) => i32::from(*port) - i32::from(rpc_port),
            };
            Ok(Outside { host: host.clone(), shift })
        });
        Ok(Self { listen, inside, outside: outside.transpose()? })
    }

    pub(crate) fn listen(&self) -> IpAddr {
        self.listen
    }

    /// What datanodes say of where they are dialled inside. `None`: nothing, as nobody but this machine is.
    pub(crate) fn told_ip(&self) -> Option<IpAddr> {
        (!self.inside.is_loopback()).then_some(self.inside)
    }

    /// What datanodes are called outside, and how much higher their ports are there.
    pub(crate) fn outside(&self) -> Option<(String, i32)> {
        self.outside.as_ref().map(|outside| (outside.host.to_string(), outside.shift))
    }

    /// Where a server is dialled by those beside it that listens at `addr`.
    pub(crate) fn beside(&self, addr: SocketAddr) -> SocketAddr {
        SocketAddr::new(beside(addr.ip()), addr.port())
    }

    /// Where others inside dial it.
    pub(crate) fn inside(&self, addr: SocketAddr) -> SocketAddr {
        SocketAddr::new(if addr.ip().is_unspecified() { self.inside } else { addr.ip() }, addr.port())
    }

    /// Where most clients dial it: outside, if there is one. `name`: what to call this machine, if not by its address.
    pub(crate) fn told(&self, addr: SocketAddr, name: Option<&str>) -> String {
        match (&self.outside, name) {
            (Some(outside), _) => {
                // Checked by `must_have_ports`.
                let port = shifted(addr.port(), outside.shift).unwrap_or(addr.port());
                match &outside.host {
                    Host::Ip(ip) => SocketAddr::new(*ip, port).to_string(),
                    Host::Name(_) => format!("{}:{port}", outside.host),
                }
            }
            (None, Some(name)) => format!("{name}:{}", addr.port()),
            (None, None) => self.inside(addr).to_string(),
        }
    }

    /// Refuses a port that outside would be none.
    pub(crate) fn must_have_ports(&self, ports: impl IntoIterator<Item = u16>) -> Result<(), StartError> {
        let Some(Outside { shift, .. }) = self.outside else { return Ok(()) };
        match ports.into_iter().find(|port| shifted(*port, shift).is_none()) {
            None => Ok(()),
            Some(port) => {
                Err(StartError(format!("--advertise: port {port} would be {} outside", i32::from(port) + shift)))
            }
        }
    }

    /// By what this machine is known to clients, for certificates and tickets; the first is that of tickets.
    pub(crate) fn hosts(&self) -> Vec<Host> {
        let outside = self.outside.iter().map(|outside| outside.host.clone());
        let named = [LOCALHOST, "127.0.0.1", "::1"].iter().flat_map(|host| host.parse());
        let addresses = [self.listen, self.inside].into_iter().filter(|ip| !ip.is_loopback() && !ip.is_unspecified());
        let mut hosts: Vec<Host> = outside.chain(named).collect();
        for host in addresses.map(Host::Ip) {
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        hosts
    }

    /// The host in the name of metadata servers that users get tickets for.
    pub(crate) fn ticket_host(&self) -> String {
        self.outside.as_ref().map_or_else(|| LOCALHOST.to_owned(), |outside| outside.host.to_string())
    }

    /// Only programs on this machine reach it.
    pub(crate) fn is_local(&self) -> bool {
        self.listen.is_loopback()
    }
}

/// As what clients know this machine that are on it.
const LOCALHOST: &str = "localhost";

fn shifted(port: u16, shift: i32) -> Option<u16> {
    u16::try_from(i32::from(port) + shift).ok().filter(|there| *there != 0 || port == 0)
}

fn beside(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

/// An address of this machine, or that of a name of it.
fn address_of(host: &str) -> Result<IpAddr, StartError> {
    if let Ok(ip) = host.trim_matches(['[', ']']).parse() {
        return Ok(ip);
    }
    let found = (host, 0).to_socket_addrs().map_err(|error| StartError::new(&format!("--host {host}"), &error))?;
    let mut found: Vec<IpAddr> = found.map(|addr| addr.ip()).collect();
    // Stock clients try the first alone, which is this one at most sites.
    found.sort_by_key(IpAddr::is_ipv6);
    found.first().copied().ok_or_else(|| StartError(format!("--host {host} has no address")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn this_machine_alone_unless_something_is_said() {
        let reach = Reach::new(None, None, 8020).unwrap();
        assert!(reach.is_local() && reach.told_ip().is_none() && reach.outside().is_none());
        let rpc = addr("127.0.0.1:8020");
        assert_eq!((reach.inside(rpc), reach.beside(rpc)), (rpc, rpc));
        assert_eq!(
            (&*reach.told(rpc, None), &*reach.told(rpc, Some("localhost"))),
            ("127.0.0.1:8020", "localhost:8020")
        );
    }

    #[test]
    fn outside_ports_are_all_as_far_away() {
        let reach = Reach::new(Some("10.0.0.2"), Some(&"gate.example.com:18020".parse().unwrap()), 8020).unwrap();
        assert_eq!(reach.outside(), Some(("gate.example.com".into(), 10_000)));
        assert_eq!(reach.told(addr("10.0.0.2:9870"), Some("localhost")), "gate.example.com:19870");
        assert_eq!(reach.inside(addr("10.0.0.2:9870")), addr("10.0.0.2:9870"));
        assert_eq!(reach.told_ip(), Some("10.0.0.2".parse().unwrap()));
        assert!(reach.must_have_ports([8020, 9886]).is_ok() && reach.must_have_ports([60_000]).is_err());
        let hosts: Vec<String> = reach.hosts().iter().map(Host::to_string).collect();
        assert_eq!(hosts, ["gate.example.com", "localhost", "127.0.0.1", "::1", "10.0.0.2"]);
        assert_eq!(reach.ticket_host(), "gate.example.com");
    }

    #[test]
    fn what_listens_everywhere_is_dialled_somewhere() {
        let reach = Reach::new(Some("0.0.0.0"), None, 8020).unwrap();
        assert!(!reach.is_local());
        assert_eq!(reach.beside(addr("0.0.0.0:8020")), addr("127.0.0.1:8020"));
        assert!(!reach.inside(addr("0.0.0.0:8020")).ip().is_unspecified());
    }

    #[test]
    fn an_advertised_name_may_have_a_port() {
        let parsed = |text: &str| text.parse::<Advertised>().map(|one| (one.host.to_string(), one.port)).ok();
        assert_eq!(parsed("store"), Some(("store".into(), None)));
        assert_eq!(parsed("store:18020"), Some(("store".into(), Some(18020))));
        assert_eq!(parsed("203.0.113.9:18020"), Some(("203.0.113.9".into(), Some(18020))));
        assert_eq!(parsed("[::1]:18020"), Some(("::1".into(), Some(18020))));
        assert_eq!((parsed("::1"), parsed("[::1]")), (Some(("::1".into(), None)), Some(("::1".into(), None))));
        for wrong in ["", ":1", "store:", "store:0", "store:70000", "a b", "store:x"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
        let known = Reach::new(Some("0.0.0.0"), Some(&"store:18020".parse().unwrap()), 0);
        assert!(known.unwrap_err().0.contains("--port-base 0"));
    }
}
