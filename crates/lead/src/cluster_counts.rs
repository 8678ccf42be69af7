//! Counts that each change of the picture keeps up to date, so that no decision walks over all containers.
//!
//! Promise: after each change every count equals what a recount gives; [`Cluster::check`] asserts it.

use crate::cluster::Cluster;
use crate::container::Container;
use crate::worklists::Worklists;
use blocks::{ContainerState, PipelineRow};
use std::collections::{BTreeMap, BTreeSet};
use types::{ContainerId, Epoch, NodeId, PipelineId};

impl Cluster {
    /// Changes a container, and whatever is counted of it.
    pub(crate) fn change_container(&mut self, id: ContainerId, change: impl FnOnce(&mut Container)) {
        self.count_out(id);
        if let Some(container) = self.containers.get_mut(&id) {
            change(container);
        }
        self.count_in(id);
    }

    pub(crate) fn count_in(&mut self, id: ContainerId) {
        self.count(id, |sum, len| *sum += len, |count| *count += 1);
        match self.containers.get(&id).map(|container| container.state) {
            Some(ContainerState::Sealed) => _ = self.worklists.sealed.insert(id),
            Some(ContainerState::Sealing) => _ = self.worklists.sealing.insert(id),
            Some(ContainerState::Open) | None => {}
        }
    }

    pub(crate) fn count_out(&mut self, id: ContainerId) {
        self.count(id, |sum, len| *sum -= len, |count| *count -= 1);
        self.worklists.sealed.remove(&id);
        self.worklists.sealing.remove(&id);
    }

    fn count(&mut self, id: ContainerId, add: impl Fn(&mut u128, u128), step: impl Fn(&mut u64)) {
        let Some(container) = self.containers.get(&id) else { return };
        let Some(pipeline) = self.pipelines.get_mut(&container.pipeline) else { return };
        let len = u128::from(container.held_len());
        add(&mut pipeline.len, len);
        if pipeline.row.joining.iter().any(|(_, joined)| *joined > container.epoch) {
            step(&mut pipeline.lagging_count);
        }
        for (node, joined) in &pipeline.row.joining {
            if *joined > container.epoch.max(container.reported_epoch)
                && let Some(member) = self.nodes.get_mut(node)
            {
                add(&mut member.incoming_len, len);
            }
        }
    }

    /// Others join a pipeline than did: one pass over its containers.
    pub(crate) fn recount_joining(&mut self, id: PipelineId, before: &[(NodeId, Epoch)], after: &[(NodeId, Epoch)]) {
        let Some(pipeline) = self.pipelines.get_mut(&id) else { return };
        pipeline.lagging_count = 0;
        for container in pipeline.containers.iter().filter_map(|home| self.containers.get(home)) {
            let (len, reported_epoch) =
                (u128::from(container.held_len()), container.epoch.max(container.reported_epoch));
            pipeline.lagging_count += u64::from(after.iter().any(|(_, joined)| *joined > container.epoch));
            for (node, _) in before.iter().filter(|(_, joined)| *joined > reported_epoch) {
                self.nodes.entry(*node).and_modify(|member| member.incoming_len -= len);
            }
            for (node, _) in after.iter().filter(|(_, joined)| *joined > reported_epoch) {
                self.nodes.entry(*node).and_modify(|member| member.incoming_len += len);
            }
        }
    }

    pub(crate) fn list_pipeline(&mut self, id: PipelineId, row: &PipelineRow) {
        debug_assert!(row.wanted > 0, "{id} should have members");
        for member in &row.members {
            self.by_node.entry(*member).or_default().push(id);
        }
        self.by_wanted.entry(row.wanted).or_default().push(id);
        let same = self.by_set.entry((row.members.clone(), row.wanted)).or_default();
        same.insert(id);
        if same.len() > 1 {
            self.worklists.twins.extend(same.iter());
        }
        if !row.joining.is_empty() {
            self.worklists.joining.insert(id);
        }
        if row.members.len() != usize::from(row.wanted) {
            self.worklists.uneven.insert(id);
        }
    }

    pub(crate) fn unlist_pipeline(&mut self, id: PipelineId, row: &PipelineRow) {
        for member in &row.members {
            if let Some(list) = self.by_node.get_mut(member) {
                list.retain(|listed| *listed != id);
            }
        }
        if let Some(list) = self.by_wanted.get_mut(&row.wanted) {
            list.retain(|listed| *listed != id);
        }
        let key = (row.members.clone(), row.wanted);
        if let Some(same) = self.by_set.get_mut(&key) {
            same.remove(&id);
            if same.len() == 1 {
                same.iter().for_each(|alone| _ = self.worklists.twins.remove(alone));
            }
            if same.is_empty() {
                self.by_set.remove(&key);
            }
        }
        self.worklists.joining.remove(&id);
        self.worklists.uneven.remove(&id);
        self.worklists.twins.remove(&id);
    }

    /// Every relation between the rows that are mirrored here and what is counted of them. Looks at everything: for
    /// tests and simulations.
    pub fn check(&self) {
        let mut worklists = Worklists::default();
        let mut incoming: BTreeMap<NodeId, u128> = BTreeMap::new();
        let mut by_node: BTreeMap<NodeId, BTreeSet<PipelineId>> = BTreeMap::new();
        let mut by_set: BTreeMap<(Vec<NodeId>, u16), BTreeSet<PipelineId>> = BTreeMap::new();
        for (id, pipeline) in &self.pipelines {
            let row = &pipeline.row;
            assert!(row.members.is_sorted(), "{id} has its members in order");
            let (mut len, mut lagging) = (0, 0);
            for home in &pipeline.containers {
                let container = &self.containers[home];
                assert_eq!(container.pipeline, *id, "{home} is listed where it is");
                len += u128::from(container.held_len());
                lagging += u64::from(row.joining.iter().any(|(_, joined)| *joined > container.epoch));
                for (node, _) in
                    row.joining.iter().filter(|(_, joined)| *joined > container.epoch.max(container.reported_epoch))
                {
                    *incoming.entry(*node).or_default() += u128::from(container.held_len());
                }
            }
            assert_eq!((pipeline.len, pipeline.lagging_count), (len, lagging), "bytes of {id}, and what of it lags");
            assert_eq!(row.container_count, pipeline.containers.len() as u64, "containers of {id}");
            let is_open = |home: &ContainerId| self.containers[home].state == ContainerState::Open;
            let open: BTreeSet<&ContainerId> = pipeline.containers.iter().filter(|home| is_open(home)).collect();
            assert_eq!(pipeline.open.iter().collect::<BTreeSet<_>>(), open, "open containers of {id}");
            row.members.iter().for_each(|node| _ = by_node.entry(*node).or_default().insert(*id));
            by_set.entry((row.members.clone(), row.wanted)).or_default().insert(*id);
            worklists.joining.extend((!row.joining.is_empty()).then_some(*id));
            worklists.uneven.extend((row.members.len() != usize::from(row.wanted)).then_some(*id));
        }
        worklists.twins = by_set.values().filter(|same| same.len() > 1).flatten().copied().collect();
        let of_state = |state| {
            let all = self.containers.iter().filter(move |(_, container)| container.state == state);
            all.map(|(home, _)| *home).collect()
        };
        (worklists.sealed, worklists.sealing) = (of_state(ContainerState::Sealed), of_state(ContainerState::Sealing));
        assert_eq!(self.worklists, worklists, "lists of what needs looking after");
        assert_eq!(self.by_set, by_set, "pipelines by their members");
        for (home, container) in &self.containers {
            let pipeline = self.pipelines.get(&container.pipeline);
            assert!(pipeline.is_none_or(|pipeline| pipeline.containers.contains(home)), "{home} is in its pipeline");
        }
        self.check_claims();
        for (node, member) in &self.nodes {
            let listed: BTreeSet<PipelineId> = self.pipelines_of(*node).iter().copied().collect();
            assert_eq!(listed.len(), self.pipelines_of(*node).len(), "pipelines of {node} are listed once");
            assert_eq!(listed, by_node.remove(node).unwrap_or_default(), "pipelines of {node}");
            assert_eq!(member.incoming_len, incoming.remove(node).unwrap_or_default(), "bytes on their way to {node}");
        }
    }
}
