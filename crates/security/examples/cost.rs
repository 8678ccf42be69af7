//! What tokens and channels cost: `cargo run --release -p security --example cost`.
//!
//! Processor time of one thread, as Linux counts it: nanoseconds for a token, seconds for 10⁹ bytes.

use security::block_token::{Admission, Grant, Mode, Modes, Signer};
use security::encryption_key;
use security::keys::{KeyId, KeyRing, Lifetimes};
use security::sasl::digest::{Cipher, NONCE_LEN, Protection, Qop};
use security::sasl::transfer::{Client, KeyBits, RANDOM_LEN, Secrets, Sending, Server, Settings};
use security::secret::{SECRET_LEN, Secret};
use std::hint::black_box;
use std::time::Duration;
use types::{BlockId, ContainerId, InodeId, Millis};

const NOW: Millis = Millis(1_764_115_200_000);
/// As a packet of HDFS.
const PACKET_LEN: usize = 64 << 10;

/// What this thread has used, other programs' share aside.
fn used() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts");
    Duration::from_nanos(text.split(' ').next().and_then(|first| first.parse().ok()).expect("a number"))
}

/// Runs for about a second; answers what once takes.
fn each(mut run: impl FnMut(u64)) -> Duration {
    let (start, mut count, mut more) = (used(), 0, 1);
    loop {
        (0..more).for_each(|place| run(count + place));
        count += more;
        let used = used() - start;
        if used >= Duration::from_secs(1) {
            return Duration::from_nanos((used.as_nanos() / u128::from(count)) as u64);
        }
        more = count;
    }
}

fn main() {
    tokens();
    channels();
}

fn tokens() {
    let secrets = [1, 2].map(|byte| Secret::new([byte; SECRET_LEN]));
    let ring = KeyRing::new(NOW, Lifetimes::BLOCK_TOKENS, KeyId(1), secrets);
    let grant = |file| Grant { user: "ada", file: InodeId(file), modes: Modes::of(&[Mode::Read]), block: None };
    let mut none = Signer::new(0);
    let signed = each(|file| drop(black_box(none.sign(NOW, &ring, grant(file)))));
    for count in [100, 100_000] {
        let mut signer = Signer::new(4 * count);
        (0..count as u64).for_each(|file| drop(signer.sign(NOW, &ring, grant(file))));
        let mut at = 0;
        let remembered = each(|_| {
            at = (at * 25_214_903_917 + 11) % count as u64;
            drop(black_box(signer.sign(NOW, &ring, grant(at))));
        });
        println!("a token of {count:7} that are remembered {:8} ns", remembered.as_nanos());
    }
    println!("a token, signed                      {:8} ns", signed.as_nanos());
    let token = none.sign(NOW, &ring, grant(7)).expect("a live key");
    let home = each(|home| drop(black_box(token.identifier(Some(ContainerId(home))))));
    println!("its identifier for one more block    {:8} ns", home.as_nanos());
    let (identifier, password) = (token.identifier(Some(ContainerId(7))), token.password().bytes());
    let admission =
        Admission { now: NOW, user: Some("ada"), file: InodeId(7), block: BlockId(9), makes: false, mode: Mode::Read };
    let checked = each(|_| _ = black_box(admission.check(ring.keys(), &identifier, password).is_ok()));
    println!("a token, checked                     {:8} ns", checked.as_nanos());
}

fn channels() {
    let bytes = vec![7; PACKET_LEN];
    for (name, qop, cipher, aes) in [
        ("integrity (HMAC-MD5)", Qop::Integrity, Cipher::TripleDes, None),
        ("privacy, 3des", Qop::Privacy, Cipher::TripleDes, None),
        ("privacy, rc4", Qop::Privacy, Cipher::Rc4, None),
        ("privacy, AES-128", Qop::Privacy, Cipher::Rc4, Some(KeyBits::B128)),
        ("privacy, AES-256", Qop::Privacy, Cipher::Rc4, Some(KeyBits::B256)),
    ] {
        let mut sending = sending(qop, cipher, aes);
        let mut out = Vec::new();
        let once = each(|_| {
            out.clear();
            sending.send(&bytes, &mut out).expect("numbers are left");
            black_box(&out);
        });
        println!("{name:36} {:8.2} s/GB", once.as_secs_f64() * 1e9 / PACKET_LEN as f64);
    }
}

fn sending(qop: Qop, cipher: Cipher, aes: Option<KeyBits>) -> Sending {
    let protection = Protection { qops: vec![qop], ciphers: vec![cipher] };
    let mut server = Server::new(Settings { protection: protection.clone(), aes }, &[7; RANDOM_LEN]);
    let secrets = [1, 2].map(|byte| Secret::new([byte; SECRET_LEN]));
    let ring = KeyRing::new(NOW, Lifetimes::BLOCK_TOKENS, KeyId(1), secrets);
    let password = encryption_key::sign(ring.current(), b"12345678");
    let user = encryption_key::user_name(KeyId(1), "BP-1", b"12345678");
    let client = Client::new(user, password.bytes(), protection, aes.is_some(), &[9; NONCE_LEN]);
    let (mut client, hello) = client.expect("ASCII");
    let secrets = Secrets { now: NOW, keys: ring.keys(), pool: "BP-1" };
    let challenge = server.on_bytes(&hello, |user| secrets.claim(user)).expect("a client of ours");
    let response = client.on_bytes(&challenge.send).expect("a server of ours");
    let established = server.on_bytes(&response.send, |user| secrets.claim(user)).expect("a client of ours");
    established.done.expect("the end").channel.split().0
}
