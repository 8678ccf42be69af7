//! Who forwards to whom in one stream.
//!
//! ```text
//! chain  0 ─▶ 1 ─▶ 2 ─▶ 3        tree  0 ─▶ 1            star  0 ─▶ 1
//!                                      │ (own rack)           ├─▶ 2
//!                                      └─▶ 2 ─▶ 3             └─▶ 3
//!                                        (another rack)
//! parents  0 1 2                       0 0 2                  0 0 0
//! ```
//!
//! A table names for each node but the first the one that sends to it. The nodes stand in the order in which the table
//! is walked downwards, so that all nodes below one are neighbours in every list: a node's targets, its answers, the
//! replies of an ack. In that order a chain is what HDFS has, and needs no table at all.

use crate::error::WireError;
use std::ops::Range;
use types::limits::REPLICATION_MAX;

/// A table for the node that gets it: node 0 is itself, node `n` the `n`-th of its targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routing {
    /// Of node 1 on. Each lies before its children, and a node's children and theirs are neighbours.
    parents: Vec<u32>,
}

impl Routing {
    pub fn chain(node_count: usize) -> Self {
        Self { parents: (0..node_count.saturating_sub(1) as u32).collect() }
    }

    pub fn star(node_count: usize) -> Self {
        Self { parents: vec![0; node_count.saturating_sub(1)] }
    }

    /// The first node sends to its own rack and once to each other rack; inside of a rack there is a chain. Also the
    /// order in which the nodes must stand, as places in `racks`: rack by rack, and the first stays the first.
    pub fn tree<R: PartialEq>(racks: &[R]) -> (Vec<usize>, Self) {
        let mut order: Vec<usize> = Vec::with_capacity(racks.len());
        let mut parents = Vec::with_capacity(racks.len());
        for first in 0..racks.len() {
            if order.contains(&first) {
                continue; // its rack came up with an earlier node
            }
            for place in (first..racks.len()).filter(|place| racks[*place] == racks[first]) {
                if !order.is_empty() {
                    parents.push(if place == first { 0 } else { order.len() as u32 - 1 });
                }
                order.push(place);
            }
        }
        (order, Self { parents })
    }

    /// A table that came with `target_count` targets; without one it is a chain.
    pub fn decode(parents: &[u32], target_count: usize) -> Result<Self, WireError> {
        let max = usize::from(REPLICATION_MAX);
        if target_count >= max {
            return Err(WireError::TooLong { what: "list of targets", len: target_count as u64, max: max as u64 - 1 });
        }
        if parents.is_empty() {
            return Ok(Self::chain(target_count + 1));
        }
        let bad = |reason: String| WireError::Message { what: "routing table", reason };
        if parents.len() != target_count {
            return Err(bad(format!("{} parents for {target_count} targets", parents.len())));
        }
        // From node 0 down to the node before: only these may get one more child.
        let mut path = vec![0];
        for (node, parent) in (1..).zip(parents) {
            while path.last().is_some_and(|last| last != parent) {
                path.pop();
            }
            if path.is_empty() {
                return Err(bad(format!("node {parent} cannot be the parent of node {node} in this order")));
            }
            path.push(node);
        }
        Ok(Self { parents: parents.to_vec() })
    }

    /// As it goes over the wire: nothing for a chain, which everybody knows how to make.
    pub fn encode(&self) -> Vec<u32> {
        if self.is_chain() { Vec::new() } else { self.parents.clone() }
    }

    pub fn is_chain(&self) -> bool {
        self.parents.iter().zip(0..).all(|(parent, before)| *parent == before)
    }

    /// The nodes that node 0 sends to: each as the range of targets (counted from 0) that it and those behind it are.
    pub fn children(&self) -> Vec<Range<usize>> {
        let starts: Vec<usize> = (0..self.parents.len()).filter(|target| self.parents[*target] == 0).collect();
        let ends = starts.iter().skip(1).copied().chain([self.parents.len()]);
        starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
    }

    /// The table as one of the [`Routing::children`] must get it.
    pub fn below(&self, child: &Range<usize>) -> Self {
        let first = child.start as u32 + 1;
        let inner = child.start + 1..child.end;
        Self { parents: self.parents[inner].iter().map(|parent| parent - first).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_three_shapes() {
        assert!(matches!(&Routing::chain(4).children()[..], [all] if *all == (0..3)));
        assert_eq!(Routing::chain(4).below(&(0..3)), Routing::chain(3));
        assert_eq!(Routing::star(4).children(), [0..1, 1..2, 2..3]);
        assert_eq!(Routing::star(4).below(&(1..2)), Routing::chain(1));
        let (order, tree) = Routing::tree(&["a", "b", "a", "c", "b"]);
        assert_eq!(order, [0, 2, 1, 4, 3]);
        assert_eq!(tree.encode(), [0, 0, 2, 0]);
        assert_eq!(tree.children(), [0..1, 1..3, 3..4]);
        assert_eq!(tree.below(&(1..3)), Routing::chain(2));
        for shape in
            [Routing::chain(0), Routing::chain(1), Routing::star(0), Routing::star(1), Routing::tree(&[0; 0]).1]
        {
            assert!(shape.children().is_empty() && shape.is_chain());
        }
        assert!(Routing::tree(&["a"; 5]).1.is_chain(), "one rack is a chain");
    }

    #[test]
    fn tables_that_are_none_are_refused() {
        for (parents, count) in [(&[0, 1][..], 3), (&[1], 1), (&[0, 0, 1], 3), (&[0, 2], 2), (&[0, u32::MAX], 2)] {
            assert!(Routing::decode(parents, count).is_err(), "{parents:?}");
        }
        assert!(Routing::decode(&[], usize::from(REPLICATION_MAX)).is_err());
        assert_eq!(Routing::decode(&[], 3), Ok(Routing::chain(4)));
        assert_eq!(Routing::decode(&[0, 1, 2], 3).unwrap().encode(), [0; 0]);
    }

    proptest! {
        /// Handed down from node to node, a table reaches every node once.
        #[test]
        fn every_node_is_reached_once(racks in proptest::collection::vec(0u8..4, 0..12), shape in 0..3) {
            let (order, routing) = match shape {
                0 => ((0..racks.len()).collect(), Routing::chain(racks.len())),
                1 => ((0..racks.len()).collect(), Routing::star(racks.len())),
                _ => Routing::tree(&racks),
            };
            let mut sorted = order.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..racks.len()).collect::<Vec<_>>());
            if racks.is_empty() {
                return Ok(());
            }
            // (nodes as the node has them, itself first; its table)
            let mut waiting = vec![(order, routing)];
            let mut reached = 0;
            let mut crossings = 0;
            while let Some((nodes, routing)) = waiting.pop() {
                reached += 1;
                let routing = Routing::decode(&routing.encode(), nodes.len() - 1).unwrap();
                for child in routing.children() {
                    let below = nodes[1..][child.clone()].to_vec();
                    crossings += usize::from(racks[below[0]] != racks[nodes[0]]);
                    waiting.push((below, routing.below(&child)));
                }
            }
            prop_assert_eq!(reached, racks.len());
            let rack_count = (0..4).filter(|rack| racks.contains(rack)).count();
            prop_assert!(shape < 2 || crossings == rack_count - 1, "a tree crosses to each rack once");
        }

        #[test]
        fn no_table_panics(parents in proptest::collection::vec(0u32..9, 0..9), count in 0usize..9) {
            if let Ok(routing) = Routing::decode(&parents, count) {
                for child in routing.children() {
                    let below = routing.below(&child);
                    prop_assert_eq!(Routing::decode(&below.encode(), child.len() - 1), Ok(below));
                }
            }
        }
    }
}
