//! Listings and locations.

use crate::world::{World, caller, check, path};
use namespace::Kind;
use namespace::read::{self, PageLimits};

#[test]
fn listings_come_in_pages_by_bytes() {
    check(
        "root mkdir /d/b
         root mkdir /d/B
         root mkdir /d/a
         root mkdir /d/é
         root mkdir /d/aa
         root mkdir /e
         root ls /d => B a aa b é +0
         root ls /d 2 => B a +3
         root ls /d 2 a => aa b +1
         root ls /d 2 b => é +0
         root ls /d 2 é => +0
         # a name that is gone, or never was
         root delete /d/aa => true
         root ls /d 1 aa => b +1
         root ls /d 9 bb => é +0
         root ls /none => nothing
         root ls /d 9 /.reserved/.inodes/16389 => b é +0
         root ls /d 9 /.reserved/.inodes/99 => refused ListingStartGone",
    );
}

#[test]
fn a_file_lists_itself_without_a_name() {
    let mut world = World::new();
    world.tell("root:w create /f\n root:w add /f a\n root mkdir /d/e\n root create /d/f");
    let list = |at: &str, with_blocks| {
        read::list(&world.rows, &caller("root"), &path(at), b"", PageLimits::new(with_blocks))
            .unwrap()
            .unwrap()
            .unwrap()
    };
    let listing = list("/f", true);
    assert_eq!((listing.entries.len(), listing.remaining), (1, 0));
    assert_eq!(listing.entries[0].status.name, b"");
    assert_eq!(listing.entries[0].blocks.as_ref().unwrap().last.unwrap().len, 0);
    let listing = list("/d", true);
    assert_eq!(listing.entries[0].status.kind, Kind::Directory);
    assert!(listing.entries[0].blocks.is_none());
    assert!(listing.entries[1].blocks.as_ref().unwrap().blocks.is_empty());
    assert!(list("/d", false).entries.iter().all(|entry| entry.blocks.is_none()));
}

#[test]
fn a_page_with_locations_ends_when_it_has_enough_blocks() {
    let mut world = World::new();
    for name in ["a", "b", "c"] {
        world.tell(&format!("root:w create /{name}\n root:w add /{name} x\n root:w add /{name} {name} x=100"));
        world.tell(&format!("root:w add /{name} {name}2 {name}=100\n root:w complete /{name} {name}2=1"));
        world.forget_block("x");
    }
    let limits = PageLimits { entries: 10, may_end: 10, blocks: Some(4) };
    let page = read::list(&world.rows, &caller("root"), &path("/"), b"", limits).unwrap().unwrap().unwrap();
    assert_eq!((page.entries.len(), page.remaining), (2, 1));
    let limits = PageLimits { entries: 10, may_end: 10, blocks: Some(0) };
    let page = read::list(&world.rows, &caller("root"), &path("/"), b"", limits).unwrap().unwrap().unwrap();
    assert_eq!((page.entries.len(), page.remaining), (1, 2), "a page is never empty");
}

#[test]
fn locations_are_those_that_overlap() {
    check(
        "root:w create /f
         root:w add /f a
         root:w add /f b a=100
         root:w add /f c b=100
         root:w complete /f c=50
         root blocks /f 0 0 => last=c true: [\"a@0+100 g1001 c1\"]
         root blocks /f 99 1 => [\"a@0+100 g1001 c1\"]
         root blocks /f 99 2 => [\"a@0+100 g1001 c1\", \"b@100+100 g1002 c1\"]
         root blocks /f 100 100 => [\"b@100+100 g1002 c1\"]
         root blocks /f 249 1 => [\"c@200+50 g1003 c1\"]
         root blocks /f 250 10 => 250 bytes closed last=c true: []
         root blocks /f 1000 10 => last=c true: []
         root blocks /f 150 9223372036854775807 => [\"b@100+100 g1002 c1\", \"c@200+50 g1003 c1\"]
         root blocks /f 18446744073709551615 18446744073709551615 => last=c true: []
         root blocks /none => refused NotFound(Path('/none'))
         root blocks / => refused IsDirectory('/')",
    );
}

#[test]
fn the_block_under_construction_counts_apart() {
    check(
        "root:w create /f
         root:w add /f a
         root blocks /f => 0 bytes open last=a false: []
         root:w add /f b a=100
         root blocks /f => 100 bytes open last=b false: [\"a@0+100 g1001 c1\", \"b@100+0! g1002 c1\"]
         root:w fsync /f 30
         root stat /f => len=130
         root blocks /f 120 5 => 100 bytes open last=b false: [\"b@100+30! g1002 c1\"]",
    );
}

#[test]
fn a_summary_is_of_one_moment_though_rights_are_looked_at_in_steps() {
    let mut world = World::new();
    for at in 0..50 {
        world.tell(&format!("root mkdir /d/{at}/x\n root create /d/{at}/f"));
    }
    let carol = caller("carol");
    let mut summary = read::Summary::start(&world.rows, &carol, &path("/d")).unwrap().unwrap();
    for _ in 0..20 {
        assert_eq!(summary.step(&world.rows, &carol, 3).unwrap().unwrap(), None);
    }
    world.tell("root delete /d -r\n root reap 1000");
    let totals = summary.step(&world.rows, &carol, 1000).unwrap().unwrap().unwrap();
    assert_eq!((totals.file_count, totals.directory_count), (50, 101));
}
