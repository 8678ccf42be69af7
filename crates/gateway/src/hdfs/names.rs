//! Calls about names: answered by what was opened, or passed on in the caller's name.

use super::blocks::{self, Blocks};
use crate::opened::Opened;
use crate::reading::Reading;
use crate::users::Users;
use bytes::Bytes;
use client::{Error, ErrorKind, Kind, Refused, Status};
use hdfs::exception::{self, Exception};
use hdfs::proto::{self, DatanodeIdProto, DatanodeInfoProto, HdfsFileStatusProto, hdfs_file_status_proto::FileType};
use hdfs::protocol;
use prost::Message;
use rpc::{Call, Service};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Questions that the store answers, as it does to anybody.
const PASSED_ON: &[&str] = &[
    "checkAccess",
    "getAclStatus",
    "getBatchedListing",
    "getContentSummary",
    "getECTopologyResultForPolicies",
    "getErasureCodingPolicies",
    "getErasureCodingPolicy",
    "getFileInfo",
    "getFileLinkInfo",
    "getFsStats",
    "getHAServiceState",
    "getLinkTarget",
    "getListing",
    "getPreferredBlockSize",
    "getQuotaUsage",
    "getServerDefaults",
    "getStoragePolicies",
    "getStoragePolicy",
    "getXAttrs",
    "isFileClosed",
    "listXAttrs",
    "msync",
];

/// Between two questions for the defaults, until they are known. A guess: as often as a lost link is looked for.
const LEARN_EACH: Duration = Duration::from_secs(1);

/// Of what [`proto::CheckAccessRequestProto`] asks for.
const MODE_READ: i32 = 4;

#[derive(Debug)]
pub(super) struct Names {
    users: Users,
    /// Where to write.
    store: String,
    blocks: Arc<Blocks>,
    data_addr: SocketAddr,
    /// Of the one datanode that there is here.
    node_id: String,
    /// What was said last, as it is passed on: no secret, and the same for all. A client that begins asks for it before
    /// its first block, also while the link is down. `None`: nothing yet.
    defaults: Mutex<Option<proto::GetServerDefaultsResponseProto>>,
}

impl Names {
    pub(super) fn new(users: Users, store: String, blocks: Arc<Blocks>, data_addr: SocketAddr) -> Self {
        let mut drawn = [0; 16];
        io::random::fill(&mut drawn);
        let node_id = drawn.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { users, store, blocks, data_addr, node_id, defaults: Mutex::default() }
    }

    /// Asks for the defaults until they are known, and so whether the store believes names: the first client may
    /// come when the link is down. A store that asks for proofs has none of HDFS's.
    pub(super) async fn learn_defaults(self: Arc<Self>) {
        while self.last_defaults().is_none() {
            match self.ask_defaults().await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::debug!(error = error.message, "the store does not say its defaults");
                    tokio::time::sleep(LEARN_EACH).await;
                }
            }
        }
    }

    /// False: there is nobody to tell them.
    async fn ask_defaults(&self) -> Result<bool, Exception> {
        let reading = self.users.own_believed().await.map_err(|error| exception_of(&error))?;
        let Some(reading) = reading else { return Ok(false) };
        let request = encoded(&proto::GetServerDefaultsRequestProto::default());
        self.defaults_of(as_said(reading.forward("getServerDefaults", None, request).await)?)?;
        Ok(true)
    }

    async fn reading(&self, call: &Call) -> Result<Reading, Exception> {
        if call.user.real.is_some() {
            let message = "an edge cannot tell who may act for others: ask the store";
            return Err(Exception::new(exception::AUTHORIZATION, message));
        }
        let named = self.users.believed(&call.user.effective).await.map_err(|error| exception_of(&error))?;
        let no_proof = || {
            let message = format!("this store asks for proofs, which an edge cannot pass on: read from {}", self.store);
            Exception::new(exception::ACCESS_CONTROL, message)
        };
        named.ok_or_else(no_proof)
    }

    async fn answer(&self, call: Call) -> Result<Bytes, Exception> {
        match call.protocol.as_str() {
            protocol::CLIENT => call.check_version(protocol::VERSION)?,
            _ => return Err(call.no_such_protocol()),
        }
        let method = call.method.as_str();
        match method {
            "getBlockLocations" => {
                let proto::GetBlockLocationsRequestProto { src, offset, length } = call.request()?;
                let opened = self.open(&call, &src).await?;
                let located = self.hand_out(&call, opened, offset, length);
                Ok(encoded(&proto::GetBlockLocationsResponseProto { locations: Some(located) }))
            }
            "getLocatedFileInfo" => {
                let src = call.request::<proto::GetLocatedFileInfoRequestProto>()?.src.unwrap_or_default();
                let fs = self.located_status(&call, &src).await?;
                Ok(encoded(&proto::GetLocatedFileInfoResponseProto { fs }))
            }
            "getServerDefaults" => self.server_defaults(&call).await,
            "getFileInfo" => self.file_info(&call).await,
            "getListing" if call.request::<proto::GetListingRequestProto>()?.need_location => {
                let mut answer: proto::GetListingResponseProto = readable(self.passed_on(&call).await?)?;
                self.hide(&call, answer.dir_list.iter_mut().flat_map(|list| &mut list.partial_listing));
                Ok(encoded(&answer))
            }
            "getBatchedListing" if call.request::<proto::GetBatchedListingRequestProto>()?.need_location => {
                let mut answer: proto::GetBatchedListingResponseProto = readable(self.passed_on(&call).await?)?;
                self.hide(&call, answer.listings.iter_mut().flat_map(|list| &mut list.partial_listing));
                Ok(encoded(&answer))
            }
            method if PASSED_ON.contains(&method) => self.passed_on(&call).await,
            _ => Err(Exception::io(format!("{method}: this edge is read-only; write to {}", self.store))),
        }
    }

    async fn server_defaults(&self, call: &Call) -> Result<Bytes, Exception> {
        // Who is not believed is refused before.
        let reading = self.reading(call).await?;
        match as_said(reading.forward(&call.method, None, call.body.clone()).await) {
            // The link is down: as the store said before.
            Err(error) if error.class == exception::RETRIABLE => match self.last_defaults() {
                Some(last) => Ok(encoded(&last)),
                None => Err(error),
            },
            said => Ok(encoded(&self.defaults_of(said?)?)),
        }
    }

    /// What the store said, as it is passed on from here, which is remembered.
    fn defaults_of(&self, said: Bytes) -> Result<proto::GetServerDefaultsResponseProto, Exception> {
        let mut answer: proto::GetServerDefaultsResponseProto = readable(said)?;
        // What the store's datanodes can do beyond HDFS, and ask for, an edge does not.
        let defaults = &mut answer.server_defaults;
        (defaults.abilities, defaults.encrypt_data_transfer) = (None, Some(false));
        defaults.data_transfer_protection.clear();
        *self.defaults.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer.clone());
        Ok(answer)
    }

    fn last_defaults(&self) -> Option<proto::GetServerDefaultsResponseProto> {
        self.defaults.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn file_info(&self, call: &Call) -> Result<Bytes, Exception> {
        let (src, reading) = (call.request::<proto::GetFileInfoRequestProto>()?.src, self.reading(call).await?);
        match as_said(reading.forward_status(&src, call.body.clone()).await) {
            // The link is down: as the store said before.
            Err(error) if error.class == exception::RETRIABLE => {
                let status = reading.existing(&src).await.map_err(|error| exception_of(&error))?;
                Ok(encoded(&proto::GetFileInfoResponseProto { fs: Some(status_proto(&status)) }))
            }
            answer => answer,
        }
    }

    /// In the caller's name. While the store does not answer, an exception that says so.
    async fn passed_on(&self, call: &Call) -> Result<Bytes, Exception> {
        let (reading, path) = (self.reading(call).await?, path_of(call));
        as_said(reading.forward(&call.method, path.as_deref(), call.body.clone()).await)
    }

    async fn open(&self, call: &Call, path: &str) -> Result<Opened, Exception> {
        let found = self.reading(call).await?.find(path).await.map_err(|error| exception_of(&error))?;
        if found.status.kind != Kind::File {
            return Err(Exception::new(exception::FILE_NOT_FOUND, format!("Path is not a file: {path}")));
        }
        found.open(path).await.map_err(|error| exception_of(&error))
    }

    async fn located_status(&self, call: &Call, path: &str) -> Result<Option<HdfsFileStatusProto>, Exception> {
        let found = match self.reading(call).await?.find(path).await {
            Err(error) if error.is_not_found() => return Ok(None),
            found => found.map_err(|error| exception_of(&error))?,
        };
        let status = status_proto(&found.status);
        if found.status.kind != Kind::File {
            return Ok(Some(status));
        }
        let opened = found.open(path).await.map_err(|error| exception_of(&error))?;
        let locations = Some(self.hand_out(call, opened, 0, u64::MAX));
        Ok(Some(HdfsFileStatusProto { locations, ..status }))
    }

    /// Where the store has the bytes of what it lists.
    fn hide<'a>(&self, call: &Call, listed: impl Iterator<Item = &'a mut HdfsFileStatusProto>) {
        let node = self.node(call.peer);
        listed.filter_map(|status| status.locations.as_mut()).for_each(|located| blocks::hide(located, &node));
    }

    fn hand_out(&self, call: &Call, opened: Opened, offset: u64, len: u64) -> proto::LocatedBlocksProto {
        self.blocks.hand_out(&call.user.effective, opened, offset, len, &self.node(call.peer))
    }

    /// The edge, as a datanode.
    fn node(&self, peer: SocketAddr) -> DatanodeInfoProto {
        let ip = here_for(self.data_addr.ip(), peer).to_string();
        let id = DatanodeIdProto {
            ip_addr: ip.clone(),
            host_name: ip,
            datanode_uuid: self.node_id.clone(),
            xfer_port: self.data_addr.port().into(),
            ..DatanodeIdProto::default()
        };
        DatanodeInfoProto { id, location: Some("/default-rack".into()), ..DatanodeInfoProto::default() }
    }
}

impl Service for Names {
    fn call(&self, call: Call) -> impl Future<Output = Result<Bytes, Exception>> + Send {
        self.answer(call)
    }
}

/// What a question is about, where its refusal says that this may not be read, or is not there. Messages about one path
/// begin with it.
fn path_of(call: &Call) -> Option<String> {
    const ABOUT_NO_PATH: &[&str] = &["getBatchedListing", "getECTopologyResultForPolicies", "getServerDefaults"];
    if ABOUT_NO_PATH.contains(&call.method.as_str()) {
        return None;
    }
    if call.method == "checkAccess" {
        let proto::CheckAccessRequestProto { path, mode } = call.request().ok()?;
        return (mode & MODE_READ != 0).then_some(path);
    }
    let proto::GetFileInfoRequestProto { src } = call.request().ok()?;
    Some(src).filter(|src| src.starts_with('/'))
}

/// What the store answered, or that it did not.
fn as_said(answer: Result<Result<Bytes, Refused>, Error>) -> Result<Bytes, Exception> {
    match answer {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(Refused { class, message, detail })) => {
            Err(Exception { detail, ..Exception::new(known(&class), message) })
        }
        Err(error) => Err(exception_of(&error)),
    }
}

fn readable<M: Message + Default>(bytes: Bytes) -> Result<M, Exception> {
    M::decode(bytes).map_err(|error| Exception::io(format!("the store's answer cannot be read: {error}")))
}

fn encoded(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

/// The address of this machine by which `peer` reaches it: that of the listener, or, where that is any, the one that
/// the system would send from. Nothing is sent.
fn here_for(listens_on: IpAddr, peer: SocketAddr) -> IpAddr {
    if !listens_on.is_unspecified() {
        return listens_on;
    }
    let any: SocketAddr = if peer.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let asked = UdpSocket::bind(any).and_then(|socket| {
        socket.connect(peer)?;
        socket.local_addr()
    });
    asked.map_or(listens_on, |addr| addr.ip().to_canonical())
}

/// In HDFS's words. [`exception::RETRIABLE`]: the store does not answer.
fn exception_of(error: &Error) -> Exception {
    let class = match error.kind() {
        ErrorKind::NotFound => exception::FILE_NOT_FOUND,
        ErrorKind::Denied => exception::ACCESS_CONTROL,
        ErrorKind::NotADirectory => exception::PARENT_NOT_DIRECTORY,
        ErrorKind::Invalid => exception::HADOOP_ILLEGAL_ARGUMENT,
        ErrorKind::Unsupported => exception::UNSUPPORTED_OPERATION,
        ErrorKind::Unreachable | ErrorKind::TimedOut | ErrorKind::Broken | ErrorKind::TryAgain => exception::RETRIABLE,
        _ => exception::IO,
    };
    Exception::new(class, error.to_string())
}

/// Classes that clients tell apart when they ask questions; any other is an exception like many.
fn known(class: &str) -> &'static str {
    const KNOWN: &[&str] = &[
        exception::ACCESS_CONTROL,
        exception::ACL,
        exception::AUTHORIZATION,
        exception::FILE_NOT_FOUND,
        exception::HADOOP_ILLEGAL_ARGUMENT,
        exception::ILLEGAL_ARGUMENT,
        exception::INVALID_PATH,
        exception::PARENT_NOT_DIRECTORY,
        exception::PATH_IS_NOT_DIRECTORY,
        exception::RETRIABLE,
        exception::RPC_NO_SUCH_METHOD,
        exception::START_AFTER_NOT_FOUND,
        exception::UNSUPPORTED_ACTION,
        exception::UNSUPPORTED_OPERATION,
        exception::XATTR_NOT_FOUND,
    ];
    KNOWN.iter().find(|known| **known == class).copied().unwrap_or(exception::IO)
}

fn status_proto(status: &Status) -> HdfsFileStatusProto {
    let file_type = match status.kind {
        Kind::File => FileType::IsFile,
        Kind::Directory => FileType::IsDir,
        Kind::Symlink => FileType::IsSymlink,
    };
    HdfsFileStatusProto {
        file_type: file_type.into(),
        path: Bytes::new(),
        length: status.len,
        permission: proto::FsPermissionProto { perm: status.mode.into() },
        owner: status.owner.clone(),
        group: status.group.clone(),
        modification_time: status.modified.0,
        access_time: status.accessed.0,
        block_replication: Some(status.replication.into()),
        blocksize: Some(status.block_len),
        file_id: Some(status.id),
        children_num: Some(status.child_count.try_into().unwrap_or(i32::MAX)),
        flags: Some(0),
        ..HdfsFileStatusProto::default()
    }
}
