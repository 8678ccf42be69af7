//! Whole RPC connections of Hadoop's client with Hadoop's server, with each end replaced by ours in turn.

use super::client::{Asking, Client, Credentials, TokenCredentials};
use super::offers::{KerberosOffer, Offers};
use super::sealing::Sealing;
use super::server::{Caller, Server, Step};
use super::wrap::{unwrap, wrap};
use crate::delegation::Claim;
use crate::golden::Golden;
use crate::sasl::digest::{Challenge, Layer, Protection, Qop, Service};
use crate::secret::Password;
use hdfs::proto::{RpcSaslProto, SaslState};
use wire::delimited;

/// `hrpc`, version, service class, and what says that SASL comes.
const PREAMBLE_LEN: usize = 7;
/// As Make.java has it.
const PASSWORD: [u8; 32] = [3; 32];

/// The value of `name="…"`.
fn quoted<'t>(text: &'t str, name: &str) -> &'t str {
    text.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap()
}

fn text(token: &Option<bytes::Bytes>) -> &str {
    std::str::from_utf8(token.as_ref().unwrap()).unwrap()
}

/// A length, then a message behind a header.
fn frames(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while let Some(len) = bytes.first_chunk::<4>() {
        let (frame, rest) = bytes[4..].split_at(u32::from_be_bytes(*len) as usize);
        frames.push(frame);
        bytes = rest;
    }
    assert!(bytes.is_empty());
    frames
}

fn behind_header(frame: &[u8]) -> RpcSaslProto {
    let (_, len) = delimited::split(frame, "a header", 1000).unwrap().unwrap();
    let (message, _) = delimited::split(&frame[len..], "a message", 1 << 20).unwrap().unwrap();
    delimited::decode(message, "a message").unwrap()
}

/// What one end sent, sealed: its inner stream.
fn opened(layer: &mut Layer, sealed: &[RpcSaslProto]) -> Vec<u8> {
    let mut stream = Vec::new();
    sealed.iter().for_each(|piece| unwrap(layer, piece, &mut stream).unwrap());
    stream
}

fn replayed(name: &str, qop: Qop) {
    let golden = Golden::parse(include_str!("../../../tests/golden/rpc.txt"));
    let (up, down) = (golden.get(&format!("{name}.up")), golden.get(&format!("{name}.down")));
    // With authentication alone, what follows is no message of SASL.
    let of_sasl = if qop == Qop::Auth { 2 } else { usize::MAX };
    let up: Vec<_> = frames(&up[PREAMBLE_LEN..]).into_iter().take(of_sasl).map(behind_header).collect();
    let down: Vec<_> = frames(down).into_iter().take(of_sasl).map(behind_header).collect();
    let [negotiate, initiate, sealed_up @ ..] = &up[..] else { panic!() };
    let [offered, success, sealed_down @ ..] = &down[..] else { panic!() };
    let protection = Protection::of(&[qop]).with_rc4();

    // Our server before Hadoop's client.
    let challenge = text(&offered.auths[0].challenge);
    let own = Challenge::recorded(Service::RPC, protection.clone(), quoted(challenge, "nonce"));
    let (service, host) = ("nn".to_owned(), "host.example.com".to_owned());
    let kerberos = Some(KerberosOffer { service, host, qops: vec![qop] });
    let offers = Offers { token: Some(protection.clone()), kerberos, simple: false };
    let mut server = Server::recorded(offers, own);
    let Ok(Step::Answer(mut answer)) = server.on_message(negotiate, |_| panic!()) else { panic!() };
    // Hadoop offers weaker ciphers as well.
    let ciphers = |text: &str| text.replace(",des,rc4-56,rc4-40", "");
    assert_eq!(text(&answer.auths[0].challenge), ciphers(challenge));
    answer.auths[0].challenge = offered.auths[0].challenge.clone();
    assert_eq!(answer.auths, offered.auths);
    assert_eq!(answer.state, offered.state);
    let claim = |bytes: &[u8]| Ok(Claim::recorded(bytes, Password::new(PASSWORD)));
    let Ok(Step::Accepted { answer, caller, sealing }) = server.on_message(initiate, claim) else { panic!() };
    assert_eq!(answer, *success);
    let Caller::Token(proven) = caller else { panic!() };
    assert_eq!(proven.identifier().owner, "ada");
    let identifier = proven.identifier().encode();

    // Our client before Hadoop's server.
    let token = TokenCredentials { identifier: identifier.into(), password: PASSWORD.to_vec().into(), protection };
    let credentials = Credentials { token: Some(token), kerberos: None, simple: false };
    let (mut client, first) = Client::with_nonce(credentials, quoted(text(&initiate.token), "cnonce").to_owned());
    assert_eq!(first, *negotiate);
    let Ok(Asking::Send(second)) = client.on_message(offered) else { panic!() };
    assert_eq!(text(&second.token), text(&initiate.token));
    assert_eq!(second, *initiate);
    let Ok(Asking::Done { sealing: ours }) = client.on_message(success) else { panic!() };

    assert_eq!((sealing.qop(), ours.qop()), (qop, qop));
    let (Sealing::Digest(mut layer), Sealing::Digest(mut ours)) = (sealing, ours) else {
        assert_eq!(qop, Qop::Auth);
        return;
    };
    // The context and calls, and answers; each piece as Hadoop sealed it.
    let calls = opened(&mut layer, sealed_up);
    assert!(frames(&calls).len() >= 2 && calls.windows(5).any(|text| text == b"hello"), "{name}");
    for piece in sealed_down {
        let mut answer = Vec::new();
        unwrap(&mut *ours, piece, &mut answer).unwrap();
        assert_eq!(frames(&answer).len(), 1, "Java puts one answer into a message");
        assert_eq!(wrap(&mut *layer, &answer).unwrap(), *piece);
    }
    assert!(sealed_up.iter().all(|piece| piece.state() == SaslState::Wrap) && !sealed_down.is_empty());
}

#[test]
fn hadoop_and_ours_say_the_same() {
    replayed("auth", Qop::Auth);
    replayed("auth-int", Qop::Integrity);
    replayed("auth-conf", Qop::Privacy);
}
