//! Bytes from one socket to another, which the kernel moves: no program sees them.

use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice as move_some};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Bytes of one move. As many as a pipe holds, unless its user has too many.
const PIECE_LEN: usize = 64 << 10;
/// A direction that is silent for longer has no pipe: the kernel gives users of hundreds of them short ones.
const PIPE_KEPT: Duration = Duration::from_secs(1);

/// Moves all that comes from one socket to the other, until the first one ends; then the second one is told so.
/// `moved` hears how many bytes came, each time some did.
pub async fn splice(from: &TcpStream, to: &TcpStream, mut moved: impl FnMut(usize)) -> io::Result<()> {
    loop {
        from.readable().await?;
        let (read, write): (OwnedFd, OwnedFd) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Nothing is in the pipe where it is given up.
        while let Ok(came) =
            timeout(PIPE_KEPT, moving(from, Interest::READABLE, || some(from, &write, PIECE_LEN))).await
        {
            let mut held = came?;
            if held == 0 {
                return rustix::net::shutdown(to, rustix::net::Shutdown::Write).map_err(io::Error::from);
            }
            moved(held);
            while held > 0 {
                // The socket takes what it has room for; what it does not stays in the pipe.
                let taken = moving(to, Interest::WRITABLE, || some(&read, to, held)).await?;
                held = held.checked_sub(taken).expect("no more comes out of a pipe than went in");
            }
        }
    }
}

/// Both ends do not block: of a pipe that is empty, or is full, this is never asked.
fn some(from: impl AsFd, to: impl AsFd, len: usize) -> io::Result<usize> {
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    move_some(from, None, to, None, len, flags).map_err(io::Error::from)
}

/// Does it once the socket is ready.
async fn moving(socket: &TcpStream, ready: Interest, mut some: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    socket.async_io(ready, &mut some).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (near, far) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        (near.unwrap(), far.unwrap().0)
    }

    /// More than sockets and pipe hold, with a reader that begins late.
    #[tokio::test]
    async fn all_comes_through_and_the_end_too() {
        let ((mut sender, from), (to, mut receiver)) = (pair().await, pair().await);
        let sent: Vec<u8> = (0..20_000_000u32).map(|i| (i % 251) as u8).collect();
        let expected = sent.clone();
        let sending = async move {
            sender.write_all(&sent).await.unwrap();
            sender // its other direction stays open
        };
        let mut count = 0;
        let moving = splice(&from, &to, |len| count += len);
        let receiving = async {
            tokio::task::yield_now().await;
            let mut got = vec![0; expected.len()];
            receiver.read_exact(&mut got).await.unwrap();
            got
        };
        let ending = async {
            let (sender, got) = tokio::join!(sending, receiving);
            drop(sender);
            got
        };
        let (moved, got) = tokio::join!(moving, ending);
        moved.unwrap();
        assert!(got == expected && count == expected.len());
        assert_eq!(receiver.read(&mut [0]).await.unwrap(), 0, "the end comes through");
    }
}
