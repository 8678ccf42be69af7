//! Who seals what follows an exchange.

use crate::sasl::digest::{Layer, Qop};

/// Who seals what follows an exchange. What both ends agreed on is in it, so that nobody can take one for another.
#[derive(Debug)]
pub enum Sealing {
    /// Nobody: authentication alone was agreed on.
    Plain,
    /// The layer of DIGEST-MD5.
    Digest(Box<Layer>),
    /// Kerberos' library, with integrity or privacy.
    Library(Qop),
}

impl Sealing {
    pub(super) fn of_layer(layer: Layer) -> Self {
        if layer.is_sealing() { Self::Digest(Box::new(layer)) } else { Self::Plain }
    }

    pub(super) fn of_library(qop: Qop) -> Self {
        if qop == Qop::Auth { Self::Plain } else { Self::Library(qop) }
    }

    pub fn qop(&self) -> Qop {
        match self {
            Self::Plain => Qop::Auth,
            Self::Digest(layer) => layer.qop(),
            Self::Library(qop) => *qop,
        }
    }
}
