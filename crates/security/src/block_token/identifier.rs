//! The identifier of a block token, byte by byte.
//!
//! It reads as HDFS's `BlockTokenSecretProto`, as stock clients parse it for a SASL handshake, and it has one form
//! only: fields in this order, varints as short as they can be, and nothing else.
//!
//! ```text
//!        what is signed: the same bytes for every block of the file                                a hint, not signed
//! ┌────┬─────────┬───────┬─────────┬────┬────────┬────┬─────┬──────┬ ─ ─ ─ ─ ─ ┬─────────┬───────┬──────┬ ─ ─ ─ ─ ─ ─ ┐
//! │ 08 │ expires │ b0 06 │ version │ 10 │ key id │ 1a │ len │ user │ 28  block │ 30 mode │ a0 06 │ file │ a8 06  home
//! │    │ varint  │       │    1    │    │ varint │    │     │ ≤255 │    varint │ 1 to 4× │       │varint│       varint│
//! └────┴─────────┴───────┴─────────┴────┴────────┴────┴─────┴──────┴ ─ ─ ─ ─ ─ ┴─────────┴───────┴──────┴ ─ ─ ─ ─ ─ ─ ┘
//!   1               102              2             3                 5           6         100            101
//! ```
//!
//! Field 1 comes first, as Java tells this form from the older one by its first byte; the version is next, so that a
//! later form can differ in all that follows.
//!
//! `block` is in the token of a block that is to be made, which is given out block by block: a datanode knows whose its
//! replicas are, but not whose a block is that it has no replica of. `home` is the container in which a new replica of
//! this block belongs. It differs from block to block, so it is not signed; whoever changes it misplaces a block that
//! it may write anyway, and the metadata server finds it there as surplus.

use super::modes::{Mode, Modes};
use crate::keys::KeyId;
use types::{BlockId, ContainerId, FileId, InodeId, Millis};

/// Longest name of a user in a token. HDFS has no limit; Linux allows 32 bytes, Kerberos' short names are as a rule
/// shorter, and JDK's SASL takes no more than some 2900 bytes for the whole identifier.
pub const USER_LEN_MAX: usize = 255;

/// The form that is drawn above.
const VERSION: u64 = 1;

const EXPIRES: &[u8] = &[0x08];
const VERSION_TAG: &[u8] = &[0xb0, 0x06];
const KEY: &[u8] = &[0x10];
const USER: &[u8] = &[0x1a];
const BLOCK: &[u8] = &[0x28];
const MODE: &[u8] = &[0x30];
const FILE: &[u8] = &[0xa0, 0x06];
const HOME: &[u8] = &[0xa8, 0x06];

const VARINT_LEN_MAX: usize = 10;
/// Longest identifier there is.
pub(crate) const IDENTIFIER_LEN_MAX: usize =
    1 + VARINT_LEN_MAX + 3 + 1 + 5 + 1 + 2 + USER_LEN_MAX + 1 + VARINT_LEN_MAX + 10 + 2 * (2 + VARINT_LEN_MAX);

/// What an identifier says. Nothing of it counts before its password was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identifier<'a> {
    pub expires: Millis,
    pub key: KeyId,
    pub user: &'a str,
    /// The one block that it is for, which it may make. `None`: all that the file has.
    pub block: Option<BlockId>,
    pub modes: Modes,
    pub file: FileId,
    /// Not signed.
    pub home: Option<ContainerId>,
}

/// Why bytes are no identifier of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentifierError {
    #[error("there is no block token")]
    Absent,
    #[error("a block token of {len} bytes, at most {IDENTIFIER_LEN_MAX} are allowed")]
    TooLong { len: usize },
    #[error("the block token is not of this store")]
    Foreign,
    #[error("the block token is of version {version}, this server knows version {VERSION}")]
    Version { version: u64 },
    #[error("the block token is malformed at byte {at}")]
    Malformed { at: usize },
}

impl<'a> Identifier<'a> {
    /// Appends the part that is signed. The user's name must be of 1 to [`USER_LEN_MAX`] bytes.
    pub(crate) fn put_signed(&self, out: &mut Vec<u8>) {
        assert!((1..=USER_LEN_MAX).contains(&self.user.len()), "a user's name of {} bytes", self.user.len());
        out.reserve(IDENTIFIER_LEN_MAX);
        put(out, EXPIRES, self.expires.0);
        put(out, VERSION_TAG, VERSION);
        put(out, KEY, u64::from(self.key.0));
        put(out, USER, self.user.len() as u64);
        out.extend_from_slice(self.user.as_bytes());
        if let Some(block) = self.block {
            put(out, BLOCK, block.0);
        }
        for mode in self.modes.iter() {
            put(out, MODE, mode as u64);
        }
        put(out, FILE, self.file.0);
    }

    /// What `bytes` say, and how many of them are signed.
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, usize), IdentifierError> {
        if bytes.is_empty() {
            return Err(IdentifierError::Absent);
        }
        if bytes.len() > IDENTIFIER_LEN_MAX {
            return Err(IdentifierError::TooLong { len: bytes.len() });
        }
        let mut input = Input { bytes, at: 0 };
        let expires = input.number(EXPIRES).map_err(|_| IdentifierError::Foreign)?;
        let version = input.number(VERSION_TAG).map_err(|_| IdentifierError::Foreign)?;
        if version != VERSION {
            return Err(IdentifierError::Version { version });
        }
        let key_at = input.at;
        let key = u32::try_from(input.number(KEY)?).map_err(|_| IdentifierError::Malformed { at: key_at })?;
        let user = input.text(USER)?;
        let block = if input.is_next(BLOCK) { Some(BlockId(input.number(BLOCK)?)) } else { None };
        let mut modes = Modes::NONE;
        let mut last = 0;
        while input.is_next(MODE) {
            let at = input.at;
            let number = input.number(MODE)?;
            let mode = Mode::ALL.into_iter().find(|mode| *mode as u64 == number && number > last);
            modes = modes.with(mode.ok_or(IdentifierError::Malformed { at })?);
            last = number;
        }
        let file = InodeId(input.number(FILE)?);
        let signed_len = input.at;
        let home = if input.is_next(HOME) { Some(ContainerId(input.number(HOME)?)) } else { None };
        if input.at != bytes.len() {
            return Err(input.malformed());
        }
        Ok((Self { expires: Millis(expires), key: KeyId(key), user, block, modes, file, home }, signed_len))
    }
}

/// Appends the hint behind what is signed.
pub(crate) fn put_home(out: &mut Vec<u8>, home: ContainerId) {
    put(out, HOME, home.0);
}

fn put(out: &mut Vec<u8>, tag: &[u8], mut number: u64) {
    out.extend_from_slice(tag);
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn malformed(&self) -> IdentifierError {
        IdentifierError::Malformed { at: self.at }
    }

    fn is_next(&self, tag: &[u8]) -> bool {
        self.bytes[self.at..].starts_with(tag)
    }

    /// The number behind `tag`, in its shortest form.
    fn number(&mut self, tag: &[u8]) -> Result<u64, IdentifierError> {
        if !self.is_next(tag) {
            return Err(self.malformed());
        }
        self.at += tag.len();
        let mut number = 0u64;
        for (place, byte) in self.bytes[self.at..].iter().take(VARINT_LEN_MAX).enumerate() {
            let bits = u64::from(byte & 0x7f);
            let shift = 7 * place as u32;
            let is_too_large = place == VARINT_LEN_MAX - 1 && bits > 1;
            let is_padded = place > 0 && *byte == 0;
            if is_too_large || is_padded {
                return Err(self.malformed());
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                self.at += place + 1;
                return Ok(number);
            }
        }
        Err(self.malformed())
    }

    fn text(&mut self, tag: &[u8]) -> Result<&'a str, IdentifierError> {
        let len = self.number(tag)?;
        let len = usize::try_from(len).ok().filter(|len| (1..=USER_LEN_MAX).contains(len));
        let bytes = len.and_then(|len| self.bytes.get(self.at..self.at + len)).ok_or(self.malformed())?;
        let text = std::str::from_utf8(bytes).map_err(|_| self.malformed())?;
        // In a log, it must not look like two lines.
        if text.contains(char::is_control) {
            return Err(self.malformed());
        }
        self.at += bytes.len();
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> Identifier<'static> {
        Identifier {
            expires: Millis(1_764_115_200_000),
            key: KeyId(300),
            user: "ada",
            block: None,
            modes: Modes::of(&[Mode::Read, Mode::Copy]),
            file: InodeId(16_386),
            home: None,
        }
    }

    fn bytes(identifier: &Identifier<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        identifier.put_signed(&mut out);
        if let Some(home) = identifier.home {
            put_home(&mut out, home);
        }
        out
    }

    #[test]
    fn the_bytes_are_as_drawn() {
        let mut want = vec![0x08, 0x80, 0xf0, 0xd6, 0xeb, 0xab, 0x33, 0xb0, 0x06, 1, 0x10, 0xac, 0x02];
        want.extend_from_slice(b"\x1a\x03ada\x30\x01\x30\x03\xa0\x06\x82\x80\x01");
        assert_eq!(bytes(&example()), want);
        assert_eq!(Identifier::parse(&want), Ok((example(), want.len())));
        let signed_len = want.len();
        want.extend_from_slice(&[0xa8, 0x06, 7]);
        let with_home = Identifier { home: Some(ContainerId(7)), ..example() };
        assert_eq!(Identifier::parse(&want), Ok((with_home, signed_len)));
    }

    /// Datanodes of the version before look for the scope alone.
    #[test]
    fn an_older_datanode_reads_file_and_home() {
        let with_home = bytes(&Identifier { home: Some(ContainerId(7)), ..example() });
        let scope = wire::token::BlockScope { file: InodeId(16_386), home: ContainerId(7) };
        assert_eq!(wire::token::BlockScope::decode(&with_home), Ok(Some(scope)));
        let unsigned = scope.encode();
        assert_eq!(Identifier::parse(&unsigned), Err(IdentifierError::Foreign));
    }

    #[test]
    fn hdfs_reads_its_own_fields() {
        use hdfs::proto::{AccessModeProto, BlockTokenSecretProto};
        let bytes = bytes(&example());
        let message: BlockTokenSecretProto = wire::delimited::decode(&bytes, "token").unwrap();
        assert_eq!((message.expiry_date, message.key_id), (Some(1_764_115_200_000), Some(300)));
        assert_eq!((message.user_id.as_deref(), message.file_id), (Some("ada"), Some(16_386)));
        assert!(message.modes().eq([AccessModeProto::Read, AccessModeProto::Copy]));
    }

    /// The lines are named by what Hadoop's `BlockTokenIdentifier` reads.
    #[test]
    fn hadoop_reads_what_we_write() {
        let golden = crate::golden::Golden::parse(include_str!("../../tests/golden/block_token.txt"));
        let lines: Vec<(&str, Vec<u8>)> = golden.iter().map(|(name, bytes)| (name, bytes.to_vec())).collect();
        let most = Identifier {
            expires: Millis(i64::MAX as u64),
            key: KeyId(u32::MAX),
            user: "x",
            block: Some(BlockId(i64::MAX as u64)),
            modes: Modes::NONE,
            file: InodeId(u64::MAX),
            home: Some(ContainerId(u64::MAX)),
        };
        let with_home = Identifier { home: Some(ContainerId(7)), ..example() };
        let ours = [
            ("1764115200000|300|ada|0|[READ,COPY]", bytes(&with_home)),
            ("9223372036854775807|-1|x|9223372036854775807|[]", bytes(&most)),
        ];
        assert_eq!(lines, ours);
    }

    #[test]
    fn there_is_one_form_only() {
        let good = bytes(&example());
        let changed = |at: usize, with: &[u8]| {
            let mut bytes = good.clone();
            bytes.splice(at..=at, with.iter().copied());
            Identifier::parse(&bytes).unwrap_err()
        };
        assert_eq!(changed(9, &[2]), IdentifierError::Version { version: 2 });
        assert_eq!(changed(0, &[0x8a]), IdentifierError::Foreign, "Hadoop's older form");
        assert_eq!(changed(12, &[0x82, 0]), IdentifierError::Malformed { at: 11 }, "a padded number");
        assert_eq!(
            changed(14, &[0xff, 0x01]),
            IdentifierError::Malformed { at: 16 },
            "a name that ends behind the end"
        );
        assert_eq!(changed(15, b"\n"), IdentifierError::Malformed { at: 15 }, "a line of its own");
        assert_eq!(changed(21, &[1]), IdentifierError::Malformed { at: 20 }, "a mode twice");
        assert_eq!(changed(21, &[6]), IdentifierError::Malformed { at: 20 }, "no mode of HDFS, nor the one more");
        assert_eq!(changed(26, &[1, 0x42, 0]), IdentifierError::Malformed { at: 27 }, "an unknown field");
        assert_eq!(Identifier::parse(&[]), Err(IdentifierError::Absent));
        assert_eq!(Identifier::parse(&[8; 999]), Err(IdentifierError::TooLong { len: 999 }));
        for len in 1..good.len() {
            assert!(Identifier::parse(&good[..len]).is_err(), "cut to {len} bytes");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            expires: u64, key: u32, file: u64, home: Option<u64>, block: Option<u64>, mode_bits in 0u8..16,
            user in "\\PC{1,60}",
        ) {
            let modes = Mode::ALL.into_iter().filter(|mode| mode_bits >> (*mode as u8 - 1) & 1 == 1);
            let modes = Modes::of(&modes.collect::<Vec<_>>());
            let (expires, home, file) = (Millis(expires), home.map(ContainerId), InodeId(file));
            let block = block.map(BlockId);
            let identifier = Identifier { expires, key: KeyId(key), user: &user, block, modes, file, home };
            let bytes = bytes(&identifier);
            prop_assert!(bytes.len() <= IDENTIFIER_LEN_MAX);
            prop_assert_eq!(Identifier::parse(&bytes).map(|(read, _)| read), Ok(identifier));
        }

        /// Of all bytes, only those that are written for a value are read as it.
        #[test]
        fn what_is_read_is_written_again(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..60), cut in 0usize..26
        ) {
            let mut start = super::tests::bytes(&example());
            start.truncate(cut);
            start.append(&mut bytes);
            if let Ok((identifier, signed_len)) = Identifier::parse(&start) {
                prop_assert_eq!(super::tests::bytes(&identifier), start.clone());
                prop_assert!(signed_len <= start.len());
            }
        }
    }
}
