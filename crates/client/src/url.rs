//! `hdfs://host:port/path`: which store, and what in it.

use crate::error::{Error, Result};
use crate::nameservice;
use std::fmt;

/// The port of a metadata server when the URL names none.
pub const PORT_DEFAULT: u16 = 8020;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Url {
    /// `host:port`, the port always there; several of these, with commas, for a store with several metadata servers.
    pub authority: String,
    /// Absolute, or empty when the URL ends with the authority.
    pub path: String,
}

impl Url {
    pub const SCHEME: &str = "hdfs://";

    /// Takes `hdfs://host[:port][/path]`, `hdfs://host:port,host:port/path`, or the name of a nameservice of Hadoop's
    /// configuration (`$HADOOP_CONF_DIR/hdfs-site.xml`) in place of the hosts. The path is not decoded: a `%` in a name
    /// is a `%`, as in HDFS's shell.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |why: &str| Error::Url { text: text.into(), why: why.into() };
        let rest = text
            .strip_prefix(Self::SCHEME)
            .ok_or_else(|| wrong("it must begin with hdfs://, the only scheme that is known"))?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.is_empty() {
            return Err(wrong("it names no host; write hdfs://host:port/path"));
        }
        let known = if authority.contains([':', ',']) { None } else { nameservice::addrs_of(authority) };
        let authority = known.as_deref().unwrap_or(authority);
        let addrs = authority.split(',').map(addr_of).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        Ok(Self { authority: addrs.join(","), path: path.into() })
    }

    /// Of each metadata server that it names.
    pub fn addrs(&self) -> impl Iterator<Item = &str> {
        self.authority.split(',')
    }

    /// The same store, another path.
    pub fn with_path(&self, path: &str) -> Self {
        Self { authority: self.authority.clone(), path: path.into() }
    }
}

/// The store that Hadoop's tools use when nobody names one, if it is one of HDFS.
pub fn default_fs() -> Option<String> {
    of_hdfs(nameservice::default_fs()?)
}

fn of_hdfs(url: String) -> Option<String> {
    url.starts_with(Url::SCHEME).then_some(url)
}

/// `host:port` of what may lack its port.
fn addr_of(text: &str) -> std::result::Result<String, &'static str> {
    // A colon inside of brackets belongs to an IPv6 address.
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    let port = match port {
        None => PORT_DEFAULT,
        Some(port) => port.parse().map_err(|_| "the port is not a number below 65536")?,
    };
    if host.is_empty() || host.contains('@') {
        return Err("the host is not a name or an address");
    }
    Ok(format!("{host}:{port}"))
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", Self::SCHEME, self.authority, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_store_is_one_of_hdfs() {
        assert_eq!(of_hdfs("hdfs://h:1/".into()).as_deref(), Some("hdfs://h:1/"));
        assert_eq!(of_hdfs("file:///".into()), None);
    }

    #[test]
    fn a_url_names_store_and_path() {
        let parse = |text| Url::parse(text).map(|url| (url.authority, url.path)).map_err(|error| error.to_string());
        assert_eq!(parse("hdfs://h:1/a b%20"), Ok(("h:1".into(), "/a b%20".into())));
        assert_eq!(parse("hdfs://h"), Ok(("h:8020".into(), String::new())));
        assert_eq!(parse("hdfs://[::1]/x"), Ok(("[::1]:8020".into(), "/x".into())));
        assert_eq!(parse("hdfs://[::1]:9/"), Ok(("[::1]:9".into(), "/".into())));
        let several = ("h:1,[::1]:2,i:8020".into(), "/x".into());
        assert_eq!(parse("hdfs://h:1,[::1]:2,i/x"), Ok(several));
        for bad in [
            "hdfs://h:1,/x",
            "hdfs://h:1,i:x/x",
            "",
            "/a",
            "s3://h/a",
            "hdfs://",
            "hdfs:///a",
            "hdfs://h:x/",
            "hdfs://h:70000/",
            "hdfs://:1/",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(Url::parse("hdfs://h/a").unwrap().to_string(), "hdfs://h:8020/a");
    }
}
