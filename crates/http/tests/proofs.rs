//! Who asks for a check of the tree has to prove who he is; who asks for anything else need not.

use http::{Asker, Limits, Pages, Proven, Server};
use serde_json::json;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// A server that believes a proof `is NAME`, and what was asked of it.
struct Story {
    server: Server,
    askers: Arc<Mutex<Vec<Option<String>>>>,
}

async fn story(asks_for_proof: bool) -> Story {
    let askers = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&askers);
    let check = Arc::new(move |_, asker: Asker| {
        heard.lock().unwrap().push(asker.name);
        let (pieces, report) = mpsc::channel(1);
        pieces.try_send("a report".to_owned()).unwrap();
        Some(report)
    });
    let proof = Arc::new(|token: &[u8]| match token.strip_prefix(b"is ") {
        Some(name) => Ok(Proven { name: String::from_utf8_lossy(name).into_owned(), answer: b"so am I".into() }),
        None => Err("Defective token".to_owned()),
    });
    let proof = asks_for_proof.then_some(proof as http::ProofSource);
    let pages = Pages {
        status: Arc::new(|| json!({"nodes": 3})),
        metrics: Arc::new(|_| "levada_nodes 3\n".into()),
        check: Some(check),
        proof,
    };
    let server = Server::bind(([127, 0, 0, 1], 0).into(), Limits::default(), pages, None).await.unwrap();
    Story { server, askers }
}

impl Story {
    /// Requests over one connection, each `METHOD PATH` and what it sends for `Authorization`; what is answered.
    async fn ask(&self, requests: &[(&str, &str)]) -> String {
        let mut client = TcpStream::connect(self.server.addr()).await.unwrap();
        for (number, (what, authorization)) in requests.iter().enumerate() {
            let close = if number + 1 == requests.len() { "Connection: close\r\n" } else { "" };
            let proof =
                if authorization.is_empty() { String::new() } else { format!("Authorization: {authorization}\r\n") };
            let head = format!("{what} HTTP/1.1\r\nHost: x\r\n{proof}{close}\r\n");
            // A server that takes no more of a long head resets the connection.
            let _ = client.write_all(head.as_bytes()).await;
        }
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn askers(&self) -> Vec<Option<String>> {
        std::mem::take(&mut self.askers.lock().unwrap())
    }
}

/// `is ada@EXAMPLE.COM`.
const ADA: &str = "Negotiate aXMgYWRhQEVYQU1QTEUuQ09N";

#[tokio::test]
async fn a_proof_comes_with_each_request() {
    let story = story(true).await;
    let answer = story.ask(&[("GET /fsck?path=/", ADA), ("GET /fsck?path=/", "")]).await;
    assert_eq!(story.askers(), [Some("ada@EXAMPLE.COM".to_owned())], "{answer}");
    let (first, second) = answer.split_at(answer.rfind("HTTP/1.1 ").unwrap());
    assert!(first.starts_with("HTTP/1.1 200 OK\r\n") && first.contains("a report"), "{first}");
    assert!(first.contains("www-authenticate: Negotiate c28gYW0gSQ==\r\n"), "{first}");
    assert!(second.starts_with("HTTP/1.1 401 "), "a connection that was proven once proves nothing: {second}");
}

#[tokio::test]
async fn who_has_none_is_told_what_is_asked() {
    let story = story(true).await;
    for other in ["", "Negotiate", "Negotiate ", "Basic YWRhOmFkYQ==", "Negotiated aXMgYWRh"] {
        let answer = story.ask(&[("GET /fsck?ugi=root&path=/", other)]).await;
        assert!(answer.starts_with("HTTP/1.1 401 Unauthorized\r\n"), "{other}: {answer}");
        assert!(answer.contains("www-authenticate: Negotiate\r\n") && answer.contains("kinit"), "{other}: {answer}");
    }
    let refused = story.ask(&[("GET /fsck", "Negotiate Ym9ndXM=")]).await;
    assert!(refused.starts_with("HTTP/1.1 403 GSSException: Defective token\r\n"), "{refused}");
    let refused = story.ask(&[("GET /fsck", "Negotiate !!!")]).await;
    assert!(refused.starts_with("HTTP/1.1 400 "), "{refused}");
    let long = format!("Negotiate {}", "a".repeat(100 << 10));
    let refused = story.ask(&[("GET /fsck", &long)]).await;
    assert!(!refused.starts_with("HTTP/1.1 200 "), "{refused}");
    assert_eq!(story.askers(), []);
}

#[tokio::test]
async fn a_ticket_with_many_groups_is_taken() {
    let story = story(true).await;
    let long = format!("Negotiate aXMg{}", "YWFh".repeat(12 << 10));
    let answer = story.ask(&[("GET /fsck", &long)]).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer:.300}");
}

/// As stock clients do before they ask.
#[tokio::test]
async fn a_proof_can_be_tried_without_a_check() {
    let story = story(true).await;
    assert!(story.ask(&[("OPTIONS /fsck?path=/", "")]).await.starts_with("HTTP/1.1 401 "));
    let answer = story.ask(&[("OPTIONS /fsck?path=/", ADA)]).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("www-authenticate: Negotiate c28"), "{answer}");
    assert_eq!(story.askers(), []);
}

#[tokio::test]
async fn what_is_for_everybody_asks_for_nothing() {
    let secure = story(true).await;
    for page in ["/", "/health", "/status", "/metrics"] {
        let answer = secure.ask(&[(&format!("GET {page}"), "")]).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{page}: {answer}");
    }
    let open = story(false).await;
    let answer = open.ask(&[("OPTIONS /fsck", ""), ("GET /fsck?ugi=root", "")]).await;
    assert!(answer.ends_with("a report\r\n0\r\n\r\n"), "{answer}");
    assert_eq!(open.askers(), [None]);
}
