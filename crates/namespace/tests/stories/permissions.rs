//! Who may do what.

use crate::world::{World, caller, check, path, removal};
use namespace::read::{check_access, located, xattrs};
use namespace::{
    Access, AclChange, AclEntry, AclKey, AclKind, AclScope, Caller, Delete, NsError, RemoveXattr, Reply, SetAcl,
    SetSafeMode, XattrName, XattrSpace,
};

#[test]
fn the_way_down_needs_execute() {
    check(
        "root mkdir /a/b/c
         root chmod /a 711
         root chmod /a/b 700
         alice stat /a/b => dir
         alice stat /a/b/c => refused AccessDenied(Access { user: 'alice', access: Access(1), inode: Guarded { path: '/a/b'
         alice ls /a => refused AccessDenied(Access { user: 'alice', access: Access(5), inode: Guarded { path: '/a'
         root chown /a/b :staff
         root chmod /a/b 750
         alice ls /a/b => c +0
         carol ls /a/b => refused AccessDenied
         alice stat /a/b/none => nothing",
    );
}

#[test]
fn the_first_class_that_fits_decides() {
    check(
        "root mkdir /d mode=077
         root chown /d alice:staff
         alice ls /d => refused AccessDenied
         bob ls /d => +0
         carol ls /d => +0
         root ls /d => +0",
    );
}

#[test]
fn writing_needs_write_on_the_closest_directory() {
    check(
        "root mkdir /d
         alice mkdir /d/x => refused AccessDenied(Access { user: 'alice', access: Access(2), inode: Guarded { path: '/d'
         alice create /d/x/y/f => refused AccessDenied(Access { user: 'alice', access: Access(2), inode: Guarded { path: '/d'
         alice mkdir /d => true
         root chmod /d 777
         alice create /d/f mode=644
         alice complete /d/f
         bob create /d/f overwrite => refused AccessDenied(Access { user: 'bob', access: Access(2), inode: Guarded { path: '/d/f'
         bob append /d/f => refused AccessDenied
         bob setrep /d/f 2 => refused AccessDenied
         bob touch /d/f m=1 => refused AccessDenied
         bob recover /d/f => refused AccessDenied
         bob blocks /d/f => 0 bytes
         root chmod /d/f 600
         bob blocks /d/f => refused AccessDenied(Access { user: 'bob', access: Access(4), inode: Guarded { path:
         bob delete /d/f => true",
    );
}

#[test]
fn only_owners_change_modes() {
    check(
        "root mkdir /d mode=777
         alice create /d/f
         bob chmod /d/f 777 => refused AccessDenied(NotOwner { user: 'bob', path: '/d/f' })
         alice chmod /d/f 600
         bob chown /d/f :staff => refused AccessDenied
         alice chown /d/f :staff
         alice chown /d/f :wheel => refused AccessDenied(NotInGroup { user: 'alice', group: 'wheel' })
         alice chown /d/f bob: => refused AccessDenied(NewOwner { user: 'alice' })
         alice chown /d/f alice:staff
         root chown /d/f bob:wheel
         root stat /d/f => bob:wheel",
    );
}

#[test]
fn the_sticky_bit_guards_what_others_put_there() {
    check(
        "root mkdir /tmp mode=1777
         alice create /tmp/a mode=666
         alice complete /tmp/a
         bob delete /tmp/a => refused AccessDenied(Sticky { user: 'bob', child: Guarded { path: '/tmp/a'
         bob rename /tmp/a /tmp/b => refused AccessDenied(Sticky { user: 'bob', child: Guarded { path: '/tmp/a'
         bob create /tmp/mine
         bob rename2 /tmp/mine /tmp/a overwrite => refused AccessDenied(Sticky { user: 'bob', child: Guarded { path:
         alice rename /tmp/a /tmp/b => true
         alice delete /tmp/b => true
         root delete /tmp/mine => true
         bob create /tmp/x
         root chown /tmp alice:
         alice delete /tmp/x => true",
    );
}

#[test]
fn a_recursive_delete_needs_all_rights_on_each_full_directory() {
    check(
        "root mkdir /d mode=777
         alice mkdir /d/t/u/v mode=777
         root create /d/t/u/v/f
         root chmod /d/t/u/v 755
         root chown /d/t/u/v root:
         alice delete /d/t -r => refused AccessDenied(Access { user: 'alice', access: Access(7), inode: Guarded { path: '/d/t/u/v'
         # an empty one needs none
         root delete /d/t/u/v/f => true
         alice delete /d/t -r => true
         alice mkdir /d/s mode=1777
         bob create /d/s/f
         alice mkdir /d/top
         alice rename /d/s /d/top
         root chown /d/top/s carol:
         alice delete /d/top -r => refused AccessDenied(Sticky { user: 'alice', child: Guarded { path: '/d/top/s/f'
         # without -r nobody looks below
         alice delete /d/top => refused NotEmpty",
    );
}

#[test]
fn moving_to_trash_is_as_hard_as_deleting() {
    check(
        "root mkdir /d mode=777
         alice mkdir /d/t/u mode=755
         root create /d/t/u/f
         root chown /d/t/u root:
         alice rename2 /d/t /d/x trash => refused AccessDenied
         alice rename2 /d/t /d/x => done
         alice mkdir /d/own/u/v
         alice create /d/own/u/f
         alice rename2 /d/own /d/y trash => done",
    );
}

#[test]
fn access_can_be_asked_for() {
    check(
        "root mkdir /d mode=750
         root chown /d :staff
         alice access /d 5 => granted
         alice access /d 2 => refused AccessDenied(Access { user: 'alice', access: Access(2), inode: Guarded { path:
         alice access /none 4 => refused NotFound(Examined('/none'))
         carol access /d 0 => granted
         root access /d 7 => granted",
    );
}

#[test]
fn a_count_needs_to_read_every_directory() {
    check(
        "root mkdir /a/b/c
         root:w create /a/b/f r=2
         root:w add /a/b/f x
         root:w complete /a/b/f x=50 => true
         root:w create /a/g
         root du /a => 50 bytes 2 files 3 dirs 100 space
         root du /a/b/f => 50 bytes 1 files 0 dirs 100 space
         alice du / => 50 bytes 2 files 4 dirs
         root chmod /a/b/c 700
         alice du /a => refused AccessDenied(Access { user: 'alice', access: Access(5), inode: Guarded { path: '/a/b/c'
         alice du /none => refused NotFound",
    );
}

#[test]
fn a_tree_is_looked_at_in_steps_before_it_is_deleted() {
    check(
        "root mkdir /d
         root chmod /d 777
         alice mkdir /d/a/b/c
         alice create /d/a/f
         alice delete /d/a -r => true
         alice mkdir /d/a/b/c
         root mkdir /d/a/b/roots/x
         alice delete /d/a -r => refused AccessDenied(Access { user: 'alice', access: Access(7), inode: Guarded { path: '/d/a/b/roots'
         root delete /d/a/b/roots -r => true
         alice delete /d/a -r => true
         alice delete /d/a -r => false",
    );
}

/// What was examined is gone, and another tree stands in its place: that one is to be examined first.
#[test]
fn another_tree_is_not_deleted_in_the_place_of_the_one_looked_at() {
    let mut world = World::new();
    world.tell(
        "root mkdir /d
         root chmod /d 777
         alice mkdir /d/a/b",
    );
    let (alice, target) = (caller("alice"), path("/d/a"));
    let top = removal(&world.rows, &alice, &target).unwrap().unwrap();
    world.tell(
        "alice rename /d/a /d/old
         alice mkdir /d/a
         root mkdir /d/a/roots/x",
    );
    let examined = Delete { path: target.clone(), recursive: true, examined: Some(top) };
    assert!(removal(&world.rows, &alice, &target).is_err());
    assert!(matches!(world.apply(&alice, examined.clone()), Err(NsError::NotExamined(_))));
    world.tell(
        "root rename /d/a /d/new
         alice rename /d/old /d/a",
    );
    assert_eq!(world.apply(&alice, examined), Ok(Reply::Bool(true)));
}

/// The directory server does not answer: nobody gets more rights by that, and nobody is denied a right for good.
#[test]
fn unknown_groups_neither_grant_nor_deny() {
    let mut world = World::new();
    world.tell(
        "root mkdir /open
         root chmod /open 755
         root mkdir /group
         root chown /group :staff
         root chmod /group 750
         root mkdir /not-group
         root chown /not-group :staff
         root chmod /not-group 705
         root mkdir /bob
         root chown /bob bob:staff
         root chmod /bob 700",
    );
    let bob = Caller { groups: Vec::new(), groups_known: false, ..caller("bob") };
    let access = |world: &World, who: &Caller, at: &str| {
        check_access(&world.rows, who, &path(at), Access::READ_EXECUTE).unwrap()
    };
    let unknown = |answer| matches!(answer, Err(NsError::GroupsUnknown(_)));
    let denied = |answer| matches!(answer, Err(NsError::AccessDenied(_)));
    assert_eq!(access(&world, &bob, "/open"), Ok(()));
    assert_eq!(access(&world, &bob, "/bob"), Ok(()));
    assert!(unknown(access(&world, &bob, "/group")), "a member would be denied");
    assert!(unknown(access(&world, &bob, "/not-group")), "a member would read");
    assert!(unknown(world.apply(&bob, SetSafeMode { on: true }).map(drop)), "he may be a superuser");
    for who in [caller("bob"), caller("carol")] {
        let is_member = who.user == "bob";
        assert_eq!(denied(access(&world, &who, "/group")), !is_member);
        assert_eq!(denied(access(&world, &who, "/not-group")), is_member);
        assert!(denied(world.apply(&who, SetSafeMode { on: true }).map(drop)));
    }
    let entry = |kind, name: &str, access| {
        let key = AclKey { scope: AclScope::Access, kind, name: Some(name.into()) };
        AclEntry { key, access }
    };
    let mut set = |at: &str, entries| {
        let change = AclChange::Modify(entries);
        world.apply(&caller("root"), SetAcl { path: path(at), change }).unwrap();
    };
    set("/group", vec![entry(AclKind::User, "bob", 5)]);
    set("/not-group", vec![entry(AclKind::User, "bob", 0)]);
    set("/open", vec![entry(AclKind::Group, "barred", 0)]);
    set("/bob", vec![entry(AclKind::Group, "guests", 5)]);
    assert_eq!(access(&world, &bob, "/group"), Ok(()), "an entry names him");
    assert!(unknown(access(&world, &bob, "/not-group")), "and here, but a superuser would read");
    assert!(unknown(access(&world, &bob, "/open")), "he may be in the group that is kept out");
    assert_eq!(access(&world, &caller("bob"), "/open"), Ok(()));
    let carol = Caller { groups_known: false, ..caller("carol") };
    assert!(unknown(access(&world, &carol, "/bob")));
}

/// Attributes that only superusers may see or set, and a file that superusers alone may not read.
#[test]
fn unknown_groups_may_be_those_of_superusers() {
    let mut world = World::new();
    world.tell(
        "root mkdir /d
         root chmod /d 777
         alice:a put /d/f
         root setfattr /d/f trusted.t x",
    );
    let alice = Caller { groups: Vec::new(), groups_known: false, ..caller("alice") };
    let all = |world: &World, who: &Caller| xattrs(&world.rows, who, &path("/d/f"), &[]).unwrap();
    let blocks = |world: &World, who: &Caller| located(&world.rows, who, &path("/d/f"), 0, 1).unwrap().map(drop);
    assert_eq!(all(&world, &caller("alice")), Ok(Vec::new()));
    assert!(matches!(all(&world, &alice), Err(NsError::GroupsUnknown(_))), "the list would be short");
    assert_eq!(blocks(&world, &alice), Ok(()));
    world.tell(
        "root rmfattr /d/f trusted.t
         alice setfattr /d/f security.hdfs.unreadable.by.superuser ",
    );
    assert_eq!(blocks(&world, &caller("alice")), Ok(()));
    assert!(matches!(blocks(&world, &alice), Err(NsError::GroupsUnknown(_))));
    let remove = |space| RemoveXattr { path: path("/d/f"), name: XattrName { space, name: "t".into() } };
    assert!(matches!(world.apply(&alice, remove(XattrSpace::Trusted)), Err(NsError::GroupsUnknown(_))));
    let refused = world.apply(&alice, remove(XattrSpace::Security));
    assert!(matches!(refused, Err(NsError::AccessDenied(_))), "superusers may not either");
}
