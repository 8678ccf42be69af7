//! Lengths of containers, counted from their rows. Deletions make containers smaller, and no event reports that.
//!
//! Promise: all containers are counted in turn. A container's length is right except for what was written and deleted
//! while it was counted.

use crate::cluster::Cluster;
use namespace::read::Place;
use types::ContainerId;

/// How far counting is.
#[derive(Debug, Default)]
pub struct ContainerSizes {
    home: Option<ContainerId>,
    /// Where the next page of that container begins; `None`: all its pages were counted.
    next: Option<Place>,
    len: u64,
}

impl ContainerSizes {
    /// The page that is to be counted.
    pub fn next(&mut self, cluster: &Cluster) -> Option<(ContainerId, Place)> {
        if let (Some(home), Some(place)) = (self.home, self.next) {
            return Some((home, place));
        }
        let home = cluster.container_after(self.home)?;
        let place = Place::start(home);
        *self = Self { home: Some(home), next: Some(place), len: 0 };
        Some((home, place))
    }

    /// The blocks of that page have so many bytes, and the next page begins at `next`. True: all containers were
    /// counted, and the first comes again.
    pub fn on_page(&mut self, page_len: u64, next: Option<Place>, cluster: &mut Cluster) -> bool {
        let Some(home) = self.home else { return true };
        assert!(self.next.is_some(), "a page of {home} that was not asked for");
        (self.len, self.next) = (self.len.saturating_add(page_len), next);
        if next.is_some() {
            return false;
        }
        cluster.on_measured(home, self.len);
        let is_last = cluster.container_after(self.home) <= self.home;
        if is_last {
            // From the first on, whatever was opened behind it meanwhile: else those of before would never be counted.
            *self = Self::default();
        }
        is_last
    }

    pub(crate) fn check(&self) {
        assert!(self.next.is_none() || self.home.is_some(), "a page is of a container: {self:?}");
        assert!(self.home.is_some() || self.len == 0, "bytes are of a container: {self:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leader::tests::{HOME, block, leader, rules};
    use blocks::{Command, Reply};
    use types::PipelineId;

    #[test]
    fn pages_of_a_container_add_up_and_the_next_one_follows() {
        let (mut leader, second) = (leader(), ContainerId(2));
        let opened = Ok(Reply::Container(second));
        leader.on_applied(&Command::OpenContainer { pipeline: PipelineId(1) }, &opened, rules());
        let mut sizes = ContainerSizes::default();
        let (cluster, half) = (&mut leader.cluster, Place::Native(block(50)));
        assert_eq!(sizes.next(cluster), Some((HOME, Place::start(HOME))));
        assert_eq!(sizes.next(cluster), Some((HOME, Place::start(HOME))), "whoever read it went away");
        assert!(!sizes.on_page(30, Some(half), cluster));
        assert_eq!(sizes.next(cluster), Some((HOME, half)));
        assert!(!sizes.on_page(12, None, cluster));
        assert_eq!(cluster.container(HOME).unwrap().len_about(), 42);
        assert_eq!(sizes.next(cluster), Some((second, Place::start(second))));
        assert!(sizes.on_page(5, None, cluster), "it was the last");
        // One more is opened in each round, and the first has its turn all the same.
        let opened = Ok(Reply::Container(ContainerId(3)));
        leader.on_applied(&Command::OpenContainer { pipeline: PipelineId(1) }, &opened, rules());
        let cluster = &mut leader.cluster;
        assert_eq!(sizes.next(cluster), Some((HOME, Place::start(HOME))));
        leader.check();
    }
}
