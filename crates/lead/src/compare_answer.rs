//! Answers of nodes to the question which blocks they have, and how far the leader relies on them.

use crate::repair::Repair;
use crate::surplus::Surplus;
use namespace::BlockView;
use std::collections::BTreeMap;
use types::{Fitness, NodeId};

/// What came of asking several nodes about a list of blocks.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    of: BTreeMap<NodeId, Vec<Fitness>>,
}

impl Answers {
    /// `None` where no answer came. One that does not speak of each of the `count` blocks is none either.
    pub fn new(count: usize, said: impl IntoIterator<Item = (NodeId, Option<Vec<Fitness>>)>) -> Self {
        let whole = said.into_iter().filter_map(|(node, list)| Some((node, list.filter(|list| list.len() == count)?)));
        Self { of: whole.collect() }
    }

    /// True if any node has number `at` of the list whole.
    pub fn is_any_fit(&self, at: usize) -> bool {
        self.of.values().any(|said| said.get(at) == Some(&Fitness::Fit))
    }

    pub(crate) fn is_silent(&self, node: NodeId) -> bool {
        !self.of.contains_key(&node)
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.of.keys().copied()
    }

    /// What the leader assumes of the replica of `wanted`, which is number `at` of the list. A replica that is known to
    /// be damaged is no source, and one whose deletion was ordered counts as absent, whatever its node reports.
    pub(crate) fn of(
        &self,
        node: NodeId,
        at: usize,
        wanted: &BlockView,
        repair: &Repair,
        surplus: &Surplus,
    ) -> Option<Fitness> {
        let said = *self.of.get(&node)?.get(at)?;
        Some(match said {
            Fitness::Fit if repair.is_bad(wanted.block, node, wanted.generation) => Fitness::Unfit,
            Fitness::Readable if repair.is_bad(wanted.block, node, wanted.generation) => Fitness::Absent,
            Fitness::Fit | Fitness::Readable if surplus.is_leaving(wanted.block, node, wanted.generation) => {
                Fitness::Absent
            }
            said => said,
        })
    }
}
