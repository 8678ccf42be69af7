//! Tests of registration over the wire: which process acts as a datanode.

use crate::Config;
use crate::core::Core;
use prost::Message;
use rpc::{CallError, Client};
use std::sync::Arc;
use std::time::Duration;
use types::NodeId;
use wire::node::*;

const ID: NodeId = NodeId([1; 16]);

struct World {
    metad: crate::Metad,
    core: Arc<Core>,
    _dir: tempfile::TempDir,
}

/// A process of a datanode, or one that says so, with a connection of its own.
struct Process {
    client: Client,
    id: NodeId,
    port: u32,
    incarnation: Incarnation,
}

type Answer<T> = Result<T, (String, String)>;

impl World {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let metad = crate::start(Config::new(dir.path().into(), "127.0.0.1:0".parse().unwrap())).await.unwrap();
        let core = metad.running().as_ref().unwrap().server.leadership.core().unwrap();
        Self { metad, core, _dir: dir }
    }

    fn process(&self, start_ms: u64, port: u32) -> Process {
        let client = Client::new(self.metad.rpc_addr().to_string(), "datanode".into(), NODE_PROTOCOL);
        Process { client, id: ID, port, incarnation: Incarnation { start_ms, nonce: start_ms + 1 } }
    }

    fn is_quiet(&self) -> bool {
        let now = self.core.monotonic();
        self.core.with_cluster(|cluster, _| cluster.node(ID).unwrap().is_quiet(now))
    }

    fn node_count(&self) -> usize {
        self.core.with_cluster(|cluster, _| cluster.nodes().count())
    }

    async fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        for _ in 0..1000 {
            if done(self) {
                return;
            }
            io::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{what}");
    }
}

impl Process {
    async fn ask<T: Message + Default>(&self, method: &str, request: &impl Message) -> Answer<T> {
        self.client.call(method, request).await.map_err(|error| match error {
            CallError::Remote { class, message, .. } => (class, message),
            other => panic!("{other}"),
        })
    }

    fn registration(&self) -> RegisterRequest {
        RegisterRequest {
            node: self.id.to_string(),
            ip: "127.0.0.1".into(),
            xfer_port: self.port,
            incarnation: Some(self.incarnation),
            ..RegisterRequest::default()
        }
    }

    async fn register(&self) -> Answer<RegisterResponse> {
        self.ask(REGISTER, &self.registration()).await
    }

    async fn beat(&self) -> Answer<Orders> {
        let sender = Some(Sender { incarnation: Some(self.incarnation), addr: format!("127.0.0.1:{}", self.port) });
        self.ask(HEARTBEAT, &HeartbeatRequest { node: self.id.to_string(), sender, ..Default::default() }).await
    }

    async fn tell_all(&self) -> Answer<Orders> {
        let sender = Some(Sender { incarnation: Some(self.incarnation), addr: format!("127.0.0.1:{}", self.port) });
        let node = self.id.to_string();
        self.ask(CATALOGUE, &CatalogueRequest { node, sender, through: u64::MAX, ..Default::default() }).await
    }

    async fn joins(&self) {
        self.register().await.unwrap();
        assert!(self.beat().await.unwrap().known);
    }
}

/// A disk was copied, and both processes run: the second is refused, and nothing changes for the first.
#[tokio::test]
async fn a_copy_does_not_take_the_place_of_a_node_that_lives() {
    let world = World::new().await;
    let (first, copy) = (world.process(10, 1), world.process(20, 2));
    first.joins().await;
    let (class, message) = copy.register().await.unwrap_err();
    assert_eq!(class, NODE_IN_USE);
    assert!(message.contains("is at 127.0.0.1:1 and sends heartbeats"), "{message}");
    assert!(!copy.beat().await.unwrap().known);
    assert!(first.beat().await.unwrap().known);
    assert!(!world.is_quiet());
}

/// The first one is gone, and the copy becomes the node. When the first comes back it is told to register, and refused.
#[tokio::test]
async fn a_process_whose_place_was_taken_does_not_get_it_back() {
    let world = World::new().await;
    let (first, copy) = (world.process(10, 1), world.process(20, 2));
    first.joins().await;
    let first_again = world.process(10, 1);
    drop(first);
    world.until("its end is noticed", |world| world.is_quiet()).await;
    copy.joins().await;
    assert!(!first_again.beat().await.unwrap().known);
    let (class, message) = first_again.register().await.unwrap_err();
    assert_eq!(class, NODE_IN_USE);
    assert!(message.contains("at 127.0.0.1:2"), "{message}");
    assert!(copy.beat().await.unwrap().known);
}

/// A process that starts again on its port is the node at once, though the metadata server has not noticed the end of
/// the one before.
#[tokio::test]
async fn a_restart_is_no_copy() {
    let world = World::new().await;
    let (first, next) = (world.process(10, 1), world.process(20, 1));
    first.joins().await;
    next.joins().await;
    let (class, message) = first.beat().await.unwrap_err();
    assert_eq!(class, NODE_SUPERSEDED);
    assert!(message.contains("at 127.0.0.1:1"), "{message}");
}

/// A stranger that beats once in a node's name and hangs up marks nobody as gone, and leaves no figures.
#[tokio::test]
async fn a_strangers_heartbeat_changes_nothing() {
    let world = World::new().await;
    let node = world.process(10, 1);
    node.joins().await;
    for start_ms in [0, 10, 20] {
        let mut stranger = world.process(start_ms, 1);
        stranger.incarnation.nonce ^= 64;
        assert!(stranger.beat().await.map_or(true, |orders| !orders.known));
    }
    let nameless = HeartbeatRequest { node: ID.to_string(), ..HeartbeatRequest::default() };
    let (_, message) = node.ask::<Orders>(HEARTBEAT, &nameless).await.unwrap_err();
    assert!(message.contains("no incarnation"), "{message}");
    io::time::sleep(Duration::from_millis(200)).await;
    assert!(!world.is_quiet());
    // Over two connections: the end of the earlier one says nothing.
    let again = world.process(10, 1);
    again.joins().await;
    drop(node);
    io::time::sleep(Duration::from_millis(200)).await;
    assert!(!world.is_quiet());
    drop(again);
    world.until("the end of the last one counts", |world| world.is_quiet()).await;
}

/// A message of a process counts over a connection over which that process registered, and over no other.
#[tokio::test]
async fn a_process_registers_over_each_of_its_connections() {
    let world = World::new().await;
    let (node, again) = (world.process(10, 1), world.process(10, 1));
    node.joins().await;
    assert!(!again.beat().await.unwrap().known && !again.tell_all().await.unwrap().known);
    drop(again);
    io::time::sleep(Duration::from_millis(200)).await;
    assert!(!world.is_quiet(), "the end of a connection that is nobody's says nothing");
    let again = world.process(10, 1);
    assert!(!again.register().await.unwrap().new);
    assert!(again.beat().await.unwrap().known && again.tell_all().await.unwrap().known);
    let later = Process { client: again.client.clone(), incarnation: world.process(20, 1).incarnation, ..again };
    assert!(!later.beat().await.unwrap().known, "another process, which has not registered");
    assert!(node.beat().await.unwrap().known);
}

/// The registration binds the connection, before any heartbeat.
#[tokio::test]
async fn messages_of_another_node_do_not_count_on_a_nodes_connection() {
    let world = World::new().await;
    let (node, mut other) = (world.process(10, 1), world.process(20, 2));
    node.register().await.unwrap();
    other.id = NodeId([2; 16]);
    other.joins().await;
    let over = Process { client: node.client.clone(), id: other.id, port: 2, incarnation: other.incarnation };
    let (class, message) = over.register().await.unwrap_err();
    assert_eq!(class, hdfs::exception::ACCESS_CONTROL);
    assert!(message.starts_with("this connection is datanode "), "{message}");
    assert!(!over.beat().await.unwrap().known);
    assert!(node.beat().await.unwrap().known && other.beat().await.unwrap().known);
}

/// Invented nodes leave nothing behind unless they send a heartbeat, and keep none out that does.
#[tokio::test]
async fn invented_nodes_leave_nothing() {
    let world = World::new().await;
    world.process(10, 1).joins().await;
    let invented = |number: u8| Process { id: NodeId([100 + number; 16]), ..world.process(10, 1) };
    for number in 0..100 {
        assert!(invented(number).register().await.unwrap().new);
    }
    assert_eq!(world.node_count(), 1);
    invented(0).joins().await;
    assert_eq!(world.node_count(), 2);
}

/// Of a process that is refused nothing is remembered for the next leader: there is a place for each datanode.
#[tokio::test]
async fn a_refused_registration_is_not_remembered() {
    let world = World::new().await;
    let node = world.process(10, 1);
    node.joins().await;
    let describe = async |rack: &str, version: &str| {
        let (rack, version) = (rack.to_owned(), version.to_owned());
        let request = RegisterRequest { rack, version, ..node.registration() };
        node.ask::<RegisterResponse>(REGISTER, &request).await.map_err(|(_, message)| message)
    };
    describe("/rack1", "second").await.unwrap();
    let refused = describe("/rack2", "third").await.unwrap_err();
    assert!(refused.contains("changed less than a minute ago"), "{refused}");
    let versions = world.metad.running().as_ref().unwrap().server.leadership.heard.versions();
    assert_eq!(versions.into_iter().collect::<Vec<_>>(), [(ID, "second".to_owned())]);
}

#[tokio::test]
async fn an_address_is_looked_at_before_anything_is_done_with_it() {
    let world = World::new().await;
    let process = world.process(10, 1);
    let register = async |ip: &str, advertised| {
        let request = RegisterRequest { ip: ip.into(), advertised, ..process.registration() };
        process.ask::<RegisterResponse>(REGISTER, &request).await.map_err(|(_, message)| message)
    };
    for ip in ["", "--help", "10.0.0.1; reboot", "0.0.0.0", "node7"] {
        assert!(register(ip, true).await.unwrap_err().contains("is no address"), "{ip}");
    }
    let moved = register("10.66.66.66", false).await.unwrap_err();
    assert!(moved.contains("calls from 127.0.0.1") && moved.contains("set ip = \"10.66.66.66\""), "{moved}");
    assert!(register("10.66.66.66", true).await.unwrap().new);
    assert!(register("127.0.0.2", false).await.unwrap().new);
    assert!(register("::ffff:127.0.0.1", false).await.unwrap().new);
}

/// It would be the later one of all that come after it.
#[tokio::test]
async fn a_process_of_the_far_future_is_no_datanode() {
    let world = World::new().await;
    let now = world.core.now().0;
    let (_, refused) = world.process(now + 48 * 3_600_000, 1).register().await.unwrap_err();
    assert!(refused.contains("its clock is more than a day ahead"), "{refused}");
    world.process(now + 3_600_000, 1).joins().await;
}
