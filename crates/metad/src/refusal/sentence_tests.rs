//! Tests of every sentence that HDFS's clients see of the namespace, to the letter.

use super::{no_new_path, no_path, sentence};
use namespace::error::absent::{Absent, Existing};
use namespace::error::acl_fault::AclFault;
use namespace::error::block_fault::{BlockFault, BlockName, BlockRequest, UpdateFault};
use namespace::error::blocked::Blocked;
use namespace::error::concat_fault::ConcatFault;
use namespace::error::denial::{Denial, Guarded};
use namespace::error::held::{Held, Holder, Opening};
use namespace::error::lease_fault::{LeaseFault, Writing};
use namespace::error::limit::Limit;
use namespace::error::passed::Passed;
use namespace::error::rename_fault::RenameFault;
use namespace::error::xattr_fault::XattrFault;
use namespace::error::{Purpose, ReservedName};
use namespace::{Access, AclScope, NsError, XattrName, XattrSpace};
use types::path::PathError;
use types::{BlockId, ContainerId, FsPath, Generation, InodeId};

/// What a text may stand for in an error.
trait Text {
    fn text(text: &str) -> Self;
}

impl Text for String {
    fn text(text: &str) -> Self {
        text.into()
    }
}

impl Text for FsPath {
    fn text(text: &str) -> Self {
        FsPath::parse(text).unwrap()
    }
}

fn t<T: Text>(text: &str) -> T {
    T::text(text)
}

#[test]
fn sentences_are_those_of_hdfs() {
    let sentences = [
        (
            NsError::AccessDenied(Box::new(Denial::Access {
                user: t("alice"),
                access: Access::from_bits(1),
                inode: Guarded {
                    path: t("/a/b"),
                    owner: t("root"),
                    group: t("supergroup"),
                    mode: 0o700,
                    is_directory: true,
                },
            })),
            "Permission denied: user=alice, access=EXECUTE, inode=\"/a/b\":root:supergroup:drwx------",
        ),
        (
            NsError::AccessDenied(Box::new(Denial::Access {
                user: t("alice"),
                access: Access::from_bits(2),
                inode: Guarded {
                    path: t("/f"),
                    owner: t("root"),
                    group: t("supergroup"),
                    mode: 0o644,
                    is_directory: false,
                },
            })),
            "Permission denied: user=alice, access=WRITE, inode=\"/f\":root:supergroup:-rw-r--r--",
        ),
        (
            NsError::AccessDenied(Box::new(Denial::MarkRemoved(XattrName {
                space: XattrSpace::Security,
                name: t("hdfs.unreadable.by.superuser"),
            }))),
            "The xattr 'security.hdfs.unreadable.by.superuser' can not be deleted.",
        ),
        (
            NsError::AccessDenied(Box::new(Denial::MarkWithValue(XattrName {
                space: XattrSpace::Security,
                name: t("hdfs.unreadable.by.superuser"),
            }))),
            "Attempt to set a value for 'security.hdfs.unreadable.by.superuser'. Values are not allowed for this \
             xattr.",
        ),
        (
            NsError::AccessDenied(Box::new(Denial::NewOwner { user: t("alice") })),
            "User alice is not a super user (non-super user cannot change owner).",
        ),
        (
            NsError::AccessDenied(Box::new(Denial::NotInGroup { user: t("alice"), group: t("wheel") })),
            "User alice does not belong to wheel",
        ),
        (
            NsError::AccessDenied(Box::new(Denial::NotOwner { user: t("alice"), path: t("/d") })),
            "Permission denied. user=alice is not the owner of inode=/d",
        ),
        (
            NsError::AccessDenied(Box::new(Denial::NotSuperuser { user: t("alice"), operation: "leaveSafeMode" })),
            "Access denied for user alice. Superuser privilege is required for operation safemode_leave",
        ),
        (
            NsError::AccessDenied(Box::new(Denial::NotSuperuser { user: t("alice"), operation: "setQuota" })),
            "Access denied for user alice. Superuser privilege is required for operation setQuota",
        ),
        (
            NsError::AccessDenied(Box::new(Denial::Sticky {
                user: t("alice"),
                child: Guarded {
                    path: t("/d/top/s/f"),
                    owner: t("bob"),
                    group: t("supergroup"),
                    mode: 0o644,
                    is_directory: false,
                },
                parent: Guarded {
                    path: t("/d/top/s"),
                    owner: t("carol"),
                    group: t("supergroup"),
                    mode: 0o1777,
                    is_directory: true,
                },
            })),
            "Permission denied by sticky bit: user=alice, path=\"/d/top/s/f\":bob:supergroup:-rw-r--r--, \
             parent=\"/d/top/s\":carol:supergroup:drwxrwxrwt",
        ),
        (
            NsError::AccessDenied(Box::new(Denial::UnreadableForSuperusers { user: t("root") })),
            "Access is denied for root since the superuser is not allowed to perform this operation.",
        ),
        (
            NsError::AccessDenied(Box::new(Denial::XattrSpace(XattrName { space: XattrSpace::Raw, name: t("a") }))),
            "User doesn't have permission for xattr: raw.a",
        ),
        (
            NsError::AccessDenied(Box::new(Denial::XattrSpace(XattrName {
                space: XattrSpace::Security,
                name: t("hdfs.other"),
            }))),
            "User doesn't have permission for xattr: security.hdfs.other",
        ),
        (
            NsError::AccessDenied(Box::new(Denial::XattrSpace(XattrName { space: XattrSpace::System, name: t("t") }))),
            "User doesn't have permission for xattr: system.t",
        ),
        (
            NsError::AccessDenied(Box::new(Denial::XattrSpace(XattrName { space: XattrSpace::Trusted, name: t("t") }))),
            "User doesn't have permission for xattr: trusted.t",
        ),
        (
            NsError::Acl { path: t("/d"), fault: AclFault::NoBase(AclScope::Access) },
            "Invalid ACL: the user, group and other entries are required. Path: /d",
        ),
        (
            NsError::Acl { path: t("/d"), fault: AclFault::NoMask },
            "Invalid ACL: mask is required and cannot be deleted. Path: /d",
        ),
        (
            NsError::Acl { path: t("/d/f"), fault: AclFault::DefaultOfFile },
            "Invalid ACL: only directories may have a default ACL. Path: /d/f Path: /d/f",
        ),
        (
            NsError::AlreadyBeingCreated(Box::new(Held {
                opening: Opening::Append,
                path: t("/f"),
                client: t("v"),
                client_host: t("10.0.0.1"),
                by: Holder::Other { holder: t("w"), host: t("10.0.0.1") },
            })),
            "Failed to APPEND_FILE /f for v on 10.0.0.1 because this file lease is currently owned by w on 10.0.0.1",
        ),
        (
            NsError::AlreadyBeingCreated(Box::new(Held {
                opening: Opening::Append,
                path: t("/f"),
                client: t("w"),
                client_host: t("10.0.0.1"),
                by: Holder::Itself,
            })),
            "Failed to APPEND_FILE /f for w on 10.0.0.1 because w is already the current lease holder.",
        ),
        (
            NsError::AlreadyBeingCreated(Box::new(Held {
                opening: Opening::Create,
                path: t("/f"),
                client: t("v"),
                client_host: t("10.0.0.1"),
                by: Holder::Other { holder: t("w"), host: t("10.0.0.1") },
            })),
            "Failed to CREATE_FILE /f for v on 10.0.0.1 because this file lease is currently owned by w on 10.0.0.1",
        ),
        (
            NsError::AlreadyBeingCreated(Box::new(Held {
                opening: Opening::Truncate,
                path: t("/f"),
                client: t("v"),
                client_host: t("10.0.0.1"),
                by: Holder::Other { holder: t("w"), host: t("10.0.0.1") },
            })),
            "Failed to TRUNCATE_FILE /f for v on 10.0.0.1 because this file lease is currently owned by w on 10.0.0.1",
        ),
        (
            NsError::AlreadyBeingCreated(Box::new(Held {
                opening: Opening::Truncate,
                path: t("/f"),
                client: t("v"),
                client_host: t("10.0.0.1"),
                by: Holder::Truncation,
            })),
            "Failed to TRUNCATE_FILE /f for v on 10.0.0.1 because /f is being truncated.",
        ),
        (
            NsError::AlreadyBeingCreated(Box::new(Held {
                opening: Opening::Truncate,
                path: t("/f"),
                client: t("w"),
                client_host: t("10.0.0.1"),
                by: Holder::Itself,
            })),
            "Failed to TRUNCATE_FILE /f for w on 10.0.0.1 because w is already the current lease holder.",
        ),
        (
            NsError::AlreadyExists(Existing::File { path: t("/f"), client_host: t("10.0.0.1") }),
            "/f for client 10.0.0.1 already exists",
        ),
        (NsError::AlreadyExists(Existing::NotADirectory(t("/f"))), "Path is not a directory: /f"),
        (
            NsError::AlreadyExists(Existing::RenameSource { from: t("/f"), to: t("/f") }),
            "The source /f and destination /f are the same",
        ),
        (NsError::AlreadyExists(Existing::RenameTarget(t("/g"))), "rename destination /g already exists"),
        (
            NsError::Block(Box::new(BlockFault::FileNotOpen(BlockName {
                block: BlockId(1048577),
                generation: Generation(1001),
            }))),
            "The file blk_1048577_1001 belonged to does not exist or it is not under construction.",
        ),
        (
            NsError::Block(Box::new(BlockFault::HomeGone(ContainerId(2)))),
            "container 2 was empty and is removed; ask for another block",
        ),
        (
            NsError::Block(Box::new(BlockFault::Lost { block: BlockId(1048577), len: 5 })),
            "blk_1048577 has 5 bytes, and no node reported any of them: the recovery waits for the nodes that had \
             them, until the file is deleted",
        ),
        (
            NsError::Block(Box::new(BlockFault::NotLast {
                path: t("/f"),
                request: BlockRequest::Add,
                claimed: None,
                last: Some(BlockName { block: BlockId(1048578), generation: Generation(1002) }),
            })),
            "Cannot allocate block in /f: passed 'previous' block null does not match actual last block in file \
             blk_1048578_1002",
        ),
        (
            NsError::Block(Box::new(BlockFault::OtherGeneration {
                have: BlockName { block: BlockId(1048577), generation: Generation(1001) },
                claimed: BlockName { block: BlockId(1048577), generation: Generation(1000) },
            })),
            "Commit block with mismatching GS. NN has blk_1048577_1001, client submitted blk_1048577_1000",
        ),
        (
            NsError::Block(Box::new(BlockFault::OtherLen {
                claimed: BlockName { block: BlockId(1048577), generation: Generation(1001) },
                len: 40,
                recorded: 50,
            })),
            "Commit block blk_1048577_1001 with 40 bytes, but 50 bytes of it are recorded already",
        ),
        (
            NsError::Block(Box::new(BlockFault::RecoveryOver {
                block: BlockId(1048577),
                generation: Generation(1002),
                current: Some(Generation(1003)),
            })),
            "The recovery of blk_1048577 under generation 1002 is over, or a later one has replaced it: generation \
             1003 is under way",
        ),
        (
            NsError::Block(Box::new(BlockFault::TooLong { len: 101, file: InodeId(16386), len_max: 100 })),
            "A block of 101 bytes in inode 16386, whose blocks have at most 100 bytes, and no datanode has so much of \
             it: close the file with the length that was written",
        ),
        (NsError::Block(Box::new(BlockFault::Unknown(BlockId(1048577)))), "blk_1048577 does not exist."),
        (
            NsError::Block(Box::new(BlockFault::Update {
                old: BlockName { block: BlockId(1048577), generation: Generation(1003) },
                new: BlockName { block: BlockId(1048577), generation: Generation(1003) },
                fault: UpdateFault::NotNewer {
                    recorded: BlockName { block: BlockId(1048577), generation: Generation(1003) },
                },
            })),
            "Update blk_1048577_1003 but the new block blk_1048577_1003 does not have a larger generation stamp than \
             the last block blk_1048577_1003",
        ),
        (
            NsError::Block(Box::new(BlockFault::Update {
                old: BlockName { block: BlockId(1048577), generation: Generation(1003) },
                new: BlockName { block: BlockId(1048577), generation: Generation(1004) },
                fault: UpdateFault::NeverIssued,
            })),
            "Update blk_1048577_1003 but the new block blk_1048577_1004 has a generation stamp that was never issued",
        ),
        (
            NsError::Block(Box::new(BlockFault::Update {
                old: BlockName { block: BlockId(1048577), generation: Generation(1004) },
                new: BlockName { block: BlockId(1048577), generation: Generation(1004) },
                fault: UpdateFault::Shorter { len: 30, recorded: 40 },
            })),
            "Update blk_1048577_1004 but the new block blk_1048577_1004 of 30 bytes is shorter than the 40 bytes \
             recorded",
        ),
        (
            NsError::Block(Box::new(BlockFault::Written {
                last: BlockName { block: BlockId(1048579), generation: Generation(1002) },
                len: 7,
            })),
            "Request looked like a retry to allocate block blk_1048579_1002 but it already contains 7 bytes",
        ),
        (
            NsError::Concat(Box::new(ConcatFault::OpenOrEmpty { source: t("/d/c") })),
            "concat: source file /d/c is invalid or empty or underConstruction",
        ),
        (NsError::Concat(Box::new(ConcatFault::Repeated)), "concat: at least two of the source files are the same"),
        (
            NsError::Concat(Box::new(ConcatFault::SourceIsTarget { source: t("/d/a"), target: t("/d/a") })),
            "concat: the src file /d/a is the same with the target file /d/a",
        ),
        (NsError::ExistsAsDirectory { path: t("/"), append: false }, "/ already exists as a directory"),
        (
            NsError::ExistsAsDirectory { path: t("/d"), append: true },
            "Cannot append to directory /d; already exists as a directory.",
        ),
        (NsError::InvalidPath { path: t("/.reserved"), purpose: Purpose::Find }, "Invalid path name /.reserved"),
        (NsError::InvalidPath { path: t("/.reserved/x"), purpose: Purpose::Create }, "Invalid path name /.reserved/x"),
        (NsError::InvalidPath { path: t("/a:b"), purpose: Purpose::Make }, "Invalid path name Invalid file name: /a:b"),
        (NsError::IsDirectory(t("/")), "Path is not a file: /"),
        (
            NsError::LeaseExpired(Box::new(LeaseFault::BlockOfOther {
                block: BlockName { block: BlockId(1048577), generation: Generation(1001) },
                client: t("w"),
            })),
            "Lease mismatch: blk_1048577_1001 is accessed by a non lease holder w",
        ),
        (
            NsError::LeaseExpired(Box::new(LeaseFault::IdsNotLeased {
                block: BlockId(1048577),
                file: Some(InodeId(16387)),
            })),
            "blk_1048577 or inode 16387 is used already, or was never given out",
        ),
        (
            NsError::LeaseExpired(Box::new(LeaseFault::IdsNotLeased { block: BlockId(1048580), file: None })),
            "blk_1048580 was used already, or never given out",
        ),
        (
            NsError::LeaseExpired(Box::new(LeaseFault::NotOpen(Writing {
                path: t("/f"),
                file: InodeId(16386),
                client: t("w"),
                open_count: 0,
            }))),
            "File is not open for writing: /f (inode 16386) Holder w does not have any open files.",
        ),
        (
            NsError::LeaseExpired(Box::new(LeaseFault::OtherHolder {
                holder: t("levada-recovery"),
                writing: Writing { path: t("/f"), file: InodeId(16386), client: t("levada-recovery"), open_count: 1 },
            })),
            "Client (=levada-recovery) is not the lease owner (=levada-recovery: /f (inode 16386) [Lease.  Holder: \
             levada-recovery, pending creates: 1]",
        ),
        (
            NsError::Limit(Box::new(Limit::BlockLenMax { len: 1099511627777 })),
            "A block size of 1099511627777 bytes is too large; ask for at most 1099511627776",
        ),
        (
            NsError::Limit(Box::new(Limit::BlockLenMin { len: 9, min: 10 })),
            "Specified block size 9 is less than configured minimum value dfs.namenode.fs-limits.min-block-size=10",
        ),
        (
            NsError::Limit(Box::new(Limit::HolderName(t("levada-recovery")))),
            "\"levada-recovery\" can not be the name of a client: 1 to 400 bytes, no zero byte, not \
             \"levada-recovery\"",
        ),
        (
            NsError::Limit(Box::new(Limit::PutLen { len: 101, block_len: 100 })),
            "a block of 101 bytes in a file with blocks of 100; put at least a byte, and one block at most",
        ),
        (
            NsError::Limit(Box::new(Limit::Replication { replication: 0, path: t("/f"), client_host: None })),
            "Requested replication factor of 0 is less than the required minimum of 1 for /f",
        ),
        (
            NsError::Limit(Box::new(Limit::Replication {
                replication: 0,
                path: t("/x"),
                client_host: Some(t("10.0.0.1")),
            })),
            "Requested replication factor of 0 is less than the required minimum of 1 for /x, clientName=10.0.0.1",
        ),
        (NsError::Limit(Box::new(Limit::ReservedIds { count: 0 })), "0 ids can not be reserved; ask for 1 to 65536"),
        (
            NsError::Limit(Box::new(Limit::TruncateLen { have: 200, wanted: 201 })),
            "Cannot truncate to a larger file size. Current size: 200, truncate size: 201.",
        ),
        (
            NsError::Limit(Box::new(Limit::WrittenLen { len: 1099511627777 })),
            "A block of 1099511627777 bytes is too long; it may have 1099511627776 at most",
        ),
        (NsError::ListingStartGone, "The entry the listing was to go on from is gone"),
        (NsError::NotDirectory(t("/f")), "`/f': Is not a directory"),
        (NsError::NotEmpty(t("/")), "`/ is non empty': Directory is not empty"),
        (
            NsError::NotFound(Absent::Appended { path: t("/none"), client_host: t("10.0.0.1") }),
            "Failed to append to non-existent file /none for client 10.0.0.1",
        ),
        (NsError::NotFound(Absent::Attributed(t("/none"))), "cannot find /none"),
        (NsError::NotFound(Absent::Examined(t("/none"))), "Path not found: /none"),
        (NsError::NotFound(Absent::Limited(t("/missing"))), "Directory does not exist: /missing"),
        (NsError::NotFound(Absent::Overwritten(t("/n"))), "Can't overwrite non-existent /n"),
        (NsError::NotFound(Absent::Owned(t("/none"))), "Directory/File does not exist /none"),
        (NsError::NotFound(Absent::Parent(t("/n"))), "Parent directory doesn't exist: /n"),
        (NsError::NotFound(Absent::Path(t("/d/none"))), "File does not exist: /d/none"),
        (
            NsError::NotFound(Absent::RenameParent(t("/.reserved/x"))),
            "rename destination parent /.reserved/x not found.",
        ),
        (NsError::NotFound(Absent::RenameSource(t("/none"))), "rename source /none is not found."),
        (
            NsError::NotFound(Absent::Reserved(t("/.reserved/.inodes/16385/.reserved/x"))),
            "File for given inode path does not exist: /.reserved/.inodes/16385/.reserved/x",
        ),
        (NsError::NotFound(Absent::Timed(t("/none"))), "File/Directory /none does not exist."),
        (
            NsError::NotFound(Absent::Written(Writing {
                path: t("/d/f"),
                file: InodeId(0),
                client: t("w"),
                open_count: 1,
            })),
            "File does not exist: /d/f (inode 0) [Lease.  Holder: w, pending creates: 1]",
        ),
        (NsError::ParentNotDirectory { path: t("/f") }, "/f (is not a directory)"),
        (
            NsError::Quota { path: t("/"), passed: Passed::Names { limit: 5, count: 6 } },
            "The NameSpace quota (directories and files) of directory / is exceeded: quota=5 file count=6",
        ),
        (
            NsError::Quota { path: t("/q"), passed: Passed::DiskSpace { limit: 299, space: 300 } },
            "Quota by storage type : DISK on path : /q is exceeded. quota = 299 B but space consumed = 300 B",
        ),
        (
            NsError::Quota { path: t("/q"), passed: Passed::Space { limit: 350, space: 400 } },
            "The DiskSpace quota of /q is exceeded: quota = 350 B = 350 B but diskspace consumed = 400 B = 400 B",
        ),
        (
            NsError::RecoveryInProgress(Box::new(Held {
                opening: Opening::Append,
                path: t("/f"),
                client: t("u"),
                client_host: t("10.0.0.1"),
                by: Holder::Recovery { holder: t("levada-recovery"), host: t("10.0.0.1") },
            })),
            "Failed to APPEND_FILE /f for u on 10.0.0.1 because another recovery is in progress by levada-recovery on \
             10.0.0.1",
        ),
        (
            NsError::RecoveryInProgress(Box::new(Held {
                opening: Opening::Create,
                path: t("/f"),
                client: t("u"),
                client_host: t("10.0.0.1"),
                by: Holder::Recovery { holder: t("levada-recovery"), host: t("10.0.0.1") },
            })),
            "Failed to CREATE_FILE /f for u on 10.0.0.1 because another recovery is in progress by levada-recovery on \
             10.0.0.1",
        ),
        (
            NsError::RecoveryInProgress(Box::new(Held {
                opening: Opening::Truncate,
                path: t("/f"),
                client: t("v"),
                client_host: t("10.0.0.1"),
                by: Holder::Recovery { holder: t("levada-recovery"), host: t("10.0.0.1") },
            })),
            "Failed to TRUNCATE_FILE /f for v on 10.0.0.1 because another recovery is in progress by levada-recovery \
             on 10.0.0.1",
        ),
        (
            NsError::Rename(Box::new(RenameFault::KindsDiffer { from: t("/d"), to: t("/f") })),
            "Source /d and destination /f must both be directories",
        ),
        (NsError::Rename(Box::new(RenameFault::SourceIsRoot)), "rename source cannot be the root"),
        (
            NsError::Rename(Box::new(RenameFault::TargetBelowSource { from: t("/d"), to: t("/d/e/x") })),
            "Rename destination /d/e/x is a directory or file under source /d",
        ),
        (NsError::Rename(Box::new(RenameFault::TargetIsRoot)), "rename destination cannot be the root"),
        (
            NsError::Rename(Box::new(RenameFault::TargetNotEmpty(t("/d")))),
            "rename destination directory is not empty: /d",
        ),
        (
            NsError::Rename(Box::new(RenameFault::OtherTarget(t("/f")))),
            "rename destination /f is not, or not any more, the file that was to be replaced",
        ),
        (
            NsError::ReservedName(ReservedName::Reserved),
            "File name \".reserved\" is reserved and cannot be created. If this is during upgrade change the name of \
             the existing file or directory to another name before upgrading to the new release.",
        ),
        (NsError::ReservedName(ReservedName::Snapshot), "\".snapshot\" is a reserved name."),
        (NsError::ThroughFile { path: t("/f") }, "/f (is not a directory)"),
        (
            NsError::Xattr(XattrFault::Exists(XattrName { space: XattrSpace::User, name: t("color") })),
            "XAttr: color already exists. The REPLACE flag must be specified.",
        ),
        (
            NsError::Xattr(XattrFault::MarkOnDirectory(XattrName {
                space: XattrSpace::Security,
                name: t("hdfs.unreadable.by.superuser"),
            })),
            "Can only set 'security.hdfs.unreadable.by.superuser' on a file.",
        ),
        (
            NsError::Xattr(XattrFault::Missing(XattrName { space: XattrSpace::User, name: t("shape") })),
            "XAttr: shape does not exist. The CREATE flag must be specified.",
        ),
        (NsError::Xattr(XattrFault::NotFound), "At least one of the attributes provided was not found."),
        (NsError::Xattr(XattrFault::NotThereToRemove), "No matching attributes found for remove operation"),
        (NsError::Xattr(XattrFault::TooMany), "Cannot add additional XAttr to inode, would exceed limit of 32"),
        (
            NsError::Limit(Box::new(Limit::RenamedDepth { path: t("/t"), depth: 2001 })),
            "rename: Pathname too long. Limit 2000 levels, and with what is or was below it /t may take 2001: move \
             what is in it to a new directory, one after the other, and move that",
        ),
        (
            NsError::TooManyChildren { path: t("/") },
            "The directory item limit of / is exceeded: limit=1048576 items=1048577",
        ),
        (
            NsError::NameTooLong { name: t("abc") },
            "The maximum path component name limit of abc in directory is exceeded: limit=255 length=3",
        ),
        (
            NsError::UnusablePath(PathError::TooLong),
            "Invalid path name Invalid file name: Pathname too long. Limit 8000 characters, 1000 levels.",
        ),
        (
            NsError::GroupsUnknown(Box::new(Denial::NewOwner { user: t("bob") })),
            "User bob is not a super user (non-super user cannot change owner). (the groups of the user are not \
             known: the user database did not answer; try again)",
        ),
        (
            NsError::Acl { path: t("/d"), fault: AclFault::Repeated },
            "Invalid ACL: multiple entries with same scope, type and name. Path: /d",
        ),
    ];
    for (error, wanted) in sentences {
        assert_eq!(sentence::of(&error), wanted, "{error:?}");
    }
}

#[test]
fn a_text_that_is_no_path_is_refused_as_by_hdfs() {
    let check = |text: &str, looked_up: &str, made: &str| {
        let error = FsPath::parse(text).unwrap_err();
        assert_eq!(no_path("mkdirs", text, error.clone()).message, looked_up, "{text}");
        assert_eq!(no_new_path("mkdirs", text, error).message, made, "{text}");
    };
    let long = "mkdirs: Pathname too long. Limit 8000 characters, 1000 levels.";
    check(&"/d".repeat(1001), long, long);
    let name = "n".repeat(256);
    let over =
        format!("The maximum path component name limit of {name} in directory is exceeded: limit=255 length=256");
    check(&format!("/{name}"), &over, &over);
    check("a", "Absolute path required, but got 'a'", "Invalid path name Invalid file name: a");
    check("/a/..", "Absolute path required, but got '/a/..'", "Invalid path name Invalid file name: /a/..");
}

#[test]
fn safe_mode_says_what_cannot_be_done_and_how_it_is_left() {
    let check = |operation, path: Option<&str>, wanted: &str| {
        let blocked = Blocked { operation, path: path.map(t), block: Some(BlockId(7)) };
        let wanted = format!(
            "{wanted}. Name node is in safe mode.\nIt was turned on manually. Use \"hdfs dfsadmin -safemode leave\" to \
             turn safe mode off."
        );
        assert_eq!(sentence::of(&NsError::SafeMode(blocked)), wanted);
    };
    let d = Some("/d");
    check("mkdirs", d, "Cannot create directory /d");
    check("create", d, "Cannot create file/d");
    check("putFile", d, "Cannot create file/d");
    check("append", d, "Cannot append to file/d");
    check("addBlock", d, "Cannot add block to /d");
    check("addLeased", d, "Cannot add block to /d");
    check("abandonBlock", d, "Cannot abandon block blk_7 for file/d");
    check("updateBlockForPipeline", d, "Cannot get a new generation stamp and an access token for block blk_7");
    check("updatePipeline", None, "Pipeline not updated");
    check("complete", d, "Cannot complete file /d");
    check("fsync", d, "Cannot fsync file /d");
    check("rename", d, "Cannot rename /d");
    check("rename2", d, "Cannot rename /d");
    check("delete", d, "Cannot delete /d");
    check("setPermission", d, "Cannot set permission for /d");
    check("setOwner", d, "Cannot set owner for /d");
    check("setTimes", d, "Cannot set times /d");
    check("setReplication", d, "Cannot set replication for /d");
    check("setQuota", d, "Cannot set quota on /d");
    check("setAcl", d, "Cannot set ACL on /d");
    check("modifyAclEntries", d, "Cannot modify ACL entries on /d");
    check("removeAclEntries", d, "Cannot remove ACL entries on /d");
    check("removeDefaultAcl", d, "Cannot remove default ACL entries on /d");
    check("removeAcl", d, "Cannot remove ACL on /d");
    check("setXAttr", d, "Cannot set XAttr on /d");
    check("removeXAttr", d, "Cannot remove XAttr entry on /d");
    check("concat", d, "Cannot concat /d");
    check("truncate", d, "Cannot truncate for /d");
    check("recoverLease", d, "Cannot recover the lease of /d");
    check("recoverLease", None, "Cannot recoverLease");
    check("commitBlockSynchronization", None, "Cannot commitBlockSynchronization while in safe mode");
    check("reap", None, "Cannot reap");
}
