//! Changing the access list of a file or directory.

use super::Context;
use super::set_permission::find_owned_as;
use crate::acl::{self, AclChange};
use crate::error::{Failure, NsError};
use crate::inode::write_node;
use crate::request::Reply;
use serde::{Deserialize, Serialize};
use types::FsPath;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAcl {
    pub path: FsPath,
    pub change: AclChange,
}

impl SetAcl {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let path = &self.path;
        let mut node = find_owned_as(context, path, || format!("cannot find {path}"))?;
        acl::change(&mut node.inode, &self.change).map_err(|error| match error {
            NsError::Acl(reason) => NsError::Acl(format!("{reason} Path: {path}")),
            NsError::AclOfFile(reason) => NsError::Acl(format!("{reason} Path: {path} Path: {path}")),
            error => error,
        })?;
        write_node(context.rows, &node);
        Ok(Reply::Done)
    }
}
