//! The link to the store: up, or down since when. It is said once when that changes; while it is down, one task looks
//! for the store.
//!
//! Promise: a call that fails, or takes long, fails alone. The link is down only once the store did not answer a probe
//! either: a small question, on a connection of its own.

use super::tally::Tally;
use client::{Error, ErrorKind, Store};
use io::{Clock, SystemClock, TaskGroup};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use types::Millis;

/// Between two looks for a store that does not answer. A guess.
const PROBE_EACH: Duration = Duration::from_secs(1);
/// For the answer to a probe, beside some round trips. A guess: servers answer in milliseconds.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// A call that takes so long, beside them, is reason for a probe; and again after as long. A guess.
const SUSPECT_AFTER: Duration = Duration::from_secs(2);
/// To connect, prove who asks, and ask.
const ROUND_TRIPS: u32 = 8;
/// For a call. A guess: a summary of millions of files takes seconds.
const CALL_TIME_MAX: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Link {
    store: Store,
    /// By whom the store is looked for.
    user: String,
    clock: SystemClock,
    tasks: TaskGroup,
    tally: Arc<Tally>,
    /// Since when it does not answer.
    down: Mutex<Option<Millis>>,
    /// When the last probe began that was answered. Whoever holds it probes, for all who wait.
    probed: tokio::sync::Mutex<Option<Duration>>,
    /// Beside what the clock says.
    #[cfg(test)]
    pub(super) passed_s: std::sync::atomic::AtomicU64,
}

/// Whether an error says that the store was not reached, or went away. The port of one that was stopped may be another
/// program's by now: what that says is no word of the store.
fn is_of_link(error: &Error) -> bool {
    use ErrorKind::{Broken, NotAMetadataServer, Protocol, TimedOut, Unreachable};
    matches!(error.kind(), Unreachable | TimedOut | Broken | Protocol | NotAMetadataServer)
}

/// Whether an error is no answer of the store: what this process says itself is none, either.
fn is_no_answer(error: &Error) -> bool {
    is_of_link(error) || matches!(error.kind(), ErrorKind::Closed | ErrorKind::Forked | ErrorKind::Internal)
}

impl Link {
    pub(super) fn new(store: Store, user: &str, tasks: TaskGroup, tally: Arc<Tally>) -> Arc<Self> {
        let (user, clock) = (user.to_owned(), SystemClock::new());
        Arc::new(Self {
            store,
            user,
            clock,
            tasks,
            tally,
            down: Mutex::default(),
            probed: Default::default(),
            #[cfg(test)]
            passed_s: Default::default(),
        })
    }

    pub(super) fn is_up(&self) -> bool {
        self.down().is_none()
    }

    pub(super) fn now(&self) -> Duration {
        #[cfg(test)]
        return self.clock.monotonic() + Duration::from_secs(self.passed_s.load(std::sync::atomic::Ordering::Relaxed));
        #[cfg(not(test))]
        self.clock.monotonic()
    }

    pub(super) fn wall(&self) -> Millis {
        self.clock.now()
    }

    /// Asks the store something about a name. `None`: it does not answer, so the link is down.
    pub(super) async fn ask<T>(
        self: &Arc<Self>,
        asking: impl Future<Output = Result<T, Error>>,
    ) -> Option<Result<T, Error>> {
        if !self.is_up() {
            return None;
        }
        let (mut asking, begin) = (std::pin::pin!(asking), self.now());
        while self.now().saturating_sub(begin) < CALL_TIME_MAX {
            match tokio::time::timeout(SUSPECT_AFTER + self.round_trips(), &mut asking).await {
                Ok(answer) => return self.note(answer).await,
                Err(_elapsed) if self.is_there("it did not answer in time").await => {}
                Err(_elapsed) => return None,
            }
        }
        Some(Err(Error::TimedOut { addr: self.addr() }))
    }

    /// What an answer says of the link. `None`: it was none.
    pub(super) async fn note<T>(self: &Arc<Self>, answer: Result<T, Error>) -> Option<Result<T, Error>> {
        match answer {
            Err(error) if is_of_link(&error) && !self.is_there(&error.to_string()).await => None,
            answer => Some(answer),
        }
    }

    /// Asks the store whether it is there, after something that makes one doubt it. If it is not, the link is down.
    async fn is_there(self: &Arc<Self>, why: &str) -> bool {
        let begin = self.now();
        let mut probed = self.probed.lock().await;
        // Another one may have looked meanwhile.
        if !self.is_up() {
            return false;
        }
        if probed.is_some_and(|at| at >= begin) {
            return true;
        }
        let at = self.now();
        let is_there = self.probe().await;
        match is_there {
            true => *probed = Some(at),
            false => self.went_down(why),
        }
        is_there
    }

    /// By a new connection: one that was kept may be gone, or filled with what others wait for.
    async fn probe(&self) -> bool {
        let client = self.store.client(&self.user);
        let answer = tokio::time::timeout(ANSWER_TIME_MAX + self.round_trips(), client.existing("/")).await;
        // Whatever the store answers: it does.
        answer.is_ok_and(|answer| answer.as_ref().err().is_none_or(|error| !is_no_answer(error)))
    }

    fn round_trips(&self) -> Duration {
        self.store.round_trip() * ROUND_TRIPS
    }

    fn addr(&self) -> String {
        self.store.url().authority.clone()
    }

    /// Nothing here comes from the store now.
    pub(super) fn refusal(&self) -> Error {
        let why = "the link to the store is down, and this is not kept here";
        Error::Unreachable { addr: self.addr(), source: std::io::Error::other(why) }
    }

    fn went_down(self: &Arc<Self>, why: &str) {
        let now = self.wall();
        {
            let mut down = self.down();
            if down.is_some() {
                return;
            }
            *down = Some(now);
        }
        self.tally.lost_count.add(1);
        tracing::warn!(store = self.addr(), why, "the link is down; what is kept is served read-only");
        let link = Arc::clone(self);
        self.tasks.spawn_detached("link", async move { link.look_for_the_store().await });
    }

    async fn look_for_the_store(&self) {
        loop {
            tokio::time::sleep(PROBE_EACH).await;
            if self.probe().await {
                break;
            }
        }
        let since = self.down().take();
        let down_ms = since.map_or(0, |since| self.wall().0.saturating_sub(since.0));
        tracing::info!(store = self.addr(), down_ms, "the link is up again; files are validated");
    }

    /// Nothing is left half done while it is held.
    fn down(&self) -> MutexGuard<'_, Option<Millis>> {
        self.down.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use client::{Options, Url};
    use hdfs::exception::{self, Exception};
    use io::HeldPorts;
    use rpc::{Call, Server, ServerOptions, Service};
    use std::net::{Ipv4Addr, SocketAddr};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// It knows no name, and says so.
    #[derive(Debug)]
    struct Nothing;

    impl Service for Nothing {
        async fn call(&self, _call: Call) -> Result<Bytes, Exception> {
            Err(Exception::new(exception::FILE_NOT_FOUND, "none"))
        }
    }

    /// As a datanode is.
    #[derive(Debug)]
    struct NoStore;

    impl Service for NoStore {
        async fn call(&self, call: Call) -> Result<Bytes, Exception> {
            Err(call.no_such_protocol())
        }
    }

    /// Whatever is sent to it is sent back, as it is to who connects to a port of his own by chance; or it is greeted
    /// as a server of HTTP does.
    async fn other_program(tasks: &TaskGroup, answer: Option<&'static [u8]>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        tasks.spawn_detached("other program", async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut bytes = [0; 4096];
                while let Ok(len @ 1..) = socket.read(&mut bytes).await {
                    let _ = socket.write_all(answer.unwrap_or(&bytes[..len])).await;
                    if answer.is_some() {
                        break;
                    }
                }
            }
        });
        addr
    }

    /// The port of a store that was stopped was given to another program.
    #[tokio::test]
    async fn what_another_program_says_is_no_answer_of_the_store() {
        let no_store = Server::bind("127.0.0.1:0", ServerOptions::default(), Arc::new(NoStore)).await.unwrap();
        let tasks = TaskGroup::default();
        let http = other_program(&tasks, Some(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")).await;
        for addr in [no_store.local_addr(), http, other_program(&tasks, None).await] {
            let store = Store::new(&Url::parse(&format!("hdfs://{addr}")).unwrap(), Options::default());
            let link = Link::new(store.clone(), "me", TaskGroup::default(), Arc::default());
            assert!(!link.probe().await, "{addr}");
            store.close().await;
        }
        no_store.shutdown().await;
        tasks.close().await;
    }

    #[tokio::test]
    async fn what_this_process_says_itself_is_no_answer_of_the_store() {
        let server = Server::bind("127.0.0.1:0", ServerOptions::default(), Arc::new(Nothing)).await.unwrap();
        let store = Store::new(&Url::parse(&format!("hdfs://{}", server.local_addr())).unwrap(), Options::default());
        let link = Link::new(store.clone(), "me", TaskGroup::default(), Arc::default());
        assert!(link.probe().await);
        store.close().await;
        assert!(!link.probe().await);
        server.shutdown().await;
    }

    async fn lost(link: &Arc<Link>) -> Option<Result<(), Error>> {
        link.ask(async { Err(Error::TimedOut { addr: "another:1".into() }) }).await
    }

    #[tokio::test]
    async fn a_call_that_fails_takes_the_link_down_only_if_the_store_is_not_there() {
        // No server of another test answers there once this one has gone.
        let mut held = HeldPorts::default();
        let addr = held.hold((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let server = Server::bind(addr, ServerOptions::default(), Arc::new(Nothing)).await.unwrap();
        let url = Url::parse(&format!("hdfs://{}", server.local_addr())).unwrap();
        let store = Store::new(&url, Options::default());
        let link = Link::new(store.clone(), "me", TaskGroup::default(), Arc::default());
        assert!(matches!(lost(&link).await, Some(Err(Error::TimedOut { .. }))));
        assert!(link.is_up());
        server.shutdown().await;
        assert!(lost(&link).await.is_none());
        let since = *link.down();
        assert!(since.is_some());
        assert!(!link.probe().await);
        link.went_down("a call of before was late");
        assert_eq!(*link.down(), since);
        store.close().await;
    }
}
