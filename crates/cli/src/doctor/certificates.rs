//! Certificates and keys that a configuration names.

use super::finding::Finding;
use crate::config::Https;
use crate::shell::time;
use std::io::ErrorKind;
use std::path::Path;
use tls::{Credentials, Site, TlsError};
use types::Millis;

const ABOUT: &str = "certificates";

/// The certificate by which a server proves to others who it is.
pub(super) fn of_node(dir: &Path, now: Millis) -> Finding {
    let shown = dir.display();
    let credentials = match Credentials::open(dir) {
        Ok(credentials) => credentials,
        Err(error) => {
            let advice = "make it by `levada certificate`, or have the datanode join by a token (docs/security.md)";
            return wrong(&error, format!("node_certificates {shown}: {error}"), advice);
        }
    };
    if let Some(ended) = credentials.ended(now) {
        return Finding::fault(ABOUT, ended, "make another one by `levada certificate`");
    }
    let ends = credentials.ends_at(now).map_or("never".to_owned(), time::minute);
    let found = format!("that of {} in {shown} counts until {ends}", credentials.name());
    match credentials.is_due(now) {
        true => Finding::advice(
            ABOUT,
            found,
            "it is renewed by itself where the leader has the authority; else make another one in time",
        ),
        false => Finding::well(ABOUT, found),
    }
}

pub(super) fn of_https(https: &Https) -> Finding {
    match Site::open(&https.certificate, &https.key) {
        Ok(_) => Finding::well(ABOUT, format!("{} and its key fit", https.certificate.display())),
        Err(error) => wrong(&error, format!("https: {error}"), "name a certificate in PEM, and the key that it is for"),
    }
}

/// That this user may not read a key says nothing of the server's.
fn wrong(error: &TlsError, found: String, advice: &'static str) -> Finding {
    match error {
        TlsError::File { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            Finding::unknown(ABOUT, format!("{found}; run this as the user of the server"))
        }
        _ => Finding::fault(ABOUT, found, advice),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn what_another_user_may_not_read_is_no_fault() {
        let level = |kind: ErrorKind| {
            let error = TlsError::File { path: "node.key".into(), source: kind.into() };
            wrong(&error, error.to_string(), "make it").level
        };
        assert_eq!([level(ErrorKind::PermissionDenied), level(ErrorKind::NotFound)], [Level::Unknown, Level::Fault]);
    }
}
