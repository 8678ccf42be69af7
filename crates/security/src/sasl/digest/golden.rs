//! Whole conversations of JDK with itself, with each end replaced by ours in turn.

use super::layer::Layer;
use super::protection::Cipher;
use super::{Challenge, Client, DigestError, Protection, Qop, Service};
use crate::golden::{Golden, MESSAGE_LENS, message};

const USER: &str = "AAhhZGFARVhBTVBMRQ==";
const PASSWORD: &[u8] = b"c2VjcmV0IHNlY3JldCBzZWNyZXQ=";

fn golden() -> Golden {
    Golden::parse(include_str!("../../../tests/golden/digest.txt"))
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A quoted value of JDK's.
fn quoted<'t>(text: &'t str, name: &str) -> &'t str {
    text.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap()
}

/// What one end sends, to the byte, and what it makes of what the other one sent.
fn exchanged(layer: &mut Layer, golden: &Golden, name: &str, sent: &str, received: &str) {
    for number in 0..MESSAGE_LENS.len() {
        let (mut wrapped, mut unwrapped) = (Vec::new(), Vec::new());
        layer.wrap(&message(number), &mut wrapped).unwrap();
        assert_eq!(wrapped, golden.get(&format!("{name}.{sent}.{number}")), "{name}: message {number}");
        layer.unwrap(golden.get(&format!("{name}.{received}.{number}")), &mut unwrapped).unwrap();
        assert_eq!(unwrapped, message(number), "{name}: message {number}");
    }
}

fn replayed(name: &str, service: &Service, server_qops: &[Qop], client_qops: &[Qop], cipher: Option<Cipher>) {
    let golden = golden();
    let part = |part: &str| golden.get(&format!("{name}.{part}"));
    let (challenge, response) = (part("challenge"), part("response"));

    // Our server before JDK's client.
    let server =
        Challenge::recorded(service.clone(), Protection::of(server_qops).with_rc4(), quoted(text(challenge), "nonce"));
    let claimed = server.read(response).unwrap();
    assert_eq!(claimed.user(), USER, "{name}");
    let mut accepted = claimed.verify(PASSWORD).unwrap();
    assert_eq!(accepted.rspauth, part("rspauth"), "{name}");

    // Our client before JDK's server.
    let mut protection = Protection::of(client_qops).with_rc4();
    protection.ciphers.retain(|one| cipher.is_none_or(|only| *one == only));
    let client = Client::new(service.clone(), protection, USER.into(), PASSWORD.into()).unwrap();
    let (ours, client) = client.respond_recorded(challenge, quoted(text(response), "cnonce"));
    assert_eq!(text(&ours), text(response), "{name}");
    let mut layer = client.finish(part("rspauth")).unwrap();

    if layer.is_sealing() {
        exchanged(&mut accepted.layer, &golden, name, "down", "up");
        exchanged(&mut layer, &golden, name, "up", "down");
    }
}

#[test]
fn jdk_and_ours_say_the_same() {
    let rpc = Service::RPC;
    replayed("rpc.auth", &rpc, &[Qop::Auth], &[Qop::Auth], None);
    replayed("rpc.auth-int", &rpc, &[Qop::Integrity], &[Qop::Integrity], None);
    replayed("rpc.auth-conf", &rpc, &[Qop::Privacy], &[Qop::Privacy], None);
    let all = [Qop::Privacy, Qop::Integrity, Qop::Auth];
    replayed("rpc.any", &rpc, &all, &[Qop::Integrity, Qop::Auth], None);
    let privacy = [Qop::Privacy];
    // As recorded, without what Hadoop's clients add to it.
    let transfer = Service { names_authorization: false, ..Service::TRANSFER };
    replayed("hdfs.3des", &transfer, &privacy, &privacy, Some(Cipher::TripleDes));
    replayed("hdfs.rc4", &transfer, &privacy, &privacy, Some(Cipher::Rc4));
}

/// A client that insists on a cipher which anybody can break gets no connection.
#[test]
fn jdk_cannot_choose_a_weak_cipher() {
    let golden = golden();
    for name in ["hdfs.des", "hdfs.rc4-56", "hdfs.rc4-40"] {
        let challenge = golden.get(&format!("{name}.challenge"));
        let nonce = quoted(text(challenge), "nonce");
        let server = Challenge::recorded(Service::TRANSFER, Protection::of(&[Qop::Privacy]).with_rc4(), nonce);
        let refused = server.read(golden.get(&format!("{name}.response"))).unwrap_err();
        assert_eq!(refused, DigestError::Unsupported { name: "cipher" });
    }
}

#[test]
fn jdk_answers_our_challenges() {
    let golden = golden();
    let answered = |name: &str, service: Service, qops: &[Qop]| {
        let server = Challenge::new(service, Protection::of(qops).with_rc4(), &[7; super::NONCE_LEN]);
        let challenge = golden.get(&format!("{name}.challenge"));
        assert_eq!(text(&server.text()), text(challenge), "Make.java has what we send");
        let response = server.read(golden.get(&format!("{name}.response"))).unwrap();
        let qop = response.qop();
        assert!(response.verify(PASSWORD).is_ok(), "{name}");
        qop
    };
    assert_eq!(answered("ours.auth", Service::RPC, &[Qop::Auth]), Qop::Auth);
    let both = [Qop::Integrity, Qop::Privacy];
    assert_eq!(answered("ours.auth-conf", Service::TRANSFER, &both), Qop::Privacy);
}
