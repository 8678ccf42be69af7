//! One run of a file command: which store, as whom, and what came of it.

use super::failure::{FAILED, Failure, Stop};
use super::output::{Output, harmless};
use super::progress::Progress;
use super::span;
use super::target::Target;
use super::temps::Temps;
use client::{Acting, Client, Options, Patience, Url};
use io::{Clock, SystemClock};
use std::collections::HashMap;
use std::fmt;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The store of `levada up`, with the port that this has by itself.
const URL_DEFAULT: &str = "hdfs://127.0.0.1:8020";
/// [`Url::SCHEME`] without its slashes.
const SCHEME_NAME: &str = "hdfs:";

/// Says `--port-base` of `up` where a command line cannot, and to other commands beside the store where that is.
pub(crate) const PORT_BASE_VARIABLE: &str = "LEVADA_UP_PORT_BASE";

/// A server starts anew in less, and on a slow machine, too.
const PATIENCE: Duration = Duration::from_secs(30);

/// Times that a file is written anew, and the pause before each: a datanode starts anew in less than that takes.
const PUT_AGAIN_MAX: u32 = 4;
const PUT_PAUSE: Duration = Duration::from_secs(1);
/// Such pauses until somebody who waits is told why.
const TOLD_AFTER: u32 = 2;

/// Options that every file command takes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Common {
    /// The store, as in hdfs://host:8020; a path behind it is where relative paths begin [default: fs.defaultFS of
    /// $HADOOP_CONF_DIR/core-site.xml, or hdfs://127.0.0.1:8020]
    #[arg(long, global = true, env = "LEVADA_URL", value_name = "URL", help_heading = "Common")]
    url: Option<String>,
    /// Who acts [default: $HADOOP_PROXY_USER, $HADOOP_USER_NAME where nobody proves who he is, the user of the ticket
    /// of Kerberos, or that of this machine]
    #[arg(long, global = true, value_name = "NAME", help_heading = "Common")]
    user: Option<String>,
    /// A gateway through which all servers of the store are reached: one that `levada gateway` runs
    #[arg(long, global = true, env = "LEVADA_GATEWAY", value_name = "HOST:PORT", help_heading = "Common")]
    gateway: Option<String>,
    /// How long to wait for a metadata server that is the only one of its store and cannot be reached, as while it
    /// starts anew; 0s: not at all [default: 30s; of doctor: 3s]
    #[arg(long, global = true, env = "LEVADA_PATIENCE", value_name = "TIME", value_parser = span::parse_any,
          help_heading = "Common")]
    patience: Option<u64>,
    /// Print JSON, one object a line
    #[arg(long, global = true, help_heading = "Common")]
    json: bool,
}

impl Common {
    /// Waits for so long, unless somebody says otherwise.
    pub(crate) fn patient_for(self, patience: Duration) -> Self {
        Self { patience: self.patience.or(Some(patience.as_millis() as u64)), ..self }
    }

    #[cfg(test)]
    pub(crate) fn of(url: &str, user: &str) -> Self {
        Self { url: Some(url.into()), user: Some(user.into()), gateway: None, patience: Some(0), json: false }
    }
}

/// `--help` alone, for commands whose `-h` means sizes that people read.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LongHelp {
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

#[derive(Debug)]
pub(crate) struct Session {
    command: &'static str,
    base: Url,
    /// What names it.
    base_from: &'static str,
    acting: Acting,
    gateway: Option<String>,
    patience: Duration,
    /// When bytes were waited for first that no datanode gave, and that were not waited for in vain.
    waiting_since: Mutex<Option<Duration>>,
    clock: SystemClock,
    clients: Mutex<HashMap<String, Client>>,
    pub(crate) output: Output,
    pub(crate) temps: Temps,
    pub(crate) progress: Progress,
    /// 0, or the gravest of what was reported.
    exit_code: AtomicU8,
}

/// The store that `levada up` runs beside this command, by the same environment: as in its container.
fn beside(port_base: Option<String>) -> String {
    let port = port_base.and_then(|text| text.parse::<u16>().ok()).filter(|port| *port != 0);
    port.map_or_else(|| URL_DEFAULT.to_owned(), |port| format!("hdfs://127.0.0.1:{port}"))
}

impl Session {
    pub(crate) fn new(command: &'static str, common: &Common) -> Result<Arc<Self>, Failure> {
        // An empty variable is as good as none, as for the user.
        let given = common.url.clone().filter(|url| !url.is_empty());
        let given = given.map(|url| (url, "--url or $LEVADA_URL"));
        let default_fs = || Some((client::default_fs()?, "fs.defaultFS of $HADOOP_CONF_DIR/core-site.xml"));
        let (url, base_from) = given
            .or_else(default_fs)
            .unwrap_or_else(|| (beside(std::env::var(PORT_BASE_VARIABLE).ok()), "the default of this command"));
        let base = Url::parse(&url).map_err(|error| Failure::of(format!("{url} (from {base_from})"), &error))?;
        Ok(Arc::new(Self {
            command,
            base,
            base_from,
            acting: acting(common.user.clone()),
            gateway: common.gateway.clone().filter(|gateway| !gateway.is_empty()),
            patience: common.patience.map_or(PATIENCE, Duration::from_millis),
            waiting_since: Mutex::default(),
            clock: SystemClock::new(),
            clients: Mutex::default(),
            output: Output::new(common.json),
            temps: Temps::default(),
            progress: Progress::default(),
            exit_code: AtomicU8::new(0),
        }))
    }

    /// How long servers are waited for that cannot be reached.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// Where the store is looked for, and who says so.
    pub(crate) fn whereabouts(&self) -> String {
        let through = self.gateway.as_ref().map(|gateway| format!(", through the gateway {gateway}"));
        format!("{} (from {}){}", self.base.with_path(""), self.base_from, through.unwrap_or_default())
    }

    /// Says what went wrong; the command goes on with what is left.
    pub(crate) fn report(&self, failure: &Failure) {
        self.exit_code.fetch_max(failure.exit_code(), Ordering::Relaxed);
        let text = failure.through(self.gateway.as_deref());
        self.progress.suspended(|| {
            let shown = if std::io::stderr().is_terminal() { harmless(&text) } else { text.as_str().into() };
            eprintln!("levada: {}: {shown}", self.command);
        });
    }

    /// Waits before a file is written anew whose datanodes failed, as the only one of a store that restarts. False:
    /// that was tried often enough.
    pub(crate) async fn waits_for_datanodes(&self, attempt: u32) -> bool {
        let is_patient = !self.patience.is_zero() && attempt < PUT_AGAIN_MAX;
        if is_patient {
            tokio::time::sleep(PUT_PAUSE).await;
        }
        is_patient
    }

    /// Waits before bytes are asked for again that no datanode gave, as one that starts anew. False: patience is over.
    /// All of a command have one: a tree of files whose datanodes are lost is not waited for file by file. `wait` is of
    /// the caller's bytes, and says how many pauses that were.
    pub(crate) async fn waits_for_replica(&self, wait: &mut Option<u32>, why: &client::Error) -> bool {
        let now = self.clock.monotonic();
        let since = *self.waiting_since.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(now);
        let left = self.patience.saturating_sub(now.saturating_sub(since));
        if left.is_zero() {
            return false;
        }
        let pauses = wait.get_or_insert(0);
        if *pauses == TOLD_AFTER {
            let left = span::human(left.as_millis() as u64);
            self.progress.suspended(|| {
                eprintln!("levada: {}: {why}; waiting for its datanodes for {left} more (--patience)", self.command);
            });
        }
        *pauses += 1;
        tokio::time::sleep(PUT_PAUSE.min(left)).await;
        true
    }

    /// The datanodes came back: the next time they are waited for as long.
    pub(crate) fn waited_well(&self) {
        *self.waiting_since.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The answer is no: nothing to say, but for the exit code.
    pub(crate) fn deny(&self) {
        self.exit_code.fetch_max(FAILED, Ordering::Relaxed);
    }

    /// `Stop::Failed` becomes a report, so that one bad operand does not end a command.
    pub(crate) fn settle<T>(&self, result: Result<T, Stop>) -> Result<Option<T>, Stop> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(Stop::Failed(failure)) => {
                self.report(&failure);
                Ok(None)
            }
            Err(Stop::PipeClosed) => Err(Stop::PipeClosed),
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.exit_code.load(Ordering::Relaxed))
    }

    /// Where an operand leads, patterns and backslashes left in the path.
    pub(crate) fn target(&self, typed: &str) -> Result<Target, Failure> {
        // What a shell makes of an unset variable must not stand for the home directory: `rm -r "$x"` would take all of
        // it.
        if typed.is_empty() {
            return Err(Failure::usage("\"\"", "an empty path; the home directory is ."));
        }
        // HDFS's users are used to leave the host out: hdfs:///x and hdfs:/x.
        let behind = typed.strip_prefix(SCHEME_NAME).map(|rest| rest.strip_prefix("//").unwrap_or(rest));
        let (url, full) = match behind {
            Some(path) if path.starts_with('/') => (self.base.with_path(path), true),
            _ if typed.contains("://") => (Url::parse(typed).map_err(|error| Failure::usage(typed, error))?, true),
            _ => (self.base.with_path(typed), false),
        };
        let client = self.client(&url);
        let path = match url.path.as_str() {
            "" if full => "/".to_owned(),
            path if path.starts_with('/') => tidy(path),
            path if self.base.path.is_empty() => tidy(&format!("{}/{path}", client.home())),
            path => tidy(&format!("{}/{path}", self.base.path)),
        };
        Ok(Target { client, path, full })
    }

    fn client(&self, url: &Url) -> Client {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let Acting { user, real_user } = &self.acting;
        let patience = Patience { time_max: self.patience, notice: Some(tell_waiting) };
        let options =
            || Options { gateway: self.gateway.clone(), real_user: real_user.clone(), patience, ..Options::default() };
        let connect = || Client::with_options(url, user, options());
        clients.entry(url.authority.clone()).or_insert_with(connect).clone()
    }
}

/// Says once in an outage why nothing happens.
fn tell_waiting(addr: &str, error: &dyn fmt::Display, left: Duration) {
    let left = span::human(left.as_millis() as u64);
    eprintln!("levada: {addr} cannot be reached ({error}); waiting for it for {left} more (--patience)");
}

/// Who acts, if nobody says so: the user of this machine at last.
pub(crate) fn acting(given: Option<String>) -> Acting {
    Acting::of_environment(given, || Some(host::user::current())).expect("this process has a user")
}

/// Resolves `.`, `..` and doubled slashes, as a shell user means them.
fn tidy(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    format!("/{}", names.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(url: &str) -> Arc<Session> {
        Session::new("test", &Common::of(url, "ann")).unwrap()
    }

    #[test]
    fn the_store_beside_it_is_where_up_has_it() {
        let at = |base: &str| beside(Some(base.to_owned()));
        assert_eq!((beside(None), at("49200")), (URL_DEFAULT.to_owned(), "hdfs://127.0.0.1:49200".to_owned()));
        assert_eq!([at("0"), at(""), at("x")], [URL_DEFAULT; 3], "nobody knows the port");
    }

    #[tokio::test]
    async fn operands_lead_where_the_user_means() {
        let plain = session("hdfs://h:1");
        let shown = |session: &Session, typed: &str| {
            let target = session.target(typed).unwrap();
            (target.shown(), target.to_string())
        };
        assert_eq!(shown(&plain, "/a//b/./c/.."), ("/a/b".into(), "hdfs://h:1/a/b".into()));
        assert_eq!(shown(&plain, "x"), ("/user/ann/x".into(), "hdfs://h:1/user/ann/x".into()));
        assert_eq!(shown(&plain, "hdfs://o/x/"), ("hdfs://o:8020/x".into(), "hdfs://o:8020/x".into()));
        assert_eq!(shown(&plain, "hdfs://o").0, "hdfs://o:8020/");
        assert_eq!(shown(&session("hdfs://h:1/base"), "x/*").0, "/base/x/*");
        assert_eq!(shown(&plain, "hdfs:///x").0, "hdfs://h:1/x");
        assert_eq!(shown(&plain, "hdfs:/x").0, "hdfs://h:1/x");
        assert_eq!(shown(&session("hdfs://h:1/base"), "hdfs:///x").0, "hdfs://h:1/x");
        assert!(plain.target("s3://bucket/x").is_err());
        assert!(plain.target("").is_err());
    }

    #[test]
    fn a_command_is_as_patient_as_somebody_says_or_as_it_is_itself() {
        let (said, short) = (Common::of("hdfs://h:1", "ann"), Duration::from_secs(3));
        let unsaid = Common { patience: None, ..said.clone() };
        let patience = |common: Common| Session::new("test", &common).unwrap().patience();
        assert_eq!(patience(said.patient_for(short)), Duration::ZERO);
        assert_eq!([patience(unsaid.clone().patient_for(short)), patience(unsaid)], [short, PATIENCE]);
    }

    #[tokio::test]
    async fn a_target_knows_its_kin() {
        let session = session("hdfs://h:1");
        let target = |typed| session.target(typed).unwrap();
        assert_eq!(target("/").child("a").path, "/a");
        assert_eq!(target("/a").parent().unwrap().path, "/");
        assert!(target("/").parent().is_none() && target("/").is_root());
        assert!(target("/a/b").is_within(&target("/a")) && target("/a").is_within(&target("/a")));
        assert!(target("/a").is_within(&target("/")));
        assert!(!target("/ab").is_within(&target("/a")) && !target("hdfs://o/a/b").is_within(&target("/a")));
    }
}
