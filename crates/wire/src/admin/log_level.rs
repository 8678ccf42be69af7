//! What servers log, changed while they run.

pub use crate::proto::{LogLevelRequest, LogLevelResponse};

/// Of the metadata server that is asked.
pub const SET_LOG_LEVEL: &str = "setLogLevel";
/// Of a datanode, by the metadata server that leads.
pub const SET_DATANODE_LOG_LEVEL: &str = "setDatanodeLogLevel";
