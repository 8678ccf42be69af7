//! Kind and facts of a refusal, by which our own clients decide. HDFS's clients use the class.

use hdfs::exception::{Detail, Kind};
use namespace::NsError;
use namespace::error::limit::Limit;
use namespace::error::passed::Passed;
use namespace::error::rename_fault::RenameFault;
use namespace::error::xattr_fault::XattrFault;
use types::limits::{BLOCK_LEN_MAX, CHILDREN_COUNT_MAX, NAME_LEN_MAX, PATH_LEN_MAX, REPLICATION_MAX};

/// `None`: an internal error, which no client can do anything about.
pub(super) fn of(error: &NsError) -> Option<Detail> {
    let numbers = numbers(error);
    if let (NsError::Quota { .. }, Some((limit, wanted))) = (error, numbers) {
        assert!(wanted > limit, "{error:?} is not passed");
    }
    let (limit, wanted) = numbers.unzip();
    let path = path(error).filter(|path| path.len() <= PATH_LEN_MAX).map(Into::into);
    Some(Detail { path, limit, wanted, ..Detail::of(kind(error)?) })
}

fn kind(error: &NsError) -> Option<Kind> {
    Some(match error {
        NsError::NotFound(_) => Kind::NotFound,
        NsError::IsDirectory(_) | NsError::ExistsAsDirectory { .. } => Kind::IsADirectory,
        NsError::AlreadyExists(_) => Kind::AlreadyExists,
        NsError::ParentNotDirectory { .. } | NsError::ThroughFile { .. } | NsError::NotDirectory(_) => {
            Kind::NotADirectory
        }
        NsError::NotEmpty(_) => Kind::NotEmpty,
        NsError::AccessDenied(_) => Kind::PermissionDenied,
        NsError::GroupsUnknown(_) | NsError::NotExamined(_) => Kind::TryAgain,
        NsError::LeaseExpired(_) => Kind::LeaseLost,
        NsError::AlreadyBeingCreated(_) | NsError::RecoveryInProgress(_) => Kind::Busy,
        NsError::Quota { .. } => Kind::QuotaExceeded,
        NsError::SafeMode(_) => Kind::SafeModeOn,
        NsError::Rename(fault) if matches!(**fault, RenameFault::TargetNotEmpty(_)) => Kind::NotEmpty,
        NsError::Xattr(
            XattrFault::NotFound | XattrFault::NotThereToRemove | XattrFault::Exists(_) | XattrFault::Missing(_),
        )
        | NsError::ListingStartGone
        | NsError::Block(_) => Kind::Conflict,
        NsError::Rename(fault) if matches!(**fault, RenameFault::OtherTarget(_)) => Kind::Conflict,
        NsError::InvalidPath { .. }
        | NsError::UnusablePath(_)
        | NsError::ReservedName(_)
        | NsError::NameTooLong { .. }
        | NsError::TooManyChildren { .. }
        | NsError::Acl { .. }
        | NsError::Xattr(_)
        | NsError::Rename(_)
        | NsError::Concat(_)
        | NsError::Limit(_) => Kind::InvalidRequest,
        NsError::Panicked { .. } => return None,
    })
}

/// Where it is not the path that the client has asked for.
fn path(error: &NsError) -> Option<&str> {
    match error {
        NsError::ParentNotDirectory { path }
        | NsError::ThroughFile { path }
        | NsError::TooManyChildren { path }
        | NsError::Quota { path, .. } => Some(path),
        _ => None,
    }
}

/// The limit, and what the request would come to.
fn numbers(error: &NsError) -> Option<(u64, u64)> {
    let number = |bytes: u128| u64::try_from(bytes).unwrap_or(u64::MAX);
    Some(match error {
        NsError::Quota { passed: Passed::Names { limit, count }, .. } => (*limit, *count),
        NsError::Quota { passed: Passed::Space { limit, space } | Passed::DiskSpace { limit, space }, .. } => {
            (*limit, number(*space))
        }
        NsError::NameTooLong { name } => (NAME_LEN_MAX as u64, name.len() as u64),
        NsError::TooManyChildren { .. } => (CHILDREN_COUNT_MAX.into(), u64::from(CHILDREN_COUNT_MAX) + 1),
        NsError::Limit(limit) => match **limit {
            Limit::Replication { replication, .. } => (REPLICATION_MAX.into(), replication.into()),
            Limit::BlockLenMin { len, min } => (min, len),
            Limit::BlockLenMax { len } | Limit::WrittenLen { len } => (BLOCK_LEN_MAX, len),
            Limit::PutLen { len, block_len } => (block_len, len),
            _ => return None,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_has_the_facts_that_its_sentence_has() {
        let passed = Passed::Space { limit: 350, space: 400 };
        let detail = of(&NsError::Quota { path: "/q".into(), passed }).unwrap();
        assert_eq!(detail.known_kind(), Some(Kind::QuotaExceeded));
        assert_eq!((detail.path(), detail.limit, detail.wanted), ("/q", Some(350), Some(400)));
        let file = of(&NsError::ThroughFile { path: "/f".into() }).unwrap();
        assert_eq!((file.known_kind(), file.path(), file.limit), (Some(Kind::NotADirectory), "/f", None));
    }

    #[test]
    fn a_path_has_a_bound() {
        let deep = NsError::ThroughFile { path: "/d".repeat(PATH_LEN_MAX) };
        assert_eq!(of(&deep).unwrap().path, None);
    }
}
