//! The datanodes: who they are, what they hold, and which of them are to be emptied.

pub use crate::proto::{Datanode, DrainRequest, DrainResponse, ListDatanodesRequest, ListDatanodesResponse};

pub const LIST_DATANODES: &str = "listDatanodes";
pub const DRAIN: &str = "drainDatanode";
