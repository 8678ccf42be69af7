//! What a call ends with that brings no response.

use hdfs::exception::Detail;

/// Why a call brought no response. Two variants differ only if the caller acts differently.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The server answered so: class and detail say what to do, and the message is for people. What keeps this client
    /// from logging in comes as a refusal as well.
    #[error("{class}: {message}")]
    Remote { class: String, message: String, detail: Option<Box<Detail>> },
    /// The call was certainly not sent: try another server, or again later.
    #[error("no connection: {0}")]
    Connect(#[source] std::io::Error),
    /// The call may or may not have happened. The next one connects again.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// As [`CallError::Broken`], and an answer that comes late is thrown away.
    #[error("no answer in time")]
    TimedOut,
    /// The server speaks another language: do not try again.
    #[error("the answer cannot be read: {0}")]
    Decode(String),
}

impl CallError {
    /// True if a server refused with this class.
    pub fn is_class(&self, wanted: &str) -> bool {
        matches!(self, Self::Remote { class, .. } if class == wanted)
    }
}
