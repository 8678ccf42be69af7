//! A volume on real files: what it keeps through kills, losses of power, damage and a full disk.

mod batch;
mod compact;
mod crash;
mod crowd;
mod damage;
mod emptied;
mod full;
mod life;
mod model;
mod packets;
mod power;
mod recovery;
mod support;
