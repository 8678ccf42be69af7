//! The store's own servers, which show certificates, and those who would be taken for one.

use crate::support::{CLIENT, config};
use bytes::Bytes;
use hdfs::exception::ACCESS_CONTROL;
use hdfs::proto::*;
use metad::{Config, MemberAddr, Metad, StartError};
use rpc::{CallError, Client, ClientOptions, NodeProof};
use security::joining::JoinToken;
use security::node_name::{Expected, NodeName};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tls::{Authority, Credentials, Host, Newcomer, Signed};
use types::encoding::encode;
use types::{Millis, NodeId};
use wire::admin::ADMIN_PROTOCOL;
use wire::admin::joining::{
    INVITE, InviteRequest, InviteResponse, LIST_INVITATIONS, ListInvitationsRequest, ListInvitationsResponse, REVOKE,
    RevokeRequest, RevokeResponse, WITHDRAW, WithdrawRequest, WithdrawResponse,
};
use wire::admin::meta::{LIST_MEMBERS, ListMembersRequest, ListMembersResponse};
use wire::joining::{JOIN, JOIN_PROTOCOL, JoinRequest, RENEW_CERTIFICATE, RenewRequest, SignedResponse};
use wire::node::{
    HEARTBEAT, HeartbeatRequest, Incarnation, NODE_PROTOCOL, NODE_REVOKED, Orders, REGISTER, RegisterRequest,
    RegisterResponse, Sender, Usage,
};
use wire::raft::{MemberMessage, RAFT_PROTOCOL, TELL};

const OWN: NodeName = NodeName::Member(1);
const OTHER: NodeName = NodeName::Member(2);
const FIRST: NodeId = NodeId([1; 16]);
const SECOND: NodeId = NodeId([2; 16]);
/// Of messages between members; see raft's `message.rs`.
const MESSAGE_VERSION: u8 = 5;
/// How a member's answer begins that refuses.
const REFUSED: [u8; 2] = [MESSAGE_VERSION, 9];
const HOUR_MS: u64 = 3_600_000;

/// Makes a certificate, of an authority in `ca`.
pub(crate) fn equip(dir: &Path, ca: &str, name: NodeName) -> PathBuf {
    equip_at(dir, ca, name, now())
}

/// By a clock that says that it is `now`.
fn equip_at(dir: &Path, ca: &str, name: NodeName, now: Millis) -> PathBuf {
    let (ca, to) = (dir.join(ca), dir.join(format!("{ca} {}", name.to_string().replace('/', "_"))));
    Authority::open_or_make(&ca, now).unwrap().equip(&to, name, &[], now).unwrap();
    to
}

fn now() -> Millis {
    io::Clock::now(&io::SystemClock::new())
}

struct World {
    dir: tempfile::TempDir,
    metad: Metad,
}

impl World {
    /// A metadata server with a certificate.
    async fn with(set: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(dir.path());
        config.security.node_certificates = Some(equip(dir.path(), "ca", OWN));
        set(&mut config);
        Self { metad: metad::start(config).await.unwrap(), dir }
    }

    /// The directory of the server's own certificate.
    fn metad_certificates(&self) -> PathBuf {
        self.dir.path().join(format!("ca {}", OWN.to_string().replace('/', "_")))
    }

    /// Of the user who runs the server.
    fn options(&self) -> ClientOptions {
        ClientOptions::default()
    }

    /// Of a server with a certificate of this name.
    fn server(&self, ca: &str, name: NodeName) -> ClientOptions {
        let credentials = Arc::new(Credentials::open(&equip(self.dir.path(), ca, name)).unwrap());
        self.options().with_node(Some(&credentials), Expected::Node(OWN))
    }

    async fn ask<A: prost::Message + Default>(
        &self,
        (protocol, method): (&'static str, &str),
        options: ClientOptions,
        request: &impl prost::Message,
    ) -> Result<A, CallError> {
        let addr = self.metad.rpc_addr().to_string();
        let client = Client::with_options(addr, host::user::current(), protocol, options);
        client.call(method, request).await
    }

    async fn register(&self, options: ClientOptions, id: NodeId) -> Result<RegisterResponse, CallError> {
        let incarnation = Some(Incarnation { start_ms: 1, nonce: 1 });
        let request = RegisterRequest {
            node: id.to_string(),
            ip: "127.0.0.1".into(),
            xfer_port: 9866,
            incarnation,
            ..RegisterRequest::default()
        };
        self.ask((NODE_PROTOCOL, REGISTER), options, &request).await
    }

    /// Its first heartbeat makes it a datanode.
    async fn beat(&self, options: ClientOptions, id: NodeId) {
        let addr = self.metad.rpc_addr().to_string();
        let client = Client::with_options(addr, host::user::current(), NODE_PROTOCOL, options);
        let incarnation = Some(Incarnation { start_ms: 1, nonce: 1 });
        let register = RegisterRequest {
            node: id.to_string(),
            ip: "127.0.0.1".into(),
            xfer_port: 9866,
            incarnation,
            ..RegisterRequest::default()
        };
        let _: RegisterResponse = client.call(REGISTER, &register).await.unwrap();
        let sender = Some(Sender { incarnation, addr: "127.0.0.1:9866".into() });
        let usage = Some(Usage { capacity_len: 1 << 30, used_len: 0, free_len: 1 << 30 });
        let beat = HeartbeatRequest { node: id.to_string(), sender, usage, ..HeartbeatRequest::default() };
        let orders: Orders = client.call(HEARTBEAT, &beat).await.unwrap();
        assert!(orders.known);
    }

    async fn tell(&self, options: ClientOptions, message: Bytes) -> Result<MemberMessage, CallError> {
        self.ask((RAFT_PROTOCOL, TELL), options, &MemberMessage { bytes: message }).await
    }
}

fn denied<T: std::fmt::Debug>(answer: Result<T, CallError>) -> String {
    match answer.unwrap_err() {
        CallError::Remote { class, message, .. } if [ACCESS_CONTROL, NODE_REVOKED].contains(&&*class) => message,
        other => panic!("{other:?}"),
    }
}

/// Who runs the store can say that by a name; a datanode gets the keys of block tokens, and must prove what it is.
#[tokio::test]
async fn a_datanode_registers_as_the_one_that_its_certificate_names() {
    let world = World::with(|config| config.block_tokens = true).await;
    let datanode = |id| world.server("ca", NodeName::Datanode(id));
    let message = denied(world.register(world.options(), FIRST).await);
    assert!(message.contains("has to show a certificate of this store"), "{message}");
    denied(world.register(world.server("ca", OTHER), FIRST).await);
    let message = denied(world.register(datanode(SECOND), FIRST).await);
    assert!(message.contains(&format!("the certificate is of {}", NodeName::Datanode(SECOND))), "{message}");
    for id in [FIRST, SECOND] {
        let answer = world.register(datanode(id), id).await.unwrap();
        assert!(answer.new && answer.tokens.is_some());
    }
    // One of another store is not even heard.
    let stranger = world.register(world.server("another ca", NodeName::Datanode(FIRST)), FIRST).await;
    assert!(matches!(stranger, Err(CallError::Connect(_) | CallError::Broken(_))), "{stranger:?}");
}

/// A store with an authority, and datanodes that come to it.
struct Joining(World);

impl Joining {
    async fn new() -> Self {
        Self(
            World::with(|config| {
                config.security.authority =
                    config.security.node_certificates.as_ref().map(|dir| dir.with_file_name("ca"));
            })
            .await,
        )
    }

    async fn administer<A: prost::Message + Default>(
        &self,
        method: &str,
        request: &impl prost::Message,
    ) -> Result<A, CallError> {
        self.0.ask((ADMIN_PROTOCOL, method), self.0.options(), request).await
    }

    async fn invite(&self, datanode: &str, lifetime_ms: u64) -> JoinToken {
        let request = InviteRequest { datanode: datanode.to_owned(), lifetime_ms };
        let made: InviteResponse = self.administer(INVITE, &request).await.unwrap();
        JoinToken::parse(&made.token).unwrap()
    }

    /// What a datanode is answered that asks with a token, as one that has these disks.
    async fn ask_for(
        &self,
        dir: &str,
        token: &JoinToken,
        disks: Option<NodeId>,
    ) -> Result<(Signed, Newcomer), CallError> {
        let newcomer = Newcomer::joining(&self.0.dir.path().join(dir), token).unwrap();
        let request = JoinRequest {
            number: token.number,
            secret: token.secret.to_vec().into(),
            public_key: newcomer.public_key().to_vec().into(),
            node: disks.map_or_else(String::new, |id| id.to_string()),
        };
        let node = Some(NodeProof::Newcomer { authority: token.authority });
        let options = ClientOptions { node, ..ClientOptions::default() };
        let SignedResponse { certificate, authorities } = self.0.ask((JOIN_PROTOCOL, JOIN), options, &request).await?;
        Ok((Signed { certificate, authorities }, newcomer))
    }

    /// The directory of a datanode that has joined.
    async fn join(&self, dir: &str, token: &JoinToken, disks: Option<NodeId>) -> Result<PathBuf, CallError> {
        let (signed, newcomer) = self.ask_for(dir, token, disks).await?;
        newcomer.install(&signed).unwrap();
        Ok(self.0.dir.path().join(dir))
    }

    /// What a datanode is answered that asks for another certificate.
    async fn renew(&self, home: &Path) -> Result<(Signed, Newcomer), CallError> {
        let newcomer = Newcomer::again(home).unwrap();
        let certificate = Credentials::open(home).unwrap().certificate().into();
        let renew = RenewRequest { public_key: newcomer.public_key().to_vec().into(), certificate };
        let answer = self.0.ask((NODE_PROTOCOL, RENEW_CERTIFICATE), shown(home).0, &renew).await;
        let SignedResponse { certificate, authorities } = answer?;
        Ok((Signed { certificate, authorities }, newcomer))
    }
}

/// As the one whose certificate is there.
fn shown(dir: &Path) -> (ClientOptions, NodeId) {
    let credentials = Arc::new(Credentials::open(dir).unwrap());
    let NodeName::Datanode(id) = credentials.name() else { panic!("{credentials:?}") };
    (ClientOptions::default().with_node(Some(&credentials), Expected::Node(OWN)), id)
}

#[tokio::test]
async fn a_datanode_joins_by_a_token() {
    let store = Joining::new().await;
    let token = store.invite("", HOUR_MS).await;
    let lost = store.ask_for("first", &token, None).await.unwrap();
    let home = store.join("first", &token, None).await.unwrap();
    let (options, id) = shown(&home);
    assert_eq!(lost.1.install(&lost.0).err().map(|_| ()), None, "the same key got the same name twice");
    assert_eq!(shown(&home).1, id);
    assert!(store.0.register(options, id).await.unwrap().new);
    let message = denied(store.join("second", &token, None).await);
    let tells_who = message.contains(&id.to_string());
    assert!(message.contains("a datanode has joined by this token already") && !tells_who, "{message}");
    let ListInvitationsResponse { invitations } =
        store.administer(LIST_INVITATIONS, &ListInvitationsRequest {}).await.unwrap();
    assert_eq!((invitations.len(), &invitations[0].taken_by), (1, &id.to_string()));
    assert_eq!(invitations[0].made_by, host::user::current());
}

#[tokio::test]
async fn a_token_that_does_not_count_is_refused() {
    let store = Joining::new().await;
    let token = store.invite("", HOUR_MS).await;
    let forged = JoinToken { secret: [0; 16], ..token.clone() };
    let unknown = JoinToken { number: token.number ^ 1, ..token.clone() };
    for token in [&forged, &unknown] {
        let message = denied(store.join("forged", token, None).await);
        assert!(message.contains("the join token is not known"), "{message}");
    }
    // Who would hear the secret is not the store that the token names.
    let elsewhere = JoinToken { authority: [7; 32], ..token.clone() };
    let refused = store.join("elsewhere", &elsewhere, None).await;
    assert!(matches!(refused, Err(CallError::Connect(_))), "{refused:?}");
    let short = store.invite("", 1).await;
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    let message = denied(store.join("late", &short, None).await);
    assert!(message.contains("expired"), "{message}");
    let _: WithdrawResponse = store.administer(WITHDRAW, &WithdrawRequest { number: token.number }).await.unwrap();
    denied(store.join("withdrawn", &token, None).await);
    // Strangers do not fill the audit log: of all this it has the one who had a token.
    let joined = store.invite("", HOUR_MS).await;
    store.join("joined", &joined, None).await.unwrap();
    let log = store.0.dir.path().join("meta/audit/audit.log");
    let lines = async || loop {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<String> = text.lines().filter(|line| line.contains("\"join\"")).map(str::to_owned).collect();
        match lines.is_empty() {
            true => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            false => break lines,
        }
    };
    let lines = tokio::time::timeout(std::time::Duration::from_secs(30), lines()).await.unwrap();
    assert!(lines.len() == 1 && lines[0].contains(&format!("{:08x}", joined.number)), "{lines:?}");
    let long = InviteRequest { datanode: String::new(), lifetime_ms: 31 * 24 * HOUR_MS };
    let refused = store.administer::<InviteResponse>(INVITE, &long).await.unwrap_err();
    assert!(refused.to_string().contains("up to 30 days"), "{refused}");
}

/// A token for a new datanode gives nobody the name of one that is there, whether it has registered, joined, or was
/// only equipped by hand, of which the store knows nothing.
#[tokio::test]
async fn an_id_that_is_taken_needs_a_token_for_it() {
    let store = Joining::new().await;
    let (options, id) = shown(&store.join("first", &store.invite("", HOUR_MS).await, None).await.unwrap());
    for by_hand in [id, SECOND] {
        let message = denied(store.join("thief", &store.invite("", HOUR_MS).await, Some(by_hand)).await);
        assert!(message.contains("ask for a token that is for it"), "{message}");
    }
    store.0.register(options.clone(), id).await.unwrap();
    store.0.beat(options, id).await;
    let message = denied(store.join("thief", &store.invite("", HOUR_MS).await, Some(id)).await);
    assert!(message.contains("ask for a token that is for it"), "{message}");
    let for_it = store.invite(&id.to_string(), HOUR_MS).await;
    let message = denied(store.join("other", &for_it, Some(SECOND)).await);
    assert!(message.contains(&format!("the token is for datanode {id}")), "{message}");
    assert_eq!(shown(&store.join("again", &for_it, Some(id)).await.unwrap()).1, id);
    // Once it is used, who has it alone is not told whose it is.
    let message = denied(store.join("late", &for_it, Some(SECOND)).await);
    assert!(message.contains("has joined by this token already") && !message.contains(&id.to_string()), "{message}");
}

/// Also over the connection that it has; until it is invited again.
#[tokio::test]
async fn what_was_revoked_does_not_count() {
    let store = Joining::new().await;
    let (options, id) = shown(&store.join("first", &store.invite("", HOUR_MS).await, None).await.unwrap());
    let addr = store.0.metad.rpc_addr().to_string();
    let client = Client::with_options(addr, "x".into(), NODE_PROTOCOL, options.clone());
    let heartbeat = HeartbeatRequest { node: id.to_string(), ..HeartbeatRequest::default() };
    let beat = async || client.call::<_, Orders>(HEARTBEAT, &heartbeat).await;
    let home = store.0.dir.path().join("first");
    let (renewed, newcomer) = store.renew(&home).await.unwrap();
    let before = beat().await.map_err(|error| error.to_string());
    assert!(!before.is_err_and(|error| error.contains("revoked")));
    let revoked: RevokeResponse = store.administer(REVOKE, &RevokeRequest { datanode: id.to_string() }).await.unwrap();
    assert_eq!(revoked.id, id.to_string());
    for refused in [denied(beat().await), denied(store.0.register(options, id).await), denied(store.renew(&home).await)]
    {
        assert!(refused.contains("was revoked"), "{refused}");
    }
    // What it had asked for before is not from later, either.
    newcomer.install(&renewed).unwrap();
    denied(store.0.register(shown(&home).0, id).await);
    // It joins anew where it is, with another key.
    let key = || std::fs::read_to_string(home.join("node.key")).unwrap();
    let (stolen, again) = (key(), store.invite(&id.to_string(), HOUR_MS).await);
    let (options, id) = shown(&store.join("first", &again, Some(id)).await.unwrap());
    assert_ne!(key(), stolen);
    store.0.register(options, id).await.unwrap();
}

/// Also where it calls nobody over it.
#[tokio::test]
async fn a_revocation_ends_the_connections_that_are_open() {
    let store = Joining::new().await;
    let (options, id) = shown(&store.join("first", &store.invite("", HOUR_MS).await, None).await.unwrap());
    let client = Client::with_options(store.0.metad.rpc_addr().to_string(), "x".into(), NODE_PROTOCOL, options);
    let heartbeat = HeartbeatRequest { node: id.to_string(), ..HeartbeatRequest::default() };
    let _ = client.call::<_, Orders>(HEARTBEAT, &heartbeat).await;
    let open = || {
        let text = store.0.metad.metrics(metrics::Format::Prometheus);
        let line = text.lines().find(|line| line.starts_with("levada_rpc_connections ")).expect("a gauge");
        line.rsplit(' ').next().and_then(|count| count.parse::<f64>().ok()).expect("a number")
    };
    let before = open();
    assert!(before >= 1.0, "its own");
    let _: RevokeResponse = store.administer(REVOKE, &RevokeRequest { datanode: id.to_string() }).await.unwrap();
    let ended = async {
        while open() >= before {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    // Connections are looked at each ten seconds.
    tokio::time::timeout(std::time::Duration::from_secs(30), ended).await.expect("it ends");
    drop(client);
}

/// The machine was stolen, with the token in a file of its service. The datanode had joined, and not registered yet.
#[tokio::test]
async fn a_revocation_ends_the_token_by_which_the_datanode_joined() {
    let store = Joining::new().await;
    let token = store.invite("", HOUR_MS).await;
    let (signed, newcomer) = store.ask_for("first", &token, None).await.unwrap();
    let NodeName::Datanode(id) = newcomer.install(&signed).unwrap().name() else { panic!("a member's") };
    let home = store.0.dir.path().join("first");
    std::fs::copy(home.join("node.key"), home.join(format!("join-{:08x}.key", token.number))).unwrap();
    let of_it = store.invite(&id.to_string(), HOUR_MS).await;
    let _: RevokeResponse = store.administer(REVOKE, &RevokeRequest { datanode: id.to_string() }).await.unwrap();
    for token in [&token, &of_it] {
        let message = denied(store.join("first", token, None).await);
        assert!(message.contains("the join token is not known"), "{message}");
    }
    let message = denied(store.join("thief", &store.invite("", HOUR_MS).await, Some(id)).await);
    assert!(message.contains("ask for a token that is for it"), "{message}");
}

/// It is signed by a machine whose clock is 50 minutes ahead, and counts at once, as all of the last hour do.
#[tokio::test]
async fn a_certificate_from_a_clock_that_is_ahead_is_revoked_as_well() {
    let store = Joining::new().await;
    let ahead = Millis(now().0 + 50 * 60 * 1000);
    let (options, id) = shown(&equip_at(store.0.dir.path(), "ca", NodeName::Datanode(FIRST), ahead));
    store.0.register(options.clone(), id).await.unwrap();
    store.0.beat(options.clone(), id).await;
    let _: RevokeResponse = store.administer(REVOKE, &RevokeRequest { datanode: id.to_string() }).await.unwrap();
    let message = denied(store.0.register(options, id).await);
    assert!(message.contains("was revoked"), "{message}");
    // The next one counts from now on, and so does the one after that.
    let again = store.invite(&id.to_string(), HOUR_MS).await;
    let home = store.join("again", &again, Some(id)).await.unwrap();
    let (options, id) = shown(&home);
    store.0.register(options, id).await.unwrap();
    let (renewed, newcomer) = store.renew(&home).await.unwrap();
    newcomer.install(&renewed).unwrap();
    store.0.register(shown(&home).0, id).await.unwrap();
}

/// One authority takes the place of another, and certificates of members are of either.
#[tokio::test]
async fn a_datanode_believes_whom_the_server_believes_that_signs() {
    let store = Joining::new().await;
    let dir = store.0.dir.path();
    let home = store.join("first", &store.invite("", HOUR_MS).await, None).await.unwrap();
    let next = Authority::open_or_make(&dir.join("next"), now()).unwrap();
    let text = |path: &Path| std::fs::read_to_string(path.join("ca.crt")).unwrap();
    let of_server = store.0.metad_certificates();
    std::fs::write(of_server.join("ca.crt"), text(&of_server) + &text(&dir.join("next"))).unwrap();
    let (renewed, newcomer) = store.renew(&home).await.unwrap();
    assert!(newcomer.install(&renewed).unwrap().believes(&next));
    let second = store.join("second", &store.invite("", HOUR_MS).await, None).await.unwrap();
    let own = Authority::open(&dir.join("ca")).unwrap();
    for home in [home, second] {
        let credentials = Credentials::open(&home).unwrap();
        assert!(credentials.believes(&next) && credentials.believes(&own));
    }
}

/// Over HTTPS a datanode is known by the names that its operator gave it, and it renews its certificate by itself.
#[tokio::test]
async fn a_renewal_keeps_the_names_of_a_certificate() {
    let store = Joining::new().await;
    let dir = store.0.dir.path();
    let home = equip(dir, "ca", NodeName::Datanode(FIRST));
    let given: [Host; 3] = ["192.0.2.7", "2001:db8::7", "node7.example"].map(|text| text.parse().unwrap());
    let authority = Authority::open(&dir.join("ca")).unwrap();
    authority.equip(&home, NodeName::Datanode(FIRST), &given, now()).unwrap();
    let names = |home: &Path| Credentials::open(home).unwrap().hosts();
    for _ in 0..2 {
        let (renewed, newcomer) = store.renew(&home).await.unwrap();
        newcomer.install(&renewed).unwrap();
        assert_eq!(names(&home), [&["127.0.0.1".parse().unwrap()][..], &given].concat());
    }
    // Those of another datanode, or that another authority signed, are not its own.
    let other = equip(dir, "ca", NodeName::Datanode(SECOND));
    let foreign = equip(dir, "another ca", NodeName::Datanode(SECOND));
    Authority::open(&dir.join("another ca"))
        .unwrap()
        .equip(&foreign, NodeName::Datanode(SECOND), &given, now())
        .unwrap();
    for shown_too in [&home, &foreign] {
        let newcomer = Newcomer::again(&other).unwrap();
        let certificate = Credentials::open(shown_too).unwrap().certificate().into();
        let renew = RenewRequest { public_key: newcomer.public_key().to_vec().into(), certificate };
        let answer = store.0.ask((NODE_PROTOCOL, RENEW_CERTIFICATE), shown(&other).0, &renew).await;
        let SignedResponse { certificate, authorities } = answer.unwrap();
        newcomer.install(&Signed { certificate, authorities }).unwrap();
        assert_eq!(names(&other), ["127.0.0.1".parse::<Host>().unwrap()]);
    }
}

/// One row of the table is for who has proven nothing.
#[tokio::test]
async fn a_newcomer_is_nobody_else() {
    let store = Joining::new().await;
    let authority = store.invite("", HOUR_MS).await.authority;
    let newcomer = || ClientOptions { node: Some(NodeProof::Newcomer { authority }), ..ClientOptions::default() };
    let message = denied(store.0.register(newcomer(), FIRST).await);
    assert!(message.contains("has to show a certificate of this store"), "{message}");
    let renew = RenewRequest { public_key: vec![4; 65].into(), ..RenewRequest::default() };
    denied(store.0.ask::<SignedResponse>((NODE_PROTOCOL, RENEW_CERTIFICATE), newcomer(), &renew).await);
    denied(store.0.tell(newcomer(), message_of(2)).await);
    let member = store.0.server("ca", OTHER);
    denied(store.0.ask::<SignedResponse>((NODE_PROTOCOL, RENEW_CERTIFICATE), member, &renew).await);
}

#[tokio::test]
async fn an_authority_that_nobody_believes_is_refused_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.security.node_certificates = Some(equip(dir.path(), "ca", OWN));
    equip(dir.path(), "another ca", OWN);
    config.security.authority = Some(dir.path().join("another ca"));
    match metad::start(config.clone()).await {
        Err(StartError::Config(message)) => assert!(message.contains("nobody would believe"), "{message}"),
        other => panic!("{other:?}"),
    }
    config.security.node_certificates = None;
    assert!(matches!(metad::start(config).await, Err(StartError::Config(_))));
}

/// Everybody else comes as before, and a datanode is no user who may do something.
#[tokio::test]
async fn a_certificate_makes_no_user() {
    let world = World::with(|_| {}).await;
    let mkdirs = MkdirsRequestProto {
        src: "/made".into(),
        masked: FsPermissionProto { perm: 0o755 },
        create_parent: true,
        unmasked: None,
    };
    let as_datanode = world.server("ca", NodeName::Datanode(FIRST));
    denied(world.ask::<MkdirsResponseProto>((CLIENT, "mkdirs"), as_datanode, &mkdirs).await);
    let made: MkdirsResponseProto = world.ask((CLIENT, "mkdirs"), world.options(), &mkdirs).await.unwrap();
    assert!(made.result);
}

/// A heartbeat of this member of a group, for a server that has other data.
fn message_of(sender: u64) -> Bytes {
    let (member, incarnation, term) = (1_u64, 77_u64, 3_u64);
    let (none, entry_count) = (None::<(u64, u64)>, 0_u32);
    let fields = encode(&((term, sender, true), none, (none, entry_count)), Vec::new());
    encode(&encode(&((member, incarnation, sender), (0_u32, fields)), Vec::new()), vec![MESSAGE_VERSION]).into()
}

/// From anywhere, in its own name; an address proves nothing.
#[tokio::test]
async fn messages_of_raft_come_from_the_member_that_they_name() {
    let members = [(1, "127.0.0.1:1"), (2, "192.0.2.2:8020"), (3, "192.0.2.3:8020")];
    let world = World::with(|config| config.members = listed(&members)).await;
    denied(world.tell(world.options(), message_of(2)).await);
    denied(world.tell(world.server("ca", NodeName::Datanode(FIRST)), message_of(2)).await);
    let said = async |sender| world.tell(world.server("ca", OTHER), message_of(sender)).await.unwrap().bytes;
    let (foreign, own) = (said(3).await, said(2).await);
    let text = |answer: &Bytes| String::from_utf8_lossy(answer).into_owned();
    assert!(foreign.starts_with(&REFUSED) && text(&foreign).contains("a message of member 3 came"), "{foreign:?}");
    assert!(text(&own).contains("other data"), "it is looked at: {own:?}");
    // What members ask each other for is answered as well.
    let asked = world.ask((ADMIN_PROTOCOL, LIST_MEMBERS), world.server("ca", OTHER), &ListMembersRequest {}).await;
    let ListMembersResponse { members, .. } = asked.unwrap();
    assert!(members.len() <= 3);
}

fn listed(members: &[(u64, &str)]) -> Vec<MemberAddr> {
    members.iter().map(|(id, addr)| MemberAddr { id: *id, addr: (*addr).into() }).collect()
}

/// A certificate counts for months. Who was removed, or never was added, has one and is no member: it sends no entries,
/// and is no superuser.
#[tokio::test]
async fn a_certificate_makes_no_member() {
    let all = [(1, "127.0.0.1:1"), (2, "192.0.2.2:8020"), (3, "192.0.2.3:8020")];
    for members in [&all[..], &all[..1], &[]] {
        let world = World::with(|config| config.members = listed(members)).await;
        let removed = || world.server("ca", NodeName::Member(9));
        denied(world.tell(removed(), message_of(9)).await);
        let list = |options| world.ask((ADMIN_PROTOCOL, LIST_MEMBERS), options, &ListMembersRequest {});
        let message = denied::<ListMembersResponse>(list(removed()).await);
        assert!(message.contains("metadata server 9") && message.contains("no member"), "{message}");
        // The server itself may call itself.
        list(world.server("ca", OWN)).await.unwrap();
    }
}

/// It cannot know who adds it, and has nothing to lose.
#[tokio::test]
async fn one_that_is_to_join_looks_at_messages_of_any_member() {
    let world = World::with(|config| config.join = true).await;
    let answer = world.tell(world.server("ca", OTHER), message_of(2)).await.unwrap().bytes;
    assert!(String::from_utf8_lossy(&answer).contains("other data"), "it is looked at: {answer:?}");
    denied(world.tell(world.server("ca", NodeName::Datanode(FIRST)), message_of(2)).await);
}

#[tokio::test]
async fn a_server_starts_with_its_own_certificate_alone() {
    let dir = tempfile::tempdir().unwrap();
    let start = async |certificates: PathBuf| {
        let mut config = config(dir.path());
        config.security.node_certificates = Some(certificates);
        match metad::start(config).await {
            Err(StartError::Config(message)) => message,
            other => panic!("{other:?}"),
        }
    };
    let message = start(equip(dir.path(), "ca", OTHER)).await;
    assert!(
        message.contains("the certificate is of levada://member/2, and this server is levada://member/1"),
        "{message}"
    );
    let message = start(dir.path().join("nothing")).await;
    assert!(message.contains("node.crt"), "{message}");
    let past = Millis(now().0 - 91 * 24 * 3600 * 1000);
    let own = equip(dir.path(), "ca", OWN);
    Authority::open(&dir.path().join("ca")).unwrap().equip(&own, OWN, &[], past).unwrap();
    let message = start(own).await;
    assert!(message.contains(" ended on 20") && message.contains("levada certificate member 1"), "{message}");
}
