//! Whether a block's id was given out, and what is known of those from before these rows.

use crate::cluster::Cluster;
use types::{BlockId, ContainerId};

impl Cluster {
    /// False for a block whose id was never given out: it is not from here, or from a time this state has lost. Ids of
    /// a removed container are not given out any more.
    pub fn was_given_out(&self, block: BlockId) -> bool {
        let home = block.born_in();
        self.containers
            .get(&home)
            .map_or(self.was_removed(home), |container| block.index() < container.leased_index_count)
    }

    /// Whether a leader before this one may have given a block out: this one does not know to which client.
    pub fn was_given_out_before(&self, block: BlockId) -> bool {
        let home = block.born_in();
        self.containers
            .get(&home)
            .map_or(self.was_removed(home), |container| block.index() < container.leased_index_count_before)
    }

    /// Its block may have been made after the backup from which these rows were restored: no file owns it because
    /// nobody remembers, and it is kept.
    pub fn may_be_forgotten(&self, block: BlockId) -> bool {
        self.restored.is_some_and(|restored| restored.released.is_none() && block.born_in() <= restored.last_container)
    }

    /// It was such a block, and an administrator wants none of them any more.
    pub fn was_released(&self, block: BlockId) -> bool {
        self.restored.is_some_and(|restored| restored.released.is_some() && block.born_in() <= restored.last_container)
    }

    /// There may be such blocks, and they were not released.
    pub(crate) fn has_forgotten(&self) -> bool {
        self.restored.is_some_and(|restored| restored.released.is_none() && restored.last_container > ContainerId(0))
    }

    /// It was there once, and emptied.
    pub fn was_removed(&self, home: ContainerId) -> bool {
        (ContainerId(1)..=self.last_container).contains(&home) && !self.containers.contains_key(&home)
    }
}
