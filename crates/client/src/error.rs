//! What can go wrong.
//!
//! Promise: [`Error::kind`] follows from the kind that our own servers add to a refusal, or else from its class, never
//! from a message (`a_kind_does_not_depend_on_the_message`). A message does not repeat the path: the caller knows it
//! and puts it in front.

use hdfs::exception::{self, Detail, Kind};
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
    #[error("the lease on the file was lost: {0}")]
    LeaseLost(String),
    /// The server said no, for a reason that has no variant of its own.
    #[error("{}", _0.message)]
    Refused(Box<Refusal>),
    /// The server did nothing, and did not say why.
    #[error("{0}")]
    NotDone(&'static str),
    #[error("{0}")]
    Invalid(String),
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
    /// The server has no node for a block but those that did not take it.
    #[error("{refusal} Excluded was what failed: {tried}")]
    NoOtherNode { refusal: Box<Error>, tried: String },
    #[error("the file could not be completed: its last block has no whole replica yet")]
    NotComplete,
    #[error("{0} is not supported")]
    Unsupported(&'static str),
    #[error("the store was closed")]
    Closed,
    #[error("this process was forked from the one that opened the store; open it again here")]
    Forked,
    #[error("internal error: {0}; see the log")]
    Internal(String),
}

/// A refusal, with what the server says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub kind: ErrorKind,
    /// HDFS's class.
    pub class: String,
    /// For people.
    pub message: String,
    /// What it is about, where that is not what was asked for: the directory of a quota.
    pub path: Option<String>,
    /// The limit, and what the request would come to.
    pub limit: Option<u64>,
    pub wanted: Option<u64>,
}

/// The text of the system without Rust's "(os error 111)", in the lower case that errors have.
pub fn reason_of(error: &io::Error) -> String {
    let text = error.to_string();
    uncapitalized(text.split(" (os error").next().unwrap_or_default())
}

fn uncapitalized(text: &str) -> String {
    let mut letters = text.chars();
    let Some(first) = letters.next() else { return String::new() };
    if letters.clone().next().is_some_and(char::is_uppercase) {
        return text.to_owned(); // an abbreviation
    }
    first.to_lowercase().chain(letters).collect()
}

/// What an error is, without its facts: what programs and other languages decide by.
///
/// Stable: kinds may be added, as the enum is not exhaustive, but none is removed or renamed, and none changes its
/// meaning.
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
    /// The request contradicts what the server has recorded.
    Conflict,
    /// The server has no space for a change.
    NoSpace,
    /// The same request may pass later.
    TryAgain,
    /// No datanode has the name, or several have it.
    NoSuchDatanode,
    NoSuchJob,
    /// What answered is no metadata server.
    NotAMetadataServer,
    /// The server refused, for a reason that has no kind of its own.
    Refused,
    /// The address of a store, a path, a name or a number that may not be.
    Invalid,
    Unreachable,
    TimedOut,
    Broken,
    Protocol,
    NoReplica,
    NoNodeLeft,
    NotComplete,
    Unsupported,
    /// [`Store::close`](crate::Store::close) was called.
    Closed,
    /// The store was opened by the process that this one was forked from.
    Forked,
    /// A fault of this library.
    Internal,
}

impl ErrorKind {
    /// All of them, for who maps them to what another language has.
    pub const ALL: [Self; 29] = [
        Self::NotFound,
        Self::Exists,
        Self::IsADirectory,
        Self::NotADirectory,
        Self::NotEmpty,
        Self::Denied,
        Self::Busy,
        Self::LeaseLost,
        Self::SafeMode,
        Self::QuotaExceeded,
        Self::Conflict,
        Self::NoSpace,
        Self::TryAgain,
        Self::NoSuchDatanode,
        Self::NoSuchJob,
        Self::NotAMetadataServer,
        Self::Refused,
        Self::Invalid,
        Self::Unreachable,
        Self::TimedOut,
        Self::Broken,
        Self::Protocol,
        Self::NoReplica,
        Self::NoNodeLeft,
        Self::NotComplete,
        Self::Unsupported,
        Self::Closed,
        Self::Forked,
        Self::Internal,
    ];
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
            Self::Refused(refusal) => refusal.kind,
            Self::NotDone(_) => ErrorKind::Refused,
            Self::Url { .. } | Self::Path(_) | Self::Invalid(_) => ErrorKind::Invalid,
            Self::Unreachable { .. } => ErrorKind::Unreachable,
            Self::TimedOut { .. } => ErrorKind::TimedOut,
            Self::Broken { .. } => ErrorKind::Broken,
            Self::Protocol { .. } => ErrorKind::Protocol,
            Self::NoReplica { .. } => ErrorKind::NoReplica,
            Self::NoNodeLeft { .. } => ErrorKind::NoNodeLeft,
            Self::NoOtherNode { refusal, .. } => refusal.kind(),
            Self::NotComplete => ErrorKind::NotComplete,
            Self::Unsupported(_) => ErrorKind::Unsupported,
            Self::Closed => ErrorKind::Closed,
            Self::Forked => ErrorKind::Forked,
            Self::Internal(_) => ErrorKind::Internal,
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

    /// A refusal of the server. Of its message the first line is for people, the rest is a stack trace.
    fn of_exception(class: String, message: &str, detail: Option<Box<Detail>>) -> Self {
        let message = message.lines().next().unwrap_or_default().to_owned();
        let detail = detail.map(|detail| *detail).unwrap_or_default();
        let kind = detail.known_kind().map_or_else(|| kind_of_class(&class), kind_of_detail);
        match kind {
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::Exists => Self::Exists,
            ErrorKind::IsADirectory => Self::IsADirectory,
            ErrorKind::NotADirectory => Self::NotADirectory,
            ErrorKind::NotEmpty => Self::NotEmpty,
            ErrorKind::Denied => Self::Denied(message),
            ErrorKind::Busy => Self::Busy(message),
            ErrorKind::LeaseLost => Self::LeaseLost(message),
            kind => {
                let Detail { path, limit, wanted, .. } = detail;
                Self::Refused(Box::new(Refusal { kind, class, message, path, limit, wanted }))
            }
        }
    }

    /// True if the server refused with this class, for the few that only one call can be told.
    pub(crate) fn is_class(&self, wanted: &str) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.class == wanted)
    }
}

fn kind_of_detail(kind: Kind) -> ErrorKind {
    match kind {
        Kind::IsADirectory => ErrorKind::IsADirectory,
        Kind::NotADirectory => ErrorKind::NotADirectory,
        Kind::NotFound => ErrorKind::NotFound,
        Kind::AlreadyExists => ErrorKind::Exists,
        Kind::NotEmpty => ErrorKind::NotEmpty,
        Kind::PermissionDenied => ErrorKind::Denied,
        Kind::Busy => ErrorKind::Busy,
        Kind::LeaseLost => ErrorKind::LeaseLost,
        Kind::SafeModeOn => ErrorKind::SafeMode,
        Kind::QuotaExceeded => ErrorKind::QuotaExceeded,
        Kind::InvalidRequest => ErrorKind::Invalid,
        Kind::Conflict => ErrorKind::Conflict,
        Kind::NoSpace => ErrorKind::NoSpace,
        Kind::TryAgain => ErrorKind::TryAgain,
        Kind::NoSuchDatanode => ErrorKind::NoSuchDatanode,
        Kind::NoSuchJob => ErrorKind::NoSuchJob,
    }
}

/// Of an HDFS server, or of one of ours that is newer and has more kinds.
fn kind_of_class(class: &str) -> ErrorKind {
    match class {
        exception::FILE_NOT_FOUND => ErrorKind::NotFound,
        exception::FILE_ALREADY_EXISTS => ErrorKind::Exists,
        exception::PARENT_NOT_DIRECTORY => ErrorKind::NotADirectory,
        exception::PATH_IS_NOT_EMPTY_DIRECTORY => ErrorKind::NotEmpty,
        exception::ACCESS_CONTROL | exception::AUTHORIZATION => ErrorKind::Denied,
        exception::ALREADY_BEING_CREATED | exception::RECOVERY_IN_PROGRESS => ErrorKind::Busy,
        exception::LEASE_EXPIRED => ErrorKind::LeaseLost,
        exception::SAFE_MODE => ErrorKind::SafeMode,
        exception::RETRIABLE => ErrorKind::TryAgain,
        exception::RPC_NO_SUCH_PROTOCOL => ErrorKind::NotAMetadataServer,
        exception::NAMESPACE_QUOTA_EXCEEDED | exception::SPACE_QUOTA_EXCEEDED | exception::TYPE_QUOTA_EXCEEDED => {
            ErrorKind::QuotaExceeded
        }
        exception::ILLEGAL_ARGUMENT
        | exception::HADOOP_ILLEGAL_ARGUMENT
        | exception::INVALID_PATH
        | exception::NAME_TOO_LONG
        | exception::DIRECTORY_FULL => ErrorKind::Invalid,
        _ => ErrorKind::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abbreviations_keep_their_letters() {
        for (said, shown) in [("Permission denied", "permission denied"), ("SIMPLE is off", "SIMPLE is off"), ("", "")]
        {
            assert_eq!(uncapitalized(said), shown);
        }
    }

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
        let refusals = [
            (exception::FILE_NOT_FOUND, None, ErrorKind::NotFound),
            (exception::FILE_NOT_FOUND, Some(Kind::IsADirectory), ErrorKind::IsADirectory),
            (exception::FILE_ALREADY_EXISTS, None, ErrorKind::Exists),
            (exception::FILE_ALREADY_EXISTS, Some(Kind::IsADirectory), ErrorKind::IsADirectory),
            (exception::PARENT_NOT_DIRECTORY, None, ErrorKind::NotADirectory),
            (exception::ACCESS_CONTROL, None, ErrorKind::Denied),
            (exception::ACCESS_CONTROL, Some(Kind::NotADirectory), ErrorKind::NotADirectory),
            (exception::PATH_IS_NOT_EMPTY_DIRECTORY, None, ErrorKind::NotEmpty),
            (exception::RECOVERY_IN_PROGRESS, None, ErrorKind::Busy),
            (exception::LEASE_EXPIRED, None, ErrorKind::LeaseLost),
            (exception::SAFE_MODE, None, ErrorKind::SafeMode),
            (exception::SPACE_QUOTA_EXCEEDED, None, ErrorKind::QuotaExceeded),
            (exception::RPC_NO_SUCH_PROTOCOL, None, ErrorKind::NotAMetadataServer),
            (exception::IO, None, ErrorKind::Refused),
            (exception::IO, Some(Kind::NoSpace), ErrorKind::NoSpace),
            (exception::IO, Some(Kind::Conflict), ErrorKind::Conflict),
            (exception::ILLEGAL_ARGUMENT, None, ErrorKind::Invalid),
            (exception::ILLEGAL_ARGUMENT, Some(Kind::NoSuchDatanode), ErrorKind::NoSuchDatanode),
            (exception::ILLEGAL_ARGUMENT, Some(Kind::NoSuchJob), ErrorKind::NoSuchJob),
        ];
        let messages =
            ["", "reworded", "Path is not a file: /x", "/x already exists as a directory", "/x (is not a directory)"];
        for (class, detail, wanted) in refusals {
            for message in messages {
                let kind =
                    Error::of_exception(class.into(), message, detail.map(|kind| Box::new(Detail::of(kind)))).kind();
                assert_eq!(kind, wanted, "{class} {detail:?} {message:?}");
            }
        }
    }

    /// What each kind stands for. A kind that is added needs a line here, or this does not compile.
    fn example(kind: ErrorKind) -> Error {
        let refused = |detail| Error::of_exception(exception::IO.into(), "", Some(Box::new(Detail::of(detail))));
        let of_class = |class: &str| Error::of_exception(class.into(), "", None);
        let of_call = |error| Error::of_call("h:1", error);
        match kind {
            ErrorKind::NotFound => refused(Kind::NotFound),
            ErrorKind::Exists => refused(Kind::AlreadyExists),
            ErrorKind::IsADirectory => refused(Kind::IsADirectory),
            ErrorKind::NotADirectory => refused(Kind::NotADirectory),
            ErrorKind::NotEmpty => refused(Kind::NotEmpty),
            ErrorKind::Denied => refused(Kind::PermissionDenied),
            ErrorKind::Busy => refused(Kind::Busy),
            ErrorKind::LeaseLost => refused(Kind::LeaseLost),
            ErrorKind::SafeMode => refused(Kind::SafeModeOn),
            ErrorKind::QuotaExceeded => refused(Kind::QuotaExceeded),
            ErrorKind::Conflict => refused(Kind::Conflict),
            ErrorKind::NoSpace => refused(Kind::NoSpace),
            ErrorKind::TryAgain => refused(Kind::TryAgain),
            ErrorKind::NoSuchDatanode => refused(Kind::NoSuchDatanode),
            ErrorKind::NoSuchJob => refused(Kind::NoSuchJob),
            ErrorKind::NotAMetadataServer => of_class(exception::RPC_NO_SUCH_PROTOCOL),
            ErrorKind::Refused => of_class("a.class.that.nobody.Knows"),
            ErrorKind::Invalid => refused(Kind::InvalidRequest),
            ErrorKind::Unreachable => of_call(rpc::CallError::Connect(io::ErrorKind::ConnectionRefused.into())),
            ErrorKind::TimedOut => of_call(rpc::CallError::TimedOut),
            ErrorKind::Broken => of_call(rpc::CallError::Broken("it was closed".into())),
            ErrorKind::Protocol => of_call(rpc::CallError::Decode("no message".into())),
            ErrorKind::NoReplica => Error::NoReplica { block: 1, tried: String::new() },
            ErrorKind::NoNodeLeft => Error::NoNodeLeft { block: 1, tried: String::new() },
            ErrorKind::NotComplete => Error::NotComplete,
            ErrorKind::Unsupported => Error::Unsupported("this"),
            ErrorKind::Closed => Error::Closed,
            ErrorKind::Forked => Error::Forked,
            ErrorKind::Internal => Error::Internal("the task panicked".into()),
        }
    }

    #[test]
    fn each_kind_comes_from_what_it_stands_for() {
        let kinds = ErrorKind::ALL;
        assert!(kinds.iter().all(|kind| example(*kind).kind() == *kind));
        // A text for people, that begins as one in the middle of a sentence does.
        let told = kinds.map(|kind| example(kind).to_string());
        assert!(told.iter().all(|text| text.chars().next().is_none_or(|first| !first.is_uppercase())), "{told:?}");
    }

    #[test]
    fn an_unknown_kind_leaves_the_class_and_facts_are_kept() {
        let detail = Detail { kind: Some(4711), limit: Some(3), wanted: Some(4), ..Detail::default() };
        let error = Error::of_exception(exception::SPACE_QUOTA_EXCEEDED.into(), "", Some(Box::new(detail)));
        let Error::Refused(refusal) = error else { panic!("{error:?}") };
        assert_eq!((refusal.kind, refusal.limit, refusal.wanted), (ErrorKind::QuotaExceeded, Some(3), Some(4)));
    }
}
