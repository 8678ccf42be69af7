//! Files in memory that are shown to other processes.
//!
//! Promise: no other process changes the length of one, and none writes to one that is [`sealed`]: not even through
//! `/proc`, where a descriptor for reading can be opened for writing.

use rustix::fs::{MemfdFlags, SealFlags};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// Its bytes, for ever, open for reading.
pub fn sealed(name: &str, pieces: &[&[u8]]) -> io::Result<File> {
    let mut file = create(name)?;
    for piece in pieces {
        file.write_all(piece)?;
    }
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    reader(&file)
}

/// Zeros, which everybody who has it may change: both ends of a protocol do.
pub fn shared(name: &str, len: u64) -> io::Result<File> {
    let file = create(name)?;
    file.set_len(len)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file)
}

fn create(name: &str) -> io::Result<File> {
    Ok(File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?))
}

/// The same file, opened for reading by itself: another process that gets this one holds it, as [`is_held`] sees.
pub fn reader(file: &File) -> io::Result<File> {
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Whether anybody else has a sealed file open or mapped. The kernel grants the lease for writing only to a file's sole
/// opener; it is given back at once. For whoever may not have leases, others always hold it.
#[expect(unsafe_code, reason = "leases have no safe wrapper")]
pub fn is_held(file: &File) -> bool {
    // SAFETY: takes a valid descriptor and two numbers; touches no memory of ours.
    let lease = |kind: libc::c_int| unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) };
    if lease(libc::F_WRLCK) != 0 {
        return true;
    }
    lease(libc::F_UNLCK);
    false
}

/// Writes one byte, as one store: what lies beside it may change at this moment.
pub fn store_byte(file: &File, offset: u64, byte: u8) -> io::Result<()> {
    file.write_all_at(&[byte], offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    #[test]
    fn what_is_sealed_stays_as_it_is() {
        let file = sealed("test", &[b"one ", b"two"]).unwrap();
        let shown = reader(&file).unwrap();
        let mut text = [0; 7];
        shown.read_exact_at(&mut text, 0).unwrap();
        assert_eq!(&text, b"one two");
        assert!(shown.write_at(b"x", 0).is_err() && shown.set_len(1).is_err());
        // A peer may open anew what it was given.
        let again = OpenOptions::new().write(true).open(format!("/proc/self/fd/{}", shown.as_raw_fd()));
        assert!(again.is_err() || again.unwrap().write_at(b"x", 0).is_err());
    }

    #[test]
    fn it_is_known_whether_others_have_it() {
        let file = sealed("test", &[b"x"]).unwrap();
        assert!(!is_held(&file));
        let shown = reader(&file).unwrap();
        let given = shown.try_clone().unwrap();
        drop(shown);
        assert!(is_held(&file));
        drop(given);
        assert!(!is_held(&file));
    }

    #[test]
    fn a_shared_one_keeps_its_length() {
        let file = shared("test", 8192).unwrap();
        let other = file.try_clone().unwrap();
        assert!(other.set_len(0).is_err() && other.set_len(1 << 20).is_err());
        other.write_all_at(&[1, 2, 3], 0).unwrap();
        store_byte(&file, 1, 9).unwrap();
        let mut bytes = [0; 3];
        other.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [1, 9, 3]);
    }
}
