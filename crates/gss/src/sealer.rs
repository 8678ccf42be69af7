//! What seals a connection after the exchange.

use crate::c::Context;
use crate::error::{Error, Reason, failed};
use crate::trouble::During;
use security::sasl::digest::Qop;

/// A context whose ends have agreed on what follows.
#[derive(Debug)]
pub(crate) enum Agreed {
    /// Nothing is sealed.
    Plain(Context),
    Sealed(Sealer),
}

impl Agreed {
    /// `sealed_len_max`: how much the peer takes at once.
    pub(crate) fn new(mut context: Context, qop: Qop, sealed_len_max: u32, doing: &str) -> Result<Self, Error> {
        if qop == Qop::Auth {
            return Ok(Self::Plain(context));
        }
        let is_private = qop == Qop::Privacy;
        let piece_len_max =
            context.message_len_max(is_private, sealed_len_max).map_err(failed(During::Message, doing))?;
        if piece_len_max == 0 {
            return Err(Error::exchange(doing, Reason::TooSmall { len: sealed_len_max }));
        }
        Ok(Self::Sealed(Sealer { context, is_private, piece_len_max, doing: doing.to_owned() }))
    }

    /// Of the ticket. 0 if it has ended.
    pub(crate) fn seconds_left(&mut self) -> u32 {
        let (Self::Plain(context) | Self::Sealed(Sealer { context, .. })) = self;
        context.seconds_left().unwrap_or(0)
    }

    pub(crate) fn sealer(&mut self) -> Option<&mut Sealer> {
        match self {
            Self::Plain(_) => None,
            Self::Sealed(sealer) => Some(sealer),
        }
    }
}

/// Seals and opens the messages of one connection. It works beyond the end of the ticket, as Hadoop's connections do.
#[derive(Debug)]
pub(crate) struct Sealer {
    context: Context,
    pub(crate) is_private: bool,
    piece_len_max: u32,
    doing: String,
}

impl Sealer {
    /// The longest piece whose sealed form the peer has said that it takes at once.
    pub(crate) fn piece_len_max(&self) -> usize {
        self.piece_len_max as usize
    }

    /// Appends the sealed form of a piece.
    pub(crate) fn wrap(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        self.context.wrap(self.is_private, piece, out).map_err(failed(During::Message, &self.doing))
    }

    /// Appends the piece that `sealed` is. One that comes twice, late or early is refused.
    pub(crate) fn unwrap(&mut self, sealed: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let len = out.len();
        let was_encrypted = self.context.unwrap(sealed, out).map_err(failed(During::Message, &self.doing))?;
        if self.is_private && !was_encrypted {
            out.truncate(len);
            return Err(Error::exchange(&self.doing, Reason::NotEncrypted));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::{Error, Reason};
    use crate::support::{connected, story};
    use security::sasl::digest::Qop;

    /// A peer that has the keys, and does not use them as it said.
    #[test]
    fn where_privacy_was_agreed_on_all_is_encrypted() {
        story(|kdc| {
            let (mut client, mut server) = connected(&kdc.client(), &kdc.server(), Qop::Privacy);
            client.sealer().unwrap().is_private = false;
            let (mut sealed, mut opened) = (Vec::new(), Vec::new());
            client.wrap(b"in the open", &mut sealed).unwrap();
            let refused = server.unwrap(&sealed, &mut opened);
            assert!(matches!(refused, Err(Error::Exchange { reason: Reason::NotEncrypted, .. })), "{refused:?}");
            assert!(opened.is_empty());
        });
    }
}
