//! Limits on what may be in a directory's tree.

use crate::context::Context;
use crate::error::absent::Absent;
use crate::error::{Failure, NsError, Purpose};
use crate::quota::StorageType;
use crate::reply::Reply;
use crate::resolve::resolve;
use crate::usage;
use types::FsPath;

/// Sets and lifts limits; the superuser may. A limit below what is there already keeps more from coming.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetQuota {
    pub path: FsPath,
    /// On files and directories.
    pub names: QuotaChange,
    /// On bytes with all replicas; of one type of storage, if that is named.
    pub space: QuotaChange,
    pub of_type: Option<StorageType>,
}
types::record!(SetQuota { 0: path, 1: names, 2: space, 3: of_type });

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaChange {
    Keep,
    Lift,
    Set(u64),
}
types::variants!(QuotaChange { 0 => Keep, 1 => Lift, 2 => Set(0: limit) });

impl QuotaChange {
    fn apply(self, old: Option<u64>) -> Option<u64> {
        match self {
            Self::Keep => old,
            Self::Lift => None,
            Self::Set(limit) => Some(limit),
        }
    }
}

impl SetQuota {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        if !context.caller.superuser {
            return Err(NsError::needs_superuser(context.caller, self.operation()).into());
        }
        let resolved = resolve(context.rows, context.caller, &self.path, Purpose::Find)?;
        let path = resolved.path.clone();
        let Some(node) = resolved.into_last() else {
            return Err(Absent::Limited(path).into());
        };
        if !node.inode.is_directory() {
            return Err(NsError::NotDirectory(path).into());
        }
        let mut limits = usage::tally(context.rows, node.inode.id)?.limits;
        limits.names = self.names.apply(limits.names);
        match self.of_type {
            None => limits.space = self.space.apply(limits.space),
            Some(kind) => limits.set_type(kind, self.space.apply(limits.of_type(kind))),
        }
        usage::set_limits(context.rows, node.inode.id, limits)?;
        Ok(Reply::Done)
    }

    /// What is asked, as an error names it.
    fn operation(&self) -> &'static str {
        match (self.names, self.space) {
            (QuotaChange::Lift, QuotaChange::Keep) => "clearQuota",
            (QuotaChange::Keep, QuotaChange::Lift) => "clearSpaceQuota",
            (_, QuotaChange::Keep) => "setQuota",
            _ => "setSpaceQuota",
        }
    }
}
