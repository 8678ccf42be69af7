//! A configuration file, and the machine that a server is to start on with it.

use super::certificates;
use super::finding::Finding;
use super::listener::{self, Listener};
use super::page;
use crate::config::{self, DataFile, Https, MetaFile};
use crate::shell::size;
use io::{Clock, SystemClock};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// For another machine to answer. A guess: a network takes milliseconds.
const DIAL_MAX: Duration = Duration::from_secs(3);
/// Each replica that is read or written has some, and each connection one.
const OPEN_FILES_MIN: u64 = 65_536;
/// With less of a disk free, somebody should know.
const FREE_PARTS_MIN: u64 = 10;
/// A clock before this is not set: this program is younger.
const CLOCK_MIN_MS: u64 = 1_780_000_000_000;

pub(super) async fn examine(path: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    let text = std::fs::read_to_string(path).ok();
    let is_read = text.is_some();
    let is_data =
        text.and_then(|text| text.parse::<toml::Table>().ok()).is_some_and(|table| table.contains_key("data"));
    let advice = "docs/configuration.md explains each key";
    if is_data {
        match config::read::<DataFile>(path) {
            Ok(file) => datanode(&file, &mut findings).await,
            Err(error) => findings.push(Finding::fault("file", error.to_string(), advice)),
        }
    } else {
        match config::read::<MetaFile>(path) {
            Ok(file) => metadata_server(&file, &mut findings).await,
            Err(error) => findings.push(Finding::fault("file", error.to_string(), advice)),
        }
    }
    if is_read {
        limits(&mut findings);
    }
    clock(&mut findings);
    findings
}

async fn metadata_server(file: &MetaFile, findings: &mut Vec<Finding>) {
    let meta = &file.meta;
    let checked = meta.check().and_then(|()| file.log.check());
    findings.push(match checked {
        Ok(()) => Finding::well("file", "of a metadata server; its settings fit together"),
        Err(error) => Finding::fault("file", error, "correct the setting"),
    });
    let locks = ["log", "store"].map(|part| meta.dir.join(part).join(LOCK));
    ports(&[("rpc_addr", meta.rpc_addr), ("http_addr", file.http_addr)], &locks, findings);
    directory(&meta.dir, findings);
    for member in meta.members.iter().filter(|member| member.id != meta.id) {
        findings.push(reachable("members", &member.addr).await);
    }
    if meta.members.is_empty() && !meta.join {
        let advice = "take a backup each night: `levada admin meta backup FILE`; or run three (docs/cli.md)";
        findings.push(Finding::advice("group", "this metadata server is the only one", advice));
    }
    secrets(file.https.as_ref(), meta.security.node_certificates.as_deref(), findings);
    if let Some(keytab) = &meta.security.keytab {
        findings.push(readable("rights", keytab));
    }
}

async fn datanode(file: &DataFile, findings: &mut Vec<Finding>) {
    let data = &file.data;
    findings.push(match file.log.check() {
        Ok(()) => Finding::well("file", "of a datanode"),
        Err(error) => Finding::fault("file", error, "correct the setting"),
    });
    let http = file.http_addr.map(|addr| ("http_addr", addr));
    let addrs: Vec<_> = [("xfer_addr", data.xfer_addr), ("ipc_addr", data.ipc_addr)].into_iter().chain(http).collect();
    let locks: Vec<PathBuf> = data.dirs().into_iter().flatten().map(|dir| dir.join(LOCK)).collect();
    ports(&addrs, &locks, findings);
    match data.dirs() {
        Ok(dirs) => {
            dirs.iter().for_each(|dir| directory(dir, findings));
            same_disk(&dirs, findings);
        }
        Err(error) => {
            let advice = "set `dir`, or `dirs` for several disks, with each of them once";
            findings.push(Finding::fault("disks", error.to_string(), advice));
        }
    }
    let mut reached = 0;
    for addr in data.metad.split(',').map(str::trim).filter(|addr| !addr.is_empty()) {
        let finding = reachable("metad", addr).await;
        reached += usize::from(finding.advice.is_none());
        findings.push(finding);
    }
    if reached == 0 {
        let advice = "start a metadata server first, or correct `metad`; the datanode waits for one";
        findings.push(Finding::fault("metad", "no metadata server answers", advice));
    }
    // Behind TLS its name would have to be known, and who vouches for it.
    let page = file.http_addr.filter(|_| file.https.is_none());
    if let Some(addr) = page.filter(|addr| matches!(listener::at(*addr, &locks), Listener::Server { .. })) {
        findings.extend(page::registration(addr).await);
    }
    if data.xfer_addr.ip().is_loopback() && !data.metad.split(',').all(is_local) {
        let advice = "bind `xfer_addr` and `ipc_addr` to an address that the other machines reach";
        let found = format!("{} is reached from this machine alone, and the store is elsewhere", data.xfer_addr);
        findings.push(Finding::fault("ports", found, advice));
    }
    secrets(file.https.as_ref(), data.node_certificates.as_deref(), findings);
}

fn is_local(addr: &str) -> bool {
    let host = addr.trim().rsplit_once(':').map_or(addr, |(host, _)| host);
    host == "localhost" || host.starts_with("127.") || host == "[::1]"
}

fn secrets(https: Option<&Https>, node: Option<&Path>, findings: &mut Vec<Finding>) {
    findings.extend(https.map(certificates::of_https));
    findings.extend(node.map(|dir| certificates::of_node(dir, SystemClock::new().now())));
}

/// What a server that runs has open in its directories, and no other process.
const LOCK: &str = "lock";

/// Listens for a moment at each. `locks` are of the server's directories.
fn ports(addrs: &[(&'static str, SocketAddr)], locks: &[PathBuf], findings: &mut Vec<Finding>) {
    for (name, addr) in addrs {
        let found = |text: &str| format!("{name} {addr} {text}");
        findings.push(match TcpListener::bind(addr) {
            Ok(_) if addr.port() == 0 => {
                let advice = "write a number in place of the 0, unless this is a store to try";
                Finding::advice("ports", found("has its port chosen at each start: clients cannot be told it"), advice)
            }
            Ok(_) => Finding::well("ports", found("is free")),
            Err(error) if error.kind() == ErrorKind::AddrInUse => match listener::at(*addr, locks) {
                Listener::Server { process } => {
                    Finding::well("ports", found(&format!("is this server's, process {process}")))
                }
                Listener::Hidden { user } => {
                    let user = host::user::name_of(user);
                    let text =
                        format!("is taken, maybe by this server itself: run this as {user}, who has it, or as root");
                    Finding::unknown("ports", found(&text))
                }
                Listener::Other => {
                    let advice = "stop the program that listens there (`ss -ltnp` names it), or choose another port";
                    Finding::fault("ports", found("is taken"), advice)
                }
            },
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {
                Finding::fault("ports", found("is no address of this machine"), "`ip addr` lists those that are")
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                Finding::fault("ports", found("is not for this user"), "choose a port above 1023")
            }
            Err(error) => Finding::fault("ports", found(&error.to_string()), "choose another address"),
        });
    }
}

/// Whether this user may write there, and how much.
fn directory(dir: &Path, findings: &mut Vec<Finding>) {
    let shown = dir.display();
    // What is not there is made, where the first one above it that is there lets this user.
    let existing = dir.ancestors().find(|above| above.exists()).filter(|existing| existing.is_dir());
    let Some(existing) = existing else {
        findings.push(Finding::fault("disks", format!("{shown} can be no directory"), "name an absolute path of one"));
        return;
    };
    if rustix::fs::access(existing, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_err() {
        findings.push(not_writable(&host::user::current(), dir, existing));
        return;
    }
    let space = match io::file::space_of(existing) {
        Ok(space) => space,
        Err(error) => {
            findings.push(Finding::fault("disks", format!("{shown}: {error}"), "look at the machine's log (dmesg)"));
            return;
        }
    };
    let (available, capacity) = (size::human(space.available), size::human(space.capacity));
    let found = format!("{shown} may be written, {available} of {capacity} are free");
    findings.push(match space.available < space.capacity / FREE_PARTS_MIN {
        true => Finding::advice("disks", found, "make room, or name a larger disk"),
        false => Finding::well("disks", found),
    });
}

/// What the units of the packages have systemd make, by `StateDirectory=levada`.
const STATE_DIR: &str = "/var/lib/levada";

/// `existing` is `dir`, or the first directory above it that this user sees. One above it may be of the whole machine:
/// its owner stays.
fn not_writable(user: &str, dir: &Path, existing: &Path) -> Finding {
    let shown = dir.display();
    let found = format!("{user} may not write in {}, for {shown}", existing.display());
    if dir == existing {
        return Finding::fault(
            "rights",
            found,
            format!("run this as the user of the server, or `chown {user} {shown}`"),
        );
    }
    // It may be there all the same.
    if dir.try_exists().is_err() {
        return Finding::unknown("rights", format!("{found}; run this as the user of the server"));
    }
    let (found, make) = (format!("{found}, which is missing"), format!("`install -d -o {user} -m 750 {shown}`"));
    match dir.starts_with(STATE_DIR) {
        true => {
            let advice = format!("nothing under systemd: the unit makes it (StateDirectory); else, as root, {make}");
            Finding::advice("rights", found, advice)
        }
        false => Finding::fault("rights", found, format!("run this as the user of the server, or, as root, {make}")),
    }
}

/// Two directories on one disk fail together, and are counted twice.
fn same_disk(dirs: &[PathBuf], findings: &mut Vec<Finding>) {
    let disk = |dir: &PathBuf| {
        let existing = dir.ancestors().find(|above| above.is_dir())?;
        existing.metadata().ok().map(|metadata| metadata.dev())
    };
    for (at, dir) in dirs.iter().enumerate() {
        let same = dirs[..at].iter().find(|other| disk(other).is_some() && disk(other) == disk(dir));
        if let Some(other) = same {
            let found = format!("{} and {} are on one disk", other.display(), dir.display());
            findings.push(Finding::advice("disks", found, "is a disk not mounted? each needs a disk of its own"));
        }
    }
}

async fn reachable(about: &'static str, addr: &str) -> Finding {
    let found = |text: &str| format!("{addr} {text}");
    let addrs = match tokio::net::lookup_host(addr).await {
        Ok(addrs) => addrs.collect::<Vec<_>>(),
        Err(error) => {
            let advice = "write host:port, and see that DNS or /etc/hosts knows the host";
            return Finding::fault("names", found(&error.to_string()), advice);
        }
    };
    match timeout(DIAL_MAX, TcpStream::connect(&addrs[..])).await {
        Ok(Ok(_)) => Finding::well(about, found("answers")),
        Ok(Err(error)) => Finding::advice(about, found(&error.to_string()), "start it, unless it is to start later"),
        Err(_) => Finding::advice(about, found("does not answer"), "is a firewall between the machines?"),
    }
}

fn readable(about: &'static str, path: &Path) -> Finding {
    match std::fs::File::open(path) {
        Ok(_) => Finding::well(about, format!("{} may be read", path.display())),
        Err(error) => unreadable(about, path, &error),
    }
}

/// That this user may not read it says nothing of the server's.
fn unreadable(about: &'static str, path: &Path, error: &std::io::Error) -> Finding {
    let found = format!("{}: {error}", path.display());
    match error.kind() {
        ErrorKind::PermissionDenied => Finding::unknown(about, format!("{found}; run this as the user of the server")),
        _ => {
            let advice = "put it there, or correct the setting; let the server's user read it, and nobody else";
            Finding::fault(about, found, advice)
        }
    }
}

/// Those of this process, which a unit of systemd does not share.
fn limits(findings: &mut Vec<Finding>) {
    match host::limit::raise_open_files() {
        Ok(Some(count)) if count < OPEN_FILES_MIN => {
            let advice = "raise it by `ulimit -Hn`, if the server starts from this shell; under systemd LimitNOFILE of \
                          its unit counts";
            findings.push(Finding::advice("limits", format!("this shell allows {count} open files"), advice));
        }
        Ok(_) => findings.push(Finding::well("limits", "this shell allows enough open files")),
        Err(error) => findings.push(Finding::advice("limits", error.to_string(), "see `ulimit -n`")),
    }
}

fn clock(findings: &mut Vec<Finding>) {
    if SystemClock::new().now().0 < CLOCK_MIN_MS {
        findings.push(Finding::fault("clocks", "the clock of this machine is not set", "set it by NTP"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn levels(text: &str) -> Vec<(Level, &'static str)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file.toml");
        std::fs::write(&path, text.replace("DIR", dir.path().to_str().unwrap())).unwrap();
        examine(&path).await.into_iter().map(|finding| (finding.level, finding.about)).collect()
    }

    /// As the datanode itself would say when it is started.
    #[tokio::test]
    async fn directories_of_a_datanode_are_read_as_it_reads_them() {
        let is_fault = async |dirs: &str| {
            let addrs = "xfer_addr = '127.0.0.1:0'\nipc_addr = '127.0.0.1:0'\nmetad = '127.0.0.1:1'";
            let found = levels(&format!("[data]\n{dirs}\n{addrs}")).await;
            found.contains(&(Level::Fault, "disks"))
        };
        for well in ["dir = 'DIR/d'", "dirs = ['DIR/d']", "dirs = ['DIR/d', 'DIR/e']"] {
            assert!(!is_fault(well).await, "{well}");
        }
        for wrong in ["", "dirs = []", "dir = 'DIR/d'\ndirs = ['DIR/e']", "dirs = ['DIR/d', 'DIR/d']"] {
            assert!(is_fault(wrong).await, "{wrong}");
        }
    }

    #[test]
    fn what_another_user_may_not_read_is_no_fault() {
        let level = |kind: ErrorKind| unreadable("rights", Path::new("nn.keytab"), &kind.into()).level;
        assert_eq!([level(ErrorKind::PermissionDenied), level(ErrorKind::NotFound)], [Level::Unknown, Level::Fault]);
    }

    /// `/` and `/var/lib` are not the store's, whatever is missing below.
    #[test]
    fn no_directory_above_the_stores_gets_another_owner() {
        let temporary = tempfile::tempdir().unwrap();
        let (there, missing) = (temporary.path(), temporary.path().join("disk1/data"));
        let finding = not_writable("ada", &missing, there);
        let make = format!("`install -d -o ada -m 750 {}`", missing.display());
        assert!(finding.level == Level::Fault && finding.to_string().contains(&make), "{finding}");
        assert!(!finding.to_string().contains("chown"), "{finding}");
        let finding = not_writable("ada", there, there);
        assert!(finding.level == Level::Fault, "{finding}");
        assert!(finding.to_string().contains(&format!("`chown ada {}`", there.display())), "{finding}");
        let finding = not_writable("ada", Path::new("/var/lib/levada/none-of-a-test"), Path::new("/var/lib"));
        assert!(finding.level == Level::Advice && finding.to_string().contains("StateDirectory"), "{finding}");
    }

    /// Who looks at the file later finds the server that runs with it.
    #[tokio::test]
    async fn a_server_that_runs_is_not_in_its_own_way() {
        let dir = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let file = dir.path().join("file.toml");
        let text = format!("http_addr = '127.0.0.1:0'\n[meta]\ndir = 'DIR/meta'\nrpc_addr = '{addr}'");
        std::fs::write(&file, text.replace("DIR", dir.path().to_str().unwrap())).unwrap();
        let found = async || {
            let is_of_port = |finding: &Finding| finding.found.starts_with("rpc_addr");
            examine(&file).await.into_iter().find(is_of_port).unwrap().level
        };
        assert_eq!(found().await, Level::Fault);
        std::fs::create_dir_all(dir.path().join("meta/log")).unwrap();
        let _lock = io::file::lock(&dir.path().join("meta/log/lock")).unwrap();
        assert_eq!(found().await, Level::Well);
    }

    /// It serves its page while it waits to be registered.
    #[tokio::test]
    async fn a_datanode_that_runs_and_is_not_registered_is_a_fault() {
        let dir = tempfile::tempdir().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let file = dir.path().join("file.toml");
        let addrs = "xfer_addr = '127.0.0.1:0'\nipc_addr = '127.0.0.1:0'\nmetad = '127.0.0.1:1'";
        let text = format!("http_addr = '{addr}'\n[data]\ndir = '{}'\n{addrs}", dir.path().display());
        std::fs::write(&file, text).unwrap();
        let _lock = io::file::lock(&dir.path().join(LOCK)).unwrap();
        for (status, expected) in [
            (r#"{"registered": false}"#, Some(Level::Fault)),
            (r#"{"registered": true}"#, Some(Level::Well)),
            ("{}", None),
            ("no JSON", None),
        ] {
            let serve = async {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut request = [0; 64];
                assert!(socket.read(&mut request).await.unwrap() > 0);
                socket.write_all(format!("HTTP/1.0 200 OK\r\n\r\n{status}").as_bytes()).await.unwrap();
            };
            let (findings, ()) = tokio::join!(examine(&file), serve);
            let found = findings.iter().find(|finding| finding.found.contains("this datanode"));
            assert_eq!(found.map(|finding| finding.level), expected, "{status}: {findings:?}");
        }
    }

    #[tokio::test]
    async fn limits_are_of_no_file_that_cannot_be_read() {
        let about: Vec<_> = examine(Path::new("/none/meta.toml")).await.iter().map(|finding| finding.about).collect();
        assert_eq!(about, ["file"]);
        assert!(levels("").await.iter().any(|(_, about)| *about == "limits"));
    }

    #[tokio::test]
    async fn a_file_is_looked_at_before_the_start() {
        let well = "http_addr = '127.0.0.1:0'\n[meta]\ndir = 'DIR/meta'\nrpc_addr = '127.0.0.1:0'";
        let found = levels(well).await;
        assert!(found.iter().all(|(level, _)| *level < Level::Unknown), "{found:?}");
        assert!(found.contains(&(Level::Advice, "ports")), "a port of 0 is another one each time: {found:?}");
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let faults = [
            (well.replace("rpc_addr = '127.0.0.1:0'", &format!("rpc_addr = '127.0.0.1:{port}'")), "ports"),
            (well.replace("127.0.0.1:0'\n[", "192.0.2.1:1'\n["), "ports"),
            (well.replace("DIR/meta", "DIR/file.toml/meta"), "disks"),
            (format!("{well}\nreplication = 0"), "file"),
            (format!("{well}\n[meta.security]\nkeytab = 'DIR/none'"), "rights"),
            (format!("{well}\n[meta.security]\nnode_certificates = 'DIR/none'"), "certificates"),
            (format!("{well}\nno_such_key = 0"), "file"),
            (
                "[data]\ndir = 'DIR/d'\nxfer_addr = '127.0.0.1:0'\nipc_addr = '127.0.0.1:0'\nmetad = '127.0.0.1:1'"
                    .into(),
                "metad",
            ),
        ];
        for (text, about) in faults {
            let found = levels(&text).await;
            assert!(found.contains(&(Level::Fault, about)), "{text}: {found:?}");
        }
    }
}
