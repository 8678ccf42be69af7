//! A process for each role, which ends when this one does.

use super::plan::Plan;
use super::servers::Servers;
use crate::config;
use crate::roles::{DataReady, MetaReady, StartError};
use futures_util::future::{join_all, pending};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

/// How long a child may take to stop after SIGTERM before it is killed; a flush of a full overlay takes about a second.
const STOP_MAX: Duration = Duration::from_secs(20);

#[derive(Default)]
pub(super) struct Processes {
    metas: Vec<Role>,
    nodes: Vec<Role>,
}

impl Servers for Processes {
    async fn start(&mut self, plan: &Plan) -> Result<(Vec<MetaReady>, Vec<DataReady>), StartError> {
        for number in plan.meta_numbers() {
            let conf = plan.conf(&if number == 1 { "meta".to_owned() } else { format!("meta{number}") });
            config::write(&conf, &plan.meta_file(number))?;
            self.metas.push(Role::spawn("meta", &conf)?);
        }
        let ready = all_ready(&mut self.metas).await?;
        for number in 1..=plan.datanodes {
            let conf = plan.conf(&format!("data{number}"));
            config::write(&conf, &plan.data_file(number, &ready))?;
            self.nodes.push(Role::spawn("data", &conf)?);
        }
        let data = all_ready(&mut self.nodes).await?;
        Ok((ready, data))
    }

    /// A store goes on without a datanode, and without one of several metadata servers.
    async fn failure(&mut self) -> StartError {
        if let [meta] = &mut self.metas[..] {
            tokio::select! {
                status = meta.child.wait() => StartError::new("the metadata server ended", &ended(status)),
                never = watch(&mut self.nodes, "datanode") => match never {},
            }
        } else {
            tokio::select! {
                never = watch(&mut self.metas, "metadata server") => match never {},
                never = watch(&mut self.nodes, "datanode") => match never {},
            }
        }
    }

    async fn stop(mut self) {
        for roles in [&mut self.nodes, &mut self.metas] {
            roles.iter().for_each(Role::ask_to_stop);
            for role in roles {
                role.stopped().await;
            }
        }
    }
}

/// What each says when it has started.
async fn all_ready<T: serde::de::DeserializeOwned>(roles: &mut [Role]) -> Result<Vec<T>, StartError> {
    let mut all = Vec::new();
    for role in roles {
        all.push(role.ready().await?);
    }
    Ok(all)
}

/// Tells of each process that ends; the store goes on without it.
async fn watch(nodes: &mut [Role], what: &'static str) -> Infallible {
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
        match BufReader::new(output).read_line(&mut line).await {
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
