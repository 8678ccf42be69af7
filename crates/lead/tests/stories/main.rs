//! The leader's rules, played with many nodes: placement, repair, surplus, balance.

mod balance;
mod bounded;
mod missing;
mod next_change;
mod order;
mod place;
mod quiet;
mod repair;
mod room;
mod scarce;
mod simulation;
