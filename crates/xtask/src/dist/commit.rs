//! The commit that is packed: the only source of times and of names of versions.

use super::output::{Result, output};
use std::path::Path;
use std::process::Command;

pub(super) struct Commit {
    /// Since 1970: what `SOURCE_DATE_EPOCH` is for other tools.
    pub(super) seconds: u64,
    /// As RFC 3339 has it, in UTC.
    pub(super) rfc3339: String,
    /// As 20261128150120, in UTC.
    digits: String,
    short: String,
    /// It is what this version was released from.
    is_release: bool,
}

impl Commit {
    pub(super) fn of(root: &Path) -> Result<Self> {
        let git = |words: &[&str]| output(Command::new("git").current_dir(root).env("TZ", "UTC").args(words));
        let text = |format: &str, date: &str| -> Result<String> {
            let text = git(&["log", "-1", &format!("--format={format}"), &format!("--date=format-local:{date}")])?;
            Ok(text.trim().to_owned())
        };
        let tag = format!("v{}", env!("CARGO_PKG_VERSION"));
        Ok(Self {
            seconds: text("%ct", "%s")?.parse()?,
            rfc3339: text("%cd", "%Y-%m-%dT%H:%M:%SZ")?,
            digits: text("%cd", "%Y%m%d%H%M%S")?,
            short: git(&["rev-parse", "--short=8", "HEAD"])?.trim().to_owned(),
            is_release: git(&["tag", "--points-at", "HEAD"])?.lines().any(|line| line == tag),
        })
    }

    /// What the program says of itself: `host::version`. By it two builds of a version are told from each other.
    pub(super) fn build_version(&self) -> String {
        format!("{}+{}", env!("CARGO_PKG_VERSION"), self.short)
    }

    /// Before its release a version has what dpkg sorts below it, later commits above earlier ones.
    pub(super) fn version(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        if self.is_release { version.to_owned() } else { format!("{version}~git{}.{}", self.digits, self.short) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_commit_is_a_build_of_its_own() {
        let commit = Commit {
            seconds: 0,
            rfc3339: String::new(),
            digits: "20261128150120".into(),
            short: "c9840015".into(),
            is_release: true,
        };
        let package = env!("CARGO_PKG_VERSION");
        assert_eq!((commit.version(), commit.build_version()), (package.into(), format!("{package}+c9840015")));
    }
}
