//! Why a request is not answered with what it asks for.

use crate::codes::ErrorCode;
use std::borrow::Cow;

/// An error code, and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    pub code: ErrorCode,
    pub text: Cow<'static, str>,
}

impl Refusal {
    pub fn new(code: ErrorCode, text: impl Into<Cow<'static, str>>) -> Self {
        Self { code, text: text.into() }
    }
}
