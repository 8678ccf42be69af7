//! Sorted rows whose copies share what they have in common: a B-tree that copies the nodes it changes, if a copy has
//! them too.
//!
//! ```text
//!  as it was   [ a · · ]    [ b · · ]   since a row was put
//!                │ │ └───┐ ┌──┘ │ │
//!                │ └─┐   │ │ ┌──┘ │
//!                ▼   ▼   ▼ ▼ ▼    ▼
//!               [ ] [ ] [   ][ ] [new]     ← the nodes on the way to that row are new, all others are shared
//! ```
//!
//! Promise: a copy costs the increment of a counter, and never changes. A change copies no more than the nodes on its
//! way from the root, and of these only what a copy still has: without one it is made in place. Rows are put and
//! replaced, never taken out: that a row is gone is a row too.

use crate::row::{Head, Row, Sought};
use std::ops::Bound;
use std::slice::Iter;
use std::sync::Arc;

/// Rows of a leaf: with fewer the tree is higher, with more there are more counters to raise where a leaf is copied.
const LEAF_COUNT_MAX: usize = 32;
const BRANCH_COUNT_MAX: usize = 64;

pub(crate) type Range<'r> = (Bound<&'r [u8]>, Bound<&'r [u8]>);

#[derive(Clone, Debug)]
pub(crate) struct Tree {
    root: Arc<Node>,
}

#[derive(Debug)]
enum Node {
    Leaf(Vec<Row>),
    /// One at least.
    Branch(Vec<Child>),
}

#[derive(Clone, Debug)]
struct Child {
    /// At most the first key below it, and above all keys below the child before it. Of a first child it says nothing.
    low: Arc<[u8]>,
    head: Head,
    node: Arc<Node>,
}

impl Child {
    fn new(low: Arc<[u8]>, node: Node) -> Self {
        Self { head: Head::of(&low), low, node: Arc::new(node) }
    }
}

impl Default for Tree {
    fn default() -> Self {
        Self { root: Arc::new(Node::Leaf(Vec::new())) }
    }
}

impl Clone for Node {
    /// With room for what it is copied for.
    fn clone(&self) -> Self {
        fn copy<T: Clone>(items: &[T], count_max: usize) -> Vec<T> {
            let mut copy = Vec::with_capacity(count_max);
            copy.extend_from_slice(items);
            copy
        }
        match self {
            Self::Leaf(rows) => Self::Leaf(copy(rows, LEAF_COUNT_MAX)),
            Self::Branch(children) => Self::Branch(copy(children, BRANCH_COUNT_MAX)),
        }
    }
}

impl Tree {
    pub(crate) fn is_empty(&self) -> bool {
        matches!(&*self.root, Node::Leaf(rows) if rows.is_empty())
    }

    pub(crate) fn get(&self, full: &[u8]) -> Option<&Row> {
        let (mut node, key) = (&*self.root, Sought::new(full));
        loop {
            match node {
                Node::Leaf(rows) => return find(rows, key).ok().map(|at| &rows[at]),
                Node::Branch(children) => node = &children[child_of(children, key)].node,
            }
        }
    }

    /// Answers the row whose place it takes, if there is one.
    pub(crate) fn put(&mut self, row: Row) -> Option<Row> {
        let (old, right) = put(&mut self.root, row);
        if let Some(right) = right {
            let left = Child { low: Arc::from([]), head: Head::of(&[]), node: Arc::clone(&self.root) };
            self.root = Arc::new(Node::Branch(vec![left, right]));
        }
        old
    }

    /// The rows of a range, ascending or descending.
    pub(crate) fn range(&self, range: Range<'_>, descending: bool) -> Walk<'_> {
        let (from, to) = range;
        let mut walk = Walk { branches: Vec::new(), rows: [].iter(), descending, end: None };
        if let (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) = range
            && from > to
        {
            return walk;
        }
        let (first, behind_last) = if descending { (to, from) } else { (from, to) };
        // The first row that is not in the range any more.
        walk.end = match behind_last {
            Bound::Unbounded => None,
            Bound::Included(key) => walk.begin(&self.root, Bound::Excluded(key)).next(),
            Bound::Excluded(key) => walk.begin(&self.root, Bound::Included(key)).next(),
        };
        walk.begin(&self.root, first)
    }
}

fn find(rows: &[Row], key: Sought<'_>) -> Result<usize, usize> {
    rows.binary_search_by(|row| row.order(key))
}

/// Below which child a key is, or would be.
fn child_of(children: &[Child], key: Sought<'_>) -> usize {
    children[1..].partition_point(|child| key.order(child.head, || &child.low).is_le())
}

/// Answers the row that was replaced, and what was cut off to the right of a node that was full.
fn put(node: &mut Arc<Node>, row: Row) -> (Option<Row>, Option<Child>) {
    match Arc::make_mut(node) {
        Node::Leaf(rows) => match find(rows, Sought::new(row.full())) {
            Ok(at) => (Some(std::mem::replace(&mut rows[at], row)), None),
            Err(at) => {
                let right = insert(rows, at, row, LEAF_COUNT_MAX);
                let child = |right: Vec<Row>| Child::new(Arc::from(right[0].full()), Node::Leaf(right));
                (None, right.map(child))
            }
        },
        Node::Branch(children) => {
            let at = child_of(children, Sought::new(row.full()));
            let (old, right) = put(&mut children[at].node, row);
            let right = right.and_then(|right| insert(children, at + 1, right, BRANCH_COUNT_MAX));
            let child = |right: Vec<Child>| Child::new(Arc::clone(&right[0].low), Node::Branch(right));
            (old, right.map(child))
        }
    }
}

/// Inserts into a node; answers its right part if it was full. Items that come in order leave full nodes behind.
fn insert<T>(items: &mut Vec<T>, at: usize, item: T, count_max: usize) -> Option<Vec<T>> {
    let len = items.len();
    if len < count_max {
        items.insert(at, item);
        return None;
    }
    if at == len {
        return Some(vec![item]);
    }
    let middle = len / 2;
    let mut right = items.split_off(middle);
    match at.checked_sub(middle) {
        // The first of the right part would have to be a new low: the left one takes it.
        None | Some(0) => items.insert(at, item),
        Some(at) => right.insert(at, item),
    }
    Some(right)
}

/// Rows in order. What it borrows is the tree alone.
#[derive(Clone)]
pub(crate) struct Walk<'a> {
    /// What is still to be visited of each branch above the leaf, the root first.
    branches: Vec<Iter<'a, Child>>,
    rows: Iter<'a, Row>,
    descending: bool,
    /// Where it ends, if not with the tree.
    end: Option<&'a Row>,
}

impl<'a> Walk<'a> {
    /// At the first row within `first`, which is the upper bound of one that descends.
    fn begin(&self, root: &'a Node, first: Bound<&[u8]>) -> Self {
        let mut walk = Self { branches: Vec::new(), rows: [].iter(), ..*self };
        let key = match first {
            Bound::Unbounded => {
                walk.descend(root);
                return walk;
            }
            Bound::Included(key) | Bound::Excluded(key) => Sought::new(key),
        };
        let mut node = root;
        loop {
            match node {
                Node::Branch(children) => {
                    let at = child_of(children, key);
                    let rest = if self.descending { &children[..at] } else { &children[at + 1..] };
                    walk.branches.push(rest.iter());
                    node = &children[at].node;
                }
                Node::Leaf(rows) => {
                    let with_key = matches!(first, Bound::Included(_));
                    // The rows before the key; the row of the key itself is in if the bound says so.
                    let before = match find(rows, key) {
                        Ok(at) => at + usize::from(with_key == self.descending),
                        Err(at) => at,
                    };
                    walk.rows = if self.descending { rows[..before].iter() } else { rows[before..].iter() };
                    return walk;
                }
            }
        }
    }

    /// To the first row below a node.
    fn descend(&mut self, mut node: &'a Node) {
        loop {
            match node {
                Node::Leaf(rows) => {
                    self.rows = rows.iter();
                    return;
                }
                Node::Branch(children) => {
                    let mut rest = children.iter();
                    let child = step(&mut rest, self.descending);
                    self.branches.push(rest);
                    node = &child.expect("a branch has children").node;
                }
            }
        }
    }
}

fn step<'a, T>(items: &mut Iter<'a, T>, descending: bool) -> Option<&'a T> {
    if descending { items.next_back() } else { items.next() }
}

impl<'a> Iterator for Walk<'a> {
    type Item = &'a Row;

    fn next(&mut self) -> Option<&'a Row> {
        loop {
            if let Some(row) = step(&mut self.rows, self.descending) {
                if !self.end.is_some_and(|end| std::ptr::eq(end, row)) {
                    return Some(row);
                }
                self.branches.clear();
                self.rows = [].iter();
                return None;
            }
            let child = step(self.branches.last_mut()?, self.descending);
            match child {
                Some(child) => self.descend(&child.node),
                None => drop(self.branches.pop()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use types::random::{Random, Seeded};

    type Model = BTreeMap<Vec<u8>, Vec<u8>>;

    fn check(tree: &Tree, model: &Model, random: &mut Seeded) {
        let all = |range: Range<'_>, descending| -> Vec<(Vec<u8>, Vec<u8>)> {
            let rows = tree.range(range, descending);
            rows.map(|row| (row.full().to_vec(), row.value().unwrap().to_vec())).collect()
        };
        let whole: Vec<_> = model.clone().into_iter().collect();
        assert_eq!(all((Bound::Unbounded, Bound::Unbounded), false), whole);
        for _ in 0..8 {
            let mut ends = [0, 1].map(|_| (random.below(5000) as u16).to_be_bytes().to_vec());
            ends.sort();
            let [from, to] = &ends;
            assert_eq!(tree.get(from).map(|row| row.value().unwrap()), model.get(from).map(Vec::as_slice));
            for from in [Bound::Unbounded, Bound::Included(&from[..]), Bound::Excluded(&from[..])] {
                for to in [Bound::Unbounded, Bound::Included(&to[..]), Bound::Excluded(&to[..])] {
                    if (from, to) == (Bound::Excluded(&ends[0]), Bound::Excluded(&ends[0])) {
                        continue; // the model would panic
                    }
                    let mut expected: Vec<_> =
                        model.range::<[u8], _>((from, to)).map(|(key, value)| (key.clone(), value.clone())).collect();
                    assert_eq!(all((from, to), false), expected);
                    expected.reverse();
                    assert_eq!(all((from, to), true), expected);
                }
            }
            if from < to {
                assert!(all((Bound::Included(to), Bound::Included(from)), false).is_empty(), "an empty range");
            }
        }
    }

    /// In order, backwards and in no order; with copies on the way, which stay as they were.
    #[test]
    fn it_is_a_map_and_its_copies_stand_still() {
        for seed in 0..6 {
            let mut random = Seeded(seed);
            let (mut tree, mut model, mut copies) = (Tree::default(), Model::new(), Vec::new());
            assert!(tree.is_empty());
            for number in 0..3000u16 {
                let key = match seed % 3 {
                    0 => number,
                    1 => 3000 - number,
                    _ => random.below(5000) as u16,
                };
                let (key, value) = (key.to_be_bytes().to_vec(), random.next_u64().to_be_bytes().to_vec());
                let old = tree.put(Row::new(&key, Some(&value)));
                let old = old.map(|row| row.value().unwrap().to_vec());
                assert_eq!(old, model.insert(key, value));
                if random.below(300) == 0 {
                    copies.push((tree.clone(), model.clone()));
                }
            }
            copies.push((tree, model));
            copies.iter().for_each(|(tree, model)| check(tree, model, &mut random));
        }
    }

    /// What a change costs while somebody has a copy: a few nodes, however many rows there are.
    #[test]
    fn a_change_beside_a_copy_copies_a_few_nodes() {
        fn nodes(node: &Arc<Node>, found: &mut Vec<*const Node>) {
            found.push(Arc::as_ptr(node));
            if let Node::Branch(children) = &**node {
                children.iter().for_each(|child| nodes(&child.node, found));
            }
        }
        let mut tree = Tree::default();
        let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        for number in 0..50_000 {
            tree.put(Row::new(&key(number), Some(b"value")));
        }
        let copy = tree.clone();
        tree.put(Row::new(&key(7), Some(b"other")));
        let (mut before, mut after) = (Vec::new(), Vec::new());
        nodes(&copy.root, &mut before);
        nodes(&tree.root, &mut after);
        before.sort_unstable();
        let new = after.iter().filter(|node| before.binary_search(node).is_err()).count();
        assert!(before.len() > 1500 && new <= 4, "{new} of {} nodes are new", before.len());
    }
}
