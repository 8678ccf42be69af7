//! Changing the access list of a file or directory.

use super::set_permission::find_owned_as;
use crate::acl::{self, AclChange};
use crate::context::Context;
use crate::error::absent::Absent;
use crate::error::acl_fault::AclFault;
use crate::error::{Failure, NsError};
use crate::inode::write_node;
use crate::reply::Reply;
use types::FsPath;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAcl {
    pub path: FsPath,
    pub change: AclChange,
}
types::record!(SetAcl { 0: path, 1: change });

impl SetAcl {
    pub(super) fn check_len(&self) -> Result<(), NsError> {
        acl::check_lens(&self.change).map_err(|fault| self.refused(fault))
    }

    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let path = &self.path;
        let mut node = find_owned_as(context, path, || Absent::Attributed(path.clone()))?;
        acl::change(&mut node.inode, &self.change).map_err(|fault| self.refused(fault))?;
        write_node(context.rows, &node);
        Ok(Reply::Done)
    }

    fn refused(&self, fault: AclFault) -> NsError {
        NsError::Acl { path: self.path.clone(), fault }
    }
}
