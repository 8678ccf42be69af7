//! Frames of Hadoop RPC, both ways: a length, then messages, each behind a length of its own.
//!
//! ```text
//! 0          4
//! ┌──────────┬────────┬────────────────────────┬────────┬────────────────────┬────────┬─────────────────┐
//! │ rest i32 │ varint │ RpcRequestHeaderProto  │ varint │ RequestHeaderProto │ varint │ request         │  a call
//! └──────────┴────────┴────────────────────────┴────────┴────────────────────┴────────┴─────────────────┘
//! ┌──────────┬────────┬────────────────────────┬────────┬──────────────────────┐
//! │ rest i32 │ varint │ RpcResponseHeaderProto │ varint │ response             │                           success
//! └──────────┴────────┴────────────────────────┴────────┴──────────────────────┘
//! ┌──────────┬────────┬────────────────────────┐
//! │ rest i32 │ varint │ RpcResponseHeaderProto │                                                         failure
//! └──────────┴────────┴────────────────────────┘
//! ```
//!
//! An empty response is still one byte, the 0 of its length, and nothing may follow the last message: Java drops the
//! connection over either. A failure is the header alone.

use crate::call_id;
use crate::exception::Exception;
use crate::proto::{OperationProto, RpcErrorCodeProto};
use crate::proto::{RpcKindProto, RpcRequestHeaderProto, RpcResponseHeaderProto, RpcStatusProto};
use crate::version::VERSION;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

/// Bytes of the length before a frame.
pub const LENGTH_LEN: usize = 4;
/// A message's length is below 2³¹, so its varint takes five bytes at most.
const VARINT_LEN_MAX: usize = 5;

/// What can be wrong with a frame. The connection it came on cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("a frame of {len} bytes, from 1 to {max} are allowed")]
    Length { len: i32, max: u32 },
    #[error("it is HTTP, as of a web port, and not of an RPC port")]
    Http,
    #[error("the frame ends before its {what}")]
    Short { what: &'static str },
    #[error("{what} cannot be read: {reason}")]
    Message { what: &'static str, reason: String },
    #[error("a message of {count} fields takes more memory than there is for one, {max} are allowed; ask in several")]
    Fields { count: usize, max: usize },
    #[error("{len} bytes follow the last message of a frame")]
    Rest { len: usize },
}

/// Checks the length at the start of a frame. `None` means that more bytes must come.
pub fn length(bytes: &[u8], max: u32) -> Result<Option<usize>, FrameError> {
    let Some(first) = bytes.first_chunk::<LENGTH_LEN>() else { return Ok(None) };
    if first == b"HTTP" {
        return Err(FrameError::Http); // as a length it is more than a gigabyte, beyond any bound
    }
    let len = i32::from_be_bytes(*first);
    // A stranger chose it: bound it before anyone waits for so many bytes.
    match u32::try_from(len) {
        Ok(1..) if len.cast_unsigned() <= max => Ok(Some(len as usize)),
        _ => Err(FrameError::Length { len, max }),
    }
}

/// Takes the first whole frame off `bytes`, without its length and without a copy. `None` means that more must come.
pub fn split(bytes: &mut BytesMut, max: u32) -> Result<Option<Bytes>, FrameError> {
    match length(bytes, max)? {
        Some(len) if bytes.len() >= LENGTH_LEN + len => {
            bytes.advance(LENGTH_LEN);
            Ok(Some(bytes.split_to(len).freeze()))
        }
        _ => Ok(None),
    }
}

/// Takes the first message's bytes off a frame, without its length.
pub fn take(frame: &mut Bytes, what: &'static str) -> Result<Bytes, FrameError> {
    let mut len = 0u64;
    for (place, byte) in frame.iter().take(VARINT_LEN_MAX).enumerate() {
        len |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            let start = place + 1;
            if len > (frame.len() - start) as u64 {
                return Err(FrameError::Short { what });
            }
            frame.advance(start);
            return Ok(frame.split_to(len as usize));
        }
    }
    Err(FrameError::Short { what })
}

/// Takes the first message off a frame.
pub fn take_message<M: Message + Default>(frame: &mut Bytes, what: &'static str) -> Result<M, FrameError> {
    let message = take(frame, what)?;
    M::decode(message).map_err(|error| FrameError::Message { what, reason: error.to_string() })
}

/// What an answer repeats of the call it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub call_id: i32,
    pub client_id: Bytes,
    pub retry_count: i32,
}

impl Call {
    pub fn of(header: &RpcRequestHeaderProto) -> Self {
        Self { call_id: header.call_id, client_id: header.client_id.clone(), retry_count: header.retry_count() }
    }

    /// All of a successful answer but the response itself, which must go out right behind it, all of it.
    pub fn succeeded(&self, response_len: usize) -> Bytes {
        let header = self.header(RpcStatusProto::Success);
        let header_len = header.encoded_len();
        let head_len = prost::length_delimiter_len(header_len) + header_len + prost::length_delimiter_len(response_len);
        let mut bytes = BytesMut::with_capacity(LENGTH_LEN + head_len);
        bytes.put_u32(length_of(head_len + response_len));
        put(&header, &mut bytes);
        prost::encode_length_delimiter(response_len, &mut bytes).expect("a buffer grows");
        bytes.freeze()
    }

    /// A failed answer, whole. Its status follows from the exception's code.
    pub fn refused(&self, exception: &Exception) -> Bytes {
        let status = if exception.is_fatal() { RpcStatusProto::Fatal } else { RpcStatusProto::Error };
        let header = RpcResponseHeaderProto {
            exception_class_name: Some(exception.class.to_owned()),
            error_msg: Some(exception.message.clone()),
            error_detail: Some(exception.code.into()),
            detail: exception.detail.as_deref().cloned(),
            ..self.header(status)
        };
        let header_len = header.encoded_len();
        let len = prost::length_delimiter_len(header_len) + header_len;
        let mut bytes = BytesMut::with_capacity(LENGTH_LEN + len);
        bytes.put_u32(length_of(len));
        put(&header, &mut bytes);
        bytes.freeze()
    }

    fn header(&self, status: RpcStatusProto) -> RpcResponseHeaderProto {
        RpcResponseHeaderProto {
            call_id: call_id::for_answer(self.call_id),
            status: status.into(),
            server_ipc_version_num: Some(VERSION.into()),
            client_id: Some(self.client_id.clone()),
            retry_count: Some(self.retry_count),
            ..RpcResponseHeaderProto::default()
        }
    }
}

/// An answer as a client reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub header: RpcResponseHeaderProto,
    /// The response's bytes after a success, without their length; empty after a failure.
    pub response: Bytes,
}

impl Answer {
    pub fn decode(mut frame: Bytes) -> Result<Self, FrameError> {
        let header: RpcResponseHeaderProto = take_message(&mut frame, "answer header")?;
        let response = match header.status() {
            RpcStatusProto::Success => take(&mut frame, "response")?,
            RpcStatusProto::Error | RpcStatusProto::Fatal => Bytes::new(),
        };
        if frame.is_empty() { Ok(Self { header, response }) } else { Err(FrameError::Rest { len: frame.len() }) }
    }

    pub fn call_id(&self) -> i32 {
        call_id::of_answer(self.header.call_id)
    }
}

/// Appends a frame of these messages: what a client sends.
pub fn put_frame(messages: &[&dyn Delimited], out: &mut BytesMut) {
    let len = messages.iter().map(|message| message.delimited_len()).sum();
    out.reserve(LENGTH_LEN + len);
    out.put_u32(length_of(len));
    for message in messages {
        message.put(out);
    }
}

/// A message behind its length. It has the few methods that frames of messages of several kinds need.
pub trait Delimited {
    fn delimited_len(&self) -> usize;
    fn put(&self, out: &mut BytesMut);
}

impl<M: Message> Delimited for M {
    fn delimited_len(&self) -> usize {
        let len = self.encoded_len();
        prost::length_delimiter_len(len) + len
    }

    fn put(&self, out: &mut BytesMut) {
        put(self, out);
    }
}

/// The rules every request header must keep. Breaking one ends the connection.
pub fn check_header(header: &RpcRequestHeaderProto) -> Result<(), Exception> {
    let wrong = match (header.rpc_op, header.rpc_kind) {
        (None, _) => "IPC Server: No rpc op in rpcRequestHeader".to_owned(),
        (Some(op), _) if op != OperationProto::RpcFinalPacket as i32 => {
            format!("IPC Server does not implement rpc header operation {op}")
        }
        (_, None) => "IPC Server: No rpc kind in rpcRequestHeader".to_owned(),
        (_, Some(kind)) if kind != RpcKindProto::RpcProtocolBuffer as i32 => {
            format!("Unknown rpc kind in rpc header {kind}")
        }
        _ => return Ok(()),
    };
    Err(Exception::fatal(RpcErrorCodeProto::FatalInvalidRpcHeader, wrong))
}

fn put(message: &impl Message, out: &mut BytesMut) {
    message.encode_length_delimited(out).expect("a buffer grows");
}

/// Frames longer than a client can read are refused where they would be made.
fn length_of(len: usize) -> u32 {
    u32::try_from(len).expect("a frame is shorter than 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_dials_the_web_port_is_told() {
        assert_eq!(length(b"HTTP/1.1 400 Bad Request", u32::MAX >> 1), Err(FrameError::Http));
    }
    use crate::proto::{RequestHeaderProto, RpcSaslProto};
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn header(call_id: i32) -> RpcRequestHeaderProto {
        RpcRequestHeaderProto {
            rpc_kind: Some(RpcKindProto::RpcProtocolBuffer.into()),
            rpc_op: Some(OperationProto::RpcFinalPacket.into()),
            call_id,
            client_id: Bytes::from_static(b"0123456789abcdef"),
            retry_count: Some(0),
            ..RpcRequestHeaderProto::default()
        }
    }

    /// An answer without a response is the header and one 0; a failure is the header alone.
    #[test]
    fn java_counts_every_byte_of_an_answer() {
        let call = Call { call_id: call_id::SASL, client_id: Bytes::new(), retry_count: -1 };
        let success = call.succeeded(0);
        let golden = [0, 0, 0, 16, 14, 0x08, 0xdf, 0xff, 0xff, 0xff, 0x0f, 0x10, 0, 0x18, 9, 0x3a, 0, 0x40, 1, 0];
        assert_eq!(success[..], golden);

        let refused = call.refused(&Exception::io("no"));
        let (len, header_len) = (refused[3], refused[4]);
        assert_eq!((refused.len(), len), (4 + usize::from(len), header_len + 1));
        let answer = Answer::decode(refused.slice(4..)).unwrap();
        assert_eq!((answer.call_id(), answer.header.status()), (call_id::SASL, RpcStatusProto::Error));
        assert_eq!(answer.header.exception_class_name(), "java.io.IOException");
    }

    #[test]
    fn a_strangers_length_is_bounded_first() {
        assert_eq!(length(&[0, 0, 1], 9), Ok(None));
        assert_eq!(length(&[0, 0, 0, 9], 9), Ok(Some(9)));
        for bytes in [[0, 0, 0, 0], [0, 0, 0, 10], [0xff; 4], [0x80, 0, 0, 0]] {
            let len = i32::from_be_bytes(bytes);
            assert_eq!(length(&bytes, 9), Err(FrameError::Length { len, max: 9 }));
        }
        assert!(length(&[0x7f, 0xff, 0xff, 0xff], u32::MAX).is_ok());
    }

    #[test]
    fn an_answer_with_more_than_its_messages_is_refused() {
        let call = Call::of(&header(7));
        let mut bytes = call.succeeded(2).slice(4..).to_vec();
        assert_eq!(Answer::decode(bytes.clone().into()), Err(FrameError::Short { what: "response" }));
        bytes.extend(b"ab");
        assert_eq!(Answer::decode(bytes.clone().into()).unwrap().response, "ab");
        bytes.push(b'c');
        assert_eq!(Answer::decode(bytes.into()), Err(FrameError::Rest { len: 1 }));
    }

    #[test]
    fn a_header_names_its_kind_and_operation() {
        assert_eq!(check_header(&header(1)), Ok(()));
        for (kind, op) in [(None, Some(0)), (Some(2), None), (Some(1), Some(0)), (Some(2), Some(1)), (Some(9), Some(0))]
        {
            let refused = check_header(&RpcRequestHeaderProto { rpc_kind: kind, rpc_op: op, ..header(1) }).unwrap_err();
            assert_eq!(refused.code, RpcErrorCodeProto::FatalInvalidRpcHeader);
        }
    }

    proptest! {
        /// However the bytes are cut on the way, the same frames come out, and their messages.
        #[test]
        fn a_call_is_read_as_it_was_written(
            call in 0i32.., method in ".{0,20}", body in vec(any::<u8>(), 0..300), cut in any::<usize>(),
        ) {
            let request = RequestHeaderProto { method_name: method, ..RequestHeaderProto::default() };
            let mut wire = BytesMut::new();
            put_frame(&[&header(call), &request, &body], &mut wire);
            put_frame(&[&header(call_id::PING)], &mut wire);
            let second = wire.split_off(cut % wire.len());
            let mut frames = vec![];
            for piece in [wire, second] {
                let mut had = frames.pop().unwrap_or_else(BytesMut::new);
                had.extend_from_slice(&piece);
                while let Some(frame) = split(&mut had, 1 << 20).unwrap() {
                    frames.push(BytesMut::from(&frame[..]));
                }
                frames.push(had);
            }
            prop_assert_eq!(frames.len(), 3);
            prop_assert!(frames[2].is_empty());
            let mut frame = frames[0].clone().freeze();
            prop_assert_eq!(take_message::<RpcRequestHeaderProto>(&mut frame, "header").unwrap(), header(call));
            prop_assert_eq!(take_message::<RequestHeaderProto>(&mut frame, "request header").unwrap(), request);
            prop_assert_eq!(take_message::<Vec<u8>>(&mut frame, "request").unwrap(), body);
            prop_assert!(frame.is_empty());
        }

        #[test]
        fn an_answer_is_read_as_it_was_written(
            id in any::<i32>(), retry_count in -1i32..9, response in vec(any::<u8>(), 0..400),
        ) {
            let call = Call { call_id: id, client_id: Bytes::from_static(b"c"), retry_count };
            let mut wire = BytesMut::from(&call.succeeded(response.len())[..]);
            wire.extend_from_slice(&response);
            let answer = Answer::decode(split(&mut wire, 1 << 20).unwrap().unwrap()).unwrap();
            prop_assert!(wire.is_empty());
            prop_assert_eq!(answer.call_id(), id);
            prop_assert_eq!(answer.header.retry_count(), retry_count);
            prop_assert_eq!(&answer.response[..], &response[..]);
        }

        /// Hostile bytes end in an error or a value, never in a panic, and never in more memory than they are long.
        #[test]
        fn no_bytes_panic(bytes in vec(any::<u8>(), 0..200)) {
            let _ = split(&mut BytesMut::from(&bytes[..]), 64);
            let _ = Answer::decode(bytes.clone().into());
            let mut frame = Bytes::from(bytes);
            while take_message::<RpcSaslProto>(&mut frame, "x").is_ok() && !frame.is_empty() {}
        }
    }
}
