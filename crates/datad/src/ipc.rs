//! What is asked of a datanode by RPC: clients ask how much of a replica can be seen, the metadata server recovers.
//!
//! Promise: what a client asks is answered to everybody: without a handshake no client proves here that it has a token.
//! Recoveries, comparisons, verifications and hash trees, which
//! change replicas or keep a disk busy, are accepted from metadata servers alone. Where the store's servers have
//! certificates, who calls proves by one that it is one; otherwise it calls from the address of one: those of the
//! configuration, and those that a server there named.

use crate::admission::Admission;
use crate::compare;
use crate::config::Config;
use crate::contents::Contents;
use crate::replicas::{Replicas, held};
use bytes::Bytes;
use container::ReplicaError;
use datanode::Known;
use hdfs::exception::{ACCESS_CONTROL, Exception, INVALID_BLOCK_TOKEN, REPLICA_NOT_FOUND, UNSUPPORTED_OPERATION};
use hdfs::proto;
use hdfs::protocol::CLIENT_DATANODE;
use host::version::VERSION;
use metrics::RpcCalls;
use prost::Message;
use rpc::{Call, Origins, Proof};
use security::node_name::{Certified, NodeName};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::watch;
use types::{BlockId, Generation, ReplicaState};
use wire::meter::{METER, METER_PROTOCOL, MeterRequest, PROTOCOL_VERSION, Role};
use wire::node::{
    self, BEGIN_RECOVERY, COMPARE, FINISH_RECOVERY, LOG_LEVEL_LEN_MAX, REPLICA_PROTOCOL, SET_LOG_LEVEL, VERIFY,
};
use wire::tree::TREE;

/// Requests and answers name a block and a number; the memory is for blocks.
pub(crate) fn options() -> rpc::ServerOptions {
    rpc::ServerOptions { frame_len_max: 1 << 20, held_len_max: 16 << 20, ..rpc::ServerOptions::default() }
}

#[derive(Debug)]
pub(crate) struct Ipc {
    replicas: Arc<Replicas>,
    contents: Arc<Contents>,
    admission: Arc<Admission>,
    /// By the place of a row in [`calls`].
    counted: RpcCalls,
    /// For the addresses that metadata servers may call from.
    config: Config,
    origins: Origins,
    /// What metadata servers say of each other.
    known: watch::Receiver<Known>,
}

type Answer = Result<Bytes, Exception>;

/// For calls that change a replica by an order of the leader.
struct Admitting {
    replicas: Arc<Replicas>,
    admission: Arc<Admission>,
}

impl Admitting {
    /// Waits for the disk.
    fn must_admit(&self, block: BlockId, token: Option<&node::BlockToken>) -> Result<(), Exception> {
        self.admission.order(block, token).map_err(|refusal| Exception::new(INVALID_BLOCK_TOKEN, refusal.message))
    }
}

impl Ipc {
    pub(crate) fn new(
        replicas: Arc<Replicas>,
        contents: Arc<Contents>,
        admission: Arc<Admission>,
        counted: RpcCalls,
        (config, known): (Config, watch::Receiver<Known>),
    ) -> Self {
        Self { replicas, contents, admission, counted, config, origins: Origins::default(), known }
    }

    /// Refuses calls that do not come from a metadata server.
    async fn require_metad(&self, call: &Call) -> Result<(), Exception> {
        let (config, method) = (&self.config, &call.method);
        if config.node_certificates.is_some() {
            return match call.user.proof {
                Proof::Node(Certified { name: NodeName::Member(_), .. }) => Ok(()),
                _ => Err(Exception::new(
                    ACCESS_CONTROL,
                    format!("{method:.80} is for metadata servers, which show a certificate of this store"),
                )),
            };
        }
        let mut servers: BTreeSet<String> = config.metads().into_iter().chain(config.metad_from.clone()).collect();
        servers.extend(self.known.borrow().addrs());
        let ip = call.peer.ip().to_canonical();
        // Who dials an address of the own machine comes from that address, also a server that is known as localhost.
        let own = [config.ip, Some(config.xfer_addr.ip()), Some(config.ipc_addr.ip())];
        let is_own = own.into_iter().flatten().any(|addr| addr.to_canonical() == ip);
        if self.origins.include(&servers, ip).await
            || (is_own && self.origins.include(&servers, Ipv4Addr::LOCALHOST.into()).await)
        {
            return Ok(());
        }
        tracing::debug!(%ip, method, "a call is refused: its address is no metadata server's");
        Err(Exception::new(
            ACCESS_CONTROL,
            format!(
                "{method:.80} is for metadata servers, and {ip} is the address of none that this datanode knows; if \
                 one calls from there, name the address in metad_from in this datanode's configuration"
            ),
        ))
    }

    fn admitting(&self) -> Admitting {
        Admitting { replicas: Arc::clone(&self.replicas), admission: Arc::clone(&self.admission) }
    }

    /// What has to do with one block waits for its disk alone.
    async fn for_block(&self, block: BlockId, work: impl FnOnce() -> Answer + Send + 'static) -> Answer {
        self.replicas.disks.for_block(block, move |_| work()).await.map_err(exception).flatten()
    }

    async fn for_all(&self, work: impl FnOnce() -> Answer + Send + 'static) -> Answer {
        self.replicas.disks.for_all(move |_| work()).await.map_err(exception).flatten()
    }
}

/// Who may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Anyone,
    /// One by its certificate, or what comes from the address of one: [`Ipc::require_metad`].
    MetadataServer,
}

type Answering<'a> = Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;

/// One call, and who may make it.
struct Row {
    protocol: &'static str,
    method: &'static str,
    who: Who,
    handler: for<'a> fn(&'a Ipc, &'a Call) -> Answering<'a>,
}

macro_rules! rows {
    ($($protocol:ident $who:ident $method:expr => $handler:expr;)*) => {
        /// All that can be called here.
        const ROWS: &[Row] = &[$(Row {
            protocol: $protocol,
            method: $method,
            who: Who::$who,
            handler: $handler,
        }),*];
    };
}

rows! {
    CLIENT_DATANODE Anyone "getReplicaVisibleLength" => |ipc, call| Box::pin(async move {
        let request: proto::GetReplicaVisibleLengthRequestProto = call.request()?;
        ipc.admission.replica(&request.block).map_err(|refusal| Exception::io(refusal.message))?;
        let replicas = Arc::clone(&ipc.replicas);
        ipc.for_block(BlockId(request.block.block_id), move || visible_len(&replicas, &request)).await
    });
    CLIENT_DATANODE Anyone "getDatanodeInfo" => |ipc, _call| Box::pin(async { info(&ipc.replicas) });
    CLIENT_DATANODE Anyone "getVolumeReport" => |ipc, _call| Box::pin(async { volumes(&ipc.replicas) });
    // An empty list.
    CLIENT_DATANODE Anyone "listReconfigurableProperties" => |_ipc, _call| Box::pin(async { Ok(Bytes::new()) });
    METER_PROTOCOL Anyone METER => |_ipc, call| Box::pin(async { meter(call) });
    REPLICA_PROTOCOL MetadataServer BEGIN_RECOVERY => |ipc, call| Box::pin(async move {
        let (at, request): (_, node::BeginRecoveryRequest) = (ipc.admitting(), call.request()?);
        ipc.for_block(BlockId(request.block), move || begin_recovery(&at, &request)).await
    });
    REPLICA_PROTOCOL MetadataServer FINISH_RECOVERY => |ipc, call| Box::pin(async move {
        let (at, request): (_, node::FinishRecoveryRequest) = (ipc.admitting(), call.request()?);
        ipc.for_block(BlockId(request.block), move || finish_recovery(&at, &request)).await
    });
    REPLICA_PROTOCOL MetadataServer COMPARE => |ipc, call| Box::pin(async move {
        let (replicas, request) = (Arc::clone(&ipc.replicas), call.request()?);
        ipc.for_all(move || encode(&compare::compare(&replicas, &request).map_err(exception)?)).await
    });
    REPLICA_PROTOCOL MetadataServer VERIFY => |ipc, call| Box::pin(async move {
        let (replicas, request): (_, node::VerifyRequest) = (Arc::clone(&ipc.replicas), call.request()?);
        ipc.for_block(BlockId(request.block), move || encode(&compare::verify(&replicas, &request))).await
    });
    REPLICA_PROTOCOL MetadataServer SET_LOG_LEVEL => |_ipc, call| Box::pin(async move {
        let request: node::NodeLogLevelRequest = call.request()?;
        if request.level.len() > LOG_LEVEL_LEN_MAX {
            return Err(Exception::io("a level of a log is shorter"));
        }
        host::log_level::set(&request.level).map_err(Exception::io)?;
        encode(&node::NodeLogLevelResponse {})
    });
    REPLICA_PROTOCOL MetadataServer TREE => |ipc, call| Box::pin(async move {
        let (contents, request) = (Arc::clone(&ipc.contents), call.request()?);
        ipc.for_all(move || encode(&contents.answer(&request)?)).await
    });
}

/// Protocol and method of each row.
pub(crate) fn calls() -> impl Iterator<Item = (&'static str, &'static str)> {
    ROWS.iter().map(|row| (row.protocol, row.method))
}

/// Who may call what has no row; `None`: the protocol is not spoken here. All rows of a protocol are for the same.
fn who_speaks(protocol: &str) -> Option<Who> {
    ROWS.iter().find(|row| row.protocol == protocol).map(|row| row.who)
}

impl rpc::Service for Ipc {
    async fn call(&self, call: Call) -> Result<Bytes, Exception> {
        let place = ROWS.iter().position(|row| row.protocol == call.protocol && row.method == call.method);
        let Some(place) = place else { return self.pass(None, &call).await };
        let began = self.replicas.now();
        let answer = self.pass(Some(&ROWS[place]), &call).await;
        let time = self.replicas.now().saturating_sub(began);
        self.counted.ended(place, time, answer.as_ref().err().map(|error| error.class));
        answer
    }
}

impl Ipc {
    /// Answers a call, if its caller may make it.
    async fn pass(&self, row: Option<&Row>, call: &Call) -> Answer {
        let Some(who) = row.map(|row| row.who).or_else(|| who_speaks(&call.protocol)) else {
            return Err(call.no_such_protocol());
        };
        match who {
            Who::Anyone => {}
            Who::MetadataServer => self.require_metad(call).await?,
        }
        match row {
            Some(row) => (row.handler)(self, call).await,
            None if call.protocol == CLIENT_DATANODE => {
                Err(unsupported(&call.method).unwrap_or_else(|| call.no_such_method()))
            }
            None => Err(call.no_such_method()),
        }
    }
}

/// What this process has used so far, for those who measure.
fn meter(call: &Call) -> Result<Bytes, Exception> {
    call.check_version(PROTOCOL_VERSION)?;
    let MeterRequest {} = call.request()?;
    encode(&host::meter::answer(Role::Datanode))
}

/// `hdfs dfsadmin -getDatanodeInfo`. HDFS tells the versions of its configuration files; ours has one.
fn info(replicas: &Replicas) -> Result<Bytes, Exception> {
    let local_info = proto::DatanodeLocalInfoProto {
        software_version: VERSION.into(),
        config_version: "levada".into(),
        uptime: replicas.now().as_secs(),
    };
    encode(&proto::GetDatanodeInfoResponseProto { local_info })
}

/// `hdfs dfsadmin -getVolumeReport`: the disks that work.
fn volumes(replicas: &Replicas) -> Result<Bytes, Exception> {
    let disks = replicas.disks.reports().into_iter().filter(|disk| disk.failure.is_empty());
    let volume_info = disks.map(|disk| proto::DatanodeVolumeInfoProto {
        path: disk.dir,
        storage_type: proto::StorageTypeProto::Disk.into(),
        used_space: disk.used_len,
        free_space: disk.free_len,
        reserved_space: 0,
        reserved_space_for_replicas: 0,
        num_blocks: disk.replica_count,
    });
    encode(&proto::GetVolumeReportResponseProto { volume_info: volume_info.collect() })
}

/// What `hdfs dfsadmin` would have a datanode do, and what to do instead.
fn unsupported(method: &str) -> Option<Exception> {
    let instead = match method {
        "shutdownDatanode" => "stop its process (SIGTERM)",
        "evictWriters" | "deleteBlockPool" => "`levada admin datanode drain` empties a datanode",
        "refreshNamenodes" => "a datanode hears by itself who the metadata servers are",
        "triggerBlockReport" => "a datanode tells each second what has changed",
        "getBalancerBandwidth" => "`levada admin balance` has a rate between the disks of a datanode alone (--disks)",
        "submitDiskBalancerPlan" | "cancelDiskBalancerPlan" | "queryDiskBalancerPlan" | "getDiskBalancerSetting" => {
            "use `levada admin balance --disks`"
        }
        "startReconfiguration" | "getReconfigurationStatus" => {
            "settings are read when a datanode starts: change its file and start it again"
        }
        _ => return None,
    };
    Some(Exception::new(UNSUPPORTED_OPERATION, format!("{method} is not supported: {instead}")))
}

/// The length that this node and all below it in the chain have acknowledged.
fn visible_len(replicas: &Replicas, request: &proto::GetReplicaVisibleLengthRequestProto) -> Result<Bytes, Exception> {
    let block = BlockId(request.block.block_id);
    let wanted = Generation(request.block.generation_stamp);
    let info = replicas.disks.find(block).map_err(exception)?;
    let info = info.ok_or_else(|| exception(ReplicaError::NotFound { block }))?;
    if info.identity.generation < wanted {
        return Err(exception(ReplicaError::Stale { block, have: info.identity.generation, want: wanted }));
    }
    match info.state {
        ReplicaState::Open | ReplicaState::Finalized => {}
        // Not "nothing": the client must ask the next node.
        state => return Err(exception(ReplicaError::State { block, state, needed: "readable" })),
    }
    encode(&proto::GetReplicaVisibleLengthResponseProto { length: info.visible_len })
}

fn begin_recovery(at: &Admitting, request: &node::BeginRecoveryRequest) -> Result<Bytes, Exception> {
    let (block, replicas) = (BlockId(request.block), &at.replicas);
    at.must_admit(block, request.token.as_ref())?;
    let replica = match replicas.disks.begin_recovery(block, Generation(request.generation)) {
        Ok(info) => {
            replicas.changed(block);
            Some(held(&info).report())
        }
        Err(ReplicaError::NotFound { .. }) => None,
        Err(error) if replicas.disks.may_be_missed(block) => {
            return Err(Exception::new(node::CANNOT_SAY, error.to_string()));
        }
        Err(error) => return Err(exception(error)),
    };
    encode(&node::BeginRecoveryResponse { replica })
}

fn finish_recovery(at: &Admitting, request: &node::FinishRecoveryRequest) -> Result<Bytes, Exception> {
    let (block, replicas) = (BlockId(request.block), &at.replicas);
    at.must_admit(block, request.token.as_ref())?;
    replicas.disks.finish_recovery(block, Generation(request.generation), request.len).map_err(exception)?;
    replicas.was_put(block);
    encode(&node::FinishRecoveryResponse {})
}

fn exception(error: ReplicaError) -> Exception {
    match error {
        ReplicaError::NotFound { .. } => Exception::new(REPLICA_NOT_FOUND, error.to_string()),
        error => Exception::io(error.to_string()),
    }
}

fn encode(message: &impl Message) -> Result<Bytes, Exception> {
    Ok(message.encode_to_vec().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What changes replicas or keeps a disk busy is for metadata servers, each call of it.
    #[test]
    fn rows_of_a_protocol_are_for_the_same() {
        for (at, row) in ROWS.iter().enumerate() {
            let is_new = |other: &Row| (other.protocol, other.method) != (row.protocol, row.method);
            assert!(ROWS[..at].iter().all(is_new), "{} has two rows", row.method);
            assert_eq!(who_speaks(row.protocol), Some(row.who), "{}", row.method);
            assert_eq!(row.who == Who::MetadataServer, row.protocol == REPLICA_PROTOCOL, "{}", row.method);
        }
        assert_eq!(who_speaks("org.example.Protocol"), None);
    }
}
