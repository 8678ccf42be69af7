//! Tokens in a file, as Hadoop's `Credentials` writes it: what `HADOOP_TOKEN_FILE_LOCATION` names, and `hdfs fetchdt`
//! makes.
//!
//! ```text
//! ┌──────┬───────┬─────────────────────────────────────────────────────────────────────────┐
//! │ HDTS │ 00 u8 │ count, then for each: alias, identifier, password, kind, service; secrets │   Writables
//! │ HDTS │ 01 u8 │ CredentialsProto, behind its length                                     │   a message
//! └──────┴───────┴─────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Secrets behind the tokens are of applications; nobody here looks at them.

use super::writable::{Input, Malformed, put_number, put_text};
use bytes::Bytes;
use hdfs::proto::TokenProto;
use prost::Message;
use std::fmt;

const MAGIC: &[u8] = b"HDTS";
const WRITABLES: u8 = 0;
const MESSAGE: u8 = 1;
/// Longest file that is read. A job of Spark or YARN has a few kilobytes.
pub const FILE_LEN_MAX: usize = 1 << 20;
/// Tokens of one file. A guess.
const TOKEN_COUNT_MAX: i64 = 1000;
/// Of a name, a kind, or a service.
const TEXT_LEN_MAX: usize = 4096;
/// Of an identifier or a password: other services have longer ones than we do.
const BYTES_LEN_MAX: usize = 64 << 10;

/// A token of any service.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredToken {
    pub identifier: Bytes,
    pub password: Bytes,
    /// As `HDFS_DELEGATION_TOKEN`.
    pub kind: String,
    /// Whose it is: address:port, or `ha-hdfs:NAME` for a group of servers.
    pub service: String,
}

impl fmt::Debug for StoredToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredToken({} of {})", self.kind, types::excerpt(&self.service))
    }
}

/// Why a file has no tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileError {
    #[error("the token file has {len} bytes, at most {FILE_LEN_MAX} are read")]
    TooLong { len: usize },
    #[error("this is no token file: it does not begin with HDTS")]
    Magic,
    #[error("the token file is of version {version}, 0 and 1 are known")]
    Version { version: u8 },
    #[error("the token file is malformed at byte {at}")]
    Malformed { at: usize },
    #[error("the message of the token file cannot be read: {reason}")]
    Message { reason: String },
}

impl From<Malformed> for TokenFileError {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed { at: MAGIC.len() + 1 + malformed.at }
    }
}

/// `CredentialsProto`, without its secrets.
#[derive(Clone, PartialEq, Message)]
struct CredentialsMessage {
    #[prost(message, repeated, tag = "1")]
    tokens: Vec<NamedToken>,
}

/// `CredentialsKVProto`.
#[derive(Clone, PartialEq, Message)]
struct NamedToken {
    #[prost(string, tag = "1")]
    alias: String,
    #[prost(message, optional, tag = "2")]
    token: Option<TokenProto>,
}

/// The tokens of a file, in its order.
pub fn read(file: &[u8]) -> Result<Vec<StoredToken>, TokenFileError> {
    if file.len() > FILE_LEN_MAX {
        return Err(TokenFileError::TooLong { len: file.len() });
    }
    let (version, body) = file.strip_prefix(MAGIC).and_then(<[u8]>::split_first).ok_or(TokenFileError::Magic)?;
    match *version {
        WRITABLES => writables(body),
        MESSAGE => message(body),
        version => Err(TokenFileError::Version { version }),
    }
}

fn writables(body: &[u8]) -> Result<Vec<StoredToken>, TokenFileError> {
    let mut input = Input::new(body);
    let count = input.number()?;
    if !(0..=TOKEN_COUNT_MAX).contains(&count) {
        return Err(TokenFileError::Malformed { at: MAGIC.len() + 1 });
    }
    let mut tokens = Vec::new();
    for _ in 0..count {
        let _alias = input.text(TEXT_LEN_MAX)?;
        let [identifier, password] = [input.bytes(BYTES_LEN_MAX)?, input.bytes(BYTES_LEN_MAX)?];
        let [kind, service] = [input.text(TEXT_LEN_MAX)?.to_owned(), input.text(TEXT_LEN_MAX)?.to_owned()];
        let [identifier, password] = [identifier, password].map(Bytes::copy_from_slice);
        tokens.push(StoredToken { identifier, password, kind, service });
    }
    Ok(tokens)
}

fn message(body: &[u8]) -> Result<Vec<StoredToken>, TokenFileError> {
    let read = CredentialsMessage::decode_length_delimited(body);
    let read = read.map_err(|error| TokenFileError::Message { reason: error.to_string() })?;
    if read.tokens.len() as i64 > TOKEN_COUNT_MAX {
        return Err(TokenFileError::Message { reason: format!("it has {} tokens", read.tokens.len()) });
    }
    let tokens = read.tokens.into_iter().filter_map(|named| named.token);
    let stored =
        |TokenProto { identifier, password, kind, service }| StoredToken { identifier, password, kind, service };
    Ok(tokens.map(stored).collect())
}

/// A file with these tokens, as Hadoop writes it if nobody asks for the other form. Each is found by its service.
pub fn write(tokens: &[StoredToken]) -> Vec<u8> {
    let mut out = [MAGIC, &[WRITABLES]].concat();
    put_number(tokens.len() as i64, &mut out);
    for StoredToken { identifier, password, kind, service } in tokens {
        put_text(service, &mut out);
        for bytes in [identifier, password] {
            put_number(bytes.len() as i64, &mut out);
            out.extend_from_slice(bytes);
        }
        put_text(kind, &mut out);
        put_text(service, &mut out);
    }
    put_number(0, &mut out); // secrets
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> Vec<StoredToken> {
        let token = |name: &str| StoredToken {
            identifier: name.to_owned().into(),
            password: vec![3; 32].into(),
            kind: crate::delegation::KIND.into(),
            service: format!("{name}:8020"),
        };
        vec![token("10.0.0.1"), token(&"n".repeat(300))]
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(read(&write(&example())), Ok(example()));
        assert_eq!(read(&write(&[])), Ok(Vec::new()));
    }

    #[test]
    fn the_other_form_is_read_as_well() {
        let tokens = example().into_iter().map(|StoredToken { identifier, password, kind, service }| NamedToken {
            alias: service.clone(),
            token: Some(TokenProto { identifier, password, kind, service }),
        });
        let message = CredentialsMessage { tokens: tokens.collect() };
        let file = [MAGIC, &[MESSAGE], &message.encode_length_delimited_to_vec()].concat();
        assert_eq!(read(&file), Ok(example()));
    }

    #[test]
    fn what_is_none_is_refused() {
        let whole = write(&example());
        for len in 0..whole.len() - 1 {
            assert!(read(&whole[..len]).is_err(), "cut to {len} bytes");
        }
        assert_eq!(read(b"HDTS\x02"), Err(TokenFileError::Version { version: 2 }));
        assert_eq!(read(b"PK"), Err(TokenFileError::Magic));
        assert!(read(&vec![0; FILE_LEN_MAX + 1]).is_err());
        assert!(!format!("{:?}", example()).contains("3, 3"), "no password is printed");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(version in 0u8..2, bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = read(&[MAGIC, &[version], &bytes].concat());
        }
    }
}
