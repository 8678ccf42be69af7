//! Waiting for several descriptors from one thread.

use rustix::event::{PollFd, PollFlags, Timespec};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// One descriptor and what is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Watch<'a> {
    pub fd: BorrowedFd<'a>,
    pub read: bool,
    pub write: bool,
}

/// What a descriptor is ready for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    pub readable: bool,
    pub writable: bool,
    /// Hang-up or error: the next read or write tells which.
    pub closed: bool,
}

/// Waits until one of `watches` is ready, at most `limit` (`None`: for ever). The answers are in the order of the
/// watches; all are empty if the time ran out, or a signal came.
pub fn poll(watches: &[Watch<'_>], limit: Option<Duration>) -> io::Result<Vec<Ready>> {
    let mut fds: Vec<PollFd<'_>> = watches
        .iter()
        .map(|watch| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, watch.read);
            flags.set(PollFlags::OUT, watch.write);
            PollFd::from_borrowed_fd(watch.fd, flags)
        })
        .collect();
    let limit = limit.map(|limit| Timespec {
        tv_sec: limit.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    });
    match rustix::event::poll(&mut fds, limit.as_ref()) {
        Err(rustix::io::Errno::INTR) => return Ok(vec![Ready::default(); watches.len()]),
        done => done?,
    };
    Ok(fds
        .iter()
        .map(|fd| {
            let is = |flag| fd.revents().intersects(flag);
            Ready {
                readable: is(PollFlags::IN),
                writable: is(PollFlags::OUT),
                closed: is(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL),
            }
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_descriptor_with_bytes_is_the_readable_one() {
        let (quiet, _quiet_far) = UnixStream::pair().unwrap();
        let (loud, mut loud_far) = UnixStream::pair().unwrap();
        loud_far.write_all(b"x").unwrap();
        let read = |stream| Watch { fd: stream, read: true, write: false };
        let ready = poll(&[read(quiet.as_fd()), read(loud.as_fd())], None).unwrap();
        assert_eq!(ready.iter().map(|ready| ready.readable).collect::<Vec<_>>(), [false, true]);
        let ready = poll(&[read(quiet.as_fd())], Some(Duration::from_millis(1))).unwrap();
        assert_eq!(ready, [Ready::default()]);
        drop(loud_far);
        assert!(poll(&[read(loud.as_fd())], None).unwrap()[0].closed);
    }
}
