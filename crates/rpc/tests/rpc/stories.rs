//! Our client and our server with each other, over real sockets.

use crate::support::{A_WHILE, PROTOCOL, SOON, URGENT, client, client_with, server, server_with};
use rpc::{CallError, Client, ClientOptions, Patience, ServerOptions, Servers};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

async fn ask(client: &Client, method: &str, text: &str) -> Result<String, CallError> {
    client.call(method, &text.to_owned()).await
}

fn remote(error: CallError) -> (String, String) {
    match error {
        CallError::Remote { class, message, .. } => (class, message),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_call_brings_its_answer() {
    let (server, _service) = server().await;
    let client = client(&server);
    assert_eq!(ask(&client, "echo", "olá").await.unwrap(), "olá");
    assert_eq!(ask(&client, "empty", "x").await.unwrap(), "");
    assert_eq!(ask(&client, "who", "").await.unwrap(), "alice by itself");
    assert_eq!(ask(&client, "long", "20000000").await.unwrap().len(), 20_000_000);
    let long = "x".repeat(4_000_000);
    assert_eq!(ask(&client, "echo", &long).await.unwrap(), long);
}

#[tokio::test]
async fn an_exception_crosses_whole() {
    let (server, _service) = server().await;
    let client = client(&server);
    let failed = remote(ask(&client, "fail", "File does not exist: /x").await.unwrap_err());
    assert_eq!(failed, ("java.io.FileNotFoundException".to_owned(), "File does not exist: /x".to_owned()));
    let missing = remote(ask(&client, "none", "").await.unwrap_err());
    assert_eq!(missing.0, "org.apache.hadoop.ipc.RpcNoSuchMethodException");
    assert_eq!(missing.1, "Unknown method none called on org.levada.TestProtocol protocol.");
    let other = Client::new(server.local_addr().to_string(), "alice".to_owned(), "org.levada.Other");
    let missing = remote(ask(&other, "echo", "").await.unwrap_err());
    assert_eq!(missing.0, "org.apache.hadoop.ipc.RpcNoSuchProtocolException");
    assert_eq!(missing.1, "Unknown protocol: org.levada.Other");
    assert_eq!(ask(&client, "echo", "still here").await.unwrap(), "still here");
}

/// One call waits in the server; those sent behind it are answered before it.
#[tokio::test]
async fn answers_come_as_they_are_done() {
    let (server, service) = server().await;
    let client = client(&server);
    let waiting = ask(&client, "wait", "first");
    tokio::pin!(waiting);
    assert!(timeout(A_WHILE, &mut waiting).await.is_err());
    for text in ["second", "third"] {
        assert_eq!(ask(&client, "echo", text).await.unwrap(), text);
    }
    service.gate.add_permits(1);
    assert_eq!(waiting.await.unwrap(), "first");
}

#[tokio::test]
async fn a_panic_is_answered_and_the_connection_lives() {
    let (server, _service) = server_with(ServerOptions { connections_max: 1, ..ServerOptions::default() }).await;
    let client = client(&server);
    for _ in 0..3 {
        let (class, message) = remote(ask(&client, "panic", "now").await.unwrap_err());
        assert_eq!(class, "java.io.IOException");
        assert!(!message.contains("on purpose"), "what a panic says is for the log: {message}");
    }
    assert_eq!(ask(&client, "echo", "still here").await.unwrap(), "still here");
}

/// The connection has room for four calls; hundreds queue up, and each is answered.
#[tokio::test]
async fn more_calls_than_the_limit_wait_their_turn() {
    let (server, service) =
        server_with(ServerOptions { calls_per_connection_max: 4, ..ServerOptions::default() }).await;
    let client = client(&server);
    let calls: Vec<_> = (0..300)
        .map(|number| {
            let client = client.clone();
            ::io::task::spawn("call", async move { ask(&client, "wait", &number.to_string()).await.unwrap() })
        })
        .collect();
    service.started(4).await;
    sleep(A_WHILE).await;
    assert_eq!(service.started_count.load(Ordering::SeqCst), 4);
    service.gate.add_permits(300);
    for (number, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap(), number.to_string());
    }
}

/// Long requests from many clients: few are let in at a time, and all are served.
#[tokio::test]
async fn long_requests_wait_for_memory() {
    let (server, _service) = server_with(ServerOptions { held_len_max: 2_000_000, ..ServerOptions::default() }).await;
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let client = client(&server);
            ::io::task::spawn("call", async move {
                for len in [100, 100_000, 1_000_000, 3_000_000] {
                    let text = "x".repeat(len);
                    assert_eq!(ask(&client, "echo", &text).await.unwrap(), text);
                }
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
}

/// Answers of 1 MB each, and 2 MB for all of them: they come one after the other, and all come.
#[tokio::test]
async fn long_answers_wait_for_memory() {
    let (server, _service) = server_with(ServerOptions { held_len_max: 2_000_000, ..ServerOptions::default() }).await;
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let client = client(&server);
            ::io::task::spawn("call", async move {
                for _ in 0..4 {
                    assert_eq!(ask(&client, "long", "1000000").await.unwrap().len(), 1_000_000);
                }
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
}

/// The memory for long requests is all held by calls that wait: who has memory of its own is served all the same.
#[tokio::test]
async fn what_is_urgent_does_not_wait_for_memory() {
    let options = ServerOptions { held_len_max: 4_000_000, urgent_protocol: Some(URGENT), ..ServerOptions::default() };
    let (server, service) = server_with(options).await;
    let holding = {
        let client = client(&server);
        ::io::task::spawn("call", async move { ask(&client, "wait", &"x".repeat(1_500_000)).await })
    };
    service.started(1).await;
    let usual = client(&server);
    let waiting = ::io::task::spawn("call", async move { ask(&usual, "echo", &"x".repeat(1_500_000)).await });
    let urgent = rpc::Client::new(server.local_addr().to_string(), "alice".into(), URGENT);
    let text = "urgent".to_owned();
    for _ in 0..3 {
        let asked = urgent.attempt_in::<_, String>(URGENT, urgent.name_call(), "echo", &text);
        assert_eq!(tokio::time::timeout(SOON, asked).await.expect("an answer soon").unwrap(), "urgent");
    }
    assert!(!waiting.is_finished());
    service.gate.add_permits(1);
    assert!(holding.await.unwrap().is_ok());
    assert_eq!(waiting.await.unwrap().unwrap().len(), 1_500_000);
}

#[tokio::test]
async fn a_broken_connection_is_made_again() {
    let (first, service) = server().await;
    let addr = first.local_addr();
    let client = client(&first);
    assert_eq!(ask(&client, "echo", "1").await.unwrap(), "1");
    let waiting = {
        let client = client.clone();
        ::io::task::spawn("call", async move { ask(&client, "wait", "").await })
    };
    service.started(2).await;
    drop(first);
    assert!(matches!(waiting.await.unwrap(), Err(CallError::Broken(_))));
    // Until it is there again the calls say that they were not sent.
    assert!(matches!(ask(&client, "echo", "2").await, Err(CallError::Connect(_))));
    let service = crate::support::TestService::new();
    let _second = rpc::Server::bind(addr, ServerOptions::default(), service).await.unwrap();
    assert_eq!(ask(&client, "echo", "3").await.unwrap(), "3");
}

/// A server that takes connections and says nothing: the call times out, and the next one tries a new connection.
#[tokio::test]
async fn a_silent_server_is_left() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = ClientOptions { call_time_max: A_WHILE, ..ClientOptions::default() };
    let client = Client::with_options(silent.local_addr().unwrap().to_string(), "alice".to_owned(), PROTOCOL, options);
    for _ in 0..2 {
        assert!(matches!(ask(&client, "echo", "").await, Err(CallError::TimedOut)));
        timeout(SOON, silent.accept()).await.expect("each call has a connection of its own").unwrap();
    }
}

/// One slow call does not take the connection from the others.
#[tokio::test]
async fn a_call_that_times_out_leaves_a_talking_server_connected() {
    let (server, service) = server_with(ServerOptions { connections_max: 1, ..ServerOptions::default() }).await;
    let client = client_with(&server, ClientOptions { call_time_max: 20 * A_WHILE, ..ClientOptions::default() });
    let waiting = ask(&client, "wait", "");
    tokio::pin!(waiting);
    assert!(timeout(A_WHILE, &mut waiting).await.is_err());
    assert_eq!(ask(&client, "echo", "1").await.unwrap(), "1");
    assert!(matches!(waiting.await, Err(CallError::TimedOut)));
    service.gate.add_permits(1);
    assert_eq!(ask(&client, "echo", "2").await.unwrap(), "2", "the late answer was thrown away");
}

#[tokio::test]
async fn a_call_that_is_given_up_harms_no_other() {
    let (server, service) = server().await;
    let client = client(&server);
    for _ in 0..10 {
        assert!(timeout(Duration::from_millis(2), ask(&client, "wait", "")).await.is_err());
    }
    service.gate.add_permits(10);
    assert_eq!(ask(&client, "echo", "1").await.unwrap(), "1");
}

#[tokio::test]
async fn a_retry_keeps_its_name() {
    let (server, _service) = server().await;
    let client = client(&server);
    let _first: String = client.call("echo", &String::new()).await.unwrap();
    let name = client.name_call();
    for attempt in [name, name.again()] {
        let seen: String = client.attempt(attempt, "attempt", &String::new()).await.unwrap();
        assert_eq!(seen, format!("1 {}", attempt.retry_count));
    }
}

/// A web server says nothing else the next time: a call fails at once, and is not made again.
#[tokio::test]
async fn a_web_port_is_told_from_one_that_broke() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let accepted = Arc::new(AtomicUsize::new(0));
    let web = ::io::task::spawn_owned("web", {
        let accepted = Arc::clone(&accepted);
        async move {
            // Closed with a call unread, a connection would be reset, and the client might see that first.
            let mut sockets = Vec::new();
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                accepted.fetch_add(1, Ordering::Relaxed);
                socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
                sockets.push(socket);
            }
        }
    });
    // One that broke is asked again, and one that is down is waited for.
    let patience = Patience { time_max: SOON, notice: None };
    let options = ClientOptions { patience, ..ClientOptions::default() };
    let servers = Servers::with_options(&addr, "alice", PROTOCOL, options);
    for call in 1..=2 {
        let answer: Result<String, _> = servers.call_in(PROTOCOL, "echo", &String::new()).await;
        assert!(matches!(&answer, Err(CallError::Decode(reason)) if reason.contains("web port")), "{answer:?}");
        assert_eq!(accepted.load(Ordering::Relaxed), call, "a connection for each call");
    }
    drop(web);
}

/// Calls under way are answered before the server goes; new ones find nobody.
#[tokio::test]
async fn shutdown_answers_what_is_under_way() {
    let (server, service) = server().await;
    let client = client(&server);
    let waiting = {
        let client = client.clone();
        ::io::task::spawn("call", async move { ask(&client, "wait", "done").await })
    };
    service.started(1).await;
    let stopping = ::io::task::spawn("shutdown", server.shutdown());
    sleep(A_WHILE).await;
    service.gate.add_permits(1);
    assert_eq!(waiting.await.unwrap().unwrap(), "done");
    timeout(SOON, stopping).await.unwrap().unwrap();
    assert!(matches!(ask(&client, "echo", "").await, Err(CallError::Connect(_))));
}

#[tokio::test]
async fn shutdown_waits_only_so_long() {
    let options = ServerOptions { drain_time_max: A_WHILE, ..ServerOptions::default() };
    let (server, service) = server_with(options).await;
    let client = client(&server);
    let waiting = ::io::task::spawn("call", async move { ask(&client, "wait", "never").await });
    service.started(1).await;
    timeout(SOON, server.shutdown()).await.unwrap();
    assert!(matches!(waiting.await.unwrap(), Err(CallError::Broken(_))));
}

/// A refusal of the connection reaches all calls on it, and the next one tries again.
#[tokio::test]
async fn a_fatal_answer_ends_the_connection() {
    let (server, service) = server().await;
    let client = client(&server);
    let waiting = {
        let client = client.clone();
        ::io::task::spawn("call", async move { ask(&client, "wait", "").await })
    };
    service.started(1).await;
    for refused in [ask(&client, "refuse", "go away").await, waiting.await.unwrap()] {
        let (class, message) = remote(refused.unwrap_err());
        assert_eq!(class, "org.apache.hadoop.security.AccessControlException");
        assert_eq!(message, "go away");
    }
    assert_eq!(ask(&client, "echo", "again").await.unwrap(), "again");
}

/// Answers of servers that may be strangers: neither a long one, nor one that grows, nor a long refusal is believed.
#[tokio::test]
async fn answers_of_strangers_have_a_limit() {
    let (server, _service) = server().await;
    let answers = rpc::AnswerRoom::default();
    let careful = || client_with(&server, ClientOptions::of_nodes(answers.clone()));
    let client = careful();
    assert_eq!(ask(&client, "long", "3000000").await.unwrap().len(), 3_000_000);
    let refused = ask(&client, "long", "5000000").await.unwrap_err();
    assert!(refused.to_string().contains("from 1 to 4194304 are allowed"), "{refused}");
    let refused = ask(&client, "list", "1000000").await.unwrap_err();
    assert!(refused.to_string().contains("fields takes more memory than there is"), "{refused}");
    let CallError::Remote { message, .. } = ask(&client, "fail", &"x".repeat(1 << 20)).await.unwrap_err() else {
        panic!("an answer")
    };
    assert_eq!(message.len(), 16 << 10);
    // Many at a time come one after the other, and all come.
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let client = careful();
            ::io::task::spawn("call", async move { ask(&client, "long", "4000000").await.unwrap().len() })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), 4_000_000);
    }
}
