//! What one link does, told event by event. Each story shows all actions, in order.

use types::{ChecksumKind, ChecksumSpec};
use wire::{PacketHeader, Status};
use xfer::write::{Action, Ending, Event, Failure, Link, Packet};

const SPEC: ChecksumSpec = ChecksumSpec { kind: ChecksumKind::Crc32c, chunk_len: 100 };

/// A link, and what it did so far: `>` forwards, `w`, `s` and `p` store (write, sync, put), `3+++` acks packet 3.
struct Tale {
    link: Link,
    told: Vec<String>,
}

impl Tale {
    fn on(&mut self, event: Event) -> &mut Self {
        let mut actions = Vec::new();
        self.link.on_event(event, &mut actions);
        self.told.extend(actions.iter().map(word));
        self
    }

    fn packet(&mut self, header: PacketHeader, sums_len: u32) -> &mut Self {
        self.on(Event::Packet(Packet { header, sums_len }))
    }

    fn data(&mut self, seqno: i64, offset: i64, data_len: i32) -> &mut Self {
        let sums_len = SPEC.sums_len(data_len as u64) as u32;
        self.packet(PacketHeader { seqno, offset, data_len, ..PacketHeader::default() }, sums_len)
    }

    fn last(&mut self, seqno: i64, offset: i64) -> &mut Self {
        self.packet(PacketHeader { seqno, offset, last: true, ..PacketHeader::default() }, 0)
    }

    fn heartbeat(&mut self) -> &mut Self {
        self.packet(PacketHeader { seqno: PacketHeader::HEARTBEAT, ..PacketHeader::default() }, 0)
    }

    fn stored(&mut self) -> &mut Self {
        self.on(Event::Stored)
    }

    /// The only node below answers.
    fn below(&mut self, seqno: i64, replies: &str) -> &mut Self {
        self.one_below(0, seqno, replies)
    }

    /// `+` is SUCCESS, `-` ERROR, `c` ERROR_CHECKSUM, `?` not yet known.
    fn one_below(&mut self, below: usize, seqno: i64, replies: &str) -> &mut Self {
        let reply = |mark| match mark {
            '+' => Status::SUCCESS,
            'c' => Status::ERROR_CHECKSUM,
            '?' => Status::IN_PROGRESS,
            _ => Status::ERROR,
        };
        self.on(Event::Ack { below, seqno, replies: replies.chars().map(reply).collect() })
    }

    fn lost(&mut self, below: usize) -> &mut Self {
        self.on(Event::BelowLost { below })
    }
}

fn word(action: &Action) -> String {
    let mark = |reply: &Status| match *reply {
        Status::SUCCESS => '+',
        Status::ERROR_CHECKSUM => 'c',
        Status::IN_PROGRESS => '?',
        _ => '-',
    };
    match action {
        Action::Forward => ">".to_owned(),
        Action::Store { write, sync, put } => {
            let put = put.map(|len| format!("p{len}"));
            let mark = |on: bool, mark: &str| if on { mark.to_owned() } else { String::new() };
            format!("{}{}{}.", mark(*write, "w"), mark(*sync, "s"), put.unwrap_or_default())
        }
        Action::Show(len) => format!("show{len}"),
        Action::Ack { seqno, replies } => format!("{seqno}{}", replies.iter().map(mark).collect::<String>()),
        Action::Close(Ending::Refused(refusal)) => format!("refused: {refusal}"),
        Action::Close(ending) => format!("{ending:?}"),
    }
}

/// A chain with so many nodes below.
fn check(told: &str, below_count: usize, received: u64, story: impl FnOnce(&mut Tale)) {
    let below = if below_count > 0 { vec![below_count] } else { Vec::new() };
    check_tree(told, &below, received, story);
}

fn check_tree(told: &str, below: &[usize], received: u64, story: impl FnOnce(&mut Tale)) {
    let mut tale = Tale { link: Link::new(SPEC, below, received), told: Vec::new() };
    story(&mut tale);
    assert_eq!(tale.told.join(" "), told);
}

#[test]
fn the_tail_acks_what_it_stored() {
    check("w. show250 0+ w. show300 1+ p300. 2+ Complete", 0, 0, |tail| {
        tail.data(0, 0, 250).stored().data(1, 200, 100).stored().last(2, 300).stored();
    });
}

#[test]
fn an_ack_waits_for_the_node_below_and_for_the_own_disk() {
    check("> w. > w. show100 0+++ show200 1+++", 2, 0, |head| {
        head.data(0, 0, 100).data(1, 100, 100).below(0, "++").stored().stored().below(1, "++");
    });
}

#[test]
fn the_last_ack_says_that_all_have_put_the_block() {
    check("> p0. 0++ Complete", 1, 0, |head| {
        head.last(0, 0).below(0, "+").stored();
    });
    check("> p0. 0++ Complete", 1, 0, |head| {
        head.last(0, 0).stored().below(0, "+");
    });
}

/// The tail dies with a packet in flight: the oldest packet tells of it, with one ERROR however many were below.
#[test]
fn losing_the_node_below_is_told_with_two_replies() {
    check("> w. > w. 0+- Failed { below: true }", 2, 0, |head| {
        head.data(0, 0, 100).data(1, 100, 100).stored().lost(0).below(0, "++").stored();
    });
}

#[test]
fn a_node_lost_while_all_is_quiet_is_told_with_the_next_packet() {
    check("> w. show100 0++ -1+- Failed { below: true }", 1, 0, |head| {
        head.data(0, 0, 100).stored().below(0, "+").lost(0).heartbeat();
    });
}

/// A writer that ends its block elsewhere than its bytes end has lost some, or some are not its own.
#[test]
fn a_block_ends_where_its_bytes_end() {
    check("w. show300 0+ refused: packet 1 ends the block at 200, but 300 bytes came before it", 0, 0, |tail| {
        tail.data(0, 0, 300).stored().last(1, 200);
    });
    check("refused: packet 0 at offset 301, but only 300 bytes came before it", 0, 300, |tail| {
        tail.last(0, 301);
    });
}

#[test]
fn a_block_is_not_put_over_a_broken_chain() {
    check(". 0+- Failed { below: true }", 1, 100, |head| {
        head.lost(0).last(0, 100).stored();
    });
}

#[test]
fn bad_news_from_below_passes_with_our_success_in_front() {
    check("> w. 0++- Failed { below: true }", 3, 0, |head| {
        head.data(0, 0, 100).stored().below(0, "+-").below(1, "+++");
    });
}

#[test]
fn own_bad_disk_is_one_error_after_the_packets_before() {
    check("> w. > w. > w. show100 0++ 1- Failed { below: false }", 1, 0, |head| {
        head.data(0, 0, 100).data(1, 100, 100).data(2, 200, 100);
        head.stored().on(Event::NotStored(Failure::Disk)).below(0, "+");
    });
}

#[test]
fn the_node_that_finds_bad_bytes_says_so_and_stops() {
    check("> w. 0c Failed { below: false }", 1, 0, |node| {
        node.data(0, 0, 100).on(Event::NotStored(Failure::Checksum)).data(1, 100, 100);
    });
}

/// It sent the bad bytes on, so it has to look like the bad one.
#[test]
fn the_node_that_sent_bad_bytes_on_goes_without_a_word() {
    check("> w. BelowSawBadSums", 2, 0, |node| {
        node.data(0, 0, 100).stored().below(0, "c");
    });
}

#[test]
fn heartbeats_go_down_and_come_back_in_their_place() {
    check("> w. > show100 0++ -1++", 1, 0, |head| {
        head.data(0, 0, 100).heartbeat().below(0, "+").stored().below(PacketHeader::HEARTBEAT, "+");
    });
    check("-1+", 0, 0, |tail| {
        tail.heartbeat();
    });
}

#[test]
fn nonsense_from_below_is_a_lost_node() {
    check("> w. 0+- Failed { below: true }", 1, 0, |head| {
        head.data(0, 0, 100).stored().below(7, "+");
    });
    check("> w. 0+- Failed { below: true }", 2, 0, |head| {
        head.data(0, 0, 100).stored().below(0, "+"); // one of two is missing
    });
}

#[test]
fn a_packet_without_data_asks_for_the_disk() {
    check("s. show150 4+", 0, 150, |tail| {
        tail.packet(PacketHeader { seqno: 4, offset: 150, sync: true, ..PacketHeader::default() }, 0).stored();
    });
}

#[test]
fn overlap_is_written_once_and_a_packet_that_is_here_is_not() {
    check("w. show180 1+ . 2+", 0, 150, |tail| {
        tail.data(1, 100, 80).stored().data(2, 0, 100).stored();
    });
}

#[test]
fn after_a_sync_inside_a_chunk_the_rest_of_the_chunk_may_follow() {
    check("w. show200 1+", 0, 150, |tail| {
        tail.data(1, 150, 50).stored();
    });
}

#[test]
fn a_wrong_writer_is_refused() {
    let refused = |told: &str, received, header| check(told, 0, received, |tail| _ = tail.packet(header, 4));
    let packet = PacketHeader { seqno: 1, offset: 150, data_len: 60, ..PacketHeader::default() };
    refused("refused: packet 1 at offset 150, but only 149 bytes came before it", 149, packet);
    refused("refused: packet 1 at offset 150 starts inside a chunk and goes on after the chunk's end", 150, packet);
    let packet = PacketHeader { offset: -1, ..packet };
    refused("refused: packet 1 at offset -1, but only 150 bytes came before it", 150, packet);
    let packet = PacketHeader { offset: 0, data_len: i32::MAX, ..packet };
    refused("refused: packet 1 has 4 bytes of checksums for 2147483647 bytes of data", 150, packet);
    check("p0. refused: packet 1 after the last one", 0, 0, |tail| _ = tail.last(0, 0).last(1, 0));
}

#[test]
fn a_fenced_writer_and_a_lost_one_get_no_answer() {
    check("w. Fenced", 0, 0, |tail| _ = tail.data(0, 0, 100).on(Event::NotStored(Failure::Fenced)).stored());
    check("w. AboveLost", 0, 0, |tail| _ = tail.data(0, 0, 100).on(Event::AboveLost).stored());
}

#[test]
fn a_writer_that_never_waits_is_held_back() {
    let mut tale = Tale { link: Link::new(SPEC, &[1], 0), told: Vec::new() };
    while tale.link.wants_packets() {
        tale.heartbeat();
    }
    assert_eq!(tale.told.len(), Link::IN_FLIGHT_COUNT_MAX);
    tale.below(PacketHeader::HEARTBEAT, "+");
    assert!(tale.link.wants_packets());
}

#[test]
fn an_ack_waits_for_all_branches() {
    check_tree("> w. > w. show100 0++++ show200 1++++", &[1, 2], 0, |head| {
        head.data(0, 0, 100).stored().data(1, 100, 100).stored();
        head.one_below(0, 0, "+").one_below(0, 1, "+").one_below(1, 0, "++").one_below(1, 1, "++");
    });
}

/// Its place in the list says which; of those not heard of yet nothing is said.
#[test]
fn a_lost_branch_is_told_in_its_place() {
    check_tree("> w. 0+++- Failed { below: true }", &[2, 2], 0, |head| {
        head.data(0, 0, 100).stored().one_below(0, 0, "++").lost(1);
    });
    check_tree("> w. 0+-?++ Failed { below: true }", &[2, 2], 0, |head| {
        head.data(0, 0, 100).stored().one_below(1, 0, "++").lost(0);
    });
    check_tree("> w. 0+- Failed { below: true }", &[2, 2], 0, |head| {
        head.data(0, 0, 100).stored().lost(0); // at once: the other branch is not waited for
    });
    check_tree("> w. 0+?- Failed { below: true }", &[1, 1], 0, |head| {
        head.data(0, 0, 100).stored().lost(1);
    });
    check_tree("> w. 0+-- Failed { below: true }", &[1, 1], 0, |head| {
        head.data(0, 0, 100).lost(1).lost(0).stored();
    });
}

#[test]
fn bad_news_of_a_branch_keeps_its_places() {
    check_tree("> w. 0+?++- Failed { below: true }", &[1, 4], 0, |head| {
        head.data(0, 0, 100).stored().one_below(1, 0, "++-"); // two more behind the bad one
    });
    check_tree("> w. BelowSawBadSums", &[1, 1], 0, |head| {
        head.data(0, 0, 100).stored().one_below(0, 0, "+").one_below(1, 0, "c");
    });
}

/// News of a later packet wait until those before are known of everywhere.
#[test]
fn a_branch_that_is_ahead_may_fail_later() {
    check_tree("> w. > w. show100 0+++ 1+- Failed { below: true }", &[1, 1], 0, |head| {
        head.data(0, 0, 100).stored().data(1, 100, 100).stored();
        head.one_below(0, 0, "+").one_below(0, 1, "-").one_below(1, 0, "+").one_below(1, 1, "+");
    });
}

#[test]
fn packets_go_on_to_the_branches_that_are_left() {
    check_tree("> w. > w. > .", &[1, 1], 0, |head| {
        head.data(0, 0, 100).lost(0).data(1, 100, 100).last(2, 200);
        assert!(!head.link.awaits(0) && head.link.awaits(1));
    });
    check_tree("> w. w.", &[1, 1], 0, |head| _ = head.data(0, 0, 100).lost(0).lost(1).data(1, 100, 100));
}
