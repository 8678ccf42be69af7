//! `kill -9` of a metadata server in a process of its own: what was acknowledged is there afterwards. A program of its
//! own: who is born has copies of all that its parent has open, locks and ports too, until it runs its program, and
//! stories beside it would find them taken.

use crate::support::{Datanode, User, config, written};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Serves until it is killed; only as the child of the next test.
#[tokio::test]
#[ignore = "a child process of another test"]
async fn serve_as_a_child() {
    let Some(dir) = std::env::var_os("METAD_TEST_DIR") else { return };
    let metad = metad::start(config(Path::new(&dir))).await.unwrap();
    println!("serving {}", metad.rpc_addr());
    std::future::pending().await
}

fn child(dir: &Path) -> (Child, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::serve_as_a_child", "--ignored", "--nocapture"])
        .env("METAD_TEST_DIR", dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let addr = lines.find_map(|line| line.unwrap().rsplit_once("serving ").map(|(_, addr)| addr.to_owned())).unwrap();
    (child, addr)
}

/// Eight clients make directories and files as fast as they can; the server is killed under them, three times.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let acknowledged: Arc<Mutex<Vec<String>>> = Arc::default();
    let blocks: Arc<Mutex<Vec<u64>>> = Arc::default();
    let node = Datanode::new(1).await;
    for round in 0..3 {
        let (mut child, addr) = child(dir.path());
        node.register(addr.parse().unwrap()).await;
        let writers: Vec<_> = (0..8)
            .map(|number| {
                let user = User { rpc: rpc::Client::new(addr.clone(), host::user::current(), crate::support::CLIENT) };
                let (acknowledged, blocks) = (Arc::clone(&acknowledged), Arc::clone(&blocks));
                io::task::spawn("writer", async move {
                    for step in 0.. {
                        let path = format!("/r{round}/w{number}/f{step}");
                        let client = format!("writer{number}");
                        if user.create(&path, &client).await.is_err() {
                            break;
                        }
                        acknowledged.lock().unwrap().push(path.clone());
                        let Ok(block) = user.add_block(&path, &client, None).await else { break };
                        blocks.lock().unwrap().push(block.b.block_id);
                        if step % 2 == 0 && user.complete(&path, &client, Some(written(&block, 9))).await.is_err() {
                            break;
                        }
                    }
                })
            })
            .collect();
        let enough = (round + 1) * 300;
        while acknowledged.lock().unwrap().len() < enough {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        for writer in writers {
            writer.await.unwrap();
        }
    }
    let metad = metad::start(config(dir.path())).await.unwrap();
    let user =
        User { rpc: rpc::Client::new(metad.rpc_addr().to_string(), host::user::current(), crate::support::CLIENT) };
    let acknowledged = std::mem::take(&mut *acknowledged.lock().unwrap());
    for path in &acknowledged {
        assert!(user.status(path).await.is_some(), "{path} was acknowledged and is lost");
    }
    let blocks = std::mem::take(&mut *blocks.lock().unwrap());
    let distinct: BTreeSet<u64> = blocks.iter().copied().collect();
    assert_eq!(distinct.len(), blocks.len(), "an id was given out twice");
    metad.shutdown().await;
    metad.shutdown().await;
}
