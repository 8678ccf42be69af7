//! Why certificates cannot be used.

use std::io;
use std::path::PathBuf;

/// Names the file or the step. Two kinds differ in what whoever runs the store does about it.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{}: {why}", path.display())]
    Content { path: PathBuf, why: String },
    #[error(
        "{}: others than its owner may read this key; make it mode 0600, and take a new key if others had it",
        path.display()
    )]
    Readable { path: PathBuf },
    #[error("the public key is no point of P-256")]
    PublicKey,
    #[error("a certificate could not be made: {0}")]
    Make(#[from] rcgen::Error),
    #[error("{0}")]
    Tls(#[from] rustls::Error),
}

impl TlsError {
    pub(crate) fn content(path: &std::path::Path, why: impl ToString) -> Self {
        Self::Content { path: path.to_owned(), why: why.to_string() }
    }
}
