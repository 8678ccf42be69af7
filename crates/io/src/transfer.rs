//! From a file to a socket without a copy; or to memory, for who has to change the bytes.
//!
//! Promise: the synchronous calls never wait for the socket if it is non-blocking (`WouldBlock`), and the asynchronous
//! ones never wait for the disk on the runtime's own threads: a piece that is not in the page cache is sent from the
//! blocking pool, one [`PIECE_LEN`] at a time, and the file's disk has a [`ThreadQuota`] of that.

use crate::file;
use crate::thread_quota::ThreadQuota;
use rustix::event::{PollFd, PollFlags};
use rustix::net::SendFlags;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// What is asked of one sendfile call: large enough that a hop to the blocking pool costs 0.01 CPU seconds per GB
/// (measured), small enough that a resident piece does not hold a runtime thread for long.
pub const PIECE_LEN: u64 = 1 << 20;
/// How far ahead the disk is asked to read when a piece is cold. A guess: some pieces, so that the disk works while the
/// socket drains.
const AHEAD_LEN: u64 = 4 * PIECE_LEN;

/// Sends bytes of `file` from `offset` on; returns how many went, which may be fewer. `Ok(0)` means end of file.
pub fn sendfile(socket: impl AsFd, file: impl AsFd, offset: u64, len: usize) -> io::Result<usize> {
    let mut offset = offset;
    loop {
        match rustix::fs::sendfile(&socket, &file, Some(&mut offset), len) {
            Err(rustix::io::Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

/// Sends `bytes`, as many as the socket takes at once. `more` tells TCP that further bytes follow at once, so that a
/// header shares a segment with its data. A peer that is gone is an error, never a signal.
pub fn send(socket: impl AsFd, bytes: &[u8], more: bool) -> io::Result<usize> {
    let flags = if more { SendFlags::NOSIGNAL | SendFlags::MORE } else { SendFlags::NOSIGNAL };
    loop {
        match rustix::net::send(&socket, bytes, flags) {
            Err(rustix::io::Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

/// Sends all of `bytes`; see [`send`].
pub async fn send_all(socket: &TcpStream, mut bytes: &[u8], more: bool) -> io::Result<()> {
    while !bytes.is_empty() {
        let sent = socket.async_io(Interest::WRITABLE, || send(socket, bytes, more)).await?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

/// Sends `len` bytes of `file` from `offset` on, waiting for its disk within `quota`. `UnexpectedEof` if the file is
/// shorter.
///
/// If the returned future is dropped, a piece may still leave from the blocking pool: close such a connection.
pub async fn sendfile_all(
    socket: &TcpStream,
    file: &File,
    quota: &ThreadQuota,
    offset: u64,
    len: u64,
) -> io::Result<()> {
    let (mut offset, end) = (offset, offset + len);
    let mut cold = None;
    while offset < end {
        let piece_len = PIECE_LEN.min(end - offset);
        let sent = if file::is_resident(file, offset, piece_len) {
            socket.async_io(Interest::WRITABLE, || sendfile(socket, file, offset, piece_len as usize)).await?
        } else {
            let ahead_len = AHEAD_LEN.min(end - offset);
            let path = match cold.take() {
                Some(path) => path,
                None => ColdPath { socket: socket.as_fd().try_clone_to_owned()?, file: file.try_clone()? },
            };
            // Only a fresh answer of the kernel may clear tokio's idea that the socket is writable: the pool's
            // `WouldBlock` is old by the time we hear of it, and clearing on it could lose the wake-up.
            socket.async_io(Interest::WRITABLE, || is_writable(socket)).await?;
            let sending = quota.run(move || {
                let sent = path.send(offset, piece_len, ahead_len);
                (path, sent)
            });
            let (path, sent) = sending.await.map_err(|hung| io::Error::new(io::ErrorKind::TimedOut, hung))?;
            cold = Some(path);
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                sent => sent?,
            }
        };
        if sent == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        offset += sent as u64;
    }
    Ok(())
}

/// Descriptors of our own, as the blocking pool may outlive the caller's.
struct ColdPath {
    socket: std::os::fd::OwnedFd,
    file: File,
}

impl ColdPath {
    fn send(&self, offset: u64, piece_len: u64, ahead_len: u64) -> io::Result<usize> {
        // Only a hint: if it is refused, the next line waits a little longer.
        let _refused = file::will_need(&self.file, offset, ahead_len);
        sendfile(&self.socket, &self.file, offset, piece_len as usize)
    }
}

/// Appends the first `piece_len` bytes of `range` to `buffer`, waiting for the file's disk within `quota`; all of
/// `range` will be read. `UnexpectedEof` if the file is shorter. After an error, or if the future is dropped, the
/// buffer has nothing.
pub async fn read_behind(
    file: &File,
    quota: &ThreadQuota,
    range: Range<u64>,
    piece_len: u64,
    buffer: &mut Vec<u8>,
) -> io::Result<()> {
    let (offset, start) = (range.start, buffer.len());
    let mut taken = std::mem::take(buffer);
    taken.resize(start + piece_len as usize, 0);
    *buffer = if file::is_resident(file, offset, piece_len) {
        file.read_exact_at(&mut taken[start..], offset)?;
        taken
    } else {
        let (file, ahead_len) = (file.try_clone()?, AHEAD_LEN.min(range.end - offset));
        let reading = quota.run(move || {
            // Only a hint: if it is refused, the next line waits a little longer.
            let _refused = file::will_need(&file, offset, ahead_len);
            file.read_exact_at(&mut taken[start..], offset).map(|()| taken)
        });
        reading.await.map_err(|hung| io::Error::new(io::ErrorKind::TimedOut, hung))??
    };
    Ok(())
}

fn is_writable(socket: &TcpStream) -> io::Result<()> {
    let mut fds = [PollFd::new(socket, PollFlags::OUT)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    // An error or a hang-up counts as writable: the send that follows then tells what it is.
    if rustix::event::poll(&mut fds, Some(&now))? == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use tokio::io::AsyncReadExt;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (near, far) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        (near.unwrap(), far.unwrap().0)
    }

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn pattern(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 7 + at / 253) as u8).collect()
    }

    /// Sends a header and a piece of a file; the far end must read exactly both.
    async fn check(bytes: &[u8], offset: u64, len: u64, cold: bool) {
        let file = file_of(bytes);
        if cold {
            crate::file::sync_all(&file).unwrap();
            file::drop_cache(&file, 0, bytes.len() as u64).unwrap();
        }
        let (near, mut far) = pair().await;
        let reader = crate::task::spawn("reader", async move {
            let mut read = Vec::new();
            far.read_to_end(&mut read).await.unwrap();
            read
        });
        send_all(&near, b"header", true).await.unwrap();
        sendfile_all(&near, &file, &ThreadQuota::new(1), offset, len).await.unwrap();
        drop(near);
        let read = reader.await.unwrap();
        assert_eq!(&read[..6], b"header");
        assert!(read[6..] == bytes[offset as usize..(offset + len) as usize]);
    }

    #[tokio::test]
    async fn a_warm_file_arrives_whole() {
        check(&pattern(5_000_000), 777, 4_999_000, false).await;
        check(&pattern(10), 3, 0, false).await;
    }

    #[tokio::test]
    async fn a_cold_file_arrives_whole() {
        check(&pattern(9_000_000), 12_345, 8_900_000, true).await;
    }

    #[tokio::test]
    async fn a_file_is_read_behind_what_is_there_warm_or_cold() {
        let bytes = pattern(300_000);
        let file = file_of(&bytes);
        file::sync_all(&file).unwrap();
        let quota = ThreadQuota::new(1);
        for _ in 0..2 {
            let mut buffer = b"head".to_vec();
            read_behind(&file, &quota, 1000..300_000, 100_000, &mut buffer).await.unwrap();
            read_behind(&file, &quota, 101_000..300_000, 7, &mut buffer).await.unwrap();
            assert!(buffer == [b"head", &bytes[1000..101_007]].concat());
            file::drop_cache(&file, 0, 300_000).unwrap();
        }
        let short = read_behind(&file, &quota, 299_000..301_000, 2000, &mut Vec::new()).await.unwrap_err();
        assert_eq!(short.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn a_short_file_is_an_error_and_a_full_socket_would_block() {
        let file = file_of(&pattern(100));
        let (near, _far) = pair().await;
        let error = sendfile_all(&near, &file, &ThreadQuota::new(1), 50, 51).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        let file = file_of(&pattern(1 << 20));
        near.writable().await.unwrap();
        let full = (0..1000).find_map(|_| sendfile(&near, &file, 0, 1 << 20).err()).expect("nobody reads");
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    }

    #[tokio::test]
    async fn a_peer_that_left_is_an_error() {
        let (near, far) = pair().await;
        drop(far);
        let file = file_of(&pattern(1 << 20));
        let mut outcome = Ok(());
        for _ in 0..100 {
            outcome = sendfile_all(&near, &file, &ThreadQuota::new(1), 0, 1 << 20).await;
            if outcome.is_err() {
                return;
            }
        }
        panic!("{outcome:?}");
    }
}
