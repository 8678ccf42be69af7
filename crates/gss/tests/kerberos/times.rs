//! Clocks that are wrong, and tickets that end.

use crate::support::{acceptor, by_keytab, connected, first_token, initiator, login, story, trouble};
use gss::Trouble;
use security::sasl::digest::Qop;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const TOKEN: &str = "LEVADA_TEST_TOKEN";
const KEYTAB: &str = "LEVADA_TEST_KEYTAB";

/// What a server says to a client's first token whose clock is `offset` ahead: it is [`another_clock`] in a process of
/// its own.
fn said_at(offset: &str, token: &[u8], keytab: &Path) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, token).unwrap();
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "times::another_clock", "--nocapture", "--quiet"])
        .envs([(TOKEN, file.as_os_str()), (KEYTAB, keytab.as_os_str())])
        .env("LD_PRELOAD", std::env::var_os("LEVADA_FAKETIME").expect("libfaketime"))
        .env("FAKETIME", offset)
        .output()
        .unwrap();
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// The server of [`said_at`]; nothing if it is called as a test.
#[test]
fn another_clock() {
    let (Some(token), Some(keytab)) = (std::env::var_os(TOKEN), std::env::var_os(KEYTAB)) else { return };
    let server = acceptor("nn/localhost@EXAMPLE.COM", Path::new(&keytab)).unwrap();
    match server.begin(&Qop::ALL).step(&std::fs::read(token).unwrap()) {
        Ok(_) => println!("let in"),
        Err(error) => println!("{} | {error}", error.told()),
    }
}

#[test]
fn a_server_whose_clock_is_wrong_says_so() {
    story(|kdc| {
        let (client, keytab) = (kdc.client(), kdc.known("nn.keytab", &["nn/localhost"]));
        let said = |offset| said_at(offset, &first_token(&client), &keytab);
        assert!(said("+2m").contains("let in"), "within what Kerberos allows for");
        let ahead = said("+10m");
        assert!(ahead.contains("Clock skew too great | Kerberos login of a client"), "{ahead}");
        assert!(ahead.contains("NTP"), "{ahead}");
        let behind = said("-10m");
        assert!(behind.contains("Ticket not yet valid"), "it was made just now: {behind}");
        let late = said("+2d");
        assert!(late.contains("Ticket expired"), "{late}");
    });
}

fn wait(seconds: u64) {
    #[expect(clippy::disallowed_methods, reason = "a ticket's life passes on the KDC's clock")]
    std::thread::sleep(Duration::from_secs(seconds));
}

#[test]
fn a_ticket_that_has_ended_is_named() {
    story(|kdc| {
        let (server, keytab) = (kdc.server(), kdc.known("ada.keytab", &["ada"]));
        let short = initiator(kdc.kinit("ada", &keytab, "short", &["-l", "10s"]));
        assert!(login(&short, &server).is_ok());
        wait(11);
        assert_eq!(trouble(login(&short, &server)), Trouble::TicketExpired);
    });
}

#[test]
fn a_keytab_gets_new_tickets_before_the_old_ones_end() {
    story(|kdc| {
        let server = kdc.server();
        kdc.short_lived("ada", "8s");
        let client = initiator(by_keytab("ada", &kdc.keytab("ada.keytab", &["ada"])));
        assert!(client.login().unwrap().seconds_left <= 8);
        assert!(login(&client, &server).is_ok());
        wait(9);
        assert!(login(&client, &server).is_ok());
        assert!(client.login().unwrap().seconds_left > 0);
    });
}

/// Hadoop's connections live as long as they are used, whatever becomes of the ticket.
#[test]
fn a_connection_outlives_its_ticket() {
    story(|kdc| {
        let server = kdc.server();
        kdc.short_lived("ada", "6s");
        let client = initiator(by_keytab("ada", &kdc.keytab("ada.keytab", &["ada"])));
        let (mut ours, mut theirs) = connected(&client, &server, Qop::Privacy);
        wait(8);
        let mut opened = Vec::new();
        for _ in 0..2 {
            let mut sealed = Vec::new();
            ours.wrap(b"still here", &mut sealed).unwrap();
            theirs.unwrap(&sealed, &mut opened).unwrap();
        }
        assert_eq!(opened, b"still herestill here");
    });
}
