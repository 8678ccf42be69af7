//! The client: calls over one connection, which is made at the first call and again after it broke.

use crate::call_error::CallError;
use crate::client_options::ClientOptions;
use crate::lane::Held;
use crate::link::{Link, Response};
use crate::request_header::request_header;
use bytes::{Bytes, BytesMut};
use hdfs::frame::{self, Delimited};
use hdfs::proto::{RequestHeaderProto, RpcRequestHeaderProto};
use prost::Message;
use std::fmt;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use tokio::sync::Mutex;
use tokio::time::timeout;

/// Names a call across retries: a server remembers, by it, what it did already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub call_id: i32,
    pub retry_count: i32,
}

impl Attempt {
    pub fn again(self) -> Self {
        Self { retry_count: self.retry_count + 1, ..self }
    }
}

/// Any message.
pub type Request<'a> = &'a (dyn Delimited + Sync);

/// What came back of a call, not decoded yet.
#[derive(Debug)]
pub struct Answer {
    bytes: Bytes,
    /// The room that it takes, until it has been decoded.
    _held: Option<Held>,
}

/// Calls of one user to one protocol of one server. Clones share the connection.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    addr: String,
    user: String,
    protocol: &'static str,
    options: ClientOptions,
    client_id: Bytes,
    next_call_id: Arc<AtomicI32>,
    link: Mutex<Option<Arc<Link>>>,
    /// Over the last connection; `None`: there was none.
    is_proven: StdMutex<Option<bool>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { addr, user, protocol, .. } = &*self.shared;
        write!(f, "Client({protocol} at {addr} as {user})")
    }
}

impl Client {
    /// `addr` is host:port. Connects at the first call.
    pub fn new(addr: String, user: String, protocol: &'static str) -> Self {
        Self::with_options(addr, user, protocol, ClientOptions::default())
    }

    pub fn with_options(addr: String, user: String, protocol: &'static str, options: ClientOptions) -> Self {
        let client_id = Bytes::copy_from_slice(&::io::random::uuid());
        Self::of_parts(addr, user, protocol, options, (client_id, Arc::default()))
    }

    /// The same client at another server of the same group: calls keep their names there.
    pub(crate) fn of_other_server(&self, addr: String) -> Self {
        let Shared { user, protocol, options, client_id, next_call_id, .. } = &*self.shared;
        let names = (client_id.clone(), Arc::clone(next_call_id));
        Self::of_parts(addr, user.clone(), protocol, options.clone(), names)
    }

    fn of_parts(
        addr: String,
        user: String,
        protocol: &'static str,
        options: ClientOptions,
        (client_id, next_call_id): (Bytes, Arc<AtomicI32>),
    ) -> Self {
        let (link, is_proven) = (Mutex::new(None), StdMutex::default());
        let shared = Shared { addr, user, protocol, options, client_id, next_call_id, link, is_proven };
        Self { shared: Arc::new(shared) }
    }

    pub fn addr(&self) -> &str {
        &self.shared.addr
    }

    pub async fn call<Q: Message, A: Message + Default>(&self, method: &str, request: &Q) -> Result<A, CallError> {
        self.attempt(self.name_call(), method, request).await
    }

    /// Whether the server, when it was called last, had asked who calls, and got a proof: it believes no names. `None`:
    /// this client was never connected to it, and does not know.
    pub fn is_proven(&self) -> Option<bool> {
        *self.shared.is_proven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection, and the calls that wait on it. The next call makes another one. What is being connected at
    /// this moment goes on.
    pub fn disconnect(&self) {
        if let Some(link) = self.shared.link.try_lock().ok().and_then(|mut place| place.take()) {
            link.close("it was closed here");
        }
    }

    /// A name for a call that may have to be made more than once; see [`Client::attempt`].
    pub fn name_call(&self) -> Attempt {
        let call_id = self.shared.next_call_id.fetch_add(1, Ordering::Relaxed) & i32::MAX;
        Attempt { call_id, retry_count: 0 }
    }

    /// As [`Client::call`], under a name of the caller's: after [`CallError::Broken`] the call can be repeated as
    /// `attempt.again()`, and a server with a retry cache does it once.
    pub async fn attempt<Q: Message, A: Message + Default>(
        &self,
        attempt: Attempt,
        method: &str,
        request: &Q,
    ) -> Result<A, CallError> {
        self.attempt_in(self.shared.protocol, attempt, method, request).await
    }

    /// As [`Client::attempt`], of another protocol that the same server serves. The connection is shared, and so are
    /// the numbers of calls.
    pub async fn attempt_in<Q: Message, A: Message + Default>(
        &self,
        protocol: &str,
        attempt: Attempt,
        method: &str,
        request: &Q,
    ) -> Result<A, CallError> {
        self.exchange(protocol, attempt, method, request).await?.decode()
    }

    /// The same for all kinds of requests and answers, so that the program has it once.
    pub(crate) async fn exchange(
        &self,
        protocol: &str,
        attempt: Attempt,
        method: &str,
        request: Request<'_>,
    ) -> Result<Answer, CallError> {
        let shared = &*self.shared;
        let mut call = BytesMut::new();
        frame::put_frame(&[&shared.header(attempt), &what(protocol, method), request], &mut call);
        let time_max = shared.options.call_time_max;
        // Others may be connecting before us, one after the other, so this too has a limit.
        let link = timeout(time_max, shared.link()).await.unwrap_or(Err(CallError::TimedOut))?;
        let Response { bytes, place } = link.ask(attempt.call_id, call.freeze(), time_max).await?;
        let held = match (&shared.options.answers, place) {
            (Some(answers), Some(place)) => Some(answers.admit(place).await.ok_or(CallError::TimedOut)?),
            _ => None,
        };
        Ok(Answer { bytes, _held: held })
    }
}

impl Answer {
    pub fn decode<A: Message + Default>(self) -> Result<A, CallError> {
        A::decode(self.bytes).map_err(|error| CallError::Decode(error.to_string()))
    }
}

impl Shared {
    /// The connection, made if need be. Calls that come meanwhile wait for it.
    async fn link(&self) -> Result<Arc<Link>, CallError> {
        let mut place = self.link.lock().await;
        if let Some(link) = place.as_ref().filter(|link| link.is_open()) {
            return Ok(link.clone());
        }
        *place = None;
        let connecting = Link::connect(&self.addr, &self.user, self.protocol, &self.client_id, &self.options);
        let link = timeout(self.options.connect_time_max, connecting)
            .await
            .unwrap_or_else(|_elapsed| Err(CallError::Connect(std::io::ErrorKind::TimedOut.into())))?;
        *self.is_proven.lock().unwrap_or_else(PoisonError::into_inner) = Some(link.is_proven);
        Ok(place.insert(Arc::new(link)).clone())
    }

    fn header(&self, attempt: Attempt) -> RpcRequestHeaderProto {
        request_header(attempt.call_id, &self.client_id, attempt.retry_count)
    }
}

fn what(protocol: &str, method: &str) -> RequestHeaderProto {
    RequestHeaderProto {
        method_name: method.to_owned(),
        declaring_class_protocol_name: protocol.to_owned(),
        client_protocol_version: hdfs::protocol::VERSION,
    }
}
