//! Where the log lies: a directory of files. The machine's own in earnest; a simulation brings one that loses power.

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fmt::Debug;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A directory that belongs to one log, or will.
pub trait Disk: Send + Sync + Debug + 'static {
    /// How it is called in errors.
    fn path(&self) -> &Path;

    /// A new segment of the log is begun at this length.
    fn segment_len(&self) -> u64;

    /// Makes the directory, if it is not there, and keeps others away as long as the result lives. `WouldBlock`:
    /// another has it.
    fn lock(&self) -> io::Result<Box<dyn Send>>;

    /// Of all files in it.
    fn names(&self) -> io::Result<Vec<String>>;

    fn read(&self, name: &str) -> io::Result<Vec<u8>>;

    /// Makes a file, or empties it.
    fn create(&self, name: &str) -> io::Result<Box<dyn Paper>>;

    /// To write to it.
    fn open(&self, name: &str) -> io::Result<Box<dyn Paper>>;

    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes it durable which files there are, and how they are called.
    fn sync_names(&self) -> io::Result<()>;

    /// Makes it durable that the directory is there.
    fn sync_self(&self) -> io::Result<()>;

    /// How long the next sync takes, where the disk is simulated and nothing takes time by itself: the writer waits so
    /// long.
    fn sync_time(&self) -> Duration {
        Duration::ZERO
    }
}

/// A file of the log.
pub trait Paper: Send + Debug {
    /// Space for a whole segment, which reads as zeros.
    fn reserve(&self, len: u64) -> io::Result<()>;

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    fn set_len(&self, len: u64) -> io::Result<()>;

    /// The bytes that were written, and what is needed to find them.
    fn sync_data(&self) -> io::Result<()>;

    fn sync_all(&self) -> io::Result<()>;
}

/// 16 MiB: small enough that cutting the log gives space back, large enough to be rare. Tests of this crate begin new
/// segments all the time.
const SEGMENT_LEN: u64 = if cfg!(test) { 64 << 10 } else { 16 << 20 };

/// A directory of the machine's file system.
#[derive(Debug)]
pub struct Directory(PathBuf);

impl Directory {
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }
}

impl Disk for Directory {
    fn path(&self) -> &Path {
        &self.0
    }

    fn segment_len(&self) -> u64 {
        SEGMENT_LEN
    }

    fn lock(&self) -> io::Result<Box<dyn Send>> {
        fs::create_dir_all(&self.0)?;
        Ok(Box::new(::io::file::lock(&self.0.join("lock"))?))
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let names = fs::read_dir(&self.0)?.map(|file| Ok(file?.file_name().into_string().ok()));
        names.filter_map(Result::transpose).collect()
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.0.join(name))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn Paper>> {
        let file = File::options().create(true).truncate(true).write(true).open(self.0.join(name))?;
        Ok(Box::new(file))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Paper>> {
        Ok(Box::new(File::options().write(true).open(self.0.join(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        ::io::file::sync_dir(&self.0)
    }

    fn sync_self(&self) -> io::Result<()> {
        let parent = self.0.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.map_or(Ok(()), ::io::file::sync_dir)
    }
}

impl Paper for File {
    fn reserve(&self, len: u64) -> io::Result<()> {
        match rustix::fs::fallocate(self, FallocateFlags::empty(), 0, len) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()), // then syncs are a little slower
            done => Ok(done?),
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Self::set_len(self, len)
    }

    fn sync_data(&self) -> io::Result<()> {
        ::io::file::sync_data(self)
    }

    fn sync_all(&self) -> io::Result<()> {
        ::io::file::sync_all(self)
    }
}
