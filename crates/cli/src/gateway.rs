//! `levada gateway`: one address for a whole store.

use crate::edge::{EdgeArgs, Reached};
use crate::reload::note_hangups;
use crate::roles::{StartError, announce, not_started_on, serve, stop_asked};
use crate::service::Service;
use crate::shell::session::acting;
use client::Url;
use gateway::{Place, TunnelConfig};
use serde::Serialize;
use std::net::SocketAddr;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The store, with its metadata servers as clients name them, as in hdfs://host:8020
    #[arg(long, env = "LEVADA_URL", value_name = "URL", required_unless_present = "upstream")]
    url: Option<String>,
    /// Where clients come to, who go through to the store; not at an edge
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:8030", conflicts_with = "edge")]
    listen: SocketAddr,
    /// Serve files over HTTP, too: GET http://ADDR/files/PATH
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// In whose name files are read over HTTP where a request names nobody (?user.name=NAME)
    #[arg(long, value_name = "NAME", default_value = "nobody", requires = "http")]
    http_user: String,
    /// Serve files over XRootD, too, read-only: root://ADDR//PATH
    #[arg(long, value_name = "ADDR")]
    root: Option<SocketAddr>,
    /// In whose name files are read over XRootD where a login names nobody, or where the store believes no names
    #[arg(long, value_name = "NAME", default_value = "nobody", requires = "root")]
    root_user: String,
    /// Serve /metrics and /health here
    #[arg(long, value_name = "ADDR")]
    metrics: Option<SocketAddr>,
    /// Who asks the store for its servers [default: the user of this machine]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Connections through it at a time; with more, the one that was silent for longest is closed
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, conflicts_with = "edge")]
    connections: usize,
    /// Run on the machine of a metadata server, which takes all who come through for callers on that machine; and let
    /// them through to datanodes on it
    #[arg(long, conflicts_with = "edge")]
    beside_servers: bool,
    #[command(flatten)]
    edge: EdgeArgs,
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
    /// `None`: it is an edge.
    gateway: Option<SocketAddr>,
    /// `None`: it serves no files.
    http: Option<SocketAddr>,
    /// `None`: it does not speak XRootD.
    root: Option<SocketAddr>,
    /// `None`: it serves none of HDFS's clients.
    hdfs: Option<SocketAddr>,
    hdfs_data: Option<SocketAddr>,
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
        if args.edge.is_edge() && args.http.is_none() && args.root.is_none() && args.edge.hdfs().is_none() {
            return Err(StartError("an edge serves files: give --http, --root or --hdfs ADDR".into()));
        }
        let hdfs = args.edge.hdfs();
        let Reached { url: store, options, edge } = args.edge.reached(args.url)?;
        let url = Url::parse(&store).map_err(|error| StartError::new(&store, &error))?;
        let user = acting(args.user).user;
        let files = args.http.map(|addr| gateway::FilesConfig { addr, user: args.http_user });
        // Whatever it is, it takes as many descriptors as it may.
        let affordable = affordable(args.root.is_some());
        let (place, kind, begin) = match edge {
            Some(edge) => (Place::NearReaders { edge, hdfs }, "edge", "edge".to_owned()),
            None => {
                let connection_count_max = args.connections.clamp(1, affordable);
                let tunnel =
                    TunnelConfig { addr: args.listen, connection_count_max, beside_servers: args.beside_servers };
                (Place::NearStore(tunnel), "gateway", format!("gateway on {}", args.listen))
            }
        };
        let config = gateway::Config {
            place,
            url,
            user,
            files,
            root: args.root.map(|addr| gateway::FilesConfig { addr, user: args.root_user }),
            root_limits: gateway::RootLimits::default(),
            metrics_addr: args.metrics,
        };
        let gateway = gateway::Gateway::start_with(config, options).await;
        let gateway = gateway.map_err(|error| {
            not_started_on(&begin, &error, "another address (`levada gateway --help` has the options)")
        })?;
        let ready = Ready {
            ready: true,
            gateway: gateway.tunnel_addr(),
            http: gateway.files_addr(),
            root: gateway.root_addr(),
            hdfs: gateway.hdfs_addrs().map(|(names, _)| names),
            hdfs_data: gateway.hdfs_addrs().map(|(_, data)| data),
            metrics: gateway.metrics_addr(),
            pid: std::process::id(),
        };
        let fronts = [ready.gateway, ready.http, ready.root, ready.hdfs].into_iter().flatten();
        let addrs = fronts.map(|addr| addr.to_string()).collect::<Vec<_>>().join(", ");
        let text = format!("{kind} to {store} ready on {addrs}");
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        _args: Args,
    }

    fn is_taken(options: &str) -> bool {
        let line = format!("gateway --url hdfs://a:8020 {options}");
        Line::try_parse_from(line.split_whitespace()).is_ok()
    }

    /// Who gives it expects something of it.
    #[test]
    fn an_option_that_would_count_for_nothing_is_refused() {
        for taken in [
            "",
            "--listen 0.0.0.0:1 --connections 5 --beside-servers",
            "--http 0.0.0.0:1 --http-user a --root 0.0.0.0:2 --root-user b",
            "--edge --http 0.0.0.0:1 --memory 1G",
            "--edge --hdfs 0.0.0.0:1 --hdfs-data 0.0.0.0:2 --cache-dir /c --cache-size 1G --upstream g:8030",
        ] {
            assert!(is_taken(taken), "{taken}");
        }
        for refused in [
            "--edge --http 0.0.0.0:1 --listen 0.0.0.0:2",
            "--edge --http 0.0.0.0:1 --connections 5",
            "--edge --http 0.0.0.0:1 --beside-servers",
            "--edge --http 0.0.0.0:1 --cache-size 1G",
            "--memory 1G",
            "--cache-dir /c",
            "--cache-size 1G",
            "--upstream g:8030",
            "--hdfs 0.0.0.0:1",
            "--edge --hdfs-data 0.0.0.0:1",
            "--http-user a",
            "--root-user a",
        ] {
            assert!(!is_taken(refused), "{refused}");
        }
    }
}
