//! The configuration with which stock HDFS clients find a store of several metadata servers: they know no URL that
//! names more than one, but a name that stands for all.

use crate::config::ConfigError;
use std::path::{Path, PathBuf};

/// The name of the store there: `hdfs://levada/`.
pub(crate) const NAME: &str = "levada";

/// How long Java waits for an answer before it asks the next server. Without this it waits for two minutes for one that
/// was stopped or cut off. Longer than nearly every call takes; a call that is repeated is done once.
const ANSWER_WAIT_MS: u32 = 5_000;

/// Writes `core-site.xml` and `hdfs-site.xml` into `dir`, for `HADOOP_CONF_DIR`. `domain_socket`: of the datanodes, for
/// clients that turn on `dfs.client.read.shortcircuit`, which needs libhadoop.
pub(crate) fn write(dir: &Path, metas: &[String], domain_socket: Option<&Path>) -> Result<PathBuf, ConfigError> {
    let failed = |error: std::io::Error| ConfigError(format!("{}: {error}", dir.display()));
    std::fs::create_dir_all(dir).map_err(failed)?;
    std::fs::write(dir.join("core-site.xml"), file(&core_site())).map_err(failed)?;
    std::fs::write(dir.join("hdfs-site.xml"), file(&hdfs_site(metas, domain_socket))).map_err(failed)?;
    Ok(dir.to_owned())
}

type Properties = Vec<(String, String)>;

fn core_site() -> Properties {
    vec![
        ("fs.defaultFS".into(), format!("hdfs://{NAME}")),
        ("ipc.client.rpc-timeout.ms".into(), ANSWER_WAIT_MS.to_string()),
        ("ipc.client.connect.timeout".into(), "2000".into()),
        ("ipc.client.connect.max.retries.on.timeouts".into(), "1".into()),
    ]
}

fn hdfs_site(metas: &[String], domain_socket: Option<&Path>) -> Properties {
    let servers: Vec<String> = (1..=metas.len()).map(|number| format!("meta{number}")).collect();
    let mut properties = vec![
        ("dfs.nameservices".into(), NAME.into()),
        (format!("dfs.ha.namenodes.{NAME}"), servers.join(",")),
        (
            format!("dfs.client.failover.proxy.provider.{NAME}"),
            "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider".into(),
        ),
        // An election takes some two seconds. By default Java waits longer and longer between its tries, up to 15 s,
        // and gives up after 15 of them.
        ("dfs.client.failover.sleep.base.millis".into(), "200".into()),
        ("dfs.client.failover.sleep.max.millis".into(), "1000".into()),
        ("dfs.client.failover.max.attempts".into(), "60".into()),
    ];
    let addrs = servers.iter().zip(metas);
    properties.extend(addrs.map(|(name, addr)| (format!("dfs.namenode.rpc-address.{NAME}.{name}"), addr.clone())));
    properties.extend(domain_socket.map(|path| ("dfs.domain.socket.path".into(), path.display().to_string())));
    properties
}

fn file(properties: &[(String, String)]) -> String {
    let property = |(name, value): &(String, String)| {
        // Of directories, which may be called anything.
        let value = value.replace('&', "&amp;").replace('<', "&lt;");
        format!("  <property>\n    <name>{name}</name>\n    <value>{value}</value>\n  </property>\n")
    };
    let properties: String = properties.iter().map(property).collect();
    format!(
        "<?xml version=\"1.0\"?>\n<!-- Written by `levada up`, and again at each start. -->\n<configuration>\n{properties}</configuration>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_finds_every_server_by_name() {
        let metas = ["127.0.0.1:8020", "127.0.0.1:8021"].map(str::to_owned);
        let text = file(&hdfs_site(&metas, Some(Path::new("/store/data._PORT"))));
        assert!(text.contains("<name>dfs.ha.namenodes.levada</name>\n    <value>meta1,meta2</value>"), "{text}");
        assert!(text.contains("<name>dfs.namenode.rpc-address.levada.meta2</name>\n    <value>127.0.0.1:8021</value>"));
        assert!(text.contains("<name>dfs.domain.socket.path</name>\n    <value>/store/data._PORT</value>"), "{text}");
    }
}
