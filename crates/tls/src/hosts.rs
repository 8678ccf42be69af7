//! The addresses and names that a certificate has, beside the node: for clients that look for it by one, over HTTP.
//!
//! ```text
//! Certificate ─ tbsCertificate ─ extensions [3] ─ subjectAltName 2.5.29.17 ─┬─ iPAddress [7]: 4 bytes or 16
//!                                                                           └─ dNSName [2]: ASCII
//! ```
//!
//! rustls-webpki compares a name with those of a certificate, and does not list addresses. What is read here was signed
//! by an authority of the store; what is not as RFC 5280 has it names none.

use rustls::pki_types::{CertificateDer, DnsName};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// By what a client of HTTP knows a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    Ip(IpAddr),
    /// As DNS has it, or /etc/hosts.
    Name(DnsName<'static>),
}

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(ip) = text.parse() {
            return Ok(Self::Ip(ip));
        }
        let name = DnsName::try_from(text.to_ascii_lowercase());
        name.map(Self::Name).map_err(|_| "neither an IP address nor the name of a host".to_owned())
    }
}

impl From<IpAddr> for Host {
    fn from(ip: IpAddr) -> Self {
        Self::Ip(ip)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => ip.fmt(f),
            Self::Name(name) => f.write_str(name.as_ref()),
        }
    }
}

/// Of DER: a sequence, an object identifier, a string of octets, and the extensions of a certificate.
const SEQUENCE: u8 = 0x30;
const OBJECT: u8 = 0x06;
const OCTETS: u8 = 0x04;
const EXTENSIONS: u8 = 0xa3;
/// Of a GeneralName.
const ADDRESS: u8 = 0x87;
const NAME: u8 = 0x82;
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

/// All that are there, in their order.
pub(crate) fn hosts_of(certificate: &CertificateDer<'_>) -> Vec<Host> {
    let mut hosts = Vec::new();
    let mut names = alt_names(certificate).unwrap_or_default();
    while let Some((tag, content)) = take(&mut names) {
        hosts.extend(host(tag, content));
    }
    hosts
}

fn host(tag: u8, content: &[u8]) -> Option<Host> {
    match tag {
        ADDRESS => {
            let v4 = || <[u8; 4]>::try_from(content).ok().map(IpAddr::from);
            let v6 = || <[u8; 16]>::try_from(content).ok().map(IpAddr::from);
            v4().or_else(v6).map(Host::Ip)
        }
        NAME => DnsName::try_from(content).ok().map(|name| Host::Name(name.to_owned())),
        _ => None,
    }
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

    fn certificate(hosts: &[Host]) -> CertificateDer<'static> {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::open_or_make(&dir.path().join("ca"), Millis(1)).unwrap();
        authority.equip(dir.path(), NodeName::Member(1), hosts, Millis(1)).unwrap();
        let text = std::fs::read_to_string(dir.path().join("node.crt")).unwrap();
        pem::certificates(Path::new("node.crt"), &text).unwrap().remove(0)
    }

    #[test]
    fn addresses_are_read_as_they_were_signed() {
        let all: [Host; 4] = ["192.0.2.7", "::1", "Store.example", "2001:db8::9"].map(|text| text.parse().unwrap());
        assert_eq!(all[2].to_string(), "store.example");
        for count in 0..=4 {
            assert_eq!(hosts_of(&certificate(&all[..count])), all[..count]);
        }
        let many: Vec<Host> = (0..100).map(|number| Host::Ip([10, 0, 0, number].into())).collect();
        assert_eq!(hosts_of(&certificate(&many)), many, "lengths of two bytes");
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in ["", "a b", "-a", "a..b", "*.example", "levada://member/1", &"a".repeat(300)] {
            assert!(text.parse::<Host>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_was_cut_names_none_or_fewer() {
        let whole = certificate(&[Host::Ip([192, 0, 2, 7].into())]);
        for len in 0..whole.len() {
            assert_eq!(hosts_of(&CertificateDer::from(&whole[..len])), [] as [Host; 0]);
        }
        for at in 0..whole.len() {
            let mut damaged = whole.to_vec();
            damaged[at] ^= 0xff;
            assert!(hosts_of(&CertificateDer::from(damaged)).len() <= 1);
        }
    }
}
