//! HDFS's sentences for calls that safe mode refuses.

use namespace::error::blocked::Blocked;

/// What HDFS adds to each of them.
pub(super) const IS_ON: &str = "Name node is in safe mode.\nIt was turned on manually. Use \"hdfs dfsadmin -safemode \
                                leave\" to turn safe mode off.";

/// What cannot be done: the beginning of the sentence.
pub(super) fn cannot(blocked: &Blocked) -> String {
    let path = blocked.path.as_ref().map(|path| path.as_str()).unwrap_or_default();
    let block = blocked.block.unwrap_or_default();
    match blocked.operation {
        "mkdirs" => format!("Cannot create directory {path}"),
        // As in HDFS, without a space.
        "create" | "putFile" => format!("Cannot create file{path}"),
        "append" => format!("Cannot append to file{path}"),
        "addBlock" | "addLeased" => format!("Cannot add block to {path}"),
        "abandonBlock" => format!("Cannot abandon block {block} for file{path}"),
        "updateBlockForPipeline" => {
            format!("Cannot get a new generation stamp and an access token for block {block}")
        }
        "updatePipeline" => "Pipeline not updated".into(),
        "complete" => format!("Cannot complete file {path}"),
        "fsync" => format!("Cannot fsync file {path}"),
        "rename" | "rename2" => format!("Cannot rename {path}"),
        "delete" => format!("Cannot delete {path}"),
        "setPermission" => format!("Cannot set permission for {path}"),
        "setOwner" => format!("Cannot set owner for {path}"),
        "setTimes" => format!("Cannot set times {path}"),
        "setReplication" => format!("Cannot set replication for {path}"),
        "setQuota" => format!("Cannot set quota on {path}"),
        "setAcl" => format!("Cannot set ACL on {path}"),
        "modifyAclEntries" => format!("Cannot modify ACL entries on {path}"),
        "removeAclEntries" => format!("Cannot remove ACL entries on {path}"),
        "removeDefaultAcl" => format!("Cannot remove default ACL entries on {path}"),
        "removeAcl" => format!("Cannot remove ACL on {path}"),
        "setXAttr" => format!("Cannot set XAttr on {path}"),
        "removeXAttr" => format!("Cannot remove XAttr entry on {path}"),
        "concat" => format!("Cannot concat {path}"),
        "getDelegationToken" => "Cannot issue delegation token".into(),
        "renewDelegationToken" => "Cannot renew delegation token".into(),
        "cancelDelegationToken" => "Cannot cancel delegation token".into(),
        "truncate" => format!("Cannot truncate for {path}"),
        "recoverLease" if blocked.path.is_some() => format!("Cannot recover the lease of {path}"),
        "commitBlockSynchronization" => "Cannot commitBlockSynchronization while in safe mode".into(),
        // The server's own.
        operation => format!("Cannot {operation}"),
    }
}
