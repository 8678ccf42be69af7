//! A path of the file system, parsed once: absolute, without `.`, `..`, empty or over-long components.

use crate::limits::{NAME_LEN_MAX, PATH_DEPTH_MAX, PATH_LEN_MAX};
use std::fmt;

/// Why a text is no path. HDFS's sentences are made in `metad::refusal`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("{path:?} is not absolute")]
    Relative { path: String },
    #[error("the path is too long; it may have {PATH_LEN_MAX} characters and {PATH_DEPTH_MAX} levels")]
    TooLong,
    #[error("{name:?} can not be part of a path")]
    Component { name: String },
    #[error("{name:?} has {len} bytes; a name in a path may have {NAME_LEN_MAX}")]
    NameTooLong { name: String, len: usize },
}

/// An absolute path. `components` of the root is empty. Written as its text, and parsed again when read.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FsPath {
    text: String,
}

impl FsPath {
    pub fn root() -> Self {
        Self { text: "/".into() }
    }

    /// Takes what a client sent. Only what could never name an inode is refused; a trailing slash and doubled slashes
    /// go.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if !text.starts_with('/') {
            return Err(PathError::Relative { path: text.chars().take(100).collect() });
        }
        if text.len() > PATH_LEN_MAX * 4 || text.chars().count() > PATH_LEN_MAX {
            return Err(PathError::TooLong);
        }
        let mut clean = String::with_capacity(text.len());
        let mut depth = 0;
        for name in text.split('/').filter(|name| !name.is_empty()) {
            if name == "." || name == ".." || name.contains('\0') {
                return Err(PathError::Component { name: name.into() });
            }
            if name.len() > NAME_LEN_MAX {
                return Err(PathError::NameTooLong { name: name.into(), len: name.len() });
            }
            depth += 1;
            clean.push('/');
            clean.push_str(name);
        }
        if depth > PATH_DEPTH_MAX {
            return Err(PathError::TooLong);
        }
        if clean.is_empty() {
            clean.push('/');
        }
        Ok(Self { text: clean })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn is_root(&self) -> bool {
        self.text.len() == 1
    }

    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.text.split('/').filter(|name| !name.is_empty())
    }

    pub fn depth(&self) -> usize {
        self.components().count()
    }

    /// Last component; empty for the root.
    pub fn name(&self) -> &str {
        self.text.rsplit('/').next().unwrap_or("")
    }

    pub fn parent(&self) -> Option<Self> {
        let cut = self.text.rfind('/')?;
        (!self.is_root()).then(|| Self { text: self.text[..cut.max(1)].into() })
    }

    /// The child `name`, which must be one valid component.
    pub fn join(&self, name: &str) -> Result<Self, PathError> {
        Self::parse(&format!("{}/{name}", if self.is_root() { "" } else { &self.text }))
    }

    /// True if `self` lies strictly below `above`.
    pub fn is_below(&self, above: &Self) -> bool {
        above.is_root() && !self.is_root()
            || self.text.strip_prefix(above.as_str()).is_some_and(|rest| rest.starts_with('/'))
    }
}

impl TryFrom<String> for FsPath {
    type Error = PathError;

    fn try_from(text: String) -> Result<Self, PathError> {
        Self::parse(&text)
    }
}

impl From<FsPath> for String {
    fn from(path: FsPath) -> Self {
        path.text
    }
}

impl fmt::Display for FsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for FsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_are_tidied_and_dots_refused() {
        assert_eq!(FsPath::parse("//a///b/").unwrap().as_str(), "/a/b");
        assert_eq!(FsPath::parse("/").unwrap().components().count(), 0);
        for bad in ["", "a", "/a/../b", "/.", "/a\0b"] {
            assert!(FsPath::parse(bad).is_err(), "{bad:?}");
        }
        assert!(FsPath::parse(&format!("/{}", "x".repeat(256))).is_err());
        assert!(FsPath::parse(&"/a".repeat(1001)).is_err());
    }

    #[test]
    fn parents_and_descendants() {
        let path = FsPath::parse("/a/b").unwrap();
        assert_eq!(path.parent().unwrap().as_str(), "/a");
        assert_eq!(path.parent().unwrap().parent().unwrap(), FsPath::root());
        assert_eq!(FsPath::root().parent(), None);
        assert!(path.is_below(&FsPath::root()) && path.is_below(&FsPath::parse("/a").unwrap()));
        assert!(!path.is_below(&path) && !path.is_below(&FsPath::parse("/a/bb").unwrap()));
        assert!(!FsPath::parse("/ab").unwrap().is_below(&FsPath::parse("/a").unwrap()));
        assert_eq!(FsPath::root().join("x").unwrap().as_str(), "/x");
        assert!(FsPath::root().join("..").is_err());
    }
}
