//! The store's own servers, which show certificates, and those who would be taken for one.

use crate::support::{CLIENT, config};
use bytes::Bytes;
use hdfs::exception::ACCESS_CONTROL;
use hdfs::proto::*;
use metad::{Config, MemberAddr, Metad, StartError};
use rpc::{CallError, Client, ClientOptions};
use security::node_name::{Expected, NodeName};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tls::{Authority, Credentials};
use types::encoding::encode;
use types::{Millis, NodeId};
use wire::admin::ADMIN_PROTOCOL;
use wire::admin::meta::{LIST_MEMBERS, ListMembersRequest, ListMembersResponse};
use wire::node::{Incarnation, NODE_PROTOCOL, REGISTER, RegisterRequest, RegisterResponse};
use wire::raft::{MemberMessage, RAFT_PROTOCOL, TELL};

const OWN: NodeName = NodeName::Member(1);
const OTHER: NodeName = NodeName::Member(2);
const FIRST: NodeId = NodeId([1; 16]);
const SECOND: NodeId = NodeId([2; 16]);
/// How a member's answer begins that refuses; see raft's `message.rs`.
const REFUSED: [u8; 2] = [4, 9];

/// Makes a certificate, of an authority in `ca`.
fn equip(dir: &Path, ca: &str, name: NodeName) -> PathBuf {
    let (ca, to) = (dir.join(ca), dir.join(format!("{ca} {}", name.to_string().replace('/', "_"))));
    let now = Millis(io::Clock::now(&io::SystemClock::new()).0);
    Authority::open_or_make(&ca, now).unwrap().equip(&to, name, &[], now).unwrap();
    to
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

    async fn tell(&self, options: ClientOptions, message: Bytes) -> Result<MemberMessage, CallError> {
        self.ask((RAFT_PROTOCOL, TELL), options, &MemberMessage { bytes: message }).await
    }
}

fn denied<T: std::fmt::Debug>(answer: Result<T, CallError>) -> String {
    match answer.unwrap_err() {
        CallError::Remote { class, message, .. } if class == ACCESS_CONTROL => message,
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
    encode(&encode(&((member, incarnation, sender), (0_u32, fields)), Vec::new()), vec![4]).into()
}

/// From anywhere, in its own name; an address proves nothing.
#[tokio::test]
async fn messages_of_raft_come_from_the_member_that_they_name() {
    let members = |config: &mut Config| {
        config.members = [(1, "127.0.0.1:1"), (2, "192.0.2.2:8020"), (3, "192.0.2.3:8020")]
            .map(|(id, addr)| MemberAddr { id, addr: addr.into() })
            .into();
    };
    let world = World::with(members).await;
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
}
