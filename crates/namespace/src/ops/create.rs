//! Creating a file, open for writing.

use crate::access::Access;
use crate::context::Context;
use crate::error::absent::{Absent, Existing};
use crate::error::held::Opening;
use crate::error::limit::Limit;
use crate::error::{Failure, NsError, Purpose};
use crate::inode::Node;
use crate::lease;
use crate::make::{Mode, New, check_parent, make, remove_child};
use crate::permission::{self, Ask};
use crate::record::{Body, File, OpenFile};
use crate::recovery::{Newcomer, meet_open};
use crate::reply::{Recovery, Reply};
use crate::resolve::resolve;
use crate::view::status_of;
use types::limits::BLOCK_LEN_MAX;
use types::{FileId, FsPath};

/// Makes an empty file leased to `client`. Answers `Reply::Status`, or `Reply::Recovery(Started)` when the file is held
/// by a silent client and must be recovered first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    pub path: FsPath,
    /// Holder of the lease, as the client calls itself.
    pub client: String,
    /// Shown in messages and in the list of open files.
    pub client_host: String,
    /// With the client's umask applied already.
    pub mode: u16,
    /// Before the client's umask was applied: what counts where the parent has default access lists. `None`: the same
    /// as `mode`.
    pub unmasked: Option<u16>,
    /// HDFS's flag CREATE: without it, the file must exist.
    pub create: bool,
    pub overwrite: bool,
    pub create_parent: bool,
    pub replication: u16,
    pub block_len: u64,
    /// The leader's setting `dfs.namenode.fs-limits.min-block-size`.
    pub block_len_min: u64,
    /// The holder whose lease the leader found past the soft limit, if it holds this file.
    pub takeover: Option<String>,
}
types::record!(Create {
    0: path,
    1: client,
    2: client_host,
    3: mode,
    4: unmasked,
    5: create,
    6: overwrite,
    7: create_parent,
    8: replication,
    9: block_len,
    10: block_len_min,
    11: takeover,
});

/// What became of the wish for a file.
pub(crate) enum Made {
    File(Node),
    /// Nothing yet: a silent client holds the file, and is shut out first.
    Must(Recovery),
}

impl Create {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let open = OpenFile { holder: self.client.clone(), client_host: self.client_host.clone(), recovery: None };
        let file = File { len: 0, block_count: 0, open: Some(open), ..self.wished() };
        match self.make(context, None, file)? {
            Made::File(node) => {
                lease::grant(context.rows, node.inode.id, &self.client);
                Ok(Reply::Status(status_of(&node.inode, "")))
            }
            Made::Must(recovery) => Ok(Reply::Recovery(recovery)),
        }
    }

    /// Makes the file, under a new id or one that was reserved, after whatever stands in the way is gone.
    pub(crate) fn make(&self, context: &mut Context<'_>, id: Option<FileId>, file: File) -> Result<Made, Failure> {
        let mut resolved = resolve(context.rows, context.caller, &self.path, Purpose::Create)?;
        self.check_wishes()?;
        let exists = resolved.last().is_some();
        let path_right = (exists && self.overwrite).then_some(Access::WRITE);
        let ask = Ask { ancestor: Some(Access::WRITE), ..Ask::default() };
        permission::check(context.caller, &resolved, ask)?;
        if resolved.last().is_some_and(|node| node.inode.is_directory()) {
            return Err(NsError::ExistsAsDirectory { path: resolved.path, append: false }.into());
        }
        permission::check(context.caller, &resolved, Ask { path: path_right, ..Ask::default() })?;
        if !exists {
            if !self.create_parent {
                check_parent(&resolved)?;
            }
            if !self.create {
                return Err(Absent::Overwritten(resolved.path).into());
            }
        } else if self.overwrite {
            remove_child(context, &mut resolved)?;
        } else if let Some(node) = resolved.nodes.last_mut() {
            let newcomer = Newcomer {
                opening: Opening::Create,
                client: &self.client,
                client_host: &self.client_host,
                takeover: self.takeover.as_deref(),
            };
            if let Some(started) = meet_open(context, node, resolved.path.as_str(), &newcomer)? {
                return Ok(Made::Must(started));
            }
            let client_host = self.client_host.clone();
            return Err(NsError::AlreadyExists(Existing::File { path: resolved.path, client_host }).into());
        }
        // Parents made on the way are like the directory they stand in.
        let parent_mode = resolved.nodes.last().map_or(0, |node| node.inode.mode);
        let new = New { id, mode: Mode::new(self.mode, self.unmasked), body: Body::File(file) };
        Ok(Made::File(make(context, &mut resolved, Mode::new(parent_mode, None), new)?))
    }

    /// A file as the client wishes it, empty and closed.
    pub(crate) fn wished(&self) -> File {
        File { len: 0, replication: self.replication, block_len: self.block_len, block_count: 0, open: None }
    }

    /// What the client may not wish for, whatever stands there.
    fn check_wishes(&self) -> Result<(), NsError> {
        lease::check_holder_name(&self.client)?;
        super::set_replication::check_replication(self.replication, &self.path, Some(&self.client_host))?;
        if self.block_len < self.block_len_min {
            return Err(Limit::BlockLenMin { len: self.block_len, min: self.block_len_min }.into());
        }
        if self.block_len > BLOCK_LEN_MAX {
            return Err(Limit::BlockLenMax { len: self.block_len }.into());
        }
        Ok(())
    }
}
