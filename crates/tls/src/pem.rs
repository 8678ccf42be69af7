//! Keys and certificates as text, and what tells one from another. What is read is read by rustls; what is written has
//! one form.

use crate::error::TlsError;
use crate::files::FILE_LEN_MAX;
use base64ct::{Base64, Encoding};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest, Sha256};
use std::path::Path;

/// RFC 7468.
const LINE_LEN: usize = 64;

/// `label`: as `CERTIFICATE`.
pub(crate) fn encode(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    let base64 = Base64::encode_string(der);
    for line in base64.as_bytes().chunks(LINE_LEN) {
        text.extend(line.iter().map(|byte| char::from(*byte)));
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

/// All that are in the text of a file; one at least.
pub(crate) fn certificates(path: &Path, text: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let all = all.map_err(|error| TlsError::content(path, error))?;
    if all.is_empty() { Err(TlsError::content(path, "no certificate is in it")) } else { Ok(all) }
}

/// Stands before the certificate of a node that joined by a token: readers of PEM pass it over (RFC 7468, §2).
const JOINED_BY: &str = "# joined by token ";

/// What a file of a certificate holds.
pub(crate) fn with_token(certificate: &str, token: Option<u32>) -> String {
    token.map_or_else(|| certificate.to_owned(), |number| format!("{JOINED_BY}{number:08x}\n{certificate}"))
}

pub(crate) fn joined_by(certificate_text: &str) -> Option<u32> {
    let number = certificate_text.lines().find_map(|line| line.strip_prefix(JOINED_BY))?;
    u32::from_str_radix(number, 16).ok()
}

/// All certificates of these texts, each once, in their order. `path`: the file that is to have them.
pub(crate) fn union(path: &Path, texts: &[&str]) -> Result<String, TlsError> {
    let mut all = Vec::new();
    for text in texts {
        for certificate in certificates(path, text)? {
            if !all.contains(&certificate) {
                all.push(certificate);
            }
        }
    }
    let text: String = all.iter().map(|certificate| encode("CERTIFICATE", certificate)).collect();
    match text.len() as u64 {
        ..=FILE_LEN_MAX => Ok(text),
        _ => Err(TlsError::content(path, format_args!("longer than {FILE_LEN_MAX} bytes"))),
    }
}

/// Those that sign, as they are believed, and as they were written.
pub(crate) fn roots(path: &Path, text: &str) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), TlsError> {
    let (mut roots, all) = (RootCertStore::empty(), certificates(path, text)?);
    for root in &all {
        roots.add(root.clone()).map_err(|error| TlsError::content(path, error))?;
    }
    Ok((roots, all))
}

/// By which a newcomer knows the authority of a store that it has nothing else of.
pub(crate) fn fingerprint(certificate: &CertificateDer<'_>) -> [u8; 32] {
    Sha256::digest(certificate).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for len in [0, 1, 47, 48, 49, 500] {
            let der: Vec<u8> = (0..len).map(|byte| byte as u8).collect();
            let text = encode("CERTIFICATE", &der).repeat(2);
            let read: Vec<_> = CertificateDer::pem_slice_iter(text.as_bytes()).map(Result::unwrap).collect();
            assert_eq!(read, [CertificateDer::from(der.clone()), CertificateDer::from(der)]);
        }
    }
}
