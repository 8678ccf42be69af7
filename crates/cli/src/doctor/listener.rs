//! Who listens at a port: whether that is the server that a configuration file is for.
//!
//! Linux alone says so (`/proc`), and of another user's processes to nobody but root. A server has the locks of its
//! directories open as long as it runs, so it is known by these.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Of a socket that listens, in the tables below `/proc/net`.
const LISTENS: &str = "0A";

/// The process of the server that listens at `addr`: it has one of `locks` open, and every socket that keeps others from
/// listening there. `None`: none, as far as this user may know.
pub(super) fn process_of_server(addr: SocketAddr, locks: &[PathBuf]) -> Option<u32> {
    let locks: Vec<_> = locks.iter().filter_map(|lock| Some((lock.file_name()?, lock.metadata().ok()?))).collect();
    let sockets = sockets_at(addr);
    if locks.is_empty() || sockets.is_empty() {
        return None;
    }
    let names = fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).find(|process: &u32| {
        let Ok(open) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
        let open: Vec<PathBuf> = open.filter_map(|entry| Some(entry.ok()?.path())).collect();
        let its_sockets: BTreeSet<u64> = open.iter().filter_map(|file| socket(file)).collect();
        sockets.is_subset(&its_sockets) && open.iter().any(|file| is_one_of(file, &locks))
    })
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

/// Inodes of the sockets that keep others from listening at `addr`.
fn sockets_at(addr: SocketAddr) -> BTreeSet<u64> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines().skip(1)).filter_map(|line| listening(line, addr)).collect()
}

/// A line: its number, both addresses, the state, and further on the inode.
///
/// ```text
///    0: 0100007F:1F54 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 81234 1 …
/// ```
fn listening(line: &str, addr: SocketAddr) -> Option<u64> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    let (local, state, inode) = (columns.get(1)?, columns.get(3)?, columns.get(9)?);
    let (ip, port) = local.split_once(':')?;
    let (ip, port) = (ip_of(ip)?, u16::from_str_radix(port, 16).ok()?);
    (*state == LISTENS && port == addr.port() && collide(ip, addr.ip().to_canonical())).then(|| inode.parse().ok())?
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
            assert_eq!(process_of_server(addr, &locks), None, "nobody has them open");
            let held = io::file::lock(&locks[0]).unwrap();
            assert_eq!(process_of_server(addr, &locks), Some(std::process::id()), "{addr}");
            assert_eq!(process_of_server(addr, &locks[1..]), None, "it is of another directory");
            let elsewhere = SocketAddr::new("127.0.0.2".parse().unwrap(), addr.port());
            assert_eq!(process_of_server(elsewhere, &locks).is_some(), addr.ip().is_unspecified(), "{addr}");
            drop(listener);
            assert_eq!(process_of_server(addr, &locks), None, "nobody listens");
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
        assert_eq!(process_of_server(everywhere, &locks), Some(std::process::id()));
        let strangers = TcpListener::bind(("127.0.0.2", here.port())).unwrap();
        let mut stranger = Command::new("sleep").arg("60").stdin(OwnedFd::from(strangers)).spawn().unwrap();
        let found = [everywhere, here].map(|addr| process_of_server(addr, &locks));
        stranger.kill().unwrap();
        stranger.wait().unwrap();
        assert_eq!(found, [None, Some(std::process::id())]);
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
}
