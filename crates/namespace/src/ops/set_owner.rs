//! Changing owner and group.

use super::set_permission::find_owned;
use crate::context::Context;
use crate::error::denial::Denial;
use crate::error::limit::Limit;
use crate::error::{Failure, NsError};
use crate::inode::write_node;
use crate::reply::Reply;
use types::FsPath;

/// `None` leaves one alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetOwner {
    pub path: FsPath,
    pub owner: Option<String>,
    pub group: Option<String>,
}
types::record!(SetOwner { 0: path, 1: owner, 2: group });

/// Bytes of a user's or group's name: those of the connections' users have no more. HDFS has no limit of its own.
pub const OWNER_NAME_LEN_MAX: usize = 255;

impl SetOwner {
    pub(super) fn check_len(&self) -> Result<(), NsError> {
        match [&self.owner, &self.group].into_iter().flatten().find(|name| name.len() > OWNER_NAME_LEN_MAX) {
            Some(name) => Err(Limit::OwnerNameLen { len: name.len() }.into()),
            None => Ok(()),
        }
    }

    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        self.check_len()?;
        let caller = context.caller;
        let mut node = find_owned(context, &self.path)?;
        if !caller.superuser {
            if self.owner.as_ref().is_some_and(|owner| *owner != caller.user) {
                return Err(NsError::denied(caller, Denial::NewOwner { user: caller.user.clone() }).into());
            }
            if let Some(group) = &self.group
                && !caller.groups.contains(group)
            {
                let denial = Denial::NotInGroup { user: caller.user.clone(), group: group.clone() };
                return Err(NsError::denied(caller, denial).into());
            }
        }
        for (have, want) in [(&mut node.inode.owner, &self.owner), (&mut node.inode.group, &self.group)] {
            // A status without a name for owner or group breaks clients.
            if let Some(want) = want.as_ref().filter(|want| !want.is_empty()) {
                have.clone_from(want);
            }
        }
        write_node(context.rows, &node);
        Ok(Reply::Done)
    }
}
