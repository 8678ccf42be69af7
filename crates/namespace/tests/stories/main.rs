//! What clients do to the namespace, told as scripts: see [`world::check`] for how they read.

mod attributes;
mod blocks;
mod depth;
mod effects;
mod freeing;
mod leases;
mod permissions;
mod puts;
mod quotas;
mod reading;
mod renames;
mod retries;
mod safe_mode;
mod tree;
mod truncates;
mod world;
