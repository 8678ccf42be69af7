//! What a server's refusal is to a client: as much of it as is kept, since the other side chose the words.

use crate::call_error::CallError;
use hdfs::frame::Answer;

/// Letters of a refusal that are kept, and of its class. Java's longest stacks have less.
const REFUSAL_LEN_MAX: usize = 16 << 10;
const CLASS_LEN_MAX: usize = 256;
/// Of the path in a refusal: it takes memory as long as somebody keeps the error.
const DETAIL_PATH_LEN_MAX: usize = types::limits::PATH_LEN_MAX;

/// For people.
pub(crate) fn message(answer: &Answer) -> String {
    beginning(answer.header.error_msg(), REFUSAL_LEN_MAX)
}

/// The refusal with this message.
pub(crate) fn with_message(answer: &Answer, message: &str) -> CallError {
    let detail = answer.header.detail.clone().filter(|detail| detail.path().len() <= DETAIL_PATH_LEN_MAX);
    CallError::Remote {
        class: beginning(answer.header.exception_class_name(), CLASS_LEN_MAX),
        message: message.to_owned(),
        detail: detail.map(Box::new),
    }
}

/// As much of it as has `max` letters.
fn beginning(text: &str, max: usize) -> String {
    text.chars().take(max).collect()
}
