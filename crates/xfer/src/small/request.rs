//! A request that came whole, and what must be right with it before a byte of it is put.

use bytes::Bytes;
use types::mutation::{Mutation, is};
use wire::BlockScope;
use wire::small::SmallFrame;

#[derive(Debug)]
pub struct Request<H> {
    pub frame: SmallFrame,
    /// All of it; `frame` tells where what lies.
    pub bytes: Bytes,
    /// The memory of its bytes.
    pub held: H,
}

impl<H> Request<H> {
    pub fn number(&self) -> u64 {
        self.frame.header.number
    }

    /// Whose block it is. `Err`: it cannot be put here, for this reason.
    pub fn check(&self, pool: Option<&str>) -> Result<BlockScope, String> {
        let header = &self.frame.header;
        if header.block >> 63 != 0 {
            return Err("erasure-coded blocks are not served".to_owned());
        }
        if pool.is_some_and(|pool| pool != header.pool) {
            return Err(format!("block pool {:?} is not here", header.pool));
        }
        let scope = BlockScope::decode(&header.token).map_err(|error| error.to_string())?;
        let scope = scope.ok_or("the token does not tell whose the block is")?;
        let (data, sums) = (&self.bytes[self.frame.data.clone()], &self.bytes[self.frame.sums.clone()]);
        if self.frame.spec.verify(data, sums).is_err() && !is(Mutation::PutUnverified) {
            return Err("the bytes do not match their checksums".to_owned());
        }
        Ok(scope)
    }

    /// Checksums and data, as they go on to others.
    pub fn body(&self) -> Bytes {
        self.bytes.slice(self.frame.sums.start..self.frame.data.end)
    }
}
