//! One connection: requests come in, some are under way at a time, answers go out as they are ready.

use super::file::Opening;
use super::outbox::{self, Gone, Outbox};
use super::requests::{self, Asked};
use crate::counts::RootCounts;
use crate::users::Users;
use client::{Client, Error as StoreError};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use io::{ConnectionPermit, LogLimit};
use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{OnceCell, Semaphore};
use xroot::{Config, Event, Handle, Request, RequestCode, Session, StreamId, answer};

/// Requests under way in one session; while there are so many, no further one is read. XRootD's client has a handful.
const REQUEST_COUNT_MAX: usize = 32;
/// Bytes of what they ask for, which vectors are long for: one more of the longest is then taken.
const ASKED_LEN_MAX: usize = 256 << 10;
/// For a login, which clients send at once.
const LOGIN_TIME_MAX: Duration = Duration::from_secs(20);
/// Bytes read from a socket at a time.
const READ_LEN: usize = 32 << 10;

const VERSION: &str = concat!("levada ", env!("CARGO_PKG_VERSION"));

static STRANGERS: LogLimit = LogLimit::new(Duration::from_secs(1));

/// What all sessions share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) users: Users,
    /// Room for answers, in bytes.
    pub(super) answers: Arc<Semaphore>,
    /// Room for open files.
    pub(super) files: Arc<Semaphore>,
    pub(super) counts: RootCounts,
}

/// What the requests of a session share.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) shared: Arc<Shared>,
    pub(super) outbox: Outbox,
    permit: Arc<ConnectionPermit>,
    /// Of this machine, as the client reached it.
    pub(super) addr: SocketAddr,
    /// Who he says he is; empty: he does not.
    user: String,
    client: OnceCell<Client>,
}

impl Common {
    /// The store, in the name of whoever asks. Where it believes no names, that is the one for whom the gateway reads.
    pub(super) async fn client(&self) -> Result<&Client, StoreError> {
        let users = &self.shared.users;
        let client = async || match &*self.user {
            "" => Ok(users.own().clone()),
            user => Ok(users.named(user).await?.unwrap_or_else(|| users.own().clone())),
        };
        self.client.get_or_try_init(client).await
    }
}

pub(super) async fn run(socket: TcpStream, peer: SocketAddr, permit: Arc<ConnectionPermit>, shared: Arc<Shared>) {
    let (outbox, queue) = Outbox::new(Arc::clone(&shared.answers), Arc::clone(&permit));
    let sent = shared.counts.sent.clone();
    let ended = tokio::select! {
        ended = serve(&socket, outbox, &permit, shared) => ended,
        ended = outbox::send(&socket, queue, &permit, &sent) => ended,
        () = permit.evicted() => return tracing::debug!(%peer, "a connection is closed to make room for another"),
    };
    let Err(error) = ended else { return };
    match error.kind() {
        ErrorKind::InvalidData => {
            if let Some(passed_over) = STRANGERS.due() {
                tracing::warn!(%peer, %error, passed_over, "a connection does not speak XRootD as we know it");
            }
        }
        // Either end hangs up at any time; that is no news.
        _ => tracing::debug!(%peer, %error, "a connection ended"),
    }
}

/// What is left of a request that was answered.
struct Answered {
    asked_len: usize,
    /// It was to open this, and did not.
    not_opened: Option<(Handle, Opening)>,
}

async fn serve(
    socket: &TcpStream,
    outbox: Outbox,
    permit: &Arc<ConnectionPermit>,
    shared: Arc<Shared>,
) -> Result<(), Error> {
    let addr = socket.local_addr()?;
    let mut id = [0; 16];
    io::random::fill(&mut id);
    let mut session: Session<Opening> = Session::new(Config { version: VERSION, with_pages: true }, id);
    let login = tokio::time::sleep(LOGIN_TIME_MAX);
    tokio::pin!(login);
    let mut common: Option<Arc<Common>> = None;
    let mut running = FuturesUnordered::new();
    let mut asked_len = 0;
    let mut bytes = vec![0; READ_LEN];
    loop {
        let mut is_drained = false;
        while !is_drained && running.len() < REQUEST_COUNT_MAX && asked_len < ASKED_LEN_MAX {
            let event = session.next_event().map_err(|error| Error::new(ErrorKind::InvalidData, error))?;
            match event {
                None => is_drained = true,
                Some(Event::Answer { code, bytes }) => {
                    shared.counts.count_answer(code, &bytes);
                    outbox.send(bytes).await.map_err(|Gone| ErrorKind::BrokenPipe)?;
                }
                Some(Event::Request { stream, code, request }) => {
                    let common = common.get_or_insert_with(|| {
                        permit.prove();
                        Arc::new(Common {
                            shared: Arc::clone(&shared),
                            outbox: outbox.clone(),
                            permit: Arc::clone(permit),
                            addr,
                            user: session.user().unwrap_or_default().to_owned(),
                            client: OnceCell::new(),
                        })
                    });
                    let request = begin(&mut session, Arc::clone(common), stream, code, request);
                    asked_len += request.0;
                    running.push(request.1);
                }
            }
        }
        if running.is_empty() {
            outbox.rest();
        }
        tokio::select! {
            Some(answered) = running.next(), if !running.is_empty() => {
                let Answered { asked_len: len, not_opened } = answered?;
                asked_len -= len;
                if let Some((handle, opening)) = not_opened
                    && session.file(handle).is_ok_and(|other| other.same_channel(&opening))
                {
                    session.remove_file(handle);
                }
            }
            ready = socket.readable(), if is_drained => {
                ready?;
                let len = session.room().min(READ_LEN);
                match socket.try_read(&mut bytes[..len]) {
                    Ok(0) => return Ok(()),
                    Ok(len) => session.feed(&bytes[..len]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
            () = &mut login, if session.user().is_none() => return Err(ErrorKind::TimedOut.into()),
        }
    }
}

/// Takes from the session what a request needs of it; the rest is done beside others. With the length of what is asked.
fn begin(
    session: &mut Session<Opening>,
    common: Arc<Common>,
    stream: StreamId,
    code: RequestCode,
    request: Request,
) -> (usize, impl Future<Output = Result<Answered, Error>> + use<>) {
    let asked = Asked::of(session, request);
    let asked_len = asked.as_ref().map_or(0, Asked::len);
    let reserved = asked.as_ref().ok().and_then(Asked::reserved);
    let request = common.permit.begin_request();
    let answering = async move {
        let done = match asked {
            Ok(asked) => requests::carry_out(&common, stream, asked).await,
            Err(refusal) => Err(refusal.into()),
        };
        let refusal = match done {
            Ok(()) => None,
            Err(requests::NotDone::Refused(refusal)) => Some(refusal),
            Err(requests::NotDone::Gone) => return Err(ErrorKind::BrokenPipe.into()),
        };
        let not_opened = reserved.filter(|_| refusal.is_some());
        common.shared.counts.count(Some(code), refusal.as_ref().map(|refusal| refusal.code));
        if let Some(refusal) = refusal {
            let bytes = answer::refusal(stream, &refusal);
            common.outbox.send(bytes).await.map_err(|Gone| ErrorKind::BrokenPipe)?;
        }
        drop(request);
        Ok(Answered { asked_len, not_opened })
    };
    (asked_len, answering)
}
