//! A metadata server with datanodes that are only a map each, reached over real RPC; time is turned by hand.

pub(crate) mod small_files;

use bytes::Bytes;
use hdfs::Exception;
use hdfs::exception::INVALID_BLOCK_TOKEN;
use hdfs::proto::*;
use io::{Clock, HeldPorts, ManualClock};
use metad::{Config, Metad};
use prost::Message;
use rpc::CallError;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use types::{Fitness, Millis, NodeId, ReplicaState};
use wire::node::{self, Orders, Replica};

pub(crate) const CLIENT: &str = hdfs::protocol::CLIENT;
pub(crate) const MB: u64 = 1 << 20;

/// What a datanode has, by block.
pub(crate) type Replicas = Arc<Mutex<BTreeMap<u64, Replica>>>;

pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) metad: Metad,
    pub(crate) nodes: Vec<Datanode>,
}

/// Stories do not wait for as long as a machine takes to start.
const LOST_AFTER_MS: u64 = 15_000;

pub(crate) fn config(dir: &Path) -> Config {
    let config = Config::new(dir.join("meta"), "127.0.0.1:0".parse().unwrap());
    Config { lost_after_ms: LOST_AFTER_MS, ..config }
}

/// Ports of this machine for servers that are to know each other's. They are theirs as long as the first is kept.
pub(crate) fn held_ports(count: usize) -> (HeldPorts, Vec<u16>) {
    let mut held = HeldPorts::default();
    let ports = (0..count).map(|_| held.hold(([127, 0, 0, 1], 0).into()).unwrap().port()).collect();
    (held, ports)
}

impl World {
    /// Without datanodes, set up by the caller.
    pub(crate) async fn with(dir: tempfile::TempDir, set: impl FnOnce(&mut Config)) -> Self {
        let clock = Arc::new(ManualClock::at(Millis(1_800_000_000_000)));
        let mut config = config(dir.path());
        set(&mut config);
        let metad = metad::start_with_clock(config, clock.clone()).await.unwrap();
        Self { dir, clock, metad, nodes: Vec::new() }
    }

    pub(crate) async fn new(node_count: u8) -> Self {
        let mut world = Self::with(tempfile::tempdir().unwrap(), |_| {}).await;
        for number in 1..=node_count {
            let node = Datanode::new(number).await;
            node.register(world.addr()).await;
            world.nodes.push(node);
        }
        world
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.metad.rpc_addr()
    }

    /// Clean stop and start on the same directory. Datanodes register again only when told to.
    pub(crate) async fn restart(&mut self) {
        self.restart_with(|_| {}).await;
    }

    pub(crate) async fn restart_with(&mut self, adjust: impl FnOnce(&mut Config)) {
        self.metad.shutdown().await;
        let mut config = config(self.dir.path());
        adjust(&mut config);
        self.metad = metad::start_with_clock(config, self.clock.clone()).await.unwrap();
    }

    pub(crate) async fn register_all(&self) {
        for node in &self.nodes {
            node.register(self.addr()).await;
        }
    }

    pub(crate) fn user(&self, name: &str) -> User {
        User { rpc: rpc::Client::new(self.addr().to_string(), name.into(), CLIENT) }
    }

    /// The user that runs the server.
    pub(crate) fn root(&self) -> User {
        self.user(&host::user::current())
    }

    /// Time goes on, in steps short enough that beating nodes are not lost.
    pub(crate) async fn pass(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() {
            let step = left.min(Duration::from_secs(5));
            self.clock.advance(step);
            left -= step;
            self.beat().await;
        }
    }

    /// All at once: who sleeps wakes much later.
    pub(crate) async fn clock_on(&self, time: Duration) {
        self.clock.advance(time);
        self.beat().await;
    }

    pub(crate) async fn beat(&self) {
        for node in self.nodes.iter().filter(|node| node.is_up) {
            node.beat(self.addr()).await;
        }
    }

    /// Lets background tasks work until `done`; datanodes beat meanwhile and time passes.
    pub(crate) async fn until(&self, what: &str, mut done: impl AsyncFnMut() -> bool) {
        for round in 0..1200 {
            if done().await {
                return;
            }
            // No more of their time passes when a slow disk is what takes long.
            if round < 200 {
                self.clock.advance(Duration::from_millis(500));
            }
            self.beat().await;
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("waited in vain: {what}");
    }

    pub(crate) fn now(&self) -> Millis {
        self.clock.now()
    }

    pub(crate) fn node_of(&self, place: &DatanodeInfoProto) -> &Datanode {
        self.nodes.iter().find(|node| node.id.to_string() == place.id.datanode_uuid).unwrap()
    }

    /// The chain writes `len` bytes of a block: open on all its nodes.
    pub(crate) fn write(&self, block: &LocatedBlockProto, len: u64) {
        for place in &block.locs {
            self.node_of(place).put(block, len, ReplicaState::Open);
        }
    }

    /// The chain puts the block on all its nodes.
    pub(crate) fn put(&self, block: &LocatedBlockProto, len: u64) {
        for place in &block.locs {
            self.node_of(place).put(block, len, ReplicaState::Finalized);
        }
    }

    pub(crate) fn replica_count(&self, block: u64) -> usize {
        self.nodes.iter().filter(|node| node.replica(block).is_some()).count()
    }
}

pub(crate) struct Datanode {
    pub(crate) id: NodeId,
    pub(crate) number: u8,
    pub(crate) is_up: bool,
    pub(crate) replicas: Replicas,
    /// How it behaves when it is asked.
    pub(crate) manners: Arc<Mutex<Manners>>,
    /// What it was told to copy, and copies never.
    pub(crate) copies: Mutex<Vec<node::CopyOrder>>,
    _server: rpc::Server,
    ipc_addr: SocketAddr,
    deleted: Mutex<Vec<u64>>,
    /// Its connection to each server, kept as a datanode keeps it: one that ends counts as the end of its process.
    metads: Mutex<BTreeMap<SocketAddr, rpc::Client>>,
}

#[derive(Debug, Default)]
pub(crate) struct Manners {
    /// It beats, and answers no question.
    pub(crate) hangs: bool,
    /// It shows no replica to whose order has a token of another file.
    pub(crate) compares_tokens: bool,
    /// Blocks whose replicas it reads as damaged.
    pub(crate) damaged: BTreeSet<u64>,
}

/// The port on which a datanode takes part in recoveries.
struct Ipc {
    replicas: Replicas,
    manners: Arc<Mutex<Manners>>,
}

impl rpc::Service for Ipc {
    async fn call(&self, call: rpc::Call) -> Result<Bytes, Exception> {
        if self.manners.lock().unwrap().hangs {
            return std::future::pending().await;
        }
        let mut replicas = self.replicas.lock().unwrap();
        match call.method.as_str() {
            node::BEGIN_RECOVERY => {
                let request: node::BeginRecoveryRequest = call.request()?;
                let replica = replicas.get(&request.block).copied();
                if self.manners.lock().unwrap().compares_tokens
                    && let (Some(replica), Some(token)) = (&replica, &request.token)
                    && wire::BlockScope::decode(&token.identifier).unwrap().unwrap().file.0 != replica.file
                {
                    return Err(Exception::new(INVALID_BLOCK_TOKEN, "the token is another file's"));
                }
                Ok(node::BeginRecoveryResponse { replica }.encode_to_vec().into())
            }
            node::FINISH_RECOVERY => {
                let request: node::FinishRecoveryRequest = call.request()?;
                let replica = replicas.get_mut(&request.block).ok_or_else(|| Exception::io("no such replica"))?;
                assert!(request.len <= replica.len, "cut to more than is there");
                replica.generation = request.generation;
                replica.len = request.len;
                replica.state = ReplicaState::Finalized as i32;
                Ok(node::FinishRecoveryResponse {}.encode_to_vec().into())
            }
            node::COMPARE => {
                let request: node::CompareRequest = call.request()?;
                let fit = |wanted: &Replica| match replicas.get(&wanted.block) {
                    Some(have) if have.generation < wanted.generation => Fitness::Absent,
                    Some(have) if have.len >= wanted.len => Fitness::Fit,
                    Some(_) => Fitness::Unfit,
                    None => Fitness::Absent,
                };
                let fitness = request.replicas.iter().map(|wanted| fit(wanted).into()).collect();
                Ok(node::CompareResponse { fitness, ..node::CompareResponse::default() }.encode_to_vec().into())
            }
            node::VERIFY => {
                let request: node::VerifyRequest = call.request()?;
                let fitness = match replicas.contains_key(&request.block) {
                    false => Fitness::Absent,
                    true if self.manners.lock().unwrap().damaged.contains(&request.block) => Fitness::Unfit,
                    true => Fitness::Fit,
                };
                Ok(node::VerifyResponse { fitness: fitness.into() }.encode_to_vec().into())
            }
            _ => Err(call.no_such_method()),
        }
    }
}

impl Datanode {
    pub(crate) async fn new(number: u8) -> Self {
        let replicas = Replicas::default();
        let manners = Arc::<Mutex<Manners>>::default();
        let ipc = Arc::new(Ipc { replicas: replicas.clone(), manners: manners.clone() });
        let server = rpc::Server::bind("127.0.0.1:0", rpc::ServerOptions::default(), ipc).await.unwrap();
        let ipc_addr = server.local_addr();
        let id = NodeId([number; 16]);
        let (copies, deleted, metads) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { id, number, is_up: true, replicas, manners, copies, _server: server, ipc_addr, deleted, metads }
    }

    /// It dies: it beats no more, and nobody answers on its port.
    pub(crate) fn kill(&mut self) {
        self.is_up = false;
        self.ipc_addr.set_port(1);
        self.metads.lock().unwrap().clear();
    }

    pub(crate) fn replica(&self, block: u64) -> Option<Replica> {
        self.replicas.lock().unwrap().get(&block).copied()
    }

    pub(crate) fn put(&self, block: &LocatedBlockProto, len: u64, state: ReplicaState) {
        let scope = wire::BlockScope::decode(&block.block_token.identifier).unwrap().expect("a token of ours");
        let replica = Replica {
            block: block.b.block_id,
            generation: block.b.generation_stamp,
            len,
            file: scope.file.0,
            home: scope.home.0,
            state: state as i32,
        };
        self.replicas.lock().unwrap().insert(replica.block, replica);
    }

    fn usage() -> node::Usage {
        node::Usage { capacity_len: 1 << 40, used_len: 1 << 30, free_len: 1 << 39 }
    }

    pub(crate) fn rpc(&self, metad: SocketAddr) -> rpc::Client {
        let connect = || rpc::Client::new(metad.to_string(), "datanode".into(), node::NODE_PROTOCOL);
        self.metads.lock().unwrap().entry(metad).or_insert_with(connect).clone()
    }

    pub(crate) async fn register(&self, metad: SocketAddr) -> String {
        let request = node::RegisterRequest {
            node: self.id.to_string(),
            ip: "127.0.0.1".into(),
            host: format!("node{}", self.number),
            xfer_port: 10_000 + u32::from(self.number),
            ipc_port: self.ipc_addr.port().into(),
            info_port: 0,
            storage: format!("DS-{}", self.number),
            rack: format!("/rack{}", self.number % 2),
            usage: Some(Self::usage()),
            version: "test".into(),
            pool: String::new(),
            incarnation: Some(Self::INCARNATION),
            advertised: false,
            outside: None,
        };
        let answer: node::RegisterResponse = self.rpc(metad).call(node::REGISTER, &request).await.unwrap();
        if answer.new {
            self.beat(metad).await;
        }
        answer.block_pool
    }

    const INCARNATION: node::Incarnation = node::Incarnation { start_ms: 1, nonce: 1 };

    pub(crate) fn sender(&self) -> node::Sender {
        node::Sender {
            incarnation: Some(Self::INCARNATION),
            addr: format!("127.0.0.1:{}", 10_000 + u32::from(self.number)),
        }
    }

    pub(crate) async fn beat(&self, metad: SocketAddr) -> Orders {
        self.beat_with(metad, 0).await
    }

    /// It has the keys of this revision.
    pub(crate) async fn beat_with(&self, metad: SocketAddr, token_revision: u64) -> Orders {
        let request = node::HeartbeatRequest {
            token_revision,
            node: self.id.to_string(),
            usage: Some(Self::usage()),
            transfer_count: 0,
            put: Vec::new(),
            deleted: std::mem::take(&mut self.deleted.lock().unwrap()),
            sender: Some(self.sender()),
            ..Default::default()
        };
        let orders = self.ask(metad, node::HEARTBEAT, &request).await;
        if orders.tell_all {
            self.tell_catalogue(metad).await;
        }
        orders
    }

    /// Tells that everything it has was just put.
    pub(crate) async fn tell_puts(&self, metad: SocketAddr) -> Orders {
        let request = node::HeartbeatRequest {
            node: self.id.to_string(),
            usage: Some(Self::usage()),
            transfer_count: 0,
            put: self.replicas.lock().unwrap().values().copied().collect(),
            sender: Some(self.sender()),
            ..Default::default()
        };
        self.ask(metad, node::HEARTBEAT, &request).await
    }

    pub(crate) async fn tell_catalogue(&self, metad: SocketAddr) -> Orders {
        let request = node::CatalogueRequest {
            node: self.id.to_string(),
            from: 0,
            through: u64::MAX,
            replicas: self.replicas.lock().unwrap().values().copied().collect(),
            writing: Vec::new(),
            sender: Some(self.sender()),
        };
        self.ask(metad, node::CATALOGUE, &request).await
    }

    async fn ask<Q: Message>(&self, metad: SocketAddr, method: &str, request: &Q) -> Orders {
        let orders: Orders = self.rpc(metad).call(method, request).await.unwrap();
        self.copies.lock().unwrap().extend(orders.copy.iter().cloned());
        let mut replicas = self.replicas.lock().unwrap();
        for order in &orders.delete {
            let gone = replicas.get(&order.block).is_some_and(|have| have.generation <= order.generation_at_most);
            if gone {
                replicas.remove(&order.block);
                self.deleted.lock().unwrap().push(order.block);
            }
        }
        orders
    }
}

/// A client in somebody's name.
#[derive(Clone)]
pub(crate) struct User {
    pub(crate) rpc: rpc::Client,
}

/// The last part of the Java class, and the message.
pub(crate) fn refusal<T: std::fmt::Debug>(answer: Result<T, CallError>) -> (String, String) {
    match answer {
        Err(CallError::Remote { class, message, .. }) => {
            (class.rsplit(['.', '$']).next().unwrap_or("").trim_end_matches("Exception").to_owned(), message)
        }
        other => panic!("no refusal: {other:?}"),
    }
}

fn permission(perm: u32) -> FsPermissionProto {
    FsPermissionProto { perm }
}

impl User {
    pub(crate) async fn ask<Q: Message, A: Message + Default>(
        &self,
        method: &str,
        request: &Q,
    ) -> Result<A, CallError> {
        self.rpc.call(method, request).await
    }

    /// A call of another protocol than HDFS's.
    pub(crate) async fn ask_in<Q: Message, A: Message + Default>(
        &self,
        protocol: &str,
        method: &str,
        request: &Q,
    ) -> Result<A, CallError> {
        self.rpc.attempt_in(protocol, self.rpc.name_call(), method, request).await
    }

    pub(crate) async fn status(&self, src: &str) -> Option<HdfsFileStatusProto> {
        let answer: Result<GetFileInfoResponseProto, _> =
            self.ask("getFileInfo", &GetFileInfoRequestProto { src: src.into() }).await;
        answer.unwrap().fs
    }

    pub(crate) async fn mkdirs(&self, src: &str, mode: u32) -> Result<bool, CallError> {
        let request =
            MkdirsRequestProto { src: src.into(), masked: permission(mode), create_parent: true, unmasked: None };
        self.ask("mkdirs", &request).await.map(|answer: MkdirsResponseProto| answer.result)
    }

    pub(crate) async fn delete(&self, src: &str, recursive: bool) -> Result<bool, CallError> {
        let request = DeleteRequestProto { src: src.into(), recursive };
        self.ask("delete", &request).await.map(|answer: DeleteResponseProto| answer.result)
    }

    pub(crate) fn create_request(src: &str, client: &str, flags: u32) -> CreateRequestProto {
        CreateRequestProto {
            src: src.into(),
            masked: permission(0o644),
            client_name: client.into(),
            create_flag: flags,
            create_parent: true,
            replication: 3,
            block_size: MB,
            crypto_protocol_version: vec![CryptoProtocolVersionProto::EncryptionZones as i32],
            unmasked: None,
            ec_policy_name: None,
            storage_policy: None,
        }
    }

    pub(crate) async fn create(&self, src: &str, client: &str) -> Result<HdfsFileStatusProto, CallError> {
        let request = Self::create_request(src, client, CreateFlagProto::Create as u32);
        let answer: CreateResponseProto = self.ask("create", &request).await?;
        Ok(answer.fs.expect("trap 30: the answer to create has a status"))
    }

    pub(crate) async fn append(&self, src: &str, client: &str) -> Result<AppendResponseProto, CallError> {
        let flag = Some(CreateFlagProto::Append as u32);
        self.ask("append", &AppendRequestProto { src: src.into(), client_name: client.into(), flag }).await
    }

    pub(crate) async fn add_block(
        &self,
        src: &str,
        client: &str,
        previous: Option<ExtendedBlockProto>,
    ) -> Result<LocatedBlockProto, CallError> {
        self.add_block_without(src, client, previous, Vec::new()).await
    }

    pub(crate) async fn add_block_without(
        &self,
        src: &str,
        client: &str,
        previous: Option<ExtendedBlockProto>,
        exclude_nodes: Vec<DatanodeInfoProto>,
    ) -> Result<LocatedBlockProto, CallError> {
        let request = AddBlockRequestProto {
            src: src.into(),
            client_name: client.into(),
            previous,
            exclude_nodes,
            file_id: None,
            favored_nodes: Vec::new(),
            flags: Vec::new(),
        };
        self.ask("addBlock", &request).await.map(|answer: AddBlockResponseProto| answer.block)
    }

    pub(crate) async fn complete(
        &self,
        src: &str,
        client: &str,
        last: Option<ExtendedBlockProto>,
    ) -> Result<bool, CallError> {
        let request = CompleteRequestProto { src: src.into(), client_name: client.into(), last, file_id: None };
        self.ask("complete", &request).await.map(|answer: CompleteResponseProto| answer.result)
    }

    pub(crate) async fn locations(&self, src: &str, offset: u64, length: u64) -> Result<LocatedBlocksProto, CallError> {
        let request = GetBlockLocationsRequestProto { src: src.into(), offset, length };
        let answer: GetBlockLocationsResponseProto = self.ask("getBlockLocations", &request).await?;
        Ok(answer.locations.unwrap())
    }

    pub(crate) async fn listing(
        &self,
        src: &str,
        start_after: &str,
        need_location: bool,
    ) -> Result<Option<DirectoryListingProto>, CallError> {
        let start_after = start_after.as_bytes().to_vec().into();
        let request = GetListingRequestProto { src: src.into(), start_after, need_location };
        self.ask("getListing", &request).await.map(|answer: GetListingResponseProto| answer.dir_list)
    }

    pub(crate) async fn recover_lease(&self, src: &str) -> Result<bool, CallError> {
        let request = RecoverLeaseRequestProto { src: src.into(), client_name: "recoverer".into() };
        self.ask("recoverLease", &request).await.map(|answer: RecoverLeaseResponseProto| answer.result)
    }

    pub(crate) async fn is_closed(&self, src: &str) -> Result<bool, CallError> {
        let request = IsFileClosedRequestProto { src: src.into() };
        self.ask("isFileClosed", &request).await.map(|answer: IsFileClosedResponseProto| answer.result)
    }

    pub(crate) async fn renew(&self, client: &str) {
        let request = RenewLeaseRequestProto { client_name: client.into(), namespaces: Vec::new() };
        let _: RenewLeaseResponseProto = self.ask("renewLease", &request).await.unwrap();
    }

    /// A whole file: blocks of these lengths, put by their chains.
    pub(crate) async fn write(&self, world: &World, src: &str, lens: &[u64]) -> Vec<LocatedBlockProto> {
        let client = "writer";
        self.create(src, client).await.unwrap();
        let mut previous = None;
        let mut blocks = Vec::new();
        for len in lens {
            let block = self.add_block(src, client, previous).await.unwrap();
            world.put(&block, *len);
            previous = Some(written(&block, *len));
            blocks.push(block);
        }
        assert!(self.complete(src, client, previous).await.unwrap());
        blocks
    }
}

/// The block as its writer names it when it has written `len` bytes.
pub(crate) fn written(block: &LocatedBlockProto, len: u64) -> ExtendedBlockProto {
    ExtendedBlockProto { num_bytes: Some(len), ..block.b.clone() }
}

pub(crate) fn home_of(block: &LocatedBlockProto) -> u64 {
    wire::BlockScope::decode(&block.block_token.identifier).unwrap().unwrap().home.0
}
