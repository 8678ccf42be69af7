//! Several servers, of which not each is what it should be.

use crate::support::{PROTOCOL, SOON, server};
use io::TaskGroup;
use io::task::{Owned, spawn_owned};
use rpc::{CallError, Servers};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::time::timeout;

async fn web_server() -> (SocketAddr, Owned<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let serving = spawn_owned("web", async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            socket.write_all(b"HTTP/1.1 503 Service Unavailable\r\n\r\n").await.unwrap();
        }
    });
    (addr, serving)
}

async fn ask(addrs: &[SocketAddr], limit: Duration) -> Result<String, CallError> {
    let addrs: Vec<String> = addrs.iter().map(SocketAddr::to_string).collect();
    let servers = Servers::new(&addrs.join(","), "alice", PROTOCOL, TaskGroup::default());
    timeout(limit, servers.call_in(PROTOCOL, "echo", &"hello".to_owned())).await.expect("an end")
}

/// One address is a web port's, or that of a proxy whose server is away: the others are asked.
#[tokio::test]
async fn a_web_port_among_servers_is_passed_over() {
    let ((web, _web), (server, _service)) = (web_server().await, server().await);
    assert_eq!(ask(&[web, server.local_addr()], SOON).await.unwrap(), "hello");
}

/// None of them will ever be anything else.
#[tokio::test]
async fn web_ports_alone_are_not_waited_for() {
    let ((one, _one), (other, _other)) = (web_server().await, web_server().await);
    let failed = ask(&[one, other], SOON).await.unwrap_err();
    assert!(matches!(failed, CallError::Decode(_)), "{failed:?}");
}
