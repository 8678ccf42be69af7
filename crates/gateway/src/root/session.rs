//! One connection: requests come in, some are under way at a time, answers go out as they are ready.

use super::file::Opening;
use super::not_done::NotDone;
use super::outbox::{self, Gone, Outbox};
use super::requests::{self, Asked};
use super::shared::{Common, Shared};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use io::{ConnectionPermit, LogLimit};
use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use xroot::{Config, Event, Handle, Refusal, RequestCode, Session, StreamId, answer};

/// Requests under way in one session; while there are so many, no further one is read. XRootD's client has a handful.
const REQUEST_COUNT_MAX: usize = 32;
/// Bytes of what they ask for, which vectors are long for, and of answers that wait for room: one more of the longest
/// is then taken.
const ASKED_LEN_MAX: usize = 256 << 10;
/// For a login, which clients send at once.
const LOGIN_TIME_MAX: Duration = Duration::from_secs(20);
/// Bytes read from a socket at a time.
const READ_LEN: usize = 32 << 10;

/// As clients ask for it.
static VERSION: LazyLock<String> = LazyLock::new(|| format!("levada {}", host::version::VERSION));

static STRANGERS: LogLimit = LogLimit::new(Duration::from_secs(1));

pub(super) async fn run(socket: TcpStream, peer: SocketAddr, connection: Arc<ConnectionPermit>, shared: Arc<Shared>) {
    let (outbox, queue) = Outbox::new(Arc::clone(&shared.answers), Arc::clone(&connection));
    let sent = shared.counts.sent.clone();
    let ended = tokio::select! {
        ended = serve(&socket, outbox, &connection, shared) => ended,
        ended = outbox::send(&socket, queue, &connection, &sent) => ended,
        () = connection.evicted() => return tracing::debug!(%peer, "a connection is closed to make room for another"),
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
    connection: &Arc<ConnectionPermit>,
    shared: Arc<Shared>,
) -> Result<(), Error> {
    let addr = socket.local_addr()?;
    let mut id = [0; 16];
    io::random::fill(&mut id);
    let mut session: Session<Opening> = Session::new(Config { version: &VERSION, with_pages: true }, id);
    let login = tokio::time::sleep(LOGIN_TIME_MAX);
    tokio::pin!(login);
    let (user, reading) = (OnceLock::new(), OnceCell::new());
    let (connection, files) = (Arc::clone(connection), shared.files.join(Arc::clone(connection)));
    let common = Arc::new(Common { shared, outbox, connection, files, addr, user, reading });
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
                    common.shared.counts.count_answer(code, &bytes);
                    let len = bytes.len();
                    let work = Work::Send(bytes);
                    // Greeting and login are answered in their order. Later the room may be with requests that have to
                    // go on before there is some.
                    match running.is_empty() {
                        true => drop(work.run_with(Arc::clone(&common)).await?),
                        false => {
                            asked_len += len;
                            running.push(work.run_with(Arc::clone(&common)));
                        }
                    }
                }
                Some(Event::Request { stream, code, request }) => {
                    common.user.get_or_init(|| {
                        common.connection.prove();
                        session.user().unwrap_or_default().to_owned()
                    });
                    let asked = Asked::of(&mut session, request);
                    asked_len += asked.as_ref().map_or(0, Asked::len);
                    running.push(Work::Answer { stream, code, asked }.run_with(Arc::clone(&common)));
                }
            }
        }
        if running.is_empty() {
            common.outbox.rest();
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

/// What is done beside other such.
enum Work {
    Send(Vec<u8>),
    Answer { stream: StreamId, code: RequestCode, asked: Result<Asked, Refusal> },
}

impl Work {
    async fn run_with(self, common: Arc<Common>) -> Result<Answered, Error> {
        let _request = common.connection.begin_request();
        self.run(&common).await
    }

    async fn run(self, common: &Common) -> Result<Answered, Error> {
        let gone = |Gone| Error::from(ErrorKind::BrokenPipe);
        match self {
            Self::Send(bytes) => {
                let asked_len = bytes.len();
                common.outbox.send(bytes).await.map_err(gone)?;
                Ok(Answered { asked_len, not_opened: None })
            }
            Self::Answer { stream, code, asked } => {
                let asked_len = asked.as_ref().map_or(0, Asked::len);
                let reserved = asked.as_ref().ok().and_then(Asked::reserved);
                let done = match asked {
                    Ok(asked) => requests::carry_out(common, stream, asked).await,
                    Err(refusal) => Err(refusal.into()),
                };
                let refusal = match done {
                    Ok(()) => None,
                    Err(NotDone::Refused(refusal)) => Some(refusal),
                    Err(NotDone::Gone) => return Err(gone(Gone)),
                };
                common.shared.counts.count(Some(code), refusal.as_ref().map(|refusal| refusal.code));
                let not_opened = reserved.filter(|_| refusal.is_some());
                if let Some(refusal) = refusal {
                    common.outbox.send(answer::refusal(stream, &refusal)).await.map_err(gone)?;
                }
                Ok(Answered { asked_len, not_opened })
            }
        }
    }
}
