//! Profiles on the disk, below the user's cache directory: a file each, which takes its name when it is whole.
//!
//! Promise: whatever lies there, reading takes a bounded time and memory, and the directory has a bounded number of
//! files and bytes. A failure is a line in the log of those who look for it.

use crate::warm::Reached;
use prefetch::Profile;
use prefetch::profile::{PROFILE_LEN_MAX, ProfileName};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use types::Random;

/// Files that are kept; the ones written longest ago go first. A guess: some hundred data sets with two each.
const FILE_COUNT_MAX: usize = 512;
/// Bytes of all files.
const FILES_LEN_MAX: u64 = 8 << 20;
/// Files that are looked at when old ones are removed: others may have put any number there.
const LISTED_COUNT_MAX: usize = 4 * FILE_COUNT_MAX;

#[derive(Debug)]
pub(crate) struct ProfileDir {
    path: PathBuf,
}

/// `$XDG_CACHE_HOME/levada/profiles`, or below `~/.cache`. `None`: neither is an absolute path.
pub(crate) fn of_user() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("levada/profiles"))
}

impl ProfileDir {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub(crate) fn read(&self, name: ProfileName) -> Option<Profile> {
        let path = self.path.join(name.to_string());
        let bytes = match read_bounded(&path, PROFILE_LEN_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "a profile cannot be read");
                return None;
            }
        };
        Profile::decode(&bytes).inspect_err(|error| tracing::debug!(path = %path.display(), %error, "no profile")).ok()
    }

    pub(crate) fn write(&self, name: ProfileName, profile: &Profile) {
        self.keep(&name.to_string(), &profile.encode());
    }

    /// Where a data set was read.
    pub(crate) fn read_reached(&self, name: ProfileName) -> Option<Reached> {
        let bytes = read_bounded(&self.path.join(reached_name(name)), Reached::LEN_MAX).ok()?;
        Reached::decode(&bytes)
    }

    pub(crate) fn write_reached(&self, name: ProfileName, reached: &Reached) {
        self.keep(&reached_name(name), &reached.encode());
    }

    fn keep(&self, name: &str, bytes: &[u8]) {
        if let Err(error) = self.try_write(name, bytes) {
            tracing::debug!(path = %self.path.display(), %error, "a profile cannot be kept");
        }
    }

    fn try_write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        // What is read says what a user works on: nobody else's business.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
        let temporary = self.path.join(format!(".{name}.{:016x}", ::io::OsRandom::new().next_u64()));
        let written = write_new(&temporary, bytes);
        let renamed = written.and_then(|()| fs::rename(&temporary, self.path.join(name)));
        if let Err(error) = renamed {
            // It may not be there at all.
            let _gone = fs::remove_file(&temporary);
            return Err(error);
        }
        self.trim()
    }

    /// Removes the oldest files that are too many or too long together, and what was left of an interrupted write.
    fn trim(&self) -> io::Result<()> {
        let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.path)?.take(LISTED_COUNT_MAX) {
            let entry = entry?;
            let Ok(about) = entry.metadata() else { continue };
            if about.is_file() {
                files.push((about.modified().unwrap_or(SystemTime::UNIX_EPOCH), about.len(), entry.path()));
            }
        }
        files.sort_unstable();
        let mut left_len: u64 = files.iter().fold(0, |len, file| len.saturating_add(file.1));
        let mut left = files.len();
        for (_, len, path) in files {
            if left <= FILE_COUNT_MAX && left_len <= FILES_LEN_MAX {
                break;
            }
            fs::remove_file(path)?;
            (left, left_len) = (left - 1, left_len - len);
        }
        Ok(())
    }
}

fn reached_name(name: ProfileName) -> String {
    format!("{name}.node")
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Not synced: after a crash of the machine it may be empty, which is no profile.
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(bytes)
}

fn read_bounded(path: &Path, len_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // A pipe of that name would be waited for.
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    fs::File::open(path)?.take(len_max as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
