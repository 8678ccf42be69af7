//! What writes need beside all operations: threads for streams, and keepalives while these are busy.

use super::keepalive::{self, Keepalive};
use crate::data_service::DataService;
use io::CachedThreads;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Writes {
    pub(crate) service: Arc<DataService>,
    pub(super) keepalive: Keepalive,
    /// The threads of write streams.
    pub(crate) streams: CachedThreads,
}

impl Writes {
    pub(crate) fn new(service: Arc<DataService>) -> Self {
        Self { service, keepalive: Keepalive::default(), streams: CachedThreads::new("write stream") }
    }

    /// Sends keepalives for streams that are busy, until the future is dropped.
    pub(crate) async fn keep_alive(&self) {
        keepalive::run(&self.keepalive, self.service.limits.of_writes(), || self.service.now()).await;
    }
}
