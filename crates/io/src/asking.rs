//! Connections on which many ask at the same time: one to an address, shared by all of a process, and kept.
//!
//! ```text
//! ask ──▶ endpoint ──▶ one write of all that wait ──▶ ┐
//!                                                     │ peer
//! ask ◀── its answer ◀── answers, in any order ◀───── ┘
//! ```
//!
//! What is asked is the endpoint's business ([`Asking`]); this knows of addresses, sockets and who waits.

use crate::driven::Driven;
use crate::socket::{self, SocketOptions};
use crate::task::{self, Owned};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};
use types::endpoint::{Asking, Loss};

/// Addresses kept; a larger cluster's are dropped all at once now and then, which costs a connection each.
const ADDR_COUNT_MAX: usize = 1024;

/// Who waits for an answer.
pub type Waiter<Answer> = oneshot::Sender<Result<Answer, Loss>>;

/// Why there is no answer. Two variants differ only if the caller acts differently.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The question was certainly not sent.
    #[error("no connection: {0}")]
    Connect(io::Error),
    /// It may or may not have been done.
    #[error("the connection broke: {0}")]
    Broken(String),
    #[error("no answer in time")]
    Silent,
}

impl From<Loss> for AskError {
    fn from(loss: Loss) -> Self {
        match loss {
            Loss::Unsent(why) => Self::Connect(io::Error::new(io::ErrorKind::NotConnected, why)),
            Loss::Broken(why) => Self::Broken(why),
            Loss::Silent => Self::Silent,
        }
    }
}

/// Limits of one user of such connections.
#[derive(Clone, Debug)]
pub struct AskOptions {
    pub connect_time_max: Duration,
    pub socket: SocketOptions,
}

impl Default for AskOptions {
    fn default() -> Self {
        Self { connect_time_max: Duration::from_secs(5), socket: SocketOptions::default() }
    }
}

/// The connections to all addresses.
pub struct Links<A: Asking> {
    options: AskOptions,
    limits: A::Limits,
    places: Mutex<HashMap<String, Place<A>>>,
}

type Place<A> = Arc<tokio::sync::Mutex<Option<Arc<Link<A>>>>>;

impl<A: Asking> fmt::Debug for Links<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Links").field("options", &self.options).finish_non_exhaustive()
    }
}

/// One of them.
struct Link<A> {
    driven: Arc<Driven<A>>,
    /// For questions without an answer.
    room: Semaphore,
    /// Ends with the link.
    _task: Owned<()>,
}

impl<A> Default for Links<A>
where
    A: Asking<Waiter = Waiter<<A as Asking>::Answer>, Limits: Default> + Send + 'static,
    A::Question: Clone,
    A::Answer: Send + 'static,
{
    fn default() -> Self {
        Self::new(AskOptions::default(), A::Limits::default())
    }
}

impl<A> Links<A>
where
    A: Asking<Waiter = Waiter<<A as Asking>::Answer>> + Send + 'static,
    A::Question: Clone,
    A::Answer: Send + 'static,
{
    pub fn new(options: AskOptions, limits: A::Limits) -> Self {
        Self { options, limits, places: Mutex::default() }
    }

    /// Asks who is at `addr`. If a connection that was kept turns out to be gone, it is tried once more on a new one:
    /// only for questions that may come twice.
    pub async fn ask(&self, addr: &str, question: A::Question) -> Result<A::Answer, AskError> {
        let (link, fresh) = self.link(addr).await?;
        match link.ask(question.clone()).await {
            Err(loss) if !fresh && loss.is_of_connection() => {
                let (link, _) = self.link(addr).await?;
                Ok(link.ask(question).await?)
            }
            answer => Ok(answer?),
        }
    }

    /// Ends all connections, once nobody waits for an answer on them. The next question makes a new one.
    pub fn disconnect(&self) {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The connection, and whether it was just made. Those who come meanwhile wait for it.
    async fn link(&self, addr: &str) -> Result<(Arc<Link<A>>, bool), AskError> {
        let place = self.place(addr);
        let mut place = place.lock().await;
        if let Some(link) = place.as_ref().filter(|link| !link.driven.is_ended()) {
            return Ok((Arc::clone(link), false));
        }
        *place = None;
        let link = Arc::new(self.connect(addr).await.map_err(AskError::Connect)?);
        *place = Some(Arc::clone(&link));
        Ok((link, true))
    }

    fn place(&self, addr: &str) -> Place<A> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = places.get(addr) {
            return Arc::clone(place);
        }
        if places.len() >= ADDR_COUNT_MAX {
            places.clear();
        }
        Arc::clone(places.entry(addr.to_owned()).or_default())
    }

    async fn connect(&self, addr: &str) -> io::Result<Link<A>> {
        let connecting = tokio::time::timeout(self.options.connect_time_max, TcpStream::connect(addr));
        let mut socket = connecting.await.map_err(|_elapsed| io::ErrorKind::TimedOut)??;
        socket::apply(&socket, &self.options.socket)?;
        let driven = Arc::new(Driven::new(|now| A::begin(now, &self.limits)));
        let carrying = Carrying(Arc::clone(&driven));
        let task = task::spawn_owned("questions", async move { carrying.0.run(&mut socket, hand_on).await });
        Ok(Link { driven, room: Semaphore::new(A::IN_FLIGHT_COUNT_MAX), _task: task })
    }
}

impl<A: Asking<Waiter = Waiter<<A as Asking>::Answer>>> Link<A> {
    async fn ask(&self, question: A::Question) -> Result<A::Answer, Loss> {
        let gone = || "it was closed".to_owned();
        // Those before have their time limits, so a place comes free, or the connection ends and this one with it.
        let _room = self.room.acquire().await.map_err(|_closed| Loss::Unsent(gone()))?;
        let (sender, receiver) = oneshot::channel();
        let asked = self.driven.with(|endpoint, now| endpoint.ask(now, question, sender));
        let number = asked.map_err(|_waiter| Loss::Unsent(gone()))?;
        let mut forget = Forget { driven: &self.driven, number: Some(number) };
        let outcome = receiver.await;
        forget.number = None;
        outcome.unwrap_or_else(|_dropped| Err(Loss::Broken(gone())))
    }
}

fn hand_on<Answer>((waiter, outcome): (Waiter<Answer>, Result<Answer, Loss>)) {
    let _nobody_waits = waiter.send(outcome);
}

/// The task that carries a link's bytes has this. It may end at any time, with the runtime that it runs on: then the
/// link has ended too, and who waits for an answer is told so.
struct Carrying<A: Asking<Waiter = Waiter<<A as Asking>::Answer>>>(Arc<Driven<A>>);

impl<A: Asking<Waiter = Waiter<<A as Asking>::Answer>>> Drop for Carrying<A> {
    fn drop(&mut self) {
        self.0.with(|endpoint, now| endpoint.on_lost(now, "its task has ended"));
        while let Some(event) = self.0.with(|endpoint, _| endpoint.poll_event()) {
            hand_on(event);
        }
    }
}

/// Forgets a question whose asker does not wait any more.
struct Forget<'a, A: Asking> {
    driven: &'a Driven<A>,
    number: Option<u64>,
}

impl<A: Asking> Drop for Forget<'_, A> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.driven.with(|endpoint, now| endpoint.forget(now, number));
        }
    }
}
