//! How far the emptying of a node is.
//!
//! A node that drains takes no new blocks; [`Cluster::mend`] brings another member into each pipeline it is in, and lets it go
//! when all containers are whole on those who stay. So it is empty when it is in no pipeline any more, and not before.
//!
//! Promise: nothing is counted as done that was not told as put, and read back, by another node.

use crate::cluster::Cluster;
use crate::mend::MendRules;
use crate::repair::Repair;
use types::NodeId;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainPicture {
    pub pipelines_left: u64,
    pub containers_left: u64,
    /// Bytes that others have still to copy, about.
    pub len_left: u64,
    /// Pipelines for which nobody can take the node's place: no other node is here, serves, and has room.
    pub stuck: u64,
}

impl Cluster {
    pub fn drain_picture(&self, node: NodeId, rules: &MendRules, repair: &Repair) -> DrainPicture {
        let mut picture = DrainPicture::default();
        for id in self.pipelines_of(node) {
            let Some(pipeline) = self.pipelines.get(id) else { continue };
            let row = &pipeline.row;
            picture.pipelines_left += 1;
            let wanted = usize::from(row.wanted_or(rules.usual_replication)).max(1);
            if self.staying(row) < wanted && self.newcomers(pipeline, rules).next().is_none() {
                picture.stuck += 1;
            }
            let newest = row.joining.iter().map(|(_, epoch)| *epoch).max();
            for home in &pipeline.containers {
                let Some(container) = self.containers.get(home) else { continue };
                if newest.is_some_and(|epoch| container.epoch >= epoch) {
                    continue;
                }
                picture.containers_left += 1;
                // Once it was compared it is known what is to be copied; before, all of it may be.
                picture.len_left += repair.lack_len_of(*home).unwrap_or(container.len);
            }
        }
        picture
    }
}
