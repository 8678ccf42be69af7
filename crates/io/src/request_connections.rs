//! Connections that carry many requests at the same time: one to an address, shared by all of a process, and kept.
//!
//! ```text
//! call ──▶ endpoint ──▶ one write of all that wait ──▶ ┐
//!                                                      │ peer
//! call ◀── its response ◀── responses, in any order ◀─ ┘
//! ```
//!
//! Only the endpoint knows what a request is ([`RequestEndpoint`]); this knows of addresses, sockets and who waits.

use crate::dial::Dialer;
use crate::driven::Driven;
use crate::socket::SocketOptions;
use crate::task::Owned;
use crate::task_group::TaskGroup;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};
use types::endpoint::{Loss, RequestEndpoint};

/// Addresses kept; a larger cluster's are dropped all at once now and then, which costs a connection each.
const ADDR_COUNT_MAX: usize = 1024;

/// Who waits for a response.
pub type Waiter<Response> = oneshot::Sender<Result<Response, Loss>>;

/// Why there is no response. Two variants differ only if the caller acts differently.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The request was certainly not sent.
    #[error("no connection: {0}")]
    Connect(io::Error),
    /// It may or may not have been done.
    #[error("the connection broke: {0}")]
    Broken(String),
    #[error("no answer in time")]
    TimedOut,
}

impl From<Loss> for RequestError {
    fn from(loss: Loss) -> Self {
        match loss {
            Loss::Unsent(why) => Self::Connect(io::Error::new(io::ErrorKind::NotConnected, why)),
            Loss::Broken(why) => Self::Broken(why),
            Loss::TimedOut => Self::TimedOut,
        }
    }
}

/// How one user of such connections makes them.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    pub connect_time_max: Duration,
    /// How servers are reached.
    pub dialer: Dialer,
    pub socket: SocketOptions,
    /// When there are so many, a request to another address is not sent.
    pub connection_count_max: usize,
    /// Connections are tasks of this group. `None`: they end with the [`RequestConnections`], or by themselves.
    pub tasks: Option<TaskGroup>,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        let (connect_time_max, socket) = (Duration::from_secs(5), SocketOptions::default());
        let (dialer, connection_count_max) = (Dialer::default(), Semaphore::MAX_PERMITS);
        Self { connect_time_max, dialer, socket, connection_count_max, tasks: None }
    }
}

/// Makes a connection ready for its first request: behind a handshake, if one is needed.
pub trait Prepare<Request>: Send + Sync {
    fn prepare<'a>(&'a self, socket: TcpStream, first: &'a Request) -> Preparing<'a>;
}

/// What becomes of it.
pub type Preparing<'a> = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send + 'a>>;

/// The connections to all addresses.
pub struct RequestConnections<A: RequestEndpoint> {
    options: ConnectOptions,
    /// `None`: they are ready as they are.
    prepare: Option<Arc<dyn Prepare<A::Request>>>,
    limits: A::Limits,
    /// For connections, those included that are being made.
    room: Arc<Semaphore>,
    places: Mutex<HashMap<String, Place<A>>>,
}

type Place<A> = Arc<tokio::sync::Mutex<Option<Arc<Connection<A>>>>>;

impl<A: RequestEndpoint> fmt::Debug for RequestConnections<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestConnections").field("options", &self.options).finish_non_exhaustive()
    }
}

/// One of them.
struct Connection<A> {
    driven: Arc<Driven<A>>,
    /// For requests without a response.
    room: Semaphore,
    /// Ends with the connection.
    _task: Owned<Option<()>>,
}

impl<A> Default for RequestConnections<A>
where
    A: RequestEndpoint<Waiter = Waiter<<A as RequestEndpoint>::Response>, Limits: Default> + Send + 'static,
    A::Request: Clone,
    A::Response: Send + 'static,
{
    fn default() -> Self {
        Self::new(ConnectOptions::default(), A::Limits::default())
    }
}

impl<A> RequestConnections<A>
where
    A: RequestEndpoint<Waiter = Waiter<<A as RequestEndpoint>::Response>> + Send + 'static,
    A::Request: Clone,
    A::Response: Send + 'static,
{
    pub fn new(options: ConnectOptions, limits: A::Limits) -> Self {
        let room = Arc::new(Semaphore::new(options.connection_count_max.min(Semaphore::MAX_PERMITS)));
        Self { options, prepare: None, limits, room, places: Mutex::default() }
    }

    /// Each new connection is made ready by `prepare`.
    #[must_use]
    pub fn prepared_by(self, prepare: Arc<dyn Prepare<A::Request>>) -> Self {
        Self { prepare: Some(prepare), ..self }
    }

    /// Sends a request to `addr`, and waits for its response. If a connection that was kept turns out to be gone, the
    /// request is sent once more on a new one: only for requests that may come twice.
    pub async fn call(&self, addr: &str, request: A::Request) -> Result<A::Response, RequestError> {
        let (connection, fresh) = self.connection(addr, &request).await?;
        match connection.call(request.clone()).await {
            Err(loss) if !fresh && loss.is_of_connection() => {
                let (connection, _) = self.connection(addr, &request).await?;
                Ok(connection.call(request).await?)
            }
            response => Ok(response?),
        }
    }

    /// Ends all connections, once nobody waits for a response on them. The next request makes a new one.
    pub fn disconnect(&self) {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The connection, and whether it was just made. Those who come meanwhile wait for it.
    async fn connection(&self, addr: &str, first: &A::Request) -> Result<(Arc<Connection<A>>, bool), RequestError> {
        let place = self.place(addr);
        let mut place = place.lock().await;
        if let Some(connection) = place.as_ref().filter(|connection| !connection.driven.is_ended()) {
            return Ok((Arc::clone(connection), false));
        }
        *place = None;
        let connection = Arc::new(self.connect(addr, first).await.map_err(RequestError::Connect)?);
        *place = Some(Arc::clone(&connection));
        Ok((connection, true))
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

    async fn connect(&self, addr: &str, first: &A::Request) -> io::Result<Connection<A>> {
        let crowded = |_| io::Error::other("as many connections to others as may be");
        let permit = Arc::clone(&self.room).try_acquire_owned().map_err(crowded)?;
        let dialing = self.options.dialer.connect(addr, &self.options.socket);
        let connecting = tokio::time::timeout(self.options.connect_time_max, dialing);
        let mut socket = connecting.await.map_err(|_elapsed| io::ErrorKind::TimedOut)??;
        if let Some(prepare) = &self.prepare {
            let preparing = tokio::time::timeout(self.options.connect_time_max, prepare.prepare(socket, first));
            socket = preparing.await.map_err(|_elapsed| io::ErrorKind::TimedOut)??;
        }
        let driven = Arc::new(Driven::new(|now| A::begin(now, &self.limits)));
        let carrying = Carrying(Arc::clone(&driven));
        let task = TaskGroup::spawn_in(self.options.tasks.as_ref(), "requests", async move {
            carrying.0.run(&mut socket, hand_on).await;
            drop(permit);
        });
        Ok(Connection { driven, room: Semaphore::new(A::IN_FLIGHT_COUNT_MAX), _task: task })
    }
}

impl<A: RequestEndpoint<Waiter = Waiter<<A as RequestEndpoint>::Response>>> Connection<A> {
    async fn call(&self, request: A::Request) -> Result<A::Response, Loss> {
        let gone = || "it was closed".to_owned();
        // Those before have their time limits, so a place comes free, or the connection ends and this one with it.
        let _room = self.room.acquire().await.map_err(|_closed| Loss::Unsent(gone()))?;
        let (sender, receiver) = oneshot::channel();
        let sent = self.driven.with(|endpoint, now| endpoint.send_request(now, request, sender));
        let number = sent.map_err(|_waiter| Loss::Unsent(gone()))?;
        let mut guard = CancelOnDrop { driven: &self.driven, number: Some(number) };
        let outcome = receiver.await;
        guard.number = None;
        outcome.unwrap_or_else(|_dropped| Err(Loss::Broken(gone())))
    }
}

fn hand_on<Response>((waiter, outcome): (Waiter<Response>, Result<Response, Loss>)) {
    let _nobody_waits = waiter.send(outcome);
}

/// The task that carries a connection's bytes has this. It may end at any time, with the runtime that it runs on: then
/// the connection has ended too, and who waits for an answer is told so.
struct Carrying<A: RequestEndpoint<Waiter = Waiter<<A as RequestEndpoint>::Response>>>(Arc<Driven<A>>);

impl<A: RequestEndpoint<Waiter = Waiter<<A as RequestEndpoint>::Response>>> Drop for Carrying<A> {
    fn drop(&mut self) {
        self.0.with(|endpoint, now| endpoint.on_lost(now, "its task has ended"));
        while let Some(event) = self.0.with(|endpoint, _| endpoint.poll_event()) {
            hand_on(event);
        }
    }
}

/// Cancels a request whose caller does not wait any more.
struct CancelOnDrop<'a, A: RequestEndpoint> {
    driven: &'a Driven<A>,
    number: Option<u64>,
}

impl<A: RequestEndpoint> Drop for CancelOnDrop<'_, A> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.driven.with(|endpoint, now| endpoint.cancel_request(now, number));
        }
    }
}
