//! What an error says of the limits of a process or a machine.

use rustix::io::Errno;

/// True if an error tells that the process or the machine has no more of something just now: open files, memory. It
/// says nothing of what was to be read or written.
pub fn is_reached(error: &std::io::Error) -> bool {
    const LIMITS: [Errno; 5] = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN, Errno::INTR];
    Errno::from_io_error(error).is_some_and(|errno| LIMITS.contains(&errno))
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
}
