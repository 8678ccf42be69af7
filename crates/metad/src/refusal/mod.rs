//! Conversion of our refusals to Java's exceptions: only this module knows HDFS's class and sentence for each.

mod detail;
mod safe_mode;
mod sentence;
#[cfg(test)]
mod sentence_tests;

use crate::change_error::ChangeError;
use crate::free_space::NoRoom;
use hdfs::Exception;
use hdfs::exception::{self as class, Kind};
use lead::PlaceError;
use namespace::NsError;
use namespace::error::held::Opening;
use namespace::error::limit::Limit;
use namespace::error::passed::Passed;
use namespace::error::xattr_fault::XattrFault;
use raft::RaftError;
use std::fmt;
use std::sync::OnceLock;
use types::limits::PATH_LEN_MAX;
use types::path::PathError;
use types::rows::RowsError;
use types::{BlockId, FsPath, NodeId};
use wire::node::NODE_REVOKED;

pub(crate) fn namespace(error: NsError) -> Exception {
    let sentence = sentence::of(&error);
    let message = match &error {
        NsError::SafeMode(_) => safe_mode_at_host(&sentence),
        _ => sentence,
    };
    Exception { detail: detail::of(&error).map(Box::new), ..Exception::new(class_of(&error), message) }
}

fn class_of(error: &NsError) -> &'static str {
    match error {
        NsError::NotFound(_) | NsError::IsDirectory(_) => class::FILE_NOT_FOUND,
        NsError::AlreadyExists(_) | NsError::ExistsAsDirectory { .. } => class::FILE_ALREADY_EXISTS,
        NsError::ParentNotDirectory { .. } => class::PARENT_NOT_DIRECTORY,
        NsError::NotEmpty(_) => class::PATH_IS_NOT_EMPTY_DIRECTORY,
        NsError::InvalidPath { .. } | NsError::UnusablePath(_) => class::INVALID_PATH,
        // Java's `exists` takes the class for "no" where the path leads through a file.
        NsError::AccessDenied(_) | NsError::ThroughFile { .. } => class::ACCESS_CONTROL,
        // Not a denial: on that no client tries again.
        NsError::GroupsUnknown(_) => class::RETRIABLE,
        NsError::LeaseExpired(_) => class::LEASE_EXPIRED,
        NsError::AlreadyBeingCreated(_) => class::ALREADY_BEING_CREATED,
        NsError::RecoveryInProgress(_) => class::RECOVERY_IN_PROGRESS,
        NsError::NameTooLong { .. } => class::NAME_TOO_LONG,
        NsError::TooManyChildren { .. } => class::DIRECTORY_FULL,
        NsError::NotDirectory(_) => class::PATH_IS_NOT_DIRECTORY,
        NsError::Quota { passed: Passed::Names { .. }, .. } => class::NAMESPACE_QUOTA_EXCEEDED,
        NsError::Quota { passed: Passed::Space { .. }, .. } => class::SPACE_QUOTA_EXCEEDED,
        NsError::Quota { passed: Passed::DiskSpace { .. }, .. } => class::TYPE_QUOTA_EXCEEDED,
        NsError::ListingStartGone => class::START_AFTER_NOT_FOUND,
        NsError::Acl { .. } => class::ACL,
        // `java.io.IOException` in HDFS up to 3.5; what tools that look for one attribute after the other catch.
        NsError::Xattr(XattrFault::NotFound) => class::XATTR_NOT_FOUND,
        NsError::Xattr(XattrFault::TooLong { .. } | XattrFault::NameLen)
        | NsError::Concat(_)
        | NsError::ReservedName(_) => class::HADOOP_ILLEGAL_ARGUMENT,
        NsError::Limit(limit) => match **limit {
            Limit::BlockLenMax { .. }
            | Limit::TruncateLen { .. }
            | Limit::PutLen { .. }
            | Limit::ReservedIds { .. }
            | Limit::HolderName(_)
            | Limit::OwnerNameLen { .. } => class::HADOOP_ILLEGAL_ARGUMENT,
            _ => class::IO,
        },
        // HDFS wraps one into a RetriableException only in the safe mode of its start, which ends by itself; there is
        // none here.
        NsError::SafeMode(_) => class::SAFE_MODE,
        NsError::Xattr(_)
        | NsError::Rename(_)
        | NsError::Block(_)
        | NsError::NotExamined(_)
        | NsError::Panicked { .. } => class::IO,
    }
}

/// Safe mode is on. `cannot` is the beginning of HDFS's sentence.
pub(crate) fn safe_mode(cannot: &str) -> Exception {
    let sentence = safe_mode_at_host(&format!("{cannot}. {}", safe_mode::IS_ON));
    Exception::new(class::SAFE_MODE, sentence).with_kind(Kind::SafeModeOn)
}

fn safe_mode_at_host(sentence: &str) -> String {
    format!("{sentence} NamenodeHostName:{}", host())
}

/// The recovery of a file that a client wants to open has begun: the client has to come back.
pub(crate) fn recovering(opening: Opening, path: &str, client: &str, client_host: &str) -> Exception {
    let sentence = sentence::recovering(opening, path, client, client_host);
    Exception::new(class::RECOVERY_IN_PROGRESS, sentence).with_kind(Kind::Busy)
}

/// Ids that a client claims are not on lease to it.
pub(crate) fn not_leased(block: BlockId, client: &str) -> Exception {
    let sentence = format!("{block} is not on lease to {client}; write the block again");
    Exception::new(class::LEASE_EXPIRED, sentence).with_kind(Kind::LeaseLost)
}

pub(crate) fn room(error: NoRoom) -> Exception {
    let NoRoom { free_len, reserve } = error;
    Exception::io(format!(
        "The metadata server has {free_len} bytes of disk space left, and keeps {reserve} in reserve \
         (free_reserve_len): it accepts only what deletes, renames or closes files until files are deleted, or its \
         disk has more space"
    ))
    .with_kind(Kind::NoSpace)
}

/// This machine's name: for a message that HDFS ends with it, and for `_HOST` in Kerberos names.
pub(crate) fn host() -> &'static str {
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
        PathError::TooLong => Exception::io(format!("{call}: {}", sentence::path(&error))),
        PathError::NameTooLong { .. } => Exception::new(class::NAME_TOO_LONG, sentence::path(&error)),
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
            // Two calls give only the cause; HDFS wraps the others' messages in another one.
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

/// A fault of this server. The details go to its log, not to callers.
pub(crate) fn rows(error: RowsError) -> Exception {
    tracing::error!(%error, "store read failed");
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
        ChangeError::NoRoom(error) => room(error),
        ChangeError::Raft(error) => raft(error),
    }
}

pub(crate) fn raft(error: RaftError) -> Exception {
    match error {
        RaftError::NotLeader { .. } => return Exception::new(class::STANDBY, error.to_string()),
        RaftError::TooLong { .. } => return illegal(error.to_string()),
        RaftError::Doubt { .. } | RaftError::Level { .. } => return Exception::io(error.to_string()),
        // The reason was logged when it stopped; directories of this machine are not for callers.
        RaftError::Stopped { .. } => {
            tracing::error!(%error, "change not accepted");
            return Exception::io(
                "this metadata server has stopped, and its messages (stderr) say why; ask another one, or start it \
                 again",
            );
        }
        _ => {}
    }
    tracing::error!(%error, "change not accepted");
    Exception::io("this metadata server cannot take a change at present; its messages (stderr) say why")
}

pub(crate) fn denied(message: impl Into<String>) -> Exception {
    Exception::new(class::ACCESS_CONTROL, message)
}

/// Of a datanode whose certificate does not count any more. It ends the connection: no later call over it counts.
pub(crate) fn revoked(node: NodeId) -> Exception {
    let message = format!(
        "the certificate of datanode {node} was revoked: it needs another one, by an invitation for this datanode"
    );
    Exception::unauthorized(NODE_REVOKED, message)
}

pub(crate) fn path_is_not_directory(path: &str) -> Exception {
    Exception::new(class::PATH_IS_NOT_DIRECTORY, format!("`{path}': Is not a directory"))
}

/// For `hdfs balancer` and `hdfs mover`, which print the sentence as it is: they know no kinds.
pub(crate) fn balances_itself() -> Exception {
    let sentence = "replicas are moved by the store itself: see `levada admin balance`";
    Exception::new(class::UNSUPPORTED_OPERATION, sentence)
}

pub(crate) fn illegal(message: impl Into<String>) -> Exception {
    Exception::new(class::ILLEGAL_ARGUMENT, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use namespace::error::absent::{Absent, Existing};
    use namespace::error::denial::Denial;

    #[test]
    fn class_and_detail_follow_from_the_error() {
        let check = |error: NsError, class: &str, kind: Kind| {
            let refusal = namespace(error.clone());
            let found = refusal.detail.and_then(|detail| detail.known_kind());
            assert_eq!((refusal.class, found), (class, Some(kind)), "{error:?}");
        };
        let path = || FsPath::parse("/d").unwrap();
        check(NsError::NotFound(Absent::Path(path())), class::FILE_NOT_FOUND, Kind::NotFound);
        check(NsError::IsDirectory(path()), class::FILE_NOT_FOUND, Kind::IsADirectory);
        check(NsError::AlreadyExists(Existing::RenameTarget(path())), class::FILE_ALREADY_EXISTS, Kind::AlreadyExists);
        for append in [false, true] {
            let exists = NsError::ExistsAsDirectory { path: path(), append };
            check(exists, class::FILE_ALREADY_EXISTS, Kind::IsADirectory);
        }
        let denial = Box::new(Denial::NewOwner { user: "bob".into() });
        check(NsError::AccessDenied(denial.clone()), class::ACCESS_CONTROL, Kind::PermissionDenied);
        check(NsError::GroupsUnknown(denial), class::RETRIABLE, Kind::TryAgain);
        check(NsError::ThroughFile { path: "/f".into() }, class::ACCESS_CONTROL, Kind::NotADirectory);
    }
}
