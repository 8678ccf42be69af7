//! Where the blocks of a file are, and what the metadata server does about them.

use crate::client::Client;
use crate::error::Result;
use wire::client::{CLIENT_PROTOCOL, EXPLAIN_FILE, ExplainFileRequest};

pub use wire::client::{ContainerState, ExplainFileResponse, ExplainedBlock, ExplainedReplica, PlaceState};

impl Client {
    /// Of the blocks from the one with byte `offset` on; `more` says whether others follow.
    pub async fn explain(&self, path: &str, offset: u64) -> Result<ExplainFileResponse> {
        let request = ExplainFileRequest { path: path.into(), offset };
        self.call_in(CLIENT_PROTOCOL, EXPLAIN_FILE, &request).await
    }
}
