//! What the tests of this crate share. Each uses a part.
#![allow(dead_code, unreachable_pub, missing_debug_implementations)]

pub mod list;
pub mod net;
