//! The answer that every operation gets first: all is well, or why not.
//!
//! ```text
//! IN_PROGRESS · IN_PROGRESS · … · SUCCESS, with what the operation brings      or a refusal; then the node closes
//! └─ keepalives of our own nodes ┘
//! ```
//!
//! Promise: an answer takes no more memory than [`LEN_MAX`] before it is understood. How long it may take is the
//! business of whoever awaits it.

use hdfs::proto::BlockOpResponseProto;
use wire::{Status, WireError, delimited};

/// An answer is a few hundred bytes; an error text may be longer. A guess, far above both.
pub const LEN_MAX: usize = 64 << 10;

/// Texts of an answer are cut to so many bytes: they may repeat what the asker sent, and wait until it takes them. Both
/// fit into [`LEN_MAX`]. A guess.
pub const TEXT_LEN_MAX: usize = 4 << 10;

/// What an operation brings that is done.
pub type Answered = BlockOpResponseProto;

/// Why a node does not do what it was asked: it is sent as the answer, and is what an answer that is none means.
///
/// It is no error itself, so that every error can become one by `?`: the asker gets its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: Status,
    /// `ip:port` of the node of a chain that is to blame, as the asker wrote it; empty for the one that answers.
    pub first_bad_link: String,
    /// Of one that came never empty: without a text of its own it names the status.
    pub message: String,
}

impl Refusal {
    pub fn error(message: impl Into<String>) -> Self {
        Self { status: Status::ERROR, first_bad_link: String::new(), message: message.into() }
    }

    pub fn unsupported(message: impl Into<String>) -> Self {
        Self { status: Status::ERROR_UNSUPPORTED, ..Self::error(message) }
    }

    /// The node `link` of a chain is to blame.
    pub fn blame(link: &str, why: &str) -> Self {
        Self { first_bad_link: link.to_owned(), ..Self::error(format!("{link}: {why}")) }
    }

    /// As it is sent.
    pub fn into_answer(self) -> BlockOpResponseProto {
        BlockOpResponseProto {
            status: self.status.0.into(),
            first_bad_link: Some(self.first_bad_link),
            message: Some(self.message),
            ..Default::default()
        }
    }

    /// As it came. A status that is none counts as an error.
    fn of(answer: BlockOpResponseProto) -> Self {
        let status = u8::try_from(answer.status).map_or(Status::ERROR, Status);
        let text = answer.message.filter(|text| !text.is_empty());
        Self {
            status,
            first_bad_link: answer.first_bad_link.unwrap_or_default(),
            message: text.unwrap_or_else(|| status_name(status).to_owned()),
        }
    }
}

impl<E: std::error::Error> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::error(error.to_string())
    }
}

/// An operation was sent, and its answer has not come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Awaiting {
    heard_count: u64,
}

impl Awaiting {
    /// Keepalives that came before the answer: the node is at it.
    pub fn heard_count(&self) -> u64 {
        self.heard_count
    }

    /// Looks at the bytes that came and were not consumed. Returns how many of them it consumes, and the answer once
    /// that is whole; what is behind it stays.
    pub fn on_bytes(&mut self, bytes: &[u8]) -> Result<(usize, Option<Result<Answered, Refusal>>), WireError> {
        let mut consumed = 0;
        while let Some((message, len)) = delimited::split(&bytes[consumed..], "answer", LEN_MAX)? {
            let answer: BlockOpResponseProto = delimited::decode(message, "answer")?;
            consumed += len;
            if answer.status == i32::from(Status::IN_PROGRESS.0) {
                self.heard_count += 1;
                continue;
            }
            let is_success = answer.status == i32::from(Status::SUCCESS.0);
            return Ok((consumed, Some(if is_success { Ok(answer) } else { Err(Refusal::of(answer)) })));
        }
        Ok((consumed, None))
    }
}

/// An answer as it goes out, its texts cut.
pub fn encode(answer: BlockOpResponseProto) -> Vec<u8> {
    let mut bytes = Vec::new();
    delimited::put(&cut(answer), &mut bytes);
    bytes
}

/// An answer with texts that are not too long.
pub(crate) fn cut(mut answer: BlockOpResponseProto) -> BlockOpResponseProto {
    for text in [&mut answer.message, &mut answer.first_bad_link].into_iter().flatten() {
        text.truncate(text.floor_char_boundary(TEXT_LEN_MAX));
        text.shrink_to_fit();
    }
    answer
}

/// The answer to an operation that goes on.
pub fn success() -> BlockOpResponseProto {
    BlockOpResponseProto { first_bad_link: Some(String::new()), ..Default::default() }
}

/// What a status means, for an answer that has no text.
fn status_name(status: Status) -> &'static str {
    match status {
        Status::SUCCESS => "success",
        Status::ERROR_CHECKSUM => "checksum error",
        Status::ERROR_INVALID => "invalid",
        Status::ERROR_EXISTS => "exists already",
        Status::ERROR_ACCESS_TOKEN => "the block's token is not valid",
        Status::ERROR_UNSUPPORTED => "not supported",
        Status::OOB_RESTART => "it restarts",
        _ => "error",
    }
}
