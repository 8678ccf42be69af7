//! Why a request was not answered as asked.

use super::outbox::Gone;
use super::refusals::refusal;
use client::Error;
use xroot::Refusal;

/// Why a request was not answered as asked.
#[derive(Debug)]
pub(super) enum NotDone {
    Refused(Refusal),
    /// Nobody is there to be told.
    Gone,
}

impl From<Refusal> for NotDone {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Gone> for NotDone {
    fn from(Gone: Gone) -> Self {
        Self::Gone
    }
}

impl From<Error> for NotDone {
    fn from(error: Error) -> Self {
        Self::Refused(refusal(&error))
    }
}
