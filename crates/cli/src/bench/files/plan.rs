//! All that is decided before anything is written.

use super::args::{Args, Shape};
use crate::shell::Failure;
use client::{Options, Routing};
use types::Random;
use types::limits::SMALL_WRITE_LEN_MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Write,
    Small,
}

/// All that is decided before anything is written.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) what: What,
    pub(super) clients: u32,
    pub(super) files: u64,
    pub(super) len: u64,
    pub(super) replication: Option<u16>,
    pub(super) block_len: Option<u64>,
    pub(super) routing: Shape,
    pub(super) leader: Option<std::net::IpAddr>,
    pub(super) small_max: Option<u64>,
    pub(super) sync: bool,
    pub(super) seed: u64,
}

impl Plan {
    pub(super) fn new(what: What, args: &Args) -> Self {
        let small = what == What::Small;
        let clients = args.clients.unwrap_or(if small { 8 } else { 1 });
        Self {
            what,
            clients,
            files: args.files.unwrap_or(u64::from(clients) * if small { 500 } else { 4 }),
            len: args.size.unwrap_or(if small { 4 << 10 } else { 128 << 20 }),
            replication: args.replication,
            block_len: args.block_size,
            routing: args.routing,
            leader: args.leader,
            small_max: args.small_max,
            sync: args.sync,
            seed: args.seed.unwrap_or_else(|| io::OsRandom::new().next_u64() >> 32),
        }
    }

    pub(super) fn bytes(&self) -> Result<u64, Failure> {
        let bytes = self.files.checked_mul(self.len).filter(|bytes| *bytes <= u64::MAX / 4);
        bytes.ok_or_else(|| Failure::usage("--files and --size", "are more than any store holds"))
    }

    pub(super) fn options(&self) -> Options {
        let routing = match self.routing {
            Shape::Chain => Routing::Chain,
            Shape::Star => Routing::Star,
            Shape::Tree => Routing::Tree,
        };
        let usual = Options { sync_blocks: self.sync, routing, leader: self.leader, ..Options::default() };
        let Some(small_max) = self.small_max else { return usual };
        let small_len_max = small_max.min(SMALL_WRITE_LEN_MAX.into()) as u32;
        // A file that goes in one request is a packet that is not full.
        let packet_len = usual.packet_len.max((small_len_max + 1).next_multiple_of(4096));
        Options { small_len_max, packet_len, ..usual }
    }
}
