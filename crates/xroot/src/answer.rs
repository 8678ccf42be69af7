//! Responses that are short enough to be made at once.

use crate::codes::ResponseStatus;
use crate::frame::{ResponseHeader, StreamId};
use crate::limits::TEXT_LEN_MAX;
use crate::refusal::Refusal;

/// The whole answer, or the last part of it.
pub fn ok(stream: StreamId, body: &[u8]) -> Vec<u8> {
    whole(stream, ResponseStatus::Ok, body)
}

/// The whole answer, of text: it ends with a NUL.
pub fn text(stream: StreamId, text: &str) -> Vec<u8> {
    ok(stream, &[text.as_bytes(), &[0]].concat())
}

/// What a client is told instead of what it asked for.
///
/// ```text
/// 0          4
/// ┌──────────┬────────────┐
/// │ code u32 │ text, NUL  │
/// └──────────┴────────────┘
/// ```
pub fn refusal(stream: StreamId, Refusal { code, text }: &Refusal) -> Vec<u8> {
    let mut body = u32::from(code.number()).to_be_bytes().to_vec();
    let text = &text[..text.floor_char_boundary(TEXT_LEN_MAX)];
    body.extend(text.bytes().filter(|byte| *byte != 0));
    body.push(0);
    whole(stream, ResponseStatus::Error, &body)
}

/// Where a server is that has the file: this one. `S`: it is up; `r`: for reading.
pub fn location(stream: StreamId, addr: std::net::SocketAddr) -> Vec<u8> {
    text(stream, &format!("Sr{addr}"))
}

fn whole(stream: StreamId, status: ResponseStatus, body: &[u8]) -> Vec<u8> {
    let header = ResponseHeader { stream, status, body_len: body.len() as u32 };
    [&header.encode()[..], body].concat()
}

/// The header of data that already stand behind [`ResponseHeader::LEN`] bytes in `frame`. `is_last`: nothing follows.
pub fn seal(stream: StreamId, is_last: bool, frame: &mut [u8]) {
    let (header, body) = frame.split_at_mut(ResponseHeader::LEN);
    let status = if is_last { ResponseStatus::Ok } else { ResponseStatus::OkSoFar };
    header.copy_from_slice(&ResponseHeader { stream, status, body_len: body.len() as u32 }.encode());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::ErrorCode;

    #[test]
    fn a_refusal_has_a_code_and_a_text_that_ends() {
        let refused = Refusal::new(ErrorCode::NotFound, "no\0 such file");
        let answer = refusal(StreamId([0, 7]), &refused);
        assert_eq!(answer, b"\0\x07\x0f\xa3\0\0\0\x11\0\0\x0b\xc3no such file\0");
        let long = Refusal::new(ErrorCode::IoError, "ü".repeat(5000));
        assert_eq!(refusal(StreamId::default(), &long).len(), 8 + 4 + TEXT_LEN_MAX + 1);
    }

    #[test]
    fn parts_but_the_last_say_that_more_follows() {
        let mut frame = vec![9; 8 + 3];
        seal(StreamId([0, 1]), false, &mut frame);
        assert_eq!(frame, [0, 1, 0x0f, 0xa0, 0, 0, 0, 3, 9, 9, 9]);
        seal(StreamId([0, 1]), true, &mut frame);
        assert_eq!(frame[..8], [0, 1, 0, 0, 0, 0, 0, 3]);
    }
}
