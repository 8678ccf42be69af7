//! In safe mode nobody changes anything, whatever it is, and all is read as before.

use super::asks::*;
use super::{ANN, ROOT, Users};
use hdfs::proto::*;
use std::time::Duration;

/// How long safe mode is waited for.
const WAIT_MAX: Duration = Duration::from_secs(40);
const LOOK_EACH: Duration = Duration::from_millis(200);

fn changes(home: &str) -> Vec<Ask> {
    let [dir, file, other] = ["dir", "file", "other"].map(|name| format!("{home}/{name}"));
    let entry = AclEntryProto { r#type: 0, scope: 0, permissions: 7, name: Some("cleo".to_owned()) };
    let (src, acl_spec, holder) = (file.clone(), vec![entry], "ann".to_owned());
    let b = ExtendedBlockProto::of("", types::BlockId(1), types::Generation(1), 1);
    let x_attr = Some(XAttrProto { namespace: 0, name: "mark".to_owned(), value: None });
    vec![
        mkdirs(&other, 0o755),
        create(&other, "ann"),
        append(&file, "ann"),
        truncate(&file, "ann", 0),
        concat(&file, &[&other]),
        complete(&file, "ann"),
        recover_lease(&file),
        rename(&file, &other),
        rename2(&file, &other, true),
        delete(&dir, true),
        set_permission(&file, 0o777),
        set_owner(&file, Some("cleo"), None),
        set_times(&file, 1, 1),
        set_replication(&file, 1),
        set_quota(&dir, 10, 10),
        ask("setAcl", SetAclRequestProto { src: src.clone(), acl_spec: acl_spec.clone() }),
        ask("modifyAclEntries", ModifyAclEntriesRequestProto { src: src.clone(), acl_spec: acl_spec.clone() }),
        ask("removeAclEntries", RemoveAclEntriesRequestProto { src: src.clone(), acl_spec }),
        ask("removeDefaultAcl", RemoveDefaultAclRequestProto { src: src.clone() }),
        ask("removeAcl", RemoveAclRequestProto { src: src.clone() }),
        ask("setXAttr", SetXAttrRequestProto { src: src.clone(), x_attr: x_attr.clone(), flag: Some(1) }),
        ask("removeXAttr", RemoveXAttrRequestProto { src: src.clone(), x_attr }),
        ask("abandonBlock", AbandonBlockRequestProto { b: b.clone(), src, holder: holder.clone(), file_id: None }),
        ask("updateBlockForPipeline", UpdateBlockForPipelineRequestProto { block: b, client_name: holder }),
    ]
}

pub(super) async fn tell(users: &Users, home: &str) -> Option<()> {
    let file = format!("{home}/file");
    users.may(ANN, mkdirs(&format!("{home}/dir"), 0o755)).await?;
    users.write(ANN, &file).await?;
    let Some(since) = until_frozen(users).await else { return Some(()) };
    for ask in changes(home) {
        let outcome = users.outcome(ROOT, &ask).await;
        if users.world().frozen_since.get() != Some(since) {
            return Some(());
        }
        match outcome {
            Err(error) if error.is_safe_mode() => {}
            Err(_) => return None,
            Ok(Ok(_)) => return users.wrong(ROOT, &ask, "is done in safe mode"),
            Ok(Err(refused)) => return users.wrong(ROOT, &ask, &format!("is refused by {refused} in safe mode")),
        }
    }
    users.status(ANN, &file).await.map(drop)
}

/// Since when, if safe mode comes.
async fn until_frozen(users: &Users) -> Option<Duration> {
    let sim = &users.client.sim;
    let end = sim.now() + WAIT_MAX;
    while users.world().plan.freezes && sim.now() < end {
        let since = users.world().frozen_since.get();
        if since.is_some() {
            return since;
        }
        sim.sleep(LOOK_EACH).await;
    }
    None
}
