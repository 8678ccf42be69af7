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

/// The node does not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it answered: {message}")]
pub struct Refused {
    pub status: i32,
    /// `ip:port` of the node of a chain that is to blame, as the asker wrote it; empty for the one that answers.
    pub first_bad_link: String,
    /// Never empty: without a text of its own it names the status.
    pub message: String,
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
    pub fn on_bytes(
        &mut self,
        bytes: &[u8],
    ) -> Result<(usize, Option<Result<BlockOpResponseProto, Refused>>), WireError> {
        let mut consumed = 0;
        while let Some((message, len)) = delimited::split(&bytes[consumed..], "answer", LEN_MAX)? {
            let answer: BlockOpResponseProto = delimited::decode(message, "answer")?;
            consumed += len;
            if answer.status == i32::from(Status::IN_PROGRESS.0) {
                self.heard_count += 1;
                continue;
            }
            let is_success = answer.status == i32::from(Status::SUCCESS.0);
            return Ok((consumed, Some(if is_success { Ok(answer) } else { Err(Refused::of(answer)) })));
        }
        Ok((consumed, None))
    }
}

impl Refused {
    fn of(answer: BlockOpResponseProto) -> Self {
        let text = answer.message.filter(|text| !text.is_empty());
        Self {
            status: answer.status,
            first_bad_link: answer.first_bad_link.unwrap_or_default(),
            message: text.unwrap_or_else(|| status_name(answer.status).to_owned()),
        }
    }
}

/// An answer with texts that are not too long.
pub fn cut(mut answer: BlockOpResponseProto) -> BlockOpResponseProto {
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
pub fn status_name(status: i32) -> &'static str {
    match u8::try_from(status).map(Status) {
        Ok(Status::SUCCESS) => "success",
        Ok(Status::ERROR_CHECKSUM) => "checksum error",
        Ok(Status::ERROR_INVALID) => "invalid",
        Ok(Status::ERROR_EXISTS) => "exists already",
        Ok(Status::ERROR_ACCESS_TOKEN) => "the block's token is not valid",
        Ok(Status::ERROR_UNSUPPORTED) => "not supported",
        Ok(Status::OOB_RESTART) => "it restarts",
        _ => "error",
    }
}
