//! Who calls over a connection: by its certificate, by what it says, or by SASL; or nobody yet, who may call one
//! protocol alone.

use crate::call::Service;
use crate::exchange::{Exchange, Progress};
use crate::inward::Inward;
use crate::log_text::log_text;
use crate::reader::{Incoming, READ_LEN, Reader};
use crate::session::{Event, Refusal, Session};
use crate::writer::Outgoing;
use bytes::Bytes;
use hdfs::exception::Exception;
use hdfs::frame;
use hdfs::opening::{Auth, HTTP_ANSWER, Opening, version_mismatch};
use hdfs::proto::RpcSaslProto;
use prost::Message;
use security::method::Method;
use security::sasl::digest::Qop;
use security::sasl::rpc::Refused;
use std::io;
use std::sync::Arc;
use tokio::io::AsyncRead;
use tokio::sync::Semaphore;

/// Longest frame around a sealed piece: the 64 KB that the exchange told the client, and what is around them.
/// hdfs-native seals a whole request, whatever was told: a longer one is refused.
const SEALED_FRAME_LEN_MAX: u32 = (64 << 10) + (4 << 10);
/// Longest frame of a newcomer, who has proven nothing: a public key, the proof of an invitation, and names. A guess,
/// above ten times that.
const NEWCOMER_LEN_MAX: u32 = 4 << 10;
/// Calls of a newcomer under way: it asks for one thing.
const NEWCOMER_CALLS_MAX: usize = 1;

/// What is known of who calls.
pub(crate) struct Introduced {
    pub(crate) on_frames: Session,
    /// `None`: SASL was not announced.
    pub(crate) exchange: Option<Box<Exchange>>,
    /// Who has proven nothing may call this protocol, and is told so of any other.
    pub(crate) only: Option<(&'static str, Exception)>,
}

impl<S: Service> Reader<S> {
    /// Reads until it is known who calls. `None`: the client hung up, or was refused.
    pub(crate) async fn introduce<R: AsyncRead + Unpin>(
        &mut self,
        socket: &mut Inward<R>,
    ) -> io::Result<Option<Introduced>> {
        let Some(opening) = self.opening(socket).await? else { return Ok(None) };
        let auth = match opening {
            Opening::Rpc { auth, .. } => auth,
            Opening::OtherVersion(version) => return self.end(version_mismatch(version)).await.map(|()| None),
            Opening::Http => return self.end(Bytes::from_static(HTTP_ANSWER.as_bytes())).await.map(|()| None),
            Opening::Unknown => return Err(io::Error::new(io::ErrorKind::InvalidData, "not Hadoop RPC")),
        };
        let authentication = &self.host.options.authentication;
        let exchange = match auth {
            Auth::Sasl => Some(Box::new(Exchange::new(authentication))),
            Auth::Simple => None,
        };
        if let (Auth::Simple, Some(node)) = (auth, self.node) {
            self.authenticated(Method::Certificate);
            let introduced = Introduced { on_frames: Session::of_node(node), exchange: None, only: None };
            return self.until_known(socket, introduced).await;
        }
        if exchange.is_none() {
            if let Some(exception) = authentication.offers.refuse_simple() {
                if let (true, Some(protocol)) = (self.is_tls, self.host.options.introduction_protocol) {
                    let on_frames = Session::new(auth);
                    let introduced = Introduced { on_frames, exchange: None, only: Some((protocol, exception)) };
                    self.frame_len_max = self.frame_len_max.min(NEWCOMER_LEN_MAX);
                    self.calls_max = self.calls_max.min(NEWCOMER_CALLS_MAX);
                    self.permits = Arc::new(Semaphore::new(self.calls_max));
                    return self.until_known(socket, introduced).await;
                }
                self.note_stranger(&Refused::from(exception.clone()));
                return self.refuse(&Refusal::of_connection(exception)).await.map(|()| None);
            }
            self.authenticated(Method::Simple);
        }
        self.until_known(socket, Introduced { on_frames: Session::new(auth), exchange, only: None }).await
    }

    fn authenticated(&self, method: Method) {
        self.host.service.authenticated(self.peer, method);
        if method != Method::Simple {
            self.connection_permit.prove();
        }
    }

    /// Reads until the context has come. `None`: the client hung up, or was refused.
    async fn until_known<R: AsyncRead + Unpin>(
        &mut self,
        socket: &mut Inward<R>,
        mut introduced: Introduced,
    ) -> io::Result<Option<Introduced>> {
        while !introduced.on_frames.is_known() {
            // The memory of a message is held until it was answered, also while it waits for its turn.
            let Incoming { frame, place: _held } = match self.frame(socket, &introduced.on_frames).await? {
                Some(Ok(incoming)) => incoming,
                Some(Err(refusal)) => return self.refuse(&refusal).await.map(|()| None),
                None => return Ok(None),
            };
            let refusal = match introduced.on_frames.on_frame(frame) {
                Ok(Event::Sasl(call, message)) => self.on_sasl(socket, &mut introduced, call, message).await?,
                Ok(Event::Nothing) => None,
                Ok(Event::Call(_)) => unreachable!("a call is none before it is known who calls"),
                Err(refusal) => Some(refusal),
            };
            if let Some(refusal) = refusal {
                return self.refuse(&refusal).await.map(|()| None);
            }
        }
        Ok(Some(introduced))
    }

    /// Carries a message of SASL to its end. Answers why the connection cannot go on, if so.
    pub(crate) async fn on_sasl<R: AsyncRead + Unpin>(
        &mut self,
        socket: &mut Inward<R>,
        introduced: &mut Introduced,
        call: frame::Call,
        message: Box<RpcSaslProto>,
    ) -> io::Result<Option<Refusal>> {
        let exchange = introduced.exchange.take().expect("who announced no SASL gets no message of it through");
        let service = Arc::clone(&self.host.service);
        let carried = self.host.steps.carry(exchange, message, move |identifier| service.claim(identifier)).await?;
        let (exchange, progress) = carried;
        introduced.exchange = Some(exchange);
        let progress = match progress {
            Ok(progress) => progress,
            Err(refused) => {
                self.note_stranger(&refused);
                return Ok(Some(Refusal { call, exception: refused.told }));
            }
        };
        let was_open = introduced.on_frames.is_open();
        introduced.on_frames.on_progress(&progress);
        let (answer, seal) = match progress {
            Progress::Answer(answer) => (Some(answer), None),
            Progress::Simple(answer) => {
                if was_open {
                    self.authenticated(Method::Simple);
                }
                (answer, None)
            }
            Progress::Accepted { answer, proof, qop, seal } => {
                self.authenticated(proof.method());
                self.is_private |= qop == Qop::Privacy;
                (Some(answer), seal)
            }
        };
        if let Some(seal) = &seal {
            let room = self.host.usual.piece_room();
            socket.seal(seal.clone(), SEALED_FRAME_LEN_MAX, std::mem::take(&mut self.buffer), Some(room));
        }
        if let Some(answer) = answer {
            let body = Bytes::from(answer.encode_to_vec());
            self.send(Outgoing::of_connection(call.succeeded(body.len()), body).before(seal)).await?;
        }
        Ok(None)
    }

    /// The client hears less of it.
    pub(crate) fn note_stranger(&self, refused: &Refused) {
        self.host.service.unauthenticated(self.peer);
        if refused.identifier.is_some() {
            self.host.service.token_refused(self.peer, refused);
        }
        if let Some(passed_over) = self.host.strangers.due() {
            let (peer, reason) = (self.peer, log_text(&refused.reason));
            tracing::warn!(%peer, reason, passed_over, "authentication failed");
        }
    }

    /// `None`: the client hung up first.
    async fn opening<R: AsyncRead + Unpin>(&mut self, socket: &mut Inward<R>) -> io::Result<Option<Opening>> {
        loop {
            if let Some(opening) = Opening::decode(&self.buffer) {
                if let Opening::Rpc { .. } = opening {
                    let _preamble = self.buffer.split_to(Opening::LEN);
                }
                return Ok(Some(opening));
            }
            if socket.read(&mut self.buffer, READ_LEN).await? == 0 {
                return Ok(None);
            }
        }
    }
}
