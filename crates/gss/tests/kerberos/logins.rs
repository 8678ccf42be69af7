//! Who gets in, and who does not.

use crate::support::{acceptor, by_keytab, exchange, initiator, login, story, to_localhost, trouble};
use gss::{Initiator, Tickets, Trouble};
use security::sasl::digest::Qop;

#[test]
fn a_client_logs_in_by_a_keytab() {
    story(|kdc| {
        let maps = || std::fs::read_to_string("/proc/self/maps").expect("a file").contains("libgssapi");
        assert!(!maps(), "no library before it is needed");
        let environment: Vec<_> = std::env::vars_os().collect();
        let (server, client) = (kdc.server(), kdc.client());
        let known = client.login().unwrap();
        assert_eq!(known.name, "ada@EXAMPLE.COM");
        assert!(known.seconds_left > 80_000, "a day: {known:?}");
        let mut accepting = server.begin(&Qop::ALL);
        let agreed = exchange(&mut to_localhost(&client).unwrap(), &mut accepting).unwrap();
        assert_eq!(agreed, ("ada@EXAMPLE.COM".into(), Qop::Privacy), "the client's first choice");
        assert!(accepting.seconds_left().is_some_and(|seconds| seconds > 80_000));
        assert!(maps() && environment == std::env::vars_os().collect::<Vec<_>>());
    });
}

#[test]
fn a_client_logs_in_by_the_tickets_of_kinit() {
    story(|kdc| {
        let (server, keytab) = (kdc.server(), kdc.known("ada.keytab", &["ada"]));
        let named = kdc.kinit("ada", &keytab, "named", &[]);
        assert_eq!(login(&initiator(named), &server).unwrap(), "ada@EXAMPLE.COM");
        let default = initiator(Tickets::DefaultCache);
        assert_eq!(trouble(login(&default, &server)), Trouble::NoTicket);
        // Where krb5.conf of the tests has it.
        kdc.kinit("ada", &keytab, "ccache", &[]);
        assert_eq!(login(&default, &server).unwrap(), "ada@EXAMPLE.COM");
    });
}

#[test]
fn both_ends_have_to_agree_on_a_protection() {
    story(|kdc| {
        let (server, client) = (kdc.server(), kdc.client());
        let agreed = |offered: &[Qop], accepted: &[Qop]| {
            let mut client = client.begin("nn", "localhost", accepted).unwrap();
            exchange(&mut client, &mut server.begin(offered)).map(|(_, qop)| qop).map_err(|error| error.told())
        };
        assert_eq!(agreed(&[Qop::Auth, Qop::Integrity], &[Qop::Privacy, Qop::Integrity]), Ok(Qop::Integrity));
        assert_eq!(agreed(&[Qop::Auth], &[Qop::Auth]), Ok(Qop::Auth));
        let nothing = "no common protection layer between client and server";
        assert_eq!(agreed(&[Qop::Auth], &[Qop::Privacy]), Err(nothing.to_owned()));
    });
}

#[test]
fn a_ticket_for_another_service_is_none() {
    story(|kdc| {
        let keytab = kdc.known("both.keytab", &["nn/localhost", "dn/localhost"]);
        let server = acceptor("nn/localhost@EXAMPLE.COM", &keytab).unwrap();
        let client = kdc.client();
        let to = |service: &str| {
            let mut client = client.begin(service, "localhost", &Qop::ALL)?;
            exchange(&mut client, &mut server.begin(&Qop::ALL))
        };
        assert!(to("nn").is_ok());
        // The server could open this one, as it has the key.
        assert_eq!(trouble(to("dn")), Trouble::WrongService);
        assert_eq!(trouble(to("nobody")), Trouble::UnknownServer);
    });
}

/// As krb5.conf comes, DNS may have another name for the server's host. Java does not ask it; what only DNS knows is
/// found all the same.
#[test]
fn a_server_is_taken_by_the_name_that_the_client_has_for_it() {
    story(|kdc| {
        let conf = kdc.path("krb5.conf");
        let text = std::fs::read_to_string(&conf).expect("a file");
        let is_default = |line: &&str| !line.contains("dns_canonicalize_hostname") && !line.contains("rdns");
        std::fs::write(&conf, text.lines().filter(is_default).collect::<Vec<_>>().join("\n")).expect("a file");
        let keytab = kdc.known("nn.keytab", &["nn/127.0.0.1", "nn/localhost"]);
        let to = |client: &Initiator, name: &str| {
            let server = acceptor(name, &keytab).unwrap();
            exchange(&mut client.begin("nn", "127.0.0.1", &Qop::ALL)?, &mut server.begin(&Qop::ALL))
        };
        let agreed = to(&kdc.client(), "nn/127.0.0.1@EXAMPLE.COM");
        assert!(agreed.is_ok(), "the address is localhost by DNS: {agreed:?}");
        // Bob has no ticket for it yet.
        kdc.remove("nn/127.0.0.1");
        let bob = initiator(by_keytab("bob", &kdc.known("bob.keytab", &["bob"])));
        let agreed = to(&bob, "nn/localhost@EXAMPLE.COM");
        assert!(agreed.is_ok(), "{agreed:?}");
    });
}

#[test]
fn a_user_who_cannot_log_in_is_told_why() {
    story(|kdc| {
        let keytab = kdc.known("ada.keytab", &["ada", "bob"]);
        let refused = |name: &str, keytab: &std::path::Path| trouble(initiator(by_keytab(name, keytab)).login());
        assert_eq!(refused("eve", &keytab), Trouble::Keytab, "no key of hers");
        assert_eq!(refused("ada", &kdc.path("none.keytab")), Trouble::Keytab);
        kdc.remove("bob");
        assert_eq!(refused("bob", &keytab), Trouble::UnknownClient);
        assert_eq!(refused("ada@NOWHERE.COM", &kdc.path("none.keytab")), Trouble::Keytab);
        let cache = initiator(Tickets::Cache("FILE:/nowhere/at/all".into()));
        assert_eq!(trouble(cache.login()), Trouble::NoTicket);
    });
}

#[test]
fn a_kdc_that_is_away_is_named() {
    story(|kdc| {
        let keytab = kdc.known("ada.keytab", &["ada"]);
        kdc.kill();
        assert_eq!(trouble(initiator(by_keytab("ada", &keytab)).login()), Trouble::KdcUnreachable);
    });
}

#[test]
fn a_user_of_a_trusted_realm_keeps_its_realm() {
    story(|kdc| {
        kdc.trust();
        let name = "nn/host.other.com@OTHER.COM";
        let server = acceptor(name, &kdc.known("other.keytab", &[name])).unwrap();
        let ada = by_keytab("ada", &kdc.known("ada.keytab", &["ada"]));
        for realm in [Some("OTHER.COM".to_owned()), None] {
            let client = Initiator::new(ada.clone(), realm.clone()).unwrap();
            let mut client = client.begin("nn", "host.other.com", &Qop::ALL).unwrap();
            let agreed = exchange(&mut client, &mut server.begin(&Qop::ALL)).unwrap();
            assert_eq!(agreed.0, "ada@EXAMPLE.COM", "{realm:?}");
        }
        // There is no trust in the other direction.
        let bob = by_keytab("bob@OTHER.COM", &kdc.known("bob.keytab", &["bob@OTHER.COM"]));
        let bob = Initiator::new(bob, Some("EXAMPLE.COM".into())).unwrap();
        let home = kdc.server();
        let mut client = bob.begin("nn", "localhost", &Qop::ALL).unwrap();
        let refused = trouble(exchange(&mut client, &mut home.begin(&Qop::ALL)));
        assert_eq!(refused, Trouble::UnknownServer, "which is the other realm's krbtgt");
    });
}
