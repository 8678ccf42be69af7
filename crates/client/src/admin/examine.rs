//! What a doctor asks of a store beside its lists.

use super::connection::Admin;
use crate::error::Result;
use wire::admin::examine::{EXAMINE, ExamineRequest};

pub use wire::admin::examine::{ExamineResponse, ServerVersion};

impl Admin {
    /// Clock and version of the server that leads, and versions of the datanodes that are up.
    pub async fn examine(&self) -> Result<ExamineResponse> {
        self.call(EXAMINE, &ExamineRequest {}).await
    }
}
