//! The end of a node that asks for a certificate: its first one, or one in place of that which it has.
//!
//! Promise: each certificate has a key of its own, which never leaves the directory. So a key that was stolen is of no
//! use once its certificate is revoked, whatever the node gets later. Key and certificate are put in place together.
//! Who joins asks with the same key again for as long as it has the same token: whoever lost an answer asks for the
//! same. Whom a node knows the metadata servers by, it goes on to believe.

use crate::authority::Signed;
use crate::credentials::{Credentials, usable};
use crate::error::TlsError;
use crate::files::{self, AUTHORITIES, CERTIFICATE};
use crate::pem;
use ::io::{Clock, SystemClock};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use security::joining::JoinToken;
use security::node_name::NodeName;
use std::path::{Path, PathBuf};

/// See the module. All of it waits for the disk.
pub struct Newcomer {
    dir: PathBuf,
    key_text: String,
    public_key: Vec<u8>,
    comes: Comes,
}

enum Comes {
    ByToken {
        number: u32,
        /// By which it knew the server.
        authority: [u8; 32],
        /// Where the key waits for its certificate.
        pending: PathBuf,
    },
    /// In place of the certificate that this node shows.
    Again { name: NodeName, token: Option<u32> },
}

impl std::fmt::Debug for Newcomer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Newcomer({})", self.dir.display())
    }
}

impl Newcomer {
    /// For a node that joins by this token: with the key with which it asked before, or a new one. What may be in the
    /// directory stays until [`Self::install`].
    pub fn joining(dir: &Path, token: &JoinToken) -> Result<Self, TlsError> {
        let JoinToken { number, authority, .. } = *token;
        let pending = dir.join(format!("join-{number:08x}.key"));
        let (key, key_text) = if pending.exists() {
            let text = files::read_key(&pending)?;
            let der =
                PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|error| TlsError::content(&pending, error))?;
            let key = KeyPair::from_der_and_sign_algo(&der, &PKCS_ECDSA_P256_SHA256);
            (key.map_err(|error| TlsError::content(&pending, error))?, text)
        } else {
            files::make_dir(dir)?;
            let (key, text) = new_key()?;
            files::write(&pending, text.as_bytes())?;
            (key, text)
        };
        Ok(Self::of(dir, &key, key_text, Comes::ByToken { number, authority, pending }))
    }

    /// For a node that shows its certificate, with a new key, which is kept once its certificate is there.
    pub fn again(dir: &Path) -> Result<Self, TlsError> {
        let there = Credentials::open(dir)?;
        let (key, key_text) = new_key()?;
        Ok(Self::of(dir, &key, key_text, Comes::Again { name: there.name(), token: there.joined_by() }))
    }

    fn of(dir: &Path, key: &KeyPair, key_text: String, comes: Comes) -> Self {
        Self { dir: dir.to_owned(), key_text, public_key: key.public_key_raw().to_vec(), comes }
    }

    /// What is to be signed: a point of P-256, not compressed.
    pub fn public_key(&self) -> &[u8] {
        &self.public_key
    }

    /// Goes by what was signed, if it is for this key and for a datanode, and the servers that gave it are known by it.
    /// What is there stays otherwise.
    pub fn install(&self, signed: &Signed) -> Result<Credentials, TlsError> {
        let (path, authorities_path) = (self.dir.join(CERTIFICATE), self.dir.join(AUTHORITIES));
        let (authorities, token) = match &self.comes {
            // Whom the directory names besides, it does since another life.
            Comes::ByToken { number, authority, .. } => {
                let all = pem::certificates(&authorities_path, &signed.authorities)?;
                if !all.iter().any(|one| pem::fingerprint(one) == *authority) {
                    let why = "the authority that the token names is not among those that came with the certificate";
                    return Err(TlsError::content(&authorities_path, why));
                }
                (signed.authorities.clone(), Some(*number))
            }
            // By those that are there it knew the server, and may know others that were not replaced yet.
            Comes::Again { token, .. } => {
                let there = files::read(&authorities_path)?;
                (pem::union(&authorities_path, &[&there, &signed.authorities])?, *token)
            }
        };
        let certificate = pem::with_token(&signed.certificate, token);
        let (name, current) = usable(&self.dir, &certificate, &self.key_text, &authorities)?;
        if let NodeName::Member(_) = name {
            return Err(TlsError::content(&path, "it is a metadata server's, and was given to a datanode"));
        }
        if let Comes::Again { name: before, .. } = self.comes
            && before != name
        {
            return Err(TlsError::content(&path, format_args!("it is of {name}, and was given to {before}")));
        }
        if !current.is_valid(SystemClock::new().now()) {
            let why = "it is not of an authority that came with it, or does not count by this machine's clock";
            return Err(TlsError::content(&path, why));
        }
        files::write(&authorities_path, authorities.as_bytes())?;
        files::put_pair(&self.dir, &self.key_text, &certificate)?;
        if let Comes::ByToken { pending, .. } = &self.comes {
            files::remove(pending)?;
        }
        Credentials::open(&self.dir)
    }
}

fn new_key() -> Result<(KeyPair, String), TlsError> {
    let key = KeyPair::generate()?;
    let text = pem::encode("PRIVATE KEY", key.serialized_der());
    Ok((key, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Authority;
    use types::{Millis, NodeId};

    const NODE: NodeName = NodeName::Datanode(NodeId([7; 16]));

    struct World {
        dir: tempfile::TempDir,
        home: PathBuf,
    }

    impl World {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            Self { home: dir.path().join("data"), dir }
        }

        fn now(&self) -> Millis {
            SystemClock::new().now()
        }

        fn authority(&self, name: &str) -> Authority {
            Authority::open_or_make(&self.dir.path().join(name), self.now()).unwrap()
        }

        fn token(&self, number: u32) -> JoinToken {
            JoinToken { authority: self.authority("ca").fingerprint(), number, secret: [1; 16] }
        }

        fn signed(&self, authority: &str, name: NodeName, key: &[u8]) -> Signed {
            self.authority(authority).sign(name, key, &[], self.now(), self.now()).unwrap()
        }

        fn joined(&self, number: u32) -> Credentials {
            let newcomer = Newcomer::joining(&self.home, &self.token(number)).unwrap();
            newcomer.install(&self.signed("ca", NODE, newcomer.public_key())).unwrap()
        }

        fn key(&self) -> String {
            std::fs::read_to_string(self.home.join(files::KEY)).unwrap()
        }
    }

    #[test]
    fn a_certificate_of_another_key_or_server_is_refused() {
        let world = World::new();
        let newcomer = Newcomer::joining(&world.home, &world.token(1)).unwrap();
        let others = Newcomer::joining(&world.dir.path().join("other"), &world.token(1)).unwrap();
        let sign = |name, key: &[u8]| world.signed("ca", name, key);
        assert!(newcomer.install(&sign(NODE, others.public_key())).is_err(), "of another key");
        assert!(newcomer.install(&sign(NodeName::Member(1), newcomer.public_key())).is_err(), "a member's");
        assert!(newcomer.install(&world.signed("another", NODE, newcomer.public_key())).is_err(), "of another store");
        let foreign = world.signed("another", NODE, newcomer.public_key()).certificate;
        let mixed = Signed { certificate: foreign, ..sign(NODE, newcomer.public_key()) };
        assert!(newcomer.install(&mixed).is_err(), "nobody would believe it");
        assert!(Credentials::open(&world.home).is_err(), "nothing was installed");
        assert_eq!(newcomer.install(&sign(NODE, newcomer.public_key())).unwrap().name(), NODE);
        let again = Newcomer::again(&world.home).unwrap();
        let other = NodeName::Datanode(NodeId([8; 16]));
        assert!(again.install(&sign(NODE, others.public_key())).is_err());
        assert!(again.install(&sign(other, again.public_key())).is_err(), "of another datanode");
        assert_eq!(Credentials::open(&world.home).unwrap().name(), NODE, "the former one stays");
    }

    /// Who stole a key has nothing of the certificates that come later.
    #[test]
    fn each_certificate_has_a_key_of_its_own() {
        let world = World::new();
        assert_eq!(world.joined(1).joined_by(), Some(1));
        let first = world.key();
        let again = Newcomer::again(&world.home).unwrap();
        let credentials = again.install(&world.signed("ca", NODE, again.public_key())).unwrap();
        assert_eq!(credentials.joined_by(), Some(1), "it is known which token is used up");
        let second = world.key();
        assert_eq!(world.joined(2).joined_by(), Some(2));
        let all = std::collections::BTreeSet::from([first, second, world.key()]);
        assert_eq!(all.len(), 3);
        let left = std::fs::read_dir(&world.home).unwrap().count();
        assert_eq!(left, 3, "no other key is left there");
    }

    /// The answer was lost, or the machine failed: the same token is for the same key.
    #[test]
    fn a_key_waits_for_its_certificate() {
        let world = World::new();
        let key = |number| Newcomer::joining(&world.home, &world.token(number)).unwrap().public_key().to_vec();
        assert_eq!(key(1), key(1));
        assert_ne!(key(1), key(2));
    }

    /// A renewal while one authority takes the place of another: the servers' certificates may be of either.
    #[test]
    fn a_renewal_takes_no_authority_away() {
        let world = World::new();
        world.joined(1);
        let server = world.dir.path().join("server");
        world.authority("ca").equip(&server, NodeName::Member(1), &[], world.now()).unwrap();
        world.authority("next").equip(&server, NodeName::Member(1), &[], world.now()).unwrap();
        for (authority, count) in [("next", 2), ("ca", 2)] {
            let again = Newcomer::again(&world.home).unwrap();
            let credentials = again.install(&world.signed(authority, NODE, again.public_key())).unwrap();
            for known in ["ca", "next"] {
                assert!(credentials.believes(&world.authority(known)), "{authority} signed, {known}");
            }
            let text = std::fs::read_to_string(world.home.join(AUTHORITIES)).unwrap();
            assert_eq!(text.matches("BEGIN").count(), count);
        }
        // And who joins meanwhile hears of both from the server.
        let both = world.authority("ca").beside(&server).unwrap();
        let newcomer = Newcomer::joining(&world.dir.path().join("new"), &world.token(9)).unwrap();
        let signed = both.sign(NODE, newcomer.public_key(), &[], world.now(), world.now()).unwrap();
        assert!(newcomer.install(&signed).unwrap().believes(&world.authority("next")));
    }

    #[test]
    fn an_authority_is_known_by_its_key() {
        let world = World::new();
        let (own, other) = (world.authority("ca").fingerprint(), world.authority("other").fingerprint());
        let text = |name: &str| std::fs::read_to_string(world.dir.path().join(name).join(AUTHORITIES)).unwrap();
        let (of_own, of_other) = (text("ca"), text("other"));
        let put = |text: &str| std::fs::write(world.dir.path().join("ca").join(AUTHORITIES), text).unwrap();
        put(&(of_other.clone() + &of_own));
        assert_eq!(world.authority("ca").fingerprint(), own, "though it is not the first, {other:?}");
        put(&of_other);
        assert!(Authority::open(&world.dir.path().join("ca")).is_err(), "its certificate is missing");
    }

    #[test]
    fn a_certificate_ends() {
        let world = World::new();
        let (credentials, now) = (world.joined(1), world.now());
        let in_days = |days: u64| Millis(now.0 + days * 24 * 3600 * 1000);
        assert_eq!([0, 89, 91].map(|days| credentials.is_valid(in_days(days))), [true, true, false]);
        assert_eq!([0, 44, 46, 91].map(|days| credentials.is_due(in_days(days))), [false, false, true, true]);
    }

    #[test]
    fn what_is_no_public_key_is_not_signed() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::open_or_make(dir.path(), Millis(1)).unwrap();
        for key in [&[][..], &[4; 64], &[2; 65], &[4; 66]] {
            assert!(matches!(authority.sign(NODE, key, &[], Millis(1), Millis(1)), Err(crate::TlsError::PublicKey)));
        }
    }
}
