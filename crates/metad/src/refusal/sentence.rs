//! HDFS's sentences for refusals of the namespace. Users know them, and scripts compare some. No program of ours does.

use super::safe_mode;
use namespace::error::absent::{Absent, Existing};
use namespace::error::acl_fault::AclFault;
use namespace::error::block_fault::{BlockFault, BlockName, BlockRequest, UpdateFault};
use namespace::error::concat_fault::ConcatFault;
use namespace::error::denial::{Denial, Guarded};
use namespace::error::held::{Held, Holder, Opening};
use namespace::error::lease_fault::{LeaseFault, Writing};
use namespace::error::limit::Limit;
use namespace::error::passed::Passed;
use namespace::error::rename_fault::RenameFault;
use namespace::error::xattr_fault::XattrFault;
use namespace::error::{Purpose, ReservedName};
use namespace::{
    ACL_ENTRY_COUNT_MAX, ACL_NAME_LEN_MAX, Access, AclKey, AclKind, AclScope, BLOCK_COUNT_MAX, BLOCKS_CHANGED_MAX,
    HOLDER_LEN_MAX, NsError, OWNER_NAME_LEN_MAX, RECOVERY_HOLDER, RESERVED_COUNT_MAX, TREE_DEPTH_MAX, XATTR_COUNT_MAX,
    XATTR_LEN_MAX, XATTR_NAME_LEN_MAX, client_of,
};
use types::limits::{BLOCK_LEN_MAX, CHILDREN_COUNT_MAX, NAME_LEN_MAX, PATH_DEPTH_MAX, PATH_LEN_MAX, REPLICATION_MAX};
use types::path::PathError;

pub(super) fn of(error: &NsError) -> String {
    match error {
        NsError::NotFound(what) => absent(what),
        NsError::IsDirectory(path) => format!("Path is not a file: {path}"),
        NsError::AlreadyExists(what) => existing(what),
        NsError::ExistsAsDirectory { path, append: false } => format!("{path} already exists as a directory"),
        NsError::ExistsAsDirectory { path, append: true } => {
            format!("Cannot append to directory {path}; already exists as a directory.")
        }
        NsError::ParentNotDirectory { path } | NsError::ThroughFile { path } => format!("{path} (is not a directory)"),
        NsError::NotEmpty(path) => format!("`{path} is non empty': Directory is not empty"),
        // Two calls put one message into the other.
        NsError::InvalidPath { path, purpose: Purpose::Make } => format!("Invalid path name Invalid file name: {path}"),
        NsError::InvalidPath { path, purpose: Purpose::Find | Purpose::Create } => format!("Invalid path name {path}"),
        NsError::UnusablePath(error) => format!("Invalid path name Invalid file name: {}", path(error)),
        NsError::ReservedName(ReservedName::Snapshot) => "\".snapshot\" is a reserved name.".into(),
        NsError::ReservedName(ReservedName::Reserved) => {
            "File name \".reserved\" is reserved and cannot be created. If this is during upgrade change the name of \
             the existing file or directory to another name before upgrading to the new release."
                .into()
        }
        NsError::AccessDenied(what) => denial(what),
        NsError::GroupsUnknown(what) => format!(
            "{} (the groups of the user are not known: the user database did not answer; try again)",
            denial(what)
        ),
        NsError::LeaseExpired(fault) => lease(fault),
        NsError::AlreadyBeingCreated(what) | NsError::RecoveryInProgress(what) => held(what),
        NsError::NameTooLong { name } => name_too_long(name, name.len()),
        NsError::TooManyChildren { path } => format!(
            "The directory item limit of {path} is exceeded: limit={CHILDREN_COUNT_MAX} items={}",
            CHILDREN_COUNT_MAX + 1
        ),
        NsError::NotDirectory(path) => format!("`{path}': Is not a directory"),
        NsError::Quota { path, passed } => quota(path, *passed),
        NsError::ListingStartGone => "The entry the listing was to go on from is gone".into(),
        NsError::Acl { path, fault } => match fault {
            // HDFS names the path twice.
            AclFault::DefaultOfFile => format!("{} Path: {path} Path: {path}", acl(fault)),
            fault => format!("{} Path: {path}", acl(fault)),
        },
        NsError::Xattr(fault) => xattr(fault),
        NsError::Rename(fault) => rename(fault),
        NsError::Concat(fault) => concat(fault),
        NsError::Block(fault) => block(fault),
        NsError::Limit(what) => limit(what),
        NsError::SafeMode(blocked) => format!("{}. {}", safe_mode::cannot(blocked), safe_mode::IS_ON),
        NsError::NotExamined(path) => format!("{path} was replaced while its rights were examined; try again"),
        NsError::Panicked { operation } => {
            format!("internal error in {operation}, which changed nothing; report it, with the server's log")
        }
    }
}

pub(super) fn path(error: &PathError) -> String {
    match error {
        PathError::TooLong => format!("Pathname too long. Limit {PATH_LEN_MAX} characters, {PATH_DEPTH_MAX} levels."),
        PathError::NameTooLong { name, len } => name_too_long(name, *len),
        // HDFS has no sentence for these two alone.
        PathError::Relative { .. } | PathError::Component { .. } => error.to_string(),
    }
}

fn name_too_long(name: &str, len: usize) -> String {
    format!(
        "The maximum path component name limit of {name} in directory is exceeded: limit={NAME_LEN_MAX} length={len}"
    )
}

fn absent(what: &Absent) -> String {
    match what {
        Absent::Path(path) => format!("File does not exist: {path}"),
        Absent::Inode(id) => format!("File does not exist: {id}"),
        Absent::Written(what) => format!("File does not exist: {}", writing(what)),
        Absent::Overwritten(path) => format!("Can't overwrite non-existent {path}"),
        Absent::Parent(path) => format!("Parent directory doesn't exist: {path}"),
        Absent::RenameParent(path) => format!("rename destination parent {path} not found."),
        Absent::RenameSource(path) => format!("rename source {path} is not found."),
        Absent::Attributed(path) => format!("cannot find {path}"),
        Absent::Appended { path, client_host } => {
            format!("Failed to append to non-existent file {path} for client {client_host}")
        }
        Absent::Timed(path) => format!("File/Directory {path} does not exist."),
        Absent::Owned(path) => format!("Directory/File does not exist {path}"),
        Absent::Limited(path) => format!("Directory does not exist: {path}"),
        Absent::Examined(path) => format!("Path not found: {path}"),
        Absent::Reserved(path) => format!("File for given inode path does not exist: {path}"),
    }
}

fn existing(what: &Existing) -> String {
    match what {
        Existing::File { path, client_host } => format!("{path} for client {client_host} already exists"),
        Existing::NotADirectory(path) => format!("Path is not a directory: {path}"),
        Existing::RenameSource { from, to } => format!("The source {from} and destination {to} are the same"),
        Existing::RenameTarget(path) => format!("rename destination {path} already exists"),
    }
}

fn denial(what: &Denial) -> String {
    match what {
        Denial::Access { user, access, inode } => {
            format!("Permission denied: user={user}, access={}, inode={}", name_of(*access), guarded(inode))
        }
        Denial::Sticky { user, child, parent } => {
            format!("Permission denied by sticky bit: user={user}, path={}, parent={}", guarded(child), guarded(parent))
        }
        Denial::NotOwner { user, path } => format!("Permission denied. user={user} is not the owner of inode={path}"),
        Denial::NotSuperuser { user, operation } => {
            let operation = match *operation {
                "enterSafeMode" => "safemode_enter",
                "leaveSafeMode" => "safemode_leave",
                operation => operation,
            };
            format!("Access denied for user {user}. Superuser privilege is required for operation {operation}")
        }
        Denial::NewOwner { user } => {
            format!("User {user} is not a super user (non-super user cannot change owner).")
        }
        Denial::NotInGroup { user, group } => format!("User {user} does not belong to {group}"),
        Denial::UnreadableForSuperusers { user } => {
            format!("Access is denied for {user} since the superuser is not allowed to perform this operation.")
        }
        Denial::XattrSpace(name) => format!("User doesn't have permission for xattr: {name}"),
        Denial::MarkWithValue(name) => {
            format!("Attempt to set a value for '{name}'. Values are not allowed for this xattr.")
        }
        Denial::MarkRemoved(name) => format!("The xattr '{name}' can not be deleted."),
    }
}

/// Of HDFS's `FsAction`.
fn name_of(access: Access) -> &'static str {
    const NAMES: [&str; 8] = ["NONE", "EXECUTE", "WRITE", "WRITE_EXECUTE", "READ", "READ_EXECUTE", "READ_WRITE", "ALL"];
    NAMES[usize::from(access.bits() & 7)]
}

fn guarded(inode: &Guarded) -> String {
    let Guarded { path, owner, group, mode, is_directory } = inode;
    let kind = if *is_directory { 'd' } else { '-' };
    format!("\"{path}\":{owner}:{group}:{kind}{}", symbols(*mode))
}

/// `rwxr-xr-t`, as ls shows it.
fn symbols(mode: u16) -> String {
    let mut text: String =
        (0..9).map(|place| if mode >> (8 - place) & 1 == 1 { ['r', 'w', 'x'][place % 3] } else { '-' }).collect();
    if mode & 0o1000 != 0 {
        let last = if mode & 1 == 1 { 't' } else { 'T' };
        text.pop();
        text.push(last);
    }
    assert_eq!(text.len(), 9, "three letters for each of owner, group and others");
    text
}

fn lease(fault: &LeaseFault) -> String {
    match fault {
        LeaseFault::NotAFile(what) => format!("INode is not a regular file: {}", writing(what)),
        LeaseFault::NotOpen(what) => format!("File is not open for writing: {}", writing(what)),
        LeaseFault::OtherHolder { holder, writing: what } => {
            let (client, holder) = (client_of(&what.client), client_of(holder));
            format!("Client (={client}) is not the lease owner (={holder}: {}", writing(what))
        }
        LeaseFault::BlockOfOther { block, client } => {
            format!("Lease mismatch: {} is accessed by a non lease holder {}", named(*block), client_of(client))
        }
        LeaseFault::IdsNotLeased { block, file: None } => format!("{block} was used already, or never given out"),
        LeaseFault::IdsNotLeased { block, file: Some(file) } => {
            format!("{block} or {file} is used already, or was never given out")
        }
    }
}

fn writing(what: &Writing) -> String {
    let Writing { path, file, open_count, .. } = what;
    let client = client_of(&what.client);
    let lease = match open_count {
        0 => format!("Holder {client} does not have any open files."),
        count => format!("[Lease.  Holder: {client}, pending creates: {count}]"),
    };
    format!("{path} (inode {}) {lease}", file.0)
}

fn held(what: &Held) -> String {
    let Held { opening, path, client_host, by, .. } = what;
    let client = client_of(&what.client);
    let reason = match by {
        Holder::Itself => format!("{client} is already the current lease holder."),
        Holder::Recovery { holder, host } => format!("another recovery is in progress by {holder} on {host}"),
        Holder::Other { holder, host } => {
            format!("this file lease is currently owned by {} on {host}", client_of(holder))
        }
        Holder::Truncation => format!("{path} is being truncated."),
    };
    not_opened(*opening, path, client, client_host, &reason)
}

/// A client that asks for an open file has to come back, as its recovery has just begun.
pub(super) fn recovering(opening: Opening, path: &str, client: &str, client_host: &str) -> String {
    not_opened(opening, path, client, client_host, "lease recovery is in progress. Try again later.")
}

fn not_opened(opening: Opening, path: &str, client: &str, client_host: &str, reason: &str) -> String {
    let call = match opening {
        Opening::Create => "CREATE_FILE",
        Opening::Append => "APPEND_FILE",
        Opening::Truncate => "TRUNCATE_FILE",
    };
    format!("Failed to {call} {path} for {client} on {client_host} because {reason}")
}

fn quota(path: &str, passed: Passed) -> String {
    match passed {
        Passed::Names { limit, count } => format!(
            "The NameSpace quota (directories and files) of directory {path} is exceeded: quota={limit} file \
             count={count}"
        ),
        Passed::Space { limit, space } => format!(
            "The DiskSpace quota of {path} is exceeded: quota = {limit} B = {} but diskspace consumed = {space} B = {}",
            in_units(limit.into()),
            in_units(space)
        ),
        Passed::DiskSpace { limit, space } => format!(
            "Quota by storage type : DISK on path : {path} is exceeded. quota = {} but space consumed = {}",
            in_units(limit.into()),
            in_units(space)
        ),
    }
}

/// Bytes as HDFS writes them: `384 MB`, `1.50 GB`.
fn in_units(bytes: u128) -> String {
    const PREFIXES: [&str; 6] = ["K", "M", "G", "T", "P", "E"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut place = (bytes.ilog2() as usize / 10 - 1).min(PREFIXES.len() - 1);
    assert!(bytes >= 1_u128 << (10 * (place + 1)), "{bytes} bytes are less than one {}B", PREFIXES[place]);
    let unit = |place: usize| 1_u128 << (10 * (place + 1));
    if bytes.is_multiple_of(unit(place)) {
        return format!("{} {}B", bytes / unit(place), PREFIXES[place]);
    }
    let rounded = |place: usize| format!("{:.2}", bytes as f64 / unit(place) as f64);
    if rounded(place).starts_with("1024") && place + 1 < PREFIXES.len() {
        place += 1;
    }
    format!("{} {}B", rounded(place), PREFIXES[place])
}

fn acl(fault: &AclFault) -> String {
    match fault {
        AclFault::Named { key, access } => {
            format!("Invalid ACL: this entry type must not have a name: {}.", acl_entry(key, *access))
        }
        AclFault::Repeated => "Invalid ACL: multiple entries with same scope, type and name.".into(),
        AclFault::NameLen => format!("Invalid ACL: a name has 1 to {ACL_NAME_LEN_MAX} bytes."),
        AclFault::TooMany { scope, count } => {
            let scope = if *scope == AclScope::Default { "default" } else { "access" };
            format!("Invalid ACL: ACL has {count} {scope} entries, which exceeds maximum of {ACL_ENTRY_COUNT_MAX}.")
        }
        AclFault::NoMask => "Invalid ACL: mask is required and cannot be deleted.".into(),
        AclFault::NoBase(scope) => {
            let scope = if *scope == AclScope::Default { "default " } else { "" };
            format!("Invalid {scope}ACL: the user, group and other entries are required.")
        }
        AclFault::DefaultOfFile => "Invalid ACL: only directories may have a default ACL.".into(),
    }
}

fn acl_entry(key: &AclKey, access: u8) -> String {
    let scope = if key.scope == AclScope::Default { "default:" } else { "" };
    let kind = match key.kind {
        AclKind::User => "user",
        AclKind::Group => "group",
        AclKind::Mask => "mask",
        AclKind::Other => "other",
    };
    let right = |bit: u8, letter: char| if access & bit == bit { letter } else { '-' };
    let name = key.name.as_deref().unwrap_or_default();
    format!("{scope}{kind}:{name}:{}{}{}", right(4, 'r'), right(2, 'w'), right(1, 'x'))
}

fn xattr(fault: &XattrFault) -> String {
    match fault {
        XattrFault::NotFound => "At least one of the attributes provided was not found.".into(),
        XattrFault::NotThereToRemove => "No matching attributes found for remove operation".into(),
        XattrFault::Exists(name) => {
            format!("XAttr: {} already exists. The REPLACE flag must be specified.", name.name)
        }
        XattrFault::Missing(name) => {
            format!("XAttr: {} does not exist. The CREATE flag must be specified.", name.name)
        }
        XattrFault::MarkOnDirectory(name) => format!("Can only set '{name}' on a file."),
        XattrFault::TooMany => {
            format!("Cannot add additional XAttr to inode, would exceed limit of {XATTR_COUNT_MAX}")
        }
        XattrFault::TooLong { len } => format!(
            "The XAttr is too big. The maximum combined size of the name and value is {XATTR_LEN_MAX}, but the total \
             size is {len}"
        ),
        XattrFault::NameLen => {
            format!("The name of an XAttr has 1 to {XATTR_NAME_LEN_MAX} bytes, and none of them zero")
        }
    }
}

fn rename(fault: &RenameFault) -> String {
    match fault {
        RenameFault::SourceIsRoot => "rename source cannot be the root".into(),
        RenameFault::TargetIsRoot => "rename destination cannot be the root".into(),
        RenameFault::TargetBelowSource { from, to } => {
            format!("Rename destination {to} is a directory or file under source {from}")
        }
        RenameFault::KindsDiffer { from, to } => format!("Source {from} and destination {to} must both be directories"),
        RenameFault::TargetNotEmpty(path) => format!("rename destination directory is not empty: {path}"),
        RenameFault::OtherTarget(path) => {
            format!("rename destination {path} is not, or not any more, the file that was to be replaced")
        }
    }
}

fn concat(fault: &ConcatFault) -> String {
    match fault {
        ConcatFault::NoSources => "No sources given".into(),
        ConcatFault::Repeated => "concat: at least two of the source files are the same".into(),
        ConcatFault::TargetOpen(path) => format!("concat: target file {path} is under construction"),
        ConcatFault::OtherDirectory { source, target } => {
            format!("Source file {source} is not in the same directory with the target {target}")
        }
        ConcatFault::SourceIsTarget { source, target } => {
            format!("concat: the src file {source} is the same with the target file {target}")
        }
        ConcatFault::OpenOrEmpty { source } => {
            format!("concat: source file {source} is invalid or empty or underConstruction")
        }
        ConcatFault::BlockLen { source, len, len_max } => format!(
            "concat: source file {source} has preferred block size {len} which is greater than the target file's \
             preferred block size {len_max}"
        ),
    }
}

/// As HDFS writes a block.
fn named(name: BlockName) -> String {
    format!("{}_{}", name.block, name.generation.0)
}

fn block(fault: &BlockFault) -> String {
    match fault {
        BlockFault::Unknown(block) => format!("{block} does not exist."),
        BlockFault::FileNotOpen(name) => {
            format!("The file {} belonged to does not exist or it is not under construction.", named(*name))
        }
        BlockFault::Complete(name) => format!("{} is not under construction.", named(*name)),
        BlockFault::OtherGeneration { have, claimed } => {
            format!("Commit block with mismatching GS. NN has {}, client submitted {}", named(*have), named(*claimed))
        }
        BlockFault::OtherLen { claimed, len, recorded } => format!(
            "Commit block {} with {len} bytes, but {recorded} bytes of it are recorded already",
            named(*claimed)
        ),
        BlockFault::TooLong { len, file, len_max } => format!(
            "A block of {len} bytes in {file}, whose blocks have at most {len_max} bytes, and no datanode has so much \
             of it: close the file with the length that was written"
        ),
        BlockFault::NotLast { path, request, claimed, last } => {
            let shown = |name: &Option<BlockName>| name.map_or("null".into(), named);
            let (what, word) = match request {
                BlockRequest::Add => ("allocate block in", "previous"),
                BlockRequest::Complete => ("complete", "last"),
            };
            format!(
                "Cannot {what} {path}: passed '{word}' block {} does not match actual last block in file {}",
                shown(claimed),
                shown(last)
            )
        }
        BlockFault::Written { last, len } => format!(
            "Request looked like a retry to allocate block {} but it already contains {len} bytes",
            named(*last)
        ),
        BlockFault::Owned(block) => format!("{block} belongs to a file already, and can not be given out again"),
        BlockFault::Misplaced { found, wanted } => format!("{found} stands where {wanted} should"),
        BlockFault::Update { old, new, fault } => {
            let reason = match fault {
                UpdateFault::NotNewer { recorded } => {
                    format!("does not have a larger generation stamp than the last block {}", named(*recorded))
                }
                UpdateFault::NeverIssued => "has a generation stamp that was never issued".into(),
                UpdateFault::Shorter { len, recorded } => {
                    format!("of {len} bytes is shorter than the {recorded} bytes recorded")
                }
            };
            format!("Update {} but the new block {} {reason}", named(*old), named(*new))
        }
        BlockFault::RecoveryOver { block, generation, current } => {
            let current = current.map_or("none is under way".into(), |current| format!("{current} is under way"));
            format!("The recovery of {block} under {generation} is over, or a later one has replaced it: {current}")
        }
        BlockFault::Lost { block, len } => format!(
            "{block} has {len} bytes, and no node reported any of them: the recovery waits for the nodes that had \
             them, until the file is deleted"
        ),
        BlockFault::HomeGone(home) => format!("{home} was empty and is removed; ask for another block"),
    }
}

fn limit(what: &Limit) -> String {
    match what {
        Limit::Replication { replication, path, client_host } => {
            let why = match replication {
                0 => "is less than the required minimum of 1".into(),
                _ => format!("exceeds maximum of {REPLICATION_MAX}"),
            };
            let by = client_host.as_ref().map(|host| format!(", clientName={host}")).unwrap_or_default();
            format!("Requested replication factor of {replication} {why} for {path}{by}")
        }
        Limit::BlockLenMin { len, min } => format!(
            "Specified block size {len} is less than configured minimum value \
             dfs.namenode.fs-limits.min-block-size={min}"
        ),
        Limit::BlockLenMax { len } => {
            format!("A block size of {len} bytes is too large; ask for at most {BLOCK_LEN_MAX}")
        }
        Limit::WrittenLen { len } => {
            format!("A block of {len} bytes is too long; it may have {BLOCK_LEN_MAX} at most")
        }
        Limit::FileLen { offset, len } => format!("A block of {len} bytes at offset {offset} makes the file too long"),
        Limit::BlockCount { count } => format!(
            "File has reached the limit on maximum number of blocks (dfs.namenode.fs-limits.max-blocks-per-file): \
             {count} >= {BLOCK_COUNT_MAX}"
        ),
        Limit::JoinedBlockCount => format!("A file has {BLOCK_COUNT_MAX} blocks at most"),
        Limit::ConcatSources { count } => format!(
            "concat: {count} sources are too many, one call joins {BLOCKS_CHANGED_MAX} at most; join them in several \
             calls"
        ),
        Limit::ConcatBlocks { count } => format!(
            "concat: the sources have {count} blocks, and one call moves {BLOCKS_CHANGED_MAX} at most; join them in \
             several calls"
        ),
        Limit::TruncatedBlocks { path, len } => format!(
            "{path} has more than {BLOCKS_CHANGED_MAX} blocks behind byte {len}, which is too many for one call; cut \
             it in steps"
        ),
        Limit::TruncateLen { have, wanted } => {
            format!("Cannot truncate to a larger file size. Current size: {have}, truncate size: {wanted}.")
        }
        Limit::PutLen { len, block_len } => format!(
            "a block of {len} bytes in a file with blocks of {block_len}; put at least a byte, and one block at most"
        ),
        Limit::ReservedIds { count } => format!("{count} ids can not be reserved; ask for 1 to {RESERVED_COUNT_MAX}"),
        Limit::HolderName(name) => format!(
            "{name:?} can not be the name of a client: 1 to {HOLDER_LEN_MAX} bytes, no zero byte, not \
             {RECOVERY_HOLDER:?}"
        ),
        Limit::OwnerNameLen { len } => {
            format!("The name of an owner or group has at most {OWNER_NAME_LEN_MAX} bytes, not {len}")
        }
        Limit::DirectoryDepth(directory) => {
            format!("{directory} is more than {TREE_DEPTH_MAX} levels deep; move it up first")
        }
        Limit::TreeDepth(directory) => {
            format!("The tree below {directory} is too deep: more than {TREE_DEPTH_MAX} levels")
        }
        Limit::RenamedDepth { path, depth } => format!(
            "rename: Pathname too long. Limit {TREE_DEPTH_MAX} levels, and with what is or was below it {path} may \
             take {depth}: move what is in it to a new directory, one after the other, and move that"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_in_hdfs() {
        let check = |bytes: u128, text: &str| assert_eq!(in_units(bytes), text);
        check(0, "0 B");
        check(1023, "1023 B");
        check(1 << 20, "1 MB");
        check(402_653_184, "384 MB");
        check(1_048_590, "1.00 MB");
        check((1 << 30) - 1, "1.00 GB");
        check(3 << 29, "1.50 GB");
        check(u128::from(u64::MAX), "16.00 EB");
    }

    #[test]
    fn modes_look_as_in_a_listing() {
        for (mode, text) in
            [(0o755, "rwxr-xr-x"), (0o1777, "rwxrwxrwt"), (0o1770, "rwxrwx--T"), (0o640, "rw-r-----"), (0, "---------")]
        {
            assert_eq!(symbols(mode), text);
        }
    }
}
