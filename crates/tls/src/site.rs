//! A certificate for clients that know a server by its address, over HTTP: the operator's own, or one of the store's.

use crate::credentials::{provider, quiet_server};
use crate::error::TlsError;
use crate::{files, follow};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::TLS13;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server};

/// A client's connection behind its handshake.
pub type SiteStream = server::TlsStream<TcpStream>;

/// See the module. Handshakes go by the files as they were when they were read last.
pub struct Site {
    certificate: PathBuf,
    key: PathBuf,
    current: RwLock<Current>,
}

struct Current {
    digest: [u8; 32],
    server: Arc<ServerConfig>,
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Site({})", self.certificate.display())
    }
}

impl Site {
    /// `certificate`: with those of the authorities between it and one that clients know behind it. Waits for the disk.
    pub fn open(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let current = RwLock::new(read(certificate, key)?);
        Ok(Self { certificate: certificate.to_owned(), key: key.to_owned(), current })
    }

    /// The end that was dialled.
    pub async fn accept(&self, socket: TcpStream) -> io::Result<SiteStream> {
        let server = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).server);
        TlsAcceptor::from(server).accept(socket).await
    }

    /// As [`crate::Credentials::reload`].
    pub fn reload(&self) -> Result<bool, TlsError> {
        let read = read(&self.certificate, &self.key)?;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let has_changed = current.digest != read.digest;
        *current = read;
        Ok(has_changed)
    }

    /// As [`crate::Credentials::follow`].
    pub async fn follow(self: Arc<Self>) {
        follow::follow(self.certificate.display().to_string(), move || self.reload()).await;
    }
}

fn read(certificate: &Path, key: &Path) -> Result<Current, TlsError> {
    let (certificate_text, key_text) = (files::read(certificate)?, files::read_key(key)?);
    let digest = files::digest(&[&certificate_text, &key_text]);
    let chain: Result<Vec<CertificateDer<'static>>, _> =
        CertificateDer::pem_slice_iter(certificate_text.as_bytes()).collect();
    let chain = chain.map_err(|error| TlsError::content(certificate, error))?;
    let its_key = PrivateKeyDer::from_pem_slice(key_text.as_bytes()).map_err(|error| TlsError::content(key, error))?;
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, its_key)
        .map_err(|error| TlsError::content(certificate, error))?;
    Ok(Current { digest, server: Arc::new(quiet_server(config)) })
}
