//! The ciphers of a layer for privacy. Each goes on through all messages of its direction.

use super::protection::Cipher;
use super::triple_des::{BLOCK_LEN, Decryptor, Encryptor, TripleDes};
use rc4::{KeyInit, Rc4, StreamCipher};

/// One direction, at the end that sends.
pub(super) type Sealing = Direction<Encryptor>;

/// One direction, at the end that receives.
pub(super) type Opening = Direction<Decryptor>;

/// RC4 is the same at both ends.
pub(super) enum Direction<Des> {
    TripleDes(Box<Des>),
    Rc4(Box<Rc4>),
}

impl<Des: TripleDes> Direction<Des> {
    pub(super) fn new(cipher: Cipher, key: &[u8; 16]) -> Self {
        match cipher {
            Cipher::TripleDes => {
                let (key, iv) = des_keys(key);
                Self::TripleDes(Box::new(Des::new(key, iv)))
            }
            Cipher::Rc4 => Self::Rc4(Box::new(Rc4::new_from_slice(key).expect("RC4 takes 16 bytes"))),
        }
    }

    /// Bytes that a message and what is sealed with it are a multiple of.
    pub(super) fn block_len(&self) -> usize {
        match self {
            Self::TripleDes(_) => BLOCK_LEN,
            Self::Rc4(_) => 1,
        }
    }

    /// Whole blocks, in place.
    pub(super) fn apply(&mut self, bytes: &mut [u8]) {
        assert_eq!(bytes.len() % self.block_len(), 0, "{} bytes are not whole blocks", bytes.len());
        match self {
            Self::TripleDes(cipher) => cipher.apply(bytes),
            Self::Rc4(cipher) => cipher.apply_keystream(bytes),
        }
    }
}

/// RFC 2831, 2.4: two keys of DES from the first 14 bytes, the initial vector from the last 8.
fn des_keys(key: &[u8; 16]) -> ([u8; 16], [u8; BLOCK_LEN]) {
    let mut keys = [0; 16];
    for (half, out) in keys.chunks_exact_mut(8).enumerate() {
        let bits = key[7 * half..7 * half + 7].iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
        for (place, byte) in out.iter_mut().enumerate() {
            // Seven bits, and one of parity, which nobody looks at.
            *byte = (bits >> (49 - 7 * place) << 1) as u8;
        }
    }
    let [_, _, _, _, _, _, _, _, iv @ ..] = *key;
    (keys, iv)
}
