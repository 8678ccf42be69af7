//! The identifier of a delegation token, in Hadoop's form.
//!
//! ```text
//! ┌────┬────────┬─────────┬───────────┬────────────┬──────────┬──────────┬────────────┐
//! │ 00 │ owner  │ renewer │ real user │ issue date │ max date │ sequence │ master key │
//! │    │ text   │ text    │ text, ""  │ ms         │ ms       │ number   │ id         │
//! └────┴────────┴─────────┴───────────┴────────────┴──────────┴──────────┴────────────┘
//! ```

use super::writable::{Input, Malformed, put_number, put_text};
use crate::keys::{KeyId, KeySet};
use crate::secret::{Password, Purpose};
use types::Millis;

/// Longest name in a token: three of them, as base64, fit into a SASL response as JDK takes it (4096 bytes). Hadoop
/// allows a megabyte.
pub const NAME_LEN_MAX: usize = 512;

/// A version byte, three texts behind three bytes, two long numbers, two short ones.
const IDENTIFIER_LEN_MAX: usize = 1 + 3 * (3 + NAME_LEN_MAX) + 2 * 9 + 2 * 5;
const _: () = assert!(IDENTIFIER_LEN_MAX.div_ceil(3) * 4 < 2900, "a SASL response");

const VERSION: u8 = 0;

/// What an identifier says. Nothing of it counts before its password was compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identifier {
    /// As who its holder acts: the whole name, with a realm if it has one.
    pub owner: String,
    /// Who may renew it: a short name. Empty: nobody.
    pub renewer: String,
    /// Who asked for it on behalf of the owner; empty if the owner did.
    pub real_user: String,
    pub issued: Millis,
    /// No renewal goes beyond.
    pub max: Millis,
    pub sequence: u32,
    pub key: KeyId,
}

/// Why bytes are no identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentifierError {
    #[error("a delegation token of {len} bytes, at most {IDENTIFIER_LEN_MAX} are allowed")]
    TooLong { len: usize },
    #[error("Unknown version of delegation token {version}")]
    Version { version: u8 },
    #[error("the delegation token is malformed at byte {at}")]
    Malformed { at: usize },
}

impl From<Malformed> for IdentifierError {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed { at: malformed.at }
    }
}

impl Identifier {
    /// The bytes of `TokenProto.identifier`. Names were bounded by [`super::Rules::issue`].
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        for name in [&self.owner, &self.renewer, &self.real_user] {
            assert!(name.len() <= NAME_LEN_MAX, "a name of {} bytes", name.len());
            put_text(name, &mut out);
        }
        for time in [self.issued, self.max] {
            put_number(i64::try_from(time.0).unwrap_or(i64::MAX), &mut out);
        }
        // Java's integers have a sign.
        put_number(i64::from(self.sequence.cast_signed()), &mut out);
        put_number(i64::from(self.key.0.cast_signed()), &mut out);
        out
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, IdentifierError> {
        if bytes.len() > IDENTIFIER_LEN_MAX {
            return Err(IdentifierError::TooLong { len: bytes.len() });
        }
        let mut input = Input::new(bytes);
        let version = input.byte()?;
        if version != VERSION {
            return Err(IdentifierError::Version { version });
        }
        let [owner, renewer, real_user] =
            [input.name(NAME_LEN_MAX)?, input.name(NAME_LEN_MAX)?, input.name(NAME_LEN_MAX)?].map(str::to_owned);
        let [issued, max] = [input.number()?, input.number()?].map(|time| Millis(u64::try_from(time).unwrap_or(0)));
        let [sequence, key] = [input.int()?, input.int()?].map(i32::cast_unsigned);
        input.end()?;
        Ok(Self { owner, renewer, real_user, issued, max, sequence, key: KeyId(key) })
    }

    /// The password that belongs to `bytes`, which are this identifier's. `None`: the key is not known any more.
    pub fn password(&self, now: Millis, keys: &KeySet, bytes: &[u8]) -> Option<Password> {
        keys.find(now, self.key).map(|key| key.password(Purpose::DelegationToken, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> Identifier {
        Identifier {
            owner: "ada@EXAMPLE.COM".into(),
            renewer: "yarn".into(),
            real_user: String::new(),
            issued: Millis(1_764_115_200_000),
            max: Millis(1_764_720_000_000),
            sequence: 300,
            key: KeyId(2),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = example().encode();
        assert_eq!(bytes[..2], [0, 15]);
        assert_eq!(Identifier::parse(&bytes), Ok(example()));
    }

    /// The lines are named by the fields.
    #[test]
    fn hadoop_writes_the_same_bytes() {
        let golden = crate::golden::Golden::parse(include_str!("../../tests/golden/delegation.txt"));
        assert_eq!(golden.iter().count(), 6);
        for (name, bytes) in golden.iter() {
            let [owner, renewer, real_user, issued, max, sequence, key] = name.split('|').collect::<Vec<_>>()[..]
            else {
                panic!("{name}")
            };
            let [issued, max] = [issued, max].map(|time| Millis(time.parse().unwrap()));
            let [sequence, key] = [sequence, key].map(|number| number.parse::<i32>().unwrap().cast_unsigned());
            let [owner, renewer, real_user] = [owner, renewer, real_user].map(str::to_owned);
            let want = Identifier { owner, renewer, real_user, issued, max, sequence, key: KeyId(key) };
            assert_eq!(Identifier::parse(bytes), Ok(want.clone()));
            assert_eq!(want.encode(), bytes);
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        let bytes = example().encode();
        for len in 0..bytes.len() {
            assert!(Identifier::parse(&bytes[..len]).is_err(), "cut to {len} bytes");
        }
        let long = [&bytes[..], &[0]].concat();
        assert_eq!(Identifier::parse(&long), Err(IdentifierError::Malformed { at: bytes.len() }));
        let two_lines = Identifier { renewer: "yarn\nroot".into(), ..example() }.encode();
        assert_eq!(Identifier::parse(&two_lines), Err(IdentifierError::Malformed { at: 17 }));
        assert_eq!(Identifier::parse(&[1]), Err(IdentifierError::Version { version: 1 }));
        assert_eq!(Identifier::parse(&[0; 2000]), Err(IdentifierError::TooLong { len: 2000 }));
        assert_eq!(
            Identifier::parse(&[0, 0x8e, 3, 0]),
            Err(IdentifierError::Malformed { at: 1 }),
            "a name of 768 bytes"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), cut in 0usize..40) {
            let mut all = example().encode();
            all.truncate(cut);
            all.extend_from_slice(&bytes);
            if let Ok(identifier) = Identifier::parse(&all) {
                prop_assert!(Identifier::parse(&identifier.encode()).is_ok());
            }
        }
    }
}
