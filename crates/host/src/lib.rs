//! The process and the machine that it runs on: for programs, not for libraries.
//!
//! Promise: whoever links [`client`](../client/index.html) links none of this. An allocator, the user database and the
//! limits of a process belong to the program, and a library that is loaded into somebody else's leaves them alone.
//!
//! | module | holds |
//! |---|---|
//! | [`limit`] | how many open files the process may have |
//! | [`log_level`] | what the program logs, changed while it runs |
//! | [`memory`] | when freed memory goes back to the machine |
//! | [`meter`] | what a server tells those who measure of the resources that it has used |
//! | [`network`] | the networks of the machine, and who calls from them |
//! | [`process`] | processor time used so far; a number that names the process |
//! | [`size`] | numbers of bytes, as people write them |
//! | [`user`] | names and groups of the machine's users |
//! | [`version`] | the version of the program |

pub mod limit;
pub mod log_level;
pub mod memory;
pub mod meter;
pub mod network;
pub mod process;
pub mod size;
pub mod user;
pub mod version;
