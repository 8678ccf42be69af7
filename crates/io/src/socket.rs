//! Options of TCP connections.

use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd};
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

/// How long a packet to the peer and its answer take, as the kernel has measured it since the connection was made: so it
/// says nothing of a program that is slow. `None`: it does not say.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
