//! What seals a connection after the exchange.

use crate::c::Context;
use crate::error::{Error, Reason};
use security::sasl::digest::Qop;
use security::sasl::rpc::Protector;

/// Seals and opens the messages of one connection. Both directions are in it, so whoever has two threads for them puts
/// it behind a lock. It works beyond the end of the ticket, as Hadoop's connections do.
#[derive(Debug)]
pub struct Sealer {
    context: Context,
    is_private: bool,
    piece_len_max: u32,
    doing: String,
}

impl Sealer {
    pub(crate) fn new(
        mut context: Context,
        qop: Qop,
        sealed_len_max: u32,
        doing: String,
    ) -> Result<Option<Self>, Error> {
        if qop == Qop::Auth {
            return Ok(None);
        }
        let is_private = qop == Qop::Privacy;
        let piece_len_max =
            context.message_len_max(is_private, sealed_len_max).map_err(|status| Error::kerberos(&doing, status))?;
        if piece_len_max == 0 {
            return Err(Error::exchange(doing, Reason::TooSmall { len: sealed_len_max }));
        }
        Ok(Some(Self { context, is_private, piece_len_max, doing }))
    }

    /// The longest piece whose sealed form the peer has said that it takes at once.
    pub fn piece_len_max(&self) -> usize {
        self.piece_len_max as usize
    }

    /// Appends the sealed form of a piece.
    pub fn wrap(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        self.context.wrap(self.is_private, piece, out).map_err(|status| Error::kerberos(&self.doing, status))
    }

    /// Appends the piece that `sealed` is. One that comes twice, late or early is refused.
    pub fn unwrap(&mut self, sealed: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let len = out.len();
        let was_encrypted = self.context.unwrap(sealed, out).map_err(|status| Error::kerberos(&self.doing, status))?;
        if self.is_private && !was_encrypted {
            out.truncate(len);
            return Err(Error::exchange(&self.doing, Reason::NotEncrypted));
        }
        Ok(())
    }
}

impl Protector for Sealer {
    fn wrap(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        Self::wrap(self, piece, out).map_err(|error| error.to_string())
    }

    fn unwrap(&mut self, sealed: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        Self::unwrap(self, sealed, out).map_err(|error| error.to_string())
    }
}
