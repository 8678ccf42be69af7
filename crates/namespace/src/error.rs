//! Why the namespace refuses, and the two ways a call can fail.

use crate::caller::Caller;
use types::FsPath;
use types::limits::{CHILDREN_COUNT_MAX, NAME_LEN_MAX};
use types::rows::RowsError;

/// What the namespace answers: the inner error is the caller's, the outer one this node's, which must then stop.
pub type Answer<T> = Result<Result<T, NsError>, RowsError>;

/// Why a call was refused. One variant for each thing a client does differently, that is for each class of exception
/// HDFS has; the text is the one HDFS sends, since tools and users know it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NsError {
    /// `java.io.FileNotFoundException`
    #[error("{0}")]
    NotFound(String),
    /// `java.io.FileNotFoundException` as well: a directory, where a file is needed.
    #[error("{0}")]
    IsDirectory(String),
    /// `org.apache.hadoop.fs.FileAlreadyExistsException`
    #[error("{0}")]
    AlreadyExists(String),
    /// The same class: a directory has the name that a file shall have.
    #[error("{0}")]
    ExistsAsDirectory(String),
    /// `org.apache.hadoop.fs.ParentNotDirectoryException`
    #[error("{0}")]
    ParentNotDirectory(String),
    /// `org.apache.hadoop.fs.PathIsNotEmptyDirectoryException`
    #[error("{0}")]
    NotEmpty(String),
    /// `org.apache.hadoop.fs.InvalidPathException`
    #[error("{0}")]
    InvalidPath(String),
    /// `org.apache.hadoop.security.AccessControlException`
    #[error("{0}")]
    AccessDenied(String),
    /// The same class, which Java's `exists` takes for "no": the path leads through a file.
    #[error("{0}")]
    ThroughFile(String),
    /// `org.apache.hadoop.ipc.RetriableException`: it depends on the caller's groups, which nobody could look up.
    #[error("{0} (the groups of the user are not known: the user database did not answer; try again)")]
    GroupsUnknown(String),
    /// `org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException`: the file is not open, or not by this client.
    #[error("{0}")]
    LeaseExpired(String),
    /// `org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException`
    #[error("{0}")]
    AlreadyBeingCreated(String),
    /// `org.apache.hadoop.hdfs.protocol.RecoveryInProgressException`: try again later.
    #[error("{0}")]
    RecoveryInProgress(String),
    /// `org.apache.hadoop.hdfs.protocol.FSLimitException$PathComponentTooLongException`
    #[error("{0}")]
    NameTooLong(String),
    /// `org.apache.hadoop.hdfs.protocol.FSLimitException$MaxDirectoryItemsExceededException`
    #[error("{0}")]
    TooManyChildren(String),
    /// `org.apache.hadoop.fs.PathIsNotDirectoryException`
    #[error("{0}")]
    NotDirectory(String),
    /// `org.apache.hadoop.hdfs.protocol.NSQuotaExceededException`
    #[error("{0}")]
    NameQuota(String),
    /// `org.apache.hadoop.hdfs.protocol.DSQuotaExceededException`
    #[error("{0}")]
    SpaceQuota(String),
    /// `org.apache.hadoop.hdfs.protocol.QuotaByStorageTypeExceededException`
    #[error("{0}")]
    TypeQuota(String),
    /// `org.apache.hadoop.fs.DirectoryListingStartAfterNotFoundException`
    #[error("{0}")]
    ListingStartGone(String),
    /// `org.apache.hadoop.hdfs.protocol.AclException`
    #[error("{0}")]
    Acl(String),
    /// The same, where HDFS's text names the path once more.
    #[error("{0}")]
    AclOfFile(String),
    /// `java.io.IOException` in HDFS up to 3.5, `org.apache.hadoop.hdfs.protocol.XAttrNotFoundException` since.
    #[error("{0}")]
    XattrNotFound(String),
    /// `org.apache.hadoop.HadoopIllegalArgumentException`
    #[error("{0}")]
    IllegalArgument(String),
    /// `org.apache.hadoop.hdfs.server.namenode.SafeModeException`. HDFS wraps one into a RetriableException only in the
    /// safe mode of its start, which ends by itself; there is none here.
    #[error(
        "{0}. Name node is in safe mode.\nIt was turned on manually. Use \"hdfs dfsadmin -safemode leave\" to turn safe mode off."
    )]
    SafeMode(String),
    /// Not for clients: the tree at this path is not the one that was examined before this was proposed. Whoever
    /// proposed it examines the new one.
    #[error("{0}")]
    NotExamined(String),
    /// `java.io.IOException`: everything that has no class of its own.
    #[error("{0}")]
    Other(String),
}

impl NsError {
    /// The caller has not the right. If the groups are not known nobody can tell: one may be that of the superusers.
    pub(crate) fn denied(caller: &Caller, message: String) -> Self {
        if caller.groups_known { Self::AccessDenied(message) } else { Self::GroupsUnknown(message) }
    }

    pub(crate) fn no_file(path: &FsPath) -> Self {
        Self::NotFound(format!("File does not exist: {path}"))
    }

    pub(crate) fn not_a_file(path: &FsPath) -> Self {
        Self::IsDirectory(format!("Path is not a file: {path}"))
    }

    pub(crate) fn invalid_path(path: &FsPath) -> Self {
        Self::InvalidPath(format!("{INVALID_PATH}{path}"))
    }

    pub(crate) fn too_many_children(path: &str) -> Self {
        Self::TooManyChildren(format!(
            "The directory item limit of {path} is exceeded: limit={CHILDREN_COUNT_MAX} items={}",
            CHILDREN_COUNT_MAX + 1
        ))
    }

    pub(crate) fn name_too_long(name: &str) -> Self {
        Self::NameTooLong(format!(
            "The maximum path component name limit of {name} in directory is exceeded: limit={NAME_LEN_MAX} length={}",
            name.len()
        ))
    }
}

/// What stands before a path that is none.
pub(crate) const INVALID_PATH: &str = "Invalid path name ";

/// Either failure, so that `?` serves both inside the crate. [`split`] parts them again at the door.
#[derive(Debug)]
pub(crate) enum Failure {
    Refused(NsError),
    Rows(RowsError),
}

impl From<NsError> for Failure {
    fn from(error: NsError) -> Self {
        Self::Refused(error)
    }
}

impl From<RowsError> for Failure {
    fn from(error: RowsError) -> Self {
        Self::Rows(error)
    }
}

pub(crate) fn split<T>(result: Result<T, Failure>) -> Answer<T> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(Failure::Refused(error)) => Ok(Err(error)),
        Err(Failure::Rows(error)) => Err(error),
    }
}

/// A row that contradicts another one: the state of this node is damaged.
pub(crate) fn corrupt(op: &'static str, reason: impl Into<String>) -> RowsError {
    RowsError { op, reason: reason.into() }
}
