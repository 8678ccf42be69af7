//! Options of TCP connections; where Unix sockets may be.

use socket2::{SockRef, TcpKeepalive};
use std::io::{self, ErrorKind};
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

/// What our connections want of TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// Send small pieces at once. Senders that have more at hand say so with each piece.
    pub nodelay: bool,
    /// Ask a silent peer after this long whether it is still there, three times at a third of it, then give up.
    pub keepalive: Option<Duration>,
    /// Congestion control by its name in the kernel; `None` leaves the machine's default.
    pub congestion: Option<String>,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self { nodelay: true, keepalive: Some(Duration::from_secs(60)), congestion: None }
    }
}

/// Sets the options on a connected or a listening socket (its connections inherit them).
/// A congestion control that the kernel lacks or forbids is reported and otherwise ignored.
pub fn apply(socket: &impl AsFd, options: &SocketOptions) -> io::Result<()> {
    let socket = SockRef::from(socket);
    socket.set_tcp_nodelay(options.nodelay)?;
    if let Some(idle) = options.keepalive {
        let interval = (idle / 3).max(Duration::from_secs(1));
        let keepalive = TcpKeepalive::new().with_time(idle.max(Duration::from_secs(1)));
        socket.set_tcp_keepalive(&keepalive.with_interval(interval).with_retries(3))?;
    }
    if let Some(name) = &options.congestion
        && let Err(error) = socket.set_tcp_congestion(name.as_bytes())
    {
        tracing::warn!(name, %error, "the kernel does not take this congestion control; the default stays");
    }
    Ok(())
}

/// How long a packet to the peer and its answer take, as the kernel has measured it since the connection was made: so
/// it says nothing of a program that is slow. `None`: it does not say.
#[expect(unsafe_code, reason = "TCP_INFO has no safe wrapper")]
pub fn round_trip(socket: &impl AsFd) -> Option<Duration> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open as long as `socket` is borrowed, and the kernel writes `len` bytes at most.
    let done = unsafe {
        libc::getsockopt(descriptor, libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut len)
    };
    // SAFETY: it is made of numbers, which are all zero where the kernel wrote none.
    let info = unsafe { info.assume_init() };
    (done == 0 && info.tcpi_rtt > 0).then(|| Duration::from_micros(info.tcpi_rtt.into()))
}

/// From how many bytes on a socket counts as readable; its end always does.
#[expect(unsafe_code, reason = "SO_RCVLOWAT has no safe wrapper")]
pub fn set_low_water(socket: &impl AsFd, len: usize) -> io::Result<()> {
    let len = libc::c_int::try_from(len).unwrap_or(libc::c_int::MAX);
    // SAFETY: the descriptor is open as long as `socket` is borrowed, and the kernel reads one number.
    let done = unsafe {
        let (at, size) = (std::ptr::from_ref(&len).cast(), size_of::<libc::c_int>() as libc::socklen_t);
        libc::setsockopt(socket.as_fd().as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, at, size)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether an address is one of this machine's, or of this network namespace. Nothing is sent.
pub fn is_own(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

/// The longest path of a Unix socket in Linux, without the zero behind it.
const SOCKET_PATH_LEN_MAX: usize = 107;

/// Whether a socket at `path` would be safe, and reachable by its name. `PermissionDenied`: others could put a socket
/// of theirs in its place, and would be told the clients' tokens.
pub fn may_listen_at(path: &Path) -> io::Result<()> {
    let len = path.as_os_str().len();
    if len > SOCKET_PATH_LEN_MAX {
        let why = format!("a path of {len} bytes; a Unix socket has one of at most {SOCKET_PATH_LEN_MAX}");
        return Err(io::Error::new(ErrorKind::InvalidInput, why));
    }
    must_be_guarded(path.parent().unwrap_or(Path::new("/")))
}

/// Listens at `path`, in the place of what a server left there that has ended. Every user of the machine may connect
/// who can reach the path, which has to be as [`may_listen_at`] says.
pub fn listen_at(path: &Path) -> io::Result<UnixListener> {
    may_listen_at(path)?;
    match std::fs::symlink_metadata(path) {
        Ok(there) if there.file_type().is_socket() => match UnixStream::connect(path) {
            Ok(_) => return Err(ErrorKind::AddrInUse.into()),
            Err(_) => std::fs::remove_file(path)?,
        },
        Ok(_) => return Err(ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Holds each directory on the way to the rule of HDFS: it is root's or this user's, and others may not write there,
/// except where only a file's owner may rename it.
fn must_be_guarded(dir: &Path) -> io::Result<()> {
    const OTHERS_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let own = rustix::process::geteuid().as_raw();
    for dir in dir.canonicalize()?.ancestors() {
        let there = std::fs::metadata(dir)?;
        let is_open = there.mode() & OTHERS_WRITE != 0 && there.mode() & STICKY == 0;
        if is_open || there.uid() != 0 && there.uid() != own {
            let why = format!("other users may change {}", dir.display());
            return Err(io::Error::new(ErrorKind::PermissionDenied, why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn connections_inherit_what_their_listener_was_told() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let options = SocketOptions { congestion: Some("reno".into()), ..SocketOptions::default() };
        apply(&listener, &options).unwrap();
        let _near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        assert!(far.nodelay().unwrap() && SockRef::from(&far).keepalive().unwrap());
        let unknown = SocketOptions { congestion: Some("no such thing".into()), ..options };
        apply(&far, &unknown).unwrap();
    }

    #[test]
    fn the_kernel_says_how_far_away_a_peer_is() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let round_trip = round_trip(&near).expect("it has measured the handshake");
        assert!(round_trip < Duration::from_millis(5), "{round_trip:?} to this machine");
        assert_eq!(super::round_trip(&listener), None);
    }

    #[test]
    fn a_socket_is_readable_from_its_low_water_on_and_at_its_end() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let is_readable = |limit| {
            let watch = crate::poll::Watch { fd: far.as_fd(), read: true, write: false };
            crate::poll::poll(&[watch], Some(limit)).unwrap()[0].readable
        };
        set_low_water(&far, 1000).unwrap();
        near.write_all(&[0; 999]).unwrap();
        assert!(!is_readable(Duration::from_millis(50)));
        near.write_all(&[0]).unwrap();
        assert!(is_readable(Duration::from_secs(20)));
        set_low_water(&far, 10_000).unwrap();
        assert!(!is_readable(Duration::from_millis(50)));
        drop(near);
        assert!(is_readable(Duration::from_secs(20)));
    }

    #[test]
    fn a_socket_takes_the_place_of_one_that_nobody_serves_and_of_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let first = listen_at(&path).unwrap();
        assert_eq!(listen_at(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(first);
        let _second = listen_at(&path).unwrap();
        UnixStream::connect(&path).unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "mine").unwrap();
        assert_eq!(listen_at(&file).unwrap_err().kind(), ErrorKind::AlreadyExists);
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(listen_at(&dir.path().join("other")).unwrap_err().kind(), ErrorKind::PermissionDenied);
    }

    #[test]
    fn this_machine_knows_its_addresses() {
        assert!(is_own("127.0.0.1".parse().unwrap()));
        // For documentation (RFC 5737): nobody's.
        assert!(!is_own("192.0.2.1".parse().unwrap()));
    }
}
