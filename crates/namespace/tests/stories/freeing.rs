//! Deleted trees, freed step by step.

use crate::world::{World, check};

#[test]
fn a_tree_is_freed_in_bounded_steps() {
    let mut world = World::new();
    // One row stays for good: where the deleted trees begin.
    world.tell("root mkdir /once/more\n root delete /once -r => true\n root reap 9 => more=false []");
    let before = world.rows.len();
    for at in 0..30 {
        world.tell(&format!("root:w create /d/{}/f{at}\n root:w add /d/{}/f{at} b{at}", at % 5, at % 5));
        if at % 2 == 0 {
            world.tell(&format!("root:w complete /d/{}/f{at} b{at}=10", at % 5));
        }
    }
    world.tell("root mkdir /d/e/m/p/t/y\n root delete /d -r => true\n root deleted_trees => true");
    let mut steps = 0;
    while steps == 0 || world.has_deleted_trees() {
        world.tell("root reap 3");
        steps += 1;
    }
    assert!(steps > 20, "{steps}");
    world.tell(
        "root leases => []\n root doomed => b0:g1001:c1\n root forget\n root doomed => []\n root reap 5 => \
         more=false []",
    );
    assert_eq!(world.rows.len(), before, "nothing is left behind");
}

#[test]
fn a_large_file_is_freed_in_bounded_steps() {
    check(
        "root:w create /f
         root:w add /f a
         root:w add /f b a=100
         root:w add /f c b=100
         root:w complete /f c=1
         root delete /f => true
         root reap 2 => more=true [a:g1001:c1]
         root reap 2 => more=true [b:g1002:c1]
         root reap 9 => more=false [c:g1003:c1]",
    );
}

#[test]
fn what_was_doomed_again_at_a_higher_generation_is_not_forgotten() {
    let mut world = World::new();
    world.tell(
        "root:w create /f
         root:w add /f a home=1
         root:w bump a
         root:w update a 1 1002 home=2",
    );
    let seen = namespace::read::doomed_blocks(&world.rows, None, 10).unwrap();
    world.tell(
        "root:w bump a
         root:w update a 1 1003 home=1
         root:w bump a
         root:w update a 1 1004 home=3
         root doomed => [a:g1003:c1 a:g1002:c2]",
    );
    world.apply(&crate::world::caller("root"), namespace::ForgetDoomed { blocks: seen }).unwrap();
    world.tell("root doomed => [a:g1003:c1 a:g1002:c2]\n root forget\n root doomed => []");
}

/// A container is empty when the last of its blocks is gone from everywhere, and nothing of it is left to delete.
#[test]
fn a_container_is_empty_when_nothing_speaks_of_it() {
    let mut world = World::new();
    let is_empty = |world: &World, home| namespace::read::is_empty(&world.rows, types::ContainerId(home)).unwrap();
    assert!(is_empty(&world, 1) && is_empty(&world, 2));
    // Born in the first one, and at home in the second.
    world.tell("root:w create /f\n root:w add /f a home=2\n root:w complete /f a=10");
    assert!(!is_empty(&world, 1) && !is_empty(&world, 2) && is_empty(&world, 3));
    world.tell("root delete /f => true");
    assert!(!is_empty(&world, 1) && !is_empty(&world, 2), "it is not freed yet");
    world.tell("root reap 9 => more=false [a:g1001:c2]");
    assert!(!is_empty(&world, 1), "its replicas are to be deleted");
    world.tell("root forget");
    assert!(is_empty(&world, 1) && is_empty(&world, 2));
}

#[test]
fn no_block_gets_a_home_that_is_gone() {
    check(
        "root reserve 10 => from 16386 g1001
         retry 5 root:w put /f x len=7 file=16386 g=1001 home=2 => file
         root delete /f => true
         root:w create /g
         root:w add /g a
         root:w bump a
         gone 2
         root:w put /h y len=7 file=16387 g=1001 home=2 => refused Block(HomeGone(ContainerId(2)))
         retry 5 root:w put /f x len=7 file=16386 g=1001 home=2 => file
         root:w update a 1 1003 home=2 => refused Block
         root:w create /i
         root:w add /i b home=2 => refused Block
         root:w add /i b home=3",
    );
}
