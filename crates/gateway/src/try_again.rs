//! What is refused for a moment: every front has a word for that, upon which clients ask again.

use client::{Error, ErrorKind, Refusal};

pub(crate) fn try_again(message: &str) -> Error {
    let (class, message) = (hdfs::exception::RETRIABLE.to_owned(), message.to_owned());
    Error::Refused(Box::new(Refusal {
        kind: ErrorKind::TryAgain,
        class,
        message,
        path: None,
        limit: None,
        wanted: None,
    }))
}

/// It was replaced each time between two questions.
pub(crate) fn always_changing() -> Error {
    try_again("the file changes all the time; ask again later")
}
