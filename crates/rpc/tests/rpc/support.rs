//! A service to test with, and a client that sends bytes as they are.
use bytes::{Bytes, BytesMut};
use hdfs::frame::{self, Answer, Delimited};
use hdfs::opening::{Auth, Opening};
use hdfs::proto::{
    IpcConnectionContextProto, OperationProto, RequestHeaderProto, RpcKindProto, RpcRequestHeaderProto, RpcSaslProto,
    SaslState, UserInformationProto,
};
use hdfs::{call_id, exception};
use prost::Message;
use rpc::{Call, Client, ClientOptions, Exception, Identity, LoginToken, Server, ServerOptions, Service};
use security::delegation::Claim;
use security::delegation::{self, Identifier, Kept, Request, Rules};
use security::keys::{KeyId, KeyRing, Lifetimes};
use security::method::Method;
use security::node_name::Certified;
use security::sasl::rpc::ClaimError;
use security::secret::Secret;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use types::Millis;

pub(crate) const PROTOCOL: &str = "org.levada.TestProtocol";
pub(crate) const URGENT: &str = "org.levada.Urgent";
/// For what must happen, on a machine that does other things as well.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// For what must not.
pub(crate) const A_WHILE: Duration = Duration::from_millis(50);

/// Answers strings with strings.
#[derive(Debug)]
pub(crate) struct TestService {
    /// `wait` waits for one of these.
    pub(crate) gate: Semaphore,
    pub(crate) started_count: AtomicUsize,
    /// Peers whose urgent requests are refused.
    pub(crate) strangers: Mutex<Vec<IpAddr>>,
    pub(crate) tokens: Tokens,
    /// Callers that proved who they are, and those that did not.
    pub(crate) authenticated: Mutex<Vec<Method>>,
    pub(crate) unauthenticated_count: AtomicUsize,
    /// Its nodes' certificates were revoked.
    pub(crate) distrusts_nodes: AtomicBool,
}

/// Delegation tokens, as a metadata server has them.
#[derive(Debug)]
pub(crate) struct Tokens {
    ring: KeyRing,
    /// Of each token by its number; none of those that were cancelled.
    kept: Mutex<HashMap<u32, Kept>>,
    pub(crate) now: Mutex<Millis>,
}

impl Tokens {
    fn new() -> Self {
        let secrets = [Secret::new([1; 32]), Secret::new([2; 32])];
        let ring = KeyRing::new(Millis(0), Lifetimes::DELEGATION_TOKENS, KeyId(1), secrets);
        Self { ring, kept: Mutex::default(), now: Mutex::new(Millis(1)) }
    }

    pub(crate) fn issue(&self, owner: &str, real_user: &str) -> LoginToken {
        let mut kept = self.kept.lock().unwrap();
        let sequence = kept.len() as u32 + 1;
        let request = Request { method: Method::Kerberos, owner, real_user, renewer: "", sequence };
        let issued = Rules::default().issue(Millis(0), &self.ring, request).unwrap();
        kept.insert(sequence, issued.kept);
        let identifier = issued.identifier.encode().into();
        LoginToken { identifier, password: issued.password.bytes().to_vec().into(), addrs: Vec::new() }
    }

    pub(crate) fn cancel_all(&self) {
        self.kept.lock().unwrap().clear();
    }

    fn claim(&self, identifier: &[u8]) -> Result<Claim, ClaimError> {
        let now = *self.now.lock().unwrap();
        let kept = |identifier: &Identifier| self.kept.lock().unwrap().get(&identifier.sequence).copied();
        Ok(delegation::authenticate(now, self.ring.keys(), identifier, kept)?)
    }
}

impl TestService {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            gate: Semaphore::new(0),
            started_count: AtomicUsize::new(0),
            strangers: Mutex::default(),
            tokens: Tokens::new(),
            authenticated: Mutex::default(),
            unauthenticated_count: AtomicUsize::new(0),
            distrusts_nodes: AtomicBool::new(false),
        })
    }

    /// So many calls have begun.
    pub(crate) async fn started(&self, count: usize) {
        let begin = async {
            while self.started_count.load(Ordering::SeqCst) < count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(SOON, begin).await.expect("the calls begin");
    }
}

impl Service for TestService {
    async fn call(&self, call: Call) -> Result<Bytes, Exception> {
        self.started_count.fetch_add(1, Ordering::SeqCst);
        if call.protocol != PROTOCOL && call.protocol != URGENT {
            return Err(call.no_such_protocol());
        }
        call.check_version(1)?;
        let text: String = call.request()?;
        let answer = match call.method.as_str() {
            "echo" => text,
            "empty" => String::new(),
            "who" => format!("{} by {}", call.user.effective, call.user.real.as_deref().unwrap_or("itself")),
            "attempt" => format!("{} {}", call.call_id, call.retry_count),
            "wait" => {
                self.gate.acquire().await.map_err(|error| Exception::io(error.to_string()))?.forget();
                text
            }
            "long" => "x".repeat(text.parse().map_err(|_| Exception::io("not a number"))?),
            // A list of so many empty messages.
            "list" => return Ok([0x12, 0].repeat(text.parse().map_err(|_| Exception::io("not a number"))?).into()),
            "fail" => return Err(Exception::new(exception::FILE_NOT_FOUND, text)),
            "refuse" => return Err(Exception::unauthorized(exception::ACCESS_CONTROL, text)),
            "panic" => panic!("on purpose: {text}"),
            _ => return Err(call.no_such_method()),
        };
        Ok(answer.encode_to_vec().into())
    }

    fn claim(&self, identifier: &[u8]) -> Result<Claim, ClaimError> {
        self.tokens.claim(identifier)
    }

    fn authenticated(&self, _peer: SocketAddr, method: Method) {
        self.authenticated.lock().unwrap().push(method);
    }

    fn unauthenticated(&self, _peer: SocketAddr) {
        self.unauthenticated_count.fetch_add(1, Ordering::SeqCst);
    }

    fn still_counts(&self, _peer: SocketAddr, _node: &Certified) -> bool {
        !self.distrusts_nodes.load(Ordering::SeqCst)
    }

    async fn admit_urgent(&self, peer: SocketAddr, _user: &Identity) -> Result<(), Exception> {
        if self.strangers.lock().unwrap().contains(&peer.ip()) {
            return Err(Exception::unauthorized(exception::ACCESS_CONTROL, format!("{} is a stranger", peer.ip())));
        }
        Ok(())
    }
}

pub(crate) async fn server_with(options: ServerOptions) -> (Server, Arc<TestService>) {
    let service = TestService::new();
    (Server::bind("127.0.0.1:0", options, service.clone()).await.unwrap(), service)
}

pub(crate) async fn server() -> (Server, Arc<TestService>) {
    server_with(ServerOptions::default()).await
}

pub(crate) fn client(server: &Server) -> Client {
    client_with(server, ClientOptions::default())
}

pub(crate) fn client_with(server: &Server, options: ClientOptions) -> Client {
    Client::with_options(server.local_addr().to_string(), "alice".to_owned(), PROTOCOL, options)
}

/// A connection of which every byte is said by the test.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) socket: TcpStream,
    pub(crate) buffer: BytesMut,
}

impl Raw {
    pub(crate) async fn connect(server: &Server) -> Self {
        Self { socket: TcpStream::connect(server.local_addr()).await.unwrap(), buffer: BytesMut::new() }
    }

    /// Past the preamble.
    pub(crate) async fn opened(server: &Server, auth: Auth) -> Self {
        let mut raw = Self::connect(server).await;
        raw.send(&Opening::encode(auth)).await;
        raw
    }

    /// Past the context.
    pub(crate) async fn known(server: &Server) -> Self {
        Self::known_for(server, PROTOCOL).await
    }

    pub(crate) async fn known_for(server: &Server, protocol: &str) -> Self {
        let mut raw = Self::opened(server, Auth::Simple).await;
        raw.send(&context_for("alice", protocol)).await;
        raw
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).await.unwrap();
    }

    pub(crate) async fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes).await
    }

    /// The next answer; `None` at the end of the connection.
    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        loop {
            if let Some(frame) = frame::split(&mut self.buffer, 64 << 20).unwrap() {
                return Some(Answer::decode(frame).unwrap());
            }
            if !self.more().await {
                assert!(self.buffer.is_empty(), "a part of an answer");
                return None;
            }
        }
    }

    pub(crate) async fn response(&mut self) -> String {
        String::decode(self.answer().await.expect("an answer").response).unwrap()
    }

    /// All there is until the end of the connection.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        while self.more().await {}
        self.buffer.to_vec()
    }

    async fn more(&mut self) -> bool {
        let read = timeout(SOON, self.socket.read_buf(&mut self.buffer)).await.expect("the server is silent");
        match read {
            Ok(len) => len > 0,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Nothing comes for a while, and the connection stays.
    pub(crate) async fn hears_nothing(&mut self) {
        let read = timeout(A_WHILE, self.socket.read_buf(&mut self.buffer)).await;
        assert!(read.is_err(), "{read:?} {:?}", self.buffer);
    }
}

pub(crate) fn header(call_id: i32) -> RpcRequestHeaderProto {
    RpcRequestHeaderProto {
        rpc_kind: Some(RpcKindProto::RpcProtocolBuffer.into()),
        rpc_op: Some(OperationProto::RpcFinalPacket.into()),
        call_id,
        client_id: Bytes::from_static(b"0123456789abcdef"),
        retry_count: Some(if call_id < 0 { -1 } else { 0 }),
        ..RpcRequestHeaderProto::default()
    }
}

pub(crate) fn frame(messages: &[&dyn Delimited]) -> Bytes {
    let mut bytes = BytesMut::new();
    frame::put_frame(messages, &mut bytes);
    bytes.freeze()
}

pub(crate) fn context(user: &str) -> Bytes {
    context_for(user, PROTOCOL)
}

pub(crate) fn context_for(user: &str, protocol: &str) -> Bytes {
    let user_info = UserInformationProto { effective_user: Some(user.to_owned()), real_user: None };
    let context = IpcConnectionContextProto { user_info: Some(user_info), protocol: Some(protocol.to_owned()) };
    frame(&[&header(call_id::CONTEXT), &context])
}

pub(crate) fn call(id: i32, method: &str, text: &str) -> Bytes {
    frame(&[&header(id), &what(method), &text.to_owned()])
}

pub(crate) fn urgent_call(id: i32, method: &str, text: &str) -> Bytes {
    frame(&[&header(id), &what_for(URGENT, method), &text.to_owned()])
}

pub(crate) fn what(method: &str) -> RequestHeaderProto {
    what_for(PROTOCOL, method)
}

pub(crate) fn what_for(protocol: &str, method: &str) -> RequestHeaderProto {
    RequestHeaderProto {
        method_name: method.to_owned(),
        declaring_class_protocol_name: protocol.to_owned(),
        client_protocol_version: 1,
    }
}

pub(crate) fn ping() -> Bytes {
    frame(&[&header(call_id::PING)])
}

pub(crate) fn sasl(state: SaslState, method: Option<&str>) -> Bytes {
    let auth = |method: &str| hdfs::proto::SaslAuth { method: method.to_owned(), ..Default::default() };
    let message =
        RpcSaslProto { state: state.into(), auths: method.map(auth).into_iter().collect(), ..RpcSaslProto::default() };
    frame(&[&RpcRequestHeaderProto { client_id: Bytes::new(), ..header(call_id::SASL) }, &message])
}
