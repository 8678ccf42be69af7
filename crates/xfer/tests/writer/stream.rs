//! What one stream does, told event by event.

use super::{ack, millis, opening, packet, stream};
use proptest::prelude::*;
use std::time::Duration;
use wire::Routing;
use xfer::writer::{Opening, Outgoing, Stream};

/// A stream, what it sent, and what is in hand.
struct Tale {
    stream: Stream,
    now: Duration,
    sent: Vec<String>,
    pushed: (i64, u64),
    in_hand: Option<Outgoing>,
}

impl Tale {
    fn new(opening: &Opening) -> Self {
        Self { stream: stream(opening), now: Duration::ZERO, sent: Vec::new(), pushed: (0, 0), in_hand: None }
    }

    fn push(&mut self, data_len: usize, last: bool) {
        let (seqno, offset) = self.pushed;
        self.stream.push(packet(seqno, offset, data_len, last));
        self.pushed = (seqno + 1, offset + data_len as u64);
    }

    fn take(&mut self) {
        self.in_hand = self.stream.next(self.now);
    }

    /// The socket took at most so many bytes of what is in hand.
    fn note(&mut self, len: usize) {
        let Some(outgoing) = self.in_hand.take() else { return };
        let bytes = outgoing.bytes();
        let len = len.min(bytes.len());
        self.sent.push(if len == bytes.len() { format!("{}", bytes.len()) } else { format!("{len}/{}", bytes.len()) });
        self.stream.on_sent(self.now, &outgoing, len);
    }

    fn on(&mut self, event: &str) {
        let words: Vec<&str> = event.split_whitespace().collect();
        let number = |place: usize| words[place].parse::<u64>().unwrap();
        match words[0] {
            "push" => self.push(9, false),
            "last" => self.push(0, true),
            "send" => loop {
                self.take();
                if self.in_hand.is_none() {
                    break;
                }
                self.note(usize::MAX);
            },
            "part" => {
                self.take();
                self.note(number(1) as usize);
            }
            "hand" => self.take(),
            "note" => self.note(usize::MAX),
            "pause" => self.stream.pause(self.now),
            "ack" => self.stream.handle_bytes(self.now, &ack(words[1].parse().unwrap(), words[2])),
            "keepalive" => self.stream.handle_bytes(self.now, &ack(-1, "")),
            "junk" => self.stream.handle_bytes(self.now, &[0xff; 9]),
            "eof" => self.stream.on_receive_failed("the end"),
            "torn" => self.stream.on_send_failed(self.now, "no pipe"),
            "at" => self.until(millis(number(1))),
            other => panic!("{other}"),
        }
        self.stream.check();
    }

    fn until(&mut self, until: Duration) {
        while let Some(next) = self.stream.poll_timeout().filter(|next| *next <= until) {
            self.now = next;
            self.stream.handle_timeout(next);
            assert!(self.stream.poll_timeout().is_none_or(|later| later > next), "it wants to be woken again at once");
            if self.stream.needs_sender() {
                self.on("send");
            }
        }
        self.now = until;
    }

    fn told(mut self) -> String {
        let state = match (self.stream.is_broken(), self.stream.is_over(), self.stream.is_torn()) {
            (true, ..) => "broken",
            (_, true, _) => "ended",
            (.., true) => "torn",
            _ => "open",
        };
        let rest = self.stream.take_rest();
        let blamed = rest.broken.nodes.iter().map(|(node, fault)| format!(" {node}: {fault}"));
        let unacked: Vec<String> = rest.unacked.iter().map(|packet| packet.seqno().to_string()).collect();
        let blamed: String = blamed.collect();
        format!("{}; {state}{blamed}; acked {}, left {}", self.sent.join(" "), rest.acked_len, unacked.join(" "))
    }
}

fn told(opening: &Opening, story: &str) -> String {
    let mut tale = Tale::new(opening);
    story.split('|').for_each(|event| tale.on(event.trim()));
    tale.told()
}

/// Three nodes of ours in a chain.
fn chain(story: &str) -> String {
    told(&opening(3, Some(Routing::chain(3)), true), story)
}

fn star(story: &str) -> String {
    told(&opening(3, Some(Routing::star(3)), true), story)
}

#[test]
fn packets_leave_the_window_with_their_acks() {
    assert_eq!(chain("push | push | send | ack 0 +++"), "40 40; open; acked 9, left 1");
    assert_eq!(chain("push | last | send | ack 0 +++ | ack 1 +++"), "40 31; ended; acked 9, left ");
    // What comes after the end is nobody's.
    assert_eq!(chain("last | send | ack 0 +++ | ack 0 +++ | junk | eof"), "31; ended; acked 0, left ");
}

#[test]
fn a_write_goes_on_where_the_one_before_gave_up() {
    assert_eq!(
        chain("push | push | part 10 | pause | part 0 | pause | send"),
        "10/40 0/30 30 40; open; acked 0, left 0 1"
    );
    // The ack may be faster than the note that the packet is written.
    assert_eq!(chain("push | push | hand | ack 0 +++ | note | send"), "40 40; open; acked 9, left 1");
    assert_eq!(chain("push | part 10 | hand | ack 0 +++ | note"), "10/40 30; open; acked 9, left ");
    // But nobody has a packet of which a part was written.
    let order = "broken 0: not understood: ack 0 out of order";
    assert_eq!(chain("push | part 10 | ack 0 +++"), format!("10/40; {order}; acked 0, left 0"));
    assert_eq!(chain("push | ack 0 +++"), format!("; {order}; acked 0, left 0"));
}

#[test]
fn acks_that_cannot_be_true_break_the_stream() {
    for (acks, reason) in [
        ("ack 1 +++", "ack 1 out of order"),
        ("ack -2 +++", "ack -2 out of order"),
        ("ack 0 ++", "2 replies of 3 nodes, and none bad"),
        ("ack 0 ++++", "4 replies of 3 nodes"),
        ("ack 0 ---------", "9 replies of 3 nodes"),
        ("junk", "ack has 34359738367 bytes, more than 4096"),
    ] {
        let story = chain(&format!("push | push | send | {acks} | ack 0 +++"));
        assert!(story.starts_with("40 40; broken 0: not understood: "), "{story}");
        assert!(story.ends_with("; acked 0, left 0 1"), "{story}");
        assert!(acks == "junk" || story.contains(reason), "{story}");
    }
    let story = star("push | send | ack 0 ++?");
    assert!(story.contains("2 replies of 3 nodes"), "a node that was not heard of may not have it: {story}");
}

#[test]
fn a_chain_blames_the_last_that_complains_and_a_tree_each() {
    let bad = "it answered: it did not take a packet";
    assert_eq!(chain("push | send | ack 0 +-"), format!("40; broken 1: {bad}; acked 0, left 0"));
    assert_eq!(chain("push | send | ack 0 --+"), format!("40; broken 1: {bad}; acked 0, left 0"));
    assert_eq!(chain("push | send | ack -1 ++-"), format!("40; broken 2: {bad}; acked 0, left 0"));
    assert_eq!(chain("push | send | ack -2 r"), "40; broken 0: it answered: it restarts; acked 0, left 0");
    assert_eq!(star("push | send | ack 0 +-?"), format!("40; broken 1: {bad}; acked 0, left 0"));
    assert_eq!(star("push | send | ack 0 +--"), format!("40; broken 1: {bad} 2: {bad}; acked 0, left 0"));
}

#[test]
fn nodes_that_owe_an_answer_are_given_up() {
    let silent = "broken 0: no answer in time; acked 0, left 0";
    assert_eq!(chain("push | send | at 1999"), "40; open; acked 0, left 0");
    assert_eq!(chain("push | send | at 2000"), format!("40; {silent}"));
    // Time counts from when they owe something.
    assert_eq!(chain("at 5000 | push | send | at 6999"), "40; open; acked 0, left 0");
    assert_eq!(chain("at 5000 | push | send | at 7000"), format!("40; {silent}"));
    // They must take bytes, too; but not those that nobody is sending.
    assert_eq!(chain("push | part 9 | at 2000"), format!("9/40; {silent}"));
    assert_eq!(chain("push | part 9 | pause | at 2000"), "9/40; open; acked 0, left 0");
    // Last nodes, and those of others, have longer.
    for opening in [opening(3, Some(Routing::chain(3)), false), opening(3, None, true)] {
        assert_eq!(told(&opening, "push | send | at 74999"), "40 31 31; open; acked 0, left 0");
        assert_eq!(told(&opening, "push | send | at 75000"), format!("40 31 31; {silent}"));
    }
}

#[test]
fn keepalives_do_not_count_as_progress() {
    let repeated =
        |count: u64, what: &str| (1..=count).map(|second| format!(" | at {second}000 | {what}")).collect::<String>();
    for what in ["keepalive", "ack -1 +++"] {
        assert_eq!(chain(&format!("push | send{}", repeated(74, what))), "40; open; acked 0, left 0", "{what}");
        let story = chain(&format!("push | send{}", repeated(75, what)));
        assert_eq!(story, "40; broken 0: no answer in time; acked 0, left 0", "{what}");
    }
    let story =
        chain(&format!("push | push | send{} | ack 0 +++{}", repeated(70, "keepalive"), " | at 71900 | keepalive"));
    assert_eq!(story, "40 40; open; acked 9, left 1");
}

#[test]
fn an_idle_writer_says_that_it_lives() {
    assert_eq!(chain("at 29999"), "; open; acked 0, left ");
    assert_eq!(chain("at 30000 | at 60000"), "31 31; open; acked 0, left ");
    assert_eq!(chain("at 20000 | keepalive | at 49999"), "; open; acked 0, left ");
    // What was begun and given up comes first, since a heartbeat cannot stand inside of it.
    assert_eq!(chain("push | part 9 | pause | at 30000"), "9/40 31; open; acked 0, left 0");
    // A heartbeat that was begun is brought to its end before a packet.
    let mut tale = Tale::new(&opening(3, None, true));
    tale.now = millis(30_000);
    tale.stream.handle_timeout(tale.now);
    ["part 3", "pause", "push", "send"].iter().for_each(|event| tale.on(event));
    assert_eq!(tale.told(), "3/31 28 40; open; acked 0, left 0");
}

#[test]
fn after_a_failed_write_acks_may_still_tell_who_it_was() {
    assert_eq!(chain("push | send | torn | at 1000"), "40; torn 0: the connection broke: no pipe; acked 0, left 0");
    assert_eq!(
        chain("push | send | torn | push | send | ack 0 +++"),
        "40; torn 0: the connection broke: no pipe; acked 9, left 1"
    );
    let told = chain("push | send | torn | ack 0 ++- | at 2000");
    assert_eq!(told, "40; broken 2: it answered: it did not take a packet; acked 0, left 0");
    assert_eq!(chain("push | send | torn | at 2000"), "40; broken 0: the connection broke: no pipe; acked 0, left 0");
    assert_eq!(chain("push | send | eof | ack 0 +++"), "40; broken 0: the connection broke: the end; acked 0, left 0");
}

#[test]
fn the_window_has_a_limit() {
    let mut tale = Tale::new(&opening(1, None, true));
    (0..4).for_each(|_| tale.on("push"));
    assert!(!tale.stream.has_room() && !tale.stream.is_drained());
    ["send", "ack 0 +"].iter().for_each(|event| tale.on(event));
    assert!(tale.stream.has_room());
    assert_eq!(tale.stream.take_spent().len(), 1);
    ["ack 1 +", "ack 2 +", "ack 3 +"].iter().for_each(|event| tale.on(event));
    assert!(tale.stream.is_drained());
}

#[test]
#[should_panic(expected = "those between were lost")]
fn a_gap_between_packets_is_our_own_mistake() {
    let mut stream = stream(&opening(1, None, true));
    stream.push(packet(0, 9, 9, false));
}

fn any_ack() -> impl Strategy<Value = Vec<u8>> {
    let good = (0i64..6).prop_map(|seqno| ack(seqno, "+++"));
    let other = (-3i64..6, "[+r?-]{0,5}").prop_map(|(seqno, replies)| ack(seqno, &replies));
    let junk = proptest::collection::vec(any::<u8>(), 0..9);
    prop_oneof![6 => good, 1 => Just(ack(-1, "")), 1 => other, 1 => junk]
}

proptest! {
    /// However the bytes are cut, what they say is the same.
    #[test]
    fn cuts_change_nothing(
        acks in proptest::collection::vec(any_ack(), 0..8), cuts in proptest::collection::vec(0usize..40, 0..20), star: bool,
    ) {
        let table = if star { Routing::star(3) } else { Routing::chain(3) };
        let opening = opening(3, Some(table), true);
        let begin = || {
            let mut tale = Tale::new(&opening);
            "push push push last".split(' ').for_each(|event| tale.on(event));
            tale.on("send");
            tale
        };
        let bytes = acks.concat();
        let (mut whole, mut cut) = (begin(), begin());
        whole.stream.handle_bytes(whole.now, &bytes);
        let mut rest = &bytes[..];
        for len in cuts {
            let (piece, behind) = rest.split_at(len.min(rest.len()));
            cut.stream.handle_bytes(cut.now, piece);
            cut.stream.check();
            rest = behind;
        }
        cut.stream.handle_bytes(cut.now, rest);
        prop_assert_eq!(whole.told(), cut.told());
    }
}
