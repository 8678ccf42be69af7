//! Answers of a session on their way to its client: how many bytes may wait, and who cuts off a client that takes none.
//!
//! ```text
//! a request ──▶ room for a frame: of the session, then of all ──▶ frame ──▶ queue ──▶ socket
//!                  ▲                                                                    │
//!                  └──────────────── given back once the socket took it ◀───────────────┘
//! ```

use super::room::{Holder, Room, Share};
use io::{ConnectionPermit, RequestGuard};
use metrics::Counter;
use std::io::{Error, ErrorKind, IoSlice};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;

/// Bytes of answers that wait for a client: two of the longest frames, one that is sent and one that is read. More
/// brings nothing: behind it the kernel has as much.
pub(super) const SESSION_LEN_MAX: usize = (4 << 20) + (64 << 10);
/// Frames in the queue: of short ones thousands would fit.
const FRAME_COUNT_MAX: usize = 64;
/// Frames of one write. A guess.
const WRITE_COUNT_MAX: usize = 16;
/// For a client to take anything.
const STALL_TIME_MAX: Duration = Duration::from_secs(30);
/// For a client to take all of one write: 4 MiB by a line of 300 kbit/s.
const WRITE_TIME_MAX: Duration = Duration::from_secs(120);
/// Buffers that are kept for the next frames, as long as there are requests. New ones cost a pass over their memory.
const SPARE_COUNT_MAX: usize = 4;

const _: () = assert!(xroot::limits::ELEMENT_LEN_MAX as usize + 24 <= SESSION_LEN_MAX / 2);
const _: () = assert!(xroot::limits::PART_LEN_MAX + (8 << 10) <= SESSION_LEN_MAX / 2, "with the sums of its pages");

/// Bytes that wait, or will.
#[derive(Debug)]
pub(super) struct Frame {
    bytes: Vec<u8>,
    spare: Option<Spare>,
    _room: Option<(OwnedSemaphorePermit, Share)>,
    /// A session whose answers were not taken yet is no idle one.
    _request: RequestGuard,
}

impl Deref for Frame {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Frame {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        if let Some(spare) = &self.spare {
            spare.put(std::mem::take(&mut self.bytes));
        }
    }
}

/// Buffers of one session, so that what is left in one is of nobody else's files.
#[derive(Clone, Debug, Default)]
struct Spare(Arc<Mutex<Buffers>>);

#[derive(Debug, Default)]
struct Buffers {
    kept: Vec<Vec<u8>>,
    /// No request is under way: what comes back is not kept.
    is_resting: bool,
}

impl Spare {
    fn take(&self, len: usize) -> Vec<u8> {
        let mut buffers = self.lock();
        buffers.is_resting = false;
        let mut buffer = buffers.kept.pop().unwrap_or_default();
        drop(buffers);
        buffer.resize(len, 0);
        buffer
    }

    fn put(&self, buffer: Vec<u8>) {
        let mut buffers = self.lock();
        if !buffers.is_resting && buffers.kept.len() < SPARE_COUNT_MAX {
            buffers.kept.push(buffer);
        }
    }

    fn rest(&self) {
        *self.lock() = Buffers { kept: Vec::new(), is_resting: true };
    }

    fn lock(&self) -> MutexGuard<'_, Buffers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where requests put their answers. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    queue: mpsc::Sender<Frame>,
    /// Of the session.
    own: Arc<Semaphore>,
    /// Of all, and the session in it.
    all: Arc<Room>,
    holder: Arc<Holder>,
    spare: Spare,
    connection: Arc<ConnectionPermit>,
}

/// The session is at its end.
#[derive(Debug)]
pub(super) struct Gone;

impl Outbox {
    /// The outbox, and the queue for [`send`].
    pub(super) fn new(all: Arc<Room>, connection: Arc<ConnectionPermit>) -> (Self, mpsc::Receiver<Frame>) {
        let (queue, frames) = mpsc::channel(FRAME_COUNT_MAX);
        let (own, holder) = (Arc::new(Semaphore::new(SESSION_LEN_MAX)), all.join(Arc::clone(&connection)));
        (Self { queue, own, all, holder, spare: Spare::default(), connection }, frames)
    }

    /// A frame of this length, once there is room for it. What is in it is of no meaning: all of it is to be written
    /// to.
    pub(super) async fn frame(&self, len: usize) -> Result<Frame, Gone> {
        let room = self.room(len).await?;
        let (spare, request) = (self.spare.clone(), self.connection.begin_request());
        Ok(Frame { bytes: spare.take(len), spare: Some(spare), _room: Some(room), _request: request })
    }

    async fn room(&self, len: usize) -> Result<(OwnedSemaphorePermit, Share), Gone> {
        let own = Arc::clone(&self.own).acquire_many_owned(len as u32).await.map_err(|_closed| Gone)?;
        let share = self.all.share(&self.holder, len).await.ok_or(Gone)?;
        Ok((own, share))
    }

    pub(super) async fn put(&self, frame: Frame) -> Result<(), Gone> {
        self.queue.send(frame).await.map_err(|_closed| Gone)
    }

    /// As [`Self::frame`] and [`Self::put`], of bytes that there are.
    pub(super) async fn send(&self, bytes: Vec<u8>) -> Result<(), Gone> {
        let room = self.room(bytes.len()).await?;
        self.put(Frame { bytes, spare: None, _room: Some(room), _request: self.connection.begin_request() }).await
    }

    /// No request is under way: buffers are not kept for none.
    pub(super) fn rest(&self) {
        self.spare.rest();
    }
}

/// Sends what is put into the queue, until the client goes or takes nothing any more.
pub(super) async fn send(
    socket: &TcpStream,
    mut queue: mpsc::Receiver<Frame>,
    connection: &Arc<ConnectionPermit>,
    sent: &Counter,
) -> Result<(), Error> {
    let mut frames = Vec::with_capacity(WRITE_COUNT_MAX);
    loop {
        if queue.recv_many(&mut frames, WRITE_COUNT_MAX).await == 0 {
            return Ok(());
        }
        let too_slow = |_elapsed| Error::new(ErrorKind::TimedOut, "the client takes too little");
        timeout(WRITE_TIME_MAX, write(socket, &frames, connection)).await.map_err(too_slow)??;
        sent.inc_by(frames.iter().map(|frame| frame.len() as u64).sum());
        frames.clear();
    }
}

async fn write(socket: &TcpStream, frames: &[Frame], connection: &Arc<ConnectionPermit>) -> Result<(), Error> {
    let mut slices: Vec<IoSlice<'_>> = frames.iter().map(|frame| IoSlice::new(frame)).collect();
    let mut left = &mut slices[..];
    while !left.is_empty() {
        match socket.try_write_vectored(left) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(len) => IoSlice::advance_slices(&mut left, len),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let _stalled = connection.response_stalled();
                let stalled = |_elapsed| Error::new(ErrorKind::TimedOut, "the client takes nothing");
                timeout(STALL_TIME_MAX, socket.writable()).await.map_err(stalled)??;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers are taken by their client after the last request is done.
    #[test]
    fn a_session_that_rests_keeps_no_buffers() {
        let spare = Spare::default();
        let (first, second) = (spare.take(1 << 20), spare.take(1 << 20));
        spare.put(first);
        assert_eq!(spare.lock().kept.len(), 1);
        spare.rest();
        spare.put(second);
        assert_eq!(spare.lock().kept.len(), 0);
        assert_eq!(spare.take(5), [0; 5]);
        spare.put(vec![0; 5]);
        assert_eq!(spare.lock().kept.len(), 1);
    }
}
