//! Reading the namespace. Nothing here changes a row; each call is short enough to run over one view of the store.

mod access;
mod attributes;
mod blocks;
mod containers;
mod leases;
mod list;
mod plan;
mod quota;
mod removal;
mod safe_mode;
mod status;
mod summary;

pub use crate::delegation_token::{expired as expired_tokens, last as last_token, token as delegation_token};
pub use crate::retry::outcome;
pub use access::{check_access, check_may_make};
pub use attributes::{acl, xattrs};
pub use blocks::{cut_len, doomed_blocks, file_of_block, has_deleted_trees, located, located_unasked};
pub use containers::{FileReplicas, Page, Place, container_page, file_replicas, is_empty, replication, resized_files};
pub use leases::{Holder, OpenView, ever_reserved, holder_of, is_closed, lease_files, lease_holders, open_files};
pub use list::{Entry, Listing, PageEnd, PageExtent, PageLimits, TakePage, list, list_each};
pub use plan::{BlockPlan, Writing, is_outgrown, plan_block, writing, written_block};
pub use quota::{Quota, quota};
pub use removal::Removal;
pub use safe_mode::safe_mode;
pub use status::{path_of_inode, status};
pub use summary::{Summary, Totals};
