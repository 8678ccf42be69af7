//! Strangers at the port: who is slow, silent or many harms nobody else.

use http::{Limits, Pages, Server};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

const COUNT_MAX: usize = 8;
/// Longer than anything here should take, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server with short limits, whose check of the tree goes on for as long as somebody takes it.
async fn server() -> Server {
    let limits = Limits {
        connection_count_max: COUNT_MAX,
        head_time_max: Duration::from_millis(500),
        stall_time_max: Duration::from_millis(500),
        ..Limits::default()
    };
    let status = Arc::new(|| json!({"nodes": 3}));
    let check = Arc::new(|_, _| {
        let (pieces, report) = mpsc::channel(1);
        io::task::spawn("check", async move { while pieces.send("x".repeat(64 << 10)).await.is_ok() {} });
        Some(report)
    });
    let metrics = Arc::new(|format| format!("levada_nodes 3 {format:?}\n"));
    let pages = Pages { status, metrics, check: Some(check), proof: None };
    Server::bind(([127, 0, 0, 1], 0).into(), limits, pages, None).await.unwrap()
}

async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.addr()).await.unwrap()
}

async fn ask(server: &Server, request: &[u8]) -> String {
    let mut client = connect(server).await;
    client.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    // A server that closes while bytes come may reset the connection; what it said before counts.
    let _ = timeout(PATIENCE, client.read_to_end(&mut answer)).await.expect("the server ends the connection");
    String::from_utf8_lossy(&answer).into_owned()
}

async fn health(server: &Server) -> String {
    ask(server, b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await
}

/// The server ends this connection by itself.
async fn ends(client: &mut TcpStream) {
    let mut bytes = [0; 4096];
    let end = async { while client.read(&mut bytes).await.is_ok_and(|len| len > 0) {} };
    timeout(PATIENCE, end).await.expect("the server ends the connection");
}

#[tokio::test]
async fn a_scraper_gets_the_form_that_it_takes() {
    let server = server().await;
    let scrape = async |accept: &str| {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nConnection: close\r\n\r\n");
        ask(&server, request.as_bytes()).await
    };
    let answer = scrape("text/plain").await;
    assert!(answer.contains("text/plain; version=0.0.4; charset=utf-8"), "{answer}");
    assert!(answer.ends_with("levada_nodes 3 Prometheus\n"), "{answer}");
    let answer = scrape("application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1").await;
    assert!(answer.contains("application/openmetrics-text; version=1.0.0; charset=utf-8"), "{answer}");
    assert!(answer.ends_with("levada_nodes 3 OpenMetrics\n"), "{answer}");
}

#[tokio::test]
async fn requests_on_one_connection_are_answered_in_turn() {
    let server = server().await;
    let mut client = connect(&server).await;
    for _ in 0..3 {
        client.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut answer = [0; 512];
        let len = client.read(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..len]);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok\n"), "{answer}");
        assert!(answer.to_lowercase().contains("content-length: 3"), "{answer}");
    }
    ends(&mut client).await; // says nothing more
}

#[tokio::test]
async fn a_head_that_comes_slowly_is_not_waited_for() {
    let server = server().await;
    let (mut silent, mut slow) = (connect(&server).await, connect(&server).await);
    slow.write_all(b"GET /health HT").await.unwrap();
    let drip = async {
        while slow.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, drip).await.expect("one byte now and then does not keep it open");
    ends(&mut silent).await;
    assert!(health(&server).await.contains("200 OK"));
}

#[tokio::test]
async fn what_no_client_sends_is_refused() {
    let server = server().await;
    let long = [b"GET / HTTP/1.1\r\nX: ".as_slice(), &[b'a'; 100_000], b"\r\n\r\n"].concat();
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(1000)).into_bytes();
    let mad = b"POST /health HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n".to_vec();
    let two = b"POST /health HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx".to_vec();
    for bad in [long, many, mad, two, b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03".repeat(20), vec![0; 5000]] {
        let answer = ask(&server, &bad).await;
        assert!(!answer.contains(" 200 "), "{answer}");
    }
    // A body that is promised and never comes is nobody's business.
    let promised = b"POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\nxyz";
    assert!(ask(&server, promised).await.contains("405"));
    assert!(health(&server).await.contains("200 OK"));
}

#[tokio::test]
async fn a_crowd_that_says_nothing_keeps_nobody_out() {
    let server = server().await;
    let mut crowd = Vec::new();
    for _ in 0..30 {
        for _ in 0..COUNT_MAX {
            crowd.push(connect(&server).await);
        }
        assert!(health(&server).await.contains("200 OK"));
    }
    ends(&mut crowd[0]).await;
}

/// Answers that nobody takes fill all places; each is given up in time, and sooner when another client comes.
#[tokio::test]
async fn clients_that_never_read_are_cut_off() {
    let server = server().await;
    let mut deaf = Vec::new();
    for _ in 0..COUNT_MAX {
        let mut client = connect(&server).await;
        client.write_all(b"GET /fsck HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        deaf.push(client);
    }
    tokio::time::sleep(Duration::from_millis(300)).await; // until the sockets' buffers are full
    assert!(health(&server).await.contains("200 OK"));
    tokio::time::sleep(Duration::from_millis(1500)).await;
    for mut client in deaf {
        ends(&mut client).await; // what the kernel had, and then the end
    }
}

/// A check that somebody reads goes on for longer than any limit of those who do nothing.
#[tokio::test]
async fn who_reads_slowly_but_reads_is_served() {
    let server = server().await;
    let mut client = connect(&server).await;
    client.write_all(b"GET /fsck HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut bytes = vec![0; 4 << 20];
    for _ in 0..12 {
        assert!(client.read(&mut bytes).await.unwrap() > 0);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_server_that_stops_lets_its_port_go() {
    let server = server().await;
    let mut idle = connect(&server).await;
    assert!(health(&server).await.contains("200 OK"));
    server.shutdown();
    ends(&mut idle).await;
    let gone = async { while TcpStream::connect(server.addr()).await.is_ok() {} };
    timeout(PATIENCE, gone).await.expect("nobody listens any more");
}
