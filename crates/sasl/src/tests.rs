//! Both ends of a connection behind its handshake, without sockets.

use crate::idle::IDLE_LEN;
use crate::room::tests::Counted;
use crate::{Incoming, Outgoing, Uncounted};
use security::block_token::{Grant, Mode, Modes, Signer};
use security::keys::{KeyId, KeyRing, Lifetimes};
use security::sasl::digest::{NONCE_LEN, Protection, Qop};
use security::sasl::transfer::{Channel, Client, KeyBits, RANDOM_LEN, SEND_LEN, Secrets, Sending, Server, Settings};
use security::secret::{SECRET_LEN, Secret};
use std::io::ErrorKind;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use types::random::Seeded;
use types::{InodeId, Millis, Random};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Authentication,
    Integrity,
    TripleDes,
    Aes,
}

const ALL: [Kind; 4] = [Kind::Authentication, Kind::Integrity, Kind::TripleDes, Kind::Aes];

/// The client's end and the datanode's.
fn channels(kind: Kind) -> [Channel; 2] {
    let qop = match kind {
        Kind::Authentication => Qop::Auth,
        Kind::Integrity => Qop::Integrity,
        Kind::TripleDes | Kind::Aes => Qop::Privacy,
    };
    let aes = kind == Kind::Aes;
    let (now, protection) = (Millis(1_000), Protection::of(&[qop]));
    let secrets = [1, 2].map(|byte| Secret::new([byte; SECRET_LEN]));
    let ring = KeyRing::new(now, Lifetimes::BLOCK_TOKENS, KeyId(1), secrets);
    let grant = Grant { user: "ada", file: InodeId(16_400), modes: Modes::of(&[Mode::Read]), block: None };
    let token = Signer::new(0).sign(now, &ring, grant).unwrap();
    let (identifier, password) = (token.identifier(None), token.password());
    let (mut client, hello) =
        Client::of_token(&identifier, password.bytes(), protection.clone(), aes, &[9; NONCE_LEN]).unwrap();
    let mut server = Server::new(Settings { protection, aes: aes.then_some(KeyBits::B128) }, &[7; RANDOM_LEN]);
    let secrets = Secrets { now, keys: ring.keys(), pool: "BP-1" };
    let (mut to_server, mut of_server) = (hello, None);
    loop {
        let progress = server.on_bytes(&to_server, |user| secrets.claim(user)).unwrap();
        of_server = progress.done.map(|established| established.channel).or(of_server);
        let progress = client.on_bytes(&progress.send).unwrap();
        if let Some(channel) = progress.done {
            return [channel, of_server.expect("both ends are done")];
        }
        to_server = progress.send;
    }
}

/// What the client's end sends with, and what the datanode's receives with.
fn ends(kind: Kind) -> (Outgoing, Incoming) {
    ends_with(kind, Counted::new(usize::MAX), Counted::new(usize::MAX))
}

fn ends_with(kind: Kind, of_outgoing: Counted, of_incoming: Counted) -> (Outgoing, Incoming) {
    let [client, server] = channels(kind);
    let outgoing = Outgoing::new(client.split().0, of_outgoing).unwrap();
    (outgoing, Incoming::new(server.split().1, Vec::new(), of_incoming).unwrap())
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 253) as u8).collect()
}

fn below(random: &mut Seeded, max: usize) -> usize {
    (random.next_u64() % max as u64) as usize
}

/// All of it sealed.
fn sealed(outgoing: &mut Outgoing, mut bytes: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    while !bytes.is_empty() {
        bytes = &bytes[outgoing.seal(bytes).unwrap()..];
        wire.extend_from_slice(outgoing.pending());
        outgoing.on_sent(outgoing.pending().len());
    }
    wire
}

/// One read of what is on the wire, `len` bytes at most, for a reader that wants `dest`. Says how many it got.
fn read(incoming: &mut Incoming, wire: &mut &[u8], dest: &mut [u8], len: usize) -> std::io::Result<usize> {
    let room = incoming.room(dest)?;
    let len = len.min(room.len()).min(wire.len());
    room[..len].copy_from_slice(&wire[..len]);
    *wire = &wire[len..];
    match incoming.received(dest, len)? {
        0 => Ok(incoming.take(dest)),
        in_place => Ok(in_place),
    }
}

/// A socket takes some of what is pending each time, and its reader asks for some of what came.
#[test]
fn bytes_arrive_in_their_order_whatever_the_socket_takes_and_gives() {
    for (kind, seed) in ALL.into_iter().flat_map(|kind| (0..6).map(move |seed| (kind, seed))) {
        let (mut outgoing, mut incoming) = ends(kind);
        let mut random = Seeded(seed);
        let (mut wire, mut got, mut dest) = (Vec::new(), Vec::new(), vec![0; 200_000]);
        let sent = pattern(below(&mut random, 600_000) + 1);
        let mut rest = &sent[..];
        while !rest.is_empty() || outgoing.is_pending() {
            if !outgoing.is_pending() {
                let offered = below(&mut random, rest.len()) + 1;
                let taken = outgoing.seal(&rest[..offered]).unwrap();
                assert!(taken <= SEND_LEN && taken > 0);
                rest = &rest[taken..];
            }
            let len = below(&mut random, outgoing.pending().len()) + 1;
            wire.extend_from_slice(&outgoing.pending()[..len]);
            outgoing.on_sent(len);
        }
        let mut wire = &wire[..];
        while got.len() < sent.len() {
            let wanted = below(&mut random, dest.len()) + 1;
            let dest = &mut dest[..wanted];
            let len = if incoming.has_opened() {
                incoming.take(dest)
            } else {
                assert!(!wire.is_empty(), "{kind:?}, seed {seed}: all came, and {} bytes are opened", got.len());
                let cut = below(&mut random, 100_000) + 1;
                read(&mut incoming, &mut wire, dest, cut).unwrap()
            };
            got.extend_from_slice(&dest[..len]);
            if random.next_u64().is_multiple_of(4) {
                incoming.rest();
            }
        }
        assert!(got == sent && wire.is_empty() && !incoming.has_opened(), "{kind:?}, seed {seed}");
        incoming.on_end().unwrap();
    }
}

#[test]
fn a_connection_that_ends_within_a_piece_was_cut_off() {
    let (mut outgoing, mut incoming) = ends(Kind::Integrity);
    let sent = sealed(&mut outgoing, &[7; 100]);
    let mut dest = [0; 200];
    for (came, is_within) in [(&sent[..3], true), (&sent[3..sent.len() - 1], true), (&sent[sent.len() - 1..], false)] {
        let got = read(&mut incoming, &mut &came[..], &mut dest, usize::MAX).unwrap();
        assert_eq!(got, if is_within { 0 } else { 100 });
        let end = incoming.on_end().err().map(|error| error.kind());
        assert_eq!(end, is_within.then_some(ErrorKind::UnexpectedEof));
    }
}

/// What was sealed before it is handed out; what comes behind it is not, however sound it is.
#[test]
fn nothing_comes_behind_a_piece_that_was_changed() {
    for kind in [Kind::Integrity, Kind::TripleDes] {
        let (mut outgoing, mut incoming) = ends(kind);
        let good = sealed(&mut outgoing, b"good");
        let mut changed = sealed(&mut outgoing, b"changed");
        changed[5] ^= 1;
        let behind = sealed(&mut outgoing, b"behind");
        let mut dest = [0; 100];
        assert_eq!(read(&mut incoming, &mut &good[..], &mut dest, 100).unwrap(), 4);
        assert!(read(&mut incoming, &mut &changed[..], &mut dest, 100).is_err());
        assert!(!incoming.has_opened());
        let error = read(&mut incoming, &mut &behind[..], &mut dest, 100).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
    }
}

#[test]
fn what_a_socket_did_not_take_is_dropped_when_nobody_is_there() {
    let (mut outgoing, _) = ends(Kind::Aes);
    assert_eq!(outgoing.seal(&[1; 10]).unwrap(), 10);
    outgoing.on_sent(3);
    assert_eq!(outgoing.pending().len(), 7);
    outgoing.abandon();
    assert!(!outgoing.is_pending() && outgoing.seal(&[1; 10]).is_err(), "the stream has a hole now");
}

#[test]
fn memory_is_counted_and_goes_back() {
    for kind in [Kind::Integrity, Kind::TripleDes, Kind::Aes] {
        let (of_outgoing, of_incoming) = (Counted::new(usize::MAX), Counted::new(usize::MAX));
        let (mut outgoing, mut incoming) = ends_with(kind, of_outgoing.clone(), of_incoming.clone());
        let mut dest = vec![0; 300_000];
        let held = || of_outgoing.len() + of_incoming.len();
        for _ in 0..2 {
            assert!(held() <= 3 * IDLE_LEN, "{kind:?}: {} bytes", held());
            let request = sealed(&mut outgoing, &[1; 300]);
            assert_eq!(read(&mut incoming, &mut &request[..], &mut dest, usize::MAX).unwrap(), 300);
            assert!(held() <= 3 * IDLE_LEN, "{kind:?}: {} bytes after a request", held());
            let wire = sealed(&mut outgoing, &pattern(2_000_000));
            assert!(of_outgoing.len() >= SEND_LEN && outgoing.is_roomy());
            let (mut wire, mut got) = (&wire[..], 0);
            while got < 2_000_000 {
                got += if incoming.has_opened() {
                    incoming.take(&mut dest)
                } else {
                    read(&mut incoming, &mut wire, &mut dest, usize::MAX).unwrap()
                };
            }
            assert_eq!(incoming.is_roomy(), kind != Kind::Aes);
            outgoing.rest();
            incoming.rest();
            assert!(!outgoing.is_roomy() && !incoming.is_roomy());
        }
        drop((outgoing, incoming));
    }
}

#[test]
fn without_memory_small_pieces_go_on() {
    // Too little for many bytes at once: at all, or together with a piece.
    let memory = [80 << 10, 300 << 10].map(|max| [(Kind::Integrity, max), (Kind::Aes, max)]);
    for (kind, max) in memory.into_iter().flatten() {
        let (mut outgoing, mut incoming) = ends_with(kind, Counted::new(2 * IDLE_LEN), Counted::new(max));
        let sent = pattern(100_000);
        let wire = sealed(&mut outgoing, &sent);
        assert_eq!(outgoing.seal(&sent).unwrap(), IDLE_LEN);
        let (mut wire, mut got, mut dest) = (&wire[..], Vec::new(), vec![0; 1000]);
        while got.len() < sent.len() {
            let len = match incoming.take(&mut dest) {
                0 => read(&mut incoming, &mut wire, &mut dest, usize::MAX).unwrap(),
                len => len,
            };
            got.extend_from_slice(&dest[..len]);
        }
        assert!(got == sent, "{kind:?} with {max} bytes");
    }
    // An ack, or a request, needs hardly more than every connection has.
    let (mut outgoing, mut incoming) = ends_with(Kind::Integrity, Counted::new(2 * IDLE_LEN), Counted::new(5 << 10));
    let wire = sealed(&mut outgoing, &[7; 300]);
    assert_eq!(read(&mut incoming, &mut &wire[..], &mut [0; 300], usize::MAX).unwrap(), 300);
    let [client, _] = channels(Kind::Integrity);
    let (sending, receiving) = client.split();
    assert!(Outgoing::new(sending, Counted::new(100)).is_err());
    assert!(Incoming::new(receiving, Vec::new(), Counted::new(100)).is_err());
}

/// As stock clients send a packet: in one piece, however long it is.
fn piece(sending: &mut Sending, len: usize) -> Vec<u8> {
    let Sending::Sealed(sealer) = sending else { panic!("3des") };
    let mut sealed = vec![0; 4];
    sealer.wrap(&vec![5; len], &mut sealed).unwrap();
    let sealed_len = (sealed.len() - 4) as u32;
    sealed[..4].copy_from_slice(&sealed_len.to_be_bytes());
    sealed
}

/// A peer that sends long pieces keeps no thread of the runtime from the others.
#[tokio::test]
async fn a_long_piece_leaves_the_thread_to_others() {
    for (len, waits) in [(1000, false), (64 << 10, false), (1 << 20, true)] {
        let [client, server] = channels(Kind::TripleDes);
        let mut sealed = piece(&mut client.split().0, len);
        let mut incoming = Incoming::new(server.split().1, Vec::new(), Uncounted::default()).unwrap();
        let last = sealed.split_off(sealed.len() - 100);
        let mut wire = &sealed[..];
        while !wire.is_empty() {
            assert_eq!(read(&mut incoming, &mut wire, &mut [], usize::MAX).unwrap(), 0);
        }
        incoming.room(&mut []).unwrap()[..100].copy_from_slice(&last);
        let mut opening = Box::pin(incoming.received_beside_others(&mut [], 100));
        let polled = pin!(&mut opening).poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(polled.is_pending(), waits, "a piece of {len} bytes");
        let done = match polled {
            Poll::Ready(done) => done,
            Poll::Pending => (&mut opening).await,
        };
        drop(opening);
        assert_eq!(done.unwrap(), 0);
        assert!(incoming.opened() == vec![5; len]);
    }
}

/// Nobody waits for the end of a long piece any more: it is not mistaken for what came behind it.
#[tokio::test]
async fn a_long_piece_that_nobody_waited_for_ends_the_connection() {
    let [client, server] = channels(Kind::TripleDes);
    let sealed = piece(&mut client.split().0, 1 << 20);
    let mut incoming = Incoming::new(server.split().1, Vec::new(), Uncounted::default()).unwrap();
    let mut wire = &sealed[..sealed.len() - 100];
    while !wire.is_empty() {
        read(&mut incoming, &mut wire, &mut [], usize::MAX).unwrap();
    }
    incoming.room(&mut []).unwrap()[..100].copy_from_slice(&sealed[sealed.len() - 100..]);
    {
        let mut opening = Box::pin(incoming.received_beside_others(&mut [], 100));
        assert!(pin!(&mut opening).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    assert_eq!(incoming.room(&mut [0; 10]).unwrap_err().kind(), ErrorKind::ConnectionAborted);
}
