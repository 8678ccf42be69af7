//! A datanode over real sockets, told as stories: writers, readers, other datanodes, a metadata server and disks that
//! fail.

mod certificates;
mod chains;
mod close_recovery;
mod contents;
mod disks;
mod layouts;
mod local;
mod memory;
mod metad;
mod protection;
mod random;
mod ranges;
mod reads;
mod sick_disks;
mod silence;
mod small;
mod speed;
mod support;
mod tokens;
mod trees;
