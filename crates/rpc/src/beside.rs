//! What comes beside a request: headers, contexts, messages of SASL. They are decoded before anything else is known of
//! their frame, so they are bounded first.

use bytes::Bytes;
use hdfs::fields;
use hdfs::frame::{self, FrameError};
use prost::Message;

/// A header, or a context. They are decoded before a request's memory is counted, and what a context says is kept as
/// long as its connection. A guess; stock clients send a few hundred bytes.
pub(crate) const BESIDE_LEN_MAX: usize = 4 << 10;
/// Stock clients send a dozen; two bytes can be a field that takes a hundred when it is decoded.
const FIELD_COUNT_MAX: usize = 64;

/// As [`frame::take_message`], of one that may not be long.
pub(crate) fn short_message<M: Message + Default>(
    frame: &mut Bytes,
    what: &'static str,
    len_max: usize,
) -> Result<M, FrameError> {
    let message = frame::take(&mut frame.clone(), what)?;
    let len = message.len();
    if len > len_max {
        return Err(FrameError::Message { what, reason: format!("it has {len} bytes, {len_max} are allowed") });
    }
    few_fields(&message, what)?;
    frame::take_message(frame, what)
}

/// So that what is decoded stays about as small as it came.
pub(crate) fn few_fields(message: &[u8], what: &'static str) -> Result<(), FrameError> {
    match fields::count(message, 0) {
        0..=FIELD_COUNT_MAX => Ok(()),
        count => {
            let reason = format!("it has {count} fields, {FIELD_COUNT_MAX} are allowed");
            Err(FrameError::Message { what, reason })
        }
    }
}
