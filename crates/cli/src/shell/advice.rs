//! What a user of this command can do about an error, where that is not plain.

use client::ErrorKind;

pub(crate) fn on(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::Unreachable => "is the store running, and is the address right? see --url",
        ErrorKind::TimedOut => "look at the server's log, and try again",
        ErrorKind::Broken => {
            "look at the server's log, and try again; if the port is a datanode's, give the metadata server's, 8020 if \
             nobody chose another"
        }
        ErrorKind::NotAMetadataServer => {
            "that is no metadata server; if the port is a datanode's, give the metadata server's, 8020 if nobody chose \
             another"
        }
        ErrorKind::SafeMode => {
            "an administrator wants nothing to change; `levada admin safemode wait` tells when it is over"
        }
        ErrorKind::NoSuchDatanode => "see `levada admin datanode list`",
        ErrorKind::NoSuchJob => "see `levada admin jobs`",
        ErrorKind::Denied => {
            "choose the user with --user; where the store asks for Kerberos, get that user's ticket with kinit"
        }
        ErrorKind::Busy => "wait for its writer to close it; a dead writer's file is freed after a minute",
        ErrorKind::NoReplica => "are the datanodes running?",
        ErrorKind::NoNodeLeft => {
            "are the datanodes running, and is there room on their disks? `levada admin datanode list` tells; start \
             them, or delete files if the disks are full, then write the file again"
        }
        ErrorKind::NotComplete => "try again; the datanodes may be overloaded",
        _ => return None,
    })
}
