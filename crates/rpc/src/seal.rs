//! What protects a connection behind its SASL exchange, in both directions: integrity or privacy.
//!
//! ```text
//! frame, frame, …  ──pieces──▶ sealed ──▶ ┌────────┬────────┬──────────────────────────┐
//!                                         │ length │ header │ RpcSaslProto WRAP, token │   a frame around each piece
//!                                         └────────┴────────┴──────────────────────────┘
//! ```
//!
//! Promise: sealed bytes are not copied again; what is sealed at once is bounded.

use crate::beside::{BESIDE_LEN_MAX, few_fields, short_message};
use crate::request_header::request_header;
use bytes::{BufMut, Bytes, BytesMut};
use hdfs::frame::{self, Delimited};
use hdfs::proto::{RpcRequestHeaderProto, RpcSaslProto, RpcStatusProto};
use hdfs::{call_id, proto};
use prost::Message;
use security::sasl::rpc::{Protector, unwrap, wrap};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that are sealed at once. JDK takes 65,536 with what the layer adds.
const PIECE_LEN_MAX: usize = 60 << 10;
/// Key of `RpcSaslProto.token`; its length follows.
const TOKEN_KEY: u8 = 3 << 3 | 2;

/// Which header is around sealed pieces that go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Client,
    Server,
}

/// Clones are the same one: each direction has its own numbers in it.
#[derive(Clone)]
pub(crate) struct Seal {
    end: End,
    protector: Arc<Mutex<Box<dyn Protector + Send>>>,
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seal({:?})", self.end)
    }
}

impl Seal {
    pub(crate) fn new(end: End, protector: Box<dyn Protector + Send>) -> Self {
        Self { end, protector: Arc::new(Mutex::new(protector)) }
    }

    fn protector(&self) -> MutexGuard<'_, Box<dyn Protector + Send>> {
        // After a panic in it its numbers do not fit any more: the other end refuses what comes next.
        self.protector.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next piece off `rest`, whose parts follow each other, and seals it: a frame in two parts.
    pub(crate) fn seal_next(&self, rest: &mut [Bytes; 2]) -> io::Result<(Bytes, Bytes)> {
        let [head, body] = rest;
        let piece = match (head.is_empty(), body.is_empty()) {
            (false, true) => head.split_to(head.len().min(PIECE_LEN_MAX)),
            (true, _) => body.split_to(body.len().min(PIECE_LEN_MAX)),
            (false, false) => {
                let len = PIECE_LEN_MAX.min(head.len() + body.len());
                let mut piece = BytesMut::with_capacity(len);
                piece.put(&mut head.split_to(head.len().min(len)));
                piece.put(&mut body.split_to(len - piece.len()));
                piece.freeze()
            }
        };
        self.seal(&piece)
    }

    fn seal(&self, piece: &[u8]) -> io::Result<(Bytes, Bytes)> {
        let mut message = wrap(&mut **self.protector(), piece).map_err(io::Error::other)?;
        let token = message.token.take().unwrap_or_default();
        // The token is the last field, so all before it fits into a buffer of its own.
        let mut front = message.encode_to_vec();
        front.put_u8(TOKEN_KEY);
        prost::encode_length_delimiter(token.len(), &mut front).expect("a buffer grows");
        let len = front.len() + token.len();
        let mut head = match self.end {
            End::Server => {
                let call = frame::Call { call_id: call_id::SASL, client_id: Bytes::new(), retry_count: -1 };
                BytesMut::from(call.succeeded(len))
            }
            End::Client => {
                let header = request_header(call_id::SASL, &Bytes::new(), -1);
                let header_len = header.delimited_len() + prost::length_delimiter_len(len);
                let mut head = BytesMut::with_capacity(frame::LENGTH_LEN + header_len + front.len());
                head.put_u32(u32::try_from(header_len + len).expect("a piece is short"));
                header.put(&mut head);
                prost::encode_length_delimiter(len, &mut head).expect("a buffer grows");
                head
            }
        };
        head.extend_from_slice(&front);
        Ok((head.freeze(), token))
    }

    /// What a frame holds that came, without its length.
    pub(crate) fn open(&self, mut frame: Bytes) -> io::Result<Vec<u8>> {
        let message = match self.end {
            End::Server => {
                let header: RpcRequestHeaderProto =
                    short_message(&mut frame, "request header", BESIDE_LEN_MAX).map_err(invalid)?;
                if header.call_id != call_id::SASL {
                    return Err(invalid("a call that is not sealed, where integrity or privacy was agreed on"));
                }
                // Its token is as long as the frame, which is bounded.
                short_message::<RpcSaslProto>(&mut frame, "SASL message", usize::MAX).map_err(invalid)?
            }
            End::Client => {
                let answer = frame::Answer::decode(frame).map_err(invalid)?;
                if answer.call_id() != call_id::SASL || answer.header.status() != RpcStatusProto::Success {
                    return Err(invalid("an answer that is not sealed, where integrity or privacy was agreed on"));
                }
                few_fields(&answer.response, "SASL message").map_err(invalid)?;
                proto::RpcSaslProto::decode(answer.response).map_err(invalid)?
            }
        };
        let mut piece = Vec::with_capacity(message.token.as_ref().map_or(0, Bytes::len));
        unwrap(&mut **self.protector(), &message, &mut piece).map_err(invalid)?;
        Ok(piece)
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns each byte around, and numbers the pieces.
    struct Inverted(u8, u8);

    impl Protector for Inverted {
        fn wrap(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
            out.push(self.0);
            self.0 += 1;
            out.extend(piece.iter().map(|byte| !byte));
            Ok(())
        }

        fn unwrap(&mut self, sealed: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
            let (number, piece) = sealed.split_first().ok_or("it is empty")?;
            if *number != self.1 {
                return Err(format!("piece {number} where {} comes next", self.1));
            }
            self.1 += 1;
            out.extend(piece.iter().map(|byte| !byte));
            Ok(())
        }
    }

    fn seal(end: End) -> Seal {
        Seal::new(end, Box::new(Inverted(0, 0)))
    }

    fn whole((head, token): (Bytes, Bytes)) -> Bytes {
        let whole = [head, token].concat();
        assert_eq!(frame::length(&whole, 1 << 20), Ok(Some(whole.len() - frame::LENGTH_LEN)));
        Bytes::from(whole).slice(frame::LENGTH_LEN..)
    }

    #[test]
    fn long_answers_go_in_pieces_and_nothing_is_lost() {
        for (from, to) in [(End::Server, End::Client), (End::Client, End::Server)] {
            let (from, to) = (seal(from), seal(to));
            for (head_len, body_len) in [(5, 0), (0, 7), (20, 30), (70_000, 70_000), (10, 200_000)] {
                let sent = [vec![1; head_len], vec![2; body_len]].map(Bytes::from);
                let (mut rest, mut came) = (sent.clone(), Vec::new());
                while rest.iter().any(|part| !part.is_empty()) {
                    let piece = from.seal_next(&mut rest).unwrap();
                    assert!(piece.1.len() <= PIECE_LEN_MAX + 1);
                    came.extend(to.open(whole(piece)).unwrap());
                }
                assert!(came == sent.concat());
            }
        }
    }

    /// Each of a hundred thousand empty fields would take a hundred bytes.
    #[test]
    fn a_piece_does_not_grow_before_its_seal_is_checked() {
        let many = RpcSaslProto { auths: vec![hdfs::proto::SaslAuth::default(); 1000], ..RpcSaslProto::default() };
        let mut sent = BytesMut::new();
        frame::put_frame(&[&request_header(call_id::SASL, &Bytes::new(), -1), &many], &mut sent);
        let refused = seal(End::Server).open(sent.freeze().slice(frame::LENGTH_LEN..)).unwrap_err();
        assert!(refused.to_string().contains("fields"), "{refused}");
    }

    #[test]
    fn what_is_not_sealed_or_comes_twice_is_refused() {
        let (client, server) = (seal(End::Client), seal(End::Server));
        let piece = whole(client.seal_next(&mut [Bytes::from_static(b"call"), Bytes::new()]).unwrap());
        assert_eq!(server.open(piece.clone()).unwrap(), b"call");
        assert!(server.open(piece).unwrap_err().to_string().contains("piece 0 where 1 comes next"));
        let mut plain = BytesMut::new();
        frame::put_frame(&[&request_header(3, &Bytes::new(), 0), &String::from("x")], &mut plain);
        assert!(server.open(plain.freeze().slice(frame::LENGTH_LEN..)).is_err());
        let answer = frame::Call { call_id: 3, client_id: Bytes::new(), retry_count: 0 };
        let answer = answer.refused(&hdfs::Exception::io("x"));
        assert!(client.open(answer.slice(frame::LENGTH_LEN..)).is_err());
    }
}
