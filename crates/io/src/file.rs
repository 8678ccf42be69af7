//! File calls that the standard library lacks. All may wait for the disk unless said otherwise.

use rustix::fs::{Advice, FallocateFlags};
use std::fs::{File, TryLockError};
use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

static SYNC_COUNT: AtomicU64 = AtomicU64::new(0);

/// How often this process has waited for a disk. Whoever measures takes the difference of two answers.
pub fn sync_count() -> u64 {
    SYNC_COUNT.load(Ordering::Relaxed)
}

/// For a library that syncs by itself: so often it did.
pub fn count_syncs(count: u64) {
    SYNC_COUNT.fetch_add(count, Ordering::Relaxed);
}

/// `fdatasync`, counted: the bytes of the file and what is needed to find them.
#[expect(clippy::disallowed_methods, reason = "the place that counts")]
pub fn sync_data(file: &File) -> io::Result<()> {
    count_syncs(1);
    file.sync_data()
}

/// `fsync`, counted: the bytes of the file and all that is known of it.
#[expect(clippy::disallowed_methods, reason = "the place that counts")]
pub fn sync_all(file: &File) -> io::Result<()> {
    count_syncs(1);
    file.sync_all()
}

/// A child holds copies of all locks of its parent from its birth until it runs its own program: milliseconds, on a
/// busy machine some tens.
const LOCK_TRY_COUNT: usize = 50;
const LOCK_TRY_PAUSE: Duration = Duration::from_millis(10);

/// Locks `path`, which is made if it is not there, as long as the file lives. `WouldBlock`: another process has it, or
/// this one. As a child that is just being started may have a copy of a lock that was given back, half a second passes
/// before that is believed.
pub fn lock(path: &Path) -> io::Result<File> {
    let file = File::options().create(true).append(true).open(path)?;
    for tried in 1.. {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if tried < LOCK_TRY_COUNT => crate::task::sleep(LOCK_TRY_PAUSE),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(file)
}

/// Bytes of a range that are in the page cache, at the grain of pages. Does not wait.
/// A kernel that cannot tell (before 6.5, or a file of another user) gets the answer 0: the careful way is then taken.
pub fn resident_len(file: &File, offset: u64, len: u64) -> u64 {
    match cachestat(file, offset, len) {
        Some(stat) => stat.cached.saturating_mul(page_len()).min(len),
        None => 0,
    }
}

/// True if all of the range is in the page cache, so that reading it will not wait for the disk.
pub fn is_resident(file: &File, offset: u64, len: u64) -> bool {
    if len == 0 {
        return true; // the call below would take 0 for "to the end"
    }
    let pages = (offset + len - 1) / page_len() - offset / page_len() + 1;
    cachestat(file, offset, len).is_some_and(|stat| stat.cached >= pages)
}

/// Reads what of a range is in the page cache, from its beginning; 0 at the end of the file. `WouldBlock`: the disk
/// would have to be waited for, or the file system does not tell.
pub fn read_resident(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let flags = rustix::io::ReadWriteFlags::NOWAIT;
    loop {
        match rustix::io::preadv2(file, &mut [IoSliceMut::new(bytes)], offset, flags) {
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::OPNOTSUPP) => return Err(io::ErrorKind::WouldBlock.into()),
            done => return Ok(done?),
        }
    }
}

/// Asks the kernel to read a range ahead; returns before the bytes are there, but may wait to queue the reads.
pub fn will_need(file: &File, offset: u64, len: u64) -> io::Result<()> {
    advise(file, offset, len, Advice::WillNeed)
}

/// Drops clean pages of a range from the page cache.
pub fn drop_cache(file: &File, offset: u64, len: u64) -> io::Result<()> {
    advise(file, offset, len, Advice::DontNeed)
}

fn advise(file: &File, offset: u64, len: u64, advice: Advice) -> io::Result<()> {
    match NonZeroU64::new(len) {
        Some(len) => Ok(rustix::fs::fadvise(file, offset, Some(len), advice)?),
        None => Ok(()),
    }
}

/// Writes all of several pieces, one behind the other, in as few calls as are good for the page cache.
pub fn write_all_vectored_at(file: &File, mut pieces: &mut [IoSlice<'_>], mut offset: u64) -> io::Result<()> {
    IoSlice::advance_slices(&mut pieces, 0); // empty ones at the front
    while !pieces.is_empty() {
        match rustix::io::pwritev(file, &front(pieces), offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(len) => {
                offset += len as u64;
                IoSlice::advance_slices(&mut pieces, len);
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// What goes with one call.
fn front<'a>(pieces: &'a [IoSlice<'_>]) -> Vec<IoSlice<'a>> {
    let mut room = CALL_LEN_MAX;
    let mut take = |piece: &'a IoSlice<'_>| {
        let len = piece.len().min(room);
        room -= len;
        (len > 0).then(|| IoSlice::new(&piece[..len]))
    };
    pieces.iter().take(VECTOR_COUNT_MAX).map_while(&mut take).collect()
}

/// Pieces the kernel takes with one call (UIO_MAXIOV).
const VECTOR_COUNT_MAX: usize = 1024;
/// A file system with large folios takes pages as large as a call and its place allow. Where all calls have the length
/// of one page the kernel, as it seems, takes memory that was at rest for long, which a virtual machine's host may have
/// taken back: each first touch costs. Three replicas of a GB in packets of 256 KiB, in CPU seconds: by calls of up to
/// 256 KiB 2.3 to 3.3, 128 KiB 2.2 to 2.7, 64 KiB 1.8 to 2.2, 252 KiB, which are of pages of all sizes, 1.4 to 1.6
/// (ext4, Linux 6.18). A reader pays for it while the pages are those that were written: `cat` takes 0.046 to 0.052 CPU
/// seconds a GB, where calls of 256 KiB are read in 0.037.
const CALL_LEN_MAX: usize = 252 << 10;

/// Starts writing the dirty pages of a range to the disk and does not wait for them, so that a later `fsync` is short.
/// Promises nothing by itself: only `fsync` makes bytes durable.
#[expect(unsafe_code, reason = "sync_file_range has no safe wrapper")]
pub fn start_writeback(file: &File, offset: u64, len: u64) -> io::Result<()> {
    if len == 0 {
        return Ok(()); // the call would take 0 for "to the end"
    }
    let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // SAFETY: takes a valid descriptor and three numbers; touches no memory of ours.
    let done = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives the blocks of a range back to the file system; the range then reads as zeros and the file keeps its length.
/// A file system without holes answers `Unsupported`.
pub fn punch_hole(file: &File, offset: u64, len: u64) -> io::Result<()> {
    if len == 0 {
        return Ok(());
    }
    Ok(rustix::fs::fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len)?)
}

/// Where the first byte at or behind `offset` is that lies in no hole; `None` if there are only holes.
pub fn next_data(file: &File, offset: u64) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(offset)) {
        Ok(at) => Ok(Some(at)),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Bytes that a file takes of its file system: less than its length if it has holes.
pub fn allocated_len(file: &File) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    Ok(file.metadata()?.blocks() * 512)
}

/// Makes the names in a directory durable: what was created, renamed or removed there.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    sync_all(&File::open(dir)?)
}

/// An error if another user, but root, may read or change what is in this directory.
pub fn must_be_own(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    const OF_OTHERS: u32 = 0o077;
    let there = std::fs::metadata(dir)?;
    if there.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "this directory belongs to another user"));
    }
    if there.mode() & OF_OTHERS != 0 {
        let why = format!("other users may use this directory (mode {:o}, should be 700)", there.mode() & 0o777);
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

/// Space of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub capacity: u64,
    /// What a process without privileges may still take.
    pub available: u64,
}

/// The space of the file system that holds `path`.
pub fn space_of(path: &Path) -> io::Result<Space> {
    let stat = rustix::fs::statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Ok(Space { capacity: bytes(stat.f_blocks), available: bytes(stat.f_bavail) })
}

/// What cachestat(2) counts, in pages.
#[repr(C)]
#[derive(Default)]
struct CacheStat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

#[repr(C)]
struct CacheStatRange {
    offset: u64,
    len: u64,
}

/// The call's number, the same on every architecture that got it with Linux 6.5 (alpha alone differs, and is not ours).
const SYS_CACHESTAT: libc::c_long = 451;

#[expect(unsafe_code, reason = "cachestat has no wrapper at all")]
fn cachestat(file: &File, offset: u64, len: u64) -> Option<CacheStat> {
    let range = CacheStatRange { offset, len };
    let mut stat = CacheStat::default();
    // SAFETY: both structs are laid out as the kernel's, live through the call, and the kernel writes `stat` alone.
    let done = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), std::ptr::from_ref(&range), std::ptr::from_mut(&mut stat), 0)
    };
    (done == 0).then_some(stat)
}

#[expect(unsafe_code, reason = "sysconf has no safe wrapper")]
fn page_len() -> u64 {
    // SAFETY: takes a number and gives one.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn bytes_just_written_are_resident_unless_the_kernel_cannot_tell() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![1; 1 << 20]).unwrap();
        if cachestat(&file, 0, 1).is_some() {
            assert!(is_resident(&file, 0, 1 << 20) && is_resident(&file, 5000, 1));
            assert!(!is_resident(&file, 0, 2 << 20), "nothing lies behind the end");
            assert_eq!(resident_len(&file, 0, 1 << 20), 1 << 20);
        } else {
            assert!(!is_resident(&file, 0, 1));
        }
        assert!(is_resident(&file, 0, 0));
        will_need(&file, 0, 1 << 20).unwrap();
    }

    #[test]
    fn a_punched_hole_gives_space_back_and_reads_as_zeros() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![1; 1 << 20]).unwrap();
        start_writeback(&file, 0, 1 << 20).unwrap();
        let before = sync_count();
        sync_all(&file).unwrap();
        assert!(sync_count() > before, "each is counted");
        let before = file.metadata().unwrap().blocks();
        match punch_hole(&file, 4096, 900_000) {
            Ok(()) => assert!(file.metadata().unwrap().blocks() < before),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => return,
            Err(error) => panic!("{error}"),
        }
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!((bytes.len(), bytes[4095], bytes[4096], bytes[1 << 19]), (1 << 20, 1, 0, 0));
    }

    #[test]
    fn many_pieces_are_written_one_behind_the_other() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..=250).cycle().take(1_000_003).collect();
        // Empty ones at the front, between and at the end, and more than one call takes.
        let mut pieces: Vec<IoSlice> = [0..0, 0..1000, 1000..1000].map(|range| IoSlice::new(&bytes[range])).into();
        pieces.extend(bytes[1000..5000].chunks(2).map(IoSlice::new));
        pieces.extend([&bytes[5000..400_000], &[], &bytes[400_000..], &[]].map(IoSlice::new));
        write_all_vectored_at(&file, &mut pieces, 7).unwrap();
        write_all_vectored_at(&file, &mut [], 1 << 20).unwrap();
        let mut found = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut found).unwrap();
        assert!(found[..7] == [0; 7] && found[7..] == bytes);
    }

    #[test]
    fn a_lock_that_was_given_back_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = lock(&path).unwrap();
        assert_eq!(lock(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        // As a child has it that does not run its own program yet.
        let copy = held.try_clone().unwrap();
        drop(held);
        let child = crate::task::thread("child", move || {
            crate::task::sleep(3 * LOCK_TRY_PAUSE);
            drop(copy);
        });
        lock(&path).unwrap();
        child.unwrap().join().unwrap();
    }

    #[test]
    fn space_and_directories() {
        let dir = tempfile::tempdir().unwrap();
        sync_dir(dir.path()).unwrap();
        let space = space_of(dir.path()).unwrap();
        assert!(space.available <= space.capacity && space.capacity > 0);
    }
}
