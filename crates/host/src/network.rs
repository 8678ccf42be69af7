//! The networks of this machine, and who calls from them.
//!
//! ```text
//! a container or a machine behind NAT           everybody else
//! 172.18.0.2/16 ── 172.18.0.3, another one      ── 172.18.0.1, the gateway, for all whose address it changed
//!                                               ── 203.0.113.9, whose address it did not change
//! ```
//!
//! Promise: an address is a neighbour's if it can be reached without a gateway, and is none itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use types::Network;

/// Where the kernel tells its routes.
const ROUTES: &str = "/proc/net/route";
const ROUTES_V6: &str = "/proc/net/ipv6_route";
/// An address that belongs to nobody (RFC 5737): asking for the way there finds the one that leads to most.
const FAR: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);

/// The networks that this machine is on, and the gateways there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbours {
    networks: Vec<Network>,
    /// An address in each of these, if they are this machine's.
    firsts: Vec<IpAddr>,
    gateways: Vec<IpAddr>,
}

impl Neighbours {
    /// As of now. A machine that does not say has none.
    pub fn of_this_machine() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let mut neighbours = Self::default();
        read(ROUTES).lines().filter_map(route).for_each(|route| neighbours.add(route));
        read(ROUTES_V6).lines().filter_map(route_v6).for_each(|route| neighbours.add(route));
        neighbours
    }

    /// Only these networks, and no gateway.
    pub fn of_networks(networks: Vec<Network>) -> Self {
        Self { networks, ..Self::default() }
    }

    pub fn has(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.includes(address)) && !self.gateways.contains(&address)
    }

    fn add(&mut self, Route { to, bits, gateway }: Route) {
        match (gateway.is_unspecified(), Network::new(to, bits)) {
            (false, _) => self.gateways.push(gateway),
            // Everything is nobody's network.
            (true, Some(network)) if bits > 0 => {
                self.networks.push(network);
                self.firsts.push(to);
            }
            (true, _) => {}
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Route {
    to: IpAddr,
    bits: u32,
    gateway: IpAddr,
}

/// A line of `/proc/net/route`: interface, destination, gateway, four numbers, mask. Addresses are hexadecimal, as the
/// machine has them in memory.
fn route(line: &str) -> Option<Route> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let address = |word: Option<&str>| Some(Ipv4Addr::from(u32::from_str_radix(word?, 16).ok()?.to_ne_bytes()));
    let (to, gateway) = (address(words.next())?, address(words.next())?);
    let mask = address(words.nth(4))?;
    Some(Route { to: to.into(), bits: mask.to_bits().leading_ones(), gateway: gateway.into() })
}

/// A line of `/proc/net/ipv6_route`: destination, length of its prefix, source and its prefix, next hop. The kernel's
/// own entries for single addresses, and for all multicast ones, are left out.
fn route_v6(line: &str) -> Option<Route> {
    let mut words = line.split_ascii_whitespace();
    let address = |word: &str| u128::from_str_radix(word, 16).ok().map(Ipv6Addr::from_bits);
    let to = address(words.next()?)?;
    let bits = u32::from_str_radix(words.next()?, 16).ok()?;
    let gateway = address(words.nth(2)?)?;
    let is_one = bits >= Ipv6Addr::BITS;
    (!is_one && !to.is_multicast()).then_some(Route { to: to.into(), bits, gateway: gateway.into() })
}

/// The address under which other machines reach this one: that from which packets leave for far away. `None`: the
/// machine has the loopback network alone.
pub fn own_address() -> Option<IpAddr> {
    // Connecting a datagram socket sends nothing; it only picks the way.
    let towards = |to: SocketAddr| {
        let any: SocketAddr =
            if to.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
        let socket = UdpSocket::bind(any).ok()?;
        socket.connect(to).ok()?;
        socket.local_addr().ok().map(|own| own.ip()).filter(|own| !own.is_loopback() && !own.is_unspecified())
    };
    towards(FAR.into()).or_else(|| {
        // No way leads out: that to the neighbours, then.
        let firsts = Neighbours::of_this_machine().firsts;
        firsts.into_iter().find_map(|first| towards((first, FAR.1).into()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// As a container on a bridge has them.
    #[test]
    fn a_gateway_is_no_neighbour() {
        let lines = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
                     eth0\t00000000\t010012AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                     eth0\t000012AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n";
        let mut neighbours = Neighbours::default();
        lines.lines().filter_map(route).for_each(|route| neighbours.add(route));
        assert!(neighbours.has(ip("172.18.0.3")) && neighbours.has(ip("172.18.255.1")));
        assert!(!neighbours.has(ip("172.18.0.1")) && !neighbours.has(ip("203.0.113.9")));
    }

    #[test]
    fn routes_of_the_second_protocol_are_read_as_well() {
        let zero = "0".repeat(32);
        let net = "20010db8000000000000000000000000";
        let gateway = "20010db8000000000000000000000001";
        let lines = [
            format!("{net} 40 {zero} 00 {zero} 00000100 00000001 00000000 00000001     eth0"),
            format!("{zero} 00 {zero} 00 {gateway} 00000400 00000001 00000000 00000003     eth0"),
            format!("ff{} 08 {zero} 00 {zero} 00000100 00000003 00000000 00000001     eth0", &zero[2..]),
        ];
        let mut neighbours = Neighbours::default();
        lines.iter().filter_map(|line| route_v6(line)).for_each(|route| neighbours.add(route));
        assert!(neighbours.has(ip("2001:db8::7")) && !neighbours.has(ip("2001:db8::1")));
        assert!(!neighbours.has(ip("2001:db9::7")) && !neighbours.has(ip("ff02::1")));
    }

    #[test]
    fn nonsense_is_no_route() {
        for line in ["", "eth0", "eth0 zz 00 00", "eth0 00000000", "00 zz", "20010db8 40"] {
            assert_eq!((route(line), route_v6(line)), (None, None), "{line:?}");
        }
    }
}
