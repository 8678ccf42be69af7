//! The other end is the JDK's, which Hadoop's clients and servers use.

use crate::support::{Kdc, acceptor, by_keytab, initiator, story};
use gss::{Accepting, Initiating};
use security::sasl::digest::Qop;
use security::sasl::rpc::{ClientGss, GssOutcome, Protector};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A process of tests/Jdk.java.
struct Jdk {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Jdk {
    fn start(kdc: &Kdc, role: &str, principal: &str, keytab: &Path, qops: &[Qop]) -> Self {
        let qops: Vec<&str> = qops.iter().map(|qop| qop.name()).collect();
        let mut child = Command::new("java")
            .arg(format!("-Djava.security.krb5.conf={}", kdc.path("krb5.conf").display()))
            .args(["-Xlog:disable", "-XX:TieredStopAtLevel=1"])
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/Jdk.java"))
            .args([role, principal])
            .arg(keytab)
            .args(["nn", "localhost", &qops.join(",")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a JDK of 17 or newer");
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, to, from }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.from.read_line(&mut line).unwrap() > 0, "the JDK's end has ended");
        line.trim_end().to_owned()
    }

    fn token(&mut self) -> Vec<u8> {
        bytes(&self.line())
    }

    fn say(&mut self, what: &str, token: &[u8]) {
        let hex = token.iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        });
        writeln!(self.to, "{what}{hex}").unwrap();
    }

    /// Pieces both ways, and one that comes twice.
    fn exchanges_pieces_with(&mut self, ours: &mut dyn Protector) {
        for len in [1, 100, 60 << 10] {
            let piece: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let (mut sealed, mut opened) = (Vec::new(), Vec::new());
            ours.wrap(&piece, &mut sealed).unwrap();
            self.say("unwrap ", &sealed);
            assert!(self.token() == piece, "{len} bytes to the JDK");
            self.say("wrap ", &piece);
            let sealed = self.token();
            ours.unwrap(&sealed, &mut opened).unwrap();
            assert!(opened == piece, "{len} bytes from the JDK");
            assert!(ours.unwrap(&sealed, &mut opened).is_err(), "twice");
        }
    }
}

impl Drop for Jdk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect(hex)).collect()
}

#[test]
fn clients_of_the_jdk_log_in() {
    story(|kdc| {
        let (server, keytab) = (kdc.server(), kdc.known("ada.keytab", &["ada"]));
        for qop in Qop::ALL {
            let mut jdk = Jdk::start(kdc, "client", "ada@EXAMPLE.COM", &keytab, &[qop]);
            let mut accepting: Accepting = server.begin(&Qop::ALL);
            loop {
                match accepting.step(&jdk.token()).unwrap() {
                    GssOutcome::Continue(token) => jdk.say("", &token),
                    GssOutcome::Done { name, qop: agreed, acting_as, .. } => {
                        assert_eq!((name.as_str(), agreed, acting_as.as_str()), ("ada@EXAMPLE.COM", qop, ""));
                        break;
                    }
                }
            }
            assert_eq!(jdk.line(), format!("done {} -", qop.name()));
            if qop != Qop::Auth {
                jdk.exchanges_pieces_with(&mut accepting);
            }
        }
    });
}

#[test]
fn servers_of_the_jdk_let_in() {
    story(|kdc| {
        let keytab = kdc.known("nn.keytab", &["nn/localhost"]);
        let client = initiator(by_keytab("ada", &kdc.known("ada.keytab", &["ada"])));
        assert!(acceptor("nn/localhost@EXAMPLE.COM", &keytab).is_ok());
        for qop in Qop::ALL {
            let mut jdk = Jdk::start(kdc, "server", "nn/localhost@EXAMPLE.COM", &keytab, &Qop::ALL);
            assert_eq!(jdk.line(), "ready");
            let mut initiating: Initiating = client.begin("nn", "localhost", &[qop]).unwrap();
            let mut heard = None;
            let agreed = loop {
                match initiating.step(heard.as_deref()).unwrap() {
                    ClientGss::Continue(token) => {
                        jdk.say("", &token.unwrap());
                        heard = Some(jdk.token());
                    }
                    ClientGss::Complete { token, qop } => {
                        jdk.say("", &token.unwrap());
                        break qop;
                    }
                }
            };
            assert_eq!((agreed, jdk.line()), (qop, format!("done {} ada@EXAMPLE.COM", qop.name())));
            if qop != Qop::Auth {
                jdk.exchanges_pieces_with(&mut initiating);
            }
        }
    });
}
