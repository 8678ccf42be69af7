//! Tokens, SASL from both ends, names and rules: what anybody may send before it is known who it is.

use bytes::Bytes;
use hdfs::proto::rpc_sasl_proto::SaslAuth;
use hdfs::proto::{RpcSaslProto, SaslState};
use prost::Message;
use security::auth_to_local::{AuthToLocal, Mechanism};
use security::block_token::{Admission, Grant, Identifier, Mode, Modes, Signer};
use security::delegation::{self, token_file};
use security::encryption_key;
use security::kerberos_name::KerberosName;
use security::keys::{KeyId, KeyRing, Lifetimes};
use security::proxy::ProxyUsers;
use security::sasl::digest::{Challenge, Client, Layer, NONCE_LEN, OVERHEAD_MAX, Protection, Qop, Service};
use security::sasl::{rpc, transfer};
use security::secret::{Password, SECRET_LEN, Secret};
use types::{BlockId, ContainerId, InodeId, Millis};
use wire::delimited;

const NONCE: [u8; NONCE_LEN] = [7; NONCE_LEN];
const POOL: &str = "BP-1";
/// Longest message of a stream that is tried.
const MESSAGE_LEN_MAX: usize = 1 << 16;

fn ring() -> KeyRing {
    let secrets = [1, 2].map(|byte| Secret::new([byte; SECRET_LEN]));
    KeyRing::new(Millis(0), Lifetimes::BLOCK_TOKENS, KeyId(1), secrets)
}

fn token() -> (Vec<u8>, Password) {
    let modes = Modes::of(&[Mode::Read, Mode::Copy]);
    let grant = Grant { user: "ada", file: InodeId(16_386), modes, block: None };
    let token = Signer::new(0).sign(Millis(0), &ring(), grant).expect("a live key");
    (token.identifier(Some(ContainerId(7))), *token.password())
}

fn delegation_ring() -> KeyRing {
    let secrets = [1, 2].map(|byte| Secret::new([byte; SECRET_LEN]));
    KeyRing::new(Millis(0), Lifetimes::DELEGATION_TOKENS, KeyId(1), secrets)
}

fn delegated() -> delegation::Issued {
    let method = security::method::Method::Kerberos;
    let request = delegation::Request { method, owner: "ada@X", real_user: "", renewer: "yarn", sequence: 5 };
    delegation::Rules::default().issue(Millis(0), &delegation_ring(), request).expect("a live key")
}

/// Whom a server finds by an identifier.
fn claim(bytes: &[u8]) -> Result<delegation::Claim, rpc::ClaimError> {
    let kept = delegated().kept;
    let claim = delegation::authenticate(Millis(1), delegation_ring().keys(), bytes, |_| Some(kept));
    claim.map_err(rpc::ClaimError::from)
}

/// Identifiers of tokens, files of tokens, and names of encryption keys. Nobody but who knows the secret gets in.
pub(crate) fn tokens(bytes: &[u8]) {
    let ring = ring();
    if let Ok((identifier, signed_len)) = Identifier::parse(bytes) {
        assert!(signed_len <= bytes.len() && !identifier.user.is_empty());
    }
    let admission = Admission {
        now: Millis(1),
        user: None,
        file: InodeId(16_386),
        block: BlockId(9),
        makes: false,
        mode: Mode::Read,
    };
    let (own, password) = token();
    if admission.check(ring.keys(), bytes, password.bytes()).is_ok() {
        let signed_len = Identifier::parse(&own).expect("our own").1;
        assert_eq!(bytes[..signed_len], own[..signed_len], "a token that nobody signed");
    }
    if let Some((front, behind)) = bytes.split_last_chunk::<32>() {
        let is_own = behind == password.bytes() && own.starts_with(&front[..front.len().min(24)]);
        assert!(is_own || admission.check(ring.keys(), front, behind).is_err(), "a forged token");
    }
    if let Ok(identifier) = delegation::Identifier::parse(bytes)
        && [identifier.issued, identifier.max].iter().all(|time| time.0 > 0)
    {
        assert_eq!(identifier.encode(), bytes);
    }
    if let Ok(claim) = claim(bytes) {
        assert_eq!(*claim.password(), delegated().password);
        assert_eq!(bytes, delegated().identifier.encode());
    }
    if let Ok(tokens) = token_file::read(bytes) {
        assert_eq!(token_file::read(&token_file::write(&tokens)), Ok(tokens));
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = encryption_key::authenticate(Millis(1), ring.keys(), POOL, text);
    }
}

fn qop(byte: u8) -> Qop {
    Qop::ALL[usize::from(byte) % 3]
}

/// Both ends of a connection, and what was said.
fn connected(qop: Qop) -> (Layer, Layer, [Vec<u8>; 2]) {
    let protection = Protection::of(&[qop]);
    let server = Challenge::new(Service::RPC, protection.clone(), &NONCE);
    let challenge = server.text();
    let client = Client::new(Service::RPC, protection, "aWQ=".into(), b"secret".to_vec()).expect("ASCII");
    let (response, client) = client.respond(&challenge, &NONCE).expect("a challenge of ours");
    let accepted = server.read(&response).and_then(|response| response.verify(b"secret")).expect("a response of ours");
    let layer = client.finish(&accepted.rspauth).expect("a server of ours");
    (layer, accepted.layer, [challenge, response])
}

/// Challenges, responses and sealed messages. The first byte says how connections are protected.
pub(crate) fn digest(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let protection = Protection::of(&[qop(*first), Qop::Privacy]);
    let server = Challenge::new(Service::RPC, protection.clone(), &NONCE);
    if let Ok(response) = server.read(bytes) {
        assert!(response.user().is_ascii());
        let _ = response.verify(b"secret");
    }
    let client = Client::new(Service::RPC, protection, "aWQ=".into(), b"secret".to_vec()).expect("ASCII");
    if let Ok((_, client)) = client.respond(bytes, &NONCE) {
        let _ = client.finish(bytes);
    }
    let (_, mut server, _) = connected(qop(*first));
    let mut out = Vec::new();
    if server.unwrap(bytes, &mut out).is_ok() && server.is_sealing() && !bytes.is_empty() {
        assert!(out.len() < bytes.len() && out.len() + OVERHEAD_MAX >= bytes.len());
    }
}

/// Messages behind each other, to a server and to a client. The first byte says what is offered.
pub(crate) fn rpc(bytes: &[u8]) {
    let Some((first, mut bytes)) = bytes.split_first() else { return };
    let (mut server, mut client) = (server(*first), client(*first));
    let (mut server_goes_on, mut client_goes_on) = (true, true);
    while let Ok(Some((message, len))) = delimited::split(bytes, "a message", MESSAGE_LEN_MAX) {
        bytes = &bytes[len..];
        let Ok(said) = delimited::decode::<RpcSaslProto>(message, "a message") else { return };
        if server_goes_on {
            let step = server.on_message(&said, claim);
            server_goes_on = match step {
                Ok(rpc::Step::Gss { token }) => {
                    let outcome = rpc::GssOutcome::Continue(token.to_vec());
                    server.on_gss(Ok(outcome)).is_ok()
                }
                Ok(step) => !matches!(step, rpc::Step::Accepted { .. }),
                Err(refused) => {
                    assert!(refused.told.is_fatal());
                    false
                }
            };
        }
        if client_goes_on {
            client_goes_on = match client.on_message(&said) {
                Ok(rpc::Asking::Gss { token, .. }) => {
                    client.on_gss(rpc::ClientGss::Continue(token.map(|token| token.to_vec()))).is_ok()
                }
                Ok(rpc::Asking::Done { .. }) => panic!("nobody here knows the client's secret"),
                Ok(rpc::Asking::Send(_)) => true,
                Ok(rpc::Asking::Simple { .. }) | Err(_) => false,
            };
        }
        let (mut layer, _, _) = connected(qop(*first));
        let _ = rpc::unwrap(&mut layer, &said, &mut Vec::new());
        if let Some(token) = &said.token {
            let _ = rpc::GssLayerOffer::parse(token).map(|offer| offer.choose(&Qop::ALL));
            let _ = rpc::GssLayerOffer::new(&Qop::ALL).chosen(token);
        }
    }
}

fn server(first: u8) -> rpc::Server {
    let (service, host) = ("nn".to_owned(), "host".to_owned());
    let kerberos = (first & 8 != 0).then(|| rpc::KerberosOffer { service, host, qops: vec![qop(first)] });
    let token = (first & 4 != 0).then(|| Protection::of(&[qop(first)]));
    rpc::Server::new(rpc::Offers { token, kerberos, simple: first & 16 != 0 }, NONCE)
}

fn client(first: u8) -> rpc::Client {
    let token = rpc::TokenCredentials {
        identifier: delegated().identifier.encode().into(),
        password: Bytes::from_static(b"another one"),
        protection: Protection::of(&Qop::ALL),
    };
    let servers = vec![("nn".to_owned(), "host".to_owned())];
    let kerberos = Some(rpc::KerberosCredentials { servers, qops: Qop::ALL.to_vec() });
    let simple = first & 16 != 0;
    rpc::Client::new(rpc::Credentials { token: (first & 4 != 0).then_some(token), kerberos, simple }, NONCE).0
}

fn settings(first: u8) -> transfer::Settings {
    let bits = [None, Some(transfer::KeyBits::B128), Some(transfer::KeyBits::B192), Some(transfer::KeyBits::B256)];
    transfer::Settings { protection: Protection::of(&[qop(first)]), aes: bits[usize::from(first >> 2) % 4] }
}

/// What comes over a data connection, to either end. The first byte says how it is protected, the second how the bytes
/// are cut.
pub(crate) fn transfer(bytes: &[u8]) {
    let [first, cut, bytes @ ..] = bytes else { return };
    let ring = ring();
    let secrets = transfer::Secrets { now: Millis(1), keys: ring.keys(), pool: POOL };
    let mut server = transfer::Server::new(settings(*first), &[7; transfer::RANDOM_LEN]);
    let mut pending = Vec::new();
    let mut pieces = bytes.chunks(usize::from(*cut) + 1);
    for piece in pieces.by_ref() {
        pending.extend_from_slice(piece);
        match server.on_bytes(&pending, |user| secrets.claim(user)) {
            Ok(progress) => {
                pending.drain(..progress.used_len);
                let Some(established) = progress.done else { continue };
                let (mut sending, mut receiving) = established.channel.split();
                let mut out = Vec::new();
                for piece in std::iter::once(&pending[..]).chain(pieces) {
                    if receiving.receive(piece, &mut out).is_err() {
                        break;
                    }
                    assert!(out.len() <= bytes.len());
                    assert!(receiving.held_len() <= (64 << 10).max(2 * bytes.len()));
                }
                sending.send(&out, &mut Vec::new()).expect("numbers are left");
                break;
            }
            Err(error) => {
                assert!(error.reply().len() < MESSAGE_LEN_MAX);
                break;
            }
        }
    }
    let (mut client, _) = dialled(*first);
    if let Ok(progress) = client.on_bytes(bytes) {
        assert!(progress.used_len <= bytes.len());
    }
}

fn dialled(first: u8) -> (transfer::Client, Vec<u8>) {
    let (identifier, password) = token();
    let protection = Protection::of(&[qop(first)]);
    transfer::Client::of_token(&identifier, password.bytes(), protection, settings(first).aes.is_some(), &NONCE)
        .expect("ASCII")
}

/// A list of rules, names, and a list of hosts, each in a line of its own.
pub(crate) fn names(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut lines = text.splitn(3, '\n');
    let (rules, hosts) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let names = lines.next().unwrap_or_default();
    let parsed = [Mechanism::Hadoop, Mechanism::Mit].map(|mechanism| AuthToLocal::parse(rules, mechanism, "X"));
    for name in names.lines().take(8) {
        let Ok(whole) = KerberosName::parse(name) else { continue };
        assert_eq!(whole.to_string(), name);
        for rules in parsed.iter().flatten() {
            if let Ok(short) = rules.short_name(&whole) {
                assert!(!short.is_empty() && short.len() <= 4 * security::kerberos_name::NAME_LEN_MAX);
            }
        }
        let _ = KerberosName::of_setting(name, "host");
    }
    if let Ok(mut proxies) = ProxyUsers::parse([("a.hosts", hosts), ("a.users", names), ("b.groups", names)]) {
        let found: Vec<String> = proxies.names().map(str::to_owned).collect();
        let address = std::net::IpAddr::from([10, 0, 0, 1]);
        found.iter().take(4).for_each(|name| proxies.set_addresses(name, &[address]));
        let request = security::proxy::Request { real: "a", real_short_name: "a", user: "ada", address };
        let _ = proxies.authorize(request, || &[]);
    }
}

/// What our own code says today.
pub(crate) fn seeds(name: &str) -> Vec<Vec<u8>> {
    let with = |first: &[u8], bytes: &[u8]| [first, bytes].concat();
    match name {
        "tokens" => {
            let (identifier, password) = token();
            let user = encryption_key::user_name(KeyId(1), POOL, b"12345678").into_bytes();
            let stored = token_file::StoredToken {
                identifier: identifier.clone().into(),
                password: password.bytes().to_vec().into(),
                kind: delegation::KIND.into(),
                service: "10.0.0.1:8020".into(),
            };
            vec![with(&identifier, password.bytes()), identifier, user, token_file::write(&[stored])]
        }
        "sasl_digest" => {
            let of = |first: u8| {
                let (mut client, _, said) = connected(qop(first));
                let mut sealed = Vec::new();
                client.wrap(b"a message of some length", &mut sealed).expect("numbers are left");
                said.into_iter().chain([sealed]).map(move |bytes| with(&[first], &bytes))
            };
            (0..3).flat_map(of).collect()
        }
        "sasl_rpc" => [4, 8, 12, 14, 16, 28].iter().map(|first| with(&[*first], &rpc_messages(*first))).collect(),
        "sasl_transfer" => {
            let of = |first: u8| {
                let ring = ring();
                let secrets = transfer::Secrets { now: Millis(1), keys: ring.keys(), pool: POOL };
                let mut server = transfer::Server::new(settings(first), &[7; transfer::RANDOM_LEN]);
                let (mut client, hello) = dialled(first);
                let answer = server.on_bytes(&hello, |user| secrets.claim(user)).expect("a client of ours").send;
                let response = client.on_bytes(&answer).expect("a server of ours").send;
                let last = server.on_bytes(&response, |user| secrets.claim(user)).expect("a client of ours").send;
                let channel = client.on_bytes(&last).expect("a server of ours").done.expect("the end");
                let mut sealed = Vec::new();
                channel.split().0.send(b"an operation", &mut sealed).expect("numbers are left");
                let up = [hello, response, sealed].concat();
                [with(&[first, 255], &up), with(&[first, 9], &up), with(&[first, 255], &with(&answer, &last))]
            };
            [0, 1, 2, 6, 10, 14].into_iter().flat_map(of).collect()
        }
        "names" => {
            let rules =
                r"RULE:[2:$1@$0]([nd]n@X)s/.*/hdfs/ RULE:[1:$1@$0](.*@.*\.Y)s/([a-z]{1,3})@.*/$1_\$/g/L DEFAULT";
            let text = format!("{rules}\n10.0.0.1, 10.1.0.0/16,fd00::/8,host\nnn/h@X\nada@Z.Y\nada\nada@X");
            vec![text.into_bytes(), b"DEFAULT\n*\nada@X".to_vec()]
        }
        _ => Vec::new(),
    }
}

/// A client's messages, and then a server's.
fn rpc_messages(first: u8) -> Vec<u8> {
    let plain = |state: SaslState| RpcSaslProto { state: state.into(), ..RpcSaslProto::default() };
    let mut messages = vec![plain(SaslState::Negotiate)];
    let offered = server(first).on_message(&messages[0], claim);
    if let Ok(rpc::Step::Answer(offered)) = offered {
        for auth in &offered.auths {
            let auth = SaslAuth { challenge: None, ..auth.clone() };
            let token = Some(Bytes::from_static(b"a ticket"));
            messages.push(RpcSaslProto { token, auths: vec![auth], ..plain(SaslState::Initiate) });
        }
        if let Ok(rpc::Asking::Send(initiate)) = client(first).on_message(&offered) {
            messages.insert(1, initiate);
        }
        messages.push(offered);
    }
    for state in [SaslState::Challenge, SaslState::Response, SaslState::Wrap, SaslState::Success] {
        messages.push(RpcSaslProto { token: Some(Bytes::from_static(&[4, 1, 0, 0])), ..plain(state) });
    }
    messages.iter().flat_map(Message::encode_length_delimited_to_vec).collect()
}
