//! What a small file is to be.

use crate::create::Create;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish<'a> {
    pub(crate) path: &'a str,
    pub(crate) create: &'a Create,
    pub(crate) replication: u16,
    pub(crate) block_len: u64,
}
