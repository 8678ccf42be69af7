//! What the tests of this crate share. Each uses a part.

pub(crate) mod list;
pub(crate) mod net;
