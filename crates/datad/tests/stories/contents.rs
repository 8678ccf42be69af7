//! Hash trees: two nodes tell where they differ without telling all that they have.

use crate::support::{Cluster, pattern};
use std::collections::BTreeSet;
use wire::node::REPLICA_PROTOCOL;
use wire::tree::{FAN_OUT, Leaf, TREE, TreeNode, TreeRequest, TreeResponse, TreeSum};

fn ask(cluster: &Cluster, node: usize, request: &TreeRequest) -> TreeResponse {
    let client = rpc::Client::new(cluster.node(node).ipc_addr().to_string(), "metad".into(), REPLICA_PROTOCOL);
    for _ in 0..3000 {
        let answer: TreeResponse = cluster.runtime.block_on(client.call(TREE, request)).unwrap();
        if !answer.building {
            return answer;
        }
        io::task::sleep(std::time::Duration::from_millis(20));
    }
    panic!("no tree in time");
}

fn root(cluster: &Cluster, node: usize) -> TreeSum {
    ask(cluster, node, &TreeRequest::default()).root.unwrap()
}

/// What only one of two nodes has, found from the roots on.
fn differing(cluster: &Cluster) -> (BTreeSet<u64>, usize) {
    let (mut open, mut blocks, mut questions) = (vec![TreeNode::ROOT], BTreeSet::new(), 0);
    while let Some(node) = open.pop() {
        let leaves = node.depth == 2;
        let request = TreeRequest { nodes: vec![node], leaves, ..TreeRequest::default() };
        let answers = [0, 1].map(|number| ask(cluster, number, &request));
        questions += 1;
        if leaves {
            let [one, two] =
                answers.map(|answer| answer.leaves.into_iter().collect::<std::collections::HashSet<Leaf>>());
            blocks.extend(one.symmetric_difference(&two).map(|leaf| leaf.block));
            continue;
        }
        let numbers = 0..FAN_OUT;
        let differ = numbers.filter(|number| answers[0].branches[*number] != answers[1].branches[*number]);
        open.extend(differ.map(|number| node.branch(number as u32)));
    }
    (blocks, questions)
}

#[test]
fn two_nodes_find_where_they_differ() {
    let mut cluster = Cluster::new(2);
    for block in 1..=40 {
        cluster.write(&[0, 1], block, &pattern(block, 1000 * block as usize));
    }
    assert_eq!(root(&cluster, 0), root(&cluster, 1));
    assert_eq!(root(&cluster, 0).count, 40);
    assert_eq!(differing(&cluster).0.len(), 0);

    // Kept on disk, and as good as before when they come from there.
    let before = root(&cluster, 0);
    cluster.stop(0);
    assert!(cluster.configs[0].dir.join("trees/0").exists());
    cluster.start(0);
    assert_eq!(root(&cluster, 0), before);

    // One has other bytes, the other one a block more; a restart has both looked through at once.
    cluster.write(&[0], 41, &pattern(41, 5000));
    cluster.write(&[1], 41, &pattern(42, 5000));
    cluster.write(&[1], 43, b"alone");
    for number in [0, 1] {
        cluster.stop(number);
        cluster.start(number);
    }
    assert_ne!(root(&cluster, 0), root(&cluster, 1));
    let (blocks, questions) = differing(&cluster);
    assert_eq!(blocks, BTreeSet::from([41, 43]));
    assert!(questions <= 5, "{questions} questions for two blocks of 42");
    let anew = TreeRequest { anew: vec![41, 77], ..TreeRequest::default() };
    let [one, two] = [0, 1].map(|number| ask(&cluster, number, &anew).leaves);
    assert_eq!((one.len(), one[0].block, one[0].len), (1, 41, 5000));
    assert_ne!(one[0].content, two[0].content);
}

#[test]
fn strange_questions_are_refused() {
    let cluster = Cluster::new(1);
    let client = rpc::Client::new(cluster.node(0).ipc_addr().to_string(), "metad".into(), REPLICA_PROTOCOL);
    let refused = |request: TreeRequest| {
        let _there = ask(&cluster, 0, &TreeRequest::default());
        cluster.runtime.block_on(client.call::<_, TreeResponse>(TREE, &request)).unwrap_err().to_string()
    };
    let node = |depth, path| TreeRequest { nodes: vec![TreeNode { depth, path }], ..TreeRequest::default() };
    assert!(refused(node(2, 0)).contains("no tree has branches"), "leaves are below");
    assert!(refused(node(1, 256)).contains("no tree has branches"));
    assert!(refused(node(77, 0)).contains("no tree has branches"));
    assert!(refused(TreeRequest { nodes: vec![TreeNode::ROOT; 17], ..TreeRequest::default() }).contains("at a time"));
    assert!(refused(TreeRequest { anew: vec![1; 65], ..TreeRequest::default() }).contains("at a time"));
}
