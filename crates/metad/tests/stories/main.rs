//! A metadata server as its clients, its datanodes and its administrator meet it.

mod cold;
mod files;
mod killed;
mod members;
mod repair;
mod reports;
mod restart;
mod room;
mod safe_mode;
mod small;
mod support;
mod tokens;
mod writers;
