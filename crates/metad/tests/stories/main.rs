//! A metadata server as its clients, its datanodes and its administrator meet it.

mod block_tokens;
mod certificates;
mod cold;
mod delegation_tokens;
mod files;
mod found;
mod killed;
mod members;
#[path = "../../../security/tests/support/played_kerberos.rs"]
mod played_kerberos;
mod profiles;
mod repair;
mod reports;
mod restart;
mod rights;
mod room;
mod safe_mode;
mod small;
mod support;
mod writers;
