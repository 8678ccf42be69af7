//! Making directories.

use crate::access::Access;
use crate::context::Context;
use crate::error::absent::Existing;
use crate::error::{Failure, NsError, Purpose};
use crate::make::{Mode, New, check_parent, make};
use crate::permission::{self, Ask};
use crate::record::Body;
use crate::reply::Reply;
use crate::resolve::resolve;
use types::FsPath;

/// Makes a directory, and with `create_parent` all that is missing above it. `true` also if it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mkdirs {
    pub path: FsPath,
    /// With the client's umask applied already; no other is applied here.
    pub mode: u16,
    /// Before the client's umask was applied: what counts where the parent has default access lists. `None`: the same
    /// as `mode`.
    pub unmasked: Option<u16>,
    pub create_parent: bool,
}
types::record!(Mkdirs { 0: path, 1: mode, 2: unmasked, 3: create_parent });

impl Mkdirs {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let mut resolved = resolve(context.rows, context.caller, &self.path, Purpose::Make)?;
        match resolved.last() {
            Some(node) if node.inode.is_directory() => return Ok(Reply::Bool(true)),
            Some(_) => {
                return Err(NsError::AlreadyExists(Existing::NotADirectory(resolved.path)).into());
            }
            None => {}
        }
        let ask = Ask { ancestor: Some(Access::WRITE), ..Ask::default() };
        permission::check(context.caller, &resolved, ask)?;
        if !self.create_parent {
            check_parent(&resolved)?;
        }
        let mode = Mode::new(self.mode, self.unmasked);
        let new = New { id: None, mode, body: Body::Directory { child_count: 0 } };
        make(context, &mut resolved, mode, new)?;
        Ok(Reply::Bool(true))
    }
}
