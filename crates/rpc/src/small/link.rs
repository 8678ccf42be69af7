//! One connection: requests out, answers in, each by its number.

use super::SmallOptions;
use ::io::task::Owned;
use bytes::{Buf, Bytes, BytesMut};
use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use wire::delimited;
use wire::small::{ANSWER_LEN_MAX, SmallAnswer, SmallWrite};

/// Room for reading at a time: some hundred answers.
const READ_LEN: usize = 4 << 10;
/// Requests of one write.
const BATCH_COUNT_MAX: usize = 64;

/// Why there is no answer. Two variants differ only if the caller acts differently.
#[derive(Debug, thiserror::Error)]
pub enum SmallError {
    /// The request was certainly not sent.
    #[error("no connection: {0}")]
    Connect(io::Error),
    /// It may or may not have been done.
    #[error("the connection broke: {0}")]
    Broken(String),
    #[error("no answer in time")]
    Silent,
}

#[derive(Debug)]
pub struct SmallLink {
    queue: mpsc::Sender<Outgoing>,
    shared: Arc<Shared>,
    next: AtomicU64,
    /// Ends with the link.
    task: Owned<()>,
}

#[derive(Debug)]
struct Outgoing {
    front: Vec<u8>,
    body: Bytes,
}

type Waiting = HashMap<u64, oneshot::Sender<SmallAnswer>>;

/// Requests without an answer yet; `None` once the connection has ended.
#[derive(Debug)]
struct Shared {
    waiting: Mutex<Option<Waiting>>,
    /// Answers that came, to tell a silent peer from a slow one.
    heard_count: AtomicU64,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Option<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_idle(&self) -> bool {
        self.waiting().as_ref().is_some_and(HashMap::is_empty)
    }
}

impl SmallLink {
    pub(super) async fn connect(addr: &str, options: &SmallOptions) -> Result<Self, SmallError> {
        let connecting = timeout(options.connect_time_max, TcpStream::connect(addr)).await;
        let socket = connecting.map_err(|_| SmallError::Connect(io::ErrorKind::TimedOut.into()))?;
        let socket = socket.map_err(SmallError::Connect)?;
        ::io::socket::apply(&socket, &options.socket).map_err(SmallError::Connect)?;
        let (queue, requests) = mpsc::channel(options.queue_count_max.max(1));
        let shared = Arc::new(Shared { waiting: Mutex::new(Some(Waiting::new())), heard_count: AtomicU64::new(0) });
        let run = run(socket, requests, Arc::clone(&shared), options.idle_time_max);
        let task = ::io::task::spawn_owned("small writes", run);
        Ok(Self { queue, shared, next: AtomicU64::new(0), task })
    }

    pub(super) fn is_open(&self) -> bool {
        !self.queue.is_closed() && self.shared.waiting().is_some()
    }

    /// Sends a request and waits for its answer. A connection that says nothing at all for `time_max` is taken for
    /// dead.
    pub(super) async fn put(
        &self,
        header: SmallWrite,
        body: Bytes,
        time_max: Duration,
    ) -> Result<SmallAnswer, SmallError> {
        let gone = || SmallError::Broken("it was closed".to_owned());
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        match &mut *self.shared.waiting() {
            Some(waiting) => _ = waiting.insert(number, sender),
            None => return Err(gone()),
        }
        let _forget = Forget { shared: &self.shared, number };
        let heard = self.shared.heard_count.load(Ordering::Relaxed);
        let answer = async {
            let front = SmallWrite { number, ..header }.front();
            self.queue.send(Outgoing { front, body }).await.map_err(|_closed| gone())?;
            receiver.await.map_err(|_dropped| gone())
        };
        timeout(time_max, answer).await.unwrap_or_else(|_elapsed| {
            if self.shared.heard_count.load(Ordering::Relaxed) == heard {
                *self.shared.waiting() = None;
                self.task.abort();
            }
            Err(SmallError::Silent)
        })
    }
}

/// Forgets a request whose sender does not wait any more.
struct Forget<'a> {
    shared: &'a Shared,
    number: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if let Some(waiting) = &mut *self.shared.waiting() {
            waiting.remove(&self.number);
        }
    }
}

async fn run(mut socket: TcpStream, mut requests: mpsc::Receiver<Outgoing>, shared: Arc<Shared>, idle: Duration) {
    let (mut inward, mut outward) = socket.split();
    let ended = tokio::select! {
        read = read(&mut inward, &shared, idle) => read,
        written = write(&mut outward, &mut requests) => written,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection for small writes ended");
    }
    // Drops the senders, which tells all who wait.
    *shared.waiting() = None;
}

async fn write(socket: &mut WriteHalf<'_>, requests: &mut mpsc::Receiver<Outgoing>) -> io::Result<()> {
    let mut batch = Vec::new();
    while requests.recv_many(&mut batch, BATCH_COUNT_MAX).await > 0 {
        let mut slices = [IoSlice::new(&[]); 2 * BATCH_COUNT_MAX];
        for (pair, request) in slices.chunks_exact_mut(2).zip(&batch) {
            pair[0] = IoSlice::new(&request.front);
            pair[1] = IoSlice::new(&request.body);
        }
        let mut rest = &mut slices[..2 * batch.len()];
        while !rest.is_empty() {
            match socket.write_vectored(rest).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => IoSlice::advance_slices(&mut rest, written),
            }
        }
        batch.clear();
    }
    Ok(())
}

async fn read(socket: &mut ReadHalf<'_>, shared: &Shared, idle: Duration) -> io::Result<()> {
    let invalid = |error: wire::WireError| io::Error::new(io::ErrorKind::InvalidData, error);
    let mut buffer = BytesMut::new();
    loop {
        while let Some((message, len)) = delimited::split(&buffer, "answer", ANSWER_LEN_MAX).map_err(invalid)? {
            let answer: SmallAnswer = delimited::decode(message, "answer").map_err(invalid)?;
            buffer.advance(len);
            shared.heard_count.fetch_add(1, Ordering::Relaxed);
            let sender = shared.waiting().as_mut().and_then(|waiting| waiting.remove(&answer.number));
            // Without one, nobody waits for it any more.
            if let Some(sender) = sender {
                let _ = sender.send(answer);
            }
        }
        buffer.reserve(READ_LEN);
        match timeout(idle, socket.read_buf(&mut buffer)).await {
            Ok(Ok(0)) => return Ok(()),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(error),
            Err(_elapsed) if shared.is_idle() => return Ok(()),
            Err(_elapsed) => {}
        }
    }
}
