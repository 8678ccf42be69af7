//! A request that came whole, and what must be right with it before a byte of it is taken, and before one is put.

use crate::answer::Refusal;
use bytes::Bytes;
use std::net::{IpAddr, SocketAddr};
use types::excerpt;
use types::mutation::{Mutation, is};
use wire::BlockScope;
use wire::small::{SmallFrame, SmallWrite};

#[derive(Debug)]
pub struct Request<H> {
    pub frame: SmallFrame,
    /// What the node has admitted.
    pub checked: Checked,
    /// All of it; `frame` tells where what lies.
    pub bytes: Bytes,
    /// The memory of its bytes.
    pub held: H,
}

/// What a request asks for that may be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Whose the block is.
    pub scope: BlockScope,
    /// To whom it goes on. A name would have to be looked up, which whoever sends many of them could make slow.
    pub targets: Vec<SocketAddr>,
}

impl Checked {
    /// `scope`: what its token tells, which was admitted. `Err`: it cannot be put here, whatever its bytes are.
    pub fn of(header: &SmallWrite, pool: Option<&str>, scope: Option<BlockScope>) -> Result<Self, Refusal> {
        if header.block >> 63 != 0 {
            return Err(Refusal::error("erasure-coded blocks are not served"));
        }
        if pool.is_some_and(|pool| pool != header.pool) {
            return Err(Refusal::error(format!("block pool {} is not here", excerpt(&header.pool))));
        }
        let scope = scope.ok_or_else(|| Refusal::error("the token does not tell whose the block is"))?;
        let addr = |text: &String| {
            target_addr(text).ok_or_else(|| Refusal::error(format!("{} is no address of a node", excerpt(text))))
        };
        let targets = header.targets.iter().map(addr).collect::<Result<_, _>>()?;
        Ok(Self { scope, targets })
    }
}

impl<H> Request<H> {
    pub fn number(&self) -> u64 {
        self.frame.header.number
    }

    /// Refuses bytes that are not those that were sent.
    pub fn verify(&self) -> Result<(), Refusal> {
        let (data, sums) = (&self.bytes[self.frame.data.clone()], &self.bytes[self.frame.sums.clone()]);
        if self.frame.spec.verify(data, sums).is_err() && !is(Mutation::PutUnverified) {
            return Err(Refusal::error("the bytes do not match their checksums"));
        }
        Ok(())
    }

    /// Checksums and data, as they go on to others.
    pub fn body(&self) -> Bytes {
        self.bytes.slice(self.frame.sums.start..self.frame.data.end)
    }
}

/// `ip:port`, as clients of all versions write it: an address of IPv6 may stand in brackets or not.
fn target_addr(text: &str) -> Option<SocketAddr> {
    let plain = || {
        let (ip, port) = text.rsplit_once(':')?;
        Some(SocketAddr::new(ip.parse::<IpAddr>().ok()?, port.parse().ok()?))
    };
    text.parse().ok().or_else(plain)
}
