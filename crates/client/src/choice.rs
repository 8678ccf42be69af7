//! Which replica of a block is asked: pure.

use crate::located::Node;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Nodes that kept somebody waiting, and since when. One for all readers of a store.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlowNodes {
    since: HashMap<Arc<str>, Duration>,
}

/// How long a slow node is asked last.
const SLOW_FOR: Duration = Duration::from_secs(10);

impl SlowNodes {
    /// `addr` was slower than another node, or than is usual.
    pub(crate) fn note(&mut self, now: Duration, addr: &Arc<str>) {
        self.since.retain(|_, since| now.saturating_sub(*since) < SLOW_FOR);
        self.since.insert(Arc::clone(addr), now);
    }

    fn has(&self, now: Duration, addr: &str) -> bool {
        self.since.get(addr).is_some_and(|since| now.saturating_sub(*since) < SLOW_FOR)
    }
}

/// What is known of the nodes at this moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection<'a> {
    /// Not to be asked.
    pub(crate) tried: &'a HashSet<Arc<str>>,
    /// They failed this reader, and are asked last.
    pub(crate) failed: &'a HashSet<Arc<str>>,
    /// They are asked after the others, and before those that failed.
    pub(crate) slow: &'a SlowNodes,
    pub(crate) now: Duration,
}

/// Whom to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice<'n> {
    pub(crate) node: &'n Node,
    /// There is another one, of which nothing bad is known.
    pub(crate) has_other: bool,
}

impl Selection<'_> {
    /// Among equals the first, as the server names the nearest first.
    pub(crate) fn choose<'n>(&self, nodes: &'n [Node]) -> Option<Choice<'n>> {
        let rank = |node: &Node| (self.failed.contains(&node.addr), self.slow.has(self.now, &node.addr));
        let untried = nodes.iter().filter(|node| !self.tried.contains(&node.addr));
        let mut ranked: Vec<_> = untried.map(|node| (rank(node), node)).collect();
        ranked.sort_by_key(|(rank, _)| *rank); // stable
        let has_other = ranked.get(1).is_some_and(|(rank, _)| *rank == (false, false));
        ranked.first().map(|(_, node)| Choice { node, has_other })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(addrs: &[&str]) -> HashSet<Arc<str>> {
        addrs.iter().map(|addr| Arc::from(*addr)).collect()
    }

    /// The order in which nodes `a`, `b` and `c` are asked, and whether another good one is left at each step.
    fn order(failed: &[&str], slow: &SlowNodes, now: Duration) -> String {
        let nodes = ["a", "b", "c"].map(|addr| Node { addr: addr.into(), ..Node::default() });
        let (failed, mut tried, mut told) = (set(failed), HashSet::new(), String::new());
        while let Some(Choice { node, has_other }) =
            (Selection { tried: &tried, failed: &failed, slow, now }).choose(&nodes)
        {
            told += &node.addr;
            told += if has_other { "+" } else { "" };
            tried.insert(Arc::clone(&node.addr));
        }
        told
    }

    #[test]
    fn near_ones_first_then_slow_ones_then_those_that_failed() {
        let (none, mut slow, now) = (SlowNodes::default(), SlowNodes::default(), Duration::from_secs(100));
        assert_eq!(order(&[], &none, now), "a+b+c");
        assert_eq!(order(&["a"], &none, now), "b+ca");
        slow.note(now, &"a".into());
        assert_eq!(order(&[], &slow, now), "b+ca");
        assert_eq!(order(&["b"], &slow, now), "cab", "slow is better than failed");
        assert_eq!(order(&["a", "b", "c"], &slow, now), "bca", "failed nodes are better than none");
        assert_eq!(order(&[], &slow, now + SLOW_FOR), "a+b+c", "slow nodes are forgiven after a while");
    }

    #[test]
    fn nobody_is_left() {
        let all = set(&["a"]);
        let nodes = [Node { addr: "a".into(), ..Node::default() }];
        let (none, slow) = (HashSet::new(), SlowNodes::default());
        let selection = Selection { tried: &all, failed: &none, slow: &slow, now: Duration::ZERO };
        assert_eq!(selection.choose(&nodes), None);
        assert_eq!(Selection { tried: &none, ..selection }.choose(&[]), None);
    }
}
