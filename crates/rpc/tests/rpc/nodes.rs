//! Nodes of a store that prove by certificates which ones they are, and those who cannot.

use crate::support::{A_WHILE, PROTOCOL, SOON, TestService, client, context_for, server_with};
use hdfs::opening::{Auth, Opening};
use io::{Clock, SystemClock};
use rpc::{Authentication, CallError, Client, ClientOptions, NodeProof, Server, ServerOptions};
use security::method::Method;
use security::node_name::{Expected, NodeName};
use security::sasl::digest::{Protection, Qop};
use security::sasl::rpc::Offers;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tempfile::TempDir;
use tls::{Authority, Credentials};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use types::{Millis, NodeId};

const MEMBER: NodeName = NodeName::Member(1);
const DATANODE: NodeName = NodeName::Datanode(NodeId([7; 16]));
const DAY_MS: u64 = 24 * 3600 * 1000;

/// An authority and the directories of its nodes.
struct Store {
    dir: TempDir,
}

impl Store {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn node_dir(&self, name: NodeName) -> PathBuf {
        self.dir.path().join(name.to_string().replace('/', "_"))
    }

    /// With a certificate that was made so many days ago.
    fn node_of(&self, name: NodeName, age_days: u64) -> Arc<Credentials> {
        Arc::new(self.credentials(name, Duration::from_millis(age_days * DAY_MS)))
    }

    fn credentials(&self, name: NodeName, age: Duration) -> Credentials {
        let now = Millis(SystemClock::new().now().0 - age.as_millis() as u64);
        let ca = self.dir.path().join("ca");
        let authority = Authority::open_or_make(&ca, now).unwrap();
        authority.equip(&self.node_dir(name), name, &[], now).unwrap();
        Credentials::open(&self.node_dir(name)).unwrap()
    }

    fn node(&self, name: NodeName) -> Arc<Credentials> {
        self.node_of(name, 0)
    }
}

/// Whose callers are nodes or have a token.
async fn server_of(credentials: &Arc<Credentials>) -> (Server, Arc<TestService>) {
    let offers = Offers { token: Some(Protection::of(&[Qop::Auth])), ..Offers::default() };
    let authentication = Authentication { offers, acceptor: None };
    let credentials = Some(Arc::clone(credentials));
    server_with(ServerOptions { authentication, credentials, ..ServerOptions::default() }).await
}

fn client_of(addr: SocketAddr, credentials: &Arc<Credentials>, expected: Expected) -> Client {
    let options = ClientOptions::default().with_node(Some(credentials), expected);
    Client::with_options(addr.to_string(), "alice".to_owned(), PROTOCOL, options)
}

async fn ask(client: &Client, method: &str, text: &str) -> Result<String, CallError> {
    timeout(SOON, client.call(method, &text.to_owned())).await.expect("an answer soon")
}

/// The connection is refused in its handshake: the error says why, and the service hears of no call.
async fn check_refused(client: &Client, service: &TestService) {
    let error = ask(client, "who", "").await.unwrap_err();
    assert!(matches!(error, CallError::Connect(_) | CallError::Broken(_)), "{error:?}");
    assert_eq!(service.started_count.load(Ordering::SeqCst), 0);
}

/// Short and long calls, many at once, and long answers, all in the name that the certificate has.
#[tokio::test]
async fn a_node_calls_in_the_name_of_its_certificate() {
    let store = Store::new();
    let (server, service) = server_of(&store.node(MEMBER)).await;
    let client = client_of(server.local_addr(), &store.node(DATANODE), Expected::Node(MEMBER));
    assert_eq!(ask(&client, "who", "").await.unwrap(), format!("{DATANODE} by itself"));
    let long = "y".repeat(300_000);
    assert!(ask(&client, "echo", &long).await.unwrap() == long);
    assert_eq!(ask(&client, "long", "900000").await.unwrap().len(), 900_000);
    let answers = (0..50).map(|number| {
        let client = client.clone();
        ::io::task::spawn("call", async move { ask(&client, "echo", &number.to_string()).await.unwrap() })
    });
    for (number, answer) in answers.collect::<Vec<_>>().into_iter().enumerate() {
        assert_eq!(answer.await.unwrap(), number.to_string());
    }
    assert_eq!(*service.authenticated.lock().unwrap(), [Method::Certificate]);
    assert_eq!(service.unauthenticated_count.load(Ordering::SeqCst), 0);
}

/// As good as the certificates at its two ends, also while nobody calls: a call that waits hears of the end.
#[tokio::test]
async fn a_connection_ends_with_a_certificate() {
    const LEFT: Duration = Duration::from_secs(5);
    #[derive(PartialEq)]
    enum Ends {
        OfServer,
        OfClient,
        Revoked,
    }
    for ends in [Ends::OfServer, Ends::OfClient, Ends::Revoked] {
        let store = Store::new();
        let node = |name, is_short| {
            let age = if is_short { tls::LIFETIME - LEFT } else { Duration::ZERO };
            Arc::new(store.credentials(name, age).looking_each(Duration::from_millis(50)))
        };
        let (server, service) = server_of(&node(MEMBER, ends == Ends::OfServer)).await;
        let credentials = node(DATANODE, ends == Ends::OfClient);
        let client = client_of(server.local_addr(), &credentials, Expected::Node(MEMBER));
        assert_eq!(ask(&client, "who", "").await.unwrap(), format!("{DATANODE} by itself"));
        service.distrusts_nodes.store(ends == Ends::Revoked, Ordering::SeqCst);
        let error = ask(&client, "wait", "for nothing").await.unwrap_err();
        assert!(matches!(error, CallError::Broken(_) | CallError::Connect(_)), "{error:?}");
        if ends != Ends::Revoked {
            let error = ask(&client, "who", "").await.unwrap_err();
            assert!(matches!(error, CallError::Broken(_) | CallError::Connect(_)), "{error:?}");
        }
    }
}

/// Whose newcomers have so long for all that they do.
async fn server_for_newcomers(store: &Store, opening_time_max: Duration) -> (Server, Arc<TestService>, [u8; 32]) {
    let credentials = Some(store.node(MEMBER));
    let offers = Offers { token: Some(Protection::of(&[Qop::Auth])), ..Offers::default() };
    let authentication = Authentication { offers, acceptor: None };
    let introduction_protocol = Some(PROTOCOL);
    let limits = ServerOptions { opening_time_max, ..ServerOptions::default() };
    let (server, service) =
        server_with(ServerOptions { authentication, credentials, introduction_protocol, ..limits }).await;
    let authority = Authority::open(&store.dir.path().join("ca")).unwrap().fingerprint();
    (server, service, authority)
}

fn newcomer(server: &Server, authority: [u8; 32], protocol: &'static str) -> Client {
    let options = ClientOptions { node: Some(NodeProof::Newcomer { authority }), ..ClientOptions::default() };
    Client::with_options(server.local_addr().to_string(), "root".to_owned(), protocol, options)
}

/// It calls the one protocol by which it comes to a certificate, and nothing else, in whatever name it says.
#[tokio::test]
async fn a_newcomer_may_ask_for_a_certificate_and_nothing_else() {
    const OTHER: &str = "org.levada.OtherProtocol";
    let store = Store::new();
    let (server, service, authority) = server_for_newcomers(&store, SOON).await;
    let newcomer = |authority, protocol| newcomer(&server, authority, protocol);
    assert_eq!(ask(&newcomer(authority, PROTOCOL), "echo", "please").await.unwrap(), "please");
    let told = "SIMPLE authentication is not enabled";
    let error = ask(&newcomer(authority, OTHER), "echo", "all").await.unwrap_err();
    assert!(error.to_string().contains(told), "{error}");
    // Nor without TLS.
    let error = ask(&client(&server), "echo", "please").await.unwrap_err();
    assert!(error.to_string().contains(told), "{error}");
    assert_eq!(service.started_count.load(Ordering::SeqCst), 1);
    // Of another store: it is told nothing.
    let mut wrong = authority;
    wrong[0] ^= 1;
    let error = ask(&newcomer(wrong, PROTOCOL), "echo", "secret").await.unwrap_err();
    assert!(matches!(error, CallError::Connect(_)), "{error:?}");
    assert_eq!(service.started_count.load(Ordering::SeqCst), 1);
}

/// It has proven nothing, so its calls are short, and one is under way at a time.
#[tokio::test]
async fn a_newcomer_takes_little_memory() {
    let store = Store::new();
    let (server, service, authority) = server_for_newcomers(&store, SOON).await;
    let error = ask(&newcomer(&server, authority, PROTOCOL), "echo", &"x".repeat(8 << 10)).await.unwrap_err();
    assert!(error.to_string().contains("4096"), "{error}");
    assert_eq!(service.started_count.load(Ordering::SeqCst), 0);
    let client = newcomer(&server, authority, PROTOCOL);
    let calls = ["first", "second"].map(|text| {
        let client = client.clone();
        ::io::task::spawn("call", async move { ask(&client, "wait", text).await })
    });
    service.started(1).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(service.started_count.load(Ordering::SeqCst), 1, "the second call waits for the first");
    service.gate.add_permits(2);
    for call in calls {
        call.await.unwrap().unwrap();
    }
}

/// Also for a call that is under way, and whether it is silent or not.
#[tokio::test]
async fn a_newcomer_has_little_time() {
    let store = Store::new();
    let (server, service, authority) = server_for_newcomers(&store, Duration::from_secs(1)).await;
    let socket = TcpStream::connect(server.local_addr()).await.unwrap();
    let mut silent = tls::introduce(socket, authority).await.unwrap();
    silent.write_all(&Opening::encode(Auth::Simple)).await.unwrap();
    silent.write_all(&context_for("root", PROTOCOL)).await.unwrap();
    silent.flush().await.unwrap();
    let client = newcomer(&server, authority, PROTOCOL);
    let refused = ask(&client, "wait", "").await.unwrap_err();
    assert!(matches!(refused, CallError::Broken(_)), "{refused:?}");
    service.started(1).await;
    // Long before a silent client of another kind is closed.
    let end = timeout(Duration::from_secs(10), silent.read(&mut [0; 8])).await.expect("cut off");
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
}

/// On the same port: it is asked for its proof as before.
#[tokio::test]
async fn who_has_no_certificate_is_asked_for_another_proof() {
    let store = Store::new();
    let (server, service) = server_of(&store.node(MEMBER)).await;
    let error = ask(&client(&server), "who", "").await.unwrap_err();
    assert!(error.to_string().contains("SIMPLE authentication is not enabled"), "{error}");
    assert_eq!(service.started_count.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_node_of_another_store_is_refused_at_both_ends() {
    let (store, other) = (Store::new(), Store::new());
    let (server, service) = server_of(&store.node(MEMBER)).await;
    // It does not believe the server, and would not be believed.
    check_refused(&client_of(server.local_addr(), &other.node(DATANODE), Expected::AnyMember), &service).await;
    // Nor if it knows the authority of the store, and has its own certificate from elsewhere.
    let (forged, true_one) = (other.node_dir(DATANODE), store.node(DATANODE));
    std::fs::copy(store.node_dir(DATANODE).join("ca.crt"), forged.join("ca.crt")).unwrap();
    let forged = Arc::new(Credentials::open(&forged).unwrap());
    check_refused(&client_of(server.local_addr(), &forged, Expected::AnyMember), &service).await;
    assert!(service.unauthenticated_count.load(Ordering::SeqCst) > 0);
    let client = client_of(server.local_addr(), &true_one, Expected::AnyMember);
    assert_eq!(ask(&client, "echo", "true").await.unwrap(), "true");
}

/// A datanode, another member, and a server of another store stand where a member should: none is sent anything but
/// the handshake, and none is told who calls.
#[tokio::test]
async fn an_impostor_gets_nothing() {
    let (store, other) = (Store::new(), Store::new());
    let caller = store.node(NodeName::Datanode(NodeId([8; 16])));
    for impostor in [store.node(DATANODE), store.node(NodeName::Member(2)), other.node(MEMBER)] {
        let (server, service) = server_of(&impostor).await;
        check_refused(&client_of(server.local_addr(), &caller, Expected::Node(MEMBER)), &service).await;
        assert!(service.authenticated.lock().unwrap().is_empty(), "{impostor:?} heard a name");
    }
}

/// One that does not speak TLS sees a hello without a name in it, and no call.
#[tokio::test]
async fn a_server_without_certificates_hears_no_call() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let store = Store::new();
    let client = client_of(listener.local_addr().unwrap(), &store.node(DATANODE), Expected::AnyMember);
    let calling = ::io::task::spawn("call", async move { client.call::<_, String>("who", &String::new()).await });
    let (mut socket, _) = listener.accept().await.unwrap();
    let mut heard = vec![0; 4096];
    let len = timeout(SOON, socket.read(&mut heard)).await.unwrap().unwrap();
    assert_eq!(heard[0], 0x16, "a handshake of TLS");
    socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    assert!(calling.await.unwrap().is_err());
    heard.truncate(len);
    let _ = timeout(SOON, socket.read_to_end(&mut heard)).await;
    let has = |text: &str| heard.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(!has("levada://") && !has("who") && !has("alice"), "{heard:?}");
}

#[tokio::test]
async fn a_certificate_that_has_expired_is_refused_at_both_ends() {
    let store = Store::new();
    let old = store.node_of(DATANODE, 100);
    let (server, service) = server_of(&store.node(MEMBER)).await;
    check_refused(&client_of(server.local_addr(), &old, Expected::AnyMember), &service).await;
    let (server, service) = server_of(&old).await;
    check_refused(&client_of(server.local_addr(), &store.node(MEMBER), Expected::AnyDatanode), &service).await;
}

/// They hold a place and a descriptor no longer than others that do not say who they are.
#[tokio::test]
async fn who_stops_in_a_handshake_is_cut_off() {
    let store = Store::new();
    let service = TestService::new();
    let options = ServerOptions {
        opening_time_max: Duration::from_millis(400),
        credentials: Some(store.node(MEMBER)),
        ..ServerOptions::default()
    };
    let server = Server::bind("127.0.0.1:0", options, Arc::clone(&service)).await.unwrap();
    let mut stopped = Vec::new();
    // More than have a place, and some that send nothing at all.
    for number in 0..100 {
        let mut socket = TcpStream::connect(server.local_addr()).await.unwrap();
        if number % 10 > 0 {
            socket.write_all(&[0x16, 3, 1]).await.unwrap();
        }
        stopped.push(socket);
    }
    tokio::time::sleep(A_WHILE).await;
    for mut socket in stopped {
        let end = timeout(SOON, socket.read(&mut [0; 8])).await.expect("cut off soon");
        assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    }
    let client = client_of(server.local_addr(), &store.node(DATANODE), Expected::AnyMember);
    assert_eq!(ask(&client, "echo", "next").await.unwrap(), "next");
}

/// The first bytes of a node that calls.
async fn hello_of(credentials: &Arc<Credentials>) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = client_of(listener.local_addr().unwrap(), credentials, Expected::AnyMember);
    let _calling = ::io::task::spawn_owned("call", async move { ask(&client, "echo", "").await });
    let (mut socket, _) = listener.accept().await.unwrap();
    let mut hello = vec![0; 4096];
    let len = timeout(SOON, socket.read(&mut hello)).await.unwrap().unwrap();
    hello.truncate(len);
    hello
}

/// However many connections stop in their handshake, and wherever, a member connects within the time that it has before
/// an election.
#[tokio::test]
async fn who_stops_in_a_handshake_delays_nobody() {
    let store = Store::new();
    let (server, _service) = server_of(&store.node(MEMBER)).await;
    let (addr, datanode) = (server.local_addr(), store.node(DATANODE));
    let hello = hello_of(&datanode).await;
    for sent in [&hello[..1], &hello[..hello.len() - 1], &hello] {
        let mut stopped = Vec::new();
        for _ in 0..200 {
            let mut socket = TcpStream::connect(addr).await.unwrap();
            socket.write_all(sent).await.unwrap();
            stopped.push(socket);
        }
        tokio::time::sleep(A_WHILE).await;
        let options = ClientOptions { connect_time_max: Duration::from_secs(1), ..ClientOptions::default() };
        let options = options.with_node(Some(&datanode), Expected::AnyMember);
        let client = Client::with_options(addr.to_string(), "alice".to_owned(), PROTOCOL, options);
        assert_eq!(ask(&client, "echo", "through").await.unwrap(), "through", "{} bytes of a hello", sent.len());
    }
}

/// Before it is known who calls, a connection takes little memory.
#[tokio::test]
async fn a_long_handshake_is_cut_off() {
    let store = Store::new();
    let (server, _service) = server_of(&store.node(MEMBER)).await;
    let mut socket = TcpStream::connect(server.local_addr()).await.unwrap();
    // A ClientHello of 65,000 bytes, in several records, but for its last byte.
    let mut hello = vec![1, 0, 0xfd, 0xe8];
    hello.resize(65_003, 0);
    for piece in hello.chunks(15_000) {
        let [high, low] = (piece.len() as u16).to_be_bytes();
        if socket.write_all(&[&[0x16, 3, 1, high, low], piece].concat()).await.is_err() {
            break;
        }
    }
    // Long before the time for all of it is over.
    let end = timeout(Duration::from_secs(5), socket.read(&mut [0; 8])).await.expect("cut off");
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
}

/// What the client's context and exchange say does not count beside a certificate, and plain RPC goes on as it was.
#[tokio::test]
async fn plain_rpc_on_the_same_port_is_as_before() {
    let store = Store::new();
    let options = ServerOptions { credentials: Some(store.node(MEMBER)), ..ServerOptions::default() };
    let (server, _service) = server_with(options).await;
    assert_eq!(ask(&client(&server), "who", "").await.unwrap(), "alice by itself");
    let mut socket = TcpStream::connect(server.local_addr()).await.unwrap();
    // Byte by byte: the first one does not say yet what it is.
    for byte in Opening::encode(Auth::Simple) {
        socket.write_all(&[byte]).await.unwrap();
    }
    assert!(timeout(A_WHILE, socket.read(&mut [0; 8])).await.is_err(), "the connection stays");
}

/// A store takes another authority while its servers run: first all believe both, then certificates are of the new one.
#[tokio::test]
async fn an_authority_takes_the_place_of_another_without_a_stop() {
    let (store, next) = (Store::new(), Store::new());
    let (member, datanode) = (store.node(MEMBER), store.node(DATANODE));
    let (server, _service) = server_of(&member).await;
    let addr = server.local_addr();
    let call = || async { ask(&client_of(addr, &datanode, Expected::AnyMember), "echo", "here").await };
    assert_eq!(call().await.unwrap(), "here");
    next.node(MEMBER);
    next.node(DATANODE);
    let text = |store: &Store| std::fs::read_to_string(store.node_dir(MEMBER).join("ca.crt")).unwrap();
    let both = text(&store) + &text(&next);
    for (name, node) in [(MEMBER, &member), (DATANODE, &datanode)] {
        std::fs::write(store.node_dir(name).join("ca.crt"), &both).unwrap();
        assert!(node.reload().unwrap() && !node.reload().unwrap());
        assert_eq!(call().await.unwrap(), "here");
    }
    for (name, node) in [(MEMBER, &member), (DATANODE, &datanode)] {
        for file in ["node.crt", "node.key"] {
            std::fs::copy(next.node_dir(name).join(file), store.node_dir(name).join(file)).unwrap();
        }
        assert!(node.reload().unwrap());
        assert_eq!(call().await.unwrap(), "here");
    }
    // A certificate of another node is not taken, and what was there still serves.
    for file in ["node.crt", "node.key"] {
        std::fs::copy(next.node_dir(MEMBER).join(file), store.node_dir(DATANODE).join(file)).unwrap();
    }
    assert!(datanode.reload().unwrap_err().to_string().contains("this process is levada://datanode/"));
    assert_eq!(call().await.unwrap(), "here");
}

/// Hellos of which kilobytes come and no end: only so many are held, and the first one makes way.
#[tokio::test]
async fn long_handshakes_are_few_and_delay_no_others() {
    let store = Store::new();
    let credentials = Some(store.node(MEMBER));
    // Room for one.
    let options = ServerOptions { credentials, held_len_max: 1 << 20, ..ServerOptions::default() };
    let (server, _service) = server_with(options).await;
    // A record of TLS, in it a ClientHello that is longer than what comes of it.
    let begun = [&[0x16, 3, 1, 0x3f, 0xf4, 1, 0, 0x3f, 0xf0][..], &[0; 8000]].concat();
    let begin = async || {
        let mut socket = TcpStream::connect(server.local_addr()).await.unwrap();
        socket.write_all(&begun).await.unwrap();
        socket
    };
    let mut first = begin().await;
    assert!(timeout(A_WHILE, first.read_u8()).await.is_err(), "it is waited for");
    let mut second = begin().await;
    assert!(timeout(SOON, first.read_u8()).await.expect("it makes way").is_err());
    let client = client_of(server.local_addr(), &store.node(DATANODE), Expected::Node(MEMBER));
    assert_eq!(ask(&client, "who", "").await.unwrap(), format!("{DATANODE} by itself"));
    assert!(timeout(A_WHILE, second.read_u8()).await.is_err(), "nobody needed its place");
}
