//! Why a datanode did not start.

use security::node_name::NodeName;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("this machine computes checksums wrongly: {0}; do not trust it with data")]
    Checksum(String),
    #[error(transparent)]
    Disks(#[from] disks::OpenError),
    #[error("{0}")]
    Dirs(String),
    #[error("data.node_certificates: {0}")]
    Certificates(#[from] tls::TlsError),
    /// The datanode may join by a token, or gets one from the store's authority.
    #[error("data.node_certificates: {} has no certificate yet", dir.display())]
    NoCertificate { dir: PathBuf },
    #[error("data.node_certificates: the certificate is of {name}, and a datanode is started")]
    OthersCertificate { name: NodeName },
    #[error("listening on {addr}: {source}")]
    Bind { addr: SocketAddr, source: std::io::Error },
    #[error("data.domain_socket: listening at {path}: {source}")]
    DomainSocket { path: String, source: std::io::Error },
    #[error("the address of the metadata server, {addr:?}, is not of the form host:port")]
    MetadAddr { addr: String },
    #[error("descriptors for waiting: {0}")]
    Io(#[from] std::io::Error),
}
