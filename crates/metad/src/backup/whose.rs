//! Of which file a found block was, as the datanodes of its replicas say: no row tells, and one of them may be wrong.

use lead::ReportedReplica;
use std::collections::BTreeMap;
use types::{ContainerId, FileId, NodeId};

/// Datanodes that a refusal names.
const NAMED_COUNT_MAX: usize = 10;

pub(super) type Replicas = BTreeMap<NodeId, ReportedReplica>;

/// What most replicas of the newest generation name, of those that name one.
pub(super) fn most_named(replicas: &Replicas) -> Option<(FileId, ContainerId)> {
    let named = || replicas.values().filter_map(|one| Some((one.generation, (one.file?, one.home?))));
    let newest = named().map(|(generation, _)| generation).max()?;
    let mut votes: BTreeMap<(FileId, ContainerId), usize> = BTreeMap::new();
    named()
        .filter(|(generation, _)| *generation == newest)
        .for_each(|(_, whose)| *votes.entry(whose).or_default() += 1);
    votes.into_iter().max_by_key(|(_, count)| *count).map(|(whose, _)| whose)
}

/// Which datanodes name which file, if they do not agree. A block is written for one file, for ever: whatever the
/// generations, somebody is wrong, and by an order for the wrong file the others' bytes would be outranked.
pub(super) fn sides(replicas: &Replicas) -> Option<BTreeMap<FileId, Vec<NodeId>>> {
    let mut sides: BTreeMap<FileId, Vec<NodeId>> = BTreeMap::new();
    let named = replicas.iter().filter_map(|(node, replica)| Some((replica.file?, *node)));
    named.for_each(|(file, node)| sides.entry(file).or_default().push(node));
    (sides.len() > 1).then_some(sides)
}

/// Some datanodes, and how many more there are.
pub(super) fn named(nodes: &[String]) -> String {
    let named = nodes.iter().take(NAMED_COUNT_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match nodes.len().saturating_sub(NAMED_COUNT_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{BlockId, Generation, InodeId};

    /// Replicas on nodes 1, 2, … of a generation, with the file that each names.
    fn replicas(of: &[(u64, Option<u64>)]) -> Replicas {
        let replica = |(generation, file): &(u64, Option<u64>)| ReportedReplica {
            block: BlockId(1),
            generation: Generation(*generation),
            len: 1,
            file: file.map(InodeId),
            home: file.map(|_| ContainerId(3)),
            finalized: false,
        };
        of.iter().zip(1..).map(|(of, number)| (NodeId([number; 16]), replica(of))).collect()
    }

    #[test]
    fn most_of_the_newest_generation_are_shown_and_one_that_contradicts_is_found_out() {
        let most = |of: &[(u64, Option<u64>)]| most_named(&replicas(of)).map(|(file, _)| file.0);
        assert_eq!(most(&[(5, Some(9)), (5, Some(7)), (5, Some(7))]), Some(7), "not the first one");
        assert_eq!(most(&[(4, Some(9)), (4, Some(9)), (5, Some(7))]), Some(7));
        assert_eq!(most(&[(4, Some(9)), (5, None)]), Some(9));
        assert_eq!(most(&[(4, None)]), None);
        assert_eq!(sides(&replicas(&[(4, Some(7)), (5, None), (5, Some(7))])), None);
        let sides = sides(&replicas(&[(9, Some(9)), (4, Some(7)), (4, Some(7))])).unwrap();
        let sides: Vec<_> = sides.into_iter().map(|(file, nodes)| (file.0, nodes.len())).collect();
        assert_eq!(sides, [(7, 2), (9, 1)], "also one that says it has the newest");
    }

    #[test]
    fn a_refusal_names_some_datanodes() {
        let nodes = |count: usize| vec!["a:1".to_owned(); count];
        assert_eq!(named(&nodes(2)), "a:1, a:1");
        assert!(named(&nodes(12)).ends_with("a:1 and 2 more"));
    }
}
