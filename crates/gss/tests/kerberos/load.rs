//! Many logins.

use crate::support::{exchange, login, story, to_localhost};
use security::sasl::digest::Qop;
use std::thread;

/// Of this process, in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("a file");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line");
    line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
}

#[test]
fn threads_log_in_at_once() {
    story(|kdc| {
        let (server, client) = (kdc.server(), kdc.client());
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        assert_eq!(login(&client, &server).unwrap(), "ada@EXAMPLE.COM");
                    }
                });
            }
        });
    });
}

/// Each login that is over gives all its memory back, also one that failed.
#[test]
fn ten_thousand_logins_leave_nothing() {
    story(|kdc| {
        let (server, client) = (kdc.server(), kdc.client());
        let some = |count: u32| {
            for number in 0..count {
                let (mut accepting, mut initiating) = (server.begin(&Qop::ALL), to_localhost(&client).unwrap());
                exchange(&mut initiating, &mut accepting).unwrap();
                let (mut sealed, mut opened) = (Vec::new(), Vec::new());
                initiating.wrap(b"a frame", &mut sealed).unwrap();
                accepting.unwrap(&sealed, &mut opened).unwrap();
                assert!(accepting.unwrap(&sealed, &mut opened).is_err());
                if number % 10 == 0 {
                    assert!(server.begin(&Qop::ALL).step(&sealed).is_err());
                }
            }
        };
        some(1000);
        let before = resident();
        some(10_000);
        let grown = resident().saturating_sub(before);
        println!("{before} KiB after 1,000 logins, {grown} KiB more after 10,000 further ones");
        // A leak of 50 bytes for each would show.
        assert!(grown < 512, "{before} KiB, and {grown} more");
    });
}
