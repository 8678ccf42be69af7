//! A store that asks its callers for a proof: a gateway has one, and those who come to it have none.

#[path = "../../security/tests/support/played_kerberos.rs"]
mod played_kerberos;

use client::{Options, Store, Url};
use gateway::{Config, FilesConfig, Gateway, Place, RootLimits, TunnelConfig};
use metad::{AuthenticationSetting, Environment, Metad, SecurityConfig};
use played_kerberos::{Realm, Ticket};
use rpc::{Kerberos, Login};
use security::sasl::digest::Qop;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const WORD: &str = "sesame";
const HOST: &str = "meta1";
/// The server's own ticket is the superuser's; the gateway has it, too.
const SERVER: &str = "nn/meta1@EXAMPLE.COM";
/// What is listed for whoever reads by that ticket.
const SECRET: &str = "plans";

fn login(name: &str) -> Option<Arc<Login>> {
    let ticket = Arc::new(Ticket::of(name, WORD));
    let kerberos = Some(Kerberos { initiator: ticket, services: vec!["nn".into()], host: Some(HOST.into()) });
    let (tokens, qops) = (Vec::new(), vec![Qop::Auth]);
    Some(Arc::new(Login { tokens, kerberos, qops, simple: true, acting_as: None, lacking: None }))
}

struct World {
    metad: Metad,
    gateway: Gateway,
    _dir: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let mut config = metad::Config::new(dir.path().join("meta"), any);
        config.security = SecurityConfig {
            authentication: AuthenticationSetting::Kerberos,
            principal: Some("nn/_HOST@EXAMPLE.COM".into()),
            ..SecurityConfig::default()
        };
        let environment = Environment::of_machine(&config, Arc::new(io::SystemClock::new())).await.unwrap();
        let acceptor = Some(Arc::new(Realm(WORD)) as _);
        let environment = Environment { host: HOST.into(), acceptor, login: login(SERVER), ..environment };
        let metad = metad::start_in(config, environment).await.unwrap();
        let url = Url::parse(&format!("hdfs://{}", metad.rpc_addr())).unwrap();
        let options = Options { login: login(SERVER), ..Options::default() };
        let client = Store::new(&url, options.clone()).client("nn");
        client.mkdirs(&format!("/{SECRET}"), 0o700, false).await.unwrap();
        client.store().close().await;
        // The fronts have users of different names: neither is taken for the other's.
        let front = |user: &str| Some(FilesConfig { addr: any, user: user.into() });
        let config = Config {
            place: Place::NearStore(TunnelConfig { addr: any, connection_count_max: 10, beside_servers: true }),
            url,
            user: "gateway".into(),
            files: front("web"),
            root: front("physics"),
            root_limits: RootLimits::default(),
            metrics_addr: None,
        };
        let gateway = Gateway::start_with(config, options).await.unwrap();
        Self { metad, gateway, _dir: dir }
    }

    async fn stop(self) {
        self.gateway.stop().await;
        self.metad.shutdown().await;
    }

    /// Over HTTP, with this query.
    async fn http(&self, query: &str) -> String {
        let mut socket = TcpStream::connect(self.gateway.files_addr().unwrap()).await.unwrap();
        let request = format!("GET /files/?format=json{query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut got = Vec::new();
        socket.read_to_end(&mut got).await.unwrap();
        String::from_utf8_lossy(&got).into_owned()
    }

    /// Over XRootD: the status of a `stat` of the root, asked in this name.
    async fn xrootd(&self, user: &str) -> u16 {
        let mut socket = TcpStream::connect(self.gateway.root_addr().unwrap()).await.unwrap();
        let frame = |code: u16, parameters: &[u8], body: &[u8]| {
            let mut bytes = [&[0, 1], &code.to_be_bytes()[..], parameters].concat();
            bytes.resize(20, 0);
            [&bytes, &(body.len() as u32).to_be_bytes()[..], body].concat()
        };
        let login = [&7u32.to_be_bytes()[..], user.as_bytes()].concat();
        let greeting = [0u32, 0, 0, 4, 2012].map(u32::to_be_bytes).concat();
        socket.write_all(&[greeting, frame(3007, &login, b""), frame(3017, b"", b"/")].concat()).await.unwrap();
        let mut status = 0;
        for _ in 0..3 {
            let mut head = [0; 8];
            socket.read_exact(&mut head).await.unwrap();
            status = u16::from_be_bytes([head[2], head[3]]);
            let len = u32::from_be_bytes(*head.last_chunk().unwrap());
            socket.read_exact(&mut vec![0; len as usize]).await.unwrap();
        }
        status
    }
}

fn is_refused(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 403") && answer.contains("believes no names") && !answer.contains(SECRET)
}

/// Whichever front is asked first, and whether the store was called by it before.
#[tokio::test]
async fn a_name_that_a_stranger_gives_is_refused_in_either_front() {
    let world = World::new().await;
    let named = world.http("&user.name=alice").await;
    assert!(is_refused(&named), "{named}");
    assert_eq!(world.xrootd("alice").await, 0, "as the gateway's own user");
    let (own, named) = (world.http("").await, world.http("&user.name=alice").await);
    assert!(own.starts_with("HTTP/1.1 200") && own.contains(SECRET), "{own}");
    assert!(is_refused(&named), "{named}");
    world.stop().await;
}

#[tokio::test]
async fn a_front_that_never_called_the_store_knows_what_another_one_was_asked_for() {
    let world = World::new().await;
    assert_eq!(world.xrootd("alice").await, 0);
    let named = world.http("&user.name=alice").await;
    assert!(is_refused(&named), "{named}");
    world.stop().await;
}

/// What a gateway has learned of a store may be old: nothing is proven for who was named meanwhile.
#[tokio::test]
async fn a_client_for_a_name_from_outside_proves_nothing() {
    let world = World::new().await;
    let url = Url::parse(&format!("hdfs://{}", world.metad.rpc_addr())).unwrap();
    let store = Store::new(&url, Options { login: login(SERVER), ..Options::default() });
    assert!(store.client_without_proof("nn").list("/").await.is_err());
    assert!(store.client("alice").asks_for_proof().await.unwrap());
    assert!(store.client("bob").asks_for_proof().await.unwrap(), "which has called nobody");
    store.close().await;
    world.stop().await;
}
