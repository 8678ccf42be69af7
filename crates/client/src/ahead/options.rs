//! What a program may set of a file that it reads by an [`Ahead`](super::Ahead).

use prefetch::Settings;
use prefetch::profile::ProfileName;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AheadOptions {
    /// Memory for what is fetched ahead and for what was read. 0: nothing is kept.
    pub cache_len: u64,
    /// Whose profile is used and kept.
    pub data_set: DataSet,
}

/// Files that are read alike share a profile, if their columns have the same names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DataSet {
    /// Nothing is known of earlier runs, and nothing is kept of this one.
    Unknown,
    /// The files of one directory are one data set; `year=2026/month=11/part-0` belongs to what is above `year=2026`.
    #[default]
    OfPath,
    Named(String),
}

impl Default for AheadOptions {
    fn default() -> Self {
        Self { cache_len: Settings::DEFAULT.cache_len, data_set: DataSet::default() }
    }
}

impl AheadOptions {
    pub(super) fn settings(&self) -> Settings {
        Settings { cache_len: self.cache_len, ..Settings::DEFAULT }
    }
}

impl DataSet {
    /// Under which a store keeps its profile, beside those of other names of the same directory. Users may know the
    /// store by several addresses, which therefore are no part of it.
    pub(super) fn shared_name(&self) -> Option<ProfileName> {
        match self {
            Self::Unknown => None,
            Self::OfPath => Some(ProfileName::of("", None)),
            Self::Named(name) => Some(ProfileName::of(name, None)),
        }
    }

    /// The name of the data set that a file belongs to. `None`: it has no profile.
    pub(super) fn name_of(&self, authority: &str, path: &str) -> Option<String> {
        match self {
            Self::Unknown => None,
            Self::Named(name) => Some(name.clone()),
            Self::OfPath => {
                let mut directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
                while let Some((above, last)) = directory.rsplit_once('/')
                    && last.contains('=')
                {
                    directory = above;
                }
                Some(format!("{authority}{directory}/"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_belong_to_the_directory_above_them() {
        let name = |path| DataSet::OfPath.name_of("host:8020", path);
        assert_eq!(name("/data/events/a.parquet").as_deref(), Some("host:8020/data/events/"));
        assert_eq!(name("/data/events/year=2026/month=1/a"), name("/data/events/a.parquet"));
        assert_eq!(name("/a").as_deref(), Some("host:8020/"));
        assert_eq!(DataSet::Unknown.name_of("h", "/a"), None);
        assert_eq!(DataSet::Named("talk".into()).name_of("h", "/a").as_deref(), Some("talk"));
    }
}
