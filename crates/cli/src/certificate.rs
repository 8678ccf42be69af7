//! `levada certificate`: the authority of a store, and certificates for its servers, for stores of several machines.

use crate::roles::{StartError, say};
use crate::shell::time;
use clap::Subcommand;
use io::{Clock, SystemClock};
use security::node_name::NodeName;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tls::{Authority, Credentials, Host};
use types::{Millis, NodeId};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make an authority in a new directory: ca.crt, and ca.key, which signs and is to be kept where no server is
    Authority { dir: PathBuf },
    /// Make a certificate for the metadata server with this id, or a new one in place of the one that is there
    Member {
        #[arg(value_parser = clap::value_parser!(u64).range(1..))]
        id: u64,
        #[command(flatten)]
        make: Make,
    },
    /// Make a certificate for a datanode, or a new one in place of the one that is there
    Datanode {
        /// The datanode's id [default: that of the certificate that is there, or a new one]
        #[arg(value_parser = node_id)]
        id: Option<NodeId>,
        /// A directory of replicas of a datanode that runs already: its id is taken
        #[arg(long, value_name = "DIR", conflicts_with = "id")]
        data_dir: Option<PathBuf>,
        #[command(flatten)]
        make: Make,
    },
    /// Say whose certificate is in a directory, for which hosts, and until when it counts; or which authority
    Show {
        dir: PathBuf,
        /// One line of JSON: name, hosts, issued_ms and ends_ms (milliseconds since 1970; null: not known, ended),
        /// is_due; of an authority: its fingerprint
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Make {
    /// Directory of the authority
    #[arg(long, value_name = "DIR")]
    authority: PathBuf,
    /// Where node.crt, node.key and ca.crt go: what `node_certificates` names
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// An address or a name of the server, as clients have it in URLs, for HTTPS; may be given several times [default:
    /// those of the certificate that is there]
    #[arg(long, value_name = "HOST")]
    host: Vec<Host>,
}

fn node_id(text: &str) -> Result<NodeId, String> {
    NodeId::parse(text).ok_or_else(|| "an id of a datanode is of the form of a UUID".into())
}

pub(crate) fn run(command: Command) -> ExitCode {
    match done(command) {
        Ok(said) => {
            say(&said);
            ExitCode::SUCCESS
        }
        Err(StartError(error)) => {
            eprintln!("levada: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What to say of it.
fn done(command: Command) -> Result<String, StartError> {
    match command {
        Command::Authority { dir } => {
            if dir.join("ca.key").exists() {
                let dir = dir.display();
                return Err(StartError(format!(
                    "{dir} has an authority; servers would not believe another one's word"
                )));
            }
            Authority::open_or_make(&dir, SystemClock::new().now()).map_err(failed)?;
            Ok(format!("{}: an authority; keep ca.key secret", dir.display()))
        }
        Command::Member { id, make } => make.of(NodeName::Member(id)),
        Command::Datanode { id, data_dir, make } => {
            let there = match &data_dir {
                Some(dir) => Some(id_of(dir)?),
                None => id.or_else(|| datanode_in(&make.out)),
            };
            make.of(NodeName::Datanode(there.unwrap_or_else(|| NodeId(io::random::uuid()))))
        }
        Command::Show { dir, json } if !Credentials::is_at(&dir) && dir.join("ca.key").exists() => {
            let fingerprint = Authority::open(&dir).map_err(failed)?.fingerprint();
            let fingerprint: String = fingerprint.iter().map(|byte| format!("{byte:02x}")).collect();
            Ok(match json {
                true => serde_json::json!({ "authority": fingerprint }).to_string(),
                false => format!("{}: an authority; SHA-256 of its certificate: {fingerprint}", dir.display()),
            })
        }
        Command::Show { dir, json } => {
            let credentials = Credentials::open(&dir).map_err(failed)?;
            let shown = Shown::of(&credentials, SystemClock::new().now());
            Ok(if json { shown.json() } else { format!("{}: {shown}", dir.display()) })
        }
    }
}

/// What there is to say of a certificate.
struct Shown {
    name: NodeName,
    hosts: Vec<String>,
    issued: Option<Millis>,
    ends: Option<Millis>,
    is_due: bool,
}

impl Shown {
    fn of(credentials: &Credentials, now: Millis) -> Self {
        Self {
            name: credentials.name(),
            hosts: credentials.hosts().iter().map(ToString::to_string).collect(),
            issued: credentials.issued_at(),
            ends: credentials.ends_at(now),
            is_due: credentials.is_due(now),
        }
    }

    fn json(&self) -> String {
        serde_json::json!({
            "name": self.name.to_string(),
            "hosts": self.hosts,
            "issued_ms": self.issued.map(|time| time.0),
            "ends_ms": self.ends.map(|time| time.0),
            "is_due": self.is_due,
        })
        .to_string()
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if !self.hosts.is_empty() {
            write!(f, ", also {}", self.hosts.join(", "))?;
        }
        if let Some(issued) = self.issued {
            write!(f, "; made {}", time::second(issued))?;
        }
        match self.ends {
            Some(ends) => write!(f, "; ends {} UTC", time::second(ends))?,
            None => write!(f, "; it does not count now")?,
        }
        if self.is_due {
            write!(f, "; it is time for another one")?;
        }
        Ok(())
    }
}

fn failed(error: tls::TlsError) -> StartError {
    StartError::new("certificate", &error)
}

/// Of the datanode whose replicas are there.
fn id_of(dir: &Path) -> Result<NodeId, StartError> {
    let found =
        datad::node_of(&[dir.to_owned()]).map_err(|error| StartError::new(&dir.display().to_string(), &error))?;
    found.ok_or_else(|| {
        StartError(format!("{} has no replicas: leave --data-dir out for a new datanode", dir.display()))
    })
}

fn datanode_in(dir: &Path) -> Option<NodeId> {
    match Credentials::open(dir).ok()?.name() {
        NodeName::Datanode(id) => Some(id),
        NodeName::Member(_) => None,
    }
}

impl Make {
    fn of(&self, name: NodeName) -> Result<String, StartError> {
        let mut hosts = self.host.clone();
        if let Ok(there) = Credentials::open(&self.out) {
            if there.name() != name {
                let (out, there) = (self.out.display(), there.name());
                return Err(StartError(format!(
                    "{out} has the certificate of {there}; name another directory with --out"
                )));
            }
            // Clients of HTTPS would not know the server any more.
            if hosts.is_empty() {
                hosts = there.hosts();
            }
        }
        let now = SystemClock::new().now();
        let made = Authority::open(&self.authority).and_then(|authority| authority.equip(&self.out, name, &hosts, now));
        made.map_err(failed)?;
        let also = hosts.iter().map(|host| format!(", also {host}")).collect::<String>();
        Ok(format!("{}: {name}{also}", self.out.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World(tempfile::TempDir);

    impl World {
        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn make(&self, out: &str) -> Make {
            Make { authority: self.path("ca"), out: self.path(out), host: Vec::new() }
        }

        fn shown(&self, dir: &str) -> String {
            done(Command::Show { dir: self.path(dir), json: false }).unwrap()
        }
    }

    #[test]
    fn an_authority_makes_certificates_and_renews_them() {
        let world = World(tempfile::tempdir().unwrap());
        let member = |out: &str, id| done(Command::Member { id, make: world.make(out) });
        assert!(member("meta", 1).unwrap_err().0.contains("ca.key"), "there is no authority yet");
        done(Command::Authority { dir: world.path("ca") }).unwrap();
        assert!(done(Command::Authority { dir: world.path("ca") }).is_err());
        let authority = Authority::open(&world.path("ca")).unwrap();
        assert!(world.shown("ca").ends_with(&authority.fingerprint().map(|byte| format!("{byte:02x}")).concat()));
        member("meta", 1).unwrap();
        assert!(world.shown("meta").contains("levada://member/1; made 2"));
        let json = done(Command::Show { dir: world.path("meta"), json: true }).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let lifetime_ms = json["ends_ms"].as_u64().unwrap() - json["issued_ms"].as_u64().unwrap();
        let second = std::time::Duration::from_secs(1);
        let lifetime = tls::LIFETIME - second..=tls::LIFETIME + second;
        assert!(lifetime.contains(&std::time::Duration::from_millis(lifetime_ms)), "{json}");
        assert_eq!((&json["name"], &json["is_due"]), (&"levada://member/1".into(), &false.into()));
        let before = std::fs::read(world.path("meta/node.crt")).unwrap();
        member("meta", 1).unwrap();
        assert_ne!(std::fs::read(world.path("meta/node.crt")).unwrap(), before);
        assert!(member("meta", 2).is_err(), "it is another server's");
        let named = |out: &str, hosts: &[&str], ca: &str| {
            let host = hosts.iter().map(|host| host.parse().unwrap()).collect();
            let make = Make { host, authority: world.path(ca), ..world.make(out) };
            done(Command::Member { id: 3, make }).unwrap();
            Credentials::open(&world.path(out)).unwrap().hosts().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(named("named", &["127.0.0.1", "meta3"], "ca"), ["127.0.0.1", "meta3"]);
        done(Command::Authority { dir: world.path("ca2") }).unwrap();
        assert_eq!(named("named", &[], "ca2"), ["127.0.0.1", "meta3"], "as before, also of another authority");
        assert_eq!(named("named", &["other"], "ca2"), ["other"]);
        let datanode = || done(Command::Datanode { id: None, data_dir: None, make: world.make("data") }).unwrap();
        let first = datanode();
        assert_eq!(datanode(), first, "the same node");
        assert!(first.contains("levada://datanode/"));
        let none = Command::Datanode { id: None, data_dir: Some(world.path("no")), make: world.make("other") };
        assert!(done(none).unwrap_err().0.contains("no replicas"));
    }
}
