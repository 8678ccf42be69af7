//! The attribute of a directory in which access profiles lie, beside those that users have.
//!
//! Promise: it costs a user none of his. It is not begun where half of the places are taken, and gives way where all
//! are: users neither see it nor may remove it, and what is in it are hints.

use crate::core::Core;
use namespace::{RemoveXattr, Xattr, XattrName, XattrSpace};
use types::FsPath;

/// Attributes beside which none is begun: half of what a directory may have (`namespace`'s limit is HDFS's, 32).
const OTHERS_COUNT_MAX: usize = 16;

pub(crate) fn name() -> XattrName {
    XattrName { space: XattrSpace::Trusted, name: "levada.profiles".into() }
}

/// Whether it may lie among these, which are all of a directory.
pub(crate) fn has_place(attributes: &[Xattr]) -> bool {
    attributes.len() < OTHERS_COUNT_MAX || attributes.iter().any(|attribute| attribute.name == name())
}

/// All places are taken. True: one is free by now.
pub(crate) async fn give_way(core: &Core, path: &FsPath) -> bool {
    let removed = core.change_unasked(RemoveXattr { path: path.clone(), name: name() }).await;
    removed.inspect_err(|error| tracing::debug!(%path, %error, "no profiles make room")).is_ok()
}
