//! Groups of members over real sockets and files, and a single one: what they agree on and what a crash leaves.

mod agreement;
mod group;
mod killed;
mod levels;
mod power;
mod restart;
mod strangers;
mod support;
