//! What of ours rides in a block token: the file a block belongs to, and the container that is its home.
//!
//! A client sends back the token that came with a block, byte for byte. So a datanode learns, from a stock client's
//! write, whose the new replica is; HDFS's own message has no place for it. The identifier reads as HDFS's
//! `BlockTokenSecretProto`: it begins with field 1, by which Java tells it from the older form, and has numbers of
//! our own above those HDFS uses. It is not signed: it informs, it does not authorise.

use crate::delimited;
use crate::error::WireError;
use prost::Message;
use types::{ContainerId, FileId};

/// The kind of every block token. Java parses no identifier of another kind.
pub const KIND: &str = "HDFS_BLOCK_TOKEN";

/// Longest identifier looked at. Java clients could not use one longer than about 2900 bytes either.
const IDENTIFIER_LEN_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockScope {
    pub file: FileId,
    pub home: ContainerId,
}

#[derive(Clone, PartialEq, Message)]
struct Identifier {
    #[prost(uint64, required, tag = "1")]
    expiry_date: u64,
    #[prost(uint64, optional, tag = "100")]
    file: Option<u64>,
    #[prost(uint64, optional, tag = "101")]
    home: Option<u64>,
}

impl BlockScope {
    /// The bytes of `TokenProto.identifier`.
    pub fn encode(self) -> Vec<u8> {
        Identifier { expiry_date: 0, file: Some(self.file.0), home: Some(self.home.0) }.encode_to_vec()
    }

    /// What an identifier tells; `None` if it is empty or somebody else's.
    pub fn decode(identifier: &[u8]) -> Result<Option<Self>, WireError> {
        if identifier.len() > IDENTIFIER_LEN_MAX {
            let (len, max) = (identifier.len() as u64, IDENTIFIER_LEN_MAX as u64);
            return Err(WireError::TooLong { what: "block token", len, max });
        }
        if identifier.first() != Some(&0x08) {
            return Ok(None); // empty, or the form of old Hadoop, which begins with the length of a time
        }
        let token: Identifier = delimited::decode(identifier, "block token")?;
        Ok(token.file.zip(token.home).map(|(file, home)| Self { file: types::InodeId(file), home: ContainerId(home) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_begins_with_field_one() {
        let scope = BlockScope { file: types::InodeId(16_386), home: ContainerId(7) };
        let bytes = scope.encode();
        assert_eq!(bytes, [0x08, 0, 0xa0, 0x06, 0x82, 0x80, 0x01, 0xa8, 0x06, 7]);
        assert_eq!(BlockScope::decode(&bytes), Ok(Some(scope)));
    }

    #[test]
    fn other_tokens_say_nothing() {
        assert_eq!(BlockScope::decode(&[]), Ok(None));
        assert_eq!(BlockScope::decode(&[0x8a, 1, 2, 3]), Ok(None), "the older form");
        assert_eq!(BlockScope::decode(&[0x08, 5, 0x10, 1]), Ok(None), "Hadoop's own");
        assert!(BlockScope::decode(&[0x08]).is_err());
        assert!(BlockScope::decode(&[8; 5000]).is_err());
    }
}
