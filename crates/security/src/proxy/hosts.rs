//! Some machines: addresses, networks and names.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use types::Network;

/// Entries of one list.
const ENTRY_COUNT_MAX: usize = 10_000;
/// Addresses that one name stands for.
const ADDRESS_COUNT_MAX: usize = 1000;
const ANYWHERE: &str = "*";

/// Why a list cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostsError {
    #[error("more than {ENTRY_COUNT_MAX} hosts")]
    TooMany,
    #[error("{} is no network", types::excerpt(entry))]
    Network { entry: String },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hosts {
    is_anywhere: bool,
    addresses: BTreeSet<IpAddr>,
    networks: Vec<Network>,
    names: BTreeMap<String, Vec<IpAddr>>,
}

impl Hosts {
    /// A star counts if it stands alone.
    pub(super) fn parse(value: &str) -> Result<Self, HostsError> {
        let mut hosts = Self::default();
        if value.trim() == ANYWHERE {
            hosts.is_anywhere = true;
            return Ok(hosts);
        }
        for (place, entry) in value.split(',').map(str::trim).filter(|entry| !entry.is_empty()).enumerate() {
            if place == ENTRY_COUNT_MAX {
                return Err(HostsError::TooMany);
            }
            if entry.contains('/') {
                let network = Network::parse(entry).ok_or_else(|| HostsError::Network { entry: entry.to_owned() })?;
                hosts.networks.push(network);
            } else if let Ok(address) = entry.parse::<IpAddr>() {
                hosts.addresses.insert(address.to_canonical());
            } else {
                hosts.names.insert(entry.to_owned(), Vec::new());
            }
        }
        Ok(hosts)
    }

    pub(super) fn includes(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.is_anywhere
            || self.addresses.contains(&address)
            || self.networks.iter().any(|network| network.includes(address))
            || self.names.values().any(|addresses| addresses.contains(&address))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    pub(super) fn set_addresses(&mut self, name: &str, addresses: &[IpAddr]) {
        if let Some(known) = self.names.get_mut(name) {
            *known = addresses.iter().take(ADDRESS_COUNT_MAX).map(IpAddr::to_canonical).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn includes(hosts: &str, address: &str) -> bool {
        Hosts::parse(hosts).unwrap().includes(address.parse().unwrap())
    }

    #[test]
    fn networks_are_those_of_their_first_bits() {
        assert!(includes("10.1.2.3/16", "10.1.255.255") && !includes("10.1.0.0/16", "10.2.0.0"));
        assert!(includes("0.0.0.0/0", "255.1.1.1") && includes("1.2.3.4/32", "1.2.3.4"));
        assert!(includes("fd00::/8", "fdff::1") && !includes("fd00::/8", "fe00::1"));
        assert!(includes("::/0", "fe80::1") && !includes("::/0", "10.0.0.1"));
    }

    #[test]
    fn an_address_of_ipv4_is_itself_within_ipv6() {
        assert!(includes("10.0.0.1", "::ffff:10.0.0.1") && includes("::ffff:10.0.0.1", "10.0.0.1"));
        assert!(includes("10.0.0.0/8", "::ffff:10.0.0.1"));
    }

    #[test]
    fn a_star_stands_alone() {
        assert!(includes(" * ", "10.0.0.1") && !includes("*,x", "10.0.0.1") && !includes("", "10.0.0.1"));
        for wrong in ["10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "x/8", "/8", "::/129", "1/2/3"] {
            assert!(matches!(Hosts::parse(wrong), Err(HostsError::Network { .. })), "{wrong}");
        }
        assert_eq!(Hosts::parse(&"a,".repeat(10_001)), Err(HostsError::TooMany));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "([0-9a-f.:/*, ]|\\PC){0,30}", address: u128) {
            if let Ok(hosts) = Hosts::parse(&text) {
                hosts.includes(IpAddr::V6(address.into()));
            }
        }
    }
}
