//! From a path to the inodes along it.

use crate::access::Access;
use crate::caller::Caller;
use crate::error::absent::Absent;
use crate::error::{Failure, NsError, Purpose, ReservedName};
use crate::inode::root;
use crate::inode::{Node, Place, read_entry};
use crate::permission;
use crate::reserved::{self, Meaning};
use crate::resolved::Resolved;
use types::FsPath;
use types::rows::{Rows, RowsError};

/// Walks down, checking that the caller may pass each directory on the way.
pub(crate) fn resolve(rows: &dyn Rows, caller: &Caller, path: &FsPath, purpose: Purpose) -> Result<Resolved, Failure> {
    if purpose != Purpose::Find {
        check_new_path(path, purpose)?;
    }
    let path = match reserved::meaning(rows, path)? {
        Meaning::Ordinary => path.clone(),
        Meaning::Other(path) => path,
        Meaning::Nothing if purpose == Purpose::Find => return Ok(missing_below_root(rows, path)?),
        // Nothing may come to stand below `/.reserved`: nobody would find it there.
        Meaning::Nothing => {
            return Err(Absent::Reserved(path.clone()).into());
        }
    };
    let mut resolved = Resolved { path: path.clone(), nodes: vec![root(rows)?], missing: Vec::new() };
    let mut names = path.components();
    while let Some(name) = names.next() {
        let above = resolved.nodes.len() - 1;
        let directory = &resolved.nodes[above].inode;
        if !directory.is_directory() {
            let path = resolved.path_at(above);
            return Err(match purpose {
                Purpose::Find => NsError::ThroughFile { path },
                Purpose::Create | Purpose::Make => NsError::ParentNotDirectory { path },
            }
            .into());
        }
        permission::check_node(caller, &resolved, above, Access::EXECUTE)?;
        match read_entry(rows, directory.id, name)? {
            Some(inode) => {
                let place = Place { parent: directory.id, name: name.into() };
                resolved.nodes.push(Node { place, inode });
            }
            None => {
                resolved.missing.push(name.into());
                resolved.missing.extend(names.by_ref().map(String::from));
            }
        }
    }
    Ok(resolved)
}

/// Nothing is found below `/.reserved` but by one of its ways.
fn missing_below_root(rows: &dyn Rows, path: &FsPath) -> Result<Resolved, RowsError> {
    Ok(Resolved {
        path: path.clone(),
        nodes: vec![root(rows)?],
        missing: path.components().map(String::from).collect(),
    })
}

/// Names HDFS refuses for new inodes. What no path can have at all, the parser refused already.
fn check_new_path(path: &FsPath, purpose: Purpose) -> Result<(), NsError> {
    if !reserved::may_be_made(path) || path.components().any(|name| name.contains(':')) {
        return Err(NsError::InvalidPath { path: path.clone(), purpose });
    }
    if path.components().any(|name| name == ".snapshot") {
        return Err(NsError::ReservedName(ReservedName::Snapshot));
    }
    Ok(())
}
