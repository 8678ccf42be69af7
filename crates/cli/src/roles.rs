//! The roles as processes of their own: `levada meta --config F` and `levada data --config F`.
//!
//! `up` starts the same [`MetaRole`] and [`DataRole`], in its own process or as children, so what is tried on one
//! machine is what runs on many.

use crate::config::{ConfigError, DataFile, Https, MetaFile};
use crate::reload::Reload;
use crate::service::Service;
use host::version::VERSION;
use security::joining::JoinToken;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fmt::Display;
use std::future::Future;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tls::Site;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug, clap::Args)]
pub(crate) struct MetaArgs {
    /// TOML file of the metadata server; `levada up --processes` leaves an example in DIR/conf/meta.toml
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Print one line of JSON when ready
    #[arg(long)]
    json: bool,
    /// Stop when standard input ends, that is, with the process that started this one
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DataArgs {
    /// TOML file of the datanode; `levada up --processes` leaves examples in DIR/conf/
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Get the certificate for `node_certificates` by a token of `levada admin datanode invite`, or by what the file
    /// after @ has, unless there is one already
    #[arg(long, value_name = "TOKEN|@FILE")]
    join: Option<String>,
    /// Print one line of JSON when ready
    #[arg(long)]
    json: bool,
    /// Stop when standard input ends, that is, with the process that started this one
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
}

/// What a metadata server says when it is ready.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MetaReady {
    pub ready: bool,
    pub rpc: SocketAddr,
    pub http: SocketAddr,
    pub pid: u32,
}

/// What a datanode says when the metadata server knows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DataReady {
    pub ready: bool,
    pub node: String,
    pub data: SocketAddr,
    pub rpc: SocketAddr,
    /// `None`: it has no page.
    pub http: Option<SocketAddr>,
    pub pid: u32,
}

/// Why a role did not start, as the person at the terminal needs it.
#[derive(Debug)]
pub(crate) struct StartError(pub String);

impl StartError {
    pub(crate) fn new(what: &str, why: &dyn Display) -> Self {
        Self(format!("{what}: {why}"))
    }

    /// How a member of a group is replaced, where nothing else helps.
    fn of_member(self, must_rejoin: bool) -> Self {
        if !must_rejoin {
            return self;
        }
        Self(format!("{} (`levada admin meta remove` and `levada admin meta add` do that)", self.0))
    }
}

/// How long a datanode looks for its metadata server before it says so. A guess: longer than any start that goes well.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// The log is not filled with it: one warning a minute.
const TELLS_A_WARNING: u32 = 12;

/// A server is up long before, unless it has much to recover; and then it does not matter when exactly this ends.
const START_MAX: Duration = Duration::from_secs(3);
/// At the end of the process, for threads that have nothing to lose: all roles were stopped before.
const THREADS_WAIT: Duration = Duration::from_secs(2);

/// Why `what` did not start, and what helps. Of all reasons, a port that another program has is the one that people
/// meet first.
pub(crate) fn not_started(what: &str, error: &(dyn Error + 'static)) -> StartError {
    not_started_on(what, error, "other ports (`levada up --port-base N`, 0 for free ones)")
}

/// The same, where other addresses are chosen by `options`.
pub(crate) fn not_started_on(what: &str, error: &(dyn Error + 'static), options: &str) -> StartError {
    let mut cause = Some(error);
    while let Some(one) = cause {
        if one.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::AddrInUse) {
            let advice = format!("stop it, or choose {options}");
            return StartError(format!("{what}: {error}; another program listens there: {advice}"));
        }
        if let Some(datad::StartError::NoCertificate { .. }) = one.downcast_ref() {
            let advice = "start it with --join TOKEN, which `levada admin datanode invite` gives, or put there what \
                          `levada certificate datanode` makes";
            return StartError(format!("{what}: {error}: {advice}"));
        }
        cause = one.source();
    }
    StartError::new(what, &error)
}

impl From<ConfigError> for StartError {
    fn from(error: ConfigError) -> Self {
        Self(error.0)
    }
}

pub(crate) struct MetaRole {
    meta: Arc<metad::Metad>,
    http: http::Server,
}

impl MetaRole {
    pub(crate) async fn start(file: MetaFile) -> Result<Self, StartError> {
        let rpc_addr = file.meta.rpc_addr;
        let site = file.https.as_ref().map(Https::site).transpose()?;
        let meta = metad::start(file.meta).await.map_err(|error| {
            not_started(&format!("metadata server on {rpc_addr}"), &error).of_member(error.must_rejoin())
        })?;
        let meta = Arc::new(meta);
        let source = Arc::clone(&meta);
        let status = Arc::new(move || source.status());
        let source = Arc::clone(&meta);
        let check = Arc::new(move |pairs, asker: http::Asker| source.fsck(pairs, asker.address, asker.name));
        let source = Arc::clone(&meta);
        let proof = meta.asks_for_web_proofs().then(|| -> http::ProofSource {
            Arc::new(move |token| {
                let metad::Negotiated { name, answer } = source.web_proof(token)?;
                Ok(http::Proven { name, answer })
            })
        });
        let source = Arc::clone(&meta);
        let metrics = Arc::new(move |format| source.metrics(format));
        let pages = http::Pages { status, metrics, check: Some(check), proof };
        let http = http::Server::bind(file.http_addr, http::Limits::default(), pages, site)
            .await
            .map_err(|error| not_started(&format!("HTTP on {}", file.http_addr), &error))?;
        Ok(Self { meta, http })
    }

    pub(crate) fn ready(&self) -> MetaReady {
        MetaReady { ready: true, rpc: self.meta.rpc_addr(), http: self.http.addr(), pid: std::process::id() }
    }

    /// Answers when the server cannot go on.
    pub(crate) async fn failed(&self) -> StartError {
        let fault = self.meta.failed().await;
        StartError::new("the metadata server cannot go on", &fault).of_member(fault.must_rejoin)
    }

    /// Returns when the server has looked at all that its status tells of: the leader's memory and the store.
    fn probe(&self) -> impl Fn() + Send + Sync + use<> {
        let meta = Arc::clone(&self.meta);
        move || drop(meta.status())
    }

    pub(crate) async fn stop(self) {
        self.http.shutdown();
        self.meta.shutdown().await;
    }
}

pub(crate) struct DataRole {
    data: datad::Datad,
    http: Option<http::Server>,
}

impl DataRole {
    /// Returns when the metadata server knows the datanode.
    pub(crate) async fn start(file: DataFile) -> Result<Self, StartError> {
        Self::start_telling(file, |waits| eprintln!("levada: {waits}")).await
    }

    /// The same; while nothing is left to do but to wait for the metadata server, it tells so again and again.
    async fn start_telling(file: DataFile, mut tell: impl FnMut(&str)) -> Result<Self, StartError> {
        let DataFile { http_addr, https, mut data, .. } = file;
        let site = https.as_ref().map(Https::site).transpose()?;
        if data.info_port == 0 {
            data.info_port = http_addr.map_or(0, |addr| addr.port());
        }
        let (addr, metad) = (data.xfer_addr, data.metad.clone());
        let data = datad::start(data).await.map_err(|error| not_started(&format!("datanode on {addr}"), &error))?;
        let http = match http_addr {
            Some(addr) => Some(serve_http(addr, &data, site).await?),
            None => None,
        };
        // It tries again by itself; whoever waits for it should know what it waits for.
        loop {
            tokio::select! {
                () = data.registered() => return Ok(Self { data, http }),
                reason = data.failed() => return Err(StartError::new(&format!("datanode on {addr}"), &reason)),
                () = tokio::time::sleep(SILENCE_MAX) => {}
            }
            let waits = format!("the datanode on {} waits for the metadata server at {metad}", data.xfer_addr());
            tell(&waits);
        }
    }

    /// Answers when the datanode cannot go on.
    pub(crate) async fn failed(&self) -> StartError {
        StartError::new("the datanode cannot go on", &self.data.failed().await)
    }

    pub(crate) fn ready(&self) -> DataReady {
        DataReady {
            ready: true,
            node: self.data.node_id().to_string(),
            data: self.data.xfer_addr(),
            rpc: self.data.ipc_addr(),
            http: self.http.as_ref().map(http::Server::addr),
            pid: std::process::id(),
        }
    }

    /// Returns when the datanode has looked at what its status tells of. No disk is waited for: one that hangs fails
    /// by itself, and the others go on.
    fn probe(&self) -> impl Fn() + Send + Sync + use<> {
        let status = self.data.status();
        move || drop(status())
    }

    pub(crate) async fn stop(self) {
        if let Some(http) = &self.http {
            http.shutdown();
        }
        self.data.shutdown().await;
    }
}

/// Serves from now on, also while the metadata server is still looked for.
async fn serve_http(
    addr: SocketAddr,
    data: &datad::Datad,
    site: Option<Arc<Site>>,
) -> Result<http::Server, StartError> {
    let (status, registry) = (Arc::new(data.status()), data.metrics());
    let metrics = Arc::new(move |format| registry.render(format));
    let pages = http::Pages { status, metrics, check: None, proof: None };
    let http = http::Server::bind(addr, http::Limits::default(), pages, site).await;
    http.map_err(|error| not_started(&format!("HTTP on {addr}"), &error))
}

pub(crate) fn run_meta(args: MetaArgs) -> ExitCode {
    serve(async move {
        let (stop, service) = (stop_asked(args.until_stdin_ends), Service::of_environment());
        let mut reload = Reload::new(args.config);
        let file: MetaFile = reload.read()?;
        tracing::info!(version = VERSION, dir = %file.meta.dir.display(), "metadata server starts");
        let role = MetaRole::start(file).await?;
        let ready = role.ready();
        tracing::info!(rpc = %ready.rpc, http = %ready.http, "metadata server serves");
        let text = format!("metadata server ready on {}, HTTP on {}", ready.rpc, ready.http);
        announce(args.json, &ready, &text);
        service.ready(&text);
        let watch = service.watch(role.probe());
        let meta = Arc::clone(&role.meta);
        let reloading = reload.follow(move |file: MetaFile| {
            let keys = meta.reload(&file.meta)?;
            Ok(keys.iter().map(|key| format!("meta.{key}")).collect())
        });
        let end = tokio::select! {
            () = stop => Ok(()),
            failure = role.failed() => Err(failure),
            () = reloading => unreachable!("signals are followed for ever"),
        };
        service.stopping();
        drop(watch);
        tracing::info!("metadata server stops");
        role.stop().await;
        end
    })
}

pub(crate) fn run_data(args: DataArgs) -> ExitCode {
    serve(async move {
        let mut stop = std::pin::pin!(stop_asked(args.until_stdin_ends));
        let service = Service::of_environment();
        let mut reload = Reload::new(args.config);
        let file: DataFile = reload.read()?;
        tracing::info!(version = VERSION, metad = file.data.metad, "datanode starts");
        // Nothing of the datanode itself changes while it runs.
        let mut reloading = std::pin::pin!(reload.follow(|_: DataFile| Ok(Vec::new())));
        let start = async {
            if let Some(token) = &args.join {
                join(&file.data, token).await?;
            }
            // While it waits only the runtime could hang.
            let mut watch = None;
            let mut tells = 0_u32;
            let tell = |waits: &str| {
                if tells.is_multiple_of(TELLS_A_WARNING) {
                    tracing::warn!("{waits}");
                }
                tells = tells.wrapping_add(1);
                service.ready(waits);
                watch.get_or_insert_with(|| service.watch(|| ()));
            };
            DataRole::start_telling(file, tell).await
        };
        let role = tokio::select! {
            role = start => role?,
            () = &mut stop => return Ok(()),
            () = &mut reloading => unreachable!("signals are followed for ever"),
        };
        let ready = role.ready();
        let text = format!("datanode {} ready on {}", ready.node, ready.data);
        announce(args.json, &ready, &text);
        service.ready(&text);
        let watch = service.watch(role.probe());
        let end = tokio::select! {
            () = stop => Ok(()),
            failure = role.failed() => Err(failure),
            () = reloading => unreachable!("signals are followed for ever"),
        };
        service.stopping();
        drop(watch);
        tracing::info!("datanode stops");
        role.stop().await;
        end
    })
}

/// Gets the datanode's certificate by a token, unless it has one by this very token that has not ended. So a service
/// may be started with the same token for ever, and another token has a datanode join anew whose certificate was
/// revoked.
async fn join(config: &datad::Config, token: &str) -> Result<(), StartError> {
    let joined = datad::joined(config).await;
    let text = match token.strip_prefix('@') {
        Some(path) => match std::fs::read_to_string(path) {
            // Somebody removed what was used.
            Err(error) if error.kind() == ErrorKind::NotFound && joined.is_some() => return Ok(()),
            read => read.map_err(|error| StartError::new(path, &error))?,
        },
        None => token.to_owned(),
    };
    let token = JoinToken::parse(text.trim()).map_err(|error| StartError::new("the join token", &error))?;
    if joined.is_some_and(|joined| joined.token == Some(token.number)) {
        return Ok(());
    }
    let joined = datad::join(config, &token).await;
    let node = joined.map_err(|error| not_joined(&error.to_string(), own_id(config)))?;
    eprintln!("levada: joined the store as datanode {node}");
    Ok(())
}

/// Whose disks they are, if they are somebody's: also of a datanode that was started once without `node_certificates`.
fn own_id(config: &datad::Config) -> Option<String> {
    let dirs = config.dirs().ok()?;
    datad::node_of(&dirs).ok().flatten().map(|node| node.to_string())
}

fn not_joined(error: &str, own: Option<String>) -> StartError {
    let advice = match own.filter(|own| error.contains(&format!("the disks are of {own}"))) {
        Some(own) => format!(
            " (`levada admin datanode invite --datanode {own}` makes it; if these disks hold nothing that is needed, \
             empty their directories instead)"
        ),
        None => String::new(),
    };
    StartError(format!("joining the store: {error}{advice}"))
}

pub(crate) fn announce<T: Serialize>(json: bool, ready: &T, text: &str) {
    if json {
        say(&serde_json::to_string(ready).expect("a ready line is plain data"));
    } else {
        say(text);
    }
}

/// Prints for whoever reads. When nobody does any more, as after `| head`, a server goes on.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Runs a server to its end; an error is told in one line. What the start takes for a moment goes back to the machine.
pub(crate) fn serve(run: impl Future<Output = Result<(), StartError>>) -> ExitCode {
    // Each open replica and each connection holds descriptors; shells often grant only 1024.
    let _ = host::limit::raise_open_files();
    let frugal = host::memory::frugal();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("levada: the runtime does not start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let guard = runtime.enter();
    let start = io::task::spawn_owned("start", async move {
        tokio::time::sleep(START_MAX).await;
        drop(frugal);
    });
    let ended = runtime.block_on(run);
    // What was to be written is. A thread that waits for a disk that hangs is not waited for.
    drop(start);
    drop(guard);
    runtime.shutdown_timeout(THREADS_WAIT);
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("levada: {}", error.0);
            ExitCode::FAILURE
        }
    }
}

/// Ends when this process is asked to stop, by a signal or by the end of its parent.
pub(crate) fn stop_asked(until_stdin_ends: bool) -> impl Future<Output = ()> {
    let signal = stop_signal();
    async move {
        tokio::select! {
            () = signal => {}
            () = stdin_end(), if until_stdin_ends => {}
        }
    }
}

/// Ends with standard input. A thread reads it: the runtime would wait for its own read at shutdown.
async fn stdin_end() {
    let (ended, end) = tokio::sync::oneshot::channel();
    // Without a thread for it, signals still stop this process.
    let _ = io::task::thread("stdin", move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = ended.send(());
    });
    let _ = end.await;
}

/// Ends with the first Ctrl-C or SIGTERM. Counted from the call, not from the first look at the future: a signal that
/// comes during the start is not lost, and does not end the process before its roles are stopped.
pub(crate) fn stop_signal() -> impl Future<Output = ()> {
    let stream = |kind| signal(kind).expect("signal handlers can be set");
    let (mut interrupt, mut terminate) = (stream(SignalKind::interrupt()), stream(SignalKind::terminate()));
    async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_must_rejoin_names_the_commands() {
        let text = |must_rejoin| StartError::new("the metadata server", &"other rows").of_member(must_rejoin).0;
        assert!(text(true).contains("levada admin meta remove") && !text(false).contains("levada"));
    }

    #[test]
    fn a_port_that_is_taken_comes_with_advice() {
        let text = |kind: ErrorKind| {
            let source = std::io::Error::from(kind);
            not_started("HTTP", &metad::StartError::Listen { addr: ([127, 0, 0, 1], 8020).into(), source }).0
        };
        assert!(text(ErrorKind::AddrInUse).contains("--port-base"));
        assert!(!text(ErrorKind::PermissionDenied).contains("--port-base"));
        let error = std::io::Error::from(ErrorKind::AddrInUse);
        assert!(not_started_on("gateway", &error, "another `--listen`").0.ends_with("or choose another `--listen`"));
    }

    #[test]
    fn disks_of_a_datanode_are_invited_by_its_id() {
        let refused = "the token is for a new datanode, and the disks are of 42: ask for a token that is for it";
        let text = not_joined(refused, Some("42".into())).0;
        assert!(text.contains("levada admin datanode invite --datanode 42"), "{text}");
        assert_eq!(not_joined("no such token", Some("42".into())).0, "joining the store: no such token");
    }

    #[test]
    fn a_datanode_without_certificate_is_told_how_to_get_one() {
        let error = datad::StartError::NoCertificate { dir: "/c".into() };
        assert!(!error.to_string().contains("levada"), "a library knows no commands: {error}");
        let text = not_started("datanode", &error).0;
        assert!(["/c has no certificate", "--join TOKEN", "levada certificate"].iter().all(|part| text.contains(part)));
    }
}
