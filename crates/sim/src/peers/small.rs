//! Small writes in one request, with a script at one end: a caller at a datanode of ours whose targets are scripts, and
//! a node that is asked by a client of ours.

use super::line::{Line, Missing, SOON};
use super::{FILE, GENERATION, HOME, SCRIPTED, Stage, Told, host, must, token};
use crate::datanode::Datanode;
use crate::executor::{Either, race};
use crate::platter::SPEC;
use crate::small::RequestConnections;
use crate::world::content;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use types::endpoint::Loss;
use types::{BlockId, ReplicaState};
use wire::BlockScope;
use wire::small::{SmallAnswer, SmallWrite, majority};
use xfer::small::{OutgoingRequest, Verdict};

const CHUNK: usize = SPEC.chunk_len as usize;
const BLOCK_NODE_COUNT: usize = 3;
/// Longer than a node waits for one that says nothing.
const ANSWERED_WITHIN: Duration = Duration::from_secs(14);

/// A small block: what is asked, and what is behind that.
fn outgoing(stage: &Stage, targets: &[usize], synced: bool) -> (OutgoingRequest, BlockId, u64, usize) {
    let (block, tag) = stage.next_block();
    let len = 1 + stage.sim.below(10 * CHUNK);
    let data: Vec<u8> = (0..len).map(|at| content(tag, at)).collect();
    let mut body = Vec::new();
    SPEC.compute(&data, &mut body);
    body.extend_from_slice(&data);
    let header = SmallWrite {
        number: stage.sim.below(1000) as u64,
        block: block.0,
        generation: GENERATION.0,
        data_len: len as u32,
        checksum_kind: SPEC.kind as u32,
        chunk_len: SPEC.chunk_len,
        pool: String::new(),
        token: token(),
        password: bytes::Bytes::new(),
        targets: targets.iter().map(|node| format!("10.0.0.{node}:9866")).collect(),
        synced,
    };
    (OutgoingRequest { header, body: body.into() }, block, tag, len)
}

// ── at a node ──

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Puts,
    PutsLate,
    Refuses,
    RefusesLate,
    /// An answer that names somebody else.
    NamesAnother,
    Leaves,
    Silent,
    Garbage,
}

const TARGETS: &[Target] = &[
    Target::Puts,
    Target::Puts,
    Target::PutsLate,
    Target::PutsLate,
    Target::Refuses,
    Target::RefusesLate,
    Target::NamesAnother,
    Target::Leaves,
    Target::Silent,
    Target::Garbage,
];

/// A block with two nodes behind the first.
pub(super) async fn served(stage: Rc<Stage>) -> Told {
    let ways = [stage.chance(TARGETS), stage.chance(TARGETS)];
    let has_bad_sums = stage.sim.one_in(5);
    stage.sim.say(|| format!("the targets: {ways:?}, bad checksums: {has_bad_sums}"));
    let said: [Rc<Cell<bool>>; 2] = Default::default();
    for (place, way) in ways.into_iter().enumerate() {
        let said = Rc::clone(&said[place]);
        stage.stand_in(SCRIPTED + place, move |line| target(line, way, Rc::clone(&said)));
    }
    let (mut outgoing, block, tag, len) = outgoing(&stage, &[SCRIPTED, SCRIPTED + 1], false);
    if has_bad_sums {
        let mut body = outgoing.body.to_vec();
        let at = stage.sim.below(body.len());
        body[at] ^= 1 << stage.sim.below(8);
        outgoing.body = body.into();
    }
    let dialed = stage.world.dial(host(), 0, SOON, Datanode::serve_small).await;
    let mut line = Line::new(stage.sim.clone(), dialed.map_err(|error| format!("{error:?}"))?);
    line.say(&[outgoing.header.front(), outgoing.body.to_vec()].concat()).await;
    let answer: SmallAnswer = line.hear_message(ANSWERED_WITHIN).await?;
    must(answer.number == outgoing.header.number, || format!("the answer to another request: {answer:?}"))?;
    if has_bad_sums {
        let is_refused = !answer.refusal.is_empty() && answer.have.is_empty();
        return must(is_refused && stage.replica(0, block).is_none(), || {
            format!("bad bytes are answered by {answer:?}")
        });
    }
    stage.is_whole(0, block, tag, len).await?;
    let has = |place: u32| place == 0 || said.get(place as usize - 1).is_some_and(|said| said.get());
    must(answer.have.contains(&0), || format!("the node has put it: {answer:?}"))?;
    must(answer.have.iter().all(|place| has(*place)), || format!("{answer:?}, but said so have: {said:?}"))?;
    let is_most = answer.have.len() >= majority(BLOCK_NODE_COUNT);
    must(answer.refusal.is_empty() == is_most, || format!("{answer:?} of {BLOCK_NODE_COUNT} nodes"))?;
    let missing = ways.iter().zip(1..).any(|(way, place)| *way == Target::Puts && !answer.have.contains(&place));
    must(!missing, || format!("{answer:?}, but {ways:?}"))
}

async fn target(mut line: Line, way: Target, said: Rc<Cell<bool>>) -> Told {
    loop {
        let (header, _) = match line.hear_small(Duration::from_secs(100)).await {
            Ok(heard) => heard,
            Err(Missing::End) => return Ok(()),
            Err(missing) => return Err(missing.into()),
        };
        must(header.targets.is_empty(), || format!("it is to go on to {:?}", header.targets))?;
        if matches!(way, Target::PutsLate | Target::RefusesLate) {
            line.sim.sleep(line.sim.between(Duration::from_millis(400), Duration::from_secs(6))).await;
        }
        let (refusal, have) = match way {
            Target::Puts | Target::PutsLate => (String::new(), vec![0]),
            Target::NamesAnother => (String::new(), vec![1]),
            Target::Refuses | Target::RefusesLate => ("as the script has it".to_owned(), Vec::new()),
            Target::Leaves => return Ok(()),
            Target::Silent => {
                line.drop_all(Duration::from_secs(100)).await;
                return Ok(());
            }
            Target::Garbage => {
                line.say(&[0xff; 12]).await;
                return Ok(());
            }
        };
        said.set(matches!(way, Target::Puts | Target::PutsLate));
        line.say_message(&SmallAnswer { number: header.number, refusal, have, status: 0 }).await;
    }
}

/// Requests that one sync may serve: each that asked for the disk is there when the power has failed.
pub(super) async fn batched(stage: Rc<Stage>) -> Told {
    const NODE: usize = 1;
    stage.world.node_disk(NODE).set_slowness(100);
    let mut bytes = Vec::new();
    let mut asked = Vec::new();
    for number in 0..3 + stage.sim.below(6) as u64 {
        let synced = number > 0 && stage.sim.one_in(2);
        let (outgoing, block, tag, len) = outgoing(&stage, &[], synced);
        bytes.extend_from_slice(&SmallWrite { number, ..outgoing.header }.front());
        bytes.extend_from_slice(&outgoing.body);
        asked.push((block, tag, len, synced));
    }
    let dialed = stage.world.dial(host(), NODE, SOON, Datanode::serve_small).await;
    let mut line = Line::new(stage.sim.clone(), dialed.map_err(|error| format!("{error:?}"))?);
    line.say(&bytes).await;
    for _ in &asked {
        let answer: SmallAnswer = line.hear_message(SOON).await?;
        must(answer.refusal.is_empty() && answer.have == [0], || format!("a good request is answered by {answer:?}"))?;
    }
    stage.world.node_disk(NODE).set_slowness(1);
    stage.world.stop_node(NODE, true);
    stage.world.start_node(NODE);
    for (block, tag, len, synced) in asked {
        let info = stage.replica(NODE, block);
        if synced {
            must(info.is_some_and(|info| info.state == ReplicaState::Finalized), || format!("{block:?} is lost"))?;
            stage.is_whole(NODE, block, tag, len).await?;
        }
    }
    Ok(())
}

// ── of a client ──

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    AllPut,
    MostPut,
    TooFew,
    /// It says that it refuses, and names nodes all the same.
    RefusesAndNames,
    NamesTwice,
    NamesNobody,
    /// Places behind those of the block's nodes.
    NamesBeyond,
    Silent,
    Leaves,
    Garbage,
    AnswersUnasked,
}

const FIRSTS: &[First] = &[
    First::AllPut,
    First::MostPut,
    First::TooFew,
    First::RefusesAndNames,
    First::NamesTwice,
    First::NamesNobody,
    First::NamesBeyond,
    First::Silent,
    First::Leaves,
    First::Garbage,
    First::AnswersUnasked,
];

impl First {
    fn answer(self) -> Option<(&'static str, &'static [u32])> {
        Some(match self {
            Self::AllPut => ("", &[2, 0, 1]),
            Self::MostPut => ("", &[0, 2]),
            Self::TooFew => ("1 of 3 nodes put the block", &[0]),
            Self::RefusesAndNames => ("it is full", &[0, 1]),
            Self::NamesTwice => ("", &[0, 0]),
            Self::NamesNobody => ("", &[]),
            Self::NamesBeyond => ("", &[0, 1, 7]),
            Self::Silent | Self::Leaves | Self::Garbage | Self::AnswersUnasked => return None,
        })
    }

    /// Who has the block, and whether a file may be given it.
    fn verdict(self) -> (&'static [usize], bool) {
        match self {
            Self::AllPut => (&[0, 1, 2], true),
            Self::MostPut => (&[0, 2], true),
            Self::TooFew => (&[0], false),
            Self::RefusesAndNames => (&[0, 1], false),
            _ => (&[], false),
        }
    }
}

/// Two requests under way at once, which are answered in the other order.
pub(super) async fn called(stage: Rc<Stage>) -> Told {
    let ways = [stage.chance(FIRSTS), stage.chance(FIRSTS)];
    stage.sim.say(|| format!("the first node: {ways:?}"));
    stage.stand_in(SCRIPTED, move |line| first(line, ways));
    let connections = RequestConnections::of_client();
    let (one, two) = (outgoing(&stage, &[1, 2], false).0, outgoing(&stage, &[1, 2], true).0);
    let ask = |outgoing| connections.call(&stage.world, (host(), SCRIPTED), outgoing);
    // The first comes first, on one connection.
    let pause = async {
        stage.sim.sleep(Duration::from_millis(100)).await;
        ask(two).await
    };
    let (answered, other) = both(ask(one), pause).await;
    for (way, answer) in ways.into_iter().zip([answered, other]) {
        // Both are lost with a connection that was lost for one of them.
        let is_lost = ways.iter().any(|way| way.answer().is_none());
        let verdict = Verdict::new(answer.as_ref().ok(), BLOCK_NODE_COUNT);
        let (have, enough) = way.verdict();
        if is_lost && !verdict.enough && verdict.have.is_empty() {
            continue;
        }
        must(verdict.have == have && verdict.enough == enough, || format!("{way:?} is {answer:?}, and {verdict:?}"))?;
    }
    Ok(())
}

async fn first(mut line: Line, ways: [First; 2]) -> Told {
    let mut numbers = Vec::new();
    for way in ways {
        match line.hear_small(SOON).await {
            Ok((header, scope)) => {
                must(scope == Some(BlockScope { file: FILE, home: HOME }), || format!("{scope:?} is passed on"))?;
                numbers.push((way, header.number));
            }
            // The other one never came, or came by another connection.
            Err(Missing::End | Missing::Late) => break,
            Err(missing) => return Err(missing.into()),
        }
    }
    for (way, number) in numbers.into_iter().rev() {
        match way {
            First::Silent => {
                line.drop_all(Duration::from_secs(30)).await;
                return Ok(());
            }
            First::Garbage => _ = line.say(&[0xff; 12]).await,
            First::AnswersUnasked => {
                let number = number + 1000;
                line.say_message(&SmallAnswer { number, refusal: String::new(), have: vec![0, 1], status: 0 }).await;
            }
            First::Leaves => return Ok(()),
            _ => {
                let (refusal, have) = way.answer().expect("the others are above");
                line.say_message(&SmallAnswer { number, refusal: refusal.to_owned(), have: have.to_vec(), status: 0 })
                    .await;
            }
        }
    }
    line.drop_all(Duration::from_secs(30)).await;
    Ok(())
}

type Answered = Result<SmallAnswer, Loss>;

async fn both(one: impl Future<Output = Answered>, two: impl Future<Output = Answered>) -> (Answered, Answered) {
    let (mut one, mut two) = (Box::pin(one), Box::pin(two));
    match race(one.as_mut(), two.as_mut()).await {
        Either::First(first) => (first, two.await),
        Either::Second(second) => (one.await, second),
    }
}
