//! The TOML files of the roles, and the places and ports that `up` chooses for them.
//!
//! ```text
//! DIR/                      everything of one store
//! ├── meta/ meta2/ …        the metadata servers: Raft log, key-value store
//! ├── data1/ data2/ …       one datanode each; where it has several disks, the others beside it: data1-disk2/ …
//! └── conf/                 the files `levada meta --config` and `levada data --config` take
//!     ├── ports.json        the ports of the last start ([`crate::ports`])
//!     └── hadoop/           of several metadata servers, or a secure store: HADOOP_CONF_DIR for stock clients
//! ```

use crate::log::Log;
use crate::server_file::ServerFile;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tls::Site;

/// `levada meta --config`: the metadata server and the HTTP front beside it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MetaFile {
    /// Where `/status` and `/metrics` are served; port 0 takes a free one.
    pub http_addr: SocketAddr,
    /// `http_addr` speaks HTTPS, and nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub https: Option<Https>,
    /// Where the log goes, and what is in it.
    #[serde(default)]
    pub log: Log,
    pub meta: metad::Config,
}

/// `levada data --config`: one datanode and the HTTP front beside it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DataFile {
    /// Where `/status` and `/metrics` are served; port 0 takes a free one. If absent, nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_addr: Option<SocketAddr>,
    /// `http_addr` speaks HTTPS, and nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub https: Option<Https>,
    /// Where the log goes, and what is in it.
    #[serde(default)]
    pub log: Log,
    pub data: datad::Config,
}

impl ServerFile for MetaFile {
    fn log(&self) -> &Log {
        &self.log
    }
}

impl ServerFile for DataFile {
    fn log(&self) -> &Log {
        &self.log
    }
}

/// The table `[https]` of either.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Https {
    /// File with the certificate, in PEM, and with those between it and an authority that clients know.
    pub certificate: PathBuf,
    /// File with its key, which nobody else may read.
    pub key: PathBuf,
}

impl Https {
    /// Waits for the disk.
    pub(crate) fn site(&self) -> Result<Arc<Site>, ConfigError> {
        let site = Site::open(&self.certificate, &self.key);
        site.map(Arc::new).map_err(|error| ConfigError(format!("https: {error}")))
    }
}

/// What is wrong with a configuration, in words for the person who wrote it.
#[derive(Debug)]
pub(crate) struct ConfigError(pub String);

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<T, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|error| ConfigError(format!("{}: {error}", path.display())))?;
    toml::from_str(&text).map_err(|error| ConfigError(format!("{}: {error}", path.display())))
}

pub(crate) fn write<T: Serialize>(path: &Path, file: &T) -> Result<(), ConfigError> {
    let text = toml::to_string_pretty(file).map_err(|error| ConfigError(error.to_string()))?;
    let text = format!("# Written by `levada up`, and again at each start.\n{text}");
    std::fs::write(path, text).map_err(|error| ConfigError(format!("{}: {error}", path.display())))
}

/// How many datanodes have their data in the directory of a store.
pub(crate) fn datanodes_in(dir: &Path, max: u16) -> u16 {
    (1..=max).take_while(|number| data_dir(dir, *number).is_dir()).count() as u16
}

/// How many metadata servers have theirs there.
pub(crate) fn metas_in(dir: &Path, max: u16) -> u16 {
    (1..=max).take_while(|number| meta_dir(dir, *number).is_dir()).count() as u16
}

pub(crate) fn meta_dir(dir: &Path, number: u16) -> PathBuf {
    dir.join(if number == 1 { "meta".to_owned() } else { format!("meta{number}") })
}

pub(crate) fn data_dir(dir: &Path, number: u16) -> PathBuf {
    dir.join(format!("data{number}"))
}

/// Where clients on this machine find the Unix socket of each datanode. `None`: its path would be too long, or others
/// could put one of theirs in its place; then clients read over TCP.
pub(crate) fn domain_socket(dir: &Path) -> Option<PathBuf> {
    // Those of HDFS's clients, too, know one path for all nodes.
    let path = std::path::absolute(dir).ok()?.join("data._PORT");
    let may_be = io::socket::may_listen_at(&path);
    may_be.inspect_err(|error| tracing::debug!(%error, "no Unix socket for readers on this machine")).ok()?;
    Some(path)
}

/// The directories of a datanode with so many disks.
pub(crate) fn disk_dirs(dir: &Path, number: u16, disks: u16) -> Vec<PathBuf> {
    let others = (2..=disks).map(|disk| dir.join(format!("data{number}-disk{disk}")));
    std::iter::once(data_dir(dir, number)).chain(others).collect()
}

/// How many disks each datanode of a store has there, one at least.
pub(crate) fn disks_in(dir: &Path, datanodes: u16, max: u16) -> u16 {
    let has = |number, disks| disk_dirs(dir, number, disks).last().is_some_and(|last| last.is_dir());
    (2..=max).take_while(|disks| (1..=datanodes).any(|number| has(number, *disks))).count() as u16 + 1
}

/// The URL of a store with these metadata servers.
pub(crate) fn fs_of(rpc: &[String]) -> String {
    format!("hdfs://{}", rpc.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/configuration.md names every setting with its default.
    #[test]
    fn the_documentation_knows_every_setting() {
        let text =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md")).unwrap();
        let rows = |title: &str| -> Vec<&str> {
            let from = text.lines().skip_while(|line| !line.starts_with(&format!("| key of `{title}`")));
            from.skip(2).take_while(|line| line.starts_with('|')).collect()
        };
        let check = |title: &str, settings: toml::Table| {
            for (key, value) in settings {
                let named = rows(title)
                    .into_iter()
                    .find(|row| row.split('|').nth(1).is_some_and(|cell| cell.contains(&format!("`{key}`"))));
                let row = named.unwrap_or_else(|| panic!("{title} {key} is not documented"));
                let default = row.split('|').nth(2).unwrap();
                let is_given = ["dir", "metad"].contains(&key.as_str()) || key.ends_with("_addr") || value.is_table();
                assert!(
                    is_given || default.contains(value.to_string().trim()),
                    "{title} {key} = {value}, documented as {default}"
                );
            }
        };
        let port: SocketAddr = "127.0.0.1:0".parse().unwrap();
        check("[meta]", toml::Table::try_from(metad::Config::new("/d".into(), port)).unwrap());
        check("[meta.security]", toml::Table::try_from(metad::SecurityConfig::default()).unwrap());
        let data = datad::Config::new("/d".into(), port, port, "h:1".into());
        let mut data = toml::Table::try_from(data).unwrap();
        let toml::Value::Table(limits) = data.remove("limits").unwrap() else { panic!("limits are a table") };
        check("[data]", data);
        check("[data.limits]", limits);
        check("[log]", toml::Table::try_from(Log::default()).unwrap());
    }

    /// The keys that a table may have, by the error that names them.
    fn keys<T: DeserializeOwned>(path: &[&str]) -> Vec<String> {
        let head = path.iter().fold(String::new(), |head, table| head + table + ".");
        let error = toml::from_str::<T>(&format!("{GIVEN}\n{head}no_such_key = 1")).err().unwrap().to_string();
        let (_, listed) = error.split_once("expected one of ").unwrap_or_else(|| panic!("{error}"));
        listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    /// What either file needs; the other one's is not known to it, which is found later.
    const GIVEN: &str = "http_addr = \"127.0.0.1:0\"";

    /// `memory = "256M"`, as `--memory 256M`: whatever is a number of bytes is read in both forms, from files of either
    /// server.
    #[test]
    fn a_size_is_a_number_or_as_people_write_it() {
        fn check<T: DeserializeOwned>(given: &str, path: &[&str]) {
            let is_size = |key: &String| {
                key.ends_with("_len")
                    || key.ends_with("_len_per_s")
                    || ["memory", "bytes_per_checksum"].contains(&&**key)
            };
            let sizes: Vec<String> = keys::<T>(path).into_iter().filter(is_size).collect();
            assert!(!sizes.is_empty(), "{path:?}");
            let head = path.iter().fold(String::new(), |head, table| head + table + ".");
            let read = |key: &str, value: &str| {
                let file = format!("{given}\n{head}{key} = {value}");
                toml::from_str::<T>(&file).map(|_| ()).map_err(|error| error.to_string())
            };
            for key in sizes {
                for right in ["1048576", "\"1M\"", "\"1.5g\"", "\"1048576\""] {
                    assert_eq!(read(&key, right), Ok(()), "{path:?} {key} = {right}");
                }
                for (wrong, says) in [
                    ("\"lots\"", "use K, M, G or T, as in 128M"),
                    ("-1", "-1 is no number of bytes"),
                    ("true", "a number of bytes, as 268435456 or \"256M\""),
                ] {
                    let error = read(&key, wrong).unwrap_err();
                    assert!(error.contains(says) && error.contains(&key), "{path:?} {key} = {wrong}: {error}");
                }
            }
        }
        let meta = format!("{GIVEN}\nmeta.dir = \"/d\"\nmeta.rpc_addr = \"127.0.0.1:0\"");
        check::<MetaFile>(&meta, &["meta"]);
        check::<MetaFile>(&meta, &["log"]);
        let data = ["xfer_addr", "ipc_addr", "metad"].map(|key| format!("data.{key} = \"127.0.0.1:0\"")).join("\n");
        let data = format!("{GIVEN}\ndata.dir = \"/d\"\n{data}");
        check::<DataFile>(&data, &["data"]);
        check::<DataFile>(&data, &["data", "limits"]);
        check::<DataFile>(&data, &["log"]);
        let file: DataFile = toml::from_str(&format!("{data}\ndata.memory = \"256M\"")).unwrap();
        assert_eq!(file.data.memory, 256 << 20);
    }

    /// The files of the package (packaging/etc) name every setting, work as they are, and would with each comment that
    /// is a setting.
    #[test]
    fn the_files_of_the_package_have_every_setting() {
        let file = |name: &str| {
            let path = format!("{}/../../packaging/etc/{name}", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_to_string(path).unwrap()
        };
        let (meta, data) = (file("meta.toml"), file("data.toml"));
        let meta_file: MetaFile = toml::from_str(&meta).unwrap();
        let addr = meta_file.meta.rpc_addr;
        let default = metad::Config::new("/var/lib/levada/meta".into(), addr);
        assert_eq!((meta_file.meta, meta_file.log), (default, Log::default()), "comments say the defaults");
        let data_file: DataFile = toml::from_str(&data).unwrap();
        let (xfer, ipc) = (data_file.data.xfer_addr, data_file.data.ipc_addr);
        assert_eq!(data_file.data, datad::Config::new("/var/lib/levada/data".into(), xfer, ipc, addr.to_string()));
        assert!(addr.ip().is_loopback() && xfer.ip().is_loopback() && ipc.ip().is_loopback(), "nobody asked for more");

        // With a space after it, it is prose.
        let whole = |text: &str| -> String {
            let is_setting = |rest: &&str| rest.starts_with(|first: char| first.is_ascii_lowercase());
            text.lines()
                .map(|line| line.strip_prefix('#').filter(is_setting).unwrap_or(line).to_owned() + "\n")
                .collect()
        };
        let (meta, data) = (whole(&meta), whole(&data));
        toml::from_str::<MetaFile>(&meta).unwrap();
        toml::from_str::<DataFile>(&data).unwrap();
        let check = |text: &str, path: &[&str], keys: Vec<String>| {
            let mut table: &toml::Table = &toml::from_str(text).unwrap();
            for name in path {
                table = table[*name].as_table().unwrap();
            }
            assert!(keys.len() > 1, "{path:?}");
            for key in keys {
                assert!(table.contains_key(&key), "{path:?} {key} is in no file of the package");
            }
        };
        check(&meta, &[], keys::<MetaFile>(&[]));
        check(&meta, &["meta"], keys::<MetaFile>(&["meta"]));
        check(&meta, &["meta", "security"], keys::<MetaFile>(&["meta", "security"]));
        check(&meta, &["log"], keys::<MetaFile>(&["log"]));
        check(&data, &["log"], keys::<DataFile>(&["log"]));
        check(&data, &[], keys::<DataFile>(&[]));
        check(&data, &["data"], keys::<DataFile>(&["data"]));
        check(&data, &["data", "limits"], keys::<DataFile>(&["data", "limits"]));
    }

    #[test]
    fn a_store_knows_how_many_datanodes_it_has() {
        let dir = std::env::temp_dir().join(format!("levada-datanodes-{}", std::process::id()));
        assert_eq!(datanodes_in(&dir, 10), 0);
        for number in [1, 2, 4] {
            std::fs::create_dir_all(data_dir(&dir, number)).unwrap();
        }
        assert_eq!((datanodes_in(&dir, 10), datanodes_in(&dir, 1)), (2, 1));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_store_knows_how_many_disks_its_datanodes_have() {
        let dir = std::env::temp_dir().join(format!("levada-disks-{}", std::process::id()));
        assert_eq!(disks_in(&dir, 3, 10), 1);
        for made in disk_dirs(&dir, 1, 3) {
            std::fs::create_dir_all(made).unwrap();
        }
        assert_eq!((disks_in(&dir, 3, 10), disks_in(&dir, 0, 10)), (3, 1));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
