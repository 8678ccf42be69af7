//! Options of TCP connections.

use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::os::fd::AsFd;
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
}
