//! Several servers of which one leads: calls find it, and find the next one when it is lost.
//!
//! ```text
//! call ──▶ the one that led last ──▶ answer
//!             │ stands by, cannot be reached, or is silent while another one says that it leads
//!             ▼
//!          the next, under the same client id and call id: what was done already is not done again
//! ```

use crate::call_error::CallError;
use crate::client::{Answer, Attempt, Client, Request};
use crate::client_options::ClientOptions;
use crate::patience::{Patience, Waiting};
use ::io::TaskGroup;
use hdfs::exception::{RETRIABLE, STANDBY};
use hdfs::proto::{HaServiceStateProto, HaServiceStateRequestProto, HaServiceStateResponseProto};
use prost::Message;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Times a call to a single server is repeated whose connection broke, idle connections that the server closed among
/// them.
const REPEATS_MAX: i32 = 2;
/// How long a call looks for a server that leads. Elections take some two seconds.
const SEARCH_MAX: Duration = Duration::from_secs(60);
/// Between two rounds over all servers.
const ROUND_PAUSE: Duration = Duration::from_millis(100);
/// After so long without an answer the others are asked whether one of them leads by now.
const SUSPECT_AFTER: Duration = Duration::from_millis(500);
const SUSPECT_EACH: Duration = Duration::from_millis(300);
const SUSPECT_WAIT: Duration = Duration::from_millis(500);
const CONNECT_WAIT: Duration = Duration::from_secs(2);

/// Calls of one user to a group of servers, or to a single one. Clones share the connections.
#[derive(Clone, Debug)]
pub struct Servers {
    /// All with the same client id, and numbers of calls.
    clients: Arc<[Client]>,
    current: Arc<AtomicUsize>,
    /// With the only server. Several are looked for in any case, as elections take seconds.
    patience: Patience,
    /// Somebody was told that it is waited for.
    told: Arc<AtomicBool>,
}

impl Servers {
    /// `addrs` is host:port, or several of that with commas between them. The connections are tasks of this group.
    pub fn new(addrs: &str, user: &str, protocol: &'static str, tasks: TaskGroup) -> Self {
        Self::with_options(addrs, user, protocol, ClientOptions { tasks: Some(tasks), ..ClientOptions::default() })
    }

    /// As [`Servers::new`], with the options of a client of one.
    pub fn with_options(addrs: &str, user: &str, protocol: &'static str, options: ClientOptions) -> Self {
        let (several, patience) = (addrs.contains(','), options.patience);
        let options = match several {
            true => ClientOptions { connect_time_max: CONNECT_WAIT, ..options },
            false => options,
        };
        let mut addrs = addrs.split(',').map(|addr| addr.trim().to_owned());
        let first = addrs.next().unwrap_or_default();
        let first = Client::with_options(first, user.to_owned(), protocol, options);
        let others: Vec<Client> = addrs.map(|addr| first.of_other_server(addr)).collect();
        let clients = std::iter::once(first).chain(others).collect();
        Self { clients, current: Arc::default(), patience, told: Arc::default() }
    }

    /// The one that led last.
    pub fn addr(&self) -> &str {
        self.client(self.current.load(Ordering::Relaxed)).addr()
    }

    /// The address of the one that led last, and its [`Client::is_proven`].
    pub fn proven(&self) -> (&str, Option<bool>) {
        let client = self.client(self.current.load(Ordering::Relaxed));
        (client.addr(), client.is_proven())
    }

    /// Ends the connections, and the calls that wait on them. The next call makes new ones.
    pub fn disconnect(&self) {
        self.clients.iter().for_each(Client::disconnect);
    }

    fn client(&self, number: usize) -> &Client {
        &self.clients[number % self.clients.len()]
    }

    /// Calls whoever leads; a server with a retry cache does it once.
    pub async fn call_in<Q: Message, A: Message + Default>(
        &self,
        protocol: &str,
        method: &str,
        request: &Q,
    ) -> Result<A, CallError> {
        self.exchange(protocol, method, request).await?.decode()
    }

    /// As [`Servers::call_in`], for who decodes the answer. The same for all kinds of requests and answers, so that the
    /// program has it once.
    pub async fn exchange(&self, protocol: &str, method: &str, request: Request<'_>) -> Result<Answer, CallError> {
        let mut attempt = self.clients[0].name_call();
        if self.clients.len() == 1 {
            let mut waiting = Waiting::new(self.patience, &self.told);
            loop {
                let asked = self.clients[0].exchange(protocol, attempt, method, request).await;
                match asked {
                    Err(CallError::Broken(_)) if attempt.retry_count < REPEATS_MAX => {}
                    Err(error) => {
                        if !waiting.pause(self.addr(), &error).await {
                            return Err(not_alone(error));
                        }
                    }
                    Ok(answer) => {
                        waiting.end();
                        return Ok(answer);
                    }
                }
                attempt = attempt.again();
            }
        }
        let mut last = CallError::TimedOut;
        let search = self.search(protocol, attempt, method, request, &mut last);
        match timeout(SEARCH_MAX, search).await {
            Ok(answer) => answer,
            Err(_elapsed) => Err(not_found(last, self.clients.len())),
        }
    }

    async fn search(
        &self,
        protocol: &str,
        mut attempt: Attempt,
        method: &str,
        request: Request<'_>,
        last: &mut CallError,
    ) -> Result<Answer, CallError> {
        let mut foreign_count = 0;
        loop {
            let number = self.current.load(Ordering::Relaxed);
            let asked = tokio::select! {
                asked = self.client(number).exchange(protocol, attempt, method, request) => asked,
                () = self.another_leads(number) => Err(CallError::TimedOut),
            };
            match asked {
                Err(error @ CallError::Remote { .. }) if error.is_class(RETRIABLE) => {
                    *last = error;
                    sleep(ROUND_PAUSE).await;
                }
                // One of the addresses is wrong: a web port's, say. All of them are not waited for.
                Err(error @ CallError::Decode(_)) => {
                    foreign_count += 1;
                    if foreign_count >= self.clients.len() {
                        return Err(error);
                    }
                    *last = error;
                }
                // That one is up and does not lead tells more than that another one is down.
                Err(error) if is_elsewhere(&error) => {
                    foreign_count = 0;
                    if !matches!(last, CallError::Remote { .. }) {
                        *last = error;
                    }
                }
                answer => return answer,
            }
            let _unless_somebody_else_did =
                self.current.compare_exchange(number, number + 1, Ordering::Relaxed, Ordering::Relaxed);
            attempt = attempt.again();
            if (attempt.retry_count as usize).is_multiple_of(self.clients.len()) {
                sleep(ROUND_PAUSE).await;
            }
        }
    }

    /// Comes back when another server than `number` says that it leads, and makes it the one to ask.
    async fn another_leads(&self, number: usize) {
        sleep(SUSPECT_AFTER).await;
        loop {
            for other in number + 1..number + self.clients.len() {
                let client = self.client(other);
                let request = HaServiceStateRequestProto::default();
                let (protocol, method) = (hdfs::protocol::CLIENT, "getHAServiceState");
                let asked = client.attempt_in(protocol, client.name_call(), method, &request);
                let answer: Option<HaServiceStateResponseProto> =
                    timeout(SUSPECT_WAIT, asked).await.ok().and_then(Result::ok);
                if answer.is_some_and(|answer| answer.state() == HaServiceStateProto::Active) {
                    let _unless_somebody_else_did =
                        self.current.compare_exchange(number, other, Ordering::Relaxed, Ordering::Relaxed);
                    return;
                }
            }
            sleep(SUSPECT_EACH).await;
        }
    }
}

/// What one server says that is not the only one of its store: who knows the others' addresses should have given them
/// all.
fn not_alone(error: CallError) -> CallError {
    match error {
        CallError::Remote { class, message, detail } if class == STANDBY => {
            let message =
                format!("{message}; name all its metadata servers, as in hdfs://HOST:PORT,HOST:PORT,HOST:PORT");
            CallError::Remote { class, message, detail }
        }
        error => error,
    }
}

/// What a search of all servers ends with.
fn not_found(last: CallError, count: usize) -> CallError {
    match last {
        CallError::Remote { class, detail, .. } if class == STANDBY => CallError::Remote {
            class,
            detail,
            message: format!("none of the {count} metadata servers leads; a majority of them must be up"),
        },
        last => last,
    }
}

/// True if another server may do what this one did not, or did without telling.
fn is_elsewhere(error: &CallError) -> bool {
    match error {
        CallError::Remote { .. } => error.is_class(STANDBY),
        CallError::Connect(_) | CallError::Broken(_) | CallError::TimedOut => true,
        CallError::Decode(_) => false,
    }
}
