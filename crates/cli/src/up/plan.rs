//! What `up` decides before anything runs.

use super::args::{Args, DATANODES_MAX, DISKS_MAX, Durability};
use super::home;
use super::said::Said;
use crate::config::{self, DataFile, MetaFile};
use crate::hadoop::Protected;
use crate::log::Log;
use crate::own_dir::{self, OwnDir};
use crate::ports::Ports;
use crate::reach::Reach;
use crate::roles::{MetaReady, StartError, not_started};
use crate::secure::{Certificates, Kerberos};
use crate::welcome::Security;
use io::HeldPorts;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

const METAS_MAX: u16 = 5;
/// All is on one machine: a datanode that says nothing has not gone for a restart of that.
const LOST_AFTER_MS: u64 = 15_000;
/// As many as a block has copies by HDFS's default.
const DATANODES_NEW: u16 = 3;
/// All that there is, the best first.
const RPC_PROTECTIONS: [&str; 3] = ["privacy", "integrity", "authentication"];

/// All that `up` decides before anything runs.
pub(super) struct Plan {
    pub(super) dir: PathBuf,
    pub(super) reach: Reach,
    /// RPC and HTTP addresses of the metadata servers.
    metas: Vec<(SocketAddr, SocketAddr)>,
    /// Transfer, RPC and HTTP addresses of the datanodes.
    datas: Vec<(SocketAddr, SocketAddr, SocketAddr)>,
    /// Of those addresses, where any port will do.
    _held: HeldPorts,
    pub(super) datanodes: u16,
    pub(super) disks: u16,
    replication: u16,
    said: Said,
    durability: Durability,
    memory: u64,
    block_tokens: bool,
    block_key_ms: Option<u64>,
    pub(super) data_transfer_protection: Vec<String>,
    pub(super) encrypt_data_transfer: bool,
    pub(super) certificates: Option<Certificates>,
    pub(super) kerberos: Option<Kerberos>,
}

impl Plan {
    pub(super) fn new(args: &Args) -> Result<Self, StartError> {
        let dir = args.dir.clone().map_or_else(own_dir, Ok)?;
        let there = config::datanodes_in(&dir, DATANODES_MAX);
        let datanodes = args.datanodes.unwrap_or(if there == 0 { DATANODES_NEW } else { there });
        let highest = u32::from(args.port_base.unwrap_or(0)) + 10 * u32::from(datanodes) + 1;
        if highest > u32::from(u16::MAX) {
            return Err(StartError(format!("--port-base is too high: {datanodes} datanodes need ports to {highest}")));
        }
        let said = Said::of(args, &dir)?;
        // What was said before may be more than there are datanodes now; what is said now may not.
        let replication = args.replication.unwrap_or_else(|| said.replication.unwrap_or(3).min(datanodes));
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
                "{} has {metas_there} metadata server(s), and --meta counts only for a new store; servers join and \
                 leave by `levada admin meta add` and `remove`, see docs/cli.md",
                dir.display()
            )));
        }
        let ports = Ports::from_base(args.port_base, &dir);
        let reach = Reach::new(args.host.as_deref(), args.advertise.as_ref(), ports.rpc_port())?;
        let mut metas: Vec<_> = (1..=metas).map(|number| ports.meta(reach.listen(), number)).collect();
        let mut datas: Vec<_> = (1..=datanodes).map(|number| ports.data(reach.listen(), number)).collect();
        let of_data = datas.iter_mut().flat_map(|(xfer, ipc, http)| [xfer, ipc, http]);
        let mut addrs: Vec<_> = metas.iter_mut().flat_map(|(rpc, http)| [rpc, http]).chain(of_data).collect();
        reach.must_have_ports(addrs.iter().map(|addr| addr.port()))?;
        let mut held = HeldPorts::default();
        if let Ports::Free(_) = ports {
            for addr in &mut addrs {
                **addr = held.hold(**addr).map_err(|error| StartError::new("a free port", &error))?;
            }
        }
        if metas_there == 0 {
            // A start that fails later leaves directories, and these say how many servers the store has.
            addrs.iter().try_for_each(|addr| must_be_free(**addr))?;
        }
        // Before anything is made: a store that has certificates is secure from then on, also without Kerberos.
        let former = Certificates::of(&dir, reach.clone());
        let is_secure = args.secure || former.are_there();
        let kerberos = kerberos(args, &former, is_secure)?;
        let made = std::fs::create_dir_all(dir.join("conf")).and_then(|()| dir.canonicalize());
        let dir = made.map_err(|error| StartError::new(&dir.display().to_string(), &error))?;
        let certificates = || certificates(&dir, &reach, metas.len() as u16, datanodes, disks);
        let certificates = is_secure.then(certificates).transpose()?;
        let block_key_ms = args.block_key_interval.map(|seconds| u64::from(seconds) * 1000);
        let Args { durability, memory, block_tokens, encrypt_data_transfer, .. } = *args;
        let is_unsaid = args.data_transfer_protection.is_none();
        let data_transfer_protection = args.data_transfer_protection.iter().cloned().collect();
        Ok(Self {
            dir,
            reach,
            metas,
            datas,
            _held: held,
            datanodes,
            disks,
            replication,
            said,
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

    pub(super) fn data_dir(&self, number: u16) -> PathBuf {
        config::data_dir(&self.dir, number)
    }

    pub(super) fn conf(&self, name: &str) -> PathBuf {
        self.dir.join("conf").join(format!("{name}.toml"))
    }

    /// The file of the metadata server `number`, counted from 1.
    pub(super) fn meta_file(&self, number: u16) -> MetaFile {
        let (rpc_addr, http_addr) = self.metas[usize::from(number) - 1];
        let mut meta = metad::Config::new(config::meta_dir(&self.dir, number), rpc_addr);
        meta.replication = self.replication;
        meta.memory = self.memory / 2 / self.metas.len() as u64;
        meta.id = number.into();
        meta.trash_interval_ms = self.said.trash_interval_ms.unwrap_or(0);
        meta.lost_after_ms = LOST_AFTER_MS;
        meta.block_tokens = self.block_tokens;
        meta.security.data_transfer_protection = self.data_transfer_protection.clone();
        meta.security.encrypt_data_transfer = self.encrypt_data_transfer;
        meta.security.node_certificates = self.certificates.as_ref().map(|certificates| certificates.of_meta(number));
        meta.security.authority = self.certificates.as_ref().map(Certificates::authority);
        if let Some(kerberos) = &self.kerberos {
            set_kerberos(&mut meta.security, kerberos);
        }
        if let Some(interval) = self.block_key_ms {
            (meta.block_key_update_ms, meta.block_token_lifetime_ms) = (interval, interval);
        }
        if self.metas.len() > 1 {
            let members = self.metas.iter().zip(1..);
            meta.members = members
                .map(|((rpc, _), id)| metad::MemberAddr { id, addr: self.reach.beside(*rpc).to_string() })
                .collect();
        }
        let https = self.certificates.as_ref().map(|certificates| certificates.https(&certificates.of_meta(number)));
        MetaFile { http_addr, https, log: Log::warnings(), meta }
    }

    pub(super) fn meta_numbers(&self) -> impl Iterator<Item = u16> + use<> {
        1..=self.metas.len() as u16
    }

    pub(super) fn data_file(&self, number: u16, meta: &[MetaReady]) -> DataFile {
        let (xfer, ipc, http) = self.datas[usize::from(number) - 1];
        let mut data = datad::Config::new(self.data_dir(number), xfer, ipc, self.beside(meta).join(","));
        data.ip = self.reach.told_ip();
        if let Some((host, shift)) = self.reach.outside() {
            // Who dials by name knows this one, if he has a setting for that: it leads here from everywhere.
            data.host = Some(host.clone());
            (data.outside_host, data.outside_port_shift) = (Some(host), shift);
        }
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
    pub(super) async fn make_home(&self, meta: &[MetaReady]) {
        match self.kerberos {
            Some(_) => {}
            None => home::make(&self.beside(meta)).await,
        }
    }

    /// Where clients find the metadata servers.
    pub(super) fn names(&self, meta: &[MetaReady]) -> Vec<String> {
        // Tickets are for hosts by their names.
        let host = self.reach.ticket_host();
        let name = self.kerberos.as_ref().map(|_| &*host);
        meta.iter().map(|meta| self.reach.told(meta.rpc, name)).collect()
    }

    /// RPC addresses of the metadata servers for programs on this machine.
    pub(super) fn beside(&self, meta: &[MetaReady]) -> Vec<String> {
        meta.iter().map(|meta| self.reach.beside(meta.rpc).to_string()).collect()
    }

    pub(super) fn url_of(&self, http: SocketAddr) -> String {
        format!("{}://{}", if self.certificates.is_some() { "https" } else { "http" }, self.reach.told(http, None))
    }

    /// What of the store is protected; `None`: nothing.
    pub(super) fn security(&self) -> Option<Security<'_>> {
        self.certificates.as_ref()?;
        let data_transfer = self.data_transfer_protection.first().map_or("privacy", String::as_str);
        Some(Security { data_transfer, kerberos: self.kerberos.as_ref() })
    }

    /// What stock clients are to know of it.
    pub(super) fn protected(&self, meta: &[MetaReady]) -> Option<Protected> {
        self.certificates.as_ref()?;
        Some(Protected {
            principal: self.kerberos.as_ref().map(|kerberos| kerberos.principal.clone()),
            is_encrypted: self.encrypt_data_transfer,
            data_transfer: self.data_transfer_protection.clone(),
            web: meta.iter().map(|meta| self.reach.told(meta.http, Some(&self.reach.ticket_host()))).collect(),
        })
    }

    /// All servers have started.
    pub(super) fn remember(&self) -> Result<(), StartError> {
        self.said.keep(&self.dir)?;
        match (&self.certificates, &self.kerberos) {
            (Some(certificates), Some(kerberos)) => certificates.remember(kerberos),
            _ => Ok(()),
        }
    }
}

/// The store's name in Kerberos, if it has one; its keytab has the key.
fn kerberos(args: &Args, certificates: &Certificates, is_secure: bool) -> Result<Option<Kerberos>, StartError> {
    if !is_secure {
        return match &args.principal {
            Some(_) => Err(StartError("--principal is for a secure store: give --secure as well".into())),
            None => Ok(None),
        };
    }
    let said = args.principal.clone().zip(args.keytab.clone());
    let said = said.map(|(principal, keytab)| Kerberos { principal, keytab });
    let kerberos = certificates.kerberos(said)?;
    if let Some(kerberos) = &kerberos {
        let mut security = metad::SecurityConfig::default();
        set_kerberos(&mut security, kerberos);
        metad::check_keytab(&security).map_err(|error| StartError(error.to_string()))?;
    }
    Ok(kerberos)
}

/// Has a metadata server ask its users for Kerberos.
fn set_kerberos(security: &mut metad::SecurityConfig, Kerberos { principal, keytab }: &Kerberos) {
    security.authentication = metad::AuthenticationSetting::Kerberos;
    (security.principal, security.keytab) = (Some(principal.clone()), Some(keytab.clone()));
    // The client chooses: ours takes the first, and Hadoop's, which has to name what it takes, the last, unless its
    // configuration says more.
    security.rpc_protection = RPC_PROTECTIONS.map(str::to_owned).to_vec();
}

/// Those of all servers of a secure store.
fn certificates(dir: &Path, reach: &Reach, metas: u16, datanodes: u16, disks: u16) -> Result<Certificates, StartError> {
    let mut certificates = Certificates::of(dir, reach.clone());
    (1..=metas).try_for_each(|number| certificates.equip_meta(number))?;
    (1..=datanodes).try_for_each(|number| certificates.equip_data(number, &config::disk_dirs(dir, number, disks)))?;
    Ok(certificates)
}

/// Where a store lies if nobody says. That it is in a place which passes is told at once: files are put into it next.
fn own_dir() -> Result<PathBuf, StartError> {
    let OwnDir { path, passing } = own_dir::find()?;
    if let Some(why) = passing {
        let path = path.display();
        eprintln!(
            "levada: the data is in {path}, where it is gone with this machine or container: {why}; --dir names \
             another place"
        );
    }
    Ok(path)
}

fn must_be_free(addr: SocketAddr) -> Result<(), StartError> {
    let bound = std::net::TcpListener::bind(addr);
    bound.map(drop).map_err(|error| not_started(&format!("listening on {addr}"), &error))
}
