//! Who listens at a port: whether that is the server that a configuration file is for.
//!
//! Linux alone says so (`/proc`), and of another user's processes to nobody but root. A server has the locks of its
//! directories open as long as it runs, so it is known by these.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Of a socket that listens, in the tables below `/proc/net`.
const LISTENS: &str = "0A";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listener {
    /// The server itself, and nobody else.
    Server { process: u32 },
    /// A process of that user, which this one may not look into. It may be the server.
    Hidden { user: u32 },
    /// Another program, or nobody that is known of.
    Other,
}

/// Who keeps the server with these `locks` from listening at `addr`.
pub(super) fn at(addr: SocketAddr, locks: &[PathBuf]) -> Listener {
    let is_missing = |lock: &PathBuf| lock.metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound);
    let sockets = sockets_at(addr);
    // Where no lock is no server runs, whoever listens.
    if locks.iter().all(is_missing) || sockets.is_empty() {
        return Listener::Other;
    }
    judge(&sockets, &holders(&sockets, locks), rustix::process::geteuid().is_root())
}

/// A process that has some of the sockets open.
struct Holder {
    process: u32,
    sockets: BTreeSet<u64>,
    has_lock: bool,
}

/// Those that this user may look into.
fn holders(sockets: &BTreeMap<u64, u32>, locks: &[PathBuf]) -> Vec<Holder> {
    let locks: Vec<_> = locks.iter().filter_map(|lock| Some((lock.file_name()?, lock.metadata().ok()?))).collect();
    let names =
        fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let look_into = |process: u32| {
        let open = fs::read_dir(format!("/proc/{process}/fd")).ok()?;
        let open: Vec<PathBuf> = open.filter_map(|entry| Some(entry.ok()?.path())).collect();
        let its = open.iter().filter_map(|file| socket(file)).filter(|socket| sockets.contains_key(socket));
        let its: BTreeSet<u64> = its.collect();
        if its.is_empty() {
            return None;
        }
        Some(Holder { process, sockets: its, has_lock: open.iter().any(|file| is_one_of(file, &locks)) })
    };
    names.filter_map(|name| look_into(name.parse().ok()?)).collect()
}

/// `sockets`: all that are in the way, with their users. `sees_all`: who has a socket, and is not among the holders, is
/// no process here.
fn judge(sockets: &BTreeMap<u64, u32>, holders: &[Holder], sees_all: bool) -> Listener {
    let has_all = |holder: &&Holder| sockets.keys().all(|socket| holder.sockets.contains(socket));
    match holders.iter().find(|holder| holder.has_lock && has_all(holder)) {
        Some(server) => Listener::Server { process: server.process },
        // Whoever was seen is not the server, or has not all: what the others are does not matter.
        None if !holders.is_empty() || sees_all => Listener::Other,
        None => match *sockets.values().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>() {
            [user] => Listener::Hidden { user: *user },
            // One process is of one user.
            _ => Listener::Other,
        },
    }
}

/// The inode of an open file that is a socket.
fn socket(file: &Path) -> Option<u64> {
    let target = fs::read_link(file).ok()?;
    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

fn is_one_of(file: &Path, locks: &[(&OsStr, Metadata)]) -> bool {
    let target = fs::read_link(file).unwrap_or_default();
    // Only what is called as a lock is looked at: a disk of another file may hang.
    let mut namesakes = locks.iter().filter(|(name, _)| target.file_name() == Some(*name));
    namesakes.any(|(_, lock)| file.metadata().is_ok_and(|file| (lock.dev(), lock.ino()) == (file.dev(), file.ino())))
}

/// Inodes of the sockets that keep others from listening at `addr`, each with the number of its user.
fn sockets_at(addr: SocketAddr) -> BTreeMap<u64, u32> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines().skip(1)).filter_map(|line| listening(line, addr)).collect()
}

/// A line: its number, both addresses, the state, and further on the user and the inode.
///
/// ```text
///    0: 0100007F:1F54 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 81234 1 …
/// ```
fn listening(line: &str, addr: SocketAddr) -> Option<(u64, u32)> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    let (local, state, user, inode) = (columns.get(1)?, columns.get(3)?, columns.get(7)?, columns.get(9)?);
    let (ip, port) = local.split_once(':')?;
    let (ip, port) = (ip_of(ip)?, u16::from_str_radix(port, 16).ok()?);
    let is_in_the_way = *state == LISTENS && port == addr.port() && collide(ip, addr.ip().to_canonical());
    is_in_the_way.then_some((inode.parse().ok()?, user.parse().ok()?))
}

/// Whether who listens at one keeps others from listening at the other. `::` takes in IPv4, as Linux has it unless a
/// socket says otherwise, which the tables do not tell.
fn collide(one: IpAddr, other: IpAddr) -> bool {
    let takes_in = |wide: IpAddr, narrow: IpAddr| wide.is_unspecified() && (wide.is_ipv6() || narrow.is_ipv4());
    one == other || takes_in(one, other) || takes_in(other, one)
}

/// Words of four bytes, each printed as the number that it is on this machine.
fn ip_of(digits: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(digits.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    match digits.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            Some(Ipv6Addr::from(bytes).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::fd::OwnedFd;
    use std::process::Command;

    fn this_process() -> Listener {
        Listener::Server { process: std::process::id() }
    }

    #[test]
    fn a_listener_is_known_by_the_lock_that_it_has_open() {
        let dir = tempfile::tempdir().unwrap();
        let locks = ["held", "other/held"].map(|name| dir.path().join(name));
        fs::create_dir(dir.path().join("other")).unwrap();
        fs::write(&locks[1], "").unwrap();
        for ip in ["127.0.0.1", "0.0.0.0", "[::1]", "[::]"] {
            // A machine may have no IPv6.
            let Ok(listener) = TcpListener::bind(format!("{ip}:0")) else { continue };
            let addr = listener.local_addr().unwrap();
            assert_eq!(at(addr, &locks), Listener::Other, "nobody has them open");
            let held = io::file::lock(&locks[0]).unwrap();
            assert_eq!(at(addr, &locks), this_process(), "{addr}");
            assert_eq!(at(addr, &locks[1..]), Listener::Other, "it is of another directory");
            let elsewhere = SocketAddr::new("127.0.0.2".parse().unwrap(), addr.port());
            assert_eq!(at(elsewhere, &locks) == this_process(), addr.ip().is_unspecified(), "{addr}");
            drop(listener);
            assert_eq!(at(addr, &locks), Listener::Other, "nobody listens");
            drop(held);
            fs::remove_file(&locks[0]).unwrap();
        }
    }

    /// The server has the port at one address, and another program at the next: the server could not start at all of
    /// them.
    #[test]
    fn a_server_does_not_excuse_who_else_is_in_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let locks = [dir.path().join("lock")];
        let _held = io::file::lock(&locks[0]).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = listener.local_addr().unwrap();
        let everywhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), here.port());
        assert_eq!(at(everywhere, &locks), this_process());
        let strangers = TcpListener::bind(("127.0.0.2", here.port())).unwrap();
        let mut stranger = Command::new("sleep").arg("60").stdin(OwnedFd::from(strangers)).spawn().unwrap();
        let found = [everywhere, here].map(|addr| at(addr, &locks));
        stranger.kill().unwrap();
        stranger.wait().unwrap();
        assert_eq!(found, [Listener::Other, this_process()]);
    }

    #[test]
    fn a_port_is_taken_by_address() {
        let is_in_the_way = |one: &str, other: &str| collide(one.parse().unwrap(), other.parse().unwrap());
        for (one, other) in [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("::", "127.0.0.1")] {
            assert!(is_in_the_way(one, other) && is_in_the_way(other, one), "{one} {other}");
        }
        for (one, other) in [("127.0.0.1", "127.0.0.2"), ("0.0.0.0", "::1"), ("::1", "127.0.0.1")] {
            assert!(!is_in_the_way(one, other) && !is_in_the_way(other, one), "{one} {other}");
        }
    }

    /// Sockets 1 and 2 are in the way. Who may look into all processes need not guess, and who has no lock is not the
    /// server.
    #[test]
    fn who_may_not_be_looked_into_is_unknown() {
        const USER: u32 = 998;
        let sockets = BTreeMap::from([(1, USER), (2, USER)]);
        assert_eq!(
            judge(&BTreeMap::from([(1, USER), (2, USER + 1)]), &[], false),
            Listener::Other,
            "one is a stranger"
        );
        let holder =
            |sockets: &[u64], has_lock| Holder { process: 7, sockets: sockets.iter().copied().collect(), has_lock };
        let (hidden, server) = (Listener::Hidden { user: USER }, Listener::Server { process: 7 });
        for (holders, sees_all, found) in [
            (vec![], false, hidden),
            (vec![], true, Listener::Other),
            (vec![holder(&[1, 2], true)], false, server),
            (vec![holder(&[1, 2], false)], false, Listener::Other),
            (vec![holder(&[1], true)], false, Listener::Other),
            (vec![holder(&[1], true), holder(&[2], false)], true, Listener::Other),
            (vec![holder(&[1, 2], false), holder(&[1, 2], true)], true, server),
        ] {
            assert_eq!(judge(&sockets, &holders, sees_all), found);
        }
    }

    #[test]
    fn a_socket_is_read_with_its_user() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let users: Vec<u32> = sockets_at(listener.local_addr().unwrap()).into_values().collect();
        assert_eq!(users, [rustix::process::geteuid().as_raw()]);
    }
}
