//! Lists of hosts as HDFS writes them: lines of names, or JSON with a state for each host. Pure.
//!
//! ```text
//! dfs.hosts, dfs.hosts.exclude                     dfs.hosts, read by CombinedHostFileManager
//!   node1.example.com     # a comment               [ {"hostName": "node1", "port": 9866,
//!   10.0.0.2:9866  node3                                "adminState": "IN_MAINTENANCE",
//!                                                       "maintenanceExpireTimeInMS": 1800000000000}, … ]
//! ```

use serde::Deserialize;

/// Longest list. A guess: a hundred thousand hosts, with a state each.
pub(super) const LEN_MAX: usize = 16 << 20;
/// Most hosts in a list: each is compared with each datanode.
const HOST_COUNT_MAX: usize = 100_000;

/// A host in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host {
    /// Name or address.
    pub(super) name: String,
    /// Of data transfer. `None`: all datanodes there.
    pub(super) port: Option<u16>,
    pub(super) state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Normal,
    Decommissioned,
    /// Until this time, in milliseconds since 1970.
    Maintenance {
        until_ms: u64,
    },
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ListError {
    #[error("it is not UTF-8")]
    Text,
    #[error("{0:?} is no host; write a name or an address, and a port behind a colon if need be")]
    Host(String),
    #[error("{0} hosts are too many; {HOST_COUNT_MAX} may be listed")]
    TooMany(usize),
    #[error("{0:?} is no adminState; write NORMAL, DECOMMISSIONED or IN_MAINTENANCE")]
    State(String),
    #[error("it is no list of hosts: {0}")]
    Json(#[from] serde_json::Error),
}

/// As HDFS's `DatanodeAdminProperties`. Fields that are not known here, as `upgradeDomain`, mean nothing.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Properties {
    host_name: String,
    #[serde(default)]
    port: u16,
    #[serde(default)]
    admin_state: Option<String>,
    #[serde(default, rename = "maintenanceExpireTimeInMS")]
    expires_ms: Option<u64>,
}

impl Properties {
    fn host(self) -> Result<Host, ListError> {
        if self.host_name.is_empty() {
            return Err(ListError::Host(String::new()));
        }
        let state = match self.admin_state.as_deref() {
            None | Some("NORMAL") => State::Normal,
            Some("DECOMMISSIONED" | "DECOMMISSION_INPROGRESS") => State::Decommissioned,
            Some("IN_MAINTENANCE" | "ENTERING_MAINTENANCE") => {
                // HDFS: without an end it lasts until the state is another one.
                State::Maintenance { until_ms: self.expires_ms.unwrap_or(i64::MAX as u64) }
            }
            Some(other) => return Err(ListError::State(other.chars().take(50).collect())),
        };
        Ok(Host { name: self.host_name, port: (self.port > 0).then_some(self.port), state })
    }
}

/// Hosts of a list in either form. `state` is that of hosts in lines.
pub(super) fn hosts(bytes: &[u8], state: State) -> Result<Vec<Host>, ListError> {
    let text = std::str::from_utf8(bytes).map_err(|_| ListError::Text)?;
    let found = match text.trim_start().chars().next() {
        Some('[') => {
            let listed: Vec<Properties> = serde_json::from_str(text)?;
            listed.into_iter().map(Properties::host).collect::<Result<Vec<_>, _>>()?
        }
        // HDFS took objects one behind the other before it took a list.
        Some('{') => {
            let listed = serde_json::Deserializer::from_str(text).into_iter::<Properties>();
            listed.map(|found| found?.host()).collect::<Result<Vec<_>, ListError>>()?
        }
        _ => {
            let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
            lines.flat_map(str::split_whitespace).map(|word| line_host(word, state)).collect::<Result<Vec<_>, _>>()?
        }
    };
    if found.len() > HOST_COUNT_MAX {
        return Err(ListError::TooMany(found.len()));
    }
    assert!(found.iter().all(|host| !host.name.is_empty()), "a host without a name would be none, or all");
    Ok(found)
}

fn line_host(word: &str, state: State) -> Result<Host, ListError> {
    let wrong = || ListError::Host(word.chars().take(50).collect());
    // An IPv6 address has colons of its own.
    let (name, port) = match word.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') => (name, Some(port.parse().map_err(|_| wrong())?)),
        _ => (word, None),
    };
    if name.is_empty() { Err(wrong()) } else { Ok(Host { name: name.to_owned(), port, state }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, port: Option<u16>, state: State) -> Host {
        Host { name: name.into(), port, state }
    }

    #[test]
    fn lines_and_json_say_the_same() {
        let lines = b"node1 # the first\n\n# nobody\n10.0.0.2:9866\tfe80::1\n";
        let expected = [("node1", None), ("10.0.0.2", Some(9866)), ("fe80::1", None)];
        let expected = expected.map(|(name, port)| host(name, port, State::Decommissioned));
        assert_eq!(hosts(lines, State::Decommissioned).unwrap(), expected);
        let one = r#"{"hostName": "a", "upgradeDomain": "x"}"#;
        let two = r#"{"hostName": "b", "port": 7, "adminState": "DECOMMISSIONED"}"#;
        let three = r#"{"hostName": "c", "adminState": "IN_MAINTENANCE", "maintenanceExpireTimeInMS": 5}"#;
        let expected = [
            host("a", None, State::Normal),
            host("b", Some(7), State::Decommissioned),
            host("c", None, State::Maintenance { until_ms: 5 }),
        ];
        for text in [format!("[{one}, {two},\n{three}]"), format!("{one}\n{two} {three}")] {
            assert_eq!(hosts(text.as_bytes(), State::Normal).unwrap(), expected);
        }
        assert_eq!(hosts(b"", State::Normal).unwrap(), []);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for wrong in
            [&b"\xff"[..], b"a:b", b":1", b"a:70000", b"[", b"[1]", br#"[{"hostName": "a", "adminState": "X"}]"#]
        {
            assert!(hosts(wrong, State::Normal).is_err(), "{wrong:?}");
        }
    }
}
