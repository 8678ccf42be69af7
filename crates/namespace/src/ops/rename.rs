//! The old rename, which answers false where others raise an error, and moves into directories.

use crate::access::Access;
use crate::context::Context;
use crate::error::{Failure, NsError, Purpose};
use crate::make::move_node;
use crate::permission::{self, Ask};
use crate::reply::Reply;
use crate::reserved;
use crate::resolve::resolve;
use types::FsPath;

/// Answers `Reply::Bool`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    pub from: FsPath,
    pub to: FsPath,
}
types::record!(Rename { 0: from, 1: to });

impl Rename {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        if !reserved::may_be_made(&self.to) {
            return Ok(Reply::Bool(false));
        }
        let from = resolve(context.rows, context.caller, &self.from, Purpose::Find)?;
        let mut to = resolve(context.rows, context.caller, &self.to, Purpose::Make)?;
        if to.last().is_some_and(|node| node.inode.is_directory()) && !from.path.is_root() {
            let into = to.path.join(from.path.name()).map_err(NsError::UnusablePath)?;
            to = resolve(context.rows, context.caller, &into, Purpose::Make)?;
        }
        let ask = Ask { parent: Some(Access::WRITE), ..Ask::default() };
        permission::check(context.caller, &from, ask)?;
        let ask = Ask { ancestor: Some(Access::WRITE), ..Ask::default() };
        permission::check(context.caller, &to, ask)?;
        if from.last().is_none() || from.path.is_root() {
            return Ok(Reply::Bool(false));
        }
        if from.path == to.path {
            return Ok(Reply::Bool(true));
        }
        if to.path.is_below(&from.path) || to.last().is_some() || to.parent_index().is_none() {
            return Ok(Reply::Bool(false));
        }
        move_node(context, from, to)?;
        Ok(Reply::Bool(true))
    }
}
