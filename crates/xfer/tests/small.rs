//! Small writes: what each machine does, told step by step, and any cut of the bytes with any order of answers.

use bytes::BytesMut;
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use types::ChecksumSpec;
use types::endpoint::{Endpoint, Loss, RequestEndpoint};
use types::limits::SMALL_WRITE_LEN_MAX;
use types::random::{Random, Seeded};
use wire::small::{ANSWER_LEN_MAX, SmallAnswer, SmallFrame, SmallWrite};
use wire::{BlockScope, Status, delimited};
use xfer::answer::Refusal;
use xfer::memory::Held;
use xfer::small::stock::{Leased, Stock, Wish, sure_until};
use xfer::small::{
    Caller, CallerLimits, Checked, Fanout, LATE_MAX, Node, OutgoingRequest, Server, ServerError, ServerLimits, Verdict,
    batch,
};

const SECOND: Duration = Duration::from_secs(1);

// ── the side that asks ──

/// A connection, and what became of its requests: `a+` answered well, `a?` silent, `a!` broken, `a-` not sent.
struct Tale {
    caller: Caller<char>,
    now: Duration,
    told: Vec<String>,
}

impl Tale {
    fn new() -> Self {
        Self { caller: Caller::new(Duration::ZERO, &CallerLimits::default()), now: Duration::ZERO, told: Vec::new() }
    }

    fn ask(&mut self, name: char) -> u64 {
        let asked = self.caller.send_request(self.now, outgoing(u64::from(u32::from(name)), b"bytes"), name);
        asked.unwrap_or_else(|name| {
            self.told.push(format!("{name} refused"));
            u64::MAX
        })
    }

    fn send(&mut self) -> &mut Self {
        while self.caller.transmit(self.now).is_some() {}
        self
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        if let Some(mut buffer) = self.caller.take_buffer() {
            buffer.extend_from_slice(bytes);
            self.caller.on_read(self.now, buffer, bytes.len());
        }
        self.tell()
    }

    fn answer(&mut self, number: u64) -> &mut Self {
        self.bytes(&answer_bytes(number))
    }

    fn wait(&mut self, time: Duration) -> &mut Self {
        self.now += time;
        if self.caller.poll_timeout().is_some_and(|due| due <= self.now) {
            self.caller.handle_timeout(self.now);
        }
        self.tell()
    }

    fn tell(&mut self) -> &mut Self {
        while let Some((name, outcome)) = self.caller.poll_event() {
            let mark = match outcome {
                Ok(_) => '+',
                Err(Loss::TimedOut) => '?',
                Err(Loss::Broken(_)) => '!',
                Err(Loss::Unsent(_)) => '-',
            };
            self.told.push(format!("{name}{mark}"));
        }
        self
    }

    #[track_caller]
    fn told(&self, wanted: &str) {
        let end = if self.caller.is_ended() { " end" } else { "" };
        assert_eq!(self.told.join(" ") + end, wanted);
    }
}

const SCOPE: Option<BlockScope> = Some(BlockScope { file: types::InodeId(16_400), home: types::ContainerId(7) });

fn outgoing(block: u64, data: &[u8]) -> OutgoingRequest {
    let spec = ChecksumSpec::DEFAULT;
    let mut body = Vec::new();
    spec.compute(data, &mut body);
    body.extend_from_slice(data);
    let token = SCOPE.unwrap().encode().into();
    let header = SmallWrite {
        block,
        data_len: data.len() as u32,
        checksum_kind: spec.kind as u32,
        chunk_len: spec.chunk_len,
        pool: "BP".into(),
        token,
        ..SmallWrite::default()
    };
    OutgoingRequest { header, body: body.into() }
}

fn answer_bytes(number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    delimited::put(&SmallAnswer { number, refusal: String::new(), have: vec![0], status: 0 }, &mut bytes);
    bytes
}

#[test]
fn answers_come_in_any_order_to_those_who_asked() {
    let mut tale = Tale::new();
    let numbers: Vec<u64> = "abc".chars().map(|name| tale.ask(name)).collect();
    tale.send().answer(numbers[1]).answer(numbers[0]).answer(numbers[1]).answer(numbers[2]);
    tale.told("b+ a+ c+");
}

#[test]
fn a_peer_that_says_nothing_is_dead_and_a_slow_one_is_not() {
    let mut tale = Tale::new();
    tale.ask('a');
    tale.send().wait(3 * SECOND);
    let b = tale.ask('b');
    tale.send().answer(b).wait(7 * SECOND).told("b+ a?");
    tale.ask('c');
    tale.send().wait(5 * SECOND);
    tale.ask('d');
    tale.wait(5 * SECOND).told("b+ a? c? d- end");
    tale.ask('e');
    tale.told("b+ a? c? d- e refused end");
}

#[test]
fn what_was_handed_out_may_have_been_done_and_the_rest_was_not_sent() {
    let mut tale = Tale::new();
    tale.ask('a');
    tale.ask('b');
    assert!(tale.caller.transmit(tale.now).is_some(), "the front of the first");
    tale.caller.on_lost(tale.now, "reset");
    tale.tell().told("a! b- end");
    assert_eq!(tale.caller.transmit(tale.now), None);
    let mut tale = Tale::new();
    tale.ask('a');
    tale.send().bytes(&[]).told("a! end");
}

#[test]
fn who_does_not_wait_is_forgotten_and_not_sent() {
    let mut tale = Tale::new();
    let a = tale.ask('a');
    let b = tale.ask('b');
    tale.caller.cancel_request(tale.now, a);
    assert!(
        SmallFrame::parse(&tale.caller.transmit(tale.now).unwrap())
            .is_ok_and(|parsed| { matches!(parsed, wire::small::Parsed::Frame(frame) if frame.header.number == b) })
    );
    tale.send();
    tale.caller.cancel_request(tale.now, b);
    tale.answer(b).told("");
    assert_eq!(tale.caller.in_flight_count(), 0);
}

#[test]
fn a_connection_without_requests_ends() {
    let mut tale = Tale::new();
    tale.wait(19 * SECOND).told("");
    let a = tale.ask('a');
    tale.send().answer(a).wait(19 * SECOND).told("a+");
    tale.wait(SECOND).told("a+ end");
}

#[test]
fn nonsense_ends_the_connection() {
    let check = |bytes: &[u8]| {
        let mut tale = Tale::new();
        tale.ask('a');
        tale.send();
        tale.ask('b');
        tale.bytes(bytes).told("a! b- end");
    };
    check(&answer_bytes(1)); // which was not sent
    check(&answer_bytes(9));
    check(&[0xff; 6]);
    check(&[2, 0x08, 0x80]);
    let mut long = Vec::new();
    prost::encode_length_delimiter(ANSWER_LEN_MAX + 1, &mut long).unwrap();
    check(&long);
}

// ── the side that is asked ──

#[derive(Clone, Debug)]
struct Budget(Rc<Cell<u64>>);

#[derive(Debug)]
struct Taken(Budget, u64);

impl Budget {
    fn new(len: u64) -> Self {
        Self(Rc::new(Cell::new(len)))
    }
}

impl Node for Budget {
    type Held = Taken;
    type Front = Taken;

    fn admit(&self, header: &SmallWrite) -> Result<Checked, Refusal> {
        let scope = BlockScope::decode(&header.token).map_err(|_| Refusal::error("a token that does not read"))?;
        Checked::of(header, Some("BP"), scope)
    }

    fn take(&self, len: u64) -> Option<Taken> {
        let mut taken = Taken(self.clone(), 0);
        taken.grow_to(len).then_some(taken)
    }

    fn take_for_front(&self, len: u64) -> Option<Taken> {
        self.take(len)
    }
}

impl Held for Taken {
    fn held_len(&self) -> u64 {
        self.1
    }

    fn grow_to(&mut self, len: u64) -> bool {
        let more = len.saturating_sub(self.1);
        let rest = self.0.0.get().checked_sub(more);
        if let Some(rest) = rest {
            self.0.0.set(rest);
            self.1 += more;
        }
        rest.is_some()
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.0.set(self.0.0.get() + self.1);
    }
}

const LIMITS: ServerLimits = ServerLimits { patience: SECOND, in_flight_count_max: 3 };

fn server(memory: &Budget) -> Server<Budget> {
    Server::new(Duration::ZERO, memory.clone(), LIMITS, &[])
}

fn whole(number: u64, data: &[u8]) -> Vec<u8> {
    let OutgoingRequest { mut header, body } = outgoing(number, data);
    header.number = number;
    [&header.front()[..], &body].concat()
}

/// Gives as much as is wanted; says how much that was.
fn feed(server: &mut Server<Budget>, now: Duration, bytes: &[u8]) -> usize {
    let mut given = 0;
    while given < bytes.len()
        && let Some(mut buffer) = server.take_buffer()
    {
        let len = (buffer.capacity() - buffer.len()).min(bytes.len() - given);
        assert!(len > 0, "a buffer without room");
        buffer.extend_from_slice(&bytes[given..given + len]);
        server.on_read(now, buffer, len);
        given += len;
    }
    given
}

fn well(number: u64) -> SmallAnswer {
    SmallAnswer { number, refusal: String::new(), have: vec![0], status: 0 }
}

#[test]
fn at_the_limit_nothing_is_read_until_answers_are_taken() {
    let mut server = server(&Budget::new(1 << 20));
    let now = Duration::ZERO;
    let bytes: Vec<u8> = (0..5).flat_map(|number| whole(number, &[7; 20_000])).collect();
    let given = feed(&mut server, now, &bytes);
    let numbers: Vec<u64> = std::iter::from_fn(|| server.poll_event()).map(|request| request.number()).collect();
    assert_eq!(numbers, [0, 1, 2]);
    assert!(server.poll_timeout().is_none(), "nobody is blamed for what we do not read");
    server.answer(now, &well(1));
    assert!(server.take_buffer().is_none(), "an answer that is not taken counts");
    let len = server.transmit(now).unwrap().len();
    server.on_sent(now, len - 1);
    assert!(server.take_buffer().is_none());
    server.on_sent(now, 1);
    feed(&mut server, now, &bytes[given..]);
    assert_eq!(server.poll_event().map(|request| request.number()), Some(3));
}

#[test]
fn a_request_without_memory_is_refused_and_the_last_of_its_connection() {
    let memory = Budget::new(60_000);
    let mut server = server(&memory);
    let now = Duration::ZERO;
    feed(&mut server, now, &whole(1, &[1; 30_000]));
    feed(&mut server, now, &whole(2, &[2; 50_000]));
    let held = server.poll_event().unwrap();
    assert!(server.poll_event().is_none() && server.take_buffer().is_none());
    let answer = server.transmit(now).unwrap();
    assert!(!server.is_ended(), "the first is under way");
    server.on_sent(now, answer.len());
    server.answer(now, &well(1));
    let len = server.transmit(now).unwrap().len();
    server.on_sent(now, len);
    assert!(server.is_ended() && server.error().is_none());
    drop(held);
    assert_eq!(memory.0.get(), 60_000);
}

#[test]
fn what_is_only_promised_holds_little() {
    let memory = Budget::new(1 << 30);
    let mut server = server(&memory);
    let header = SmallWrite { data_len: SMALL_WRITE_LEN_MAX, ..outgoing(1, b"").header };
    feed(&mut server, Duration::ZERO, &header.front());
    assert!(server.take_buffer().unwrap().capacity() < 100_000);
    assert!(memory.0.get() > (1 << 30) - 100_000);
}

#[test]
fn a_peer_has_its_time_for_all_it_does() {
    let late = Duration::from_millis(1500);
    let check = |bytes: &[u8], wanted: Option<ServerError>| {
        let mut server = server(&Budget::new(1 << 20));
        feed(&mut server, Duration::ZERO, bytes);
        let _lent = server.take_buffer();
        server.handle_timeout(late);
        assert!(server.is_ended());
        assert_eq!(server.error(), wanted.as_ref());
    };
    check(&[], None);
    check(&whole(1, b"bytes")[..10], Some(ServerError::Torn));
    check(&whole(1, &[1; 100])[..60], Some(ServerError::Torn));
    // Who waits for an answer is not blamed; who takes none is.
    let mut server = server(&Budget::new(1 << 20));
    feed(&mut server, Duration::ZERO, &whole(1, b"bytes"));
    server.handle_timeout(late);
    assert!(!server.is_ended());
    server.answer(late, &well(1));
    assert!(server.transmit(late).is_some());
    server.handle_timeout(late + SECOND);
    assert_eq!(server.error(), Some(&ServerError::Untaken));
}

#[test]
fn a_connection_that_breaks_off_in_the_middle_is_torn() {
    let bytes = whole(1, b"bytes");
    for cut in 0..=bytes.len() {
        let mut server = server(&Budget::new(1 << 20));
        feed(&mut server, Duration::ZERO, &bytes[..cut]);
        let buffer = server.take_buffer().unwrap();
        server.on_read(Duration::ZERO, buffer, 0);
        let is_whole = cut == 0 || cut == bytes.len();
        assert_eq!(server.error().is_none(), is_whole, "{cut}");
        assert_eq!(server.poll_event().is_some(), cut == bytes.len());
    }
}

#[test]
fn bytes_that_do_not_match_are_not_put() {
    let mut server = server(&Budget::new(1 << 20));
    let mut bytes = whole(1, b"bytes");
    *bytes.last_mut().unwrap() ^= 1;
    feed(&mut server, Duration::ZERO, &[&bytes[..], &whole(2, b"bytes")].concat());
    let mut request = || server.poll_event().unwrap();
    assert!(request().verify().unwrap_err().message.contains("checksums"));
    let well = request();
    assert_eq!((well.verify(), &well.body()[4..]), (Ok(()), &b"bytes"[..]));
}

#[test]
fn a_header_is_of_this_pool_and_tells_whose_the_block_is() {
    let header = outgoing(1, b"bytes").header;
    let check = |pool, scope| Checked::of(&header, pool, scope).map_err(|refusal| refusal.message);
    assert!(check(Some("BP"), SCOPE).is_ok() && check(None, SCOPE).is_ok());
    assert!(check(Some("other"), SCOPE).unwrap_err().contains("not here"));
    assert!(check(Some("BP"), None).unwrap_err().contains("whose the block is"));
}

/// A stranger may name anybody; nobody is looked up for him.
#[test]
fn targets_are_addresses_and_no_names() {
    let check = |target: &str| {
        let header = SmallWrite { targets: vec![target.to_owned()], ..outgoing(1, b"bytes").header };
        let checked = Checked::of(&header, Some("BP"), SCOPE);
        checked.map(|checked| checked.targets[0].to_string()).map_err(|refusal| refusal.message)
    };
    assert_eq!(check("10.0.0.2:9866").as_deref(), Ok("10.0.0.2:9866"));
    assert_eq!([check("::1:9866"), check("[::1]:9866")], [Ok("[::1]:9866".into()), Ok("[::1]:9866".into())]);
    for target in ["node2:9866", "localhost:9866", "10.0.0.2", "10.0.0.2:99999", "", &"x".repeat(9000)] {
        let refused = check(target).unwrap_err();
        assert!(refused.ends_with("is no address of a node") && refused.len() < 200, "{refused}");
    }
}

/// Megabytes of a writer without a token take nothing from those who have one, and the connection goes on.
#[test]
fn a_request_that_is_not_admitted_costs_no_memory_and_is_passed_over() {
    let memory = Budget::new(60_000);
    let mut server = server(&memory);
    let now = Duration::ZERO;
    let OutgoingRequest { header, body } = outgoing(1, &vec![7; SMALL_WRITE_LEN_MAX as usize]);
    let bytes = [&SmallWrite { token: bytes::Bytes::new(), ..header }.front()[..], &body].concat();
    let (last, all_before) = bytes.split_last().unwrap();
    for piece in all_before.chunks(100_000) {
        feed(&mut server, now, piece);
        assert_eq!((memory.0.get(), server.transmit(now)), (60_000, None));
    }
    let mut room = server.take_buffer().unwrap();
    assert!(room.capacity() < 20_000, "{}", room.capacity());
    room.extend_from_slice(&[*last]);
    server.on_read(now, room, 1);
    let answer = server.transmit(now).unwrap();
    assert!(String::from_utf8_lossy(&answer).contains("whose the block is"), "{answer:?}");
    server.on_sent(now, answer.len());
    feed(&mut server, now, &whole(2, b"bytes"));
    assert_eq!(server.poll_event().map(|request| request.number()), Some(2));
}

/// Headers of which no end comes, on however many connections, take what the node has for them and no more.
#[test]
fn a_long_header_is_counted_while_it_comes() {
    let OutgoingRequest { header, body } = outgoing(1, b"bytes");
    let header = SmallWrite { password: vec![7; 50_000].into(), ..header };
    let front = header.front();
    let memory = Budget::new(200_000);
    let mut enough = server(&memory);
    feed(&mut enough, Duration::ZERO, &front[..front.len() - 1]);
    let room = enough.take_buffer().unwrap();
    assert!(200_000 - memory.0.get() >= room.capacity() as u64, "{} of {}", memory.0.get(), room.capacity());
    enough.on_read(Duration::ZERO, room, 0);
    assert_eq!((enough.error(), memory.0.get()), (Some(&ServerError::Torn), 200_000));
    let mut enough = server(&memory);
    feed(&mut enough, Duration::ZERO, &[&front[..], &body].concat());
    assert!(enough.poll_event().is_some());
    let mut scarce = server(&Budget::new(60_000));
    feed(&mut scarce, Duration::ZERO, &front);
    assert_eq!(scarce.error(), Some(&ServerError::Memory));
}

// ── to whom it goes on ──

/// Steps: `0` that node puts it, `0-` it fails, `w` a while passes. The nodes that are named, or how many put it.
fn fanout(node_count: usize, steps: &str) -> Option<Result<Vec<u32>, Vec<u32>>> {
    let header = SmallWrite { targets: vec![String::new(); node_count - 1], ..SmallWrite::default() };
    let (mut fanout, mut now) = (Fanout::new(&header, LATE_MAX), SECOND);
    for step in steps.split_whitespace() {
        if step == "w" {
            now += LATE_MAX;
            fanout.handle_timeout(now);
            continue;
        }
        let failed = step.ends_with('-').then(|| Refusal::error("down"));
        fanout.on_put(now, step.trim_end_matches('-').parse().unwrap(), failed.map_or(Ok(()), Err));
    }
    let SmallAnswer { refusal, have, .. } = fanout.answer()?;
    Some(if refusal.is_empty() { Ok(have) } else { Err(have) })
}

#[test]
fn all_have_it_or_a_majority_and_a_while_has_passed() {
    assert_eq!(fanout(1, ""), None);
    assert_eq!(fanout(1, "0"), Some(Ok(vec![0])));
    assert_eq!(fanout(1, "0-"), Some(Err(vec![])));
    assert_eq!(fanout(2, "0 w w"), None);
    assert_eq!(fanout(2, "0 1-"), Some(Err(vec![0])));
    assert_eq!(fanout(3, "2 0"), None);
    assert_eq!(fanout(3, "2 0 w"), Some(Ok(vec![0, 2])));
    assert_eq!(fanout(3, "w 2 0"), None, "time counts from the majority on");
    assert_eq!(fanout(3, "2 1 0"), Some(Ok(vec![0, 1, 2])));
    assert_eq!(fanout(3, "2 0- w"), None, "too few are waited for");
    assert_eq!(fanout(3, "2 0- 1"), Some(Ok(vec![1, 2])));
    assert_eq!(fanout(3, "2 0- 1-"), Some(Err(vec![2])));
}

#[test]
fn faults_of_any_length_fit_into_an_answer() {
    let header = SmallWrite { targets: vec![String::new(); 511], ..SmallWrite::default() };
    let mut fanout = Fanout::new(&header, LATE_MAX);
    (0..512).for_each(|place| {
        let outcome = if place % 2 == 0 { Err(Refusal::error("ü".repeat(9000))) } else { Ok(()) };
        fanout.on_put(SECOND, place, outcome);
    });
    let mut bytes = Vec::new();
    delimited::put(&fanout.answer().unwrap(), &mut bytes);
    assert!(delimited::split(&bytes, "answer", ANSWER_LEN_MAX).is_ok_and(|found| found.is_some()));
}

#[test]
fn a_target_has_put_it_only_if_it_says_just_that() {
    let answer =
        |refusal: &str, have: &[u32]| SmallAnswer { number: 0, refusal: refusal.into(), have: have.into(), status: 0 };
    assert_eq!(Fanout::outcome(&answer("", &[0])), Ok(()));
    assert_eq!(Fanout::outcome(&answer("full", &[])), Err(Refusal::error("full")));
    assert_eq!(Fanout::outcome(&answer("full", &[0])), Err(Refusal::error("full")));
    assert!(Fanout::outcome(&answer("", &[])).is_err() && Fanout::outcome(&answer("", &[1])).is_err());
}

/// Nobody is to blame, whoever of them has refused it: with another token the same nodes may put it.
#[test]
fn a_token_that_is_not_taken_is_told_as_such() {
    let refused = Refusal { status: Status::ERROR_ACCESS_TOKEN, ..Refusal::error("no") };
    let answer = |outcomes: [Result<(), Refusal>; 3]| {
        let header = SmallWrite { targets: vec![String::new(); 2], ..SmallWrite::default() };
        let mut fanout = Fanout::new(&header, LATE_MAX);
        outcomes.into_iter().enumerate().for_each(|(place, outcome)| fanout.on_put(SECOND, place, outcome));
        fanout.answer().unwrap()
    };
    let of_targets = answer([Ok(()), Err(refused.clone()), Err(Refusal::error("down"))]);
    for answer in [&Fanout::refused(1, refused.clone()), &of_targets] {
        assert_eq!(Fanout::outcome(answer).unwrap_err().status, Status::ERROR_ACCESS_TOKEN);
        let verdict = Verdict::new(Some(answer), 3);
        assert!(verdict.needs_token && !verdict.enough && verdict.blamed.is_empty() && verdict.have.is_empty());
    }
    let of_most = answer([Ok(()), Ok(()), Err(refused)]);
    assert_eq!((of_most.status, &of_most.have[..]), (0, &[0, 1][..]));
    assert!(!Verdict::new(Some(&of_most), 3).needs_token);
}

#[test]
fn a_writer_believes_what_can_be() {
    let check = |refusal: &str, have: &[u32], wanted: (&[usize], &[usize], bool)| {
        let answer = SmallAnswer { number: 0, refusal: refusal.into(), have: have.into(), status: 0 };
        let verdict = Verdict::new(Some(&answer), 3);
        assert_eq!((&verdict.have[..], &verdict.blamed[..], verdict.enough), wanted, "{refusal} {have:?}");
    };
    check("", &[0, 1, 2], (&[0, 1, 2], &[], true));
    check("", &[2, 0], (&[0, 2], &[1], true));
    check("too few", &[1], (&[1], &[0, 2], false));
    check("sums", &[], (&[], &[0], false));
    check("", &[1], (&[1], &[0, 2], false));
    check("", &[0, 0, 0], (&[], &[0], false));
    check("", &[0, 1, 3], (&[], &[0], false));
    assert!(!Verdict::new(None, 3).enough);
}

#[test]
fn a_batch_is_bounded_and_has_one_at_least() {
    assert_eq!(batch::count([]), 0);
    assert_eq!(batch::count([batch::LEN_MAX + 1, 1]), 1);
    assert_eq!(batch::count([batch::LEN_MAX - 1, 1, 1]), 2);
    assert_eq!(batch::count(vec![1; 1000]), batch::COUNT_MAX);
    assert!(batch::is_synced([false, true]) && !batch::is_synced([false, false]) && !batch::is_synced([]));
}

// ── blocks on lease ──

#[derive(Debug, PartialEq)]
struct Lease {
    block: u64,
    until: Duration,
    nodes: Vec<u8>,
}

impl Leased for Lease {
    type Node = u8;

    fn block(&self) -> u64 {
        self.block
    }

    fn until(&self) -> Duration {
        self.until
    }

    fn is_on(&self, node: &u8) -> bool {
        self.nodes.contains(node)
    }
}

/// Batches grow with the demand; what is stale, or on a node that failed, is given back and not used.
#[test]
fn leases_are_used_in_time_or_given_back() {
    let mut stock = Stock::<Lease>::default();
    let limit = sure_until(SECOND, 60 * SECOND);
    assert_eq!(limit, 46 * SECOND);
    let leases = |blocks: std::ops::Range<u64>, until| -> Vec<Lease> {
        blocks.map(|block| Lease { block, until, nodes: vec![block as u8 % 2, 2] }).collect()
    };
    assert_eq!(stock.wish(SECOND, 3), Wish { count: 4, excluded: vec![], returned: vec![] });
    stock.fill(3, SECOND, leases(0..4, limit));
    assert!(matches!(stock.pop(SECOND, 3), (Some(Lease { block: 0, .. }), false)));
    assert_eq!(stock.pop(SECOND, 2), (None, false), "of another replication");
    stock.exclude(SECOND, 1);
    assert_eq!(stock.wish(2 * SECOND, 3), Wish { count: 8, excluded: vec![1], returned: vec![1, 3] });
    stock.fill(3, 2 * SECOND, leases(10..18, 2 * limit));
    assert_eq!(stock.pop(limit, 3).0.map(|lease| lease.block), Some(10));
    assert_eq!(stock.wish(limit, 3), Wish { count: 4, excluded: vec![], returned: vec![2] });
    let refills: Vec<bool> = (0..7).map(|_| stock.pop(limit, 3).1).collect();
    assert_eq!(refills.iter().filter(|refill| **refill).count(), 1, "asked for once: {refills:?}");
    stock.forget_all();
    assert_eq!(stock.pop(limit, 3), (None, false));
}

// ── both ──

fn random_len(random: &mut Seeded, max: usize) -> usize {
    if max == 0 { 0 } else { 1 + random.below(max) }
}

/// Bytes from one endpoint to the other, some at a time; says whether something moved.
fn carry(
    random: &mut Seeded,
    now: Duration,
    from: &mut impl Endpoint,
    way: &mut BytesMut,
    to: &mut impl Endpoint,
) -> bool {
    let mut moved = false;
    if random.below(2) == 0
        && let Some(piece) = from.transmit(now)
    {
        way.extend_from_slice(&piece);
        let part = random.below(piece.len() + 1);
        from.on_sent(now, part);
        from.on_sent(now, piece.len() - part);
        moved = true;
    }
    if !way.is_empty()
        && let Some(mut buffer) = to.take_buffer()
    {
        let part = way.split_to(random_len(random, way.len().min(buffer.capacity() - buffer.len())));
        buffer.extend_from_slice(&part);
        to.on_read(now, buffer, part.len());
        moved = true;
    }
    moved
}

proptest! {
    /// However bytes are cut and answers ordered, each gets its own, and nothing is held in the end.
    #[test]
    fn every_request_gets_its_answer(seed: u64, lens in proptest::collection::vec(0usize..40_000, 1..20)) {
        let mut random = Seeded(seed);
        let (memory, mut now) = (Budget::new(1 << 22), Duration::ZERO);
        let mut caller = Caller::new(now, &CallerLimits::default());
        let mut server = server(&memory);
        let (mut there, mut back) = (BytesMut::new(), BytesMut::new());
        let mut lens = lens.into_iter().enumerate();
        let (mut open, mut outcomes) = (Vec::new(), BTreeMap::new());
        let mut left = lens.len();
        while left > 0 {
            now += Duration::from_micros(10);
            if random.below(4) == 0
                && let Some((name, len)) = lens.next()
            {
                caller.send_request(now, outgoing(name as u64, &vec![name as u8; len]), name).unwrap();
            }
            carry(&mut random, now, &mut caller, &mut there, &mut server);
            carry(&mut random, now, &mut server, &mut back, &mut caller);
            while let Some(request) = server.poll_event() {
                let block = request.frame.header.block;
                prop_assert!(request.verify().is_ok() && Some(request.checked.scope) == SCOPE);
                prop_assert!(request.bytes[request.frame.data.clone()].iter().all(|byte| *byte == block as u8));
                open.push(request);
                prop_assert!(open.len() <= LIMITS.in_flight_count_max);
            }
            if !open.is_empty() && random.below(5) == 0 {
                let request = open.swap_remove(random.below(open.len()));
                let have = vec![request.frame.header.block as u32];
                let answer = SmallAnswer { number: request.number(), refusal: String::new(), have, status: 0 };
                server.answer(now, &answer);
            }
            while let Some((name, outcome)) = caller.poll_event() {
                left -= 1;
                outcomes.insert(name, outcome.unwrap().have);
            }
        }
        prop_assert!(outcomes.iter().all(|(name, have)| have[..] == [*name as u32]));
        prop_assert_eq!(memory.0.get(), 1 << 22);
        prop_assert!(!caller.is_ended() && !server.is_ended());
        caller.handle_timeout(now + 20 * SECOND);
        prop_assert!(caller.is_ended());
        let buffer = server.take_buffer().unwrap();
        server.on_read(now, buffer, 0);
        prop_assert!(server.is_ended() && server.error().is_none());
    }

    /// Bytes and times of a stranger: no panic, and no memory beyond the limit.
    #[test]
    fn no_bytes_panic(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..20)) {
        let memory = Budget::new(100_000);
        let mut server = Server::new(Duration::ZERO, memory, LIMITS, &[0, 28, 200]);
        let mut tale = Tale::new();
        tale.ask('a');
        for (second, piece) in (0u32..).zip(&pieces) {
            feed(&mut server, second * SECOND / 4, piece);
            server.handle_timeout(second * SECOND / 3);
            tale.bytes(piece).wait(SECOND);
        }
    }

    #[test]
    fn an_answer_names_those_that_have_put_it(node_count in 1usize..6, order in any::<u64>(), fails in any::<u8>(), late in any::<bool>()) {
        let header = SmallWrite { targets: vec![String::new(); node_count - 1], ..SmallWrite::default() };
        let mut fanout = Fanout::new(&header, LATE_MAX);
        let mut left: Vec<usize> = (0..node_count).collect();
        let (mut random, mut put) = (Seeded(order), Vec::new());
        let mut now = SECOND;
        while fanout.answer().is_none() {
            let place = left.swap_remove(random.below(left.len()));
            let well = fails >> place & 1 == 0;
            fanout.on_put(now, place, if well { Ok(()) } else { Err(Refusal::error("down")) });
            put.extend(well.then_some(place as u32));
            now += if late { LATE_MAX } else { Duration::ZERO };
            fanout.handle_timeout(now);
        }
        put.sort_unstable();
        let answer = fanout.answer().unwrap();
        prop_assert_eq!(&answer.have, &put);
        prop_assert_eq!(answer.refusal.is_empty(), put.len() > node_count / 2);
        prop_assert!(left.is_empty() || answer.refusal.is_empty());
    }
}
