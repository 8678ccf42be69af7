//! AES in counter mode, as Hadoop's data transfer has it: a stream each way, without frames and without integrity.

use aes::cipher::{KeyIvInit, StreamCipher};
use ctr::Ctr128BE;
use std::fmt;

pub(super) const IV_LEN: usize = 16;
pub(super) const KEY_LEN_MAX: usize = 32;

/// HDFS's `dfs.encrypt.data.transfer.cipher.key.bitlength`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyBits {
    #[default]
    B128,
    B192,
    B256,
}

impl KeyBits {
    pub const ALL: [Self; 3] = [Self::B128, Self::B192, Self::B256];

    pub fn count(self) -> u32 {
        8 * self.key_len() as u32
    }

    /// `None`: AES has no keys of so many bits.
    pub fn of_count(count: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|bits| bits.count() == count)
    }

    pub(super) fn key_len(self) -> usize {
        match self {
            Self::B128 => 16,
            Self::B192 => 24,
            Self::B256 => 32,
        }
    }
}

/// One direction. Made by a handshake alone.
pub enum Stream {
    B128(Box<Ctr128BE<aes::Aes128>>),
    B192(Box<Ctr128BE<aes::Aes192>>),
    B256(Box<Ctr128BE<aes::Aes256>>),
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::B128(_) => "AES-128",
            Self::B192(_) => "AES-192",
            Self::B256(_) => "AES-256",
        })
    }
}

impl Stream {
    /// `None`: no key of AES has this length, or no vector that one.
    pub(super) fn new(key: &[u8], iv: &[u8]) -> Option<Self> {
        Some(match key.len() {
            16 => Self::B128(Box::new(Ctr128BE::new_from_slices(key, iv).ok()?)),
            24 => Self::B192(Box::new(Ctr128BE::new_from_slices(key, iv).ok()?)),
            32 => Self::B256(Box::new(Ctr128BE::new_from_slices(key, iv).ok()?)),
            _ => return None,
        })
    }

    /// The same in both directions. A stream has 2¹²⁸ blocks, which nobody sends.
    pub(super) fn apply(&mut self, bytes: &mut [u8]) {
        match self {
            Self::B128(stream) => stream.apply_keystream(bytes),
            Self::B192(stream) => stream.apply_keystream(bytes),
            Self::B256(stream) => stream.apply_keystream(bytes),
        }
    }
}
