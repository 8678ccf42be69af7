//! A tree: its branches, within each other, and where the baskets of each lie.
//!
//! ```text
//!  TTree    entries, branches ─▶ TBranch …
//!  TBranch  name, entries, branches ─▶ TBranch …, baskets written; of each basket: its len, first entry, place
//! ```

use super::cursor::Cursor;
use super::fields::{self, Field, Go, Numbers};
use super::streamers::Streamers;
use crate::error::{LayoutError, Result};
use crate::limits::{Budget, name};
use crate::tables::{Column, Piece, Table};
use crate::want::Want;

/// Branches within each other. ROOT's own splitting goes to 99.
const DEPTH_MAX: u32 = 128;

/// What all branches of a tree have in common.
struct Tree<'s, 'b> {
    streamers: &'s Streamers,
    budget: &'b mut Budget,
    columns: Vec<Column>,
    place: Place,
}

/// Where a tree is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The key that it is in, and with it what of its baskets was not written by itself.
    pub(crate) key: Want,
    /// Of which so much stands before the tree.
    pub(crate) key_len: usize,
    pub(crate) file_len: u64,
}

/// Of a branch what is of interest.
#[derive(Default)]
struct Branch<'a> {
    name: &'a [u8],
    entries: u64,
    branches: Option<Cursor<'a>>,
    /// Those that are within the tree.
    baskets: Option<Cursor<'a>>,
    written_count: usize,
    lens: Numbers<'a>,
    firsts: Numbers<'a>,
    places: Numbers<'a>,
    /// The baskets are in another file.
    is_elsewhere: bool,
}

/// `class` is what the key says, as `TNtuple`.
pub(crate) fn read(
    object: &[u8],
    class: &str,
    place: Place,
    streamers: &Streamers,
    budget: &mut Budget,
) -> Result<Table> {
    let (mut entries, mut branches) = (0, None);
    fields::read(&mut Cursor::new(object, place.key_len), class, streamers, &mut |name, field| {
        match (name, field) {
            ("fEntries", Field::Numbers(numbers)) => entries = count(numbers)?,
            ("fBranches", Field::Object(cursor)) => {
                branches = Some(cursor);
                return Ok(Go::Enough);
            }
            _ => {}
        }
        Ok(Go::On)
    })?;
    let branches = branches.ok_or(LayoutError::Damaged("a tree has no list of branches"))?;
    let mut tree = Tree { streamers, budget, columns: Vec::new(), place };
    tree.branches(branches, "", 0)?;
    Ok(Table { name: String::new(), entries, columns: tree.columns })
}

impl Tree<'_, '_> {
    fn branches(&mut self, mut array: Cursor<'_>, path: &str, depth: u32) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(LayoutError::Damaged("the branches of a tree lie too deep within each other"));
        }
        let (count, mut elements) = array.elements()?;
        for _ in 0..count {
            if let Some((class, branch)) = elements.pointer()? {
                self.branch(class, branch, path, depth)?;
            }
        }
        Ok(())
    }

    fn branch(&mut self, class: &[u8], mut cursor: Cursor<'_>, path: &str, depth: u32) -> Result<()> {
        // It alone is written by a code of its own, which no description tells. Its branches are left out.
        if class == b"TBranchClones" {
            return Ok(());
        }
        let branch = Branch::read(&mut cursor, &name(class)?, self.streamers)?;
        let path = joined(path, &name(branch.name)?);
        self.budget.name(&path)?;
        let at = self.columns.len();
        self.columns.push(Column { name: path, pieces: Vec::new() });
        if !branch.is_elsewhere {
            self.baskets(&branch, at)?;
        }
        let Some(branches) = branch.branches else { return Ok(()) };
        let Some(path) = self.columns.get(at).map(|column| column.name.clone()) else { return Ok(()) };
        self.branches(branches, &path, depth + 1)?;
        // One that only holds others has no values of its own.
        let is_group = self.columns.get(at).is_some_and(|column| column.pieces.is_empty());
        if is_group && self.columns.len() > at + 1 {
            self.columns.remove(at);
        }
        Ok(())
    }

    fn baskets(&mut self, branch: &Branch<'_>, at: usize) -> Result<()> {
        const DAMAGED: LayoutError = LayoutError::Damaged("the baskets of a branch do not fit together");
        let Some(column) = self.columns.get_mut(at) else { return Ok(()) };
        let (mut next, mut written) = (0, 0);
        for number in 0..branch.written_count {
            let parts = (branch.lens.get(number), branch.firsts.get(number), branch.places.get(number));
            let (Some(len), Some(first), Some(place)) = parts else { return Err(DAMAGED) };
            // From here on they are within the tree.
            if place == 0 {
                break;
            }
            let (Ok(len), Ok(first), Ok(offset)) = (u32::try_from(len), u64::try_from(first), u64::try_from(place))
            else {
                return Err(DAMAGED);
            };
            let is_within = offset.checked_add(len.into()).is_some_and(|end| end <= self.place.file_len);
            if first < next || !is_within {
                return Err(DAMAGED);
            }
            // One without entries is of no use, and would look like a dictionary.
            column.pieces.pop_if(|last| last.first == first);
            Piece::add(&mut column.pieces, first, Want { offset, len: len.into() }, self.budget)?;
            (next, written) = (first, number + 1);
        }
        let end = branch.firsts.get(written).and_then(|end| u64::try_from(end).ok()).unwrap_or(next);
        let is_rest = if written == 0 { branch.entries > 0 } else { end > next && end < branch.entries };
        if is_rest && branch.has_baskets()? {
            Piece::add(&mut column.pieces, if written == 0 { 0 } else { end }, self.place.key, self.budget)?;
        }
        Ok(())
    }
}

impl<'a> Branch<'a> {
    fn read(cursor: &mut Cursor<'a>, class: &str, streamers: &Streamers) -> Result<Self> {
        let mut branch = Self::default();
        fields::read(cursor, class, streamers, &mut |name, field| {
            match (name, field) {
                ("TNamed", Field::Text(name)) => branch.name = name,
                ("fWriteBasket", Field::Numbers(numbers)) => branch.written_count = count(numbers)? as usize,
                ("fEntries", Field::Numbers(numbers)) => branch.entries = count(numbers)?,
                ("fBranches", Field::Object(branches)) => branch.branches = Some(branches),
                ("fBaskets", Field::Object(baskets)) => branch.baskets = Some(baskets),
                ("fBasketBytes", Field::Numbers(numbers)) => branch.lens = numbers,
                ("fBasketEntry", Field::Numbers(numbers)) => branch.firsts = numbers,
                ("fBasketSeek", Field::Numbers(numbers)) => branch.places = numbers,
                ("fFileName", Field::Text(name)) => {
                    branch.is_elsewhere = !name.is_empty();
                    return Ok(Go::Enough);
                }
                _ => {}
            }
            Ok(Go::On)
        })?;
        Ok(branch)
    }

    /// Within the tree.
    fn has_baskets(&self) -> Result<bool> {
        let Some(mut baskets) = self.baskets else { return Ok(false) };
        let (count, mut elements) = baskets.elements()?;
        for _ in 0..count {
            if elements.pointer()?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// One number that is not below zero.
fn count(numbers: Numbers<'_>) -> Result<u64> {
    let number = numbers.get(0).unwrap_or(-1);
    u64::try_from(number).map_err(|_| LayoutError::Damaged("a count of entries or baskets is below zero"))
}

/// A branch in another, by a name that may begin with the other's.
fn joined(path: &str, name: &str) -> String {
    let path = path.trim_end_matches('.');
    let is_whole = path.is_empty() || name.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
    if is_whole { name.to_owned() } else { format!("{path}.{name}") }
}
