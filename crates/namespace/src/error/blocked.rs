//! An operation that safe mode keeps out.

use types::{BlockId, FsPath};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Its name, as in [`crate::Op::name`]; changes of an access list are told apart.
    pub operation: &'static str,
    pub path: Option<FsPath>,
    pub block: Option<BlockId>,
}
