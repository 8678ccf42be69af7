//! A process for each role, which ends when this one does.

use super::plan::Plan;
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

pub(super) async fn run(
    plan: &Plan,
    stop: impl Future<Output = ()>,
    report: impl Fn(&[MetaReady], &[DataReady]) -> Result<(), StartError>,
) -> Result<(), StartError> {
    let _keeper = plan.certificates.clone().map(|all| io::task::spawn_owned("certificates", all.keep()));
    let (mut metas, mut nodes) = (Vec::new(), Vec::new());
    // A start may last for ever: of a datanode that no metadata server takes, for one.
    let end = tokio::select! {
        () = stop => Ok(()),
        end = serve(plan, report, &mut metas, &mut nodes) => end.map(|never| match never {}),
    };
    // A datanode says goodbye to a metadata server that runs: what starts next need not wait for who may be there.
    for roles in [&mut nodes, &mut metas] {
        roles.iter().for_each(Role::ask_to_stop);
        for role in roles {
            role.stopped().await;
        }
    }
    end
}

/// Starts all, and watches them. What has started is in `metas` and `nodes`, for whoever stops it.
async fn serve(
    plan: &Plan,
    report: impl Fn(&[MetaReady], &[DataReady]) -> Result<(), StartError>,
    metas: &mut Vec<Role>,
    nodes: &mut Vec<Role>,
) -> Result<Infallible, StartError> {
    for number in plan.meta_numbers() {
        let conf = plan.conf(&if number == 1 { "meta".to_owned() } else { format!("meta{number}") });
        config::write(&conf, &plan.meta_file(number))?;
        metas.push(Role::spawn("meta", &conf)?);
    }
    let mut ready: Vec<MetaReady> = Vec::new();
    for meta in metas.iter_mut() {
        ready.push(meta.ready().await?);
    }
    for number in 1..=plan.datanodes {
        let conf = plan.conf(&format!("data{number}"));
        config::write(&conf, &plan.data_file(number, &ready))?;
        nodes.push(Role::spawn("data", &conf)?);
    }
    let mut data: Vec<DataReady> = Vec::new();
    for node in nodes.iter_mut() {
        data.push(node.ready().await?);
    }
    plan.remember()?;
    plan.make_home(&ready).await;
    report(&ready, &data)?;
    if let [meta] = &mut metas[..] {
        tokio::select! {
            status = meta.child.wait() => Err(StartError::new("the metadata server ended", &ended(status))),
            never = watch(nodes, "datanode") => match never {},
        }
    } else {
        tokio::select! {
            never = watch(metas, "metadata server") => match never {},
            never = watch(nodes, "datanode") => match never {},
        }
    }
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
