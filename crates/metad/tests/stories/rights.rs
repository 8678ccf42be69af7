//! Users who administer a store, or look at it, without being superusers.

use crate::support::{CLIENT, config};
use hdfs::exception::ACCESS_CONTROL;
use hdfs::proto::*;
use metad::{Config, Metad, SecurityConfig};
use prost::Message;
use rpc::{CallError, Client};
use wire::admin::ADMIN_PROTOCOL;
use wire::admin::backup::{
    BACKUP_PIECE, BEGIN_BACKUP, BackupPieceRequest, BackupPieceResponse, BeginBackupRequest, BeginBackupResponse,
};
use wire::admin::joining::{INVITE, InviteRequest, InviteResponse};
use wire::admin::meta::{LIST_MEMBERS, ListMembersRequest, ListMembersResponse};

async fn start() -> (tempfile::TempDir, Metad) {
    let dir = tempfile::tempdir().unwrap();
    let security = SecurityConfig {
        administrators: "ada".into(),
        observers: " auditors".into(),
        static_groups: "eve=auditors;ada=;bob=".into(),
        ..SecurityConfig::default()
    };
    let metad = metad::start(Config { security, ..config(dir.path()) }).await.unwrap();
    (dir, metad)
}

/// What is answered, or that it is denied.
async fn ask<A: Message + Default>(
    metad: &Metad,
    user: &str,
    (protocol, method): (&'static str, &str),
    request: &impl Message,
) -> Result<A, String> {
    let client = Client::new(metad.rpc_addr().to_string(), user.into(), protocol);
    client.call(method, request).await.map_err(|error| match error {
        CallError::Remote { class, message, .. } if class == ACCESS_CONTROL => message,
        other => panic!("{method} of {user}: {other}"),
    })
}

#[tokio::test]
async fn who_looks_changes_nothing_and_who_changes_owns_no_file() {
    let (_dir, metad) = start().await;
    let enter = SetSafeModeRequestProto { action: SafeModeActionProto::SafemodeEnter.into(), checked: None };
    let leave = SetSafeModeRequestProto { action: SafeModeActionProto::SafemodeLeave.into(), checked: None };
    let list = async |user| {
        ask::<ListMembersResponse>(&metad, user, (ADMIN_PROTOCOL, LIST_MEMBERS), &ListMembersRequest {}).await
    };
    let safe_mode = async |user, request| {
        ask::<SetSafeModeResponseProto>(&metad, user, (CLIENT, "setSafeMode"), request)
            .await
            .map(|answer| answer.result)
    };
    let refresh = async |user| {
        ask::<RefreshNodesResponseProto>(&metad, user, (CLIENT, "refreshNodes"), &RefreshNodesRequestProto {}).await
    };
    for (user, looks, changes) in [("ada", true, true), ("eve", true, false), ("bob", false, false)] {
        assert_eq!(list(user).await.is_ok(), looks, "{user}");
        assert_eq!(refresh(user).await.is_ok(), changes, "{user}");
        let entered = safe_mode(user, &enter).await;
        assert_eq!(entered.is_ok(), changes, "{user}: {entered:?}");
    }
    assert!(!safe_mode("ada", &leave).await.unwrap());
    let denied = list("bob").await.unwrap_err();
    assert_eq!(denied, "Access denied for user bob. Superuser privilege is required");
    // The root directory is the superuser's.
    let mkdirs = MkdirsRequestProto {
        src: "/made".into(),
        masked: FsPermissionProto { perm: 0o755 },
        create_parent: true,
        unmasked: None,
    };
    let denied = ask::<MkdirsResponseProto>(&metad, "ada", (CLIENT, "mkdirs"), &mkdirs).await.unwrap_err();
    assert!(denied.starts_with("Permission denied: user=ada, access=WRITE"), "{denied}");
    metad.shutdown().await;
}

/// A backup has the keys of all tokens, and a datanode gets those of blocks: by either one could read everything.
#[tokio::test]
async fn an_administrator_gets_no_keys() {
    let (_dir, metad) = start().await;
    let denied = |user: &str| format!("Access denied for user {user}. Superuser privilege is required");
    for user in ["ada", "eve"] {
        let (begin, piece) = (BeginBackupRequest {}, BackupPieceRequest::default());
        let begun = ask::<BeginBackupResponse>(&metad, user, (ADMIN_PROTOCOL, BEGIN_BACKUP), &begin).await;
        assert_eq!(begun.unwrap_err(), denied(user));
        let taken = ask::<BackupPieceResponse>(&metad, user, (ADMIN_PROTOCOL, BACKUP_PIECE), &piece).await;
        assert_eq!(taken.unwrap_err(), denied(user));
        let invite = InviteRequest::default();
        let invited = ask::<InviteResponse>(&metad, user, (ADMIN_PROTOCOL, INVITE), &invite).await;
        assert_eq!(invited.unwrap_err(), denied(user));
    }
    let owner = host::user::current();
    let begin = BeginBackupRequest {};
    assert!(ask::<BeginBackupResponse>(&metad, &owner, (ADMIN_PROTOCOL, BEGIN_BACKUP), &begin).await.is_ok());
    metad.shutdown().await;
}
