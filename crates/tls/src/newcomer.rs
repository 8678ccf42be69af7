//! The end of a node that asks for a certificate: its first one, or one in place of that which it has.
//!
//! Promise: the key never leaves the directory, and is the same for as long as it is there. So whoever asks once more,
//! as an answer was lost, asks for the same; and the one file that a new certificate replaces is whole or not there.

use crate::authority::Signed;
use crate::credentials::{Credentials, usable};
use crate::error::TlsError;
use crate::files::{self, AUTHORITIES, CERTIFICATE, KEY};
use crate::pem;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use security::node_name::NodeName;
use std::path::{Path, PathBuf};

/// See the module. All of it waits for the disk.
pub struct Newcomer {
    dir: PathBuf,
    key_text: String,
    public_key: Vec<u8>,
}

impl std::fmt::Debug for Newcomer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Newcomer({})", self.dir.display())
    }
}

impl Newcomer {
    /// With the key that is there, or a new one.
    pub fn open_or_make(dir: &Path) -> Result<Self, TlsError> {
        let path = dir.join(KEY);
        let (key, key_text) = if path.exists() {
            let text = files::read_key(&path)?;
            let der =
                PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|error| TlsError::content(&path, error))?;
            let key = KeyPair::from_der_and_sign_algo(&der, &PKCS_ECDSA_P256_SHA256);
            (key.map_err(|error| TlsError::content(&path, error))?, text)
        } else {
            files::make_dir(dir)?;
            let key = KeyPair::generate()?;
            let text = pem::encode("PRIVATE KEY", key.serialized_der());
            files::write(&path, text.as_bytes())?;
            (key, text)
        };
        Ok(Self { dir: dir.to_owned(), key_text, public_key: key.public_key_raw().to_vec() })
    }

    /// What is to be signed: a point of P-256, not compressed.
    pub fn public_key(&self) -> &[u8] {
        &self.public_key
    }

    /// Goes by what was signed, if it is for this key and for a datanode. What is there stays otherwise.
    pub fn install(&self, signed: &Signed) -> Result<Credentials, TlsError> {
        let Signed { certificate, authorities } = signed;
        let (name, _) = usable(&self.dir, certificate, &self.key_text, authorities)?;
        if let NodeName::Member(_) = name {
            let why = "it is a metadata server's, and was given to a datanode";
            return Err(TlsError::content(&self.dir.join(CERTIFICATE), why));
        }
        files::write(&self.dir.join(AUTHORITIES), authorities.as_bytes())?;
        files::write(&self.dir.join(CERTIFICATE), certificate.as_bytes())?;
        Credentials::open(&self.dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Authority;
    use types::{Millis, NodeId};

    const NODE: NodeName = NodeName::Datanode(NodeId([7; 16]));

    #[test]
    fn a_key_is_kept_and_a_certificate_of_another_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let now = Millis(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64);
        let authority = Authority::open_or_make(&dir.path().join("ca"), now).unwrap();
        let home = dir.path().join("data");
        let newcomer = Newcomer::open_or_make(&home).unwrap();
        let again = Newcomer::open_or_make(&home).unwrap();
        assert_eq!(newcomer.public_key(), again.public_key());
        let sign = |name, key: &[u8]| authority.sign(name, key, &[], now, now).unwrap();
        let others = Newcomer::open_or_make(&dir.path().join("other")).unwrap();
        assert!(newcomer.install(&sign(NODE, others.public_key())).is_err(), "of another key");
        assert!(newcomer.install(&sign(NodeName::Member(1), newcomer.public_key())).is_err(), "a member's");
        assert!(Credentials::open(&home).is_err(), "nothing was installed");
        let credentials = again.install(&sign(NODE, newcomer.public_key())).unwrap();
        assert_eq!(credentials.name(), NODE);
        assert!(newcomer.install(&sign(NODE, others.public_key())).is_err());
        assert_eq!(Credentials::open(&home).unwrap().name(), NODE, "the former one stays");
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
