//! Ports that are chosen before their servers listen, for servers that must know each other's addresses.
//!
//! Each has a socket that is bound and does not listen. The kernel gives such a port to nobody who asks for any, as
//! whoever dials does, the servers themselves among them; a server that names it may listen there, since all these
//! sockets have SO_REUSEADDR.

use std::io;
use std::net::SocketAddr;
use tokio::net::TcpSocket;

/// Holds ports until it is dropped.
#[derive(Debug, Default)]
pub struct HeldPorts(Vec<TcpSocket>);

impl HeldPorts {
    /// The address where the port is free, else the address with another port, which is.
    pub fn hold(&mut self, wished: SocketAddr) -> io::Result<SocketAddr> {
        let socket = bound(wished).or_else(|_| bound(SocketAddr::new(wished.ip(), 0)))?;
        let addr = socket.local_addr()?;
        self.0.push(socket);
        Ok(addr)
    }
}

fn bound(addr: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn a_held_port_is_for_who_names_it_and_one_that_another_has_is_exchanged() {
        let mut held = HeldPorts::default();
        let one = held.hold((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let server = TcpListener::bind(one).unwrap();
        let other = held.hold(one).unwrap();
        assert_ne!(other, one);
        drop(server);
        assert_eq!(held.hold(one).unwrap(), one);
    }
}
