//! A datanode for tests.

use crate::node::{Incarnation, Node};
use types::NodeId;

impl Node {
    /// `number` is in its id, its name and its address.
    #[doc(hidden)]
    pub fn example(number: u8, rack: &str) -> Self {
        Self {
            id: NodeId([number; 16]),
            ip: format!("10.0.0.{number}"),
            host: format!("node{number}"),
            xfer_port: 9866,
            ipc_port: 9867,
            info_port: 9864,
            storage: format!("DS-{number}"),
            rack: rack.to_owned(),
            incarnation: Incarnation::default(),
            from: format!("10.0.0.{number}"),
            outside: None,
        }
    }
}
