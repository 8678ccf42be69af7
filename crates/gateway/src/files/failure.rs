//! Why a request is not answered with what it asks for: a status of HTTP, and a line of text.

use axum::http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use client::{Error, ErrorKind};

#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    text: String,
    header: Option<(HeaderName, String)>,
}

impl Failure {
    pub(super) fn new(status: StatusCode, text: &str) -> Self {
        Self { status, text: text.to_owned(), header: None }
    }

    pub(super) fn with(self, name: HeaderName, value: String) -> Self {
        Self { header: Some((name, value)), ..self }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => StatusCode::NOT_FOUND,
            ErrorKind::Denied => StatusCode::FORBIDDEN,
            ErrorKind::Invalid => StatusCode::BAD_REQUEST,
            ErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
            ErrorKind::Unreachable | ErrorKind::TimedOut | ErrorKind::TryAgain | ErrorKind::NoReplica => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            _ => StatusCode::BAD_GATEWAY,
        };
        let failure = Self::new(status, &error.to_string());
        match status {
            StatusCode::SERVICE_UNAVAILABLE => failure.with(RETRY_AFTER, "5".to_owned()),
            _ => failure,
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response =
            (self.status, [(CONTENT_TYPE, "text/plain; charset=utf-8")], self.text + "\n").into_response();
        if let Some((name, value)) = self.header
            && let Ok(value) = HeaderValue::from_str(&value)
        {
            response.headers_mut().insert(name, value);
        }
        response
    }
}
