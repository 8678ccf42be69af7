//! How a datanode is set up. Every limit has its name here.

use crate::error::StartError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// When a block counts as written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// On disk on all its nodes.
    #[default]
    Synced,
    /// In the memory of all its nodes, as HDFS has it.
    Replicated,
}

/// One datanode. A file of it needs `dir` or `dirs`, the two addresses and `metad`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The node's only disk: replicas and their index. Made if it does not exist.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub dir: PathBuf,
    /// Or several, each on a disk of its own. HDFS: `dfs.datanode.data.dir`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dirs: Vec<PathBuf>,
    /// Where clients read and write blocks; port 0 takes a free one.
    pub xfer_addr: SocketAddr,
    /// Where clients and the metadata server ask about replicas.
    pub ipc_addr: SocketAddr,
    /// The metadata server's RPC address, `host:port`; of several, all, with commas between them.
    pub metad: String,
    /// Further addresses or host names that metadata servers call from, if not from those under which they are reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metad_from: Vec<String>,
    /// When the node ends in order it is expected back within so long: others do not copy what it has. 0: it counts as
    /// lost as soon as one does that vanished, after the metadata server's `lost_after_ms`.
    #[serde(default = "default_away_ms")]
    pub away_ms: u64,
    #[serde(default)]
    pub durability: Durability,
    /// Where the node stands, as HDFS writes it.
    #[serde(default = "default_rack")]
    pub rack: String,
    /// The address clients are told to dial. If absent, the one that `xfer_addr` is bound to, or, if that is all of
    /// them, the one that reaches the metadata server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<IpAddr>,
    /// The name clients are told; it should resolve. If absent, the machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// What clients dial that are not on the node's network, as the metadata server's `inside` has it: a name or an
    /// address of the machine or the gateway whose ports lead here. If absent, what the others dial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside_host: Option<String>,
    /// By how much the ports there are above this node's: a port 9866 that is 19866 there has 10000.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub outside_port_shift: i32,
    /// Where the node's status page is, for links to it; 0 for none.
    #[serde(default)]
    pub info_port: u16,
    /// Directory with the certificate and the key of this node, and whom it believes: see docs/security.md. With it
    /// metadata servers and this node talk over TLS, and prove to each other who they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_certificates: Option<PathBuf>,
    /// Path of a Unix socket where clients on this machine get descriptors of replicas; `_PORT` in it stands for the
    /// port of `xfer_addr`. Who has the socket still needs a block's token. HDFS: `dfs.domain.socket.path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain_socket: Option<PathBuf>,
    /// Bytes that all operations together may hold: streams in buffers, layouts while they are made, requests that are
    /// not whole. A stream that does not fit waits, and then is refused.
    #[serde(default = "default_memory", deserialize_with = "host::size::setting")]
    pub memory: u64,
    /// Bytes of each disk that new replicas leave free, for whatever else is on it. None: a tenth of the disk, at most
    /// 1 GB. HDFS: `dfs.datanode.du.reserved`.
    #[serde(default, deserialize_with = "host::size::optional_setting", skip_serializing_if = "Option::is_none")]
    pub free_reserve_len: Option<u64>,
    /// TCP congestion control by its name in the kernel; absent leaves the machine's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// Bytes on the first disk for what is known of where columns of files lie; 0 for none.
    #[serde(default = "default_layout_cache_len", deserialize_with = "host::size::setting")]
    pub layout_cache_len: u64,
    #[serde(default)]
    pub limits: Limits,
}

/// What the node grants to strangers. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Operations under way at a time; more are answered with an error, unless a slow reader makes room. Hadoop:
    /// `dfs.datanode.max.transfer.threads`.
    pub transfer_count_max: usize,
    /// Open connections, idle ones included. When there are more, the one whose peer was waited for
    /// longest is closed, and a new one if all have operations under way. As many may lead to other nodes, of small
    /// writes, and as many of write streams: clients name these nodes.
    pub connection_count_max: usize,
    /// How long a connection may stay without an operation after one ended. Hadoop:
    /// `dfs.datanode.socket.reuse.keepalive`; clients drop theirs after three seconds.
    pub keepalive_ms: u64,
    /// How long a new connection may take to name its operation, and a reader to send its closing status.
    pub op_ms: u64,
    /// How long the next node of a chain may take to accept a connection. It is in reach or it is down: as
    /// `stalled_ms`.
    pub connect_ms: u64,
    /// How long it may take to answer the setup, and `per_node_ms` more for each node behind it. Clients wait 60 s.
    pub setup_ms: u64,
    pub per_node_ms: u64,
    /// How long a write waits for memory or descriptors that others have, for each node from this one on: those above
    /// wait for longer than those below. Three times that is well below the minute and more that clients wait for a
    /// chain.
    pub crowded_ms: u64,
    /// A writer that sends nothing for so long is gone, and one whose packet is not whole so long after its first byte;
    /// clients send a heartbeat each 30 s.
    pub writer_silent_ms: u64,
    /// A node below that owes an answer or takes no bytes for so long is gone, with `per_node_ms` as above.
    pub below_silent_ms: u64,
    /// A node below that sends keepalives, owes an answer and says nothing at all for so long is gone: four keepalives.
    /// A stream is to go on within three seconds of the loss of a node.
    pub stalled_ms: u64,
    /// How often a node of ours says that it lives, while those above wait for it.
    pub keepalive_interval_ms: u64,
    /// Once a majority has put a small block, how long the others are waited for. As long as a disk under load may take
    /// for a sync; what is later than that is repaired, if it lacks the block at all. A guess.
    pub small_late_ms: u64,
    /// A replica whose chain broke off is reported after so long, if nobody took it up: clients recover in seconds.
    pub left_open_ms: u64,
    /// A reader that does not take a packet for so long is cut off. Hadoop: `dfs.datanode.socket.write.timeout`.
    pub reader_stalled_ms: u64,
    /// When all operations are under way that may be, another one gets the place of the reader that has not taken a
    /// packet, or said its last word, for longest, if that is longer than this. A guess: a packet has 256 KB, and a
    /// reader that goes on elsewhere loses less than one who is not served at all.
    pub slow_reader_ms: u64,
    /// Replicas copied from other nodes at a time, to repair.
    pub copy_count_max: usize,
    /// Bytes a second that all of these copies take together; 0 for no limit. HDFS's balancer takes 100 MB/s.
    #[serde(deserialize_with = "host::size::setting")]
    pub copy_len_per_s: u64,
    /// In such a time every replica is read in the background, to find damage; 0 for never. Three weeks, as HDFS
    /// (`dfs.datanode.scan.period.hours`).
    pub scrub_period_ms: u64,
    /// Bytes a second of each disk that this takes at most; 0 for never. A disk of 20 TB takes 13 MB/s to be read in
    /// three weeks; one that is late takes more. HDFS takes 1 MiB/s (`dfs.block.scanner.volume.bytes.per.second`),
    /// whatever becomes of the period.
    #[serde(deserialize_with = "host::size::setting")]
    pub scrub_len_per_s: u64,
    /// A process whose registration is refused, as another one with the node's id sends heartbeats, tries for so long:
    /// three times what a metadata server needs to notice that the other one is gone.
    pub in_use_ms: u64,
    /// A disk that does not answer a look for so long, while another one does, has failed. HDFS waits ten minutes
    /// (`dfs.datanode.disk.check.timeout`); what is asked here is one small read.
    pub disk_answer_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        let writes = xfer::write::Limits::DEFAULT;
        let ms = |time: Duration| time.as_millis() as u64;
        Self {
            transfer_count_max: 4096,
            connection_count_max: 8192,
            keepalive_ms: 4000,
            op_ms: ms(xfer::read::Limits::READER.word),
            connect_ms: ms(writes.connect),
            setup_ms: ms(writes.setup),
            per_node_ms: ms(writes.per_node),
            crowded_ms: 8000,
            writer_silent_ms: ms(writes.writer_silent),
            below_silent_ms: ms(writes.below_silent),
            stalled_ms: ms(writes.stalled),
            keepalive_interval_ms: ms(writes.keepalive_interval),
            small_late_ms: ms(xfer::small::LATE_MAX),
            left_open_ms: ms(datanode::session::LEFT_OPEN),
            reader_stalled_ms: ms(xfer::read::Limits::READER.packet),
            slow_reader_ms: 5000,
            copy_count_max: datanode::copies::COPY_COUNT_MAX,
            copy_len_per_s: 200_000_000,
            scrub_period_ms: 21 * 24 * 3600 * 1000,
            scrub_len_per_s: 32 << 20,
            in_use_ms: ms(datanode::session::IN_USE_MAX),
            disk_answer_ms: 60_000,
        }
    }
}

impl Limits {
    /// Those of write streams.
    pub(crate) fn of_writes(&self) -> xfer::write::Limits {
        xfer::write::Limits {
            connect: Duration::from_millis(self.connect_ms),
            setup: Duration::from_millis(self.setup_ms),
            per_node: Duration::from_millis(self.per_node_ms),
            writer_silent: Duration::from_millis(self.writer_silent_ms),
            below_silent: Duration::from_millis(self.below_silent_ms),
            stalled: Duration::from_millis(self.stalled_ms),
            keepalive_interval: Duration::from_millis(self.keepalive_interval_ms),
        }
    }
}

/// What `levada up` gives to all of a small machine's datanodes; clusters set their own.
fn default_memory() -> u64 {
    256 << 20
}

/// A thousand tables like that of the measurements. A guess.
fn default_layout_cache_len() -> u64 {
    256 << 20
}

/// As long as a metadata server waits for one that said nothing.
fn default_away_ms() -> u64 {
    630_000
}

fn default_rack() -> String {
    "/default-rack".to_owned()
}

fn is_zero(shift: &i32) -> bool {
    *shift == 0
}

fn is_empty(dir: &Path) -> bool {
    dir.as_os_str().is_empty()
}

impl Config {
    /// The directories of its disks, whichever way they were named.
    pub fn dirs(&self) -> Result<Vec<PathBuf>, StartError> {
        let dirs = match (is_empty(&self.dir), &self.dirs[..]) {
            (false, []) => std::slice::from_ref(&self.dir),
            (true, [_, ..]) => &self.dirs,
            (false, _) => return Err(StartError::Dirs("name `dir` or `dirs`, not both".to_owned())),
            (true, []) => {
                return Err(StartError::Dirs(
                    "no directory is named: set `dir`, or `dirs` for several disks".to_owned(),
                ));
            }
        };
        let mut known = BTreeSet::new();
        let whole = |dir: &PathBuf| {
            let whole =
                std::path::absolute(dir).map_err(|source| StartError::Dirs(format!("{}: {source}", dir.display())))?;
            // They are written down, a line each.
            if whole.to_str().is_none_or(|text| text.chars().any(char::is_control)) {
                return Err(StartError::Dirs(format!(
                    "{} has letters that a directory of replicas may not have",
                    dir.display()
                )));
            }
            if known.insert(whole.clone()) {
                Ok(whole)
            } else {
                Err(StartError::Dirs(format!("{} is named twice", dir.display())))
            }
        };
        dirs.iter().map(whole).collect()
    }

    pub(crate) fn metads(&self) -> Vec<String> {
        let addrs = self.metad.split(',').map(str::trim).filter(|addr| !addr.is_empty());
        let addrs: Vec<String> = addrs.map(str::to_owned).collect();
        // An empty one cannot be reached, and the log says so.
        if addrs.is_empty() { vec![self.metad.clone()] } else { addrs }
    }

    pub fn new(dir: PathBuf, xfer_addr: SocketAddr, ipc_addr: SocketAddr, metad: String) -> Self {
        Self {
            dir,
            dirs: Vec::new(),
            xfer_addr,
            ipc_addr,
            metad,
            metad_from: Vec::new(),
            away_ms: default_away_ms(),
            durability: Durability::default(),
            rack: default_rack(),
            ip: None,
            host: None,
            outside_host: None,
            outside_port_shift: 0,
            info_port: 0,
            node_certificates: None,
            domain_socket: None,
            memory: default_memory(),
            free_reserve_len: None,
            congestion: None,
            layout_cache_len: default_layout_cache_len(),
            limits: Limits::default(),
        }
    }
}
