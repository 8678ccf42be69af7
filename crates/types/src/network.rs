//! A network: addresses that begin alike.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// All addresses that begin with the same bits, as `10.1.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    V4 { first: u32, mask: u32 },
    V6 { first: u128, mask: u128 },
}

impl Network {
    /// The network of `address` whose addresses have this many bits in common. `None`: it has fewer.
    pub fn new(address: IpAddr, bits: u32) -> Option<Self> {
        match address {
            IpAddr::V4(address) if bits <= Ipv4Addr::BITS => {
                let mask = u32::MAX.checked_shl(Ipv4Addr::BITS - bits).unwrap_or(0);
                Some(Self::V4 { first: u32::from(address) & mask, mask })
            }
            IpAddr::V6(address) if bits <= Ipv6Addr::BITS => {
                let mask = u128::MAX.checked_shl(Ipv6Addr::BITS - bits).unwrap_or(0);
                Some(Self::V6 { first: u128::from(address) & mask, mask })
            }
            _ => None,
        }
    }

    /// An address, a slash and a number of bits.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        if !bits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Self::new(address.parse().ok()?, bits.parse().ok()?)
    }

    pub fn includes(self, address: IpAddr) -> bool {
        match (self, address) {
            (Self::V4 { first, mask }, IpAddr::V4(address)) => u32::from(address) & mask == first,
            (Self::V6 { first, mask }, IpAddr::V6(address)) => u128::from(address) & mask == first,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_what_begins_like_it() {
        let includes =
            |network: &str, address: &str| Network::parse(network).unwrap().includes(address.parse().unwrap());
        assert!(includes("10.1.2.3/16", "10.1.255.3") && !includes("10.1.0.0/16", "10.2.0.1"));
        assert!(includes("0.0.0.0/0", "203.0.113.9") && !includes("0.0.0.0/0", "2001:db8::1"));
        assert!(includes("2001:db8::/32", "2001:db8:1::1") && !includes("2001:db8::/32", "2001:db9::1"));
        for wrong in ["", "10.1.0.0", "10.1.0.0/33", "10.1.0.0/", "10.1.0.0/+8", "name/8", "::/129", "1/2/3"] {
            assert_eq!(Network::parse(wrong), None, "{wrong}");
        }
    }
}
