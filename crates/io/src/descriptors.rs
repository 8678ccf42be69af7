//! Descriptors that go with bytes over a Unix socket.
//!
//! Promise: nobody receives more than [`COUNT_MAX`] of them, and what is received is owned from the first moment: a
//! program that this process starts meanwhile inherits none. Who reads such a socket in any other way has the kernel
//! close what comes along.

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Those of a replica: its bytes and its checksums.
pub const COUNT_MAX: usize = 2;

/// Sends `bytes`, at least one, and the descriptors with the first of them; returns how many bytes went.
pub fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    assert!(!bytes.is_empty() && descriptors.len() <= COUNT_MAX, "{} descriptors", descriptors.len());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(COUNT_MAX))];
    loop {
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)), "there is room for them");
        match rustix::net::sendmsg(&socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

/// Receives bytes and what comes along, which is added to `descriptors`; 0 at the end of the stream. A peer that sends
/// more than [`COUNT_MAX`] at a time, or when there are that many already, breaks the rules: that is an error.
pub fn receive(socket: impl AsFd, bytes: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(COUNT_MAX))];
    loop {
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = match rustix::net::recvmsg(&socket, &mut [IoSliceMut::new(bytes)], &mut control, flags) {
            Err(Errno::INTR) => continue,
            received => received?,
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(came) = message {
                descriptors.extend(came);
            }
        }
        if received.flags.contains(ReturnFlags::CTRUNC) || descriptors.len() > COUNT_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "more descriptors came than were asked for"));
        }
        return Ok(received.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    /// Descriptors of this process.
    fn open_count() -> usize {
        std::fs::read_dir("/proc/self/fd").unwrap().count()
    }

    #[test]
    fn a_file_goes_to_the_other_end_and_is_read_there() {
        let (near, far) = UnixStream::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"here").unwrap();
        assert_eq!(send(&near, b"x", &[file.as_fd(), file.as_fd()]).unwrap(), 1);
        let (mut byte, mut came) = ([0; 8], Vec::new());
        assert_eq!(receive(&far, &mut byte, &mut came).unwrap(), 1);
        assert_eq!((byte[0], came.len()), (b'x', 2));
        let mut text = [0; 4];
        std::os::unix::fs::FileExt::read_exact_at(&File::from(came.remove(0)), &mut text, 0).unwrap();
        assert_eq!(&text, b"here");
    }

    /// As of a stranger: neither who refuses them nor who does not look for them keeps any.
    #[test]
    fn descriptors_that_nobody_asked_for_are_closed() {
        let (near, far) = UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        let before = open_count();
        for _ in 0..3 {
            send(&near, b"xy", &[file.as_fd(), file.as_fd()]).unwrap();
        }
        let mut came = Vec::new();
        receive(&far, &mut [0; 2], &mut came).unwrap();
        let refused = receive(&far, &mut [0; 2], &mut came).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        drop(came);
        (&far).read_exact(&mut [0; 2]).unwrap();
        // Other tests of this process open files, too: those of this one would be six.
        assert!(open_count() < before + 6, "{before} before");
    }
}
