//! Which store, as whom, and how its files are to be.

use crate::error::{STORE, generic};
use crate::store::Levada;
use crate::user;
use client::{Client, Create, Options, Url};
use object_store::path::Path;
use object_store::{Error, Result};
use std::str::FromStr;
use std::time::Duration;

/// Ours, and HDFS's, which means the same: a store speaks both.
const SCHEMES: [&str; 2] = ["levada://", Url::SCHEME];

/// Options by name, as programs take them from configuration. Each may have `levada_` in front.
///
/// ```
/// use levada_object_store::LevadaConfigKey;
///
/// assert_eq!("levada_user".parse::<LevadaConfigKey>().unwrap(), LevadaConfigKey::User);
/// assert!("usr".parse::<LevadaConfigKey>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LevadaConfigKey {
    /// `url`: the store, as [`LevadaBuilder::with_url`] takes it.
    Url,
    /// `user`: who acts.
    User,
    /// `replication`: copies of each block of new files.
    Replication,
    /// `block_len`: bytes of a block of new files.
    BlockLen,
    /// `timeout`: seconds of silence after which a datanode counts as failed.
    Timeout,
    /// `gateway`: `host[:port]`, through which all servers of the store are reached.
    Gateway,
}

impl LevadaConfigKey {
    const ALL: [Self; 6] = [Self::Url, Self::User, Self::Replication, Self::BlockLen, Self::Timeout, Self::Gateway];

    fn name(self) -> &'static str {
        match self {
            Self::Url => "url",
            Self::User => "user",
            Self::Replication => "replication",
            Self::BlockLen => "block_len",
            Self::Timeout => "timeout",
            Self::Gateway => "gateway",
        }
    }
}

impl AsRef<str> for LevadaConfigKey {
    fn as_ref(&self) -> &str {
        self.name()
    }
}

impl FromStr for LevadaConfigKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let name = text.strip_prefix("levada_").unwrap_or(text);
        let found = Self::ALL.into_iter().find(|key| key.name() == name);
        found.ok_or_else(|| Error::UnknownConfigurationKey { store: STORE, key: text.into() })
    }
}

/// Makes a [`Levada`].
///
/// ```
/// use levada_object_store::LevadaBuilder;
///
/// let store = LevadaBuilder::new().with_url("hdfs://127.0.0.1:8020").with_user("ann").with_replication(2).build()?;
/// assert_eq!(store.to_string(), "Levada(hdfs://127.0.0.1:8020 as ann)");
/// # Ok::<(), object_store::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct LevadaBuilder {
    url: Option<String>,
    user: Option<String>,
    options: Options,
    create: Create,
}

impl LevadaBuilder {
    pub fn new() -> Self {
        Self::default()
    }

    /// `levada://host[:port]`, `levada://host:port,host:port` for several metadata servers, or the name of a
    /// nameservice of Hadoop's configuration in place of the hosts; `hdfs://` means the same. A path behind it does not
    /// count: an object's path begins at the root of the store ([`PrefixStore`](object_store::prefix::PrefixStore)
    /// moves it).
    pub fn with_url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }

    /// Who acts. Else `HADOOP_PROXY_USER`, `HADOOP_USER_NAME` where nobody proves who he is, the holder of the ticket
    /// that `kinit` got, or the user of this process.
    pub fn with_user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Copies of each block of new files. Else what the store proposes.
    pub fn with_replication(mut self, replication: u16) -> Self {
        self.create.replication = Some(replication);
        self
    }

    /// Bytes of a block of new files, a multiple of 512. Else what the store proposes.
    pub fn with_block_len(mut self, block_len: u64) -> Self {
        self.create.block_len = Some(block_len);
        self
    }

    /// `host[:port]` of a gateway, through which all servers of the store are reached. Else `LEVADA_GATEWAY`, or none.
    pub fn with_gateway(mut self, gateway: impl Into<String>) -> Self {
        self.options.gateway = Some(gateway.into());
        self
    }

    /// Limits, clock, gateway and runtime of the client.
    pub fn with_client_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    pub fn try_with_option(mut self, key: LevadaConfigKey, value: impl Into<String>) -> Result<Self> {
        let value = value.into();
        match key {
            LevadaConfigKey::Url => self.url = Some(value),
            LevadaConfigKey::User => self.user = Some(value),
            LevadaConfigKey::Replication => self.create.replication = Some(number(key, &value)?),
            LevadaConfigKey::BlockLen => self.create.block_len = Some(number(key, &value)?),
            LevadaConfigKey::Timeout => self.options.timeout = Duration::from_secs(number::<u32>(key, &value)?.into()),
            LevadaConfigKey::Gateway => self.options.gateway = Some(value),
        }
        Ok(self)
    }

    /// Options by name; one that nobody knows is an error.
    pub fn try_with_options<K: AsRef<str>, V: Into<String>>(
        self,
        options: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self> {
        options
            .into_iter()
            .try_fold(self, |builder, (key, value)| builder.try_with_option(key.as_ref().parse()?, value))
    }

    /// Reads no more than the environment, and for the user's name perhaps a file. Connections are made by the first
    /// call.
    pub fn build(self) -> Result<Levada> {
        let url = self.url.ok_or_else(|| generic("no URL was given, as in levada://host:8020"))?;
        let url = parse(&url)?.with_path("");
        let acting = user::acting(self.user);
        let acting = acting.ok_or_else(|| generic("nobody says who acts: set the option `user`"))?;
        let client::Acting { user, real_user } = acting;
        let gateway = self.options.gateway.or_else(|| std::env::var("LEVADA_GATEWAY").ok());
        let options = Options { gateway: gateway.filter(|gateway| !gateway.is_empty()), real_user, ..self.options };
        Ok(Levada::with_create(Client::with_options(&url, &user, options), self.create))
    }
}

fn number<T: FromStr<Err: std::error::Error>>(key: LevadaConfigKey, value: &str) -> Result<T> {
    value.parse().map_err(|error| generic(format!("{} = {value:?}: {error}", key.name())))
}

fn parse(url: &str) -> Result<Url> {
    let rest = SCHEMES.iter().find_map(|scheme| url.strip_prefix(scheme));
    let rest = rest.ok_or_else(|| generic(format!("{url:?}: it must begin with levada:// or hdfs://")))?;
    Url::parse(&format!("{}{rest}", Url::SCHEME)).map_err(|error| generic(format!("{url:?}: {error}")))
}

/// The store that a URL names, and the object: for programs that take URLs of any kind. As with other stores the path
/// of the URL is percent-encoded.
///
/// ```
/// use levada_object_store::parse_url;
/// use object_store::path::Path;
///
/// let (store, path) = parse_url("levada://127.0.0.1:8020/data/a%20b.parquet", [("user", "ann")])?;
/// assert_eq!(path, Path::from("data/a b.parquet"));
/// # drop(store);
/// # Ok::<(), object_store::Error>(())
/// ```
pub fn parse_url<K: AsRef<str>, V: Into<String>>(
    url: &str,
    options: impl IntoIterator<Item = (K, V)>,
) -> Result<(Levada, Path)> {
    let path = Path::from_url_path(&parse(url)?.path)?;
    Ok((Levada::connect(url, options)?, path))
}

impl Levada {
    /// The store at a URL, with options by name: those of [`LevadaConfigKey`]. Connections are
    /// made by the first call.
    pub fn connect<K: AsRef<str>, V: Into<String>>(
        url: impl Into<String>,
        options: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self> {
        LevadaBuilder::new().with_url(url).try_with_options(options)?.build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [(&str, &str); 0] = [];

    #[test]
    fn both_schemes_name_a_store() {
        for url in ["levada://h:1,i:2/a", "hdfs://h:1,i:2/a"] {
            let (store, path) = parse_url(url, [("user", "ann")]).unwrap();
            assert_eq!((store.to_string().as_str(), path.as_ref()), ("Levada(hdfs://h:1,i:2 as ann)", "a"));
            assert_eq!(format!("{store:?}"), r#"Levada { url: "hdfs://h:1,i:2", user: "ann", .. }"#);
        }
        for bad in ["s3://h/a", "levada:/h", "hdfs://", "levada://h:x/"] {
            assert!(parse_url(bad, NONE).is_err(), "{bad}");
        }
        assert!(LevadaBuilder::new().with_user("ann").build().is_err(), "no URL");
    }

    #[test]
    fn options_have_names() {
        for key in LevadaConfigKey::ALL {
            assert_eq!(key.as_ref().parse::<LevadaConfigKey>().unwrap(), key);
        }
        let unknown = Levada::connect("levada://h", [("usr", "ann")]).unwrap_err();
        assert!(matches!(unknown, Error::UnknownConfigurationKey { store: STORE, key } if key == "usr"));
        let options = [
            ("levada_replication", "2"),
            ("block_len", "1048576"),
            ("timeout", "7"),
            ("user", "bob"),
            ("gateway", "g"),
        ];
        let builder = LevadaBuilder::new().try_with_options(options).unwrap();
        assert_eq!((builder.create.replication, builder.create.block_len), (Some(2), Some(1 << 20)));
        assert_eq!((builder.options.timeout, builder.user.as_deref()), (Duration::from_secs(7), Some("bob")));
        assert_eq!(builder.options.gateway.as_deref(), Some("g"));
        for (key, value) in [("replication", "-1"), ("block_len", ""), ("timeout", "1 s")] {
            assert!(LevadaBuilder::new().try_with_options([(key, value)]).is_err(), "{key} {value:?}");
        }
    }
}
