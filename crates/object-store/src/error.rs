//! What went wrong, in the trait's kinds. The client's error is kept as the source.

use client::ErrorKind;
use object_store::Error;
use object_store::path::Path;
use std::fmt;

pub(crate) const STORE: &str = "Levada";

/// A client's error does not say what it is about, nor do all of the trait's.
#[derive(Debug)]
struct About {
    path: String,
    error: client::Error,
}

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}: {}", self.path, self.error)
    }
}

impl std::error::Error for About {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Of a change, or of an object that is there.
pub(crate) fn of(location: &Path, error: client::Error) -> Error {
    let path = location.to_string();
    match error.kind() {
        ErrorKind::NotFound => Error::NotFound { path, source: error.into() },
        ErrorKind::Exists => Error::AlreadyExists { path, source: error.into() },
        ErrorKind::Denied => Error::PermissionDenied { path, source: error.into() },
        ErrorKind::Unsupported => Error::NotSupported { source: Box::new(About { path, error }) },
        _ => Error::Generic { store: STORE, source: Box::new(About { path, error }) },
    }
}

/// Of an object that is looked for: a directory is none, and below a file there are none.
pub(crate) fn of_look(location: &Path, error: client::Error) -> Error {
    match error.kind() {
        ErrorKind::IsADirectory | ErrorKind::NotADirectory => {
            Error::NotFound { path: location.to_string(), source: error.into() }
        }
        _ => of(location, error),
    }
}

pub(crate) fn not_found(location: &Path) -> Error {
    of(location, client::Error::NotFound)
}

pub(crate) fn generic(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Generic { store: STORE, source: source.into() }
}

/// The client's error that this one was made of, if it was: its [`kind`](client::Error::kind) is finer than the
/// trait's.
///
/// ```
/// use object_store::Error;
///
/// let error = Error::NotFound { path: "a".into(), source: client::Error::NotFound.into() };
/// assert_eq!(levada_object_store::client_error(&error).map(|error| error.kind()), Some(client::ErrorKind::NotFound));
/// ```
pub fn client_error(error: &Error) -> Option<&client::Error> {
    let mut cause = std::error::Error::source(error);
    while let Some(one) = cause {
        if let Some(found) = one.downcast_ref() {
            return Some(found);
        }
        cause = one.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a pattern of the trait's errors, and with the client's inside.
    #[test]
    fn kinds_are_the_traits() {
        let path = Path::from("a/b");
        let denied = || client::Error::Denied("no".into());
        assert!(matches!(of(&path, client::Error::NotFound), Error::NotFound { path, .. } if path == "a/b"));
        assert!(matches!(of(&path, client::Error::Exists), Error::AlreadyExists { .. }));
        assert!(matches!(of(&path, denied()), Error::PermissionDenied { .. }));
        assert!(matches!(of(&path, client::Error::Unsupported("x")), Error::NotSupported { .. }));
        assert!(matches!(of(&path, client::Error::IsADirectory), Error::Generic { .. }));
        assert!(matches!(of_look(&path, client::Error::IsADirectory), Error::NotFound { .. }));
        for kind in [client::Error::NotFound, client::Error::Closed, client::Error::Unsupported("x"), denied()] {
            let wanted = kind.kind();
            let error = of(&path, kind);
            assert_eq!(client_error(&error).map(client::Error::kind), Some(wanted), "{error}");
        }
        let text = of(&path, client::Error::Closed).to_string();
        assert_eq!(text, "Generic Levada error: /a/b: the store was closed");
        assert!(client_error(&generic("of its own")).is_none());
    }
}
