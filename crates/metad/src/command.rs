//! What stands in the Raft log of a metadata server, and what applying it answers.

use namespace::NsError;
use serde::{Deserialize, Serialize};

/// One change, with everything the leader decided in it. The order of the variants is that of the numbers in the log:
/// new ones go to the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Command {
    Namespace(namespace::Request),
    Blocks(blocks::Command),
    /// Gives the store its block pool, once.
    Found(Founding),
}

/// What makes this store this one. A store that is founded stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Founding {
    /// Datanodes refuse another store's blocks by this name. In HDFS's form, `BP-<random>-<address>-<ms>`.
    pub(crate) pool: String,
}

#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// A blank entry of Raft's own.
    Nothing,
    Namespace(Result<namespace::Reply, NsError>),
    Blocks(Result<blocks::Reply, blocks::BlocksError>),
    Founded,
    /// Founding the store panicked.
    Failed,
}

impl Reply {
    /// Whether what was staged for it counts: nothing does of what was refused.
    pub(crate) fn keeps_rows(&self) -> bool {
        match self {
            Self::Nothing | Self::Founded => true,
            Self::Namespace(answer) => answer.is_ok(),
            Self::Blocks(answer) => answer.is_ok(),
            Self::Failed => false,
        }
    }
}
