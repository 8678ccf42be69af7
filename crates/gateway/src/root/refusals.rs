//! What the store refuses, in the codes that clients of XRootD decide by.

use client::{Error, ErrorKind};
use xroot::{ErrorCode, Refusal};

pub(super) fn refusal(error: &Error) -> Refusal {
    let code = match error.kind() {
        ErrorKind::NotFound => ErrorCode::NotFound,
        ErrorKind::IsADirectory => ErrorCode::IsDirectory,
        ErrorKind::NotADirectory => ErrorCode::FsError,
        ErrorKind::Denied => ErrorCode::NotAuthorized,
        ErrorKind::Invalid => ErrorCode::ArgInvalid,
        ErrorKind::Unsupported => ErrorCode::Unsupported,
        // Clients ask again after a moment.
        ErrorKind::TryAgain => ErrorCode::Overloaded,
        ErrorKind::Internal => ErrorCode::ServerError,
        _ => ErrorCode::IoError,
    };
    Refusal::new(code, error.to_string())
}

/// Of bytes of a file that is open: that it is gone is no news of its path.
pub(super) fn of_read(error: &Error) -> Refusal {
    Refusal::new(ErrorCode::IoError, error.to_string())
}
