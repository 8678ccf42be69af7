//! Limits that the machine sets for a process.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_is_taken() {
        let allowed = raise_open_files().unwrap();
        assert_eq!(getrlimit(Resource::Nofile).current, allowed);
        assert_eq!(raise_open_files().unwrap(), allowed, "once more changes nothing");
    }
}
