//! The configuration of stock HDFS clients, where they need one. A store of several metadata servers they find by it:
//! they know no URL that names more than one, but a name that stands for all. At a secure one they learn from it that
//! they have to prove who they are, and to whom.

use crate::config::ConfigError;
use std::path::{Path, PathBuf};

/// The name of the store there: `hdfs://levada/`.
pub(crate) const NAME: &str = "levada";

/// How long Java waits for an answer before it asks the next server. Without this it waits for two minutes for one that
/// was stopped or cut off. Longer than nearly every call takes; a call that is repeated is done once.
const ANSWER_WAIT_MS: u32 = 5_000;

/// What clients are to know of a secure store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Protected {
    /// The servers' name in Kerberos, where users prove who they are.
    pub(crate) principal: Option<String>,
    /// Blocks travel encrypted, and servers say so themselves.
    pub(crate) is_encrypted: bool,
    /// Else what connections for blocks have to agree on.
    pub(crate) data_transfer: Vec<String>,
    /// Where each metadata server speaks HTTPS, by the name that its certificate and tickets have.
    pub(crate) web: Vec<String>,
}

/// What of calls stays secret. Servers take less as well, for clients that have no such file.
pub(crate) const RPC_PROTECTION: &str = "privacy";

/// Writes `core-site.xml` and `hdfs-site.xml` into `dir`, for `HADOOP_CONF_DIR`. `domain_socket`: of the datanodes, for
/// clients that turn on `dfs.client.read.shortcircuit`, which needs libhadoop.
pub(crate) fn write(
    dir: &Path,
    metas: &[String],
    domain_socket: Option<&Path>,
    protected: Option<&Protected>,
) -> Result<PathBuf, ConfigError> {
    let failed = |error: std::io::Error| ConfigError(format!("{}: {error}", dir.display()));
    std::fs::create_dir_all(dir).map_err(failed)?;
    std::fs::write(dir.join("core-site.xml"), file(&core_site(metas, protected))).map_err(failed)?;
    std::fs::write(dir.join("hdfs-site.xml"), file(&hdfs_site(metas, domain_socket, protected))).map_err(failed)?;
    Ok(dir.to_owned())
}

type Properties = Vec<(String, String)>;

/// The URL that clients have with these files.
pub(crate) fn url(metas: &[String]) -> String {
    match metas {
        [alone] => format!("hdfs://{alone}"),
        _ => format!("hdfs://{NAME}"),
    }
}

fn core_site(metas: &[String], protected: Option<&Protected>) -> Properties {
    let mut properties = vec![("fs.defaultFS".into(), url(metas))];
    if metas.len() > 1 {
        properties.extend([
            ("ipc.client.rpc-timeout.ms".into(), ANSWER_WAIT_MS.to_string()),
            ("ipc.client.connect.timeout".into(), "2000".into()),
            ("ipc.client.connect.max.retries.on.timeouts".into(), "1".into()),
        ]);
    }
    match protected {
        Some(Protected { principal: Some(_), .. }) => {
            properties.push(("hadoop.security.authentication".into(), "kerberos".into()));
            properties.push(("hadoop.rpc.protection".into(), RPC_PROTECTION.into()));
        }
        // Hadoop's default, and our own client is not to call in the name of a ticket that is for something else.
        Some(_) => properties.push(("hadoop.security.authentication".into(), "simple".into())),
        None => {}
    }
    properties
}

fn hdfs_site(metas: &[String], domain_socket: Option<&Path>, protected: Option<&Protected>) -> Properties {
    let mut properties = if metas.len() > 1 { nameservice(metas) } else { Properties::new() };
    properties.extend(domain_socket.map(|path| ("dfs.domain.socket.path".into(), path.display().to_string())));
    let Some(Protected { principal, is_encrypted, data_transfer, web }) = protected else { return properties };
    if !web.is_empty() {
        properties.push(("dfs.http.policy".into(), "HTTPS_ONLY".into()));
        let addrs = web.iter().enumerate().map(|(number, addr)| match metas.len() {
            1 => ("dfs.namenode.https-address".into(), addr.clone()),
            _ => (format!("dfs.namenode.https-address.{NAME}.{}", server(number)), addr.clone()),
        });
        properties.extend(addrs);
    }
    properties.extend(principal.clone().map(|name| ("dfs.namenode.kerberos.principal".into(), name)));
    if *is_encrypted || data_transfer.iter().any(|word| word == RPC_PROTECTION) {
        // Without it Java agrees on 3DES, which takes many times as long.
        properties.push(("dfs.encrypt.data.transfer.cipher.suites".into(), "AES/CTR/NoPadding".into()));
    }
    if !data_transfer.is_empty() {
        properties.push(("dfs.data.transfer.protection".into(), data_transfer.join(",")));
    }
    properties
}

/// How a server is called there, by its place among all.
fn server(number: usize) -> String {
    format!("meta{}", number + 1)
}

/// All servers behind one name.
fn nameservice(metas: &[String]) -> Properties {
    let servers: Vec<String> = (0..metas.len()).map(server).collect();
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
        "<?xml version=\"1.0\"?>\n<!-- Written by `levada up`, and again at each start. -->\n\
         <configuration>\n{properties}</configuration>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_finds_every_server_by_name() {
        let metas = ["127.0.0.1:8020", "127.0.0.1:8021"].map(str::to_owned);
        let text = file(&hdfs_site(&metas, Some(Path::new("/store/data._PORT")), None));
        assert!(text.contains("<name>dfs.ha.namenodes.levada</name>\n    <value>meta1,meta2</value>"), "{text}");
        assert!(text.contains("<name>dfs.namenode.rpc-address.levada.meta2</name>\n    <value>127.0.0.1:8021</value>"));
        assert!(text.contains("<name>dfs.domain.socket.path</name>\n    <value>/store/data._PORT</value>"), "{text}");
    }

    #[test]
    fn a_client_of_a_secure_store_knows_whom_to_prove_itself_to() {
        let metas = ["localhost:8020".to_owned()];
        let principal = Some("nn/localhost@EXAMPLE.COM".to_owned());
        let protected = Protected { principal, is_encrypted: true, ..Protected::default() };
        let has = |properties: &Properties, name: &str, value: &str| {
            properties.contains(&(name.to_owned(), value.to_owned()))
        };
        let core = core_site(&metas, Some(&protected));
        assert!(has(&core, "fs.defaultFS", "hdfs://localhost:8020"));
        assert!(has(&core, "hadoop.security.authentication", "kerberos"));
        assert!(has(&core, "hadoop.rpc.protection", "privacy"));
        let hdfs = hdfs_site(&metas, None, Some(&protected));
        assert!(has(&hdfs, "dfs.namenode.kerberos.principal", "nn/localhost@EXAMPLE.COM"));
        assert!(has(&hdfs, "dfs.encrypt.data.transfer.cipher.suites", "AES/CTR/NoPadding"));
        assert_eq!(hdfs.len(), 2, "one server needs no name that stands for it: {hdfs:?}");
        let less = Protected { is_encrypted: false, data_transfer: vec!["integrity".into()], ..protected };
        let hdfs = hdfs_site(&metas, None, Some(&less));
        assert!(has(&hdfs, "dfs.data.transfer.protection", "integrity") && hdfs.len() == 2, "{hdfs:?}");
        // Without Kerberos clients need no more than their cipher, and go by no ticket.
        let open = Protected { principal: None, is_encrypted: true, ..Protected::default() };
        let core = core_site(&metas, Some(&open));
        assert!(has(&core, "hadoop.security.authentication", "simple") && core.len() == 2, "{core:?}");
    }

    /// `hdfs fsck` asks over HTTP, where these servers speak HTTPS alone.
    #[test]
    fn a_client_of_a_secure_store_asks_for_a_check_over_https() {
        let all = ["127.0.0.1:8020", "127.0.0.1:8021"].map(str::to_owned);
        let web = vec!["localhost:9870".to_owned(), "localhost:9871".to_owned()];
        let one = Protected { web: web[..1].to_vec(), ..Protected::default() };
        let text = file(&hdfs_site(&all[..1], None, Some(&one)));
        assert!(text.contains("<name>dfs.http.policy</name>\n    <value>HTTPS_ONLY</value>"), "{text}");
        assert!(text.contains("<name>dfs.namenode.https-address</name>\n    <value>localhost:9870</value>"), "{text}");
        let text = file(&hdfs_site(&all, None, Some(&Protected { web, ..Protected::default() })));
        let second = "<name>dfs.namenode.https-address.levada.meta2</name>\n    <value>localhost:9871</value>";
        assert!(text.contains(second), "{text}");
    }
}
