//! `levada up`: a whole store on one machine, in one process or with a process for each role.

use crate::config::{self, DataFile, MetaFile};
use crate::hadoop::{self, Protected};
use crate::log::Log;
use crate::ports::{LastPorts, Ports};
use crate::roles::{DataReady, DataRole, MetaReady, MetaRole, StartError, say, serve, stop_signal};
use crate::secure::{self, Certificates, Kerberos};
use crate::shell::size;
use crate::welcome::{Security, Welcome};
use futures_util::future::{join_all, pending, select_all};
use serde::Serialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where everything of this store lies [default: levada in the user's data directory]
    #[arg(long, value_name = "PATH")]
    dir: Option<PathBuf>,
    /// First port; 0 takes free ones, and at the next start the same again [default: the ports of HDFS, 8020, 9870,
    /// 9866 and so on]
    #[arg(long, value_name = "N")]
    port_base: Option<u16>,
    /// How many metadata servers to run: 1, 3 or 5. Decided when the directory is new [default: as many as it has, or
    /// 1]
    #[arg(long, value_name = "N", value_parser = ["1", "3", "5"])]
    meta: Option<String>,
    /// How many datanodes to run [default: as many as the directory has, 3 in a new one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=DATANODES_MAX as i64))]
    datanodes: Option<u16>,
    /// How many disks each datanode has: a directory each, on this machine [default: as many as the directory has, or
    /// 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=DISKS_MAX as i64))]
    disks: Option<u16>,
    /// Copies of each block when the client does not say [default: 3, or the number of datanodes if that is less]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    replication: Option<u16>,
    /// When a block is acknowledged: on disk on all replicas, or in the memory of all replicas (as HDFS does)
    #[arg(long, value_enum, default_value_t = Durability::Synced)]
    durability: Durability,
    /// Memory for buffers and caches of all roles together, as in 512M or 2G
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size::parse)]
    memory: u64,
    /// Make keys and certificates, and protect the store by them: servers prove to each other who they are, over TLS;
    /// each block asks for a token; blocks travel encrypted. A store that was secure once stays so
    #[arg(long)]
    secure: bool,
    /// Kerberos name of the metadata servers, as nn/_HOST@EXAMPLE.COM: users have to prove who they are
    #[arg(long, value_name = "NAME", requires = "keytab")]
    principal: Option<String>,
    /// File with the keys of that name
    #[arg(long, value_name = "FILE", requires = "principal")]
    keytab: Option<PathBuf>,
    /// Ask for a token with each operation on a block
    #[arg(long, hide = true)]
    block_tokens: bool,
    /// Seconds for which a key signs block tokens, and for which these count at least
    #[arg(long, hide = true, value_name = "SECONDS", requires = "block_tokens")]
    block_key_interval: Option<u32>,
    /// What a secure store asks for where blocks are read and written: authentication, integrity or privacy [default:
    /// privacy, and clients need no setting for that]
    #[arg(long, value_name = "WORD", value_parser = ["authentication", "integrity", "privacy"])]
    data_transfer_protection: Option<String>,
    /// Encrypt data transfer, and have clients do so
    #[arg(long, hide = true, requires = "block_tokens")]
    encrypt_data_transfer: bool,
    /// Run each role as a process of its own
    #[arg(long)]
    processes: bool,
    /// Print one line of JSON when ready, and nothing else
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Durability {
    Synced,
    Replicated,
}

/// The line of `--json`.
#[derive(Debug, Serialize)]
struct Ready {
    ready: bool,
    fs: String,
    http: String,
    /// RPC addresses of all metadata servers.
    meta: Vec<String>,
    data: Vec<String>,
    /// HTTP addresses of the datanodes.
    data_http: Vec<String>,
    dir: PathBuf,
    pids: Pids,
    data_dirs: Vec<PathBuf>,
    /// Several disks a datanode: the directories of each.
    #[serde(skip_serializing_if = "Option::is_none")]
    disk_dirs: Option<Vec<Vec<PathBuf>>>,
    /// Several metadata servers, or a secure store: what stock clients need as `HADOOP_CONF_DIR` to find them, as
    /// `hdfs://levada/`, and to prove who they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    hadoop_conf: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Pids {
    meta: Vec<u32>,
    data: Vec<u32>,
}

const METAS_MAX: u16 = 5;
/// All is on one machine: a datanode that says nothing has not gone for a restart of that.
const LOST_AFTER_MS: u64 = 15_000;
/// More than a machine's ports and disks have a use for.
const DATANODES_MAX: u16 = 1000;
/// More than a machine has a use for, to try it.
const DISKS_MAX: u16 = 100;
/// As many as a block has copies by HDFS's default.
const DATANODES_NEW: u16 = 3;
/// Least memory that makes sense: below it the buffers of a few connections would already be refused.
const MEMORY_MIN: u64 = 64 << 20;
/// All that there is, the best first.
const RPC_PROTECTIONS: [&str; 3] = ["privacy", "integrity", "authentication"];
/// What HDFS gives a directory.
const HOME_MODE: u16 = 0o755;
/// How long the home directory may take: servers that were all started just now agree on a leader within some two
/// seconds.
const HOME_WAIT: Duration = Duration::from_secs(10);
/// How long a child may take to stop after SIGTERM before it is killed; a flush of a full overlay takes about a second.
const STOP_MAX: Duration = Duration::from_secs(20);

pub(crate) fn run(args: Args) -> ExitCode {
    serve(async move {
        let started = io::clock::SystemClock::default();
        let begun = io::clock::Clock::monotonic(&started);
        let plan = Plan::new(&args)?;
        let json = args.json;
        let report = |meta: &[MetaReady], data: &[DataReady]| {
            let seconds = (io::clock::Clock::monotonic(&started) - begun).as_secs_f64();
            plan.report(json, seconds, meta, data)
        };
        let end = if args.processes { in_processes(&plan, report).await } else { in_this_process(&plan, report).await };
        if end.is_ok() && !json {
            say(&format!("Stopped; the data is in {}.", plan.dir.display()));
        }
        end
    })
}

/// All that `up` decides before anything runs.
struct Plan {
    dir: PathBuf,
    ports: Ports,
    /// RPC and HTTP addresses of the metadata servers. Where there are several, all know the ports of all beforehand.
    metas: Vec<(SocketAddr, SocketAddr)>,
    datanodes: u16,
    disks: u16,
    replication: u16,
    durability: Durability,
    memory: u64,
    block_tokens: bool,
    block_key_ms: Option<u64>,
    data_transfer_protection: Vec<String>,
    encrypt_data_transfer: bool,
    certificates: Option<Certificates>,
    kerberos: Option<Kerberos>,
}

impl Plan {
    fn new(args: &Args) -> Result<Self, StartError> {
        if args.memory < MEMORY_MIN {
            return Err(StartError(format!("--memory {} is too little; give at least 64M", args.memory)));
        }
        let dir = args.dir.clone().unwrap_or_else(config::default_dir);
        let there = config::datanodes_in(&dir, DATANODES_MAX);
        let datanodes = args.datanodes.unwrap_or(if there == 0 { DATANODES_NEW } else { there });
        let highest = u32::from(args.port_base.unwrap_or(0)) + 10 * u32::from(datanodes) + 1;
        if highest > u32::from(u16::MAX) {
            return Err(StartError(format!("--port-base is too high: {datanodes} datanodes need ports to {highest}")));
        }
        let replication = args.replication.unwrap_or(datanodes.min(3));
        if replication > datanodes {
            let asked = format!("--replication {replication} with {datanodes} datanodes");
            return Err(StartError(format!(
                "{asked}: each copy needs a datanode of its own; give --datanodes {replication}"
            )));
        }
        if datanodes < there {
            let dir = dir.display();
            eprintln!(
                "levada: {dir} has the data of {there} datanodes; with --datanodes {datanodes}, files may lack blocks"
            );
        }
        let disks_there = config::disks_in(&dir, datanodes, DISKS_MAX);
        let disks = args.disks.unwrap_or(disks_there);
        if disks < disks_there {
            return Err(StartError(format!(
                "{} has {disks_there} disks a datanode; with --disks {disks}, files would lack blocks",
                dir.display()
            )));
        }
        let metas_there = config::metas_in(&dir, METAS_MAX);
        let asked = args.meta.as_deref().and_then(|number| number.parse().ok());
        let metas = asked.unwrap_or(metas_there.max(1));
        if metas_there > 0 && metas != metas_there {
            return Err(StartError(format!(
                "{} has {metas_there} metadata server(s), and --meta counts only for a new store; servers join and leave by \
                 `levada admin meta add` and `remove`, see docs/cli.md",
                dir.display()
            )));
        }
        let ports = Ports::from_base(args.port_base, &dir);
        let metas = (1..=metas).map(|number| ports.meta(number));
        let metas: Vec<_> =
            if metas.len() == 1 { metas.collect() } else { metas.map(settled).collect::<Result<_, _>>()? };
        let made = std::fs::create_dir_all(dir.join("conf")).and_then(|()| dir.canonicalize());
        let dir = made.map_err(|error| StartError::new(&dir.display().to_string(), &error))?;
        let (certificates, kerberos) = secured(args, &dir, metas.len() as u16, datanodes, disks)?.unzip();
        let kerberos = kerberos.flatten();
        let block_key_ms = args.block_key_interval.map(|seconds| u64::from(seconds) * 1000);
        let Args { durability, memory, block_tokens, encrypt_data_transfer, .. } = *args;
        let is_unsaid = args.data_transfer_protection.is_none();
        let data_transfer_protection = args.data_transfer_protection.iter().cloned().collect();
        Ok(Self {
            dir,
            ports,
            metas,
            datanodes,
            disks,
            replication,
            durability,
            memory,
            block_tokens: block_tokens || certificates.is_some(),
            block_key_ms,
            data_transfer_protection,
            encrypt_data_transfer: encrypt_data_transfer || (certificates.is_some() && is_unsaid),
            certificates,
            kerberos,
        })
    }

    fn data_dir(&self, number: u16) -> PathBuf {
        config::data_dir(&self.dir, number)
    }

    fn conf(&self, name: &str) -> PathBuf {
        self.dir.join("conf").join(format!("{name}.toml"))
    }

    /// The file of the metadata server `number`, counted from 1.
    fn meta_file(&self, number: u16) -> MetaFile {
        let (rpc_addr, http_addr) = self.metas[usize::from(number) - 1];
        let mut meta = metad::Config::new(config::meta_dir(&self.dir, number), rpc_addr);
        meta.replication = self.replication;
        meta.memory = self.memory / 2 / self.metas.len() as u64;
        meta.id = number.into();
        meta.lost_after_ms = LOST_AFTER_MS;
        meta.block_tokens = self.block_tokens;
        meta.security.data_transfer_protection = self.data_transfer_protection.clone();
        meta.security.encrypt_data_transfer = self.encrypt_data_transfer;
        meta.security.node_certificates = self.certificates.as_ref().map(|certificates| certificates.of_meta(number));
        meta.security.authority = self.certificates.as_ref().map(Certificates::authority);
        if let Some(Kerberos { principal, keytab }) = self.kerberos.clone() {
            meta.security.authentication = metad::AuthenticationSetting::Kerberos;
            (meta.security.principal, meta.security.keytab) = (Some(principal), Some(keytab));
            // The client chooses: ours takes the first, and Hadoop's, which has to name what it takes, the last, unless
            // its configuration says more.
            meta.security.rpc_protection = RPC_PROTECTIONS.map(str::to_owned).to_vec();
        }
        if let Some(interval) = self.block_key_ms {
            (meta.block_key_update_ms, meta.block_token_lifetime_ms) = (interval, interval);
        }
        if self.metas.len() > 1 {
            let members = self.metas.iter().zip(1..);
            meta.members = members.map(|((rpc, _), id)| metad::MemberAddr { id, addr: rpc.to_string() }).collect();
        }
        let https = self.certificates.as_ref().map(|certificates| certificates.https(&certificates.of_meta(number)));
        MetaFile { http_addr, https, log: Log::warnings(), meta }
    }

    fn meta_numbers(&self) -> impl Iterator<Item = u16> + use<> {
        1..=self.metas.len() as u16
    }

    fn data_file(&self, number: u16, meta: &[MetaReady]) -> DataFile {
        let (xfer, ipc, http) = self.ports.data(number);
        let mut data = datad::Config::new(self.data_dir(number), xfer, ipc, addrs_of(meta).join(","));
        if self.disks > 1 {
            data.dir = PathBuf::new();
            data.dirs = config::disk_dirs(&self.dir, number, self.disks);
        }
        data.domain_socket = config::domain_socket(&self.dir);
        data.durability = match self.durability {
            Durability::Synced => datad::Durability::Synced,
            Durability::Replicated => datad::Durability::Replicated,
        };
        data.node_certificates = self.certificates.as_ref().map(|certificates| certificates.of_data(number));
        data.memory = self.memory / 2 / u64::from(self.datanodes);
        let https = self.certificates.as_ref().map(|certificates| certificates.https(&certificates.of_data(number)));
        DataFile { http_addr: Some(http), https, log: Log::warnings(), data }
    }

    /// Where users prove who they are, this one may have no ticket, and who has that of the store makes homes.
    async fn make_home(&self, meta: &[MetaReady]) {
        match self.kerberos {
            Some(_) => {}
            None => make_home(meta).await,
        }
    }

    /// Where clients find the metadata servers.
    fn names(&self, meta: &[MetaReady]) -> Vec<String> {
        match self.kerberos {
            // Tickets are for hosts by their names.
            Some(_) => meta.iter().map(|meta| format!("{}:{}", secure::HOST, meta.rpc.port())).collect(),
            None => addrs_of(meta),
        }
    }

    fn url_of(&self, http: SocketAddr) -> String {
        format!("{}://{http}", if self.certificates.is_some() { "https" } else { "http" })
    }

    /// What of the store is protected; `None`: nothing.
    fn security(&self) -> Option<Security<'_>> {
        self.certificates.as_ref()?;
        let data_transfer = self.data_transfer_protection.first().map_or("privacy", String::as_str);
        Some(Security { data_transfer, kerberos: self.kerberos.as_ref() })
    }

    /// What stock clients are to know of it.
    fn protected(&self, meta: &[MetaReady]) -> Option<Protected> {
        self.certificates.as_ref()?;
        Some(Protected {
            principal: self.kerberos.as_ref().map(|kerberos| kerberos.principal.clone()),
            is_encrypted: self.encrypt_data_transfer,
            data_transfer: self.data_transfer_protection.clone(),
            web: meta.iter().map(|meta| format!("{}:{}", secure::HOST, meta.http.port())).collect(),
        })
    }

    /// All servers have started.
    fn remember(&self) -> Result<(), StartError> {
        match (&self.certificates, &self.kerberos) {
            (Some(certificates), Some(kerberos)) => certificates.remember(kerberos),
            _ => Ok(()),
        }
    }

    fn report(&self, json: bool, seconds: f64, meta: &[MetaReady], data: &[DataReady]) -> Result<(), StartError> {
        let addrs: Vec<SocketAddr> = data.iter().map(|node| node.data).collect();
        let rpc = self.names(meta);
        let http = meta[0].http;
        if let Err(error) = LastPorts::of(meta, data).save(&self.dir) {
            eprintln!("levada: the next start takes other ports: {error}");
        }
        let (conf, domain_socket) = (self.dir.join("conf").join("hadoop"), config::domain_socket(&self.dir));
        let protected = self.protected(meta);
        let hadoop_conf = match rpc.len() > 1 || protected.is_some() {
            true => Some(hadoop::write(&conf, &rpc, domain_socket.as_deref(), protected.as_ref())?),
            false => None,
        };
        if !json {
            let (http, security) = (&self.url_of(http), self.security());
            let welcome = Welcome { seconds, dir: &self.dir, rpc: &rpc, http, data: &addrs, security };
            say(&welcome.text(hadoop_conf.as_deref()));
            return Ok(());
        }
        let pids = |all: Vec<u32>| {
            let mut pids = all;
            pids.dedup();
            pids
        };
        let ready = Ready {
            ready: true,
            fs: config::fs_of(&rpc),
            http: self.url_of(http),
            meta: addrs_of(meta),
            data: addrs.iter().map(SocketAddr::to_string).collect(),
            data_http: data.iter().filter_map(|node| Some(self.url_of(node.http?))).collect(),
            dir: self.dir.clone(),
            pids: Pids {
                meta: pids(meta.iter().map(|meta| meta.pid).collect()),
                data: pids(data.iter().map(|node| node.pid).collect()),
            },
            data_dirs: (1..=self.datanodes).map(|number| self.data_dir(number)).collect(),
            disk_dirs: (self.disks > 1)
                .then(|| (1..=self.datanodes).map(|number| config::disk_dirs(&self.dir, number, self.disks)).collect()),
            hadoop_conf,
        };
        say(&serde_json::to_string(&ready).expect("a ready line is plain data"));
        Ok(())
    }
}

/// The certificates of all servers, if the store is secure, and its name in Kerberos.
fn secured(
    args: &Args,
    dir: &Path,
    metas: u16,
    datanodes: u16,
    disks: u16,
) -> Result<Option<(Certificates, Option<Kerberos>)>, StartError> {
    let mut certificates = Certificates::of(dir);
    if !args.secure && !certificates.are_there() {
        return match &args.principal {
            Some(_) => Err(StartError("--principal is for a secure store: give --secure as well".into())),
            None => Ok(None),
        };
    }
    (1..=metas).try_for_each(|number| certificates.equip_meta(number))?;
    (1..=datanodes).try_for_each(|number| certificates.equip_data(number, &config::disk_dirs(dir, number, disks)))?;
    let said = args.principal.clone().zip(args.keytab.clone());
    let said = said.map(|(principal, keytab)| Kerberos { principal, keytab });
    let kerberos = certificates.kerberos(said)?;
    Ok(Some((certificates, kerberos)))
}

/// Makes the home directory of whoever starts the store, unless it is there: relative paths lead into it, of `levada`
/// and `hdfs dfs` alike. Those of others are made by an administrator, as with HDFS.
async fn make_home(meta: &[MetaReady]) {
    let url = client::Url::parse(&config::fs_of(&addrs_of(meta))).expect("addresses make a URL");
    let client = client::Client::connect(&url, &host::user::current());
    let home = client.home();
    let making = async {
        match client.status(&home).await? {
            Some(_) => Ok(()),
            None => client.mkdirs(&home, HOME_MODE, true).await,
        }
    };
    let why = match tokio::time::timeout(HOME_WAIT, making).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer in {HOME_WAIT:?}"),
    };
    eprintln!(
        "levada: the home directory {home} was not made: {why}; relative paths need it, `levada mkdir -p .` makes it"
    );
}

fn addrs_of(meta: &[MetaReady]) -> Vec<String> {
    meta.iter().map(|meta| meta.rpc.to_string()).collect()
}

/// Takes free ports where the numbers are 0, and lets go of them: another program may take one in the moment that
/// follows, and the start then says so.
fn settled((rpc, http): (SocketAddr, SocketAddr)) -> Result<(SocketAddr, SocketAddr), StartError> {
    if rpc.port() != 0 {
        return Ok((rpc, http));
    }
    let listener = std::net::TcpListener::bind(rpc).and_then(|listener| listener.local_addr());
    listener.map(|rpc| (rpc, http)).map_err(|error| StartError::new("a free port", &error))
}

async fn in_this_process(
    plan: &Plan,
    report: impl Fn(&[MetaReady], &[DataReady]) -> Result<(), StartError>,
) -> Result<(), StartError> {
    let stop = stop_signal();
    let _keeper = plan.certificates.clone().map(|all| io::task::spawn_owned("certificates", all.keep()));
    let mut metas = Vec::new();
    for number in plan.meta_numbers() {
        metas.push(MetaRole::start(plan.meta_file(number)).await?);
    }
    let ready: Vec<MetaReady> = metas.iter().map(MetaRole::ready).collect();
    // All datanodes open their volumes at the same time.
    let starts: Vec<_> = (1..=plan.datanodes)
        .map(|number| io::task::spawn("datanode start", DataRole::start(plan.data_file(number, &ready))))
        .collect();
    let mut nodes = Vec::new();
    for start in starts {
        let node = start.await.map_err(|error| StartError::new("a datanode did not start", &error))?;
        nodes.push(node?);
    }
    plan.remember()?;
    plan.make_home(&ready).await;
    report(&ready, &nodes.iter().map(DataRole::ready).collect::<Vec<_>>())?;
    let end = tokio::select! {
        () = stop => Ok(()),
        failure = first_failure(&metas) => Err(failure),
    };
    for node in nodes {
        node.stop().await;
    }
    for meta in metas {
        meta.stop().await;
    }
    end
}

/// Answers when one of the servers cannot go on.
async fn first_failure(metas: &[MetaRole]) -> StartError {
    let failures = metas.iter().map(|meta| Box::pin(meta.failed()));
    let (failure, _, _) = select_all(failures).await;
    failure
}

async fn in_processes(
    plan: &Plan,
    report: impl Fn(&[MetaReady], &[DataReady]) -> Result<(), StartError>,
) -> Result<(), StartError> {
    let stop = stop_signal();
    let _keeper = plan.certificates.clone().map(|all| io::task::spawn_owned("certificates", all.keep()));
    let mut metas = Vec::new();
    for number in plan.meta_numbers() {
        let conf = plan.conf(&if number == 1 { "meta".to_owned() } else { format!("meta{number}") });
        config::write(&conf, &plan.meta_file(number))?;
        metas.push(Role::spawn("meta", &conf)?);
    }
    let mut ready: Vec<MetaReady> = Vec::new();
    for meta in &mut metas {
        ready.push(meta.ready().await?);
    }
    let mut nodes = Vec::new();
    for number in 1..=plan.datanodes {
        let conf = plan.conf(&format!("data{number}"));
        config::write(&conf, &plan.data_file(number, &ready))?;
        nodes.push(Role::spawn("data", &conf)?);
    }
    let mut data: Vec<DataReady> = Vec::new();
    for node in &mut nodes {
        data.push(node.ready().await?);
    }
    plan.remember()?;
    plan.make_home(&ready).await;
    report(&ready, &data)?;
    let lost = if let [meta] = &mut metas[..] {
        tokio::select! {
            () = stop => None,
            status = meta.child.wait() => Some(StartError::new("the metadata server ended", &ended(status))),
            () = watch(&mut nodes, "datanode") => None,
        }
    } else {
        tokio::select! {
            () = stop => None,
            () = watch(&mut metas, "metadata server") => None,
            () = watch(&mut nodes, "datanode") => None,
        }
    };
    for role in nodes.iter().chain(&metas) {
        role.ask_to_stop();
    }
    for role in nodes.iter_mut().chain(&mut metas) {
        role.stopped().await;
    }
    lost.map_or(Ok(()), Err)
}

/// Tells of each process that ends; the store goes on without it. Never returns.
async fn watch(nodes: &mut [Role], what: &'static str) {
    let watches = nodes.iter_mut().map(|node| async move {
        let status = node.child.wait().await;
        eprintln!(
            "levada: the {what} of {} ended: {}; the store goes on without it",
            node.conf.display(),
            ended(status)
        );
    });
    join_all(watches).await;
    pending().await
}

fn ended(status: std::io::Result<std::process::ExitStatus>) -> String {
    status.map_or_else(|error| error.to_string(), |status| status.to_string())
}

/// A role in a process of its own, which ends when this one does.
struct Role {
    child: Child,
    conf: PathBuf,
    /// Open as long as this process lives; waiting for a child would close the one inside it.
    _stdin: Option<ChildStdin>,
}

impl Role {
    fn spawn(role: &str, conf: &Path) -> Result<Self, StartError> {
        let program = std::env::current_exe().map_err(|error| StartError::new("the path of this program", &error))?;
        let mut command = Command::new(program);
        command
            .arg(role)
            .arg("--config")
            .arg(conf)
            .args(["--json", "--until-stdin-ends"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // Ctrl-C at the terminal reaches the whole group; the children are told by this process instead, in order.
        command.process_group(0).kill_on_drop(true);
        let mut child =
            command.spawn().map_err(|error| StartError::new(&format!("starting `levada {role}`"), &error))?;
        let _stdin = child.stdin.take();
        Ok(Self { child, conf: conf.to_owned(), _stdin })
    }

    async fn ready<T: serde::de::DeserializeOwned>(&mut self) -> Result<T, StartError> {
        let Some(output) = self.child.stdout.take() else { return Err(StartError("no output of a role".into())) };
        let mut line = String::new();
        let told = tokio::select! {
            told = async { BufReader::new(output).read_line(&mut line).await } => told,
            () = stop_signal() => return Err(StartError("stopped before it was ready".into())),
        };
        match told {
            Ok(_) => serde_json::from_str(&line).map_err(|_| {
                StartError(format!("the role of {} did not start; its own message is above", self.conf.display()))
            }),
            Err(error) => Err(StartError::new(&self.conf.display().to_string(), &error)),
        }
    }

    fn ask_to_stop(&self) {
        if let Some(pid) = self.child.id().and_then(|pid| rustix::process::Pid::from_raw(pid as i32)) {
            // Fails only if it ended meanwhile.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }

    async fn stopped(&mut self) {
        if tokio::time::timeout(STOP_MAX, self.child.wait()).await.is_err() {
            eprintln!("levada: the role of {} did not stop in {STOP_MAX:?} and is killed", self.conf.display());
            let _ = self.child.kill().await;
        }
    }
}
