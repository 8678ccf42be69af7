//! The addresses that a certificate names, beside the node: for clients that look for it by one, over HTTP.
//!
//! ```text
//! Certificate ─ tbsCertificate ─ extensions [3] ─ subjectAltName 2.5.29.17 ─ iPAddress [7]: 4 bytes or 16
//! ```
//!
//! rustls-webpki compares a name with those of a certificate, and does not list addresses. What is read here was signed
//! by an authority of the store; what is not as RFC 5280 has it names none.

use rustls::pki_types::CertificateDer;
use std::net::IpAddr;

/// Of DER: a sequence, an object identifier, a string of octets, and the extensions of a certificate.
const SEQUENCE: u8 = 0x30;
const OBJECT: u8 = 0x06;
const OCTETS: u8 = 0x04;
const EXTENSIONS: u8 = 0xa3;
/// Of a GeneralName.
const ADDRESS: u8 = 0x87;
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

/// All that are there, in their order.
pub(crate) fn hosts_of(certificate: &CertificateDer<'_>) -> Vec<IpAddr> {
    let mut hosts = Vec::new();
    let mut names = alt_names(certificate).unwrap_or_default();
    while let Some((tag, content)) = take(&mut names) {
        if tag != ADDRESS {
            continue;
        }
        if let Ok(v4) = <[u8; 4]>::try_from(content) {
            hosts.push(v4.into());
        } else if let Ok(v6) = <[u8; 16]>::try_from(content) {
            hosts.push(v6.into());
        }
    }
    hosts
}

fn alt_names(mut certificate: &[u8]) -> Option<&[u8]> {
    let mut signed = take_a(SEQUENCE, &mut certificate)?;
    let mut fields = take_a(SEQUENCE, &mut signed)?;
    let mut extensions = find(EXTENSIONS, &mut fields)?;
    let mut all = take_a(SEQUENCE, &mut extensions)?;
    while let Some(mut extension) = take_a(SEQUENCE, &mut all) {
        if take_a(OBJECT, &mut extension)? == SUBJECT_ALT_NAME {
            // It may be critical, which is said in between.
            let mut value = find(OCTETS, &mut extension)?;
            return take_a(SEQUENCE, &mut value);
        }
    }
    None
}

/// The next value: its tag and its content.
fn take<'a>(der: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&[tag, first], rest) = der.split_first_chunk()?;
    let (len, rest) = match first {
        ..=0x7f => (usize::from(first), rest),
        0x81 => rest.split_first().map(|(len, rest)| (usize::from(*len), rest))?,
        0x82 => rest.split_first_chunk().map(|(len, rest)| (usize::from(u16::from_be_bytes(*len)), rest))?,
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(len)?;
    *der = rest;
    Some((tag, content))
}

fn take_a<'a>(wanted: u8, der: &mut &'a [u8]) -> Option<&'a [u8]> {
    take(der).and_then(|(tag, content)| (tag == wanted).then_some(content))
}

/// The first value with this tag.
fn find<'a>(wanted: u8, der: &mut &'a [u8]) -> Option<&'a [u8]> {
    loop {
        let (tag, content) = take(der)?;
        if tag == wanted {
            return Some(content);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::Authority;
    use crate::pem;
    use security::node_name::NodeName;
    use std::path::Path;
    use types::Millis;

    fn certificate(hosts: &[IpAddr]) -> CertificateDer<'static> {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::open_or_make(&dir.path().join("ca"), Millis(1)).unwrap();
        authority.equip(dir.path(), NodeName::Member(1), hosts, Millis(1)).unwrap();
        let text = std::fs::read_to_string(dir.path().join("node.crt")).unwrap();
        pem::certificates(Path::new("node.crt"), &text).unwrap().remove(0)
    }

    #[test]
    fn addresses_are_read_as_they_were_signed() {
        let all: [IpAddr; 3] = ["192.0.2.7", "::1", "2001:db8::9"].map(|text| text.parse().unwrap());
        for count in 0..=3 {
            assert_eq!(hosts_of(&certificate(&all[..count])), all[..count]);
        }
        let many: Vec<IpAddr> = (0..100).map(|number| [10, 0, 0, number].into()).collect();
        assert_eq!(hosts_of(&certificate(&many)), many, "lengths of two bytes");
    }

    #[test]
    fn what_was_cut_names_none_or_fewer() {
        let whole = certificate(&[[192, 0, 2, 7].into()]);
        for len in 0..whole.len() {
            assert_eq!(hosts_of(&CertificateDer::from(&whole[..len])), [] as [IpAddr; 0]);
        }
        for at in 0..whole.len() {
            let mut damaged = whole.to_vec();
            damaged[at] ^= 0xff;
            assert!(hosts_of(&CertificateDer::from(damaged)).len() <= 1);
        }
    }
}
