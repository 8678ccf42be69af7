//! What makes a store secure that `up --secure` runs: the authority, a certificate for each server, and the name of the
//! store in Kerberos, if it has one.
//!
//! ```text
//! DIR/certificates/ca/            the authority: ca.crt, and ca.key, which signs
//! DIR/certificates/meta1/ …       node.crt, node.key, ca.crt of a server
//! DIR/certificates/kerberos.toml  what `--principal` and `--keytab` said at the last start that worked
//! ```
//!
//! Promise: once they are there the store stays secure, also where `--secure` is not given again.

use crate::config::{self, Https};
use crate::reach::Reach;
use crate::roles::StartError;
use io::{Clock, SystemClock};
use security::node_name::NodeName;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tls::{Authority, Credentials};
use types::{Millis, NodeId};

/// A certificate is good for weeks after it is due.
const RENEW_EACH: Duration = Duration::from_secs(3600);

/// As whom metadata servers prove themselves to users, and believe these.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kerberos {
    pub(crate) principal: String,
    pub(crate) keytab: PathBuf,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Certificates {
    dir: PathBuf,
    /// By what clients know this machine.
    reach: Reach,
    /// Metadata servers, which have nobody to ask for another certificate; datanodes ask them.
    members: Vec<(String, NodeName)>,
}

impl Certificates {
    /// None are made yet. `dir`: of the store.
    pub(crate) fn of(dir: &Path, reach: Reach) -> Self {
        Self { dir: dir.join("certificates"), reach, members: Vec::new() }
    }

    pub(crate) fn are_there(&self) -> bool {
        self.authority().is_dir()
    }

    pub(crate) fn authority(&self) -> PathBuf {
        self.dir.join("ca")
    }

    /// What was said last counts until something else is said: a store whose users prove who they are does not open
    /// because an option was forgotten.
    pub(crate) fn kerberos(&self, said: Option<Kerberos>) -> Result<Option<Kerberos>, StartError> {
        let Some(said) = said else {
            let path = self.kerberos_file();
            return if path.exists() { config::read(&path).map(Some).map_err(StartError::from) } else { Ok(None) };
        };
        // The next start may be in another directory.
        let keytab = std::path::absolute(&said.keytab);
        let keytab = keytab.map_err(|error| StartError::new(&said.keytab.display().to_string(), &error))?;
        // Of this machine's names clients use the one for where they find it.
        Ok(Some(Kerberos { principal: said.principal.replace("_HOST", &self.reach.ticket_host()), keytab }))
    }

    /// For the next start. Called when the servers have started by it: what did not work is not to take the place of
    /// what did.
    pub(crate) fn remember(&self, kerberos: &Kerberos) -> Result<(), StartError> {
        config::write(&self.kerberos_file(), kerberos).map_err(StartError::from)
    }

    fn kerberos_file(&self) -> PathBuf {
        self.dir.join("kerberos.toml")
    }

    fn dir_of(&self, server: &str) -> PathBuf {
        self.dir.join(server)
    }

    /// The directory of a metadata server's.
    pub(crate) fn of_meta(&self, number: u16) -> PathBuf {
        self.dir_of(&meta(number))
    }

    pub(crate) fn of_data(&self, number: u16) -> PathBuf {
        self.dir_of(&data(number))
    }

    /// For HTTPS by what is in a server's directory.
    pub(crate) fn https(&self, server: &Path) -> Https {
        Https { certificate: server.join("node.crt"), key: server.join("node.key") }
    }

    /// Makes that of a metadata server, unless it is there.
    pub(crate) fn equip_meta(&mut self, number: u16) -> Result<(), StartError> {
        let (server, name) = (meta(number), NodeName::Member(number.into()));
        self.renew(&server, name)?;
        self.members.push((server, name));
        Ok(())
    }

    /// The same of a datanode. `dirs`, where they are new, become those of the node that the certificate names.
    pub(crate) fn equip_data(&self, number: u16, dirs: &[PathBuf]) -> Result<(), StartError> {
        let server = data(number);
        let named = || match Credentials::open(&self.dir_of(&server)).ok()?.name() {
            NodeName::Datanode(id) => Some(id),
            NodeName::Member(_) => None,
        };
        let there = datad::node_of(dirs).map_err(|error| StartError::new(&server, &error))?;
        let id = there.or_else(named).unwrap_or_else(|| NodeId(io::random::uuid()));
        self.renew(&server, NodeName::Datanode(id))
    }

    /// Makes a certificate unless there is one that will do. Waits for the disk.
    fn renew(&self, server: &str, name: NodeName) -> Result<(), StartError> {
        let (dir, ca, now) = (self.dir_of(server), self.authority(), SystemClock::new().now());
        let hosts = self.reach.hosts();
        if Credentials::open(&dir).is_ok_and(|there| {
            let named = there.hosts();
            there.name() == name && !there.is_due(now) && hosts.iter().all(|host| named.contains(host))
        }) {
            return Ok(());
        }
        let made =
            Authority::open_or_make(&ca, Millis(now.0)).and_then(|authority| authority.equip(&dir, name, &hosts, now));
        made.map_err(|error| StartError::new("a certificate", &error))
    }

    /// Makes new ones for metadata servers before those that are there end; they look for them by themselves.
    pub(crate) async fn keep(self) {
        loop {
            tokio::time::sleep(RENEW_EACH).await;
            let certificates = self.clone();
            let renew_all = move || {
                for (server, name) in &certificates.members {
                    if let Err(error) = certificates.renew(server, *name) {
                        eprintln!("levada: {server} goes on with the certificate that it has: {}", error.0);
                    }
                }
            };
            io::task::blocking(renew_all).await;
        }
    }
}

fn meta(number: u16) -> String {
    format!("meta{number}")
}

fn data(number: u16) -> String {
    format!("data{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificates_of(dir: &Path) -> Certificates {
        Certificates::of(dir, Reach::new(None, None, 8020).unwrap())
    }

    fn name_in(dir: &Path) -> NodeName {
        Credentials::open(dir).unwrap().name()
    }

    #[test]
    fn certificates_are_made_once() {
        let dir = tempfile::tempdir().unwrap();
        let disks = [dir.path().join("data1")];
        let make = || {
            let mut certificates = certificates_of(dir.path());
            certificates.equip_meta(2).unwrap();
            certificates.equip_data(1, &disks).unwrap();
            assert!(certificates.are_there());
            let meta = certificates.of_meta(2);
            assert_eq!(name_in(&meta), NodeName::Member(2));
            (name_in(&certificates.of_data(1)), std::fs::read(meta.join("node.crt")).unwrap(), meta)
        };
        assert!(!certificates_of(dir.path()).are_there());
        let (data, certificate, meta) = make();
        assert!(matches!(data, NodeName::Datanode(_)));
        assert_eq!(make(), (data, certificate.clone(), meta.clone()));
        // Of a start that was cut off between two files.
        std::fs::remove_file(meta.join("node.crt")).unwrap();
        let (again, other, _) = make();
        assert_eq!(again, data);
        assert_ne!(other, certificate);
    }

    #[test]
    fn the_name_in_kerberos_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mut certificates = certificates_of(dir.path());
        certificates.equip_meta(1).unwrap();
        assert!(certificates.kerberos(None).unwrap().is_none());
        let said = |keytab: &str| Kerberos { principal: "nn/_HOST@EXAMPLE.COM".into(), keytab: keytab.into() };
        let known = certificates.kerberos(Some(said("/etc/nn.keytab"))).unwrap().unwrap();
        assert!(certificates.kerberos(None).unwrap().is_none(), "it has not worked yet");
        certificates.remember(&known).unwrap();
        // Of a start that fails.
        certificates.kerberos(Some(said("/etc/other.keytab"))).unwrap();
        let known = certificates.kerberos(None).unwrap().unwrap();
        assert_eq!(
            (&*known.principal, known.keytab.as_path()),
            ("nn/localhost@EXAMPLE.COM", Path::new("/etc/nn.keytab"))
        );
        let near = certificates.kerberos(Some(said("nn.keytab"))).unwrap().unwrap();
        assert_eq!(near.keytab, std::env::current_dir().unwrap().join("nn.keytab"));
    }
}
