//! The rows of one protocol, and who answers them.

use crate::method::Method;
use crate::visit::Visit;
use bytes::Bytes;
use hdfs::Exception;
use std::pin::Pin;

/// Rows of one protocol, and who answers them.
#[derive(Debug)]
pub(crate) struct Protocol {
    pub(crate) name: &'static str,
    /// `None`: HDFS's tools name any.
    pub(crate) version: Option<u64>,
    pub(crate) methods: &'static [Method],
    /// Stands for all that are not listed: the handler refuses them, in the words of the protocol.
    pub(crate) other: Method,
    /// Its callers are clients, whose racks decide where they read and write.
    pub(crate) has_clients: bool,
    pub(crate) handler: Handler,
    /// What a server answers that stands by, where a row says so.
    pub(crate) standby: Option<Handler>,
}

pub(crate) type Answer<'a> = Pin<Box<dyn Future<Output = Result<Bytes, Exception>> + Send + 'a>>;
pub(crate) type Handler = for<'a> fn(&'a Visit) -> Answer<'a>;
