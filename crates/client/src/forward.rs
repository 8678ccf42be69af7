//! Calls that somebody else encoded, passed on as they are: for who stands between HDFS's clients and the store.

use crate::client::Client;
use crate::error::{Error, Result};
use bytes::{Buf, BufMut, Bytes};
use hdfs::exception::Detail;
use prost::DecodeError;
use prost::encoding::{DecodeContext, WireType, skip_field};

/// A refusal in the server's own words.
#[derive(Clone, Debug)]
pub struct Refused {
    pub class: String,
    pub message: String,
    /// What it is for our own clients, if the server said so.
    pub detail: Option<Box<Detail>>,
}

/// A message that nobody here looks into.
#[derive(Clone, Debug, Default)]
struct Opaque(Bytes);

impl prost::Message for Opaque {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        buf.put_slice(&self.0);
    }

    /// Of a message that is decoded whole, below, none is asked for.
    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        skip_field(wire_type, tag, buf, ctx)
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }

    fn decode(mut buf: impl Buf) -> Result<Self, DecodeError> {
        Ok(Self(buf.copy_to_bytes(buf.remaining())))
    }
}

impl Client {
    /// A call of HDFS's clients, in this user's name: its request and its answer are messages without a length. The
    /// outer error says that the store did not answer.
    pub async fn forward(&self, method: &str, request: Bytes) -> Result<Result<Bytes, Refused>> {
        let rpc = &self.session.rpc;
        self.run(async {
            let answer: Result<Opaque, _> = rpc.call_in(hdfs::protocol::CLIENT, method, &Opaque(request)).await;
            match answer {
                Ok(Opaque(bytes)) => Ok(Ok(bytes)),
                Err(rpc::CallError::Remote { class, message, detail }) => Ok(Err(Refused { class, message, detail })),
                Err(error) => Err(Error::of_call(rpc.addr(), error)),
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    #[test]
    fn what_passes_is_what_came() {
        let bytes = Bytes::from_static(b"\x0a\x01x and no message at all");
        let opaque = Opaque::decode(bytes.clone()).unwrap();
        assert_eq!((opaque.encoded_len(), opaque.encode_to_vec()), (bytes.len(), bytes.to_vec()));
    }
}
