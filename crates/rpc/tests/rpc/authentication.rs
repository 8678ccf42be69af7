//! Who calls: with a token, with a ticket, with neither; and what protects the connection from then on.

use crate::played_kerberos::{Realm, Ticket};
use crate::support::{A_WHILE, Raw, TestService, call, client, client_with, context, frame, header, server_with};
use bytes::{Bytes, BytesMut};
use hdfs::call_id;
use hdfs::exception::{ACCESS_CONTROL, AUTHORIZATION, INVALID_TOKEN, SASL};
use hdfs::frame::Answer;
use hdfs::opening::Auth;
use hdfs::proto::{RpcRequestHeaderProto, RpcSaslProto, RpcStatusProto, SaslState};
use prost::Message;
use rpc::{Authentication, CallError, Client, ClientOptions, Kerberos, Login, LoginToken, Server, ServerOptions};
use security::method::Method;
use security::sasl::digest::{Layer, Protection, Qop};
use security::sasl::rpc::{Asking, Credentials, KerberosOffer, Offers, Sealing, TokenCredentials, unwrap, wrap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use types::Millis;

const WORD: &str = "sesame";

fn secure(qops: &[Qop]) -> ServerOptions {
    let kerberos = KerberosOffer { service: "nn".into(), host: "localhost".into(), qops: qops.to_vec() };
    let offers = Offers { token: Some(Protection::of(qops)), kerberos: Some(kerberos), simple: false };
    let authentication = Authentication { offers, acceptor: Some(Arc::new(Realm(WORD))) };
    ServerOptions { authentication, ..ServerOptions::default() }
}

async fn secure_server(qops: &[Qop]) -> (Server, Arc<TestService>) {
    server_with(secure(qops)).await
}

fn login(qops: &[Qop]) -> Login {
    Login { tokens: Vec::new(), kerberos: None, qops: qops.to_vec(), simple: false, acting_as: None, lacking: None }
}

fn with_ticket(ticket: Ticket, qops: &[Qop]) -> Login {
    let kerberos = Kerberos { initiator: Arc::new(ticket), services: vec!["nn".into()], host: None };
    Login { kerberos: Some(kerberos), ..login(qops) }
}

fn ada() -> Ticket {
    Ticket::of("ada@EXAMPLE.COM", WORD)
}

fn with_token(token: LoginToken, qops: &[Qop]) -> Login {
    Login { tokens: vec![token], ..login(qops) }
}

fn logged_in(server: &Server, login: Login) -> Client {
    client_with(server, ClientOptions::default().with_login(Some(Arc::new(login))))
}

async fn ask(client: &Client, method: &str, text: &str) -> Result<String, (String, String)> {
    client.call(method, &text.to_owned()).await.map_err(|error| match error {
        CallError::Remote { class, message, .. } => (class, message),
        other => panic!("{other}"),
    })
}

async fn refused(client: &Client) -> (String, String) {
    ask(client, "who", "").await.unwrap_err()
}

/// Each quality of protection, by ticket and by token: short and long calls, many at once, and long answers.
#[tokio::test]
async fn calls_are_made_in_the_proven_name() {
    for qop in Qop::ALL {
        let (server, service) = secure_server(&[qop]).await;
        let token = service.tokens.issue("bob@EXAMPLE.COM", "oozie/host@EXAMPLE.COM");
        let by_ticket = logged_in(&server, with_ticket(ada(), &[qop]));
        let by_token = logged_in(&server, with_token(token, &[qop]));
        assert_eq!(ask(&by_ticket, "who", "").await.unwrap(), "ada@EXAMPLE.COM by itself");
        assert_eq!(ask(&by_token, "who", "").await.unwrap(), "bob@EXAMPLE.COM by oozie/host@EXAMPLE.COM");
        for client in [&by_ticket, &by_token] {
            let long = "y".repeat(200_000);
            assert!(ask(client, "echo", &long).await.unwrap() == long, "{qop:?}");
            assert_eq!(ask(client, "long", "300000").await.unwrap().len(), 300_000, "{qop:?}");
            let answers = (0..50).map(|number| {
                let client = client.clone();
                ::io::task::spawn("call", async move { ask(&client, "echo", &number.to_string()).await.unwrap() })
            });
            for (number, answer) in answers.collect::<Vec<_>>().into_iter().enumerate() {
                assert_eq!(answer.await.unwrap(), number.to_string());
            }
            assert!(ask(client, "fail", "a file").await.unwrap_err().1.starts_with("a file"));
        }
        assert_eq!(*service.authenticated.lock().unwrap(), [Method::Kerberos, Method::Token]);
        assert_eq!(service.unauthenticated_count.load(Ordering::SeqCst), 0);
    }
}

/// The ticket's user is the real one, whoever it names.
#[tokio::test]
async fn a_ticket_may_act_for_somebody() {
    let (server, _service) = secure_server(&[Qop::Auth]).await;
    let login = Login { acting_as: Some("bob".into()), ..with_ticket(ada(), &[Qop::Auth]) };
    assert_eq!(ask(&logged_in(&server, login), "who", "").await.unwrap(), "bob by ada@EXAMPLE.COM");
}

/// A token is used before the ticket, and says by itself who acts: that somebody else would be named is refused by
/// HDFS.
#[tokio::test]
async fn a_token_acts_for_its_owner_beside_a_ticket() {
    let (server, service) = secure_server(&[Qop::Auth]).await;
    let token = service.tokens.issue("bob@EXAMPLE.COM", "");
    let both = Login { tokens: vec![token], acting_as: Some("bob".into()), ..with_ticket(ada(), &[Qop::Auth]) };
    assert_eq!(ask(&logged_in(&server, both), "who", "").await.unwrap(), "bob@EXAMPLE.COM by itself");
}

/// Where nobody is asked for a proof; and where one is, it says who calls, whatever else is said.
#[tokio::test]
async fn who_proves_nothing_says_for_whom_he_calls() {
    let (open, _service) = server_with(ServerOptions::default()).await;
    let real_user = || Some("carol".to_owned());
    let options = ClientOptions { real_user: real_user(), ..ClientOptions::default() };
    assert_eq!(ask(&client_with(&open, options), "who", "").await.unwrap(), "alice by carol");
    let (server, _service) = secure_server(&[Qop::Auth]).await;
    let options = ClientOptions { real_user: real_user(), ..ClientOptions::default() };
    let options = options.with_login(Some(Arc::new(with_ticket(ada(), &[Qop::Auth]))));
    assert_eq!(ask(&client_with(&server, options), "who", "").await.unwrap(), "ada@EXAMPLE.COM by itself");
}

/// Whoever lacks a ticket or a token hears why, where that is known.
#[tokio::test]
async fn who_cannot_prove_anything_hears_why() {
    let (server, _service) = secure_server(&[Qop::Auth]).await;
    let lacking = Some("your ticket has expired".to_owned());
    let (class, message) = refused(&logged_in(&server, Login { lacking, ..login(&[Qop::Auth]) })).await;
    assert_eq!(class, AUTHORIZATION);
    assert!(message.ends_with("; your ticket has expired"), "{message}");
}

/// As of a user of Active Directory who is in many groups.
#[tokio::test]
async fn a_ticket_may_be_long() {
    let (server, service) = secure_server(&[Qop::Auth]).await;
    let long = Ticket { padding: 65_000, ..ada() };
    assert!(ask(&logged_in(&server, with_ticket(long, &[Qop::Auth])), "who", "").await.is_ok());
    let too_long = Ticket { padding: 120_000, ..ada() };
    let client = logged_in(&server, with_ticket(too_long, &[Qop::Auth]));
    assert!(client.call::<_, String>("who", &String::new()).await.is_err());
    assert_eq!(service.started_count.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn who_proves_nothing_is_refused() {
    let (server, service) = secure_server(&[Qop::Auth]).await;
    let (class, message) = refused(&client(&server)).await;
    assert_eq!(class, ACCESS_CONTROL);
    assert_eq!(message, "SIMPLE authentication is not enabled.  Available:[TOKEN, KERBEROS]");
    let stranger = Ticket::of("root@EXAMPLE.COM", "guessed");
    let (class, message) = refused(&logged_in(&server, with_ticket(stranger, &[Qop::Auth]))).await;
    assert_eq!((&*class, &*message), (SASL, "GSS initiate failed [Caused by GSSException: Checksum failed]"));
    let (class, message) = refused(&logged_in(&server, login(&[Qop::Auth]))).await;
    assert_eq!(class, AUTHORIZATION);
    assert!(message.contains("TOKEN, KERBEROS"), "{message}");
    assert_eq!(service.started_count.load(Ordering::SeqCst), 0);
    assert_eq!(service.unauthenticated_count.load(Ordering::SeqCst), 2);
}

/// One answer, whatever is wrong with it.
#[tokio::test]
async fn a_token_that_does_not_count_is_refused() {
    let (server, service) = secure_server(&[Qop::Auth]).await;
    let check = async |token: LoginToken, why: &str| {
        let (class, message) = refused(&logged_in(&server, with_token(token, &[Qop::Auth]))).await;
        assert_eq!((&*class, &*message), (INVALID_TOKEN, "the token is not valid"), "{why}");
    };
    let token = service.tokens.issue("ada", "");
    check(LoginToken { password: Bytes::from_static(&[7; 32]), ..token.clone() }, "another password").await;
    let mut forged = token.identifier.to_vec();
    *forged.get_mut(2).unwrap() = b'b';
    check(LoginToken { identifier: forged.into(), ..token.clone() }, "another owner").await;
    check(LoginToken { identifier: Bytes::from_static(b"\0"), ..token.clone() }, "no identifier").await;
    *service.tokens.now.lock().unwrap() = Millis(86_400_000);
    check(token.clone(), "expired").await;
    *service.tokens.now.lock().unwrap() = Millis(1);
    assert!(ask(&logged_in(&server, with_token(token.clone(), &[Qop::Auth])), "who", "").await.is_ok());
    service.tokens.cancel_all();
    check(token, "cancelled").await;
}

/// Who asks for less than the settings of either end is refused by it.
#[tokio::test]
async fn nobody_is_talked_down() {
    let (server, service) = secure_server(&[Qop::Privacy]).await;
    let token = service.tokens.issue("ada", "");
    for login in [with_token(token.clone(), &[Qop::Auth]), with_ticket(ada(), &[Qop::Integrity])] {
        let (class, _) = refused(&logged_in(&server, login)).await;
        assert_eq!(class, AUTHORIZATION, "the client finds nothing that both have");
    }
    let (open, _service) = server_with(ServerOptions::default()).await;
    let (_, message) = refused(&logged_in(&open, with_token(token.clone(), &[Qop::Auth]))).await;
    assert!(message.contains("go on without a proof"), "{message}");
    let fallback = Login { simple: true, ..with_token(token, &[Qop::Auth]) };
    assert_eq!(ask(&logged_in(&open, fallback), "who", "").await.unwrap(), "alice by itself");
}

/// A token that names its servers is shown to no other.
#[tokio::test]
async fn a_token_is_used_where_it_belongs() {
    let (server, service) = secure_server(&[Qop::Auth]).await;
    let [mine, other] = ["ada", "bob"].map(|owner| service.tokens.issue(owner, ""));
    let other = LoginToken { addrs: vec!["elsewhere:8020".into()], ..other };
    let mine = LoginToken { addrs: vec![server.local_addr().to_string()], ..mine };
    let both = Login { tokens: vec![other.clone(), mine], ..login(&[Qop::Auth]) };
    assert_eq!(ask(&logged_in(&server, both), "who", "").await.unwrap(), "ada by itself");
    let (class, _) = refused(&logged_in(&server, with_token(other, &[Qop::Auth]))).await;
    assert_eq!(class, AUTHORIZATION);
}

fn said(message: &RpcSaslProto) -> Bytes {
    frame(&[&RpcRequestHeaderProto { client_id: Bytes::new(), ..header(call_id::SASL) }, message])
}

fn answered(answer: &Answer) -> RpcSaslProto {
    assert_eq!(answer.header.status(), RpcStatusProto::Success, "{:?}", answer.header);
    RpcSaslProto::decode(answer.response.clone()).unwrap()
}

/// A connection that is past its exchange by a token; its SASL messages, and what seals it.
async fn raw_with_token(server: &Server, token: &LoginToken, qop: Qop) -> (Raw, Vec<Bytes>, Option<Box<Layer>>) {
    let mut raw = Raw::opened(server, Auth::Sasl).await;
    let LoginToken { identifier, password, .. } = token.clone();
    let token = TokenCredentials { identifier, password, protection: Protection::of(&[qop]) };
    let credentials = Credentials { token: Some(token), kerberos: None, simple: false };
    let (mut machine, first) = security::sasl::rpc::Client::new(credentials, [9; 24]);
    let mut messages = vec![said(&first)];
    raw.send(&messages[0]).await;
    let offered = answered(&raw.answer().await.unwrap());
    let Ok(Asking::Send(response)) = machine.on_message(&offered) else { panic!("{offered:?}") };
    messages.push(said(&response));
    raw.send(&messages[1]).await;
    let success = answered(&raw.answer().await.unwrap());
    let Ok(Asking::Done { sealing }) = machine.on_message(&success) else { panic!("{success:?}") };
    let layer = match sealing {
        Sealing::Digest(layer) => Some(layer),
        _ => None,
    };
    (raw, messages, layer)
}

async fn check_ended(mut raw: Raw, says: &str) {
    let answer = raw.answer().await.expect("a FATAL answer");
    assert_eq!(answer.header.status(), RpcStatusProto::Fatal);
    assert!(answer.header.error_msg().contains(says), "{}", answer.header.error_msg());
    assert_eq!(raw.answer().await, None);
}

/// What was said in one exchange proves nothing in another, and nothing is to be said twice in one.
#[tokio::test]
async fn an_exchange_is_held_in_order_and_once() {
    let (server, service) = secure_server(&[Qop::Auth]).await;
    let token = service.tokens.issue("ada", "");
    let (mut first, messages, _) = raw_with_token(&server, &token, Qop::Auth).await;
    first.send(&[context(""), call(0, "who", "")].concat()).await;
    assert_eq!(first.response().await, "ada by itself");
    // The server's nonce is another one.
    let mut replayed = Raw::opened(&server, Auth::Sasl).await;
    replayed.send(&messages[0]).await;
    answered(&replayed.answer().await.unwrap());
    replayed.send(&messages[1]).await;
    let answer = replayed.answer().await.unwrap();
    assert_eq!(answer.header.status(), RpcStatusProto::Fatal);
    let mut twice = Raw::opened(&server, Auth::Sasl).await;
    twice.send(&[messages[0].clone(), messages[0].clone()].concat()).await;
    answered(&twice.answer().await.unwrap());
    check_ended(twice, "already attempted negotiation").await;
    let (mut again, ..) = raw_with_token(&server, &token, Qop::Auth).await;
    again.send(&messages[1]).await;
    check_ended(again, "SASL is over").await;
    for early in [call(0, "who", ""), context("ada")] {
        let mut raw = Raw::opened(&server, Auth::Sasl).await;
        raw.send(&messages[0]).await;
        answered(&raw.answer().await.unwrap());
        raw.send(&early).await;
        let answer = raw.answer().await.unwrap();
        assert_eq!(answer.header.status(), RpcStatusProto::Fatal);
        assert_eq!(raw.answer().await, None);
    }
    assert_eq!(service.started_count.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_token_is_its_owners_alone() {
    let (server, service) = secure_server(&[Qop::Auth]).await;
    let token = service.tokens.issue("ada", "");
    let (mut same, ..) = raw_with_token(&server, &token, Qop::Auth).await;
    same.send(&[context("ada"), call(0, "who", "")].concat()).await;
    assert_eq!(same.response().await, "ada by itself");
    let (mut other, ..) = raw_with_token(&server, &token, Qop::Auth).await;
    other.send(&context("root")).await;
    check_ended(other, "Authenticated user (ada (auth:TOKEN)) doesn't match what the client claims to be").await;
}

/// The memory of strangers is bounded, and so is their time: for all of it, not for each byte.
#[tokio::test]
async fn strangers_have_little_room_and_time() {
    let (server, _service) = secure_server(&[Qop::Auth]).await;
    let mut raw = Raw::opened(&server, Auth::Sasl).await;
    let message = RpcSaslProto {
        state: SaslState::Response.into(),
        token: Some(vec![0; 200_000].into()),
        ..RpcSaslProto::default()
    };
    let _it_may_be_cut_off = raw.try_send(&said(&message)).await;
    let answer = raw.answer().await.expect("an answer");
    assert_eq!(answer.header.status(), RpcStatusProto::Fatal);
    let (server, _service) =
        server_with(ServerOptions { opening_time_max: 10 * A_WHILE, ..secure(&[Qop::Auth]) }).await;
    let mut slow = Raw::opened(&server, Auth::Sasl).await;
    let negotiate = RpcSaslProto { state: SaslState::Negotiate.into(), ..RpcSaslProto::default() };
    slow.send(&said(&negotiate)).await;
    slow.answer().await.unwrap();
    let dribble = async {
        for byte in said(&message).iter().take(10_000) {
            if slow.try_send(&[*byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it may go on for as long as it likes");
    };
    tokio::time::timeout(Duration::from_secs(20), dribble).await.unwrap();
}

/// What was changed on its way, comes twice, is left out, or is not sealed at all ends the connection.
#[tokio::test]
async fn what_is_sealed_is_taken_in_order_and_unchanged() {
    let (server, service) = secure_server(&[Qop::Integrity, Qop::Privacy]).await;
    let token = service.tokens.issue("ada", "");
    for qop in [Qop::Integrity, Qop::Privacy] {
        for fault in ["none", "changed", "twice", "left out", "plain"] {
            let (mut raw, _, layer) = raw_with_token(&server, &token, qop).await;
            let mut layer = layer.expect("it was agreed on");
            let mut seal = |bytes: &[u8]| said(&wrap(&mut *layer, bytes).unwrap());
            raw.send(&seal(&context(""))).await;
            let first = seal(&call(1, "echo", "x"));
            let second = seal(&call(2, "echo", "y"));
            let bytes = match fault {
                "none" => [first, second].concat(),
                "changed" => {
                    let mut changed = first.to_vec();
                    let at = changed.len() - 20;
                    changed[at] ^= 1;
                    changed
                }
                "twice" => [first.clone(), first].concat(),
                "left out" => second.to_vec(),
                _ => call(1, "echo", "x").to_vec(),
            };
            raw.send(&bytes).await;
            let mut answers = BytesMut::new();
            let mut count = 0;
            while count < 2
                && let Some(answer) = raw.answer().await
            {
                let mut opened = Vec::new();
                unwrap(&mut *layer, &answered(&answer), &mut opened).unwrap();
                answers.extend_from_slice(&opened);
                count += 1;
            }
            let want = match fault {
                "none" => 2,
                // The first one is answered if there is time for that.
                "twice" => count.min(1),
                _ => 0,
            };
            assert_eq!(count, want, "{qop:?} {fault}");
            if fault == "none" {
                let answer = hdfs::frame::split(&mut answers, 1 << 20).unwrap().unwrap();
                assert!(["x", "y"].contains(&&*String::decode(Answer::decode(answer).unwrap().response).unwrap()));
            }
        }
    }
}

/// An unfinished piece takes memory that others wait for; a connection that has begun none may be idle.
#[tokio::test]
async fn a_sealed_piece_that_has_begun_must_come() {
    let options = ServerOptions { frame_time_max: A_WHILE, idle_time_max: 60 * A_WHILE, ..secure(&[Qop::Integrity]) };
    let (server, service) = server_with(options).await;
    let token = service.tokens.issue("ada", "");
    let (mut raw, _, layer) = raw_with_token(&server, &token, Qop::Integrity).await;
    let mut layer = layer.expect("it was agreed on");
    tokio::time::sleep(2 * A_WHILE).await;
    let piece = said(&wrap(&mut *layer, &[context(""), call(1, "echo", "x")].concat()).unwrap());
    raw.send(&piece).await;
    let mut opened = Vec::new();
    unwrap(&mut *layer, &answered(&raw.answer().await.unwrap()), &mut opened).unwrap();
    assert!(!opened.is_empty(), "who is idle is still served");
    let piece = said(&wrap(&mut *layer, &call(2, "echo", "y")).unwrap());
    raw.send(&piece[..piece.len() - 1]).await;
    assert_eq!(raw.answer().await, None, "it is cut off");
    assert_eq!(service.started_count.load(Ordering::SeqCst), 1);
    // Nor is one taken that is longer than the exchange allows.
    let (mut raw, ..) = raw_with_token(&server, &token, Qop::Integrity).await;
    raw.send(&100_000_u32.to_be_bytes()).await;
    assert_eq!(raw.answer().await, None);
}
