//! Who sends one token with a request, as over HTTP.

use crate::support::{by_keytab, initiator, principal, story, trouble};
use gss::{AcceptorSettings, Error, Initiator, Negotiator, Trouble};
use security::sasl::digest::Qop;
use security::sasl::rpc::ClientGss;
use std::path::Path;

fn open(name: &str, keytab: &Path) -> Result<Negotiator, Error> {
    Negotiator::open(&AcceptorSettings { principal: principal(name), keytab: keytab.to_owned(), replay_cache: None })
}

/// The first token of a login to a service of this machine.
fn token(client: &Initiator, service: &str) -> Vec<u8> {
    let mut client = client.begin(service, "localhost", &[Qop::Auth]).expect("tickets");
    let Ok(ClientGss::Continue(Some(token))) = client.step(None) else { panic!("no token") };
    token
}

/// A value of DER.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let len = u16::try_from(content.len()).expect("a short token").to_be_bytes();
    [&[tag, 0x82], &len[..], &content].concat()
}

/// As the JDK sends it (RFC 4178, NegTokenInit): Kerberos is what it offers, and its token comes along.
fn negotiated(token: &[u8]) -> Vec<u8> {
    const SPNEGO: [u8; 8] = [6, 6, 0x2b, 6, 1, 5, 5, 2];
    const KERBEROS: [u8; 11] = [6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 2];
    let mechanisms = der(0xa0, &[&der(0x30, &[&KERBEROS])]);
    let token = der(0xa2, &[&der(0x04, &[token])]);
    der(0x60, &[&SPNEGO, &der(0xa0, &[&der(0x30, &[&mechanisms, &token])])])
}

#[test]
fn one_token_says_who_asks() {
    story(|kdc| {
        let keytab = kdc.known("web.keytab", &["HTTP/localhost", "nn/localhost"]);
        let server = open("HTTP/localhost@EXAMPLE.COM", &keytab).unwrap();
        let client = kdc.client();
        let bare = server.accept(&token(&client, "HTTP")).unwrap();
        assert_eq!(bare.name, "ada@EXAMPLE.COM");
        assert!(!bare.answer.is_empty(), "the server proves itself as well");
        let wrapped = server.accept(&negotiated(&token(&client, "HTTP"))).unwrap();
        assert_eq!(wrapped.name, "ada@EXAMPLE.COM");
        // NegTokenResp, in which the negotiation is over.
        assert_eq!(wrapped.answer.first(), Some(&0xa1), "{:?}", wrapped.answer);
    });
}

#[test]
fn what_proves_nothing_is_refused() {
    story(|kdc| {
        let keytab = kdc.known("web.keytab", &["HTTP/localhost", "nn/localhost"]);
        let server = open("HTTP/localhost@EXAMPLE.COM", &keytab).unwrap();
        let client = kdc.client();
        assert_eq!(trouble(server.accept(&token(&client, "nn"))), Trouble::WrongService);
        let once = negotiated(&token(&client, "HTTP"));
        server.accept(&once).unwrap();
        assert_eq!(trouble(server.accept(&once)), Trouble::Replay);
        let told = |token: &[u8]| server.accept(token).unwrap_err().told();
        assert!(told(b"NTLMSSP\0\x01\0\0\0").contains("neither Kerberos' nor a negotiation"));
        assert!(server.accept(&negotiated(&[])).is_err());
        assert!(server.accept(&[]).is_err());
        let late = initiator(by_keytab("ada", &kdc.path("ada.keytab")));
        let mut cut = negotiated(&token(&late, "HTTP"));
        cut.truncate(cut.len() / 2);
        assert!(server.accept(&cut).is_err());
    });
}

#[test]
fn a_keytab_without_the_name_is_no_web_servers() {
    story(|kdc| {
        let keytab = kdc.known("nn.keytab", &["nn/localhost"]);
        let refused = open("HTTP/localhost@EXAMPLE.COM", &keytab).map(drop);
        assert_eq!(trouble(refused), Trouble::Keytab);
    });
}
