//! Trees: what they hold, who may know that, and who may take them away.

use super::asks::*;
use super::{ANN, BEN, CLEO, ROOT, Users};
use hdfs::exception::{ACCESS_CONTROL, FILE_NOT_FOUND, PATH_IS_NOT_EMPTY_DIRECTORY};
use hdfs::proto::*;

pub(super) async fn tell(users: &Users, home: &str) -> Option<()> {
    let tree = format!("{home}/tree");
    let (files, directories) = grow(users, &tree).await?;
    counted(users, &tree, files, directories).await?;
    removed(users, home, &tree).await
}

/// Directories of ANN's below each other, with files in them. How many of each.
async fn grow(users: &Users, tree: &str) -> Option<(u64, u64)> {
    users.may(ANN, mkdirs(tree, 0o755)).await?;
    let (mut files, mut directories) = (0, 1);
    for branch in 0..1 + users.below(3) {
        let mut at = tree.to_owned();
        for level in 0..1 + users.below(3) {
            at = format!("{at}/{branch}_{level}");
            users.may(ANN, mkdirs(&at, 0o755)).await?;
            directories += 1;
            for file in 0..users.below(3) {
                users.write(ANN, &format!("{at}/file{file}")).await?;
                files += 1;
            }
        }
    }
    Some((files, directories))
}

async fn counted(users: &Users, tree: &str, files: u64, directories: u64) -> Option<()> {
    for user in [ROOT, ANN, CLEO] {
        let ask = get_content_summary(tree);
        let GetContentSummaryResponseProto { summary } = users.get(user, ask.clone()).await?;
        users.is_equal(user, &ask, (summary.file_count, summary.directory_count), (files, directories))?;
    }
    let closed = format!("{tree}/0_0/closed");
    users.may(ANN, mkdirs(&closed, 0o700)).await?;
    users.may_not(CLEO, get_content_summary(tree), ACCESS_CONTROL, &closed).await?;
    users.may_not(CLEO, get_content_summary(&closed), ACCESS_CONTROL, "access=READ_EXECUTE").await?;
    users.may_not(CLEO, get_content_summary(&format!("{tree}/nothing")), FILE_NOT_FOUND, "").await?;
    let GetContentSummaryResponseProto { summary } = users.get(ANN, get_content_summary(tree)).await?;
    users.is_equal(ANN, &get_content_summary(tree), summary.directory_count, directories + 1)
}

/// What others own in a tree keeps it from being taken away.
async fn removed(users: &Users, home: &str, tree: &str) -> Option<()> {
    let (others, tmp, trash) = (format!("{tree}/others"), format!("{tree}/tmp"), format!("{home}/trash"));
    users.may_not(CLEO, delete(tree, true), ACCESS_CONTROL, "access=WRITE").await?;
    users.may_not(BEN, to_trash(tree, &trash), ACCESS_CONTROL, "access=WRITE").await?;
    users.may_not(ANN, delete(tree, false), PATH_IS_NOT_EMPTY_DIRECTORY, "is non empty").await?;

    users.may(ROOT, mkdirs(&format!("{others}/own"), 0o755)).await?;
    users.may_not(ANN, delete(tree, true), ACCESS_CONTROL, &others).await?;
    users.may_not(ANN, to_trash(tree, &trash), ACCESS_CONTROL, &others).await?;
    users.may(ROOT, set_owner(&others, Some(ANN), None)).await?;

    users.may(ROOT, mkdirs(&tmp, 0o1777)).await?;
    users.write(BEN, &format!("{tmp}/bens")).await?;
    users.may_not(ANN, delete(tree, true), ACCESS_CONTROL, "sticky bit").await?;
    users.says(BEN, delete(&format!("{tmp}/bens"), false), true).await?;

    // A directory that is only moved keeps what is in it; so nobody else is asked.
    if users.one_in(2) {
        users.may(ANN, to_trash(tree, &trash)).await?;
        users.has_gone(tree).await?;
        users.says(ANN, delete(&trash, true), true).await
    } else {
        users.says(ANN, delete(tree, true), true).await?;
        users.has_gone(tree).await
    }
}
