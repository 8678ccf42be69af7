//! What an error number of the operating system says of a disk. Decisions match on these lists, never on a text.

use rustix::io::Errno;
use std::io::Error;

/// What a disk says of bytes it has lost.
const LOST: [Errno; 5] = [Errno::IO, Errno::NODATA, Errno::BADMSG, Errno::UCLEAN, Errno::REMOTEIO];
/// Errors that speak of the disk itself. ext4 turns read-only after an error.
const OF_DISK: [Errno; 5] = [Errno::IO, Errno::NXIO, Errno::NODEV, Errno::ROFS, Errno::UCLEAN];

/// The disk had these bytes, and has them no more.
pub(crate) fn is_lost(error: &Error) -> bool {
    Errno::from_io_error(error).is_some_and(|errno| LOST.contains(&errno))
}

pub(crate) fn is_of_disk(error: &Error) -> bool {
    Errno::from_io_error(error).is_some_and(|errno| OF_DISK.contains(&errno))
}

pub(crate) fn is_read_only(error: &Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::ROFS)
}
