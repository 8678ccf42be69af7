//! The store on real files: models, copies, damage, kills and losses of power.

mod copy;
mod crash;
mod damage;
mod model;
mod power;
mod views;
