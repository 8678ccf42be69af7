//! Access lists and extended attributes.

use crate::change_error::ChangeError;
use crate::core::{Core, must_find};
use crate::profile_attribute;
use crate::refusal;
use crate::session::Session;
use bytes::Bytes;
use hdfs::Exception;
use hdfs::proto::acl_entry_proto::{AclEntryScopeProto, AclEntryTypeProto};
use hdfs::proto::*;
use namespace::NsError;
use namespace::error::xattr_fault::XattrFault;
use namespace::read;
use namespace::{
    AclChange, AclEntry, AclKey, AclKind, AclScope, RemoveXattr, SetAcl, SetXattr, Xattr, XattrName, XattrSpace,
};

// ---- access lists

fn entry(entry: AclEntryProto) -> Result<AclEntry, Exception> {
    let strange = || refusal::illegal("an entry of an access list that this server does not know");
    let scope = match AclEntryScopeProto::try_from(entry.scope).map_err(|_| strange())? {
        AclEntryScopeProto::Access => AclScope::Access,
        AclEntryScopeProto::Default => AclScope::Default,
    };
    let kind = match AclEntryTypeProto::try_from(entry.r#type).map_err(|_| strange())? {
        AclEntryTypeProto::User => AclKind::User,
        AclEntryTypeProto::Group => AclKind::Group,
        AclEntryTypeProto::Mask => AclKind::Mask,
        AclEntryTypeProto::Other => AclKind::Other,
    };
    // Java sends an empty name for none.
    let name = entry.name.filter(|name| !name.is_empty());
    Ok(AclEntry { key: AclKey { scope, kind, name }, access: (entry.permissions & 7) as u8 })
}

fn entries(list: Vec<AclEntryProto>) -> Result<Vec<AclEntry>, Exception> {
    list.into_iter().map(entry).collect()
}

fn drawn(entry: AclEntry) -> AclEntryProto {
    let kind = match entry.key.kind {
        AclKind::User => AclEntryTypeProto::User,
        AclKind::Group => AclEntryTypeProto::Group,
        AclKind::Mask => AclEntryTypeProto::Mask,
        AclKind::Other => AclEntryTypeProto::Other,
    };
    let scope = match entry.key.scope {
        AclScope::Access => AclEntryScopeProto::Access,
        AclScope::Default => AclEntryScopeProto::Default,
    };
    AclEntryProto { r#type: kind.into(), scope: scope.into(), permissions: entry.access.into(), name: entry.key.name }
}

async fn change(core: &Core, session: &Session, call: &str, src: &str, change: AclChange) -> Result<(), Exception> {
    let path = must_find(call, src)?;
    core.change(session, SetAcl { path, change }).await?;
    Ok(())
}

pub(super) async fn get_acl_status(
    core: &Core,
    session: &Session,
    request: GetAclStatusRequestProto,
) -> Result<GetAclStatusResponseProto, Exception> {
    let path = must_find("getAclStatus", &request.src)?;
    let caller = session.caller.clone();
    let (status, acl) = core.read(move |rows| read::acl(rows, &caller, &path)).await?;
    let result = AclStatusProto {
        sticky: status.mode & 0o1000 != 0,
        permission: Some(FsPermissionProto { perm: u32::from(status.mode) }),
        owner: status.owner,
        group: status.group,
        entries: acl.into_iter().map(drawn).collect(),
    };
    Ok(GetAclStatusResponseProto { result })
}

pub(super) async fn set_acl(
    core: &Core,
    session: &Session,
    request: SetAclRequestProto,
) -> Result<SetAclResponseProto, Exception> {
    let spec = entries(request.acl_spec)?;
    change(core, session, "setAcl", &request.src, AclChange::Replace(spec)).await?;
    Ok(SetAclResponseProto {})
}

pub(super) async fn modify_acl_entries(
    core: &Core,
    session: &Session,
    request: ModifyAclEntriesRequestProto,
) -> Result<ModifyAclEntriesResponseProto, Exception> {
    let spec = entries(request.acl_spec)?;
    change(core, session, "modifyAclEntries", &request.src, AclChange::Modify(spec)).await?;
    Ok(ModifyAclEntriesResponseProto {})
}

pub(super) async fn remove_acl_entries(
    core: &Core,
    session: &Session,
    request: RemoveAclEntriesRequestProto,
) -> Result<RemoveAclEntriesResponseProto, Exception> {
    let keys = entries(request.acl_spec)?.into_iter().map(|entry| entry.key).collect();
    change(core, session, "removeAclEntries", &request.src, AclChange::Remove(keys)).await?;
    Ok(RemoveAclEntriesResponseProto {})
}

pub(super) async fn remove_default_acl(
    core: &Core,
    session: &Session,
    request: RemoveDefaultAclRequestProto,
) -> Result<RemoveDefaultAclResponseProto, Exception> {
    change(core, session, "removeDefaultAcl", &request.src, AclChange::RemoveDefault).await?;
    Ok(RemoveDefaultAclResponseProto {})
}

pub(super) async fn remove_acl(
    core: &Core,
    session: &Session,
    request: RemoveAclRequestProto,
) -> Result<RemoveAclResponseProto, Exception> {
    change(core, session, "removeAcl", &request.src, AclChange::RemoveAll).await?;
    Ok(RemoveAclResponseProto {})
}

// ---- extended attributes

fn name(attribute: &XAttrProto) -> Result<XattrName, Exception> {
    let space = u8::try_from(attribute.namespace).ok().and_then(XattrSpace::from_number);
    let space = space.ok_or_else(|| refusal::illegal("an XAttr of a namespace that this server does not know"))?;
    Ok(XattrName { space, name: attribute.name.clone() })
}

fn given(attribute: Option<XAttrProto>) -> Result<Xattr, Exception> {
    let attribute = attribute.ok_or_else(|| refusal::illegal("the XAttr is missing"))?;
    Ok(Xattr { name: name(&attribute)?, value: attribute.value.unwrap_or_default().to_vec() })
}

fn shown(attribute: Xattr, with_value: bool) -> XAttrProto {
    // That one has none, not an empty one.
    let with_value = with_value && !attribute.name.is_unreadable_mark();
    XAttrProto {
        namespace: i32::from(attribute.name.space as u8),
        name: attribute.name.name,
        value: with_value.then(|| Bytes::from(attribute.value)),
    }
}

pub(super) async fn set_xattr(
    core: &Core,
    session: &Session,
    request: SetXAttrRequestProto,
) -> Result<SetXAttrResponseProto, Exception> {
    let path = must_find("setXAttr", &request.src)?;
    let flag = |flag: XAttrSetFlagProto| request.flag.unwrap_or(0) & flag as u32 != 0;
    let set = SetXattr {
        path,
        attribute: given(request.x_attr)?,
        create: flag(XAttrSetFlagProto::XattrCreate),
        replace: flag(XAttrSetFlagProto::XattrReplace),
    };
    match core.change_or_doubt(session, set.clone()).await {
        // The store's own is none that the caller sees, or could remove.
        Err(ChangeError::Refused(NsError::Xattr(XattrFault::TooMany)))
            if profile_attribute::give_way(core, &set.path).await =>
        {
            core.change(session, set).await?
        }
        done => done.map_err(refusal::change)?,
    };
    Ok(SetXAttrResponseProto {})
}

pub(super) async fn get_xattrs(
    core: &Core,
    session: &Session,
    request: GetXAttrsRequestProto,
) -> Result<GetXAttrsResponseProto, Exception> {
    let path = must_find("getXAttrs", &request.src)?;
    let names = request.x_attrs.iter().map(name).collect::<Result<Vec<_>, _>>()?;
    let caller = session.caller.clone();
    let found = core.read(move |rows| read::xattrs(rows, &caller, &path, &names)).await?;
    Ok(GetXAttrsResponseProto { x_attrs: found.into_iter().map(|one| shown(one, true)).collect() })
}

pub(super) async fn list_xattrs(
    core: &Core,
    session: &Session,
    request: ListXAttrsRequestProto,
) -> Result<ListXAttrsResponseProto, Exception> {
    let path = must_find("listXAttrs", &request.src)?;
    let caller = session.caller.clone();
    let found = core.read(move |rows| read::xattrs(rows, &caller, &path, &[])).await?;
    Ok(ListXAttrsResponseProto { x_attrs: found.into_iter().map(|one| shown(one, false)).collect() })
}

pub(super) async fn remove_xattr(
    core: &Core,
    session: &Session,
    request: RemoveXAttrRequestProto,
) -> Result<RemoveXAttrResponseProto, Exception> {
    let path = must_find("removeXAttr", &request.src)?;
    core.change(session, RemoveXattr { path, name: given(request.x_attr)?.name }).await?;
    Ok(RemoveXAttrResponseProto {})
}
