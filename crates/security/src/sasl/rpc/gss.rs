//! The last words of a Kerberos exchange (RFC 4752, 3.1): how what follows is to be protected. The library outside
//! wraps and unwraps these four bytes.
//!
//! ```text
//! server ── ┌──────────┬─────────────────────┐ ──▶        bits: 1 nothing, 2 integrity, 4 privacy
//!           │ bits     │ bytes at once, u24  │
//! client ── ├──────────┼─────────────────────┼───────────────┐ ──▶   exactly one bit
//!           │ one bit  │ bytes at once, u24  │ acting as, "" │
//!           └──────────┴─────────────────────┴───────────────┘
//! ```

use crate::sasl::digest::Qop;

/// As JDK has it.
const MESSAGE_LEN_MAX: u32 = 65_536;
/// Longest name to act as.
const NAME_LEN_MAX: usize = 1024;

fn bit(qop: Qop) -> u8 {
    match qop {
        Qop::Auth => 1,
        Qop::Integrity => 2,
        Qop::Privacy => 4,
    }
}

/// Why the last words are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GssLayerError {
    #[error("a security layer message of {len} bytes")]
    Length { len: usize },
    #[error("no common protection layer between client and server")]
    NothingInCommon,
    #[error("the name to act as is not UTF-8")]
    Name,
}

/// What a server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GssLayerOffer {
    pub qops: Vec<Qop>,
    /// How much it takes at once.
    pub message_len_max: u32,
}

impl GssLayerOffer {
    pub fn new(qops: &[Qop]) -> Self {
        Self { qops: qops.to_vec(), message_len_max: MESSAGE_LEN_MAX }
    }

    pub fn encode(&self) -> [u8; 4] {
        // With nothing but authentication no message is wrapped, and the length must be 0.
        let len = if self.qops.iter().all(|qop| *qop == Qop::Auth) { 0 } else { self.message_len_max };
        let [_, l0, l1, l2] = len.min(0xff_ffff).to_be_bytes();
        [self.qops.iter().fold(0, |bits, qop| bits | bit(*qop)), l0, l1, l2]
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, GssLayerError> {
        let [bits, l0, l1, l2] = *bytes else { return Err(GssLayerError::Length { len: bytes.len() }) };
        let qops = Qop::ALL.into_iter().filter(|qop| bits & bit(*qop) != 0).collect();
        Ok(Self { qops, message_len_max: u32::from_be_bytes([0, l0, l1, l2]) })
    }

    /// The first of `preferred` that is offered.
    pub fn choose(&self, preferred: &[Qop]) -> Result<GssLayerChoice, GssLayerError> {
        let qop = preferred.iter().copied().find(|qop| self.qops.contains(qop));
        let qop = qop.ok_or(GssLayerError::NothingInCommon)?;
        Ok(GssLayerChoice { qop, message_len_max: MESSAGE_LEN_MAX, acting_as: String::new() })
    }

    /// What a client chose of this.
    pub fn chosen(&self, bytes: &[u8]) -> Result<GssLayerChoice, GssLayerError> {
        let length = GssLayerError::Length { len: bytes.len() };
        let (front, name) = bytes.split_first_chunk::<4>().ok_or(length)?;
        if name.len() > NAME_LEN_MAX {
            return Err(length);
        }
        let [bits, l0, l1, l2] = *front;
        let qop = self.qops.iter().copied().find(|qop| bit(*qop) == bits).ok_or(GssLayerError::NothingInCommon)?;
        let acting_as = std::str::from_utf8(name).map_err(|_| GssLayerError::Name)?.to_owned();
        Ok(GssLayerChoice { qop, message_len_max: u32::from_be_bytes([0, l0, l1, l2]), acting_as })
    }
}

/// What a client chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GssLayerChoice {
    pub qop: Qop,
    pub message_len_max: u32,
    /// Empty: as itself. Hadoop's clients leave it empty or name themselves; a server refuses all other names.
    pub acting_as: String,
}

impl GssLayerChoice {
    pub fn encode(&self) -> Vec<u8> {
        let len = if self.qop == Qop::Auth { 0 } else { self.message_len_max };
        let [_, l0, l1, l2] = len.min(0xff_ffff).to_be_bytes();
        [&[bit(self.qop), l0, l1, l2], self.acting_as.as_bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_agree() {
        let offer = GssLayerOffer::new(&[Qop::Privacy, Qop::Auth]);
        assert_eq!(offer.encode(), [5, 1, 0, 0]);
        let read = GssLayerOffer::parse(&offer.encode()).unwrap();
        let choice = read.choose(&[Qop::Integrity, Qop::Privacy]).unwrap();
        assert_eq!(choice.encode(), [4, 1, 0, 0]);
        assert_eq!(offer.chosen(&choice.encode()), Ok(choice));
        assert_eq!(GssLayerOffer::new(&[Qop::Auth]).encode(), [1, 0, 0, 0]);
    }

    #[test]
    fn what_was_not_offered_is_refused() {
        let offer = GssLayerOffer::new(&[Qop::Privacy]);
        assert_eq!(offer.choose(&[Qop::Auth]), Err(GssLayerError::NothingInCommon));
        assert_eq!(offer.chosen(&[1, 0, 0, 0]), Err(GssLayerError::NothingInCommon));
        assert_eq!(offer.chosen(&[5, 0, 0, 0]), Err(GssLayerError::NothingInCommon), "two bits");
        assert_eq!(offer.chosen(&[4, 0]), Err(GssLayerError::Length { len: 2 }));
        assert_eq!(offer.chosen(&[4; 2000]), Err(GssLayerError::Length { len: 2000 }));
        assert_eq!(offer.chosen(&[4, 0, 0, 0, 0xff]), Err(GssLayerError::Name));
        assert_eq!(GssLayerOffer::parse(&[4; 5]), Err(GssLayerError::Length { len: 5 }));
        assert_eq!(offer.chosen(b"\x04\0\0\0ada").unwrap().acting_as, "ada");
    }
}
