//! A small file system under a metadata server, filled and emptied by somebody else, or by the server itself.

use crate::support::{World, refusal};
use hdfs::proto::*;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The server looks at its disks each second.
const LOOK_COUNT_MAX: usize = 600;

struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _it_goes_later = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// `None`: this process may not mount.
fn mount(at: PathBuf) -> Option<Mounted> {
    std::fs::create_dir(&at).unwrap();
    let done = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64m", "none"]).arg(&at).status();
    done.is_ok_and(|status| status.success()).then_some(Mounted(at))
}

/// A server on a small file system, which keeps this much in reserve. `None`: it is not tested here.
async fn small(warn_len: u64, reserve_len: u64) -> Option<(Mounted, World)> {
    let dir = tempfile::tempdir().unwrap();
    let Some(mounted) = mount(dir.path().join("small")) else {
        eprintln!("not tested: no file system can be mounted here");
        return None;
    };
    let world = World::with(dir, |config| {
        config.dir = mounted.0.join("meta");
        config.free_warn_len = Some(warn_len);
        config.free_reserve_len = Some(reserve_len);
    });
    let world = world.await;
    Some((mounted, world))
}

/// Leaves `left` bytes free.
fn fill(dir: &Path, left: u64) {
    let ballast = std::fs::File::create(dir.join("ballast")).unwrap();
    let piece = [1; 1 << 16];
    let mut len = 0;
    while io::file::space_of(dir).unwrap().available > left {
        ballast.write_all_at(&piece, len).unwrap();
        len += piece.len() as u64;
    }
}

async fn until_level(world: &World, scarce: bool, refuses: bool) {
    for _ in 0..LOOK_COUNT_MAX {
        let room = world.metad.status()["room"].clone();
        if (room["scarce"].as_bool(), room["refuses_changes"].as_bool()) == (Some(scarce), Some(refuses)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("scarce {scarce}, refuses {refuses}: waited in vain, {}", world.metad.status()["room"]);
}

async fn mkdirs(world: &World, path: &str) -> Result<MkdirsResponseProto, rpc::CallError> {
    let masked = FsPermissionProto { perm: 0o755 };
    let request = MkdirsRequestProto { src: path.into(), masked, create_parent: true, unmasked: None };
    world.root().ask("mkdirs", &request).await
}

/// Below one reserve the server warns, below the other it takes no more of clients but what frees space, and goes on
/// when there is some.
#[tokio::test]
async fn the_last_bytes_are_left_for_what_frees_others() {
    let Some((mounted, world)) = small(32 << 20, 16 << 20).await else { return };
    mkdirs(&world, "/old/tree").await.unwrap();
    until_level(&world, false, false).await;
    fill(&mounted.0, 24 << 20);
    until_level(&world, true, false).await;
    mkdirs(&world, "/more").await.unwrap();
    fill(&mounted.0, 8 << 20);
    until_level(&world, true, true).await;
    let (class, message) = refusal(mkdirs(&world, "/too/much").await);
    assert_eq!(class, "IO");
    assert!(message.contains("keeps 16777216 in reserve (free_reserve_len)"), "{message}");
    assert_eq!(refusal(world.root().create("/file", "writer").await).0, "IO");
    let rename = RenameRequestProto { src: "/more".into(), dst: "/moved".into() };
    let renamed: RenameResponseProto = world.root().ask("rename", &rename).await.unwrap();
    let delete = DeleteRequestProto { src: "/old".into(), recursive: true };
    let deleted: DeleteResponseProto = world.root().ask("delete", &delete).await.unwrap();
    assert!(renamed.result && deleted.result);
    std::fs::remove_file(mounted.0.join("ballast")).unwrap();
    until_level(&world, false, false).await;
    mkdirs(&world, "/again").await.unwrap();
    world.metad.shutdown().await;
}

/// A store that filled its disk by itself gives room back when its files are deleted, though its file stays as long as
/// it is.
#[tokio::test]
async fn deleting_ends_the_refusal() {
    let Some((mounted, world)) = small(12 << 20, 12 << 20).await else { return };
    fill(&mounted.0, 18 << 20);
    until_level(&world, false, false).await;
    let mut tree_count = 0;
    // The server looks once a second: more comes in between, so a pause for each tree.
    while mkdirs(&world, &format!("/trees/{tree_count}{}", "/name".repeat(900))).await.is_ok() {
        tree_count += 1;
        assert!(tree_count < 1000, "it never fills: {}", world.metad.status()["room"]);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    until_level(&world, true, true).await;
    let delete = DeleteRequestProto { src: "/trees".into(), recursive: true };
    let deleted: DeleteResponseProto = world.root().ask("delete", &delete).await.unwrap();
    assert!(deleted.result);
    until_level(&world, false, false).await;
    mkdirs(&world, "/again").await.unwrap();
    world.metad.shutdown().await;
}
