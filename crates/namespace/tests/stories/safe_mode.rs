//! While safe mode is on the namespace stays as it is, for clients and for the server itself.

use crate::world::{World, caller, check, path};
use namespace::read;
use namespace::{NsError, SetSafeMode};

#[test]
fn nothing_changes_until_it_is_left() {
    check(
        "root mkdir /d mode=777
         alice:w create /d/open
         alice:w add /d/open a
         alice:v create /d/other
         root delete /d/other
         root safemode on => true
         alice stat /d/open => alice
         alice ls /d => open +0
         alice:w create /d/new => refused SafeMode: Cannot create file/d/new. Name node is in safe mode.
         alice:w add /d/open b a=100 => refused SafeMode: Cannot add block to /d/open. Name node is in safe mode.
         alice:w complete /d/open a=10 => refused SafeMode: Cannot complete file /d/open. Name node is in safe mode.
         alice:w fsync /d/open 7 => refused SafeMode: Cannot fsync file /d/open.
         alice:w bump a => refused SafeMode: Cannot get a new generation stamp and an access token for block blk_
         alice:w update a 10 1002 => refused SafeMode: Pipeline not updated.
         alice mkdir /d/e => refused SafeMode: Cannot create directory /d/e.
         alice rename /d/open /d/closed => refused SafeMode: Cannot rename /d/open.
         alice delete /nothing => refused SafeMode: Cannot delete /nothing.
         alice setfacl /d/open none => refused SafeMode: Cannot remove ACL on /d/open.
         root recover /d/open => refused SafeMode: Cannot recover the lease of /d/open.
         root reap 10 => refused SafeMode: Cannot reap.
         root was_read /d/open => refused SafeMode
         root safemode off => false
         alice:w complete /d/open a=10@1001 => true",
    );
}

#[test]
fn superusers_enter_and_leave_it_and_it_tells_who_and_when() {
    let mut world = World::new();
    world.tell(
        "alice safemode on => refused AccessDenied: Access denied for user alice. Superuser privilege is required for operation safemode_enter
         at 5000
         root safemode on => true
         at 6000
         root safemode on => true
         alice safemode off => refused AccessDenied: Access denied for user alice. Superuser privilege is required for operation safemode_leave",
    );
    let mode = read::safe_mode(&world.rows).unwrap().unwrap();
    assert_eq!((mode.since.0, mode.user.as_str()), (5000, "root"), "the second time it was on already");
    world.apply(&caller("root"), SetSafeMode { on: false }).unwrap();
    assert_eq!(read::safe_mode(&world.rows).unwrap(), None);
}

/// The words of HDFS, to the letter; its host is put behind them by who knows it.
#[test]
fn a_refusal_says_how_it_is_left() {
    let mut world = World::new();
    world.apply(&caller("root"), SetSafeMode { on: true }).unwrap();
    let mkdirs = namespace::Mkdirs { path: path("/d"), mode: 0o755, unmasked: None, create_parent: true };
    let refused = world.apply(&caller("root"), mkdirs).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Cannot create directory /d. Name node is in safe mode.\nIt was turned on manually. Use \"hdfs dfsadmin -safemode leave\" \
         to turn safe mode off."
    );
    assert!(matches!(refused, NsError::SafeMode(_)));
}

/// The call was carried out before; only its answer is asked for again.
#[test]
fn what_was_answered_before_is_answered_again() {
    check(
        "retry 1 root rename /nothing /d => false
         root mkdir /a
         retry 2 root rename /a /b => true
         root safemode on
         retry 2 root rename /a /b => true
         retry 3 root rename /b /c => refused SafeMode",
    );
}
