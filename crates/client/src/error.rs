//! What can go wrong.
//!
//! Promise: whoever decides does so by [`Error::kind`], which follows from the class of a server's refusal and from the
//! detail that our own servers add, never from a message. A message is for people, and does not repeat the path: who
//! asked knows it and puts it in front.

use hdfs::exception::{self, Detail};
use std::io;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Variants differ where a caller acts differently.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no such file or directory")]
    NotFound,
    #[error("already exists")]
    Exists,
    #[error("is a directory")]
    IsADirectory,
    #[error("not a directory")]
    NotADirectory,
    #[error("directory is not empty")]
    NotEmpty,
    #[error("{}", uncapitalized(_0))]
    Denied(String),
    /// Somebody has the file open, or its last block is being recovered.
    #[error("is being written by another client: {0}")]
    Busy(String),
    /// This writer may no longer write: its lease was taken, or the file was deleted.
    #[error("the file is no longer ours to write: {0}")]
    LeaseLost(String),
    /// The server said no, for a reason that has no variant of its own.
    #[error("{message}")]
    Refused { class: String, message: String },
    #[error("not the address of a store: {why}")]
    Url { text: String, why: String },
    #[error("not a usable path: {0}")]
    Path(#[from] types::path::PathError),
    #[error("cannot reach {addr}: {}", reason_of(source))]
    Unreachable { addr: String, source: io::Error },
    #[error("{addr} did not answer in time")]
    TimedOut { addr: String },
    #[error("the connection to {addr} broke: {reason}")]
    Broken { addr: String, reason: String },
    #[error("{addr} answered what cannot be understood: {reason}")]
    Protocol { addr: String, reason: String },
    #[error("block {block} cannot be read from any node: {tried}")]
    NoReplica { block: u64, tried: String },
    #[error("every node that block {block} was written to has failed: {tried}")]
    NoNodeLeft { block: u64, tried: String },
    #[error("the file could not be completed: its last block has no whole replica yet")]
    NotComplete,
    #[error("{0} is not supported")]
    Unsupported(&'static str),
}

/// The words of the system without Rust's "(os error 111)", in the lower case that errors have.
pub fn reason_of(error: &io::Error) -> String {
    let text = error.to_string();
    uncapitalized(text.split(" (os error").next().unwrap_or_default())
}

fn uncapitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// What an error is, without its facts: what programs and other languages decide by. Kinds may be added; none changes
/// its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    NotFound,
    Exists,
    IsADirectory,
    NotADirectory,
    NotEmpty,
    Denied,
    Busy,
    LeaseLost,
    /// An administrator wants nothing to change.
    SafeMode,
    QuotaExceeded,
    /// What answered is no metadata server.
    NotAMetadataServer,
    /// The server refused, for a reason that has no kind of its own.
    Refused,
    /// The address of a store, or a path, that is none.
    Invalid,
    Unreachable,
    TimedOut,
    Broken,
    Protocol,
    NoReplica,
    NoNodeLeft,
    NotComplete,
    Unsupported,
}

impl Error {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound => ErrorKind::NotFound,
            Self::Exists => ErrorKind::Exists,
            Self::IsADirectory => ErrorKind::IsADirectory,
            Self::NotADirectory => ErrorKind::NotADirectory,
            Self::NotEmpty => ErrorKind::NotEmpty,
            Self::Denied(_) => ErrorKind::Denied,
            Self::Busy(_) => ErrorKind::Busy,
            Self::LeaseLost(_) => ErrorKind::LeaseLost,
            Self::Refused { class, .. } => match class.as_str() {
                exception::SAFE_MODE => ErrorKind::SafeMode,
                exception::RPC_NO_SUCH_PROTOCOL => ErrorKind::NotAMetadataServer,
                exception::NAMESPACE_QUOTA_EXCEEDED
                | exception::SPACE_QUOTA_EXCEEDED
                | exception::TYPE_QUOTA_EXCEEDED => ErrorKind::QuotaExceeded,
                _ => ErrorKind::Refused,
            },
            Self::Url { .. } | Self::Path(_) => ErrorKind::Invalid,
            Self::Unreachable { .. } => ErrorKind::Unreachable,
            Self::TimedOut { .. } => ErrorKind::TimedOut,
            Self::Broken { .. } => ErrorKind::Broken,
            Self::Protocol { .. } => ErrorKind::Protocol,
            Self::NoReplica { .. } => ErrorKind::NoReplica,
            Self::NoNodeLeft { .. } => ErrorKind::NoNodeLeft,
            Self::NotComplete => ErrorKind::NotComplete,
            Self::Unsupported(_) => ErrorKind::Unsupported,
        }
    }

    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound)
    }

    /// What a call to `addr` ended with, in our words.
    pub(crate) fn of_call(addr: &str, error: rpc::CallError) -> Self {
        let addr = addr.to_owned();
        match error {
            rpc::CallError::Remote { class, message, detail } => Self::of_exception(class, &message, detail),
            rpc::CallError::Connect(source) => Self::Unreachable { addr, source },
            rpc::CallError::TimedOut => Self::TimedOut { addr },
            rpc::CallError::Decode(reason) => Self::Protocol { addr, reason },
            rpc::CallError::Broken(reason) => Self::Broken { addr, reason },
        }
    }

    /// A Java exception of the server. Class and detail decide. The first line of the message is for people, the rest
    /// is a stack trace.
    fn of_exception(class: String, message: &str, detail: Option<Detail>) -> Self {
        let message = message.lines().next().unwrap_or_default().to_owned();
        match (class.as_str(), detail) {
            (_, Some(Detail::IsADirectory)) => Self::IsADirectory,
            (_, Some(Detail::NotADirectory)) => Self::NotADirectory,
            (exception::FILE_NOT_FOUND, None) => Self::NotFound,
            (exception::FILE_ALREADY_EXISTS, None) => Self::Exists,
            (exception::PARENT_NOT_DIRECTORY, None) => Self::NotADirectory,
            (exception::PATH_IS_NOT_EMPTY_DIRECTORY, None) => Self::NotEmpty,
            (exception::ACCESS_CONTROL, None) => Self::Denied(message),
            (exception::ALREADY_BEING_CREATED | exception::RECOVERY_IN_PROGRESS, None) => Self::Busy(message),
            (exception::LEASE_EXPIRED, None) => Self::LeaseLost(message),
            (_, None) => Self::Refused { class, message },
        }
    }

    /// True if the server refused with this class, for the few that only one call can be told.
    pub(crate) fn is_class(&self, wanted: &str) -> bool {
        matches!(self, Self::Refused { class, .. } if class == wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_become_words() {
        let told = |class: &str, message: &str| Error::of_exception(class.into(), message, None).to_string();
        assert_eq!(told(exception::FILE_NOT_FOUND, "File does not exist: /x\n\tat a.b"), "no such file or directory");
        let denied = "Permission denied: user=a, access=WRITE, inode=\"/\":b:c:drwxr-xr-x";
        assert_eq!(
            told(exception::ACCESS_CONTROL, denied),
            "permission denied: user=a, access=WRITE, inode=\"/\":b:c:drwxr-xr-x"
        );
        assert_eq!(told(exception::IO, "of its own kind\n\tat x"), "of its own kind");
    }

    /// Class and detail decide: a server may say what it likes in its message.
    #[test]
    fn a_kind_does_not_depend_on_the_message() {
        use ErrorKind as Kind;
        let refusals = [
            (exception::FILE_NOT_FOUND, None, Kind::NotFound),
            (exception::FILE_NOT_FOUND, Some(Detail::IsADirectory), Kind::IsADirectory),
            (exception::FILE_ALREADY_EXISTS, None, Kind::Exists),
            (exception::FILE_ALREADY_EXISTS, Some(Detail::IsADirectory), Kind::IsADirectory),
            (exception::PARENT_NOT_DIRECTORY, None, Kind::NotADirectory),
            (exception::ACCESS_CONTROL, None, Kind::Denied),
            (exception::ACCESS_CONTROL, Some(Detail::NotADirectory), Kind::NotADirectory),
            (exception::PATH_IS_NOT_EMPTY_DIRECTORY, None, Kind::NotEmpty),
            (exception::RECOVERY_IN_PROGRESS, None, Kind::Busy),
            (exception::LEASE_EXPIRED, None, Kind::LeaseLost),
            (exception::SAFE_MODE, None, Kind::SafeMode),
            (exception::SPACE_QUOTA_EXCEEDED, None, Kind::QuotaExceeded),
            (exception::RPC_NO_SUCH_PROTOCOL, None, Kind::NotAMetadataServer),
            (exception::IO, None, Kind::Refused),
        ];
        let messages =
            ["", "reworded", "Path is not a file: /x", "/x already exists as a directory", "/x (is not a directory)"];
        for (class, detail, wanted) in refusals {
            for message in messages {
                let kind = Error::of_exception(class.into(), message, detail).kind();
                assert_eq!(kind, wanted, "{class} {detail:?} {message:?}");
            }
        }
    }
}
