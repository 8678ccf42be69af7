//! A KDC (tests/interop/kdc.py), and both ends of an exchange in one process.

use gss::{Accepting, Acceptor, AcceptorSettings, Error, Initiating, Initiator, Tickets, Trouble};
use security::kerberos_name::KerberosName;
use security::sasl::digest::Qop;
use security::sasl::rpc::{ClientGss, GssOutcome};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The realms of each KDC. The first one is the default.
const REALMS: [&str; 2] = ["EXAMPLE.COM", "OTHER.COM"];
/// Where the KDC is, for the process in which a story is told.
const PLACE: &str = "LEVADA_KDC";

pub(crate) fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/interop/kdc.py")
}

/// Runs the calling test once more, in a process whose environment leads to a KDC, and tells the story there. The
/// library reads the environment at any time, so it has to be right from the process' start on.
pub(crate) fn story<F: FnOnce(&Kdc)>(tell: F) {
    if let Some(place) = std::env::var_os(PLACE) {
        return tell(&Kdc { place: place.into() });
    }
    // `kerberos::keys::rotated::{{closure}}`: the test's own name is in its closure's.
    let name = std::any::type_name::<F>();
    let name = name.strip_suffix("::{{closure}}").expect("a closure of the test");
    let (_, name) = name.split_once("::").expect("the crate's name");
    let folder = tempfile::tempdir().expect("a folder");
    let done = Command::new("python3")
        .arg(script())
        .arg("run")
        .arg(folder.path())
        .args(REALMS)
        .arg("--")
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", name, "--nocapture", "--quiet"])
        .output()
        .expect("python3 runs");
    let said = [done.stdout, done.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    println!("{}", said.concat());
    assert!(done.status.success(), "{name}: see what its process said above");
}

pub(crate) struct Kdc {
    place: PathBuf,
}

impl Kdc {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    fn call(&self, words: &[&str]) {
        let status = Command::new("python3").arg(script()).arg("call").arg(&self.place).args(words).status();
        assert!(status.expect("python3 runs").success(), "{words:?}");
    }

    pub(crate) fn principal(&self, name: &str) {
        self.call(&["principal", name]);
    }

    /// Whose tickets live no longer than `life`, as `5s`.
    pub(crate) fn short_lived(&self, name: &str, life: &str) {
        self.call(&["principal", name, life]);
    }

    pub(crate) fn rotate(&self, name: &str) {
        self.call(&["rotate", name]);
    }

    pub(crate) fn remove(&self, name: &str) {
        self.call(&["remove", name]);
    }

    /// The KDC ends.
    pub(crate) fn kill(&self) {
        self.call(&["kill"]);
    }

    /// Trust in one direction: users of the first realm come to servers of the second.
    pub(crate) fn trust(&self) {
        self.call(&["trust", REALMS[0], REALMS[1]]);
    }

    /// A keytab file, to which the current keys of `names` are added.
    pub(crate) fn keytab(&self, file: &str, names: &[&str]) -> PathBuf {
        let path = self.path(file);
        self.call(&[&["keytab", path.to_str().expect("UTF-8")], names].concat());
        path
    }

    /// Principals with their keys in a file.
    pub(crate) fn known(&self, file: &str, names: &[&str]) -> PathBuf {
        names.iter().for_each(|name| self.principal(name));
        self.keytab(file, names)
    }

    /// `kinit`, into a cache of this name.
    pub(crate) fn kinit(&self, name: &str, keytab: &Path, cache: &str, options: &[&str]) -> Tickets {
        let path = self.path(cache).display().to_string();
        self.call(&[&["kinit", name, keytab.to_str().expect("UTF-8"), &path], options].concat());
        Tickets::Cache(format!("FILE:{path}"))
    }

    pub(crate) fn ticket(&self, cache: &str, server: &str) {
        self.call(&["ticket", self.path(cache).to_str().expect("UTF-8"), server]);
    }

    /// `nn/localhost` by a keytab of its own.
    pub(crate) fn server(&self) -> Acceptor {
        acceptor("nn/localhost@EXAMPLE.COM", &self.known("nn.keytab", &["nn/localhost"])).expect("a keytab")
    }

    /// `ada` by a keytab of hers.
    pub(crate) fn client(&self) -> Initiator {
        initiator(by_keytab("ada", &self.known("ada.keytab", &["ada"])))
    }
}

pub(crate) fn principal(name: &str) -> KerberosName {
    KerberosName::parse(name).expect("a name")
}

pub(crate) fn acceptor(name: &str, keytab: &Path) -> Result<Acceptor, Error> {
    Acceptor::open(&AcceptorSettings { principal: principal(name), keytab: keytab.to_owned(), replay_cache: None })
}

pub(crate) fn by_keytab(name: &str, keytab: &Path) -> Tickets {
    Tickets::Keytab { principal: principal(name), keytab: keytab.to_owned() }
}

pub(crate) fn initiator(tickets: Tickets) -> Initiator {
    Initiator::new(tickets, None).expect("the library")
}

/// A login to `nn/localhost` that offers and accepts everything.
pub(crate) fn to_localhost(client: &Initiator) -> Result<Initiating, Error> {
    client.begin("nn", "localhost", &[Qop::Privacy, Qop::Integrity, Qop::Auth])
}

/// Who logged in, and how what follows is protected.
pub(crate) type Agreed = (String, Qop);

/// Both ends to their end, or to the first error of either.
pub(crate) fn exchange(client: &mut Initiating, server: &mut Accepting) -> Result<Agreed, Error> {
    let mut heard = None;
    loop {
        let (ClientGss::Continue(said) | ClientGss::Complete { token: said, .. }) = client.step(heard.as_deref())?;
        match server.step(&said.unwrap_or_default())? {
            GssOutcome::Continue(token) => heard = Some(token),
            GssOutcome::Done { name, qop, .. } => return Ok((name, qop)),
        }
    }
}

/// The name of a client that is let in.
pub(crate) fn login(client: &Initiator, server: &Acceptor) -> Result<String, Error> {
    let mut server = server.begin(&Qop::ALL);
    exchange(&mut to_localhost(client)?, &mut server).map(|(name, _)| name)
}

/// Both ends of a connection that is protected like this.
pub(crate) fn connected(client: &Initiator, server: &Acceptor, qop: Qop) -> (Initiating, Accepting) {
    let (mut server, mut client) = (server.begin(&[qop]), to_localhost(client).expect("tickets"));
    assert_eq!(exchange(&mut client, &mut server).expect("a login").1, qop);
    (client, server)
}

/// The first token of a login.
pub(crate) fn first_token(client: &Initiator) -> Vec<u8> {
    let Ok(ClientGss::Continue(Some(token))) = to_localhost(client).expect("tickets").step(None) else { panic!() };
    token
}

/// What is wrong, if it has been said in its words.
pub(crate) fn trouble<T>(result: Result<T, Error>) -> Trouble {
    let Err(error) = result else { panic!("no error") };
    let trouble = error.trouble().unwrap_or_else(|| panic!("{error}"));
    println!("{trouble:?}: {error}");
    trouble
}
