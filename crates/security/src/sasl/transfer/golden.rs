//! Whole handshakes of Hadoop's client with Hadoop's server, with each end replaced by ours in turn.

use super::aes::KeyBits;
use super::channel::Channel;
use super::client::{Client, keys};
use super::message::read;
use super::secrets::Claim;
use super::server::{RANDOM_LEN, Server, Settings};
use crate::golden::{Golden, MESSAGE_LENS, message};
use crate::sasl::digest::{self, Challenge, NONCE_LEN, Protection, Qop, Service};
use base64ct::{Base64, Encoding};

/// The value of `name="…"`.
fn quoted<'t>(text: &'t str, name: &str) -> &'t str {
    text.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap()
}

struct Recorded {
    golden: Golden,
    name: &'static str,
    qop: Qop,
    aes: Option<KeyBits>,
}

impl Recorded {
    fn part(&self, part: &str) -> &[u8] {
        self.golden.get(&format!("{}.{part}", self.name))
    }

    /// The payload of the message at `at`.
    fn payload(&self, part: &str, at: usize) -> (String, usize) {
        let (message, len) = read(&self.part(part)[at..]).unwrap().unwrap();
        (String::from_utf8(message.payload.unwrap().to_vec()).unwrap(), at + len)
    }

    fn challenge(&self) -> String {
        self.payload("down.handshake", 0).0
    }

    fn response(&self) -> String {
        let hello = self.payload("up.handshake", 4).1;
        self.payload("up.handshake", hello).0
    }

    fn protection(&self) -> Protection {
        Protection::of(&[self.qop])
    }

    /// The random bytes of Hadoop's server, which its client could read.
    fn keys_random(&self) -> [u8; RANDOM_LEN - NONCE_LEN] {
        let mut random = [0; RANDOM_LEN - NONCE_LEN];
        if self.aes.is_none() {
            return random;
        }
        let response = self.response();
        let user = quoted(&response, "username").to_owned();
        let password = Base64::encode_string(self.part("password")).into_bytes();
        let client = digest::Client::new(Service::TRANSFER, self.protection(), user, password).unwrap();
        let challenge = self.challenge();
        let (_, client) = client.respond_recorded(challenge.as_bytes(), quoted(&response, "cnonce"));
        let (_, at) = self.payload("down.handshake", 0);
        let (last, _) = read(&self.part("down.handshake")[at..]).unwrap().unwrap();
        let mut layer = client.finish(&last.payload.unwrap()).unwrap();
        let keys = keys(&last.cipher_option[0], &mut layer).unwrap();
        for (place, (key, iv)) in [(0, keys.up), (48, keys.down)] {
            random[place..place + key.len()].copy_from_slice(&key);
            random[place + 32..place + 48].copy_from_slice(&iv);
        }
        random
    }

    fn server(&self) -> Channel {
        let challenge = self.challenge();
        let challenge = Challenge::recorded(Service::TRANSFER, self.protection(), quoted(&challenge, "nonce"));
        // Hadoop offers weaker ciphers as well, so this text is not ours, and its length tells how much was of it.
        let settings = Settings { protection: self.protection(), aes: self.aes };
        let mut server = Server::with(settings, challenge, self.keys_random());
        let up = self.part("up.handshake");
        let progress = server.on_bytes(up, |_| Ok(Claim::recorded(self.part("password")))).unwrap();
        assert_eq!(progress.used_len, up.len());
        let (_, challenge_len) = self.payload("down.handshake", 0);
        let (_, own_challenge_len) = read(&progress.send).unwrap().unwrap();
        assert_eq!(progress.send[own_challenge_len..], self.part("down.handshake")[challenge_len..], "{}", self.name);
        let established = progress.done.unwrap();
        assert_eq!(established.qop, self.qop);
        established.channel
    }

    fn client(&self) -> Channel {
        let response = self.response();
        let (user, cnonce) = (quoted(&response, "username").to_owned(), quoted(&response, "cnonce").to_owned());
        let password = self.part("password");
        let uses_aes = self.aes.is_some();
        let (mut client, hello) = Client::with_nonce(user, password, self.protection(), uses_aes, cnonce).unwrap();
        let progress =
            client.on_bytes(self.part("down.handshake")).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        assert_eq!(progress.used_len, self.part("down.handshake").len());
        assert_eq!([hello, progress.send].concat(), self.part("up.handshake"), "{}", self.name);
        progress.done.unwrap()
    }

    /// What one end sends, to the byte, and what it makes of what the other one sent.
    fn stream(&self, channel: Channel, sent: &str, received: &str) {
        assert_eq!(channel.is_plain(), self.qop == Qop::Auth);
        let (mut sending, mut receiving) = channel.split();
        let (mut out, mut opened, mut plain) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..MESSAGE_LENS.len() {
            sending.send(&message(number), &mut out).unwrap();
            plain.extend_from_slice(&message(number));
        }
        assert_eq!(out, self.part(sent), "{}", self.name);
        receiving.receive(self.part(received), &mut opened).unwrap();
        assert_eq!(opened, plain, "{}", self.name);
    }
}

#[test]
fn hadoop_and_ours_say_the_same() {
    let recorded = |name, qop, aes| {
        let golden = Golden::parse(include_str!("../../../tests/golden/transfer.txt"));
        let recorded = Recorded { golden, name, qop, aes };
        recorded.stream(recorded.server(), "down.stream", "up.stream");
        recorded.stream(recorded.client(), "up.stream", "down.stream");
    };
    recorded("token.authentication", Qop::Auth, None);
    recorded("token.integrity", Qop::Integrity, None);
    recorded("token.privacy", Qop::Privacy, None);
    recorded("token.aes128", Qop::Privacy, Some(KeyBits::B128));
    recorded("token.aes192", Qop::Privacy, Some(KeyBits::B192));
    recorded("token.aes256", Qop::Privacy, Some(KeyBits::B256));
    recorded("key.3des", Qop::Privacy, None);
    recorded("key.aes128", Qop::Privacy, Some(KeyBits::B128));
}
