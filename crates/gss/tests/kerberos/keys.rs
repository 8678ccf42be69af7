//! Keytabs that change while a server runs.

use crate::support::{acceptor, by_keytab, initiator, login, story, trouble};
use gss::Trouble;

#[test]
fn a_keytab_without_the_key_is_refused_at_the_start() {
    story(|kdc| {
        let keytab = kdc.known("dn.keytab", &["dn/localhost"]);
        assert_eq!(trouble(acceptor("nn/localhost@EXAMPLE.COM", &keytab)), Trouble::Keytab);
        assert_eq!(trouble(acceptor("nn/localhost@EXAMPLE.COM", &kdc.path("none.keytab"))), Trouble::Keytab);
        std::fs::write(kdc.path("torn.keytab"), b"\x05\x02\0\0").unwrap();
        assert_eq!(trouble(acceptor("nn/localhost@EXAMPLE.COM", &kdc.path("torn.keytab"))), Trouble::Keytab);
    });
}

#[test]
fn keys_change_under_a_running_server() {
    story(|kdc| {
        let (server, ada) = (kdc.server(), kdc.known("ada.keytab", &["ada"]));
        let before = initiator(kdc.kinit("ada", &ada, "before", &[]));
        kdc.ticket("before", "nn/localhost");
        assert!(login(&before, &server).is_ok());

        kdc.rotate("nn/localhost");
        let after = initiator(kdc.kinit("ada", &ada, "after", &[]));
        kdc.ticket("after", "nn/localhost");
        assert_eq!(trouble(login(&after, &server)), Trouble::StaleKey, "the keytab is one key behind");
        assert!(login(&before, &server).is_ok(), "a ticket by the key of before");

        // As `kadmin: ktadd` does: the new key is added, and nobody tells the server.
        kdc.keytab("nn.keytab", &["nn/localhost"]);
        assert!(login(&after, &server).is_ok() && login(&before, &server).is_ok());

        // As tools do that distribute keytabs: a file with the new key alone takes the place of the old one.
        let fresh = kdc.keytab("fresh.keytab", &["nn/localhost"]);
        std::fs::rename(fresh, kdc.path("nn.keytab")).unwrap();
        assert!(login(&after, &server).is_ok());
        assert_eq!(trouble(login(&before, &server)), Trouble::StaleKey);

        std::fs::remove_file(kdc.path("nn.keytab")).unwrap();
        assert_eq!(trouble(login(&after, &server)), Trouble::Keytab);
        kdc.keytab("nn.keytab", &["nn/localhost"]);
        assert!(login(&after, &server).is_ok(), "and it goes on as soon as the file is back");
    });
}

/// A key of the same number that is another one, as after a principal was removed and added anew.
#[test]
fn a_key_that_is_another_under_its_number_is_named() {
    story(|kdc| {
        let (server, client) = (kdc.server(), kdc.client());
        kdc.remove("nn/localhost");
        kdc.principal("nn/localhost");
        assert_eq!(trouble(login(&client, &server)), Trouble::StaleKey);
    });
}

#[test]
fn a_client_whose_key_was_changed_cannot_log_in() {
    story(|kdc| {
        let keytab = kdc.known("ada.keytab", &["ada"]);
        kdc.rotate("ada");
        assert_eq!(trouble(initiator(by_keytab("ada", &keytab)).login()), Trouble::StaleKey);
    });
}
