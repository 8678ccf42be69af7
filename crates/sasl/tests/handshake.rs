//! Both ends over real sockets: what operations see of a protected connection, and what a wire shows.

use sasl::{Accepted, Error, Protected, Secret, Uncounted, accept, connect, is_handshake};
use security::block_token::{Grant, Mode, Modes, Signer};
use security::keys::{KeyId, KeyRing, Lifetimes};
use security::sasl::digest::{Protection, Qop};
use security::sasl::transfer::{KeyBits, Peer, Secrets, Settings};
use security::secret::{SECRET_LEN, Secret as Key};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use types::{InodeId, Millis};
use xfer::memory::Held;

const NOW: Millis = Millis(1_000);

fn ring(byte: u8) -> KeyRing {
    KeyRing::new(NOW, Lifetimes::BLOCK_TOKENS, KeyId(1), [byte, byte + 1].map(|byte| Key::new([byte; SECRET_LEN])))
}

fn token(ring: &KeyRing) -> (Vec<u8>, Vec<u8>) {
    let grant = Grant { user: "ada", file: InodeId(16_400), modes: Modes::of(&[Mode::Read]), block: None };
    let token = Signer::new(0).sign(NOW, ring, grant).unwrap();
    (token.identifier(None), token.password().bytes().to_vec())
}

fn settings(qops: &[Qop], aes: bool) -> Settings {
    Settings { protection: Protection::of(qops), aes: aes.then_some(KeyBits::B128) }
}

/// A datanode that takes one connection.
async fn serve(
    listener: &TcpListener,
    settings: Settings,
    held: [impl Held + Send + 'static; 2],
) -> Result<Accepted, Error> {
    let (mut socket, _) = listener.accept().await.unwrap();
    let mut came = Vec::new();
    while is_handshake(&came).is_none() {
        socket.read_buf(&mut came).await.unwrap();
    }
    assert_eq!(is_handshake(&came), Some(true));
    let ring = ring(1);
    let secrets = Secrets { now: NOW, keys: ring.keys(), pool: "BP-1" };
    accept(socket, came, settings, |user| secrets.claim(user), held).await
}

async fn dial(listener: &TcpListener, secret: (Vec<u8>, Vec<u8>), qops: &[Qop]) -> Result<Protected, Error> {
    let socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let secret = Secret { identifier: &secret.0, password: &secret.1 };
    connect(socket, secret, Protection::of(qops), uncounted()).await
}

fn uncounted() -> [Uncounted; 2] {
    [(); 2].map(|()| Uncounted::default())
}

/// What whoever cannot seal himself has of it.
fn pumped(connection: Protected) -> TcpStream {
    connection.pumped(None).unwrap()
}

/// Sends bytes from each end to the other at once, and then the ends of the streams.
async fn exchange(one: &mut TcpStream, other: &mut TcpStream, len: usize) {
    let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + at / 251) as u8).collect();
    let carry = async |socket: &mut TcpStream| {
        let (mut inward, mut outward) = socket.split();
        let send = async {
            outward.write_all(&bytes).await.unwrap();
            outward.shutdown().await.unwrap();
        };
        let mut came = Vec::new();
        let receive = async { inward.read_to_end(&mut came).await.unwrap() };
        tokio::join!(send, receive);
        assert!(came == bytes, "{} of {len} bytes", came.len());
    };
    tokio::join!(carry(one), carry(other));
}

/// Each protection, with AES and without.
#[tokio::test]
async fn operations_see_the_bytes_as_they_were_sent() {
    for (qop, aes) in [(Qop::Auth, false), (Qop::Integrity, false), (Qop::Privacy, true)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let qops = [qop];
        let serving = serve(&listener, settings(&qops, aes), uncounted());
        let (accepted, dialled) = tokio::join!(serving, dial(&listener, token(&ring(1)), &qops));
        let accepted = accepted.unwrap();
        assert_eq!(accepted.qop, qop);
        assert!(matches!(&accepted.peer, Peer::Token(_)), "{:?}", accepted.peer);
        exchange(&mut pumped(dialled.unwrap()), &mut pumped(accepted.connection), 500_000).await;
    }
}

#[tokio::test]
async fn a_connection_with_authentication_alone_stays_itself() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let serving = serve(&listener, settings(&Qop::ALL, true), uncounted());
    let (accepted, dialled) = tokio::join!(serving, dial(&listener, token(&ring(1)), &[Qop::Auth]));
    let (accepted, dialled) = (accepted.unwrap().connection, dialled.unwrap());
    assert!(accepted.is_plain() && dialled.is_plain());
    assert_eq!(pumped(accepted).peer_addr().unwrap(), pumped(dialled).local_addr().unwrap());
}

/// Who has no key of the store, or asks for less than is demanded, gets no connection, and the reason if it may have
/// it.
#[tokio::test]
async fn who_does_not_prove_enough_is_refused() {
    for (byte, qop, of_secret) in [(9, Qop::Privacy, true), (1, Qop::Auth, false), (1, Qop::Integrity, false)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let serving = serve(&listener, settings(&[Qop::Privacy], true), uncounted());
        let qops = [qop];
        let dialling = dial(&listener, token(&ring(byte)), &qops);
        let (accepted, dialled) = tokio::join!(tokio::time::timeout(Duration::from_secs(5), serving), dialling);
        let error = dialled.unwrap_err();
        assert_eq!(error.is_of_secret(), of_secret, "{error}");
        assert!(!matches!(accepted, Ok(Ok(_))));
    }
}

/// Somebody in between turns one bit of what is sealed: the reader sees the end of the stream, and none of it.
#[tokio::test]
async fn what_was_changed_on_its_way_is_not_seen() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let between = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let is_sealed = Cell::new(false);
    let changing = async {
        let (mut near, _) = between.accept().await.unwrap();
        let mut far = TcpStream::connect(to).await.unwrap();
        let (mut near_in, mut near_out) = near.split();
        let (mut far_in, mut far_out) = far.split();
        let up = async {
            let mut bytes = vec![0; 64 << 10];
            while let Ok(len @ 1..) = near_in.read(&mut bytes).await {
                if is_sealed.get() {
                    bytes[len - 20] ^= 1;
                }
                if far_out.write_all(&bytes[..len]).await.is_err() {
                    return;
                }
            }
        };
        let down = tokio::io::copy(&mut far_in, &mut near_out);
        tokio::select! { () = up => {}, _ = down => {} }
    };
    let changing = async {
        changing.await;
        std::future::pending::<()>().await;
    };
    let meeting = async {
        let serving = serve(&listener, settings(&[Qop::Integrity], false), uncounted());
        let (accepted, dialled) = tokio::join!(serving, dial(&between, token(&ring(1)), &[Qop::Integrity]));
        let (mut accepted, mut dialled) = (pumped(accepted.unwrap().connection), pumped(dialled.unwrap()));
        is_sealed.set(true);
        dialled.write_all(b"a thousand crowns").await.unwrap();
        let mut came = Vec::new();
        let _ends_somehow = accepted.read_to_end(&mut came).await;
        assert!(came.is_empty(), "{came:?}");
    };
    tokio::select! { () = changing => unreachable!("it waits"), () = meeting => {} }
}

/// Memory for so many bytes.
#[derive(Debug)]
struct Little(u64, u64);

impl Held for Little {
    fn held_len(&self) -> u64 {
        self.0
    }

    fn grow_to(&mut self, len: u64) -> bool {
        self.0 = self.0.max(len.min(self.1));
        len <= self.1
    }
}

/// Memory that somebody else looks at.
#[derive(Clone, Debug, Default)]
struct Watched(Arc<AtomicU64>);

impl Held for Watched {
    fn held_len(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn grow_to(&mut self, len: u64) -> bool {
        self.0.fetch_max(len, Ordering::SeqCst);
        true
    }

    fn shrink_to(&mut self, len: u64) {
        self.0.fetch_min(len, Ordering::SeqCst);
    }
}

/// Thousands of connections wait for their next operation. What they held for the one before is for others.
#[tokio::test]
async fn a_connection_that_waits_holds_little() {
    const IDLE_LEN_MAX: u64 = 16 << 10;
    for (qop, aes) in [(Qop::Integrity, false), (Qop::Privacy, true)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (watched, qops) = ([(); 2].map(|()| Watched::default()), [qop]);
        let held = || watched.iter().map(Held::held_len).sum::<u64>();
        let serving = serve(&listener, settings(&qops, aes), watched.clone());
        let (accepted, dialled) = tokio::join!(serving, dial(&listener, token(&ring(1)), &qops));
        let (mut accepted, mut dialled) = (pumped(accepted.unwrap().connection), pumped(dialled.unwrap()));
        let idle = held();
        assert!((1..=IDLE_LEN_MAX).contains(&idle), "{idle} bytes before the first operation");
        let len = 1 << 20;
        let send = async |socket: &mut TcpStream| socket.write_all(&vec![7; len]).await.unwrap();
        let receive = async |socket: &mut TcpStream| _ = socket.read_exact(&mut vec![0; len]).await.unwrap();
        tokio::join!(send(&mut dialled), receive(&mut accepted));
        tokio::join!(send(&mut accepted), receive(&mut dialled));
        assert!(held() > idle, "long pieces at once");
        let rested = async {
            while held() > IDLE_LEN_MAX {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), rested).await.expect("memory goes back");
    }
}

#[tokio::test]
async fn a_node_without_memory_takes_no_protected_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let serving = serve(&listener, settings(&[Qop::Integrity], false), [(); 2].map(|()| Little(0, 1000)));
    let (accepted, dialled) = tokio::join!(serving, dial(&listener, token(&ring(1)), &[Qop::Integrity]));
    assert!(accepted.is_err());
    let mut dialled = pumped(dialled.unwrap());
    assert_eq!(dialled.read(&mut [0]).await.unwrap_or(0), 0);
}
