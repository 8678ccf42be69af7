//! The server's end of a connection's SASL exchange, with Kerberos' library in it.

use crate::identity::Proof;
use crate::options::Authentication;
use crate::seal::{End, Seal};
use ::io::CachedThreads;
use hdfs::exception::{self, Exception};
use hdfs::proto::{RpcSaslProto, SaslState};
use security::delegation::Claim;
use security::method::Method;
use security::sasl::digest::Qop;
use security::sasl::rpc::{Accepting, Acceptor, Caller, ClaimError, KerberosOffer, Refused, Sealing, Server, Step};
use std::fmt;
use std::io;
use std::sync::Arc;
use tokio::sync::{Semaphore, oneshot};

/// Steps of Kerberos at the same time, which look at keys and replay caches; and as many that look for a token's row. A
/// guess: each takes below a millisecond, and what hangs holds up nobody but those who log in in the same way.
const THREAD_COUNT_MAX: usize = 16;

/// What a message led to.
#[derive(Debug)]
pub(crate) enum Progress {
    Answer(RpcSaslProto),
    /// The caller is believed.
    Simple(Option<RpcSaslProto>),
    Accepted {
        answer: RpcSaslProto,
        proof: Proof,
        qop: Qop,
        seal: Option<Seal>,
    },
}

/// One connection's exchange.
pub(crate) struct Exchange {
    machine: Server,
    offer: Option<KerberosOffer>,
    acceptor: Option<Arc<dyn Acceptor>>,
    /// Kerberos' library in this connection, from the first of its tokens on.
    context: Option<Box<dyn Accepting>>,
    is_simple_only: bool,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("machine", &self.machine).finish_non_exhaustive()
    }
}

impl Exchange {
    pub(crate) fn new(options: &Authentication) -> Self {
        let mut nonce = [0; security::sasl::digest::NONCE_LEN];
        ::io::random::fill(&mut nonce);
        Self {
            machine: Server::new(options.offers.clone(), nonce),
            offer: options.offers.kerberos.clone(),
            acceptor: options.acceptor.clone(),
            context: None,
            is_simple_only: options.offers.is_simple_only(),
        }
    }

    /// Whether carrying this message to its end may take long: it may look at rows, or wait for a network.
    fn may_wait(&self, message: &RpcSaslProto) -> bool {
        let state = SaslState::try_from(message.state);
        !self.is_simple_only && matches!(state, Ok(SaslState::Initiate | SaslState::Response))
    }

    /// Whether this message is for Kerberos' library.
    fn is_kerberos(&self, message: &RpcSaslProto) -> bool {
        let chosen = message.auths.first().map(|auth| auth.method.as_str());
        self.context.is_some() || chosen == Some(Method::Kerberos.name())
    }

    /// Carries one message to its end. An error ends the connection.
    pub(crate) fn on_message(
        &mut self,
        message: &RpcSaslProto,
        claim: impl FnOnce(&[u8]) -> Result<Claim, ClaimError>,
    ) -> Result<Progress, Refused> {
        let mut step = self.machine.on_message(message, claim)?;
        if let Step::Gss { token } = &step {
            let outcome = self.context()?.step(token).map_err(|reason| gss(&reason));
            step = self.machine.on_gss(outcome)?;
        }
        Ok(match step {
            Step::Answer(answer) => Progress::Answer(answer),
            Step::Simple { answer } => Progress::Simple(answer),
            Step::Accepted { answer, caller, sealing } => {
                let proof = match caller {
                    Caller::Token(proven) => Proof::Token(Box::new(proven)),
                    Caller::Kerberos { name } => Proof::Kerberos { name },
                };
                let qop = sealing.qop();
                let seal = match sealing {
                    Sealing::Plain => None,
                    Sealing::Digest(layer) => Some(Seal::new(End::Server, layer)),
                    Sealing::Library(_) => {
                        let context = self.context.take().expect("it has just made a step");
                        Some(Seal::new(End::Server, context))
                    }
                };
                Progress::Accepted { answer, proof, qop, seal }
            }
            Step::Gss { .. } => unreachable!("an outcome of Kerberos' library asks for no other"),
        })
    }

    fn context(&mut self) -> Result<&mut Box<dyn Accepting>, Exception> {
        let context = match (self.context.take(), &self.acceptor, &self.offer) {
            (Some(context), ..) => context,
            (None, Some(acceptor), Some(offer)) => acceptor.begin(offer).map_err(|reason| gss(&reason))?,
            (None, ..) => return Err(gss("no key of this server is known")),
        };
        Ok(self.context.insert(context))
    }
}

/// As Hadoop's server tells it.
fn gss(reason: &str) -> Exception {
    let message = format!("GSS initiate failed [Caused by GSSException: {reason}]");
    Exception::unauthorized(exception::SASL, message)
}

/// Threads for steps that may wait, of all connections of a server.
#[derive(Debug)]
pub(crate) struct Steps {
    threads: CachedThreads,
    kerberos: Arc<Semaphore>,
    tokens: Arc<Semaphore>,
}

impl Default for Steps {
    fn default() -> Self {
        let places = || Arc::new(Semaphore::new(THREAD_COUNT_MAX));
        Self { threads: CachedThreads::new("sasl"), kerberos: places(), tokens: places() }
    }
}

impl Steps {
    /// Carries one message to its end; here, or where it may wait.
    pub(crate) async fn carry(
        &self,
        mut exchange: Box<Exchange>,
        message: Box<RpcSaslProto>,
        claim: impl FnOnce(&[u8]) -> Result<Claim, ClaimError> + Send + 'static,
    ) -> io::Result<(Box<Exchange>, Result<Progress, Refused>)> {
        if !exchange.may_wait(&message) {
            let progress = exchange.on_message(&message, claim);
            return Ok((exchange, progress));
        }
        let places = if exchange.is_kerberos(&message) { &self.kerberos } else { &self.tokens };
        let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
        let (sender, receiver) = oneshot::channel();
        self.threads.run(move || {
            let progress = exchange.on_message(&message, claim);
            drop(place);
            // Nobody waits any more if the connection has ended.
            let _ = sender.send((exchange, progress));
        })?;
        receiver.await.map_err(io::Error::other)
    }
}
