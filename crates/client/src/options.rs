//! What a client may be told to do differently. The defaults are those of HDFS's own client unless a line says why not.

use crate::profile_dir;
use io::Clock;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

#[derive(Clone, Debug)]
pub struct Options {
    /// By which latencies, leases and idle connections are measured. Waits are timers of the runtime.
    pub clock: Arc<dyn Clock>,
    /// Where tasks, timers and sockets live. A program with a runtime of its own for this client, as one in Python has,
    /// may then await its futures wherever it likes. `None`: the runtime on which each call is made; a store that is
    /// used from several runtimes, one after the other, loses its connections with each. A writer that is open then
    /// goes on as if its first node had failed, and its lease is renewed once another file is opened for writing.
    pub runtime: Option<Handle>,
    /// Silence of a datanode after which it counts as failed: `dfs.client.socket-timeout`.
    pub timeout: Duration,
    /// How long to wait for a connection to a datanode. Shorter than HDFS's minute: there is another replica to try.
    pub connect_timeout: Duration,
    /// Silence of a datanode of ours while a writer waits for it, after which the stream goes on without it. They say
    /// each half second that they live; HDFS's own do not, and are granted `timeout`.
    pub stalled: Duration,
    /// Who forwards to whom when a block is written. HDFS's own nodes know chains alone.
    pub routing: Routing,
    /// With [`Routing::Star`]: the IP address of the datanode that every block is sent to, if it is one of its nodes,
    /// instead of the nearest. As where all writes pass one leader.
    pub leader: Option<std::net::IpAddr>,
    /// Data bytes of one packet that is written, rounded down to whole chunks. Four times HDFS's: writing 1 GB then
    /// takes a sixth less of the client's processor; larger ones bring no more.
    pub packet_len: u32,
    /// A file that is closed before it has more bytes than this, or fills a packet, goes to a store of ours in one
    /// request. Measured: up to 64 KB that is twice as fast as a stream, from 256 KB on there is no difference
    /// (docs/performance.md). 0: every file is streamed.
    pub small_len_max: u32,
    /// Packets that may be under way without an ack: 8 MB with packets of the usual length, HDFS's client has 5.
    pub packets_in_flight_max: usize,
    /// Times a new block is asked for when its nodes cannot be reached: `dfs.client.block.write.retries`.
    pub block_retries: u32,
    /// First pause between two rounds over all replicas of a block; each further round waits longer.
    pub retry_pause: Duration,
    /// How often leases are renewed; a lease is lost to others after 60 s without.
    pub renew_every: Duration,
    /// Have every block on disk when its last packet is acknowledged (`CreateFlag.SYNC_BLOCK`).
    pub sync_blocks: bool,
    /// The address, host:port, of a gateway through which all servers of the store are reached: of one that cannot be
    /// reached otherwise, or is far away. `None`: they are reached directly.
    pub gateway: Option<String>,
    /// How long a round trip to the store takes. From far away a read goes by several connections, as each can bring
    /// only so much in one. `None`: what the kernel measures.
    pub round_trip: Option<Duration>,
    /// Have datanodes on this machine pass the files of their replicas, and read those. `dfs.client.read.shortcircuit`,
    /// which HDFS's client has off.
    pub local_reads: bool,
    /// What is proven to metadata servers. `None`: delegation tokens, if `HADOOP_TOKEN_FILE_LOCATION` names a file with
    /// some, and the ticket that `kinit` got, if there is one; without them nothing.
    pub login: Option<Arc<rpc::Login>>,
    /// Where access profiles of files that are read ahead outlive the process: below the user's cache directory.
    /// `None`: nowhere.
    pub profile_dir: Option<PathBuf>,
    /// Bytes for layouts of files that are read ahead, all together, while they are made of a file and afterwards. A
    /// file for which too little is left is read without.
    pub layout_memory: u64,
    /// Who calls in the name of the client's user, where no proof is asked for: the server looks whether he may
    /// (`hadoop.proxyuser.*`). `None`: the client's user himself. With a proof it is who proves himself.
    pub real_user: Option<String>,
    /// How long calls wait for the only metadata server of a store while it starts anew. By default not at all: a
    /// program knows better what it does meanwhile.
    pub patience: rpc::Patience,
}

/// Who forwards to whom when a block is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// Each node to the next: every link between machines carries the bytes once.
    #[default]
    Chain,
    /// The nearest node to each rack once, and a chain inside of each rack: fewer steps to the last node, and a thin
    /// link between racks still carries the bytes once.
    Tree,
    /// The nearest node to all others: its link carries the bytes for everybody. To measure against.
    Star,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Arc::new(io::SystemClock::new()),
            runtime: None,
            timeout: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(10),
            stalled: Duration::from_secs(2),
            routing: Routing::Chain,
            leader: None,
            packet_len: 256 << 10,
            small_len_max: 256 << 10,
            packets_in_flight_max: 32,
            block_retries: 3,
            retry_pause: Duration::from_millis(500),
            renew_every: Duration::from_secs(30),
            sync_blocks: false,
            gateway: None,
            round_trip: None,
            local_reads: true,
            login: None,
            profile_dir: profile_dir::of_user(),
            // A guess: of the table of the measurements, whose 364,800 pieces are far more than most files have, four
            // at the same moment.
            layout_memory: 256 << 20,
            real_user: None,
            patience: rpc::Patience::default(),
        }
    }
}
