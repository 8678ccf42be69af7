//! `levada gateway`: one address for a whole store.

use crate::reload::note_hangups;
use crate::roles::{StartError, announce, not_started, serve, stop_asked};
use crate::service::Service;
use crate::shell::session::acting;
use client::Url;
use serde::Serialize;
use std::net::SocketAddr;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The store, with its metadata servers as clients name them, as in hdfs://host:8020
    #[arg(long, env = "LEVADA_URL", value_name = "URL")]
    url: String,
    /// Where clients come to
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:8030")]
    listen: SocketAddr,
    /// Serve files over HTTP, too: GET http://ADDR/files/PATH
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// In whose name files are read over HTTP where a request names nobody (?user.name=NAME)
    #[arg(long, value_name = "NAME", default_value = "nobody")]
    http_user: String,
    /// Serve files over XRootD, too, read-only: root://ADDR//PATH
    #[arg(long, value_name = "ADDR")]
    root: Option<SocketAddr>,
    /// In whose name files are read over XRootD where a login names nobody, or where the store believes no names
    #[arg(long, value_name = "NAME", default_value = "nobody")]
    root_user: String,
    /// Serve /metrics and /health here
    #[arg(long, value_name = "ADDR")]
    metrics: Option<SocketAddr>,
    /// Who asks the store for its servers [default: the user of this machine]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Connections at a time; with more, the one that was silent for longest is closed
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    connections: usize,
    /// Run on the machine of a metadata server, which takes all who come through for callers on that machine; and let
    /// them through to datanodes on it
    #[arg(long)]
    beside_servers: bool,
    /// Print one line of JSON when ready
    #[arg(long)]
    json: bool,
    /// Stop when standard input ends, that is, with the process that started this one
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
}

/// What a gateway says when it is ready.
#[derive(Debug, Serialize)]
struct Ready {
    ready: bool,
    gateway: SocketAddr,
    /// `None`: it serves no files.
    http: Option<SocketAddr>,
    /// `None`: it does not speak XRootD.
    root: Option<SocketAddr>,
    /// `None`: it shows no metrics.
    metrics: Option<SocketAddr>,
    pid: u32,
}

/// Connections for which there are descriptors, beside those that all else here takes.
fn affordable(with_root: bool) -> usize {
    const OTHERS: u64 = 1000;
    const EACH: u64 = 6;
    let others = if with_root { OTHERS + gateway::ROOT_CONNECTION_COUNT_MAX as u64 } else { OTHERS };
    let all = host::limit::raise_open_files().unwrap_or(Some(others));
    all.map_or(usize::MAX, |all| (all.saturating_sub(others.min(all / 2)) / EACH).max(1) as usize)
}

pub(crate) fn run(args: Args) -> ExitCode {
    serve(async move {
        let (stop, service) = (stop_asked(args.until_stdin_ends), Service::of_environment());
        let _hangups = note_hangups();
        let url = Url::parse(&args.url).map_err(|error| StartError::new(&args.url, &error))?;
        let user = acting(args.user).user;
        let files = args.http.map(|addr| gateway::FilesConfig { addr, user: args.http_user });
        let (addr, beside_servers) = (args.listen, args.beside_servers);
        let connection_count_max = args.connections.clamp(1, affordable(args.root.is_some()));
        let config = gateway::Config {
            addr,
            url,
            user,
            files,
            root: args.root.map(|addr| gateway::FilesConfig { addr, user: args.root_user }),
            root_limits: gateway::RootLimits::default(),
            metrics_addr: args.metrics,
            connection_count_max,
            beside_servers,
        };
        let gateway = gateway::Gateway::start(config).await;
        let gateway = gateway.map_err(|error| not_started(&format!("gateway on {}", args.listen), &error))?;
        let ready = Ready {
            ready: true,
            gateway: gateway.addr(),
            http: gateway.files_addr(),
            root: gateway.root_addr(),
            metrics: gateway.metrics_addr(),
            pid: std::process::id(),
        };
        let text = format!("gateway to {} ready on {}", args.url, ready.gateway);
        announce(args.json, &ready, &text);
        service.ready(&text);
        // It holds nothing that could hang but the runtime, which the watch itself needs.
        let watch = service.watch(|| ());
        stop.await;
        service.stopping();
        drop(watch);
        gateway.stop().await;
        Ok(())
    })
}
