//! One connection of a server: reads frames, starts calls, and sends their answers as they are done.

use crate::budget::{Budget, Charge};
use crate::call::{Call, Service, Untaken};
use crate::exchange::{Exchange, Progress};
use crate::host::{Host, Phase};
use crate::inward::{Inward, take_frame};
use crate::lane::{Held, Lane, USUAL_LEN_MAX};
use crate::log_text::log_text;
use crate::pace::Patience;
use crate::session::{Event, NAMELESS_LEN_MAX, Refusal, Request, Session};
use crate::tls_opening;
use crate::writer::{Outgoing, Room, write_all};
use ::io::{ConnectionPermit, RequestGuard};
use bytes::{Bytes, BytesMut};
use hdfs::exception::Exception;
use hdfs::frame;
use hdfs::opening::{Auth, HTTP_ANSWER, Opening, version_mismatch};
use hdfs::proto::{RpcErrorCodeProto, RpcSaslProto};
use prost::Message;
use security::method::Method;
use security::node_name::{Certified, NodeName};
use security::sasl::digest::Qop;
use security::sasl::rpc::Refused;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tls::Shown;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{sleep, timeout};

/// Room for reading at a time. Most requests are a few hundred bytes; many come at once.
const READ_LEN: usize = 8 << 10;
/// Answers that are expected to be no longer than this do not wait for those of others to be taken: what a connection
/// may have of them is little.
const SHORT_LEN_MAX: usize = 4 << 10;
/// How long, and for how many bytes, a refused client's rest is thrown away, so that the kernel does not send a reset
/// that would make the client lose our last answer.
const LINGER: Duration = Duration::from_millis(500);
const LINGER_LEN_MAX: usize = 1 << 20;
/// Frames that answer no call: SASL's, and the one that ends a connection.
const ANSWERS_BESIDE_CALLS_MAX: usize = 8;
/// Longest frame around a sealed piece: the 64 KB that the exchange told the client, and what is around them.
/// hdfs-native seals a whole request, whatever was told: a longer one is refused.
const SEALED_FRAME_LEN_MAX: u32 = (64 << 10) + (4 << 10);

/// Longest frame of a newcomer, who has proven nothing: a public key, the proof of an invitation, and names. A guess,
/// above ten times that.
const NEWCOMER_LEN_MAX: u32 = 4 << 10;
/// Calls of a newcomer under way: it asks for one thing.
const NEWCOMER_CALLS_MAX: usize = 1;

/// Serves one connection to its end.
pub(crate) async fn serve<S: Service>(
    socket: TcpStream,
    peer: SocketAddr,
    connection_permit: Arc<ConnectionPermit>,
    host: Arc<Host<S>>,
    mut phase: watch::Receiver<Phase>,
) {
    host.service.opened(peer);
    let _told = HungUp { peer, host: host.clone() };
    let opening_time_max = host.options.opening_time_max;
    let opening =
        tls_opening::open(socket, host.options.credentials.as_deref(), &host.handshakes, opening_time_max / 2);
    let opened = tokio::select! {
        opened = opening => opened,
        () = connection_permit.evicted() => return,
        _ = phase.wait_for(|phase| *phase != Phase::Serving) => return,
    };
    let (mut stream, node) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            host.service.unauthenticated(peer);
            if let Some(passed_over) = host.strangers.due() {
                tracing::warn!(%peer, reason = log_text(&error), passed_over, "TLS handshake failed");
            }
            return;
        }
    };
    let is_tls = stream.is_tls();
    let shown = node.zip(stream.shown());
    let is_private = is_tls || stream.local_addr().is_ok_and(|own| is_one_machine(peer.ip(), own.ip()));
    let ended = {
        let (mut inward, mut outward) = stream.split();
        let patience = Patience::new(host.options.answer_time_max, &host.options, &host.answers);
        let (calls_max, frame_len_max) = (host.options.calls_per_connection_max, host.options.frame_len_max);
        // Every call holds a permit until its answer is written, so this channel is never full of answers.
        let (sender, mut answers) = mpsc::channel(calls_max + ANSWERS_BESIDE_CALLS_MAX);
        let reader = Reader {
            buffer: BytesMut::new(),
            peer,
            node,
            is_tls,
            is_private,
            connection_permit: connection_permit.clone(),
            host: host.clone(),
            frame_len_max,
            calls_max,
            permits: Arc::new(Semaphore::new(calls_max)),
            answers: Budget::new(host.options.answers_len_per_connection_max),
            sender,
        };
        let mut draining = phase.clone();
        let mut inward = Inward::new(&mut inward);
        let reading = async {
            tokio::select! {
                // Dropping the reader drops its sender: the writer ends when the calls under way are answered.
                ended = reader.run(&mut inward) => ended,
                _ = draining.wait_for(|phase| *phase != Phase::Serving) => Ok(()),
            }
        };
        let both = async {
            let writing = write_all(&mut outward, &mut answers, &patience);
            tokio::pin!(reading, writing);
            tokio::select! {
                read = &mut reading => { read?; writing.await }
                written = &mut writing => written,
            }
        };
        tokio::select! {
            ended = both => ended,
            () = connection_permit.evicted() => {
                return tracing::debug!(%peer, "idle connection closed to make room for another");
            }
            _ = phase.wait_for(|phase| *phase == Phase::Cutting) => return,
            node = outlived(&host, peer, shown) => {
                return tracing::info!(%peer, %node, "connection ended: its certificate does not count any more");
            }
        }
    };
    match ended {
        Ok(()) => linger(&mut stream.split().0).await,
        // Clients hang up at any time; that is no news.
        Err(error) => tracing::debug!(%peer, %error, "rpc connection ended"),
    }
}

/// Comes back when a node is not any more what its certificate said; never for who has shown none.
async fn outlived<S: Service>(host: &Host<S>, peer: SocketAddr, shown: Option<(Certified, Shown)>) -> NodeName {
    let (Some(credentials), Some((node, shown))) = (&host.options.credentials, shown) else {
        return std::future::pending().await;
    };
    loop {
        ::io::time::sleep(credentials.look_each()).await;
        if !credentials.still_counts(&shown) || !host.service.still_counts(peer, &node) {
            return node.name;
        }
    }
}

/// Whether what is sent from one address to the other leaves no machine.
fn is_one_machine(peer: IpAddr, own: IpAddr) -> bool {
    let (peer, own) = (peer.to_canonical(), own.to_canonical());
    peer == own || (peer.is_loopback() && own.is_loopback())
}

/// Tells the service of the end.
struct HungUp<S: Service> {
    peer: SocketAddr,
    host: Arc<Host<S>>,
}

impl<S: Service> Drop for HungUp<S> {
    fn drop(&mut self) {
        self.host.service.hung_up(self.peer);
    }
}

struct Reader<S> {
    buffer: BytesMut,
    peer: SocketAddr,
    /// Which node it is by its certificate.
    node: Option<Certified>,
    is_tls: bool,
    /// See [`Call::is_private`].
    is_private: bool,
    connection_permit: Arc<ConnectionPermit>,
    host: Arc<Host<S>>,
    frame_len_max: u32,
    calls_max: usize,
    /// As many as `calls_max`, but for those that calls under way have.
    permits: Arc<Semaphore>,
    /// For the answers of this connection.
    answers: Arc<Budget>,
    sender: mpsc::Sender<Outgoing>,
}

impl<S: Service> Reader<S> {
    /// Reads until the client hangs up, or until it is refused and the last answer is on its way.
    async fn run<R: AsyncRead + Unpin>(mut self, socket: &mut Inward<R>) -> io::Result<()> {
        let mut opening_time = pin!(sleep(self.host.options.opening_time_max));
        let introduced = tokio::select! {
            introduced = self.introduce(socket) => introduced?,
            () = &mut opening_time => return Err(io::ErrorKind::TimedOut.into()),
        };
        let Some(session) = introduced else { return Ok(()) };
        if session.only.is_none() {
            return self.take_calls(socket, session).await;
        }
        // Who has proven nothing is given no more time for its calls.
        tokio::select! {
            ended = self.take_calls(socket, session) => ended,
            () = opening_time => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Reads from the context on.
    async fn take_calls<R: AsyncRead + Unpin>(
        mut self,
        socket: &mut Inward<R>,
        mut session: Introduced,
    ) -> io::Result<()> {
        let is_urgent = self.is_urgent(&session.on_frames);
        if is_urgent
            && let Some(user) = session.on_frames.user()
            && let Err(exception) = self.host.service.admit_urgent(self.peer, user).await
        {
            return self.refuse(&Refusal::of_connection(exception)).await;
        }
        loop {
            let permits = self.permits.clone();
            let permit = permits.acquire_owned().await.map_err(io::Error::other)?;
            let Incoming { frame, place } = match self.frame(socket, &session.on_frames).await? {
                Some(Ok(incoming)) => incoming,
                Some(Err(refusal)) => return self.refuse(&refusal).await,
                None => return Ok(()),
            };
            match session.on_frames.on_frame(frame) {
                Ok(Event::Call(request)) if self.is_urgent_call(&request) != is_urgent => {
                    return self.refuse(&Refusal::other_lane(&request)).await;
                }
                Ok(Event::Call(request)) => {
                    if let Some((protocol, exception)) = &session.only
                        && request.what.declaring_class_protocol_name != *protocol
                    {
                        self.note_stranger(&Refused::from(exception.clone()));
                        return self.refuse(&Refusal::of_connection(exception.clone())).await;
                    }
                    if let Err(refusal) = self.start(*request, permit, place, is_urgent).await {
                        return self.refuse(&refusal).await;
                    }
                }
                Ok(Event::Sasl(call, message)) => {
                    if let Some(refusal) = self.on_sasl(socket, &mut session, call, message).await? {
                        return self.refuse(&refusal).await;
                    }
                }
                Ok(Event::Nothing) => {}
                Err(refusal) => return self.refuse(&refusal).await,
            }
        }
    }

    /// Reads until it is known who calls. `None`: the client hung up, or was refused.
    async fn introduce<R: AsyncRead + Unpin>(&mut self, socket: &mut Inward<R>) -> io::Result<Option<Introduced>> {
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
    async fn on_sasl<R: AsyncRead + Unpin>(
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
    fn note_stranger(&self, refused: &Refused) {
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

    /// The next frame, let in by the budget. `None`: the client hung up, or was idle for too long.
    async fn frame<R: AsyncRead + Unpin>(
        &mut self,
        socket: &mut Inward<R>,
        session: &Session,
    ) -> io::Result<Option<Result<Incoming, Refusal>>> {
        let mut len_max = self.frame_len_max;
        if !session.is_known() {
            len_max = len_max.min(NAMELESS_LEN_MAX);
        }
        let len = loop {
            match frame::length(&self.buffer, len_max) {
                Ok(Some(len)) => break len,
                Ok(None) => {}
                Err(error) => return Ok(Some(Err(Refusal::unreadable(&error)))),
            }
            match timeout(self.host.options.idle_time_max, socket.read(&mut self.buffer, READ_LEN)).await {
                Ok(Ok(0)) => return Ok(None),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(error),
                // Who is not known yet has a time limit for all of it.
                Err(_elapsed) if !session.is_known() || (!socket.has_begun() && self.may_stay()) => {}
                Err(_elapsed) => return Ok(None),
            }
        };
        let is_urgent = self.is_urgent(session);
        let host = Arc::clone(&self.host);
        let lane = self.lane(&host, is_urgent);
        let whole_len = frame::LENGTH_LEN + len;
        // Room for the answer to a long request first: who takes no answers must not hold the memory of all while
        // waiting for that.
        let own = match len {
            ..=USUAL_LEN_MAX => None,
            _ => Some(self.answers.admit(host.options.answers_len_per_connection_max / 2).await),
        };
        // Who it is must be known before it can be urgent; that is short. What is urgent and short waits for nothing.
        let mut came = if len <= SHORT_LEN_MAX && (is_urgent || !session.is_known()) {
            let came = lane.count(whole_len);
            lane.read_counted(socket, &mut self.buffer, whole_len).await?;
            came
        } else {
            lane.read(socket, &mut self.buffer, whole_len).await?
        };
        let frame = take_frame(&mut self.buffer, len);
        Ok(Some(match lane.growth(&frame, &mut came) {
            Ok(grown) => Ok(Incoming { frame, place: Place { came, grown, own } }),
            Err(error) => Err(Refusal::unreadable(&error)),
        }))
    }

    fn lane<'a>(&self, host: &'a Host<S>, is_urgent: bool) -> &'a Lane {
        if is_urgent { &host.urgent } else { &host.usual }
    }

    fn is_urgent(&self, session: &Session) -> bool {
        session.protocol().is_some() && session.protocol() == self.host.options.urgent_protocol
    }

    fn is_urgent_call(&self, request: &Request) -> bool {
        self.host.options.urgent_protocol == Some(request.what.declaring_class_protocol_name.as_str())
    }

    /// Whether a client that has been silent for the idle time is kept: as in Hadoop, while there is room for others.
    fn may_stay(&self) -> bool {
        let calls_under_way = self.calls_max - 1 - self.permits.available_permits();
        calls_under_way > 0 || self.host.connection_limit.count() <= self.host.options.idle_connections_max
    }

    /// Starts a call as soon as there is room for the answer it is expected to have, and for the request.
    async fn start(
        &self,
        request: Request,
        permit: OwnedSemaphorePermit,
        place: Place,
        is_urgent: bool,
    ) -> Result<(), Refusal> {
        let request_guard = self.connection_permit.begin_request();
        let Request { header, what, body, user } = request;
        let expected_len = self.host.expected.of(&what.method_name);
        // First its own: who does not take its answers must not queue up for the memory of all.
        let own = match place.own {
            // Of which it may take more than it got: one call does, and the next long one waits for its answer.
            Some(mut own) => {
                own.resize(expected_len);
                own
            }
            None => self.answers.admit(expected_len).await,
        };
        let all = if is_urgent || expected_len <= SHORT_LEN_MAX {
            self.host.answers.count(expected_len)
        } else {
            self.host.answers.admit(expected_len).await
        };
        let answer = Room { _place: permit, own, all };
        // Last: it is little, and nobody who has it waits for anything but the service.
        let Some(held) = self.lane(&self.host, is_urgent).admit(place.grown, place.came).await else {
            return Err(Refusal::no_room(&header));
        };
        let charge = Charges { _held: held, _request: request_guard };
        let pending = Pending {
            call: frame::Call::of(&header),
            method: what.method_name.clone(),
            sender: self.sender.clone(),
            host: self.host.clone(),
            held: Some((answer, charge)),
        };
        let call = Call {
            protocol: what.declaring_class_protocol_name,
            method: what.method_name,
            version: what.client_protocol_version,
            body,
            user,
            client_id: header.client_id,
            call_id: header.call_id,
            retry_count: pending.call.retry_count,
            peer: self.peer,
            is_private: self.is_private,
            untaken: Untaken(self.host.answers.clone()),
        };
        let host = self.host.clone();
        ::io::task::begin("rpc call", async move {
            let outcome = host.service.call(call).await;
            pending.finish(outcome);
        });
        Ok(())
    }

    async fn refuse(&self, refusal: &Refusal) -> io::Result<()> {
        tracing::debug!(peer = %self.peer, exception = %refusal.exception, "rpc connection refused");
        self.end(refusal.call.refused(&refusal.exception)).await
    }

    async fn end(&self, last: Bytes) -> io::Result<()> {
        self.send(Outgoing::last(last)).await
    }

    async fn send(&self, outgoing: Outgoing) -> io::Result<()> {
        self.sender.send(outgoing).await.map_err(|_closed| io::ErrorKind::BrokenPipe.into())
    }
}

/// What is known of who calls.
struct Introduced {
    on_frames: Session,
    /// `None`: SASL was not announced.
    exchange: Option<Box<Exchange>>,
    /// Who has proven nothing may call this protocol, and is told so of any other.
    only: Option<(&'static str, Exception)>,
}

/// A frame that came, and what it needs to be answered.
struct Incoming {
    frame: Bytes,
    place: Place,
}

struct Place {
    came: Charge,
    /// What it may take when it is decoded.
    grown: usize,
    /// Of a long one: for its answer.
    own: Option<Charge>,
}

/// A call that is under way. However it ends, it is answered once: dropping this unfinished, as a panic does, answers
/// with an error.
struct Pending<S> {
    call: frame::Call,
    method: String,
    sender: mpsc::Sender<Outgoing>,
    host: Arc<Host<S>>,
    held: Option<(Room, Charges)>,
}

/// What a request holds until it is answered.
struct Charges {
    _held: Held,
    _request: RequestGuard,
}

impl<S> Pending<S> {
    fn finish(mut self, outcome: Result<Bytes, Exception>) {
        self.answer(outcome);
    }

    fn answer(&mut self, outcome: Result<Bytes, Exception>) {
        let Some((mut room, request)) = self.held.take() else { return };
        let outcome = outcome.and_then(|body| {
            if body.len() < types::limits::RPC_FRAME_LEN_MAX as usize / 2 {
                Ok(body)
            } else {
                let message = format!("the answer has {} bytes, which no client takes", body.len());
                let code = RpcErrorCodeProto::ErrorSerializingResponse;
                Err(Exception { code, ..Exception::io(message) })
            }
        });
        let is_answered = outcome.is_ok();
        let (head, body, last) = match outcome {
            Ok(body) => (self.call.succeeded(body.len()), body, false),
            Err(exception) => (self.call.refused(&exception), Bytes::new(), exception.is_fatal()),
        };
        // Nothing is learned of what was refused: strangers invent names.
        if is_answered {
            self.host.expected.learn(&self.method, head.len() + body.len());
        }
        room.made(head.len() + body.len());
        drop(request);
        let answer = Outgoing::of_call(head, body, last, room);
        // Closed: the client hung up, nobody waits for the answer. Full it cannot be: the permits are fewer.
        let _ = self.sender.try_send(answer);
    }
}

impl<S> Drop for Pending<S> {
    fn drop(&mut self) {
        self.answer(Err(Exception::io("the server failed in this call; its log says why")));
    }
}

/// Throws away what the client still sends, briefly.
async fn linger(socket: &mut (impl AsyncRead + Unpin)) {
    let discard = async {
        let mut scrap = [0; 4096];
        let mut len = 0;
        while len < LINGER_LEN_MAX {
            match socket.read(&mut scrap).await {
                Ok(0) | Err(_) => return,
                Ok(read) => len += read,
            }
        }
    };
    let _ = timeout(LINGER, discard).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_on_the_same_machine_is_seen_by_the_addresses() {
        let check = |peer: &str, own: &str| is_one_machine(peer.parse().unwrap(), own.parse().unwrap());
        assert!(check("127.0.0.1", "127.0.0.1") && check("::1", "::1") && check("127.0.0.2", "::ffff:127.0.0.1"));
        assert!(check("192.0.2.1", "192.0.2.1") && check("192.0.2.1", "::ffff:192.0.2.1"));
        assert!(!check("192.0.2.2", "192.0.2.1") && !check("2001:db8::2", "2001:db8::1"));
    }
}
