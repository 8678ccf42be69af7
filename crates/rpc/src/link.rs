//! One connection of a client: many calls at once, answers in any order.

use crate::answers::{AnswerRoom, Place};
use crate::call_error::CallError;
use crate::client_options::{ClientOptions, NodeProof};
use crate::inward::{Inward, take_frame};
use crate::login::LoggedIn;
use crate::refusal;
use crate::request_header::request_header;
use crate::seal::Seal;
use crate::stream::Stream;
use ::io::TaskGroup;
use ::io::socket::SocketOptions;
use ::io::task::Owned;
use bytes::{Buf, Bytes, BytesMut};
use hdfs::call_id;
use hdfs::frame::{self, Answer, FrameError};
use hdfs::opening::{Auth, Opening};
use hdfs::proto::{IpcConnectionContextProto, RpcStatusProto, UserInformationProto};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};

/// Room for reading at a time; a longer answer's buffer grows as its bytes come.
const READ_LEN: usize = 16 << 10;
/// A sealed answer is longer by what its layer adds and the header around it: some hundred bytes.
const SEALED_MORE_MAX: u32 = 4 << 10;
/// Calls of one write.
const BATCH_COUNT_MAX: usize = 64;

/// The bytes of an answer, and what they hold if that is counted.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) bytes: Bytes,
    pub(crate) place: Option<Place>,
}

type Outcome = Result<Response, CallError>;

#[derive(Debug)]
pub(crate) struct Link {
    calls: mpsc::Sender<Bytes>,
    waiting: Arc<Waiting>,
    /// The server asked for a proof of who calls, and got it.
    pub(crate) is_proven: bool,
    /// Ends with the link.
    task: Owned<Option<()>>,
}

impl Link {
    /// Connects, and proves who calls. The context goes out with the first call, in one packet; so does the opening
    /// where nothing is to be proven.
    pub(crate) async fn connect(
        addr: &str,
        user: &str,
        protocol: &str,
        client_id: &Bytes,
        options: &ClientOptions,
    ) -> Result<Self, CallError> {
        let socket = options.dialer.connect(addr, &SocketOptions::default()).await.map_err(CallError::Connect)?;
        let mut socket = match &options.node {
            Some(proof) => {
                let stream = match proof {
                    NodeProof::Certificate { credentials, expected } => credentials.connect(socket, *expected).await,
                    NodeProof::Newcomer { authority } => tls::introduce(socket, *authority).await,
                };
                Stream::Tls(Box::new(stream.map_err(CallError::Connect)?))
            }
            None => Stream::Plain(socket),
        };
        let (calls, queue) = mpsc::channel(options.queue_count_max.max(1));
        let waiting = Arc::new(Waiting::default());
        let mut first = BytesMut::new();
        let said = (user, options.real_user.as_deref());
        let logged_in = match options.login.as_ref().filter(|_| options.node.is_none()) {
            Some(login) => {
                let peer = socket.peer_addr().map_err(CallError::Connect)?.to_string();
                let (inward, mut outward) = socket.split();
                let logged_in = login.open(addr, &peer, &mut Inward::new(inward), &mut outward).await?;
                let said = match logged_in.is_simple {
                    true => Some(said),
                    false if logged_in.is_by_ticket => login.acting_as.as_deref().map(|user| (user, None)),
                    false => None,
                };
                put_context(said, protocol, client_id, &mut first);
                Some(logged_in)
            }
            None => {
                first.extend_from_slice(&Opening::encode(Auth::Simple));
                put_context(Some(said), protocol, client_id, &mut first);
                None
            }
        };
        calls.try_send(first.freeze()).expect("the queue is empty");
        let is_proven = options.node.is_some() || logged_in.as_ref().is_some_and(|logged_in| !logged_in.is_simple);
        let outlived = outlived(&socket, options.node.as_ref());
        let run =
            run((socket, outlived), logged_in, queue, waiting.clone(), options.frame_len_max, options.answers.clone());
        let task = TaskGroup::spawn_in(options.tasks.as_ref(), "rpc client", run);
        Ok(Self { calls, waiting, is_proven, task })
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.task.is_finished() && self.waiting.is_open()
    }

    pub(crate) fn close(&self, reason: &str) {
        self.waiting.close(reason.to_owned(), broken, broken);
        self.task.abort();
    }

    /// Sends a call and waits for its response. Dropping the future forgets the call; if it waited for `time_max` and
    /// the server said nothing at all meanwhile, the connection is taken for dead.
    pub(crate) async fn ask(&self, call_id: i32, call: Bytes, time_max: Duration) -> Outcome {
        let (sender, receiver) = oneshot::channel();
        self.waiting.insert(call_id, sender)?;
        let _forget = Forget { waiting: &self.waiting, call_id };
        let gone = || broken("it was closed");
        let heard = self.waiting.heard_len.load(Ordering::Relaxed);
        let answer = async {
            self.calls.send(call).await.map_err(|_closed| gone())?;
            receiver.await.unwrap_or_else(|_dropped| Err(gone()))
        };
        tokio::time::timeout(time_max, answer).await.unwrap_or_else(|_elapsed| {
            if self.waiting.heard_len.load(Ordering::Relaxed) == heard {
                self.close("the server has not said anything for too long");
            }
            Err(CallError::TimedOut)
        })
    }
}

/// Calls that were sent and not yet answered.
#[derive(Debug, Default)]
struct Waiting {
    state: Mutex<State>,
    heard_len: AtomicU64,
}

type Calls = HashMap<i32, oneshot::Sender<Outcome>>;

#[derive(Debug)]
enum State {
    Open(Calls),
    /// Why, and what a call is told that comes now.
    Closed(String, fn(&str) -> CallError),
}

impl Default for State {
    fn default() -> Self {
        Self::Open(Calls::new())
    }
}

impl Waiting {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing is left half done while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_open(&self) -> bool {
        matches!(*self.state(), State::Open(_))
    }

    fn insert(&self, call_id: i32, sender: oneshot::Sender<Outcome>) -> Result<(), CallError> {
        match &mut *self.state() {
            State::Open(calls) => {
                calls.insert(call_id, sender);
                Ok(())
            }
            State::Closed(reason, error) => Err(error(reason)),
        }
    }

    fn remove(&self, call_id: i32) -> Option<oneshot::Sender<Outcome>> {
        match &mut *self.state() {
            State::Open(calls) => calls.remove(&call_id),
            State::Closed(..) => None,
        }
    }

    /// Ends all calls with an error each, unless that was done before, and those that come with what `later` makes.
    fn close(&self, reason: String, error: impl Fn(&str) -> CallError, later: fn(&str) -> CallError) {
        let mut state = self.state();
        if let State::Open(calls) = &mut *state {
            for (_, sender) in calls.drain() {
                let _ = sender.send(Err(error(&reason)));
            }
            *state = State::Closed(reason, later);
        }
    }
}

/// Forgets a call whose caller does not wait any more.
struct Forget<'a> {
    waiting: &'a Waiting,
    call_id: i32,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.waiting.remove(self.call_id);
    }
}

fn broken(reason: &str) -> CallError {
    CallError::Broken(reason.to_owned())
}

fn foreign(reason: &str) -> CallError {
    CallError::Decode(reason.to_owned())
}

/// A web server answered: so will it the next time.
fn is_web(ended: &io::Result<()>) -> bool {
    let error = ended.as_ref().err().and_then(|error| error.get_ref()?.downcast_ref::<FrameError>());
    error == Some(&FrameError::Http)
}

/// `user`: in whose name to call, if the server does not know that.
/// `said`: who calls, if the proof does not say so, and who does so for him.
fn put_context(said: Option<(&str, Option<&str>)>, protocol: &str, client_id: &Bytes, out: &mut BytesMut) {
    let user_info = said.map(|(user, real)| UserInformationProto {
        effective_user: Some(user.to_owned()),
        real_user: real.map(str::to_owned),
    });
    let context = IpcConnectionContextProto { user_info, protocol: Some(protocol.to_owned()) };
    frame::put_frame(&[&request_header(call_id::CONTEXT, client_id, -1), &context], out);
}

/// Comes back when the certificate does not count any more that the server has shown; never for one that has shown
/// none.
fn outlived(socket: &Stream, proof: Option<&NodeProof>) -> impl Future<Output = ()> + Send + use<> {
    let watched = match (socket.shown(), proof) {
        (Some(shown), Some(NodeProof::Certificate { credentials, .. })) => Some((shown, Arc::clone(credentials))),
        // One that asks for its first certificate has nothing to go on with.
        _ => None,
    };
    async move {
        let Some((shown, credentials)) = watched else { return std::future::pending().await };
        loop {
            ::io::time::sleep(credentials.look_each()).await;
            if !credentials.still_counts(&shown) {
                return;
            }
        }
    }
}

async fn run(
    (mut socket, outlived): (Stream, impl Future<Output = ()>),
    logged_in: Option<LoggedIn>,
    mut queue: mpsc::Receiver<Bytes>,
    waiting: Arc<Waiting>,
    frame_len_max: u32,
    answers: Option<AnswerRoom>,
) {
    let (inward, mut outward) = socket.split();
    let mut inward = Inward::new(inward);
    let (seal, early) = logged_in.map_or((None, BytesMut::new()), |logged_in| (logged_in.seal, logged_in.early));
    let mut buffer = BytesMut::new();
    match &seal {
        Some(seal) => {
            let room = answers.as_ref().map(|answers| answers.lane.piece_room());
            inward.seal(seal.clone(), frame_len_max.saturating_add(SEALED_MORE_MAX), early, room);
        }
        None => buffer = early,
    }
    let ended = tokio::select! {
        read = read(&mut inward, buffer, &waiting, frame_len_max, answers.as_ref()) => read,
        written = write(&mut outward, &mut queue, seal.as_ref()) => written,
        () = outlived => Err(io::Error::other("the server's certificate does not count any more")),
    };
    let error = if is_web(&ended) { foreign } else { broken };
    waiting.close(ended.map_or_else(|error| error.to_string(), |()| "the server closed it".to_owned()), error, error);
}

async fn write(
    socket: &mut (impl AsyncWrite + Unpin),
    queue: &mut mpsc::Receiver<Bytes>,
    seal: Option<&Seal>,
) -> io::Result<()> {
    let mut batch = Vec::new();
    while queue.recv_many(&mut batch, BATCH_COUNT_MAX).await > 0 {
        // Calls are short: copying a few together is cheaper than a packet each.
        let calls = if batch.len() == 1 { batch.swap_remove(0) } else { batch.concat().into() };
        match seal {
            Some(seal) => {
                let mut rest = [calls, Bytes::new()];
                while !rest[0].is_empty() {
                    let (head, token) = seal.seal_next(&mut rest)?;
                    socket.write_all_buf(&mut head.chain(token)).await?;
                }
            }
            None => socket.write_all(&calls).await?,
        }
        socket.flush().await?;
        batch.clear();
    }
    Ok(())
}

async fn read(
    socket: &mut Inward<impl AsyncRead + Unpin>,
    mut buffer: BytesMut,
    waiting: &Waiting,
    frame_len_max: u32,
    answers: Option<&AnswerRoom>,
) -> io::Result<()> {
    loop {
        while let Some(len) = frame::length(&buffer, frame_len_max).map_err(invalid)? {
            let whole = frame::LENGTH_LEN + len;
            let came = match answers {
                Some(answers) => {
                    let came = answers.lane.read(socket, &mut buffer, whole).await?;
                    waiting.heard_len.fetch_add(whole as u64, Ordering::Relaxed);
                    Some((answers, came))
                }
                None if buffer.len() < whole => break,
                None => None,
            };
            let frame = take_frame(&mut buffer, len);
            let place = came.map(|(answers, came)| answers.place(&frame, came)).transpose().map_err(invalid)?;
            on_answer(Answer::decode(frame).map_err(invalid)?, place, waiting)?;
        }
        let read_len = socket.read(&mut buffer, READ_LEN).await?;
        if read_len == 0 {
            return Ok(());
        }
        waiting.heard_len.fetch_add(read_len as u64, Ordering::Relaxed);
    }
}

fn on_answer(answer: Answer, place: Option<Place>, waiting: &Waiting) -> io::Result<()> {
    let remote = |message: &str| refusal::with_message(&answer, message);
    let message = &refusal::message(&answer);
    let outcome = match answer.header.status() {
        RpcStatusProto::Success => Ok(Response { bytes: answer.response.clone(), place }),
        RpcStatusProto::Error => Err(remote(message)),
        RpcStatusProto::Fatal => {
            // It ends the connection, and so all its calls, whichever it names.
            waiting.close(message.to_owned(), remote, broken);
            return Err(io::Error::other(message.to_owned()));
        }
    };
    // An unknown call: its caller gave up.
    if let Some(sender) = waiting.remove(answer.call_id()) {
        let _ = sender.send(outcome);
    }
    Ok(())
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
