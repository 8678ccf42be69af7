//! The session with the metadata server, of which there is only a sketch here: it notes what it is told.

use crate::support::{Ask, Cluster, GENERATION, POOL, block_proto, chain, eventually, info, pattern};
use bytes::Bytes;
use hdfs::Exception;
use hdfs::proto::{self, BlockConstructionStage as Stage};
use hdfs::protocol::CLIENT_DATANODE;
use prost::Message;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use types::{Fitness, ReplicaState};
use wire::node::{self, *};
use wire::{BlockScope, Status};

#[derive(Default)]
struct Told {
    registered: Vec<RegisterRequest>,
    heartbeats: Vec<HeartbeatRequest>,
    catalogue: Vec<CatalogueRequest>,
    /// What the next heartbeat is answered with.
    orders: Option<Orders>,
    /// As a server that was restarted: knows nobody until it registers again.
    forgetful: bool,
    standby: bool,
    term: u64,
    /// As a server of another store.
    pool: Option<&'static str>,
    /// Class of the error that all is answered with.
    refuses: Option<&'static str>,
}

struct Metad {
    told: Mutex<Told>,
}

impl rpc::Service for Metad {
    async fn call(&self, call: rpc::Call) -> Result<Bytes, Exception> {
        assert_eq!(call.protocol, NODE_PROTOCOL);
        let mut told = self.told.lock().unwrap();
        let known = !told.forgetful;
        if let Some(class) = told.refuses {
            return Err(Exception::new(class, "because of another one"));
        }
        let answer = match call.method.as_str() {
            REGISTER => {
                told.registered.push(call.request()?);
                told.forgetful = false;
                let block_pool = told.pool.unwrap_or(POOL).into();
                let Told { standby, term, .. } = *told;
                RegisterResponse { block_pool, standby, term, new: false, tokens: None }.encode_to_vec()
            }
            CATALOGUE => {
                told.catalogue.push(call.request()?);
                Orders { known, standby: told.standby, term: told.term, ..Orders::default() }.encode_to_vec()
            }
            HEARTBEAT => {
                told.heartbeats.push(call.request()?);
                let orders = told.orders.take().unwrap_or_default();
                Orders { known, standby: told.standby, term: told.term, ..orders }.encode_to_vec()
            }
            _ => return Err(call.no_such_method()),
        };
        Ok(answer.into())
    }
}

type Started = (Arc<Metad>, rpc::Server, tokio::runtime::Runtime);

fn metad() -> Started {
    let metad = Arc::new(Metad { told: Mutex::default() });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let bind = rpc::Server::bind("127.0.0.1:0", rpc::ServerOptions::default(), Arc::clone(&metad));
    let server = runtime.block_on(bind).unwrap();
    (metad, server, runtime)
}

struct World {
    cluster: Cluster,
    metad: Arc<Metad>,
    server: Option<rpc::Server>,
}

impl World {
    fn new() -> Self {
        let (metad, server, runtime) = metad();
        let addr = server.local_addr();
        let mut cluster = Cluster::with(1, |config| {
            config.metad = addr.to_string();
            config.limits.left_open_ms = 300;
            config.limits.in_use_ms = 1000;
        });
        cluster.runtimes.push(runtime);
        cluster.runtime.block_on(cluster.node(0).registered());
        Self { cluster, metad, server: Some(server) }
    }

    fn told<T>(&self, look: impl FnOnce(&mut Told) -> T) -> T {
        look(&mut self.metad.told.lock().unwrap())
    }

    /// Calls the node's RPC port.
    fn call<Q: Message, A: Message + Default>(
        &self,
        protocol: &'static str,
        method: &str,
        request: &Q,
    ) -> Result<A, rpc::CallError> {
        let client = rpc::Client::new(self.cluster.node(0).ipc_addr().to_string(), "blk_1_1001".into(), protocol);
        self.cluster.runtime.block_on(client.call(method, request))
    }

    fn visible_len(&self, block: u64) -> Result<u64, String> {
        let request = proto::GetReplicaVisibleLengthRequestProto { block: block_proto(block, GENERATION, 0) };
        self.call::<_, proto::GetReplicaVisibleLengthResponseProto>(
            CLIENT_DATANODE,
            "getReplicaVisibleLength",
            &request,
        )
        .map(|response| response.length)
        .map_err(|error| error.to_string())
    }
}

#[test]
fn a_node_says_who_it_is_and_what_it_has() {
    let world = World::new();
    let node = world.cluster.node(0);
    let me = world.told(|told| told.registered[0].clone());
    assert_eq!(me.node, node.node_id().to_string());
    assert_eq!((me.ip.as_str(), me.host.as_str(), me.rack.as_str()), ("127.0.0.1", "localhost", "/default-rack"));
    assert_eq!((me.xfer_port, me.ipc_port), (node.xfer_addr().port().into(), node.ipc_addr().port().into()));
    let usage = me.usage.unwrap();
    assert!(usage.capacity_len >= usage.free_len && usage.free_len > 0);
    eventually("a catalogue", || world.told(|told| !told.catalogue.is_empty()));
    let page = world.told(|told| told.catalogue[0].clone());
    assert_eq!((page.from, page.through, page.replicas.len()), (0, u64::MAX, 0));
    eventually("heartbeats", || world.told(|told| told.heartbeats.len() >= 2));
}

#[test]
fn a_block_that_was_put_is_told_soon_with_whose_it_is() {
    let world = World::new();
    let scope = BlockScope { file: types::InodeId(16_386), home: types::ContainerId(7) };
    let mut chain = world.cluster.chain(&[0], &Ask { token: scope.encode(), ..Ask::create(5) }).unwrap();
    chain.send_all(&pattern(5, 1000));
    chain.finish();
    let put = || world.told(|told| told.heartbeats.iter().flat_map(|beat| beat.put.clone()).collect::<Vec<_>>());
    eventually("it is told", || !put().is_empty());
    let replica = Replica { block: 5, generation: GENERATION, len: 1000, file: 16_386, home: 7, state: 0 };
    assert_eq!(put(), [replica]);
}

#[test]
fn orders_are_obeyed_and_answered() {
    let world = World::new();
    world.cluster.write(&[0], 5, b"goes");
    world.cluster.write(&[0], 6, b"stays");
    let order = |block, generation_at_most| Deletion { block, generation_at_most };
    world.told(|told| {
        told.orders = Some(Orders {
            known: true,
            delete: vec![order(5, GENERATION), order(6, GENERATION - 1), order(77, GENERATION)],
            owners: vec![Owner { block: 6, file: 16_400, home: 3 }],
            ..Orders::default()
        });
    });
    eventually("the deletion is told", || world.told(|told| told.heartbeats.iter().any(|beat| beat.deleted == [5])));
    assert!(world.cluster.read(0, 5, 0, 4).is_err());
    assert_eq!(world.cluster.read(0, 6, 0, 5).unwrap(), b"stays");
    // A server that knows nobody any more is told everything again.
    world.told(|told| told.forgetful = true);
    eventually("it registers again", || world.told(|told| told.registered.len() == 2 && told.catalogue.len() == 2));
    let page = world.told(|told| told.catalogue[1].clone());
    assert_eq!(page.replicas.len(), 1);
    assert_eq!((page.replicas[0].block, page.replicas[0].file, page.replicas[0].home), (6, 16_400, 3));
}

#[test]
fn what_a_broken_chain_leaves_is_told() {
    let world = World::new();
    let mut chain = world.cluster.chain(&[0], &Ask::create(5)).unwrap();
    chain.send_all(&pattern(5, 1000));
    drop(chain);
    let stale = || world.told(|told| told.heartbeats.iter().flat_map(|beat| beat.stale.clone()).collect::<Vec<_>>());
    eventually("it is told", || !stale().is_empty());
    assert_eq!((stale()[0].block, stale()[0].len, stale()[0].state()), (5, 1000, ReplicaState::Open));
}

#[test]
fn a_node_serves_while_the_metadata_server_is_away() {
    let mut world = World::new();
    world.cluster.runtime.block_on(world.server.take().unwrap().shutdown());
    world.cluster.write(&[0], 5, b"all the same");
    assert_eq!(world.cluster.read(0, 5, 0, 12).unwrap(), b"all the same");
    world.cluster.stop(0);
    world.cluster.start(0);
    assert_eq!(world.cluster.read(0, 5, 0, 12).unwrap(), b"all the same");
    // It still knows its block pool, and refuses another's blocks.
    let mut connection = world.cluster.connect(0);
    let mut header = crate::support::header(block_proto(5, GENERATION, 0));
    header.base_header.block.pool_id = "BP-of-others".into();
    connection.send_op(wire::Op::ReadBlock, &proto::OpReadBlockProto { header, len: 1, ..Default::default() });
    assert!(connection.answer().message().contains("BP-of-others"));
}

#[test]
fn the_visible_length_is_what_was_acknowledged() {
    let world = World::new();
    let mut chain = world.cluster.chain(&[0], &Ask::create(5)).unwrap();
    assert_eq!(world.visible_len(5), Ok(0));
    chain.send_all(&pattern(5, 1000));
    assert_eq!(world.visible_len(5), Ok(1000));
    chain.finish();
    assert_eq!(world.visible_len(5), Ok(1000));
    let unknown = world.visible_len(6).unwrap_err();
    assert!(unknown.starts_with("org.apache.hadoop.hdfs.server.datanode.ReplicaNotFoundException"), "{unknown}");
}

/// The metadata server recovers a block: its writer is shut out at once, though its connection stands.
#[test]
fn recovery_shuts_the_writer_out_and_ends_the_block() {
    let world = World::new();
    let data = pattern(5, 3000);
    let mut chain = world.cluster.chain(&[0], &Ask::create(5)).unwrap();
    chain.send(&data[..2000]);
    chain.acked(0);
    let begin = BeginRecoveryRequest { block: 5, generation: GENERATION + 5, token: None };
    let found: BeginRecoveryResponse = world.call(REPLICA_PROTOCOL, BEGIN_RECOVERY, &begin).unwrap();
    let found = found.replica.unwrap();
    assert_eq!((found.len, found.generation, found.state()), (2000, GENERATION, ReplicaState::Open));
    chain.send_at(2000, &[], false);
    chain.send_at(1536, &data[1536..], false);
    let acks: Vec<_> = std::iter::from_fn(|| chain.ack()).collect();
    assert!(
        acks.iter().all(|ack| ack.seqno == 1 && ack.replies == [Status::SUCCESS]),
        "nothing new is acknowledged: {acks:?}"
    );
    let finish = FinishRecoveryRequest { block: 5, generation: GENERATION + 5, len: 1900, token: None };
    let _: FinishRecoveryResponse = world.call(REPLICA_PROTOCOL, FINISH_RECOVERY, &finish).unwrap();
    assert!(world.cluster.read(0, 5, 0, 1900).unwrap() == data[..1900]);
    assert!(world.cluster.read(0, 5, 0, 1901).is_err());
    let put = || world.told(|told| told.heartbeats.iter().flat_map(|beat| beat.put.clone()).collect::<Vec<_>>());
    eventually("it is told", || put().iter().any(|put| put.generation == GENERATION + 5 && put.len == 1900));
    let nowhere: BeginRecoveryResponse = world
        .call(REPLICA_PROTOCOL, BEGIN_RECOVERY, &BeginRecoveryRequest { block: 99, generation: 2000, token: None })
        .unwrap();
    assert_eq!(nowhere.replica, None);
}

/// Two servers hear that the node lives; what is here is told to the one that leads, all of it to one that leads anew,
/// and one that does not know that it was followed by another orders nothing.
#[test]
fn of_several_servers_the_leader_counts() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let metads: Vec<Arc<Metad>> = (0..2).map(|_| Arc::new(Metad { told: Mutex::default() })).collect();
    let told = |number: usize| metads[number].told.lock().unwrap();
    (told(0).term, told(1).standby) = (5, true);
    let servers: Vec<rpc::Server> = metads
        .iter()
        .map(|metad| {
            let bind = rpc::Server::bind("127.0.0.1:0", rpc::ServerOptions::default(), Arc::clone(metad));
            runtime.block_on(bind).unwrap()
        })
        .collect();
    let addrs: Vec<String> = servers.iter().map(|server| server.local_addr().to_string()).collect();
    let cluster = Cluster::with(1, |config| config.metad = addrs.join(", "));
    cluster.runtime.block_on(cluster.node(0).registered());
    cluster.write(&[0], 5, b"first");
    let heard = |number: usize, block: u64| {
        told(number).heartbeats.iter().any(|beat| beat.put.iter().any(|put| put.block == block))
    };
    eventually("the leader hears of it", || heard(0, 5));
    eventually("the other hears that the node lives", || told(1).heartbeats.len() >= 2);
    assert!(!heard(1, 5) && told(1).catalogue.is_empty());

    (told(1).standby, told(1).term) = (false, 6);
    eventually("the new leader gets all", || !told(1).catalogue.is_empty());
    assert_eq!(told(1).catalogue[0].replicas.len(), 1);
    // The old one is late to know.
    let delete = vec![Deletion { block: 5, generation_at_most: GENERATION }];
    told(0).orders = Some(Orders { known: true, delete, ..Orders::default() });
    eventually("it orders", || told(0).orders.is_none());
    told(0).standby = true;
    cluster.write(&[0], 6, b"second");
    eventually("the new leader hears of it", || heard(1, 6) || told(1).catalogue.len() > 1);
    assert_eq!(cluster.read(0, 5, 0, 5).unwrap(), b"first");
}

/// A chain that is set up anew has the replica under its new generation when it turns out that a node below is gone.
#[test]
fn a_replica_that_was_reopened_in_vain_is_told_as_left_open() {
    let world = World::new();
    world.cluster.write(&[0], 5, b"bytes");
    let mut held = io::HeldPorts::default();
    let gone = info(held.hold(([127, 0, 0, 1], 0).into()).unwrap());
    let ask = Ask::again(5, Stage::PipelineSetupAppend, GENERATION + 1, 5, 5);
    assert!(chain(world.cluster.connect(0), vec![gone], &ask).is_err());
    let is_it = |replica: &Replica| (replica.block, replica.generation) == (5, GENERATION + 1);
    eventually("it is left open", || {
        world.told(|told| told.heartbeats.iter().any(|beat| beat.stale.iter().any(is_it)))
    });
}

/// The disk takes all the bytes, and not the step that makes a replica of them.
#[test]
fn a_replica_that_could_not_be_put_is_told_as_left_open() {
    let world = World::new();
    std::fs::create_dir_all(world.cluster.configs[0].dir.join("containers/0/5.data/in the way")).unwrap();
    let data = pattern(5, 300_000);
    let mut chain = world.cluster.chain(&[0], &Ask::create(5)).unwrap();
    chain.send_all(&data);
    chain.send_last();
    assert_eq!(chain.ack().map(|ack| ack.replies), Some(vec![Status::ERROR]));
    let is_it = |replica: &Replica| (replica.block, replica.len) == (5, data.len() as u64);
    eventually("it is left open", || {
        world.told(|told| told.heartbeats.iter().any(|beat| beat.stale.iter().any(is_it)))
    });
}

/// A replica that was never finished may be the best there is. What is to take its place is read whole before it makes
/// room: if that is damaged, nothing has changed.
#[test]
fn an_unfinished_replica_outlives_a_source_that_is_damaged() {
    let world = World::new();
    let data = pattern(5, 300_000);
    let mut chain = world.cluster.chain(&[0], &Ask::create(5)).unwrap();
    chain.send_all(&data);
    drop(chain);
    eventually("it is left open", || world.told(|told| told.heartbeats.iter().any(|beat| !beat.stale.is_empty())));
    let other = Cluster::new(1);
    other.write(&[0], 5, &data);
    let stored = other.configs[0].dir.join("containers/0/5.data");
    let mut damaged = std::fs::read(&stored).unwrap();
    damaged[150_000] ^= 1;
    std::fs::write(&stored, damaged).unwrap();

    let source = Source { node: "other".into(), addr: other.node(0).xfer_addr().to_string() };
    let copy = node::CopyOrder {
        token: None,
        block: 5,
        generation: GENERATION,
        len: data.len() as u64,
        file: 16_386,
        home: 0,
        sources: vec![source],
        replaces: true,
    };
    world.told(|told| told.orders = Some(Orders { known: true, copy: vec![copy], ..Orders::default() }));
    let failed = || world.told(|told| told.heartbeats.iter().flat_map(|beat| beat.copy_failures.clone()).next());
    eventually("the failure is told", || failed().is_some());
    let failure = failed().unwrap();
    assert!(failure.corrupt && failure.source == "other", "{failure:?}");
    let begin = BeginRecoveryRequest { block: 5, generation: GENERATION + 5, token: None };
    let left: BeginRecoveryResponse = world.call(REPLICA_PROTOCOL, BEGIN_RECOVERY, &begin).unwrap();
    assert_eq!(left.replica.unwrap().len, data.len() as u64, "all that was here is here");
}

/// Another process is this node: one that is refused for long, or whose place was taken, ends, with the reason.
#[test]
#[expect(clippy::disallowed_methods, reason = "how long it tried is what is asked")]
fn a_process_that_is_not_the_node_ends() {
    for (class, at_least) in [(NODE_SUPERSEDED, Duration::ZERO), (NODE_IN_USE, Duration::from_millis(700))] {
        let world = World::new();
        let node = world.cluster.node(0);
        let began = Instant::now();
        world.told(|told| told.refuses = Some(class));
        let failed = async { tokio::time::timeout(Duration::from_secs(30), node.failed()).await };
        assert_eq!(world.cluster.runtime.block_on(failed).expect("it ends"), "because of another one");
        assert!(began.elapsed() >= at_least, "it tries for a while");
    }
}

/// All messages name the process and the address it registered with.
#[test]
fn every_message_says_whose_it_is() {
    let world = World::new();
    eventually("it beats", || world.told(|told| !told.heartbeats.is_empty() && !told.catalogue.is_empty()));
    world.told(|told| {
        let registered = &told.registered[0];
        let incarnation = registered.incarnation.unwrap();
        assert!(incarnation.nonce != 0 && incarnation.start_ms > 1_600_000_000_000);
        let addr = format!("{}:{}", registered.ip, registered.xfer_port);
        let sender = Some(Sender { incarnation: registered.incarnation, addr });
        assert_eq!(told.heartbeats[0].sender, sender);
        assert_eq!(told.catalogue[0].sender, sender);
    });
}

/// A bit was read wrongly for a while. Once the replica reads well again no metadata server hears of it any more.
#[test]
fn damage_that_is_gone_is_not_reported_again() {
    let world = World::new();
    world.cluster.write(&[0], 5, &pattern(5, 8 << 20));
    let stored = world.cluster.configs[0].dir.join("containers/0/5.data");
    let flip = || {
        let mut bytes = std::fs::read(&stored).unwrap();
        bytes[1000] ^= 1;
        std::fs::write(&stored, bytes).unwrap();
    };
    let verify = || {
        let request = VerifyRequest { block: 5, generation: GENERATION };
        world.call::<_, VerifyResponse>(REPLICA_PROTOCOL, VERIFY, &request).unwrap().fitness()
    };
    let bad_count = || world.told(|told| told.heartbeats.iter().map(|beat| beat.bad.len()).sum::<usize>());
    flip();
    assert_ne!(verify(), Fitness::Fit);
    eventually("it is reported", || bad_count() > 0);
    flip();
    assert_eq!(verify(), Fitness::Fit);
    world.told(|told| (told.forgetful, told.heartbeats) = (true, Vec::new()));
    eventually("it registers again", || world.told(|told| told.registered.len() == 2));
    world.told(|told| told.heartbeats.clear());
    eventually("heartbeats", || world.told(|told| told.heartbeats.len() > 2));
    assert_eq!(bad_count(), 0);
}

/// What changes replicas, or keeps a disk busy, is done for metadata servers; what clients ask is answered to all.
#[test]
fn calls_of_metadata_servers_are_taken_from_their_addresses() {
    let mut cluster = Cluster::with(1, |config| config.metad = "192.0.2.1:8020".into());
    cluster.write(&[0], 7, b"bytes");
    let ask = |cluster: &Cluster, protocol: &'static str, method: &str| {
        let client = rpc::Client::new(cluster.node(0).ipc_addr().to_string(), "nobody".into(), protocol);
        let request = FinishRecoveryRequest { block: 7, generation: GENERATION + 1, len: 0, token: None };
        let answer = cluster.runtime.block_on(client.call::<_, FinishRecoveryResponse>(method, &request));
        answer.map_err(|error| error.to_string())
    };
    for method in [BEGIN_RECOVERY, FINISH_RECOVERY, COMPARE, VERIFY, wire::tree::TREE] {
        let refused = ask(&cluster, REPLICA_PROTOCOL, method).unwrap_err();
        assert!(refused.contains("127.0.0.1 is the address of none"), "{method}: {refused}");
    }
    assert!(cluster.read(0, 7, 0, 5).unwrap() == b"bytes", "it was not cut");
    assert!(ask(&cluster, CLIENT_DATANODE, "getDatanodeInfo").is_ok());
    cluster.stop(0);
    cluster.configs[0].metad_from = vec!["localhost".into()];
    cluster.start(0);
    let _begun = ask(&cluster, REPLICA_PROTOCOL, BEGIN_RECOVERY);
    assert!(!_begun.is_err_and(|error| error.contains("the address of none")));
}

/// One of two servers lost its data and began a store of its own: the node serves the other one, and ends only when no
/// server of its store is left.
#[test]
fn a_server_of_another_store_ends_no_node() {
    let (one, two) = (metad(), metad());
    let (metads, servers, runtimes) = ([one.0, two.0], [one.1, two.1], [one.2, two.2]);
    let told = |number: usize| metads[number].told.lock().unwrap();
    let (emptied, sound) = (0, 1);
    told(emptied).refuses = Some(hdfs::exception::STANDBY);
    let addrs = servers.iter().map(|server| server.local_addr().to_string()).collect::<Vec<_>>().join(",");
    let mut cluster = Cluster::with(1, |config| config.metad = addrs.clone());
    cluster.runtimes.extend(runtimes);
    cluster.runtime.block_on(cluster.node(0).registered());
    let is_registered = || cluster.node(0).status()()["registered"] == true;
    let is_alive = || {
        let failed = async { tokio::time::timeout(Duration::from_millis(1), cluster.node(0).failed()).await };
        cluster.runtime.block_on(failed).is_err()
    };
    told(emptied).pool = Some("BP-2-127.0.0.1-2");
    told(emptied).refuses = None;
    eventually("a registration", || !told(emptied).registered.is_empty());
    let before = told(sound).heartbeats.len();
    eventually("heartbeats", || told(sound).heartbeats.len() > before + 2);
    assert!(is_alive() && is_registered() && told(emptied).heartbeats.is_empty());
    cluster.write(&[0], 7, b"bytes");
    eventually("a report", || told(sound).heartbeats.iter().any(|beat| !beat.put.is_empty()));
    {
        let mut told = told(sound);
        (told.forgetful, told.pool) = (true, Some("BP-3-127.0.0.1-3"));
    }
    eventually("the end", || !is_alive());
    assert!(!is_registered());
}

/// A metadata server that is known as localhost dials the address of the machine that the datanode registered, and
/// comes from it.
#[test]
fn a_call_from_the_own_machine_is_one_of_localhost() {
    // No packet is sent: it is only asked which address would be the sender's.
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let Ok(own) = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr()).map(|addr| addr.ip()) else {
        eprintln!("not tested: this machine has no address but loopback");
        return;
    };
    for (metad, is_taken) in [("localhost:8020", true), ("192.0.2.1:8020", false)] {
        let cluster = Cluster::with(1, |config| {
            (config.metad, config.ip) = (metad.into(), Some(own));
            config.ipc_addr.set_ip([0, 0, 0, 0].into());
        });
        let addr = std::net::SocketAddr::new(own, cluster.node(0).ipc_addr().port());
        let client = rpc::Client::new(addr.to_string(), "somebody".into(), REPLICA_PROTOCOL);
        let request = FinishRecoveryRequest { block: 7, generation: GENERATION + 1, len: 0, token: None };
        let answer = cluster.runtime.block_on(client.call::<_, FinishRecoveryResponse>(FINISH_RECOVERY, &request));
        let message = answer.unwrap_err().to_string();
        assert_eq!(!message.contains("the address of none"), is_taken, "{message}");
    }
}
