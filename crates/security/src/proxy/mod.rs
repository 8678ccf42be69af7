//! Who may act as somebody else: `hadoop.proxyuser.USER.{users,groups,hosts}`.
//!
//! ```text
//! oozie (real user) ── calls as ada, from 10.0.0.1 ──▶     ada is among oozie's users, or in one of its groups,
//!                                                          and the address is one of oozie's hosts
//! ```
//!
//! Promise: the answers are Hadoop's (`DefaultImpersonationProvider`), which golden files hold. Names of hosts are
//! looked up by whoever has a resolver: [`ProxyUsers::names`], [`ProxyUsers::set_addresses`].

mod hosts;

pub use hosts::HostsError;

use hosts::Hosts;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// What all settings begin with.
pub const PREFIX: &str = "hadoop.proxyuser.";
/// Longest value of a setting.
const VALUE_LEN_MAX: usize = 64 << 10;
const ANYBODY: &str = "*";

/// Why a setting cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    #[error("{PREFIX}{key} has {len} bytes, at most {VALUE_LEN_MAX} are allowed")]
    TooLong { key: String, len: usize },
    #[error("{PREFIX}{key} ends with none of users, groups and hosts")]
    Unknown { key: String },
    #[error("{PREFIX}{key}: {source}")]
    Hosts { key: String, source: HostsError },
}

/// Why somebody may not act as somebody else. The texts are Hadoop's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("User: {real} is not allowed to impersonate {user}")]
    User { real: String, user: String },
    #[error("Unauthorized connection for super-user: {real} from IP /{address}")]
    Host { real: String, address: IpAddr },
}

/// A caller who names somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Who proved who he is: the whole name, and the short one that settings know.
    pub real: &'a str,
    pub real_short_name: &'a str,
    /// As whom he wants to act.
    pub user: &'a str,
    pub address: IpAddr,
}

/// The settings of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyUsers {
    allowed: BTreeMap<String, Allowed>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Allowed {
    users: BTreeSet<String>,
    groups: BTreeSet<String>,
    is_anybody: bool,
    /// `None`: there is no such setting, so it is nowhere.
    hosts: Option<Hosts>,
}

impl ProxyUsers {
    /// Of settings by their names without [`PREFIX`].
    pub fn parse<'a>(settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, SettingError> {
        let mut allowed: BTreeMap<String, Allowed> = BTreeMap::new();
        for (key, value) in settings {
            if value.len() > VALUE_LEN_MAX {
                return Err(SettingError::TooLong { key: key.to_owned(), len: value.len() });
            }
            let unknown = || SettingError::Unknown { key: key.to_owned() };
            // A user's name may have dots.
            let (user, what) = key.rsplit_once('.').filter(|(user, _)| !user.is_empty()).ok_or_else(unknown)?;
            let of_user = allowed.entry(user.to_owned()).or_default();
            match what {
                "users" => names(value, &mut of_user.users, &mut of_user.is_anybody),
                "groups" => names(value, &mut of_user.groups, &mut of_user.is_anybody),
                "hosts" => {
                    let hosts = Hosts::parse(value);
                    of_user.hosts = Some(hosts.map_err(|source| SettingError::Hosts { key: key.to_owned(), source })?);
                }
                _ => return Err(unknown()),
            }
        }
        Ok(Self { allowed })
    }

    /// Whether the settings name `real`, a short name, as somebody who acts for others.
    pub fn has(&self, real: &str) -> bool {
        self.allowed.contains_key(real)
    }

    /// Whether a request is allowed. `groups` are those of [`Request::user`], asked for only where they count.
    pub fn authorize<'g>(&self, request: Request<'_>, groups: impl FnOnce() -> &'g [String]) -> Result<(), Refusal> {
        let Request { real, real_short_name, user, address } = request;
        let allowed = self.allowed.get(real_short_name).filter(|allowed| allowed.has(user, groups));
        let Some(allowed) = allowed else {
            return Err(Refusal::User { real: real.to_owned(), user: user.to_owned() });
        };
        if !allowed.hosts.as_ref().is_some_and(|hosts| hosts.includes(address)) {
            return Err(Refusal::Host { real: real.to_owned(), address });
        }
        Ok(())
    }

    /// Names of hosts in the settings, each once.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let hosts = self.allowed.values().filter_map(|allowed| allowed.hosts.as_ref());
        hosts.flat_map(Hosts::names).collect::<BTreeSet<_>>().into_iter()
    }

    /// What a name resolves to. Until it is told, or if there is nothing, the name allows nobody.
    pub fn set_addresses(&mut self, name: &str, addresses: &[IpAddr]) {
        let hosts = self.allowed.values_mut().filter_map(|allowed| allowed.hosts.as_mut());
        hosts.for_each(|hosts| hosts.set_addresses(name, addresses));
    }
}

impl Allowed {
    fn has<'g>(&self, user: &str, groups: impl FnOnce() -> &'g [String]) -> bool {
        self.is_anybody
            || self.users.contains(user)
            || (!self.groups.is_empty() && groups().iter().any(|group| self.groups.contains(group)))
    }
}

/// A star counts if it stands alone.
fn names(value: &str, names: &mut BTreeSet<String>, is_anybody: &mut bool) {
    if value.trim() == ANYBODY {
        *is_anybody = true;
        return;
    }
    names.extend(value.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Settings, then questions with what Hadoop answers.
    #[test]
    fn hadoop_answers_the_same() {
        let golden = include_str!("../../tests/golden/proxy.txt");
        let lines: Vec<Vec<&str>> = golden.lines().map(|line| line.split('\t').collect()).collect();
        let settings = lines.iter().filter(|line| line[0] == "set");
        let settings = settings.map(|line| (line[1].strip_prefix(PREFIX).unwrap(), line[2]));
        let proxies = ProxyUsers::parse(settings).unwrap();
        let asked: Vec<_> = lines.iter().filter(|line| line[0] == "ask").collect();
        assert_eq!(asked.len(), 10 * 5 * 8);
        for line in asked {
            let [_, real, user, groups, address, answer] = line[..] else { panic!("{line:?}") };
            let groups: Vec<String> = groups.split(',').map(str::to_owned).collect();
            let address: IpAddr = address.parse().unwrap();
            let request = Request { real, real_short_name: real, user, address };
            let ours = proxies.authorize(request, || &groups);
            match (answer, ours) {
                ("allowed", ours) => assert_eq!(ours, Ok(()), "{line:?}"),
                // Hadoop knows no networks of IPv6, and fails on such an address.
                (text, Err(Refusal::Host { .. })) => {
                    let is_same =
                        text.starts_with(&format!("Unauthorized connection for super-user: {real} from IP /"));
                    assert!(is_same || text.starts_with("Could not parse ["), "{line:?}");
                }
                (text, ours) => assert_eq!(ours.unwrap_err().to_string(), text, "{line:?}"),
            }
        }
    }

    #[test]
    fn groups_are_asked_for_only_where_they_count() {
        let settings =
            [("a.users", "ada"), ("a.groups", "staff"), ("a.hosts", "*"), ("b.users", "x"), ("b.hosts", "*")];
        let proxies = ProxyUsers::parse(settings).unwrap();
        let address = IpAddr::from([10, 0, 0, 1]);
        let of = |real, user| Request { real, real_short_name: real, user, address };
        assert_eq!(proxies.authorize(of("a", "ada"), || panic!()), Ok(()));
        assert!(proxies.authorize(of("b", "ada"), || panic!()).is_err());
        let staff = ["staff".to_owned()];
        assert_eq!(proxies.authorize(of("a", "eve"), || &staff), Ok(()));
    }

    #[test]
    fn names_of_hosts_are_looked_up_outside() {
        let settings = [("a.users", "*"), ("a.hosts", "gate.example.com,10.0.0.1"), ("b.hosts", "gate.example.com")];
        let mut proxies = ProxyUsers::parse(settings).unwrap();
        assert!(proxies.names().eq(["gate.example.com"]));
        let address = IpAddr::from([10, 9, 9, 9]);
        let request = Request { real: "a/h@X", real_short_name: "a", user: "ada", address };
        let refused = proxies.authorize(request, || &[]).unwrap_err();
        assert_eq!(refused.to_string(), "Unauthorized connection for super-user: a/h@X from IP /10.9.9.9");
        proxies.set_addresses("gate.example.com", &[address]);
        assert_eq!(proxies.authorize(request, || &[]), Ok(()));
        proxies.set_addresses("gate.example.com", &[]);
        assert!(proxies.authorize(request, || &[]).is_err());
    }

    #[test]
    fn wrong_settings_are_named() {
        let refused = |key, value| ProxyUsers::parse([(key, value)]).unwrap_err().to_string();
        assert_eq!(refused("a.user", "x"), "hadoop.proxyuser.a.user ends with none of users, groups and hosts");
        assert_eq!(refused("users", "x"), "hadoop.proxyuser.users ends with none of users, groups and hosts");
        assert_eq!(refused("a.hosts", "10.0.0.0/33"), "hadoop.proxyuser.a.hosts: \"10.0.0.0/33\" is no network");
        assert!(refused("a.users", &"x".repeat(70_000)).contains("70000 bytes"));
    }
}
