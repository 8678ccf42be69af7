//! Both ends, ours.

use super::client::Client;
use super::secrets::{Peer, Secrets};
use super::server::{Established, RANDOM_LEN, Server, Settings};
use super::{Channel, HandshakeError, KeyBits};
use crate::block_token::{Grant, Identifier, Mode, Modes, Signer};
use crate::encryption_key;
use crate::keys::{KeyId, KeyRing, Lifetimes};
use crate::sasl::digest::{DigestError, NONCE_LEN, Protection, Qop};
use crate::secret::{SECRET_LEN, Secret};
use proptest::prelude::*;
use types::{ContainerId, InodeId, Millis};

fn ring() -> KeyRing {
    let secrets = [1, 2].map(|byte| Secret::new([byte; SECRET_LEN]));
    KeyRing::new(Millis(0), Lifetimes::BLOCK_TOKENS, KeyId(1), secrets)
}

fn token() -> (Vec<u8>, Vec<u8>) {
    let grant = Grant { user: "ada", file: InodeId(7), modes: Modes::of(&[Mode::Read]), block: None };
    let token = Signer::new(0).sign(Millis(0), &ring(), grant).unwrap();
    (token.identifier(Some(ContainerId(3))), token.password().bytes().to_vec())
}

fn server(qop: Qop, aes: Option<KeyBits>) -> Server {
    let mut random = [7; RANDOM_LEN];
    random[RANDOM_LEN / 2..].fill(8);
    Server::new(Settings { protection: Protection::of(&[qop]), aes }, &random)
}

fn client(qops: &[Qop], uses_aes: bool) -> (Client, Vec<u8>) {
    let (identifier, password) = token();
    Client::of_token(&identifier, &password, Protection::of(qops), uses_aes, &[9; NONCE_LEN]).unwrap()
}

/// Carries bytes to and fro, so many at a time, until both have a channel or one an error.
fn handshake(
    server: &mut Server,
    (mut client, hello): (Client, Vec<u8>),
    now: u64,
    cut: usize,
) -> Result<(Established, Channel), HandshakeError> {
    let ring = ring();
    let secrets = Secrets { now: Millis(now), keys: ring.keys(), pool: "BP-1" };
    let (mut up, mut down) = (hello, Vec::new());
    let (mut up_whole, mut down_whole) = (Vec::new(), Vec::new());
    let (mut established, mut channel) = (None, None);
    while established.is_none() || channel.is_none() {
        let taken = up.len().min(cut);
        up_whole.extend(up.drain(..taken));
        if established.is_none() {
            let progress = server.on_bytes(&up_whole, |user| secrets.claim(user))?;
            up_whole.drain(..progress.used_len);
            down.extend(progress.send);
            established = progress.done;
        }
        let taken = down.len().min(cut);
        down_whole.extend(down.drain(..taken));
        let progress = client.on_bytes(&down_whole)?;
        down_whole.drain(..progress.used_len);
        up.extend(progress.send);
        channel = progress.done;
    }
    Ok((established.unwrap(), channel.unwrap()))
}

fn talk(established: Established, channel: Channel) {
    let (mut down, mut up) = established.channel.split();
    let (mut asks, mut hears) = channel.split();
    for text in [&b"an operation"[..], b"", b"and a packet"] {
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        asks.send(text, &mut sent).unwrap();
        up.receive(&sent, &mut received).unwrap();
        assert_eq!(received, text);
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        down.send(text, &mut sent).unwrap();
        hears.receive(&sent, &mut received).unwrap();
        assert_eq!(received, text);
    }
}

#[test]
fn a_block_token_opens_a_channel() {
    for qop in Qop::ALL {
        for cut in [1, 100, 10_000] {
            let (established, channel) =
                handshake(&mut server(qop, None), client(&[qop], qop != Qop::Privacy), 5, cut).unwrap();
            let Peer::Token(peer) = &established.peer else { panic!("{:?}", established.peer) };
            assert_eq!(*peer.proven().identifier(), Identifier::parse(&token().0).unwrap().0);
            assert_eq!((established.qop, channel.is_plain()), (qop, qop == Qop::Auth));
            talk(established, channel);
        }
    }
    for bits in [KeyBits::B128, KeyBits::B192, KeyBits::B256] {
        let mut server = server(Qop::Privacy, Some(bits));
        let (established, channel) = handshake(&mut server, client(&[Qop::Privacy], true), 5, 50).unwrap();
        let (sending, _) = channel.split();
        assert!(matches!(&sending, super::Sending::Aes(_)));
        let (mut sending, mut sent) = (sending, Vec::new());
        sending.send(b"a text", &mut sent).unwrap();
        let mut received = sent.clone();
        assert!(established.channel.split().1.receive_in_place(&mut received));
        assert!(received == b"a text" && sent != received);
    }
}

/// Who insists ends; who does not has a channel by 3des, which is no less private.
#[test]
fn where_nobody_knows_aes_privacy_is_by_another_cipher() {
    let insisting = || client(&[Qop::Privacy], true);
    let refused = handshake(&mut server(Qop::Privacy, None), insisting(), 5, 1000);
    assert_eq!(refused.err(), Some(HandshakeError::Cipher));
    let (machine, hello) = insisting();
    let yielding = (machine.or_without_aes(), hello);
    let (established, channel) = handshake(&mut server(Qop::Privacy, None), yielding, 5, 1000).unwrap();
    assert_eq!((established.qop, channel.is_plain()), (Qop::Privacy, false));
    talk(established, channel);
    let (machine, hello) = insisting();
    let bits = Some(KeyBits::B128);
    let (_, channel) = handshake(&mut server(Qop::Privacy, bits), (machine.or_without_aes(), hello), 5, 1000).unwrap();
    assert!(matches!(channel.split().0, super::Sending::Aes(_)), "it is offered all the same");
}

#[test]
fn an_encryption_key_opens_a_channel() {
    let password = encryption_key::sign(ring().current(), b"12345678");
    let connect = |key: u32, pool: &str| {
        let user = encryption_key::user_name(KeyId(key), pool, b"12345678");
        let protection = Protection::of(&[Qop::Privacy]);
        let client = Client::new(user, password.bytes(), protection, false, &[9; NONCE_LEN]).unwrap();
        handshake(&mut server(Qop::Privacy, None), client, 5, 1000)
    };
    let (established, channel) = connect(1, "BP-1").unwrap();
    assert_eq!(established.peer, Peer::EncryptionKey);
    talk(established, channel);
    assert!(matches!(connect(9, "BP-1"), Err(HandshakeError::EncryptionKey { .. })));
    assert!(matches!(connect(1, "BP-2"), Err(HandshakeError::Refused { .. })));
}

#[test]
fn refusals_tell_the_client_what_to_do() {
    let expired = ring().current().expires;
    let late = handshake(&mut server(Qop::Auth, None), client(&[Qop::Auth], false), expired.0, 1000).unwrap_err();
    assert!(matches!(&late, HandshakeError::Token { text } if text.contains("not know")), "{late}");
    let (mut asking, _) = client(&[Qop::Auth], false);
    assert!(matches!(asking.on_bytes(&late.reply()), Err(HandshakeError::Token { .. })));
    assert_eq!(asking.on_bytes(&late.reply()).unwrap_err(), HandshakeError::Over, "an error is the end");
    let (identifier, _) = token();
    let forged = Client::of_token(&identifier, &[0; 32], Protection::of(&[Qop::Auth]), false, &[9; NONCE_LEN]).unwrap();
    let refused = handshake(&mut server(Qop::Auth, None), forged, 5, 1000).unwrap_err();
    assert_eq!(refused, HandshakeError::Token { text: DigestError::Proof.to_string() });
    assert_eq!(refused.reply(), late.reply(), "nobody learns from the answer what was wrong");
    let mut server = server(Qop::Auth, None);
    let operation = server.on_bytes(&[0, 28, 81, 5], |_| panic!()).unwrap_err();
    assert_eq!(operation, HandshakeError::Magic);
    assert_eq!(server.on_bytes(&super::MAGIC, |_| panic!()).unwrap_err(), HandshakeError::Over, "an error is the end");
}

#[test]
fn no_end_is_talked_down() {
    let refused = handshake(&mut server(Qop::Auth, None), client(&[Qop::Privacy], false), 5, 1000).unwrap_err();
    assert_eq!(refused, DigestError::Unsupported { name: "qop" }.into());
    let without = handshake(&mut server(Qop::Privacy, None), client(&[Qop::Privacy], true), 5, 1000).unwrap_err();
    assert_eq!(without, HandshakeError::Cipher, "the offer of AES was taken away");
    // A cipher is chosen only of those that were offered, and with privacy alone.
    let mut with_aes = server(Qop::Privacy, Some(KeyBits::B128));
    let (_, channel) = handshake(&mut with_aes, client(&[Qop::Privacy], false), 5, 1000).unwrap();
    assert!(matches!(channel.split().0, super::Sending::Sealed { .. }));
    let mut with_aes = server(Qop::Integrity, Some(KeyBits::B128));
    let (_, channel) = handshake(&mut with_aes, client(&[Qop::Integrity], true), 5, 1000).unwrap();
    assert!(matches!(channel.split().0, super::Sending::Sealed { .. }));
}

/// A client must not lose what a server sent right behind its last message, nor the other way round.
#[test]
fn bytes_behind_the_handshake_are_left() {
    let (mut asking, mut up) = client(&[Qop::Auth], false);
    let mut server = server(Qop::Auth, None);
    let ring = ring();
    let secrets = Secrets { now: Millis(5), keys: ring.keys(), pool: "BP-1" };
    let first = server.on_bytes(&up, |user| secrets.claim(user)).unwrap();
    up = asking.on_bytes(&first.send).unwrap().send;
    let len = up.len();
    up.extend_from_slice(b"an operation");
    let second = server.on_bytes(&up, |user| secrets.claim(user)).unwrap();
    assert!(second.used_len == len && second.done.is_some());
    let last = asking.on_bytes(&[&second.send[..], b"more"].concat()).unwrap();
    assert!(last.used_len == second.send.len() && last.done.is_some());
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), keeps in 0usize..400) {
        let ring = ring();
        let secrets = Secrets { now: Millis(5), keys: ring.keys(), pool: "BP-1" };
        let (mut asking, mut up) = client(&[Qop::Privacy], true);
        let mut server = server(Qop::Privacy, Some(KeyBits::B128));
        let first = server.on_bytes(&up, |user| secrets.claim(user)).unwrap();
        up = asking.on_bytes(&first.send).unwrap().send;
        up.truncate(keeps);
        up.extend_from_slice(&bytes);
        let _ = server.on_bytes(&up, |user| secrets.claim(user));
        let _ = asking.on_bytes(&bytes);
    }
}
