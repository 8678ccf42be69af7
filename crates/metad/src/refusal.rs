//! From our refusals to Java's exceptions: the one place that knows which class stands for what.

use crate::change_error::ChangeError;
use hdfs::Exception;
use hdfs::exception::{self as class, Detail};
use lead::PlaceError;
use namespace::NsError;
use raft::RaftError;
use std::fmt;
use std::sync::OnceLock;
use types::limits::PATH_LEN_MAX;
use types::path::PathError;
use types::rows::RowsError;
use types::{BlockId, FsPath};

pub(crate) fn namespace(error: NsError) -> Exception {
    let name = match &error {
        NsError::NotFound(_) | NsError::IsDirectory(_) => class::FILE_NOT_FOUND,
        NsError::AlreadyExists(_) | NsError::ExistsAsDirectory(_) => class::FILE_ALREADY_EXISTS,
        NsError::ParentNotDirectory(_) => class::PARENT_NOT_DIRECTORY,
        NsError::NotEmpty(_) => class::PATH_IS_NOT_EMPTY_DIRECTORY,
        NsError::InvalidPath(_) => class::INVALID_PATH,
        NsError::AccessDenied(_) | NsError::ThroughFile(_) => class::ACCESS_CONTROL,
        // Not a denial: on that no client tries again.
        NsError::GroupsUnknown(_) => class::RETRIABLE,
        NsError::LeaseExpired(_) => class::LEASE_EXPIRED,
        NsError::AlreadyBeingCreated(_) => class::ALREADY_BEING_CREATED,
        NsError::RecoveryInProgress(_) => class::RECOVERY_IN_PROGRESS,
        NsError::NameTooLong(_) => class::NAME_TOO_LONG,
        NsError::TooManyChildren(_) => class::DIRECTORY_FULL,
        NsError::NotDirectory(_) => class::PATH_IS_NOT_DIRECTORY,
        NsError::NameQuota(_) => class::NAMESPACE_QUOTA_EXCEEDED,
        NsError::SpaceQuota(_) => class::SPACE_QUOTA_EXCEEDED,
        NsError::TypeQuota(_) => class::TYPE_QUOTA_EXCEEDED,
        NsError::ListingStartGone(_) => class::START_AFTER_NOT_FOUND,
        NsError::Acl(_) | NsError::AclOfFile(_) => class::ACL,
        // What tools that look for one attribute after the other catch.
        NsError::XattrNotFound(_) => class::XATTR_NOT_FOUND,
        NsError::IllegalArgument(_) => class::HADOOP_ILLEGAL_ARGUMENT,
        NsError::SafeMode(_) => {
            return Exception::new(class::SAFE_MODE, format!("{error} NamenodeHostName:{}", host()));
        }
        NsError::NotExamined(_) | NsError::Other(_) => class::IO,
    };
    Exception { detail: detail(&error), ..Exception::new(name, error.to_string()) }
}

/// What our own clients tell apart, and HDFS's classes do not.
fn detail(error: &NsError) -> Option<Detail> {
    match error {
        NsError::IsDirectory(_) | NsError::ExistsAsDirectory(_) => Some(Detail::IsADirectory),
        NsError::ThroughFile(_) => Some(Detail::NotADirectory),
        _ => None,
    }
}

/// This machine's name, for a message that HDFS ends with it.
fn host() -> &'static str {
    static HOST: OnceLock<String> = OnceLock::new();
    HOST.get_or_init(|| {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        name.trim().to_owned()
    })
}

/// A text that names nothing, in a call that looks something up. `call` is HDFS's name of the method, which stands
/// before some messages.
pub(crate) fn no_path(call: &str, text: &str, error: PathError) -> Exception {
    match error {
        PathError::TooLong => Exception::io(format!("{call}: {error}")),
        PathError::NameTooLong { .. } => Exception::new(class::NAME_TOO_LONG, error.to_string()),
        PathError::Relative { .. } | PathError::Component { .. } => {
            Exception::new(class::ASSERTION, format!("Absolute path required, but got '{}'", beginning(text)))
        }
    }
}

/// A text that can be no new name.
pub(crate) fn no_new_path(call: &str, text: &str, error: PathError) -> Exception {
    match error {
        PathError::Relative { .. } if text.is_empty() => illegal("Can not create a Path from an empty string"),
        PathError::Relative { .. } | PathError::Component { .. } => {
            // Two calls say only what is wrong; the others in HDFS put one message into the other.
            let what = if matches!(call, "create" | "putFile") { "" } else { "Invalid file name: " };
            Exception::new(class::INVALID_PATH, format!("Invalid path name {what}{}", beginning(text)))
        }
        PathError::TooLong | PathError::NameTooLong { .. } => no_path(call, text, error),
    }
}

/// As much of it as a path may have.
fn beginning(text: &str) -> String {
    text.chars().take(PATH_LEN_MAX).collect()
}

/// What nodes are to be found for.
#[derive(Clone, Copy)]
pub(crate) enum Placed<'a> {
    File(&'a FsPath),
    Chain(BlockId),
}

impl fmt::Display for Placed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "File {path}"),
            Self::Chain(block) => write!(f, "The chain of {block}"),
        }
    }
}

pub(crate) fn place(what: Placed<'_>, error: PlaceError) -> Exception {
    match error {
        PlaceError::NoNodes { .. } => Exception::io(format!("{what} {error}")),
        PlaceError::UnknownNode(_) => Exception::io(error.to_string()),
    }
}

/// A fault of this node. What is wrong exactly goes to its log, not to strangers.
pub(crate) fn rows(error: RowsError) -> Exception {
    tracing::error!(%error, "the store cannot be read");
    Exception::io("the metadata server cannot read its store; its messages (stderr) say why")
}

/// Clients that know several servers try the next one.
pub(crate) fn standby(leader: Option<&str>) -> Exception {
    let leader = leader.map_or_else(String::new, |leader| format!("; {leader} leads"));
    Exception::new(class::STANDBY, format!("this metadata server stands by{leader}"))
}

pub(crate) fn change(error: ChangeError) -> Exception {
    match error {
        ChangeError::Refused(refused) => namespace(refused),
        ChangeError::Raft(error) => raft(error),
    }
}

pub(crate) fn raft(error: RaftError) -> Exception {
    match error {
        RaftError::NotLeader { .. } => return Exception::new(class::STANDBY, error.to_string()),
        RaftError::TooLong { .. } => return illegal(error.to_string()),
        RaftError::Doubt { .. } | RaftError::Level { .. } => return Exception::io(error.to_string()),
        // Why it has stopped was said when it did; directories of this machine are nobody else's business.
        RaftError::Stopped { .. } => {
            tracing::error!(%error, "a change was not taken");
            return Exception::io(
                "this metadata server has stopped, and its messages (stderr) say why; ask another one, or start it \
                 again",
            );
        }
        _ => {}
    }
    tracing::error!(%error, "a change was not taken");
    Exception::io("this metadata server cannot take a change at present; its messages (stderr) say why")
}

pub(crate) fn denied(message: impl Into<String>) -> Exception {
    Exception::new(class::ACCESS_CONTROL, message)
}

pub(crate) fn path_is_not_directory(path: &str) -> Exception {
    Exception::new(class::PATH_IS_NOT_DIRECTORY, format!("`{path}': Is not a directory"))
}

pub(crate) fn illegal(message: impl Into<String>) -> Exception {
    Exception::new(class::ILLEGAL_ARGUMENT, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Class and detail follow from the variant; the text is for people.
    #[test]
    fn a_detail_does_not_depend_on_the_text() {
        for text in ["", "reworded", "Path is not a file: /x", "/x (is not a directory)"] {
            let told = |error: fn(String) -> NsError| {
                let refusal = namespace(error(text.into()));
                (refusal.class, refusal.detail)
            };
            assert_eq!(told(NsError::NotFound), (class::FILE_NOT_FOUND, None));
            assert_eq!(told(NsError::IsDirectory), (class::FILE_NOT_FOUND, Some(Detail::IsADirectory)));
            assert_eq!(told(NsError::AlreadyExists), (class::FILE_ALREADY_EXISTS, None));
            assert_eq!(told(NsError::ExistsAsDirectory), (class::FILE_ALREADY_EXISTS, Some(Detail::IsADirectory)));
            assert_eq!(told(NsError::AccessDenied), (class::ACCESS_CONTROL, None));
            assert_eq!(told(NsError::ThroughFile), (class::ACCESS_CONTROL, Some(Detail::NotADirectory)));
        }
    }
}
