//! Certificates and keys that a configuration names.

use super::finding::Finding;
use crate::config::Https;
use crate::shell::time;
use std::path::Path;
use tls::Credentials;
use types::Millis;

const ABOUT: &str = "certificates";

/// The certificate by which a server proves to others who it is.
pub(super) fn of_node(dir: &Path, now: Millis) -> Finding {
    let shown = dir.display();
    let credentials = match Credentials::open(dir) {
        Ok(credentials) => credentials,
        Err(error) => {
            let advice = "make it by `levada certificate`, or have the datanode join by a token (docs/security.md)";
            return Finding::fault(ABOUT, format!("node_certificates {shown}: {error}"), advice);
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
    match https.site() {
        Ok(_) => Finding::well(ABOUT, format!("{} and its key fit", https.certificate.display())),
        Err(error) => Finding::fault(ABOUT, error.to_string(), "name a certificate in PEM, and the key that it is for"),
    }
}
