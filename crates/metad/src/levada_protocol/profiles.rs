//! `profileOf` and `keepProfile`: what readers of a data set have learned, kept for the next of them.
//!
//! A profile belongs to the directory of the files that it is of, and only who may read one of them asks or is heard:
//! so nobody learns what others read elsewhere, nor leads them astray there. It is a hint: whatever one says, it wastes
//! no more than the reader's own limits allow. And it changes little: what is kept already, or comes too often, is
//! heard and not kept ([`lead::ProfilePace`]).

use super::profile_list::ProfileList;
use crate::core::{Core, must_find};
use crate::profile_attribute;
use crate::refusal;
use crate::session::Session;
use hdfs::Exception;
use namespace::{Caller, SetXattr, read};
use types::{FsPath, InodeId};
use wire::client::{
    KEEP_PROFILE, KeepProfileRequest, KeepProfileResponse, PROFILE_LEN_MAX, PROFILE_NAME_LEN, PROFILE_OF,
    ProfileOfRequest, ProfileOfResponse,
};

pub(crate) async fn profile_of(
    core: &Core,
    session: &Session,
    request: ProfileOfRequest,
) -> Result<ProfileOfResponse, Exception> {
    let kept = kept(core, session, &must_find(PROFILE_OF, &request.path)?).await?;
    Ok(ProfileOfResponse { profile: kept.profiles.get(&request.name).map(|profile| profile.to_vec().into()) })
}

pub(crate) async fn keep_profile(
    core: &Core,
    session: &Session,
    request: KeepProfileRequest,
) -> Result<KeepProfileResponse, Exception> {
    if request.name.len() != PROFILE_NAME_LEN || request.profile.len() > PROFILE_LEN_MAX {
        return Err(refusal::illegal("a profile has a name of 16 bytes, and 4 KiB at most"));
    }
    let Kept { directory, id, has_place, mut profiles } =
        kept(core, session, &must_find(KEEP_PROFILE, &request.path)?).await?;
    // It is worth no refusal.
    let may_be_kept = has_place
        && !profiles.says(&request.name, &request.profile)
        && core.safe_mode().is_ok_and(|mode| mode.is_none())
        && core.leader().profile_pace.spend(&session.caller.user, id, core.monotonic());
    if may_be_kept {
        profiles.put(&request.name, &request.profile);
        // Of two at once one may be lost.
        let set = SetXattr { path: directory, attribute: profiles.attribute(), create: true, replace: true };
        if let Err(error) = core.change_unasked(set).await {
            tracing::debug!(path = request.path, %error, "a profile cannot be kept");
        }
    }
    Ok(KeepProfileResponse {})
}

/// What a data set's directory has.
struct Kept {
    directory: FsPath,
    id: InodeId,
    /// Profiles may be kept there.
    has_place: bool,
    profiles: ProfileList,
}

/// Of the file's data set, for who may read the file.
async fn kept(core: &Core, session: &Session, path: &FsPath) -> Result<Kept, Exception> {
    let (caller, path, directory) = (session.caller.clone(), path.clone(), data_set_of(path));
    let its_directory = directory.clone();
    let found = core.read(move |rows| {
        let system = Caller::system();
        if let Err(refused) = read::located(rows, &caller, &path, 0, 0)? {
            return Ok(Err(refused));
        }
        let status = match read::status(rows, &system, &its_directory)? {
            Ok(status) => status,
            Err(refused) => return Ok(Err(refused)),
        };
        let attributes = read::xattrs(rows, &system, &its_directory, &[])?;
        Ok(attributes.map(|attributes| (status.map_or(InodeId(0), |status| status.id), attributes)))
    });
    let (id, attributes) = found.await?;
    let (has_place, profiles) = (profile_attribute::has_place(&attributes), ProfileList::of(&attributes));
    Ok(Kept { directory, id, has_place, profiles })
}

/// Partitions belong to the directory above them, as the client has it.
fn data_set_of(path: &FsPath) -> FsPath {
    let mut directory = path.parent().unwrap_or_else(FsPath::root);
    while directory.name().contains('=')
        && let Some(above) = directory.parent()
    {
        directory = above;
    }
    directory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_belong_to_the_directory_above_them() {
        let of = |path| data_set_of(&FsPath::parse(path).unwrap()).to_string();
        assert_eq!(of("/data/events/a.parquet"), "/data/events");
        assert_eq!(of("/data/events/year=2026/month=1/a"), "/data/events");
        assert_eq!((of("/a"), of("/x=1/a")), ("/".to_owned(), "/".to_owned()));
    }
}
