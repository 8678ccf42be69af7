//! What a node proves itself with, and whom it believes: the files of one directory.
//!
//! ```text
//! DIR/node.crt   the node's certificate
//! DIR/node.key   its key, for its owner alone
//! DIR/ca.crt     the authorities that it believes, one or, while one takes the place of another, several
//! ```

use crate::authority::Authority;
use crate::ending::{self, DUE_BEFORE_END, Date, Term, Watch};
use crate::error::TlsError;
use crate::files::{self, AUTHORITIES, CERTIFICATE, KEY};
use crate::follow;
use crate::hosts::{self, Host};
use crate::opening::{Hello, Socket};
use crate::pem;
use crate::verify::{self, ServerVerifier, Trust, certified};
use ::io::{Clock, SystemClock};
use rustls::client::WantsClientCert;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, ServerConfig};
use security::node_name::{Certified, Expected, NodeName};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, TlsStream};
use types::Millis;

/// Longer than any certificate counts, that of an authority too.
const END_AFTER_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Between two looks at whether the certificate of an open connection still counts: as for files, since one reason is
/// that an authority was taken out of them.
const LOOK_EACH: Duration = follow::FOLLOW_EACH;

/// A connection behind its handshake.
pub type Stream = TlsStream<Socket>;

/// The certificate that the other end of a connection has shown in its handshake.
#[derive(Clone, Debug)]
pub struct Shown(CertificateDer<'static>);

impl Shown {
    /// `None`: it has shown none.
    pub fn of(stream: &Stream) -> Option<Self> {
        let shown = stream.get_ref().1.peer_certificates()?.first()?;
        Some(Self(shown.clone().into_owned()))
    }
}

/// See the module. Handshakes go by the files as they were when they were read last.
pub struct Credentials {
    dir: PathBuf,
    name: NodeName,
    look_each: Duration,
    current: RwLock<Arc<Current>>,
}

/// What follows from the files.
pub(crate) struct Current {
    /// Of all files.
    digest: [u8; 32],
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    server: Arc<ServerConfig>,
    joined_by: Option<u32>,
    /// Its end, once it was looked for: many signatures are verified to find it.
    end: OnceLock<Millis>,
}

impl Current {
    /// Whether those who believe what this node believes take its certificate at that time.
    pub(crate) fn is_valid(&self, at: Millis) -> bool {
        self.chain.first().is_some_and(|own| verify::is_valid(own, &self.roots, at))
    }

    fn issued_at(&self) -> Option<Millis> {
        self.chain.first().and_then(verify::issued_at)
    }

    /// From when on it is refused: its own end, past or to come. `None`: it counts neither now nor when it was signed.
    fn end(&self, now: Millis) -> Option<Millis> {
        if let Some(end) = self.end.get() {
            return Some(*end);
        }
        let found = self.end_after(now).or_else(|| self.end_after(self.issued_at()?))?;
        Some(*self.end.get_or_init(|| found))
    }

    /// Whoever verifies tells yes or no, so the date is found by asking.
    fn end_after(&self, time: Millis) -> Option<Millis> {
        // Any number may stand where an authority of ours writes when it signed.
        let is_valid = |seconds: u64| self.is_valid(Millis(seconds.saturating_mul(1000)));
        let mut yes = time.0 / 1000;
        let mut no = yes + END_AFTER_MAX.as_secs();
        if !is_valid(yes) {
            return None;
        }
        while no - yes > 1 {
            let middle = yes + (no - yes) / 2;
            if is_valid(middle) { yes = middle } else { no = middle }
        }
        Some(Millis(no.saturating_mul(1000)))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({} in {})", self.name, self.dir.display())
    }
}

impl Credentials {
    /// Whether there is a certificate in this directory. Waits for the disk.
    pub fn is_at(dir: &Path) -> bool {
        dir.join(CERTIFICATE).exists()
    }

    /// Waits for the disk.
    pub fn open(dir: &Path) -> Result<Self, TlsError> {
        let (name, current) = read(dir)?;
        Ok(Self { dir: dir.to_owned(), name, look_each: LOOK_EACH, current: RwLock::new(Arc::new(current)) })
    }

    /// The same, for who looks more often, or less, at whether what was shown still counts.
    pub fn looking_each(self, look_each: Duration) -> Self {
        Self { look_each, ..self }
    }

    /// How often who has a connection asks [`Self::still_counts`].
    pub fn look_each(&self) -> Duration {
        self.look_each
    }

    /// Whether the other end would be taken for what it is by a handshake now: its certificate has not ended, and is of
    /// an authority that is believed here.
    pub fn still_counts(&self, shown: &Shown) -> bool {
        verify::is_valid(&shown.0, &self.current().roots, SystemClock::new().now())
    }

    pub fn name(&self) -> NodeName {
        self.name
    }

    fn current(&self) -> Arc<Current> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the files again, and goes by them from then on if they can be used; otherwise as before. Answers whether
    /// they have changed. Connections that are open stay. Waits for the disk.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let (name, read) = read(&self.dir)?;
        if name != self.name {
            let why = format!("it names {name}, and this process is {}", self.name);
            return Err(TlsError::content(&self.dir.join(CERTIFICATE), why));
        }
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let has_changed = current.digest != read.digest;
        if has_changed {
            *current = Arc::new(read);
        }
        Ok(has_changed)
    }

    /// Whether what this authority signs is believed here.
    pub fn believes(&self, authority: &Authority) -> bool {
        self.current().chain[1..].iter().any(|root| pem::fingerprint(root) == authority.fingerprint())
    }

    /// Whether this authority has signed the certificate: who knows nothing else of the store takes it then.
    pub fn is_signed_by(&self, authority: &Authority, now: Millis) -> bool {
        let current = self.current();
        let Some((own, known)) = current.chain.split_first() else { return false };
        let mut roots = RootCertStore::empty();
        let of_authority = known.iter().filter(|root| pem::fingerprint(root) == authority.fingerprint());
        of_authority.for_each(|root| drop(roots.add(root.clone())));
        verify::is_valid(own, &roots, now)
    }

    /// Whether it is time for another certificate.
    pub fn is_due(&self, now: Millis) -> bool {
        let (current, then) = (self.current(), Millis(now.0 + DUE_BEFORE_END.as_millis() as u64));
        !current.is_valid(now) || !current.is_valid(then)
    }

    /// Whether the certificate has not ended, and is of an authority that is believed here.
    pub fn is_valid(&self, now: Millis) -> bool {
        self.current().is_valid(now)
    }

    /// When it was signed, of a certificate by an authority of ours.
    pub fn issued_at(&self) -> Option<Millis> {
        self.current().issued_at()
    }

    /// From when on it is refused. `None`: it is refused now. To the second, as certificates have it.
    pub fn ends_at(&self, now: Millis) -> Option<Millis> {
        let current = self.current();
        current.end(now).filter(|_| current.is_valid(now))
    }

    /// The same, also of one that has ended. `None`: it counts neither now nor when it was signed.
    pub fn end(&self, now: Millis) -> Option<Millis> {
        self.current().end(now)
    }

    /// What to say to who runs this server if its certificate has ended: since when, and what to do.
    pub fn ended(&self, now: Millis) -> Option<String> {
        let current = self.current();
        let end = current.end(now).filter(|end| *end <= now && !current.is_valid(now))?;
        let (dir, end, advice) = (self.dir.display(), Date(end), ending::advice(self.name));
        Some(format!("the certificate of {} in {dir} ended on {end}: {advice}", self.name))
    }

    /// The node's certificate (DER), without those of authorities.
    pub fn certificate(&self) -> Vec<u8> {
        self.current().chain.first().map_or_else(Vec::new, |own| own.to_vec())
    }

    /// The addresses and names of hosts that it has, for clients of HTTP.
    pub fn hosts(&self) -> Vec<Host> {
        self.current().chain.first().map_or_else(Vec::new, hosts::hosts_of)
    }

    /// The number of the token by which this node joined, if it did; also of a certificate that came in place of that
    /// which it got by it.
    pub fn joined_by(&self) -> Option<u32> {
        self.current().joined_by
    }

    /// Looks at the files again and again, so that a new certificate is used without a restart, and says so in the log
    /// as its end comes near, and when it has ended.
    pub async fn follow(self: Arc<Self>) {
        let (name, watch) = (self.name.to_string(), Mutex::new(Watch::default()));
        let reload = move || {
            // What cannot be read does not keep the one that counts from its end.
            let has_changed = self.reload();
            self.look(&mut watch.lock().unwrap_or_else(PoisonError::into_inner), SystemClock::new().now());
            has_changed
        };
        follow::follow(name, reload).await;
    }

    fn look(&self, watch: &mut Watch, now: Millis) {
        let current = self.current();
        let term = Term { end: current.end(now), is_valid: current.is_valid(now) };
        if let Some(stage) = watch.look(self.name, term, now) {
            ending::log(stage, self.name, &self.dir);
        }
    }

    /// The end that was dialled. `None`: the other end has no certificate, and is to prove otherwise who it is. One
    /// with a certificate that does not count is refused.
    pub async fn accept(&self, hello: Hello) -> io::Result<(Stream, Option<Certified>)> {
        let server = Arc::clone(&self.current().server);
        let mut stream = hello.0.into_stream(server).await?;
        stream.get_mut().0.opened();
        let name = match stream.get_ref().1.peer_certificates() {
            Some([certificate, ..]) => Some(certified(certificate).ok_or_else(no_node)?),
            _ => None,
        };
        Ok((stream.into(), name))
    }

    /// The end that dials. Nothing is told to anybody else than whom it expects.
    pub async fn connect(&self, socket: TcpStream, expected: Expected) -> io::Result<Stream> {
        let current = self.current();
        let config = client_config(Trust::Roots(Arc::clone(&current.roots)), expected)
            .and_then(|config| config.with_client_auth_cert(current.chain.clone(), current.key.clone_key()))
            .map_err(io::Error::other)?;
        dial(config, socket, expected).await
    }
}

/// The end that dials and has no certificate yet: it finds a metadata server of the store whose authority has this
/// fingerprint ([`crate::Authority::fingerprint`]), or nobody hears a word of it.
pub async fn introduce(socket: TcpStream, authority: [u8; 32]) -> io::Result<Stream> {
    let expected = Expected::AnyMember;
    let config = client_config(Trust::Fingerprint(authority), expected).map_err(io::Error::other)?;
    dial(config.with_no_client_auth(), socket, expected).await
}

async fn dial(mut config: ClientConfig, socket: TcpStream, expected: Expected) -> io::Result<Stream> {
    config.resumption = rustls::client::Resumption::disabled();
    config.enable_sni = false;
    // The certificate says who it is; the address says nothing.
    let address = ServerName::IpAddress(IpAddr::V4(Ipv4Addr::UNSPECIFIED).into());
    let stream = TlsConnector::from(Arc::new(config)).connect(address, Socket::new(socket, None)).await;
    let mut stream =
        stream.map_err(|error| io::Error::new(error.kind(), format!("{expected} is expected: {error}")))?;
    stream.get_mut().0.opened();
    Ok(stream.into())
}

fn no_node() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the certificate names no node")
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn client_config(
    trust: Trust,
    expected: Expected,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, rustls::Error> {
    let provider = provider();
    let algorithms = provider.signature_verification_algorithms;
    let verifier = ServerVerifier { trust, algorithms, expected };
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    Ok(config)
}

fn server_config(
    roots: &Arc<RootCertStore>,
    chain: &[CertificateDer<'static>],
    key: &PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let provider = provider();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain.to_vec(), key.clone_key())?;
    Ok(quiet_server(config))
}

/// No session is resumed: such a one has no handshake that could be refused.
pub(crate) fn quiet_server(mut config: ServerConfig) -> ServerConfig {
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config
}

fn read(dir: &Path) -> Result<(NodeName, Current), TlsError> {
    files::finish_pair(dir)?;
    let [certificate, key] = [CERTIFICATE, KEY].map(|name| dir.join(name));
    usable(dir, &files::read(&certificate)?, &files::read_key(&key)?, &files::read(&dir.join(AUTHORITIES))?)
}

/// What follows from files of `dir` with these contents, if a node can be by them.
pub(crate) fn usable(
    dir: &Path,
    certificate_text: &str,
    key_text: &str,
    authorities_text: &str,
) -> Result<(NodeName, Current), TlsError> {
    let (certificate, key, authorities) = (dir.join(CERTIFICATE), dir.join(KEY), dir.join(AUTHORITIES));
    let digest = files::digest(&[certificate_text, key_text, authorities_text]);
    let mut chain = pem::certificates(&certificate, certificate_text)?;
    let of_node = || TlsError::content(&certificate, "it names no node of a store, or no authority of one made it");
    let Certified { name, .. } = certified(&chain[0]).ok_or_else(of_node)?;
    let (roots, all) = pem::roots(&authorities, authorities_text)?;
    // So that who has but the authority's fingerprint can believe this node.
    chain.extend(all);
    let key_of = PrivateKeyDer::from_pem_slice(key_text.as_bytes());
    let key = key_of.map_err(|error| TlsError::content(&key, error))?;
    let roots = Arc::new(roots);
    let server = Arc::new(server_config(&roots, &chain, &key)?);
    Ok((
        name,
        Current {
            digest,
            roots,
            chain,
            key,
            server,
            joined_by: pem::joined_by(certificate_text),
            end: OnceLock::new(),
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::NodeId;

    const DAY_MS: u64 = 24 * 3600 * 1000;

    #[test]
    fn the_end_of_a_certificate_is_known_before_and_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let [ca, home, other] = ["ca", "home", "other"].map(|name| dir.path().join(name));
        let (signed, id) = (Millis(1_795_249_805_000), NodeId([7; 16]));
        let authority = Authority::open_or_make(&ca, signed).unwrap();
        authority.equip(&home, NodeName::Datanode(id), &[], signed).unwrap();
        let end = Millis(signed.0 + 90 * DAY_MS + 1000);
        for day in [200, 1] {
            // Each time anew: what was found is kept.
            let credentials = Credentials::open(&home).unwrap();
            let now = Millis(signed.0 + day * DAY_MS);
            assert_eq!(credentials.end(now), Some(end), "on day {day}");
            assert_eq!(credentials.ends_at(now), Some(end).filter(|end| now < *end));
            let ended = credentials.ended(now);
            assert_eq!(ended.is_some(), day == 200);
            if let Some(text) = ended {
                assert!(text.contains("ended on 2027-02-19 08:30:06 UTC"), "{text}");
                assert!(text.contains(&format!("invite --datanode {id}")), "{text}");
            }
        }
        // By an authority that this node does not believe it never counted, so it has no end either.
        Authority::open_or_make(&other, signed).unwrap();
        std::fs::copy(other.join(AUTHORITIES), home.join(AUTHORITIES)).unwrap();
        let credentials = Credentials::open(&home).unwrap();
        assert_eq!((credentials.end(signed), credentials.ended(Millis(end.0 + 1))), (None, None));
    }
}
