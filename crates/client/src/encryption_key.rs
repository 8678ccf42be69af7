//! What a client proves to datanodes of an HDFS that encrypts (`dfs.encrypt.data.transfer`): a key that its metadata
//! server gives out to whoever may call it.

use hdfs::proto::DataEncryptionKeyProto;
use sasl::HdfsSecret;
use security::encryption_key::hdfs_user_name;
use security::sasl::digest::{Cipher, Protection, Qop};
use std::fmt;
use types::Millis;

pub(crate) struct EncryptionKey {
    user: String,
    password: bytes::Bytes,
    /// `dfs.encrypt.data.transfer.algorithm` there: datanodes know no other cipher of SASL's own.
    is_rc4: bool,
    /// By the server's clock. One that has expired is refused, and another one asked for.
    pub(crate) expires: Millis,
}

impl fmt::Debug for EncryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncryptionKey({})", self.user)
    }
}

impl EncryptionKey {
    pub(crate) fn of(key: DataEncryptionKeyProto) -> Self {
        Self {
            user: hdfs_user_name(key.key_id, &key.block_pool_id, &key.nonce),
            password: key.encryption_key,
            is_rc4: key.encryption_algorithm.as_deref() == Some(Cipher::Rc4.name()),
            expires: Millis(key.expiry_date),
        }
    }

    pub(crate) fn secret(&self) -> HdfsSecret<'_> {
        HdfsSecret::EncryptionKey { user: &self.user, password: &self.password }
    }

    pub(crate) fn protection(&self) -> Protection {
        let protection = Protection::of(&[Qop::Privacy]);
        if self.is_rc4 { protection.with_rc4() } else { protection }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_name_that_datanodes_look_for() {
        let key = |id: i32, algorithm: &str| {
            EncryptionKey::of(DataEncryptionKeyProto {
                key_id: id.cast_unsigned(),
                block_pool_id: "BP-1".into(),
                nonce: b"12345678".to_vec().into(),
                encryption_key: vec![7; 20].into(),
                expiry_date: 9,
                encryption_algorithm: Some(algorithm.into()),
            })
        };
        assert_eq!(key(3, "").user, "3 BP-1 MTIzNDU2Nzg=");
        assert_eq!(key(-3, "").user, "-3 BP-1 MTIzNDU2Nzg=", "Java's numbers have a sign");
        assert_eq!(key(3, "3des").protection().ciphers, [Cipher::TripleDes]);
        assert!(key(3, "rc4").protection().ciphers.contains(&Cipher::Rc4));
        assert!(!format!("{:?}", key(3, "")).contains('7'));
    }
}
