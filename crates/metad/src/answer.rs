//! Answer of a call: a message, or the bytes of one that was encoded elsewhere.

use bytes::Bytes;
use hdfs::Exception;
use prost::Message;
use std::pin::Pin;

/// An answer under way.
pub(crate) type Answering<'a> = Pin<Box<dyn Future<Output = Result<Bytes, Exception>> + Send + 'a>>;

/// The answer of a call: a message, or the bytes of one that was encoded elsewhere.
pub(crate) trait Answer {
    fn into_bytes(self) -> Bytes;
}

impl<M: Message> Answer for M {
    fn into_bytes(self) -> Bytes {
        self.encode_to_vec().into()
    }
}

#[derive(Debug)]
pub(crate) struct Encoded(pub(crate) Bytes);

impl Encoded {
    /// Of a message without anything in it.
    pub(crate) const EMPTY: Self = Self(Bytes::new());
}

impl Answer for Encoded {
    fn into_bytes(self) -> Bytes {
        self.0
    }
}

pub(crate) fn boxed<'a>(answer: impl Future<Output = Result<Bytes, Exception>> + Send + 'a) -> Answering<'a> {
    Box::pin(answer)
}

/// The handler of a row: what a visit is answered with.
macro_rules! handler {
    ($visit:ident => $answer:expr) => {
        |$visit| $crate::answer::boxed(async move { $answer.await.map($crate::answer::Answer::into_bytes) })
    };
}
pub(crate) use handler;
