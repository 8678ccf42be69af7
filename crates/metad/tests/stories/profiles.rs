//! Stories of access profiles that the store keeps for the readers of a directory.

use crate::support::{User, World, refusal};
use hdfs::proto::*;
use rpc::CallError;
use wire::client::*;

async fn profile(user: &User, path: &str, name: u8) -> Result<Option<Vec<u8>>, CallError> {
    let request = ProfileOfRequest { path: path.into(), name: vec![name; PROFILE_NAME_LEN].into() };
    let answer = user.ask_in::<_, ProfileOfResponse>(CLIENT_PROTOCOL, PROFILE_OF, &request).await;
    answer.map(|answer| answer.profile.map(|profile| profile.to_vec()))
}

async fn keep(user: &User, path: &str, name: &[u8], profile: &[u8]) -> Result<(), CallError> {
    let (name, profile) = (name.to_vec().into(), profile.to_vec().into());
    let request = KeepProfileRequest { path: path.into(), name, profile };
    user.ask_in::<_, KeepProfileResponse>(CLIENT_PROTOCOL, KEEP_PROFILE, &request).await.map(|_kept| ())
}

async fn set_attribute(user: &User, path: &str, number: u32) -> Result<(), CallError> {
    let name = format!("a{number}");
    let attribute = XAttrProto { namespace: 0, name, value: Some(b"x".to_vec().into()) };
    let request = SetXAttrRequestProto { src: path.into(), x_attr: Some(attribute), flag: Some(1) };
    user.ask::<_, SetXAttrResponseProto>("setXAttr", &request).await.map(|_set| ())
}

/// A directory has as many attributes as in HDFS, whatever its readers say.
#[tokio::test]
async fn profiles_take_no_attribute_that_a_user_has() {
    let world = World::new(0).await;
    let (root, alice) = (world.root(), world.user("alice"));
    for path in ["/early/a", "/late/a"] {
        root.create(path, "w").await.unwrap();
    }
    keep(&alice, "/early/a", &[1; 16], b"columns").await.unwrap();
    for number in 0..31 {
        set_attribute(&root, "/early", number).await.unwrap();
    }
    assert!(profile(&alice, "/early/a", 1).await.unwrap().is_some(), "there is room for both");
    set_attribute(&root, "/early", 31).await.unwrap();
    assert_eq!(profile(&alice, "/early/a", 1).await.unwrap(), None, "it gave way");
    assert!(refusal(set_attribute(&root, "/early", 32).await).1.contains("exceed limit of 32"));

    for number in 0..15 {
        set_attribute(&root, "/late", number).await.unwrap();
    }
    keep(&alice, "/late/a", &[1; 16], b"columns").await.unwrap();
    assert!(profile(&alice, "/late/a", 1).await.unwrap().is_some(), "half of the places are free");
    set_attribute(&root, "/late", 15).await.unwrap();
    keep(&alice, "/late/a", &[2; 16], b"columns").await.unwrap();
    assert!(profile(&alice, "/late/a", 2).await.unwrap().is_some(), "it has a place");
    let remove = XAttrProto { namespace: 1, name: "levada.profiles".into(), value: None };
    let request = RemoveXAttrRequestProto { src: "/late".into(), x_attr: Some(remove) };
    let _: RemoveXAttrResponseProto = root.ask("removeXAttr", &request).await.unwrap();
    keep(&alice, "/late/a", &[1; 16], b"columns").await.unwrap();
    assert_eq!(profile(&alice, "/late/a", 1).await.unwrap(), None, "the other half is for users");
}

/// Each is a change of the log, and whoever may read a file could have one made with each call.
#[tokio::test]
async fn a_reader_has_few_profiles_of_a_directory_kept() {
    let world = World::new(0).await;
    let (root, alice, bob) = (world.root(), world.user("alice"), world.user("bob"));
    root.create("/data/a", "w").await.unwrap();
    for number in 1..=9u8 {
        keep(&alice, "/data/a", &[1; 16], &[number; 20]).await.unwrap();
    }
    assert_eq!(profile(&bob, "/data/a", 1).await.unwrap(), Some(vec![4; 20]));
    keep(&bob, "/data/a", &[1; 16], &[10; 20]).await.unwrap();
    assert_eq!(profile(&bob, "/data/a", 1).await.unwrap(), Some(vec![10; 20]), "another one is not concerned");
    world.clock_on(std::time::Duration::from_secs(61)).await;
    keep(&alice, "/data/a", &[1; 16], &[11; 20]).await.unwrap();
    assert_eq!(profile(&bob, "/data/a", 1).await.unwrap(), Some(vec![11; 20]));
}

#[tokio::test]
async fn what_one_reader_has_learned_the_next_one_is_told() {
    let world = World::new(0).await;
    let (root, alice, bob) = (world.root(), world.user("alice"), world.user("bob"));
    root.mkdirs("/data/year=2026", 0o755).await.unwrap();
    for path in ["/data/a", "/data/year=2026/b", "/other"] {
        root.create(path, "w").await.unwrap();
    }
    assert_eq!(profile(&alice, "/data/a", 1).await.unwrap(), None);
    keep(&alice, "/data/a", &[1; 16], b"columns").await.unwrap();
    for path in ["/data/a", "/data/year=2026/b"] {
        assert_eq!(profile(&bob, path, 1).await.unwrap().as_deref(), Some(&b"columns"[..]), "{path}");
    }
    assert_eq!(profile(&bob, "/data/a", 2).await.unwrap(), None, "of another name");
    assert_eq!(profile(&bob, "/other", 1).await.unwrap(), None, "of another directory");
    keep(&bob, "/data/a", &[1; 16], b"others").await.unwrap();
    assert_eq!(profile(&alice, "/data/a", 1).await.unwrap().as_deref(), Some(&b"others"[..]));

    // It is the directory's, whatever that is called.
    let request = RenameRequestProto { src: "/data".into(), dst: "/moved".into() };
    let _: RenameResponseProto = root.ask("rename", &request).await.unwrap();
    assert!(profile(&alice, "/moved/a", 1).await.unwrap().is_some());

    // Who may not read the file neither learns nor teaches.
    let permission = FsPermissionProto { perm: 0o600 };
    let request = SetPermissionRequestProto { src: "/moved/a".into(), permission };
    let _: SetPermissionResponseProto = root.ask("setPermission", &request).await.unwrap();
    assert_eq!(refusal(profile(&alice, "/moved/a", 1).await).0, "AccessControl");
    assert_eq!(refusal(keep(&alice, "/moved/a", &[1; 16], b"wrong").await).0, "AccessControl");
    assert_eq!(profile(&root, "/moved/a", 1).await.unwrap().as_deref(), Some(&b"others"[..]));
    assert_eq!(refusal(profile(&alice, "/none", 1).await).0, "FileNotFound");

    // And what is no profile is refused.
    for (name, content) in [(&[1; 15][..], &b"x"[..]), (&[1; 16], &[0; PROFILE_LEN_MAX + 1])] {
        assert!(keep(&root, "/other", name, content).await.is_err());
    }
}
