//! While safe mode is on the namespace stays as it is, for clients and for the server itself.

use crate::world::{World, caller, check, path};
use namespace::error::blocked::Blocked;
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
         alice:w create /d/new => refused SafeMode(Blocked { operation: 'create', path: Some('/d/new'), block: None })
         alice:w add /d/open b a=100 => refused SafeMode(Blocked { operation: 'addBlock', path: Some('/d/open')
         alice:w complete /d/open a=10 => refused SafeMode(Blocked { operation: 'complete', path: Some('/d/open')
         alice:w fsync /d/open 7 => refused SafeMode(Blocked { operation: 'fsync', path: Some('/d/open'), block: None
         alice:w bump a => refused SafeMode(Blocked { operation: 'updateBlockForPipeline', path: None, block: Some
         alice:w update a 10 1002 => refused SafeMode(Blocked { operation: 'updatePipeline', path: None, block: None
         alice mkdir /d/e => refused SafeMode(Blocked { operation: 'mkdirs', path: Some('/d/e'), block: None })
         alice rename /d/open /d/closed => refused SafeMode(Blocked { operation: 'rename', path: Some('/d/open')
         alice delete /nothing => refused SafeMode(Blocked { operation: 'delete', path: Some('/nothing'), block: None
         alice setfacl /d/open none => refused SafeMode(Blocked { operation: 'removeAcl', path: Some('/d/open')
         root recover /d/open => refused SafeMode(Blocked { operation: 'recoverLease', path: Some('/d/open'), block:
         root reap 10 => refused SafeMode(Blocked { operation: 'reap', path: None, block: None })
         root was_read /d/open => refused SafeMode
         root safemode off => false
         alice:w complete /d/open a=10@1001 => true",
    );
}

#[test]
fn superusers_enter_and_leave_it_and_it_tells_who_and_when() {
    let mut world = World::new();
    world.tell(
        "alice safemode on => refused AccessDenied(NotSuperuser { user: 'alice', operation: 'enterSafeMode' })
         at 5000
         root safemode on => true
         at 6000
         root safemode on => true
         alice safemode off => refused AccessDenied(NotSuperuser { user: 'alice', operation: 'leaveSafeMode' })",
    );
    let mode = read::safe_mode(&world.rows).unwrap().unwrap();
    assert_eq!((mode.since.0, mode.user.as_str()), (5000, "root"), "the second time it was on already");
    world.apply(&caller("root"), SetSafeMode { on: false }).unwrap();
    assert_eq!(read::safe_mode(&world.rows).unwrap(), None);
}

#[test]
fn a_refusal_names_the_operation() {
    let mut world = World::new();
    world.apply(&caller("root"), SetSafeMode { on: true }).unwrap();
    let mkdirs = namespace::Mkdirs { path: path("/d"), mode: 0o755, unmasked: None, create_parent: true };
    let refused = world.apply(&caller("root"), mkdirs).unwrap_err();
    let blocked = Blocked { operation: "mkdirs", path: Some(path("/d")), block: None };
    assert_eq!(refused, NsError::SafeMode(blocked));
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
