//! Limits that the machine sets for a process.

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use std::io::Result;

/// Takes as many open files and sockets as the administrator allows; returns how many that is (`None`: no limit).
/// Systems start processes with 1024 for the sake of programs that use `select`; a store needs more.
pub fn raise_open_files() -> Result<Option<u64>> {
    let (current, maximum) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if current != maximum {
        setrlimit(Resource::RLIMIT_NOFILE, maximum, maximum)?;
    }
    Ok((maximum != RLIM_INFINITY).then_some(maximum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_is_taken() {
        let allowed = raise_open_files().unwrap();
        let (current, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!(current, allowed.unwrap_or(RLIM_INFINITY));
        assert_eq!(raise_open_files().unwrap(), allowed, "once more changes nothing");
    }
}
