//! Limits that the machine sets for a process.

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;

/// Takes as many open files and sockets as the administrator allows; returns how many that is (`None`: no limit).
/// Systems start processes with 1024 for the sake of programs that use `select`; a store needs more.
pub fn raise_open_files() -> io::Result<Option<u64>> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    }
    Ok(limit.maximum)
}

/// True if an error tells that the process or the machine has no more of something just now: open files, memory. It
/// says nothing of what was to be read or written.
pub fn is_reached(error: &std::io::Error) -> bool {
    let told = error.raw_os_error().map(Errno::from_raw_os_error);
    told.is_some_and(|errno| [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN, Errno::INTR].contains(&errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_open_files_is_no_damage() {
        assert!(is_reached(&Errno::MFILE.into()));
        assert!(!is_reached(&Errno::IO.into()));
        assert!(!is_reached(&std::io::ErrorKind::UnexpectedEof.into()));
    }

    #[test]
    fn what_is_allowed_is_taken() {
        let allowed = raise_open_files().unwrap();
        assert_eq!(getrlimit(Resource::Nofile).current, allowed);
        assert_eq!(raise_open_files().unwrap(), allowed, "once more changes nothing");
    }
}
