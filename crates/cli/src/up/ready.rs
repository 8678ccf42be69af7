//! What `up` says when all servers have started.

use super::plan::Plan;
use crate::config;
use crate::hadoop;
use crate::ports::LastPorts;
use crate::roles::{DataReady, MetaReady, StartError, say};
use crate::welcome::Welcome;
use serde::Serialize;
use std::net::SocketAddr;
use std::path::PathBuf;

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

pub(super) fn report(
    plan: &Plan,
    json: bool,
    seconds: f64,
    meta: &[MetaReady],
    data: &[DataReady],
) -> Result<(), StartError> {
    let addrs: Vec<SocketAddr> = data.iter().map(|node| plan.reach.inside(node.data)).collect();
    let rpc = plan.names(meta);
    let http = meta[0].http;
    if let Err(error) = LastPorts::of(meta, data).save(&plan.dir) {
        eprintln!("levada: the next start takes other ports: {error}");
    }
    let (conf, domain_socket) = (plan.dir.join("conf").join("hadoop"), config::domain_socket(&plan.dir));
    let protected = plan.protected(meta);
    let hadoop_conf = match rpc.len() > 1 || protected.is_some() {
        true => Some(hadoop::write(&conf, &rpc, domain_socket.as_deref(), protected.as_ref())?),
        false => None,
    };
    if !json {
        let (http, security) = (&plan.url_of(http), plan.security());
        let welcome = Welcome { seconds, dir: &plan.dir, rpc: &rpc, http, data: &addrs, reach: &plan.reach, security };
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
        http: plan.url_of(http),
        meta: meta.iter().map(|meta| plan.reach.inside(meta.rpc).to_string()).collect(),
        data: addrs.iter().map(SocketAddr::to_string).collect(),
        data_http: data.iter().filter_map(|node| Some(plan.url_of(node.http?))).collect(),
        dir: plan.dir.clone(),
        pids: Pids {
            meta: pids(meta.iter().map(|meta| meta.pid).collect()),
            data: pids(data.iter().map(|node| node.pid).collect()),
        },
        data_dirs: (1..=plan.datanodes).map(|number| plan.data_dir(number)).collect(),
        disk_dirs: (plan.disks > 1)
            .then(|| (1..=plan.datanodes).map(|number| config::disk_dirs(&plan.dir, number, plan.disks)).collect()),
        hadoop_conf,
    };
    say(&serde_json::to_string(&ready).expect("a ready line is plain data"));
    Ok(())
}
