//! Clients that send what no client sends.

use crate::support::{first_token, login, principal, story, to_localhost, trouble};
use gss::{Acceptor, AcceptorSettings, Error, TOKEN_LEN_MAX, Trouble};
use security::sasl::digest::Qop;
use security::sasl::rpc::{ClientGss, GssOutcome};

/// A small generator, so that a failure comes again. Its seed is in the message of each failure.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }

    /// Bits flipped, pieces taken out, doubled or overwritten, an end cut off.
    fn changed(&mut self, token: &[u8]) -> Vec<u8> {
        let mut token = token.to_vec();
        for _ in 0..=self.roll(4) {
            let len = token.len().max(1);
            let (at, to) = (self.roll(len), self.roll(len));
            match (self.roll(5), token.get_mut(at)) {
                (0, Some(byte)) => *byte ^= 1 << self.roll(8),
                (1, Some(byte)) => *byte = [0, 1, 0x7f, 0x80, 0xff, 0x84][self.roll(6)],
                (2, _) if at < to => drop(token.drain(at..to)),
                (3, _) if at < to => token.extend_from_within(at..to),
                (4, _) => token.truncate(at),
                _ => token.push(0),
            }
        }
        token
    }
}

fn sent(server: &Acceptor, token: &[u8]) -> Result<GssOutcome, Error> {
    let mut accepting = server.begin(&Qop::ALL);
    let before = token.to_vec();
    let outcome = accepting.step(token);
    assert!(before == token, "what is only lent stays as it is");
    if outcome.is_err() {
        assert!(accepting.step(token).is_err(), "after an error all is one");
    }
    outcome
}

#[test]
fn tokens_of_any_length_are_refused_without_a_crash() {
    story(|kdc| {
        let (server, client) = (kdc.server(), kdc.client());
        let whole = first_token(&client);
        for len in 0..whole.len() {
            assert!(sent(&server, &whole[..len]).is_err(), "{len} bytes of {}", whole.len());
        }
        for len in [0, 1, 2, 3, 100, 10_000, TOKEN_LEN_MAX] {
            for byte in [0, 0x60, 0x6e, 0xff] {
                assert!(sent(&server, &vec![byte; len]).is_err(), "{len} bytes {byte}");
            }
        }
        let refused = sent(&server, &vec![0x60; TOKEN_LEN_MAX + 1]).unwrap_err();
        assert!(refused.told().contains("a token of 131073 bytes"), "{refused}");
        assert!(sent(&server, &whole).is_ok(), "the one that was meant");
    });
}

/// SPNEGO, which holds Kerberos' token inside: nothing but Kerberos itself is taken.
#[test]
fn other_mechanisms_are_refused() {
    story(|kdc| {
        let (server, client) = (kdc.server(), kdc.client());
        let kerberos = first_token(&client);
        let der = |tag: u8, content: &[u8]| {
            let len = u16::try_from(content.len()).unwrap().to_be_bytes();
            [&[tag, 0x82], &len[..], content].concat()
        };
        let mechanisms = der(0x30, &[6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 2]);
        let init = der(0x30, &[der(0xa0, &mechanisms), der(0xa2, &der(4, &kerberos))].concat());
        let spnego = der(0x60, &[&[6, 6, 0x2b, 6, 1, 5, 5, 2][..], &der(0xa0, &init)].concat());
        let refused = sent(&server, &spnego).unwrap_err();
        println!("{refused}");
        assert!(sent(&server, &kerberos).is_ok());
    });
}

#[test]
fn changed_tokens_are_refused_or_harmless() {
    story(|kdc| {
        let (server, client) = (kdc.server(), kdc.client());
        let (whole, mut dice) = (first_token(&client), Dice(7));
        let mut let_in = 0;
        for round in 0..20_000 {
            let token = dice.changed(&whole);
            if token == whole {
                continue;
            }
            // Few bytes are neither encrypted nor looked at, as the length of an outer frame. The proof is what it was.
            if let Ok(outcome) = sent(&server, &token) {
                assert!(matches!(outcome, GssOutcome::Continue(_)), "round {round}");
                let_in += 1;
            }
        }
        println!("{let_in} passed as the first token; a second one by the same proof is a replay");
        assert!(let_in <= 1, "each proof counts once");
        assert!(login(&client, &server).is_ok());
    });
}

#[test]
fn the_last_words_are_looked_at() {
    story(|kdc| {
        let (server, client) = (kdc.server(), kdc.client());
        let mut dice = Dice(11);
        for round in 0..200 {
            let (mut accepting, mut initiating) = (server.begin(&Qop::ALL), to_localhost(&client).unwrap());
            let mut heard = None;
            // At one of the three tokens of a login the client sends something else.
            let at = dice.roll(3);
            for step in 0..3 {
                let (ClientGss::Continue(said) | ClientGss::Complete { token: said, .. }) =
                    initiating.step(heard.as_deref()).unwrap();
                let said = said.unwrap();
                let changed = if step == at { dice.changed(&said) } else { said.clone() };
                match accepting.step(&changed) {
                    Ok(GssOutcome::Continue(token)) => heard = Some(token),
                    // How its parts are turned is not protected, what they say is.
                    Ok(GssOutcome::Done { name, qop, acting_as, .. }) => {
                        let done = (name.as_str(), qop, acting_as.as_str());
                        assert_eq!(done, ("ada@EXAMPLE.COM", Qop::Privacy, ""), "round {round}");
                    }
                    Err(_) => break,
                }
            }
        }
    });
}

#[test]
fn a_proof_counts_once() {
    story(|kdc| {
        let (server, client) = (kdc.server(), kdc.client());
        let token = first_token(&client);
        assert!(sent(&server, &token).is_ok());
        assert_eq!(trouble(sent(&server, &token)), Trouble::Replay);
    });
}

/// Where the list of proofs cannot be kept, nobody is let in.
#[test]
fn a_list_of_proofs_can_be_kept_elsewhere() {
    story(|kdc| {
        let (client, keytab) = (kdc.client(), kdc.known("nn.keytab", &["nn/localhost"]));
        let keeping = |place: &str| {
            let settings = AcceptorSettings {
                principal: principal("nn/localhost@EXAMPLE.COM"),
                keytab: keytab.clone(),
                replay_cache: Some(kdc.path(place)),
            };
            Acceptor::open(&settings).unwrap()
        };
        let (one, other) = (keeping("one"), keeping("other"));
        let token = first_token(&client);
        assert!(sent(&one, &token).is_ok());
        assert_eq!(trouble(sent(&one, &token)), Trouble::Replay);
        assert!(kdc.path("one").exists() && sent(&other, &token).is_ok(), "another list");
        let nowhere = keeping("no/such/folder/list");
        assert_eq!(trouble(sent(&nowhere, &first_token(&client))), Trouble::System);
    });
}
