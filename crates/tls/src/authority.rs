//! The store's certificate authority: a key that signs which node has which key.
//!
//! Promise: it signs for names of nodes alone, never for another authority.

use crate::error::TlsError;
use crate::files::{self, AUTHORITIES, CERTIFICATE};
use crate::hosts::{self, Host};
use crate::pem;
use crate::verify::{self, SERIAL_RANDOM_LEN};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SerialNumber, SignatureAlgorithm, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use security::node_name::NodeName;
use std::path::Path;
use std::time::Duration;
use types::Millis;

/// How long a node's certificate is valid. A guess: a node renews its own at half of that.
pub const LIFETIME: Duration = Duration::from_secs(90 * 24 * 3600);
/// The authority's own; a store may live longer, and then takes another authority.
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(20 * 365 * 24 * 3600);
/// By so much clocks of nodes may be behind the one that signs.
pub const CLOCK_BEHIND_MAX: Duration = Duration::from_secs(3600);
const CA_KEY: &str = "ca.key";
/// All authorities have this name; which one signed, its key says.
const AUTHORITY_NAME: &str = "Levada store";

/// See the module.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// What servers believe others by, of the authority's own directory.
    authorities: String,
    fingerprint: [u8; 32],
}

/// What a node gets that asked for a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    pub certificate: String,
    /// Whom it is to believe.
    pub authorities: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority")
    }
}

/// Of a point of P-256 that is not compressed (SEC 1, §2.3.3).
const PUBLIC_KEY_LEN: usize = 65;
const NOT_COMPRESSED: u8 = 4;

/// An EC point of P-256, as a node sends it that asks for a certificate.
struct PublicKey<'a>(&'a [u8]);

impl PublicKeyData for PublicKey<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

impl Authority {
    /// Opens the authority in `dir`, or makes one if there is none.
    pub fn open_or_make(dir: &Path, now: Millis) -> Result<Self, TlsError> {
        if dir.join(CA_KEY).exists() { Self::open(dir) } else { Self::make(dir, now) }
    }

    pub fn open(dir: &Path) -> Result<Self, TlsError> {
        let path = dir.join(CA_KEY);
        let text = files::read_key(&path)?;
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|error| TlsError::content(&path, error))?;
        let key = KeyPair::from_der_and_sign_algo(&key, &PKCS_ECDSA_P256_SHA256)
            .map_err(|error| TlsError::content(&path, error))?;
        let path = dir.join(AUTHORITIES);
        let authorities = files::read(&path)?;
        Self::of(&path, key, authorities)
    }

    /// Its own certificate is the one for its key, wherever in the text that is.
    fn of(path: &Path, key: KeyPair, authorities: String) -> Result<Self, TlsError> {
        let of_key = key.subject_public_key_info();
        let is_own = |certificate: &CertificateDer<'_>| {
            let parsed = webpki::EndEntityCert::try_from(certificate);
            parsed.is_ok_and(|certificate| certificate.subject_public_key_info().as_ref() == of_key)
        };
        let fingerprint = pem::certificates(path, &authorities)?.iter().find(|one| is_own(one)).map(pem::fingerprint);
        let fingerprint =
            fingerprint.ok_or_else(|| TlsError::content(path, format_args!("no certificate in it is of {CA_KEY}")))?;
        Ok(Self { issuer: Issuer::new(authority_params(), key), fingerprint, authorities })
    }

    /// The same, and who gets a certificate is to believe also whom the server believes that has this directory. While
    /// one authority takes the place of another, the servers' own certificates may be of either.
    pub fn beside(self, dir: &Path) -> Result<Self, TlsError> {
        let path = dir.join(AUTHORITIES);
        let authorities = pem::union(&path, &[&self.authorities, &files::read(&path)?])?;
        Ok(Self { authorities, ..self })
    }

    /// SHA-256 of its certificate: by this a node knows it that has nothing else of the store.
    pub fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }

    /// The key is written last: where it is, there is all of the authority.
    fn make(dir: &Path, now: Millis) -> Result<Self, TlsError> {
        files::make_dir(dir)?;
        let key = KeyPair::generate()?;
        let mut params = authority_params();
        set_validity(&mut params, now, AUTHORITY_LIFETIME);
        params.serial_number = Some(serial(now));
        let certificate = params.self_signed(&key)?;
        let (path, authorities) = (dir.join(AUTHORITIES), pem::encode("CERTIFICATE", certificate.der()));
        files::write(&path, authorities.as_bytes())?;
        files::write(&dir.join(CA_KEY), pem::encode("PRIVATE KEY", key.serialized_der()).as_bytes())?;
        Self::of(&path, key, authorities)
    }

    /// Makes a key for a node and its certificate, in `dir`, and adds what the authority has to those whom the node
    /// believes. `hosts`: for clients that look for the node by its address or name, over HTTP.
    pub fn equip(&self, dir: &Path, name: NodeName, hosts: &[Host], now: Millis) -> Result<(), TlsError> {
        files::make_dir(dir)?;
        let key = KeyPair::generate()?;
        let Signed { certificate, authorities } = self.sign(name, key.public_key_raw(), hosts, now, now)?;
        let (path, certificate_path) = (dir.join(AUTHORITIES), dir.join(CERTIFICATE));
        let authorities = match path.exists() {
            true => pem::union(&path, &[&files::read(&path)?, &authorities])?,
            false => authorities,
        };
        files::write(&path, authorities.as_bytes())?;
        // A token that was used stays used.
        let before = if certificate_path.exists() { files::read(&certificate_path)? } else { String::new() };
        let certificate = pem::with_token(&certificate, pem::joined_by(&before));
        files::put_pair(dir, &pem::encode("PRIVATE KEY", key.serialized_der()), &certificate)
    }

    /// The addresses and names of hosts that `certificate` (DER) names, if it is this node's and somebody believes it
    /// who has what this authority gives out. None otherwise: it is what a node says.
    pub fn hosts_of(&self, name: NodeName, certificate: &[u8], now: Millis) -> Vec<Host> {
        let certificate = CertificateDer::from(certificate);
        let is_own = verify::name_of(&certificate) == Some(name);
        let is_believed = is_own
            && pem::roots(Path::new(AUTHORITIES), &self.authorities)
                .is_ok_and(|(roots, _)| verify::is_valid(&certificate, &roots, now));
        if is_believed { hosts::hosts_of(&certificate) } else { Vec::new() }
    }

    /// A certificate that `public_key` (a point of P-256, not compressed) is this node's. It is valid by the time that
    /// it is `now`. `issued_at` is what it says of itself, so that it counts if earlier ones are revoked: that may be
    /// later.
    pub fn sign(
        &self,
        name: NodeName,
        public_key: &[u8],
        hosts: &[Host],
        now: Millis,
        issued_at: Millis,
    ) -> Result<Signed, TlsError> {
        if public_key.len() != PUBLIC_KEY_LEN || public_key[0] != NOT_COMPRESSED {
            return Err(TlsError::PublicKey);
        }
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name.to_string());
        params.subject_alt_names = vec![SanType::URI(name.to_string().try_into()?)];
        for host in hosts {
            params.subject_alt_names.push(match host {
                Host::Ip(ip) => SanType::IpAddress(*ip),
                Host::Name(name) => SanType::DnsName(name.as_ref().try_into()?),
            });
        }
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, now, LIFETIME);
        params.serial_number = Some(serial(issued_at));
        let certificate = params.signed_by(&PublicKey(public_key), &self.issuer)?;
        let certificate = pem::encode("CERTIFICATE", certificate.der());
        Ok(Signed { certificate, authorities: self.authorities.clone() })
    }
}

/// What its certificates say of the authority that signed them; the same for each that is opened.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, AUTHORITY_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn set_validity(params: &mut CertificateParams, now: Millis, lifetime: Duration) {
    let (epoch, now) = (date_time_ymd(1970, 1, 1), Duration::from_millis(now.0));
    params.not_before = epoch + now.saturating_sub(CLOCK_BEHIND_MAX);
    params.not_after = epoch + now + lifetime;
}

/// Time first, so that numbers of later certificates are higher.
fn serial(now: Millis) -> SerialNumber {
    let mut bytes = [0; size_of::<u64>() + SERIAL_RANDOM_LEN];
    bytes[..size_of::<u64>()].copy_from_slice(&now.0.to_be_bytes());
    ::io::random::fill(&mut bytes[size_of::<u64>()..]);
    SerialNumber::from_slice(&bytes)
}
