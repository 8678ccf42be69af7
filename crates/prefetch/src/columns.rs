//! The columns in use of each table, learned from what is read, and the windows of entries that come next.
//!
//! Promise: a read costs time by the pieces that it touches and passes; a window, by its pieces. Each piece is passed
//! once for each time that a reader comes to it.

use crate::decision::Decision;
use crate::holdings::Holdings;
use crate::index::{ColumnId, Index, Touched};
use crate::lane::{Lane, Nearness, OUT_OF_ORDER_PIECES};
use crate::mark::{Judgement, Mark};
use crate::reach::Reach;
use crate::settings::Settings;
use crate::span::{Span, sum_len};
use crate::table::{Observed, Table};
use crate::window::{Run, Window};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

/// Threads that read tables side by side, each its own entries. A guess: more of them leave each too short a window.
const LANE_COUNT_MAX: usize = 4;
/// One that did not read while others read so often is not followed any more.
const LANE_IDLE_READS: u64 = 512;
/// Columns of one table that are followed. Far beyond tables of today, which have some thousands.
const MARK_COUNT_MAX: usize = 1 << 16;
/// A read of so many times the entries of the learning phase is one of much: row groups have hundreds of times as many.
/// ROOT's baskets have about as many, and those who read them take one of each column in turn.
const LONG_READ_TIMES: u64 = 4;
/// Pieces that one window looks at, held ones with them.
const PIECES_LISTED_MAX: usize = 1 << 16;

/// What a read finds: its number, the settings, the cache; and where decisions go.
#[derive(Debug)]
pub(crate) struct Moment<'a> {
    pub(crate) number: u64,
    /// Some of what it reads was fetched ahead, and nobody had read it.
    pub(crate) was_unread: bool,
    pub(crate) settings: &'a Settings,
    pub(crate) holdings: &'a mut Holdings,
    pub(crate) decided: &'a mut Vec<Decision>,
}

#[derive(Debug)]
pub(crate) struct Columns {
    index: Arc<Index>,
    tables: BTreeMap<u32, Table>,
    lanes: Vec<Lane>,
}

impl Columns {
    pub(crate) fn new(index: Arc<Index>) -> Self {
        Self { index, tables: BTreeMap::new(), lanes: Vec::new() }
    }

    pub(crate) fn index(&self) -> &Arc<Index> {
        &self.index
    }

    fn entries_of(&self, table: u32) -> u64 {
        self.index.layout().tables.get(table as usize).map_or(0, |table| table.entries)
    }

    fn name_of(&self, table: u32) -> Arc<str> {
        self.index.layout().tables.get(table as usize).map_or("", |table| &table.name).into()
    }

    /// The columns that an earlier run read, each as far into its pieces. Answers the lane whose window comes next.
    pub(crate) fn know(&mut self, known: &Observed, decided: &mut Vec<Decision>) -> Option<usize> {
        let ids =
            known.columns.iter().filter_map(|(column, reach)| Some((self.index.id(known.table, *column)?, *reach)));
        let ids: Vec<(ColumnId, Reach)> = ids.take(MARK_COUNT_MAX).collect();
        if ids.is_empty() || self.tables.contains_key(&known.table) || self.lanes.len() == LANE_COUNT_MAX {
            return None;
        }
        let entries = u128::from(self.entries_of(known.table)) * u128::from(known.extent_permille.min(1000));
        let mut table = Table { is_learned: true, ..Table::default() };
        table.extent_end = u64::try_from(entries.div_ceil(1000)).unwrap_or(u64::MAX);
        for (id, reach) in ids {
            if let std::collections::btree_map::Entry::Vacant(free) = table.by_column.entry(id) {
                free.insert(table.marks.len());
                table.marks.push((id, Mark::known(reach)));
            }
        }
        decided.push(Decision::ProfileTaken { table: self.name_of(known.table), column_count: table.marks.len() });
        self.tables.insert(known.table, table);
        self.lanes.push(Lane::new(known.table, 0, 0));
        Some(self.lanes.len() - 1)
    }

    /// Lanes share the cache.
    pub(crate) fn lane_count(&self) -> u64 {
        self.lanes.len() as u64
    }

    /// Forgets the lanes that were not used for long.
    pub(crate) fn retire(&mut self, number: u64, holdings: &mut Holdings) {
        while let Some(at) = self.lanes.iter().position(|lane| lane.used_at + LANE_IDLE_READS < number) {
            if self.lanes.len() == 1 {
                return;
            }
            self.doubt_lane(at, holdings);
            self.lanes.swap_remove(at);
        }
    }

    fn doubt_lane(&mut self, at: usize, holdings: &mut Holdings) {
        for mark in 0..self.lanes[at].cursors.len() {
            self.doubt_rest(at, mark, holdings);
        }
    }

    fn planned(&self, id: ColumnId, piece: u32, reach: Reach) -> Span {
        reach.of(self.index.span(id, piece)).before(self.index.file_len())
    }

    /// Nobody expects what was fetched of a column and not read.
    fn doubt_rest(&mut self, lane: usize, mark: usize, holdings: &mut Holdings) {
        let table = self.lanes[lane].table;
        let Some((id, known)) = self.tables.get(&table).and_then(|table| table.marks.get(mark)) else { return };
        let (id, reach) = (*id, known.reach);
        let cursor = *self.lanes[lane].cursor(mark);
        for piece in cursor.position..cursor.next {
            holdings.doubt(self.planned(id, piece, reach));
        }
        self.lanes[lane].settle_backlog(mark, u64::MAX);
        let cursor = self.lanes[lane].cursor(mark);
        cursor.next = cursor.position;
    }

    /// The mark of a column, made if it is the first time; and whether its table was learned before.
    fn mark_of(&mut self, touched: Touched, moment: &mut Moment<'_>) -> Option<usize> {
        let entry = self.index.entries(touched.column, touched.piece).start;
        let name = self.name_of(touched.table);
        let table =
            self.tables.entry(touched.table).or_insert_with(|| Table { extent_end: u64::MAX, ..Table::default() });
        if table.reads == 0 {
            (table.entry_first, table.entry_last) = (entry, entry);
        }
        let is_next_read = table.reads == 0 || table.read_at != moment.number;
        table.reads = table.reads.saturating_add(is_next_read.into());
        table.reads_same = table.reads_same.saturating_add(is_next_read.into());
        table.read_at = moment.number;
        (table.entry_first, table.entry_last) = (table.entry_first.min(entry), table.entry_last.max(entry));
        let mark = match table.by_column.get(&touched.column) {
            Some(mark) => *mark,
            None if table.marks.len() == MARK_COUNT_MAX => return None,
            None => {
                table.by_column.insert(touched.column, table.marks.len());
                table.marks.push((touched.column, Mark::new()));
                table.reads_same = 0;
                if table.is_learned {
                    moment.decided.push(Decision::ColumnAdded { column: self.index.name(touched.column) });
                }
                table.marks.len() - 1
            }
        };
        let entries = table.entry_last - table.entry_first;
        if !table.is_learned
            && (table.reads_same >= moment.settings.learn_reads || entries >= moment.settings.learn_entries)
        {
            table.is_learned = true;
            let (column_count, reads) = (table.marks.len(), table.reads);
            moment.decided.push(Decision::Learned { table: name, column_count, reads, entries });
        }
        Some(mark)
    }

    /// The lane that a piece belongs to: one that is there, or a new one.
    fn lane_of(&mut self, touched: Touched, mark: usize, moment: &mut Moment<'_>) -> usize {
        let entries = self.index.entries(touched.column, touched.piece);
        let near = self.lanes.iter().enumerate().filter(|(_, lane)| lane.table == touched.table);
        let near = near.filter_map(|(at, lane)| {
            let nearness = match lane.cursors.get(mark).filter(|cursor| cursor.is_set) {
                Some(cursor) => cursor.nearness(touched.piece)?,
                None => {
                    let is_near = entries.start <= lane.entry_end && entries.end > lane.entry_begin;
                    is_near.then_some(Nearness::NewColumn)?
                }
            };
            Some((nearness, Reverse(lane.used_at), at))
        });
        if let Some((.., at)) = near.min() {
            return at;
        }
        // The first lane of a table is its reader; only a further one is news.
        if self.lanes.iter().any(|lane| lane.table == touched.table) {
            moment.decided.push(Decision::LaneOpened { entry: entries.start });
        }
        let lane = Lane::new(touched.table, entries.start, moment.number);
        if self.lanes.len() < LANE_COUNT_MAX {
            self.lanes.push(lane);
            return self.lanes.len() - 1;
        }
        let oldest = (0..self.lanes.len()).min_by_key(|at| self.lanes[*at].used_at).unwrap_or(0);
        self.doubt_lane(oldest, moment.holdings);
        self.lanes[oldest] = lane;
        oldest
    }

    /// Whether `read`, which touches these pieces, is one of the first column alone: from its beginning, or from where
    /// it was read to, past its end, and to no end of another column's piece. What lies there comes along, and nobody
    /// wants it.
    pub(crate) fn passes(&self, touched: &[Touched], read: Span) -> bool {
        let (Some(first), Some(last)) = (touched.first(), touched.last()) else { return false };
        let (begins, ends) = (self.index.span(first.column, first.piece), self.index.span(last.column, last.piece));
        let table = self.tables.get(&first.table);
        let mark = table.and_then(|table| table.marks.get(*table.by_column.get(&first.column)?));
        let read_to = mark.map_or(0, |(_, mark)| mark.read_to(first.piece));
        let is_from_there = read.offset >= begins.offset && read.offset - begins.offset <= read_to.into();
        first.column != last.column && is_from_there && read.end() < ends.end()
    }

    /// `read` touches a piece; `passes`: and goes on past it. `missed`: some of it was neither in the cache nor on its
    /// way. Answers the reader's lane.
    pub(crate) fn note(
        &mut self,
        touched: Touched,
        read: Span,
        passes: bool,
        missed: bool,
        moment: &mut Moment<'_>,
    ) -> Option<usize> {
        let Touched { table, column, piece } = touched;
        let mark = self.mark_of(touched, moment)?;
        let lane = self.lane_of(touched, mark, moment);
        let entries = self.index.entries(column, piece);
        if !self.lanes[lane].cursor(mark).is_set {
            let begin = self.index.piece_of(column, self.lanes[lane].entry_begin);
            let begin = begin.max(piece.saturating_sub(OUT_OF_ORDER_PIECES));
            let reads = self.tables.get(&table).map_or(0, |table| table.reads);
            if begin < piece && reads <= OUT_OF_ORDER_PIECES {
                self.lanes[lane].behind.push((mark, begin..piece));
            }
            self.lanes[lane].cursor(mark).set(piece);
        }
        self.lanes[lane].wake(mark);

        let span = self.index.span(column, piece);
        let start = read.offset.saturating_sub(span.offset);
        let end = if passes { read.end() } else { read.end().min(span.end()) } - span.offset;
        let content = self.tables.get_mut(&table)?;
        if start == 0 && end >= span.len {
            content.read_whole(moment.number, column, entries.end - entries.start);
        }
        let (_, known) = content.marks.get_mut(mark)?;
        if start == 0 && (missed || moment.was_unread) {
            known.begins(piece);
        }
        let (was_known, was_head_only) = (known.reach.within > 0, known.is_head_only());
        let grew = known.reaches(piece, start, end, span.len);
        if known.is_head_only() && !was_head_only {
            moment.decided.push(Decision::HeadsOnly { column: self.index.name(column), len: known.reach.within });
        }
        if grew && was_known {
            // What was listed is too short.
            self.lanes[lane].settle_backlog(mark, u64::MAX);
            let cursor = self.lanes[lane].cursor(mark);
            cursor.next = cursor.position;
        }
        if missed && self.lanes[lane].cursor(mark).goes_back(piece) {
            moment.decided.push(Decision::Rewound { entry: entries.start });
            self.rewind(lane, entries.start, moment.holdings);
        }
        self.pass(lane, mark, touched, moment);
        let cursor = self.lanes[lane].cursor(mark);
        if missed && cursor.next > cursor.position && piece < cursor.next {
            // It was listed and is not there: it failed or was dropped, and so may have been what follows it.
            cursor.next = cursor.position;
            self.lanes[lane].settle_backlog(mark, u64::MAX);
        }
        let reader = &mut self.lanes[lane];
        (reader.used_at, reader.entry) = (moment.number, entries.start);
        reader.entry_begin = reader.entry_begin.min(entries.start);
        reader.entry_end = reader.entry_end.max(entries.end);
        let table = self.tables.get_mut(&table)?;
        table.entry_end = table.entry_end.max(entries.end);
        Some(lane)
    }

    /// A reader that begins again at an entry: so will the columns that were read behind it.
    fn rewind(&mut self, lane: usize, entry: u64, holdings: &mut Holdings) {
        let table = self.lanes[lane].table;
        for mark in 0..self.lanes[lane].cursors.len() {
            let Some((id, _)) = self.tables.get(&table).and_then(|table| table.marks.get(mark)) else { continue };
            let piece = self.index.piece_of(*id, entry);
            let cursor = *self.lanes[lane].cursor(mark);
            if cursor.is_set && cursor.is_ahead_of(piece) {
                self.doubt_rest(lane, mark, holdings);
                self.lanes[lane].wake(mark);
                self.lanes[lane].cursor(mark).set(piece);
            }
        }
    }

    /// The cursor goes to `piece`, past those before it.
    fn pass(&mut self, lane: usize, mark: usize, touched: Touched, moment: &mut Moment<'_>) {
        let Touched { table, column, piece } = touched;
        let cursor = *self.lanes[lane].cursor(mark);
        let Some((_, known)) = self.tables.get(&table).and_then(|table| table.marks.get(mark)) else { return };
        let reach = known.reach;
        let (skipped, follows) = if piece < cursor.position {
            if !self.lanes[lane].cursor(mark).come_back_to(piece) {
                return;
            }
            (0, false)
        } else {
            let mut passed_len = 0;
            for passed in cursor.position..cursor.next.min(piece.saturating_add(1)) {
                let span = self.planned(column, passed, reach);
                passed_len += span.len;
                if passed < piece {
                    moment.holdings.doubt(span);
                }
            }
            self.lanes[lane].settle_backlog(mark, passed_len);
            (self.lanes[lane].cursor(mark).pass_to(piece), piece == cursor.position)
        };
        let Some((_, known)) = self.tables.get_mut(&table).and_then(|table| table.marks.get_mut(mark)) else { return };
        match known.passes(skipped, follows, moment.settings.waste_percent) {
            Judgement::Same => {}
            Judgement::Sparse { taken, skipped } => {
                moment.decided.push(Decision::ColumnSparse { column: self.index.name(column), taken, skipped });
                self.doubt_rest(lane, mark, moment.holdings);
            }
            Judgement::Dense => moment.decided.push(Decision::ColumnDense { column: self.index.name(column) }),
        }
    }

    pub(crate) fn is_learning(&self, lane: usize) -> bool {
        let table = self.lanes.get(lane).and_then(|lane| self.tables.get(&lane.table));
        table.is_some_and(|table| !table.is_learned)
    }

    /// Whether a lane wants a window: nothing is there for it, or half of what was listed was read. So there is time
    /// for a round trip while the other half is read.
    pub(crate) fn is_due(&self, lane: usize, missed: bool, settings: &Settings) -> bool {
        let Some(lane) = self.lanes.get(lane) else { return false };
        let Some(table) = self.tables.get(&lane.table) else { return false };
        match table.is_learned {
            true => missed || lane.backlog < lane.listed_backlog.div_ceil(2),
            // Who reads much of a column at once will hardly stop behind it, whatever others are still to come.
            false => missed && table.whole_by(lane.used_at) >= settings.learn_entries.saturating_mul(LONG_READ_TIMES),
        }
    }

    pub(crate) fn backlog(&self, lane: usize) -> u64 {
        self.lanes.get(lane).map_or(0, |lane| lane.backlog)
    }

    /// Finds the columns that the reader left behind, and sets those that it has not come to.
    fn prepare(&mut self, lane: usize, moment: &mut Moment<'_>) {
        let (table, entry) = (self.lanes[lane].table, self.lanes[lane].entry);
        let ids: Vec<ColumnId> = match self.tables.get(&table) {
            Some(table) => table.marks.iter().map(|(id, _)| *id).collect(),
            None => return,
        };
        for (mark, id) in ids.into_iter().enumerate() {
            let cursor = *self.lanes[lane].cursor(mark);
            if !cursor.is_set {
                self.lanes[lane].cursor(mark).set(self.index.piece_of(id, entry));
                continue;
            }
            let piece_count = self.index.piece_count(id);
            let is_behind = cursor.position < piece_count && self.index.entries(id, cursor.position).end <= entry;
            if !is_behind {
                self.lanes[lane].wake(mark);
                continue;
            }
            let was_idle = cursor.is_idle;
            self.lanes[lane].rest(mark);
            let is_left = cursor.next == cursor.position || self.index.entries(id, cursor.next - 1).end <= entry;
            if is_left && cursor.next > cursor.position {
                self.doubt_rest(lane, mark, moment.holdings);
                moment.decided.push(Decision::ColumnIdle { column: self.index.name(id) });
            } else if is_left && !was_idle {
                moment.decided.push(Decision::ColumnIdle { column: self.index.name(id) });
            }
        }
    }

    /// The next window of a lane: pieces of its columns in the order of their entries, `amount` missing bytes at most.
    pub(crate) fn list(&mut self, lane: usize, amount: u64, ranges_max: usize, moment: &mut Moment<'_>) -> Window {
        self.prepare(lane, moment);
        let mut window = Window::default();
        let Some(table) = self.tables.get(&self.lanes[lane].table) else { return window };
        let marks: Vec<(ColumnId, Reach, bool)> =
            table.marks.iter().map(|(id, mark)| (*id, mark.reach, mark.is_sparse)).collect();
        // As far as earlier runs came, until this one comes further.
        let entry_max = if table.entry_end <= table.extent_end { table.extent_end } else { u64::MAX };
        let mut heap = BinaryHeap::new();
        let mut firsts = Vec::with_capacity(marks.len());
        for (mark, (id, reach, is_sparse)) in marks.iter().enumerate() {
            let cursor = *self.lanes[lane].cursor(mark);
            firsts.push(cursor.next);
            if reach.within > 0 && !is_sparse && !cursor.is_idle && cursor.next < self.index.piece_count(*id) {
                heap.push(Reverse((self.index.entries(*id, cursor.next).start, mark)));
            }
        }
        let is_learned = table.is_learned;
        // Names are of pieces, and of nothing past them.
        let is_within = marks.iter().all(|(_, reach, _)| reach.past == 0);
        let (mut listed_len, mut is_whole, mut entry_end) = (0u64, is_within, 0);
        for (mark, pieces) in std::mem::take(&mut self.lanes[lane].behind) {
            let Some((id, reach, false)) = marks.get(mark).copied() else { continue };
            for piece in pieces {
                let before = window.missing.len();
                moment.holdings.missing(self.planned(id, piece, reach), &mut window.missing);
                let len = sum_len(&window.missing[before..]);
                if window.missing.len() > ranges_max || len > amount - listed_len {
                    window.missing.truncate(before);
                    break;
                }
                (listed_len, is_whole) = (listed_len + len, false);
            }
        }
        for _ in 0..PIECES_LISTED_MAX {
            let Some(Reverse((first, mark))) = heap.pop() else { break };
            let (id, reach, _) = marks[mark];
            let piece = self.lanes[lane].cursor(mark).next;
            let span = self.planned(id, piece, reach);
            let before = window.missing.len();
            moment.holdings.missing(span, &mut window.missing);
            let len = sum_len(&window.missing[before..]);
            if first >= entry_max || window.missing.len() > ranges_max || len > amount - listed_len {
                window.missing.truncate(before);
                break;
            }
            if len < span.len {
                is_whole = false;
                moment.holdings.want(span);
            }
            listed_len += len;
            entry_end = entry_end.max(self.index.entries(id, piece).end);
            let reader = &mut self.lanes[lane];
            reader.backlog = reader.backlog.saturating_add(span.len);
            let cursor = reader.cursor(mark);
            cursor.backlog = cursor.backlog.saturating_add(span.len);
            cursor.next = piece + 1;
            if cursor.next < self.index.piece_count(id) {
                heap.push(Reverse((self.index.entries(id, cursor.next).start, mark)));
            }
        }
        for (mark, ((id, reach, _), first)) in marks.iter().zip(&firsts).enumerate() {
            let count = self.lanes[lane].cursor(mark).next.saturating_sub(*first);
            if count > 0 && is_whole {
                window.runs.push(Run { column: *id, first: *first, count, reach: reach.within });
            }
        }
        let reader = &mut self.lanes[lane];
        // A first window is short: the next one is due as soon as the columns are known.
        reader.listed_backlog = if is_learned { reader.backlog } else { u64::MAX };
        reader.entry_end = reader.entry_end.max(entry_end);
        window
    }

    /// Bytes of the pieces that begin before an entry.
    fn len_before(&self, id: ColumnId, reach: Reach, entry: u64) -> u64 {
        let pieces = (0..self.index.piece_count(id)).take(PIECES_LISTED_MAX);
        let pieces = pieces.take_while(|piece| self.index.entries(id, *piece).start < entry);
        pieces.map(|piece| self.planned(id, piece, reach).len).fold(0, u64::saturating_add)
    }

    /// What this run has read.
    pub(crate) fn observed(&self, waste_percent: u32) -> Vec<Observed> {
        let tables = self.tables.iter().map(|(number, table)| {
            let read = table.marks.iter().filter(|(_, mark)| mark.is_worth_knowing(waste_percent));
            let mut columns: Vec<(u32, Reach)> =
                read.filter_map(|(id, mark)| Some((self.index.place(*id)?.1, mark.reach_so_far()))).collect();
            columns.sort_unstable();
            let ids = columns.iter().filter_map(|(column, reach)| Some((self.index.id(*number, *column)?, *reach)));
            let len = ids.map(|(id, reach)| self.len_before(id, reach, table.entry_end)).fold(0, u64::saturating_add);
            let total = u128::from(self.entries_of(*number).max(1));
            let permille = (u128::from(table.entry_end) * 1000).div_ceil(total);
            Observed {
                table: *number,
                columns,
                len,
                extent_permille: u32::try_from(permille).unwrap_or(1000).min(1000),
            }
        });
        tables.filter(|table| !table.columns.is_empty()).collect()
    }
}
