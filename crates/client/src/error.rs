//! What can go wrong, told once, in the words a user of the command line reads.
//!
//! A message does not repeat the path: who asked knows it and puts it in front.

use hdfs::exception;
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
    #[error("permission denied: {0}")]
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
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

impl Error {
    /// What the user can do about it, where that is not plain.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Unreachable { .. } => Some("is the store running, and is the address right? see --url"),
            Self::TimedOut { .. } => Some("look at the server's log, and try again"),
            Self::Broken { .. } => Some(
                "look at the server's log, and try again; if the port is a datanode's, give the metadata server's, 8020 if nobody \
                 chose another",
            ),
            Self::Refused { class, .. } if class == hdfs::exception::RPC_NO_SUCH_PROTOCOL => Some(
                "that is no metadata server; if the port is a datanode's, give the metadata server's, 8020 if nobody chose another",
            ),
            Self::Refused { class, .. } if class == hdfs::exception::SAFE_MODE => {
                Some("an administrator wants nothing to change; `levada admin safemode wait` tells when it is over")
            }
            Self::Denied(_) => Some("choose the user with --user"),
            Self::Busy(_) => Some("wait for its writer to close it; a dead writer's file is freed after a minute"),
            Self::NoReplica { .. } => Some("are the datanodes running?"),
            Self::NoNodeLeft { .. } => Some(
                "are the datanodes running, and is there room on their disks? `levada admin datanode list` tells; start them, or delete \
                 files if the disks are full, then write the file again",
            ),
            Self::NotComplete => Some("try again; the datanodes may be overloaded"),
            _ => None,
        }
    }

    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound)
    }

    /// What a call to `addr` ended with, in our words.
    pub(crate) fn of_call(addr: &str, error: rpc::CallError) -> Self {
        let addr = addr.to_owned();
        match error {
            rpc::CallError::Remote { class, message } => Self::of_exception(class, &message),
            rpc::CallError::Connect(source) => Self::Unreachable { addr, source },
            rpc::CallError::TimedOut => Self::TimedOut { addr },
            rpc::CallError::Decode(reason) => Self::Protocol { addr, reason },
            rpc::CallError::Broken(reason) => Self::Broken { addr, reason },
        }
    }

    /// A Java exception of the server. The class decides; the first line of the message is for people, the rest is a
    /// stack trace.
    fn of_exception(class: String, message: &str) -> Self {
        let message = message.lines().next().unwrap_or_default().to_owned();
        match class.as_str() {
            exception::FILE_NOT_FOUND if message.starts_with("Path is not a file") => Self::IsADirectory,
            exception::FILE_NOT_FOUND => Self::NotFound,
            exception::FILE_ALREADY_EXISTS if message.contains("as a directory") => Self::IsADirectory,
            exception::FILE_ALREADY_EXISTS => Self::Exists,
            exception::PARENT_NOT_DIRECTORY => Self::NotADirectory,
            exception::PATH_IS_NOT_EMPTY_DIRECTORY => Self::NotEmpty,
            exception::ACCESS_CONTROL if message.ends_with("(is not a directory)") => Self::NotADirectory,
            exception::ACCESS_CONTROL => {
                Self::Denied(message.strip_prefix("Permission denied: ").unwrap_or(&message).to_owned())
            }
            exception::ALREADY_BEING_CREATED | exception::RECOVERY_IN_PROGRESS => Self::Busy(message),
            exception::LEASE_EXPIRED => Self::LeaseLost(message),
            _ => Self::Refused { class, message },
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
        let told = |class: &str, message: &str| Error::of_exception(class.into(), message).to_string();
        assert_eq!(
            told("java.io.FileNotFoundException", "File does not exist: /x\n\tat a.b"),
            "no such file or directory"
        );
        assert_eq!(told("java.io.FileNotFoundException", "Path is not a file: /x"), "is a directory");
        let denied = "Permission denied: user=a, access=WRITE, inode=\"/\":b:c:drwxr-xr-x";
        assert_eq!(
            told("org.apache.hadoop.security.AccessControlException", denied),
            "permission denied: user=a, access=WRITE, inode=\"/\":b:c:drwxr-xr-x"
        );
        assert_eq!(told("java.io.IOException", "of its own kind\n\tat x"), "of its own kind");
    }
}
