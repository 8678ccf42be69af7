//! Opening a closed file again, to write at its end.

use crate::access::Access;
use crate::block::{self, last_row, write_row};
use crate::context::Context;
use crate::error::absent::Absent;
use crate::error::held::Opening;
use crate::error::{Failure, NsError, Purpose};
use crate::inode::write_node;
use crate::lease;
use crate::permission::{self, Ask};
use crate::record::{BlockState, OpenFile};
use crate::recovery::{Newcomer, meet_open};
use crate::reply::Reply;
use crate::resolve::resolve;
use crate::usage::{self, Excess};
use crate::view::status_of;
use types::FsPath;

/// Leases a closed file to `client`. Answers `Reply::Append`, or `Reply::Recovery(Started)` as `Create` does.
///
/// Without `new_block`, a partly filled last block is under construction again, under its old generation until
/// the client updates the pipeline. Otherwise the next `AddBlock` starts a new block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    pub path: FsPath,
    pub client: String,
    pub client_host: String,
    /// HDFS's flag NEW_BLOCK.
    pub new_block: bool,
    /// As in `Create`.
    pub takeover: Option<String>,
}
types::record!(Append { 0: path, 1: client, 2: client_host, 3: new_block, 4: takeover });

impl Append {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        lease::check_holder_name(&self.client)?;
        let resolved = resolve(context.rows, context.caller, &self.path, Purpose::Find)?;
        if resolved.last().is_some_and(|node| node.inode.is_directory()) {
            return Err(NsError::ExistsAsDirectory { path: resolved.path, append: true }.into());
        }
        let ask = Ask { path: Some(Access::WRITE), ..Ask::default() };
        permission::check(context.caller, &resolved, ask)?;
        let path = resolved.path.clone();
        let Some(mut node) = resolved.into_last() else {
            return Err(Absent::Appended { path, client_host: self.client_host.clone() }.into());
        };
        let newcomer = Newcomer {
            opening: Opening::Append,
            client: &self.client,
            client_host: &self.client_host,
            takeover: self.takeover.as_deref(),
        };
        if let Some(started) = meet_open(context, &mut node, path.as_str(), &newcomer)? {
            return Ok(Reply::Recovery(started));
        }
        let id = node.inode.id;
        let bill = usage::bill(context.rows, &node)?;
        let block_len = match node.inode.file_mut() {
            Some(file) => {
                file.open = Some(OpenFile {
                    holder: self.client.clone(),
                    client_host: self.client_host.clone(),
                    recovery: None,
                });
                file.block_len
            }
            None => 0,
        };
        // The modification time waits for the file to be closed.
        write_node(context.rows, &node);
        lease::grant(context.rows, id, &self.client);
        let mut last = last_row(context.rows, &node.inode)?.filter(|(_, row)| row.len < block_len);
        if let Some((offset, row)) = &mut last
            && !self.new_block
        {
            row.state = BlockState::Reopened;
            write_row(context.rows, id, *offset, row);
        }
        bill.settle(context.rows, &node.inode, Excess::Refused)?;
        let last = last.map(|placed| block::view(id, &placed));
        Ok(Reply::Append { last, status: status_of(&node.inode, "") })
    }
}
