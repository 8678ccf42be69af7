//! What follows a login.

use crate::support::{connected, exchange, story, to_localhost};
use gss::Trouble;
use security::sasl::digest::Qop;
use security::sasl::rpc::Protector;

/// The sealed form of a piece, and the piece that it is.
fn carried(from: &mut dyn Protector, to: &mut dyn Protector, piece: &[u8]) -> Vec<u8> {
    let (mut sealed, mut opened) = (Vec::new(), Vec::new());
    let given = piece.to_vec();
    from.wrap(&given, &mut sealed).unwrap();
    let came = sealed.clone();
    to.unwrap(&came, &mut opened).unwrap();
    // MIT's library opens a message in place.
    assert!(opened == piece && given == piece && came == sealed, "what is only lent stays as it is");
    sealed
}

#[test]
fn pieces_of_any_length_pass_both_ways() {
    story(|kdc| {
        let (server, client) = (kdc.server(), kdc.client());
        for qop in [Qop::Integrity, Qop::Privacy] {
            let (mut ours, mut theirs) = connected(&client, &server, qop);
            let longest = ours.piece_len_max().unwrap();
            assert_eq!(longest, theirs.piece_len_max().unwrap());
            for len in [0, 1, 15, 16, 17, 1000, longest, longest + 1, 1 << 20] {
                let piece: Vec<u8> = b"a frame of many ".iter().copied().cycle().take(len).collect();
                for sealed in [carried(&mut ours, &mut theirs, &piece), carried(&mut theirs, &mut ours, &piece)] {
                    let is_readable = sealed.windows(16).any(|window| window == b"a frame of many ");
                    assert_eq!(is_readable, qop == Qop::Integrity && len >= 16, "{qop:?} {len}");
                    assert_eq!(sealed.len() <= 65_536, len <= longest, "{qop:?} {len}");
                }
            }
        }
    });
}

#[test]
fn nothing_is_sealed_where_authentication_is_enough() {
    story(|kdc| {
        let (server, client) = (kdc.server(), kdc.client());
        let (mut accepting, mut initiating) = (server.begin(&[Qop::Auth]), to_localhost(&client).unwrap());
        exchange(&mut initiating, &mut accepting).unwrap();
        let mut out = Vec::new();
        assert!(accepting.wrap(b"x", &mut out).is_err() && initiating.unwrap(b"x", &mut out).is_err());
        assert!(server.begin(&[Qop::Auth]).wrap(b"x", &mut out).is_err(), "before anything was agreed on");
        assert!(out.is_empty());
    });
}

#[test]
fn pieces_that_were_changed_or_come_again_are_refused() {
    story(|kdc| {
        let (server, client) = (kdc.server(), kdc.client());
        for qop in [Qop::Integrity, Qop::Privacy] {
            let (mut ours, mut theirs) = connected(&client, &server, qop);
            let mut refused = |sealed: &[u8], why: &str| {
                let mut opened = Vec::new();
                let error = theirs.unwrap(sealed, &mut opened).expect_err(why);
                assert!(opened.is_empty() && error.trouble() == Some(Trouble::Malformed), "{why}: {error}");
            };
            let mut sealed = |piece: &[u8]| {
                let mut sealed = Vec::new();
                ours.wrap(piece, &mut sealed).unwrap();
                sealed
            };
            let first = sealed(b"first");
            for at in 0..first.len() {
                let mut changed = first.clone();
                changed[at] ^= 1;
                refused(&changed, "a bit was changed");
                refused(&first[..at], "an end is missing");
            }
            let second = sealed(b"second");
            refused(&second, "one is missing before it");
            let (mut again, mut opened) = (connected(&client, &server, qop), Vec::new());
            let mut one = Vec::new();
            again.0.wrap(b"one", &mut one).unwrap();
            again.1.unwrap(&one, &mut opened).unwrap();
            let error = again.1.unwrap(&one, &mut opened).unwrap_err();
            assert_eq!((error.trouble(), opened.as_slice()), (Some(Trouble::Malformed), &b"one"[..]), "{error}");
            assert!(again.0.unwrap(&one, &mut opened).is_err(), "one's own comes back");
        }
    });
}
