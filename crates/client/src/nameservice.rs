//! What Hadoop's configuration says of stores: the servers behind a name, `dfs.ha.namenodes.NAME` and
//! `dfs.namenode.rpc-address.NAME.SERVER` of `$HADOOP_CONF_DIR/hdfs-site.xml`; the usual store, and whether servers
//! must ask for a proof of who calls, `fs.defaultFS`, `hadoop.security.authentication` and
//! `ipc.client.fallback-to-simple-auth-allowed` of `core-site.xml`; and the name that these have in Kerberos,
//! `dfs.namenode.kerberos.principal` of `hdfs-site.xml`.

use std::path::PathBuf;

/// The addresses of a nameservice, with commas between them; `None` if the configuration does not know the name.
pub(crate) fn addrs_of(name: &str) -> Option<String> {
    addrs_in(&file("hdfs-site.xml")?, name)
}

/// The file system that Hadoop's tools use when nobody names one.
pub(crate) fn default_fs() -> Option<String> {
    default_in(&file("core-site.xml")?)
}

/// Whether users prove by Kerberos who they are; `None`: nothing is said of it.
pub(crate) fn is_kerberos() -> Option<bool> {
    is_kerberos_in(&file("core-site.xml")?)
}

fn is_kerberos_in(text: &str) -> Option<bool> {
    property(text, "hadoop.security.authentication").map(|said| said.eq_ignore_ascii_case("kerberos"))
}

/// Whether a server that asks for no proof is to be refused: as it may be anybody.
pub(crate) fn refuses_simple() -> bool {
    file("core-site.xml").is_some_and(|text| refuses_simple_in(&text))
}

fn refuses_simple_in(text: &str) -> bool {
    let fallback = property(text, "ipc.client.fallback-to-simple-auth-allowed");
    is_kerberos_in(text) == Some(true) && !fallback.is_some_and(|said| said.eq_ignore_ascii_case("true"))
}

/// The Kerberos name of metadata servers, as `nn/_HOST@EXAMPLE.COM`.
pub(crate) fn server_principal() -> Option<String> {
    server_principal_in(&file("hdfs-site.xml")?).map(str::to_owned)
}

fn server_principal_in(text: &str) -> Option<&str> {
    property(text, "dfs.namenode.kerberos.principal").filter(|name| !name.is_empty())
}

fn file(name: &str) -> Option<String> {
    let dir = std::env::var_os("HADOOP_CONF_DIR").filter(|dir| !dir.is_empty())?;
    std::fs::read_to_string(PathBuf::from(dir).join(name)).ok()
}

fn default_in(text: &str) -> Option<String> {
    // The older name is still read by Hadoop.
    property(text, "fs.defaultFS").or_else(|| property(text, "fs.default.name")).map(str::to_owned)
}

fn addrs_in(text: &str, name: &str) -> Option<String> {
    let servers = property(text, &format!("dfs.ha.namenodes.{name}"))?;
    let addrs = servers.split(',').map(str::trim).filter(|server| !server.is_empty());
    let addrs = addrs.map(|server| property(text, &format!("dfs.namenode.rpc-address.{name}.{server}")));
    let addrs: Vec<&str> = addrs.collect::<Option<_>>()?;
    (!addrs.is_empty()).then(|| addrs.join(","))
}

/// The value of a property in a file of Hadoop's. Such files are flat, so no parser of XML is needed; the last one
/// counts.
fn property<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let properties = text.split("<property>").skip(1);
    let values = properties.filter(|property| between(property, "<name>", "</name>") == Some(name));
    values.last().and_then(|property| between(property, "<value>", "</value>"))
}

fn between<'t>(text: &'t str, open: &str, close: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(open)?;
    rest.split_once(close).map(|(inside, _)| inside.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nameservice_names_its_servers() {
        let text = "<configuration>
            <property><name>dfs.nameservices</name><value>big</value></property>
            <property>
              <name>dfs.ha.namenodes.big</name>
              <value>a, b</value>
            </property>
            <property><name>dfs.namenode.rpc-address.big.a</name><value>h1:8020</value><final>true</final></property>
            <property><name>dfs.namenode.rpc-address.big.b</name><value> h2:8021 </value></property>
            <property><name>dfs.ha.namenodes.half</name><value>a</value></property>
          </configuration>";
        assert_eq!(addrs_in(text, "big").as_deref(), Some("h1:8020,h2:8021"));
        assert_eq!(addrs_in(text, "half"), None);
        assert_eq!(addrs_in(text, "other"), None);
    }

    #[test]
    fn who_demands_kerberos_refuses_servers_that_do_not() {
        let property =
            |name: &str, value: &str| format!("<property><name>{name}</name><value>{value}</value></property>");
        let kerberos = property("hadoop.security.authentication", "kerberos");
        let fallback = property("ipc.client.fallback-to-simple-auth-allowed", "true");
        assert!(refuses_simple_in(&kerberos));
        assert!(!refuses_simple_in(&(kerberos + &fallback)));
        let simple = property("hadoop.security.authentication", "simple");
        assert!(!refuses_simple_in(&simple) && !refuses_simple_in(""));
        assert_eq!((is_kerberos_in(&simple), is_kerberos_in("")), (Some(false), None));
    }

    #[test]
    fn the_servers_have_a_name_in_kerberos() {
        let of = |name: &str| {
            format!("<property><name>dfs.namenode.kerberos.principal</name><value>{name}</value></property>")
        };
        assert_eq!(server_principal_in(&of("namenode/_HOST@EXAMPLE.COM")), Some("namenode/_HOST@EXAMPLE.COM"));
        assert_eq!((server_principal_in(&of("")), server_principal_in("")), (None, None));
    }

    #[test]
    fn the_usual_store_is_named() {
        let of =
            |url: &str| format!("<configuration><property><name>fs.defaultFS</name><value>{url}</value></property>");
        assert_eq!(default_in(&of("hdfs://h:1/")).as_deref(), Some("hdfs://h:1/"));
        assert_eq!(default_in(&of("file:///")).as_deref(), Some("file:///"));
        assert_eq!(default_in("<configuration/>"), None);
    }
}
