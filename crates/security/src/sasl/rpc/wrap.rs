//! What travels after an exchange that agreed on integrity or privacy: pieces of the inner stream of frames, each
//! sealed, in a message of its own.
//!
//! A piece may hold several frames, or a part of one: unwrapped bytes go into a stream.

use super::message::message;
use crate::sasl::digest::{Layer, LayerError};
use hdfs::proto::{RpcSaslProto, SaslState};

/// Who seals: a [`Layer`], or Kerberos' library outside.
pub trait Protector {
    /// Appends the sealed form of a piece.
    fn wrap(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), String>;

    /// Appends the piece that `sealed` is.
    fn unwrap(&mut self, sealed: &[u8], out: &mut Vec<u8>) -> Result<(), String>;
}

impl Protector for Layer {
    fn wrap(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        Self::wrap(self, piece, out).map_err(|error: LayerError| error.to_string())
    }

    fn unwrap(&mut self, sealed: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        Self::unwrap(self, sealed, out).map_err(|error: LayerError| error.to_string())
    }
}

/// Why the connection cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrapError {
    #[error("SASL is over, yet the peer sent a message that wraps nothing")]
    NotWrapped,
    #[error("{0}")]
    Layer(String),
}

pub fn wrap(protector: &mut (impl Protector + ?Sized), piece: &[u8]) -> Result<RpcSaslProto, WrapError> {
    let mut sealed = Vec::new();
    protector.wrap(piece, &mut sealed).map_err(WrapError::Layer)?;
    Ok(message(SaslState::Wrap, Some(sealed)))
}

/// Appends what a message wraps to the inner stream.
pub fn unwrap(
    protector: &mut (impl Protector + ?Sized),
    said: &RpcSaslProto,
    stream: &mut Vec<u8>,
) -> Result<(), WrapError> {
    match (SaslState::try_from(said.state), &said.token) {
        (Ok(SaslState::Wrap), Some(sealed)) => protector.unwrap(sealed, stream).map_err(WrapError::Layer),
        _ => Err(WrapError::NotWrapped),
    }
}
