//! Which clients are on the network of the datanodes: those are told datanodes' own addresses, and all others what
//! datanodes are called outside, if they say so.
//!
//! The client's address decides, as nothing in its calls says where it is. One that comes through a gateway whose
//! network translates addresses has the gateway's.

use crate::config::Config;
use host::network::Neighbours;
use std::net::IpAddr;

#[derive(Debug)]
pub(crate) struct Inside {
    neighbours: Neighbours,
}

impl Inside {
    /// `config` was checked. The networks of this machine are those that it has now.
    pub(crate) fn of(config: &Config) -> Self {
        let networks = config.networks_inside().unwrap_or_default();
        let neighbours =
            if networks.is_empty() { Neighbours::of_this_machine() } else { Neighbours::of_networks(networks) };
        Self { neighbours }
    }

    /// A program on this machine is inside, whatever the networks are.
    pub(crate) fn has(&self, client: IpAddr) -> bool {
        client.is_loopback() || self.neighbours.has(client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_that_are_named_are_inside_and_no_others() {
        let mut config = Config::new("/d".into(), ([127, 0, 0, 1], 1).into());
        config.inside = vec!["10.1.0.0/16".into(), "fd00::/8".into()];
        let inside = Inside::of(&config);
        let has = |address: &str| inside.has(address.parse().unwrap());
        assert!(has("127.0.0.1") && has("::1") && has("10.1.2.3") && has("fd00::7"));
        assert!(!has("10.2.0.1") && !has("2001:db8::1"));
        config.inside = vec!["everywhere".into()];
        assert!(config.check().unwrap_err().contains("everywhere"));
    }
}
