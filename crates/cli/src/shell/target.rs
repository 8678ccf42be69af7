//! Where an operand leads.

use super::failure::Failure;
use client::Client;
use std::fmt;

/// A path in a store.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) client: Client,
    /// Absolute and tidy.
    pub(crate) path: String,
    /// The user wrote the whole URL, so that is how it is shown.
    pub(super) full: bool,
}

/// The whole URL: for errors, where it must be plain which store is meant.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.client.url(), self.path)
    }
}

impl Target {
    /// As the user wrote it: with the store or without.
    pub(crate) fn shown(&self) -> String {
        if self.full { self.to_string() } else { self.path.clone() }
    }

    pub(crate) fn child(&self, name: &str) -> Self {
        let path = format!("{}/{name}", self.path.trim_end_matches('/'));
        Self { path, ..self.clone() }
    }

    pub(crate) fn with_path(&self, path: String) -> Self {
        Self { path, ..self.clone() }
    }

    pub(crate) fn is_root(&self) -> bool {
        self.path == "/"
    }

    /// Last component; empty for the root.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    pub(crate) fn parent(&self) -> Option<Self> {
        let (parent, _) = self.path.rsplit_once('/')?;
        let parent = if parent.is_empty() { "/" } else { parent };
        (!self.is_root()).then(|| self.with_path(parent.into()))
    }

    /// True if `self` is `above`, or lies below it, in the same store.
    pub(crate) fn is_within(&self, above: &Self) -> bool {
        let rest = self.path.strip_prefix(above.path.trim_end_matches('/'));
        self.same_store(above) && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    pub(crate) fn same_store(&self, other: &Self) -> bool {
        self.client.url() == other.client.url()
    }

    pub(crate) fn failure(&self, error: &client::Error) -> Failure {
        Failure::of(self, error)
    }
}

/// True for what can only mean a directory: `x/`, `.`, `x/..`.
pub(crate) fn names_directory(typed: &str) -> bool {
    matches!(typed.rsplit('/').next(), Some("" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_only_be_a_directory() {
        for text in ["/", "a/", ".", "..", "/a/.", "a/.."] {
            assert!(names_directory(text), "{text}");
        }
        for text in ["a", "/a", "a.", "..a", "/a/.b"] {
            assert!(!names_directory(text), "{text}");
        }
    }
}
