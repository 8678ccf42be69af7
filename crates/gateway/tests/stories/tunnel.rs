//! A client behind a gateway, and strangers at its door.

use crate::support::{Cluster, bytes};
use client::{Create, RangeRead};
use gateway::{Config, Gateway, Place, TunnelConfig};
use io::dial::Preface;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A connection that asks for this server.
async fn asking(gateway: &Gateway, target: &str) -> TcpStream {
    let mut socket = TcpStream::connect(gateway.tunnel_addr().unwrap()).await.unwrap();
    socket.write_all(&Preface { target: target.into() }.encode().unwrap()).await.unwrap();
    socket
}

async fn is_closed(socket: &mut TcpStream) -> bool {
    let ended = tokio::time::timeout(Duration::from_secs(30), socket.read(&mut [0])).await;
    matches!(ended, Ok(Ok(0) | Err(_)))
}

/// A small file in one request, a stream of several packets, a file that is still written, ranges.
#[tokio::test]
async fn a_store_is_used_through_its_gateway_alone() {
    let cluster = Cluster::new(100).await;
    let client = cluster.client();
    let bytes = bytes(3_000_000);
    for (path, len) in [("/small", 1000), ("/large", bytes.len())] {
        let mut writer = client.create(path, &Create::default()).await.unwrap();
        writer.write(&bytes[..len]).await.unwrap();
        writer.close().await.unwrap();
        let reader = client.open(path).await.unwrap();
        let mut got = vec![0; len];
        assert_eq!(reader.read_at(0, &mut got).await.unwrap(), len);
        assert!(got == bytes[..len]);
        let (mut one, mut two) = ([0; 100], [0; 7]);
        let mut reads = [RangeRead { offset: 900, dest: &mut one }, RangeRead { offset: 3, dest: &mut two }];
        reader.read_ranges(&mut reads).await.unwrap();
        assert!(one[..] == bytes[900..1000] && two[..] == bytes[3..10]);
    }
    let mut writer = client.create("/open", &Create::default()).await.unwrap();
    writer.write(&bytes[..1_000_000]).await.unwrap();
    writer.flush().await.unwrap();
    assert_eq!(client.open("/open").await.unwrap().len(), 1_000_000, "a datanode says so, over its port for calls");
    writer.close().await.unwrap();
    assert!(cluster.gateway.connection_count() > 0);
    client.store().close().await;
    cluster.stop().await;
}

/// It is no way into the network behind it.
#[tokio::test]
async fn nobody_gets_through_to_what_is_not_the_stores() {
    let cluster = Cluster::new(100).await;
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut socket = asking(&cluster.gateway, &other.local_addr().unwrap().to_string()).await;
    assert!(is_closed(&mut socket).await);
    let came = tokio::time::timeout(Duration::from_millis(200), other.accept()).await;
    assert!(came.is_err(), "the gateway dialled a server that is not the store's");
    for greeting in [&b"hrpc\x09\x00\x00"[..], b"GET / HTTP/1.1\r\n\r\n", b"LVGW\x01\x00"] {
        let mut socket = TcpStream::connect(cluster.gateway_addr()).await.unwrap();
        socket.write_all(greeting).await.unwrap();
        assert!(is_closed(&mut socket).await, "{greeting:?}");
    }
    cluster.stop().await;
}

/// That would take everybody who comes through for a caller on its own machine.
#[tokio::test]
async fn a_gateway_does_not_start_beside_a_metadata_server_by_chance() {
    let cluster = Cluster::new(100).await;
    let (url, user) = (cluster.client().url().clone(), host::user::current());
    let addr = "127.0.0.1:0".parse().unwrap();
    let (files, metrics_addr) = (None, None);
    let config = Config {
        place: Place::NearStore(TunnelConfig { addr, connection_count_max: 10, beside_servers: false }),
        url,
        user,
        files,
        root: None,
        root_limits: gateway::RootLimits::default(),
        metrics_addr,
    };
    let refused = Gateway::start(config).await.unwrap_err();
    assert!(refused.to_string().contains("is on this machine"), "{refused}");
    cluster.stop().await;
}

/// Clients that say nothing are closed for those who do.
#[tokio::test]
async fn the_connection_that_was_silent_for_longest_makes_room() {
    let cluster = Cluster::new(2).await;
    let metad = cluster.metad.rpc_addr().to_string();
    let mut first = asking(&cluster.gateway, &metad).await;
    let second = asking(&cluster.gateway, &metad).await;
    while cluster.gateway.connection_count() < 2 {
        tokio::task::yield_now().await;
    }
    let third = asking(&cluster.gateway, &metad).await;
    assert!(is_closed(&mut first).await);
    assert!(cluster.gateway.connection_count() <= 2);
    drop((second, third));
    cluster.stop().await;
}
