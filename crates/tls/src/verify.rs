//! Whose certificate it is, and whether that is whom this end expects.

use crate::pem::fingerprint;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use security::node_name::{Certified, Expected, NodeName};
use std::sync::Arc;
use std::time::Duration;
use types::Millis;

/// A random part behind the time in a serial number: two of one moment differ. RFC 5280 allows 20 bytes in all.
pub(crate) const SERIAL_RANDOM_LEN: usize = 8;

/// The node that a certificate names. One that names several, or none, is no node's.
pub(crate) fn name_of(certificate: &CertificateDer<'_>) -> Option<NodeName> {
    let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
    let mut names = certificate.valid_uri_names();
    let name = NodeName::parse(names.next()?)?;
    names.next().is_none().then_some(name)
}

/// When an authority of ours signed it: [`crate::authority`] begins the serial number with that. DER leaves out zeros
/// in front.
pub(crate) fn issued_at(certificate: &CertificateDer<'_>) -> Option<Millis> {
    let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
    let serial = certificate.serial();
    let time = &serial[..serial.len().checked_sub(SERIAL_RANDOM_LEN)?];
    let mut bytes = [0; size_of::<u64>()];
    let from = bytes.len().checked_sub(time.len())?;
    bytes[from..].copy_from_slice(time);
    Some(Millis(u64::from_be_bytes(bytes)))
}

/// What a certificate says whose signature was verified.
pub(crate) fn certified(certificate: &CertificateDer<'_>) -> Option<Certified> {
    Some(Certified { name: name_of(certificate)?, issued_at: issued_at(certificate)? })
}

/// Whether those who believe `roots` take this certificate at that time.
pub(crate) fn is_valid(certificate: &CertificateDer<'_>, roots: &RootCertStore, at: Millis) -> bool {
    let Ok(certificate) = ParsedCertificate::try_from(certificate) else { return false };
    let at = UnixTime::since_unix_epoch(Duration::from_millis(at.0));
    let algorithms = ring::default_provider().signature_verification_algorithms.all;
    verify_server_cert_signed_by_trust_anchor(&certificate, roots, &[], at, algorithms).is_ok()
}

/// Of the end that dials: it looks for a node, and not for the host that an address names.
#[derive(Debug)]
pub(crate) struct ServerVerifier {
    pub(crate) trust: Trust,
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
    pub(crate) expected: Expected,
}

/// Whose word this end takes.
#[derive(Debug)]
pub(crate) enum Trust {
    Roots(Arc<RootCertStore>),
    /// The authority whose certificate has this [`fingerprint`]: the other end sends it.
    Fingerprint([u8; 32]),
}

impl Trust {
    fn roots(&self, sent: &[CertificateDer<'_>]) -> Result<Arc<RootCertStore>, Error> {
        match self {
            Self::Roots(roots) => Ok(Arc::clone(roots)),
            Self::Fingerprint(wanted) => {
                let authority = sent.iter().find(|sent| fingerprint(sent) == *wanted);
                let authority = authority.ok_or(CertificateError::UnknownIssuer)?;
                let mut roots = RootCertStore::empty();
                roots.add(authority.clone().into_owned())?;
                Ok(Arc::new(roots))
            }
        }
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _address: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let roots = self.trust.roots(intermediates)?;
        verify_server_cert_signed_by_trust_anchor(&certificate, &roots, intermediates, now, self.algorithms.all)?;
        match name_of(end_entity) {
            Some(name) if self.expected.is(name) => Ok(ServerCertVerified::assertion()),
            _ => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
