//! Reads an LMDB file page by page and trusts nothing in it, before LMDB maps it and trusts everything.
//!
//! ```text
//! page   pgno u64 │ pad u16 │ flags u16 │ lower u16 │ upper u16 │ place of each node u16 … │ free │ nodes …
//!        an overflow page has its count as u32 instead of lower and upper, and then the value
//! node   low u16 │ high u16 │ flags u16 │ key_len u16 │ key │ value
//!        leaf: low and high are the value's length; flag 1: the value is the number of its first overflow page
//!        branch: low, high and flags are the child's number; the first key is empty
//! meta   (pages 0 and 1, behind the page's head)  magic u32 │ version u32 │ address u64 │ map_len u64 │ free tree │ rows │
//!        last page u64 │ transaction u64
//! tree   page_len u32 │ flags u16 │ depth u16 │ branch, leaf, overflow pages u64 │ entries u64 │ root u64
//! ```
//!
//! Promise: after `Ok` every row of the latest transaction is found by its key and has the value that was written, no
//! page is used twice, and no length in the tree points outside the file. A checksum of a row alone does not tell that:
//! a damaged key or branch makes rows look absent, and a damaged length makes the process read behind the map's end,
//! which kills it.

use crate::sum::checked;
use std::fs::File;
use std::os::unix::fs::FileExt;

const HEAD_LEN: usize = 16;
const NODE_LEN: usize = 8;
const META_LEN: usize = 152;
const MAGIC: u32 = 0xBEEF_C0DE;
const BRANCH: u16 = 1;
const LEAF: u16 = 2;
const OVERFLOW: u16 = 4;
const META: u16 = 8;
/// A value on pages of its own.
const BIG: u16 = 1;
/// The root of an empty tree.
const NONE: u64 = u64::MAX;
/// Pages behind the end of the file that its head may count.
const SPARE_COUNT_MAX: u64 = 1 << 16;
/// LMDB's own bound.
const DEPTH_MAX: u16 = 32;

/// What is wrong, in a few words.
pub(crate) type Fault = String;

type OnRow<'r, P> = dyn FnMut(&mut P, &[u8], &[u8]) -> Result<(), Fault> + 'r;

/// A new file without a first transaction is sound.
pub(crate) fn check(file: &File) -> Result<(), Fault> {
    let file_len = file.metadata().map_err(|error| error.to_string())?.len();
    if file_len == 0 {
        return Ok(());
    }
    let first = Meta::read(file, 0)?;
    let page_len = first.free.page_len as usize;
    if !page_len.is_power_of_two() || !(512..=32768).contains(&page_len) {
        return Err(format!("its pages have {page_len} bytes"));
    }
    let second = Meta::read(file, page_len as u64)?;
    let meta = if first.transaction < second.transaction { second } else { first };
    let page_count = meta.last_page.saturating_add(1);
    // Pages at the end that are free again already may never have been written; so many there are not.
    if page_count > 2 * file_len / page_len as u64 + SPARE_COUNT_MAX {
        return Err(format!("it has {file_len} bytes, and should have {page_count} pages"));
    }
    let seen = vec![false; page_count as usize];
    let mut pages = Pages { file, page_len, seen };
    pages.tree(&meta.rows, &|left, right| left < right, |_, key, value| match checked(key, value) {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("a row of table {} does not match its checksum", key.first().copied().unwrap_or(0))),
    })?;
    let by_number = |left: &[u8], right: &[u8]| number(left) < number(right);
    pages.tree(&meta.free, &by_number, |pages, _, value| {
        let (count, numbers) = value.split_first_chunk::<8>().ok_or("a list of free pages is cut short")?;
        let numbers =
            usize::try_from(u64::from_le_bytes(*count)).ok().and_then(|count| numbers.get(..count.checked_mul(8)?));
        let numbers = numbers.ok_or("a list of free pages is cut short")?;
        numbers.chunks_exact(8).try_for_each(|page| pages.take(number(page)))
    })
}

/// Numbers as the machine writes them; where this runs that is little-endian.
fn number(bytes: &[u8]) -> u64 {
    bytes.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn short(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk::<2>()).map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

struct Tree {
    page_len: u32,
    depth: u16,
    entry_count: u64,
    root: u64,
}

impl Tree {
    const LEN: usize = 48;

    fn decode(bytes: &[u8]) -> Self {
        let at = |place: usize| number(&bytes[place..]);
        Self { page_len: at(0) as u32, depth: short(bytes, 6), entry_count: at(32), root: at(40) }
    }
}

struct Meta {
    free: Tree,
    rows: Tree,
    last_page: u64,
    transaction: u64,
}

impl Meta {
    fn read(file: &File, at: u64) -> Result<Self, Fault> {
        let mut bytes = [0; META_LEN];
        file.read_exact_at(&mut bytes, at).map_err(|error| error.to_string())?;
        let body = &bytes[HEAD_LEN..];
        if short(&bytes, 10) & META == 0 || number(body) != u64::from(MAGIC) | 1 << 32 {
            return Err(format!("the head at byte {at} is not one of LMDB"));
        }
        Ok(Self {
            free: Tree::decode(&body[24..]),
            rows: Tree::decode(&body[24 + Tree::LEN..]),
            last_page: number(&body[24 + 2 * Tree::LEN..]),
            transaction: number(&body[32 + 2 * Tree::LEN..]),
        })
    }
}

struct Pages<'f> {
    file: &'f File,
    page_len: usize,
    /// Pages that somebody uses.
    seen: Vec<bool>,
}

/// What a walk through one tree has met.
struct Walk<'w> {
    depth: u16,
    in_order: &'w dyn Fn(&[u8], &[u8]) -> bool,
    entry_count: u64,
    before: Option<Vec<u8>>,
}

impl Pages<'_> {
    fn tree(
        &mut self,
        tree: &Tree,
        in_order: &dyn Fn(&[u8], &[u8]) -> bool,
        mut row: impl FnMut(&mut Self, &[u8], &[u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut walk = Walk { depth: tree.depth, in_order, entry_count: 0, before: None };
        if tree.root != NONE {
            if tree.depth == 0 || tree.depth > DEPTH_MAX {
                return Err(format!("a tree has {} levels", tree.depth));
            }
            self.page(&mut walk, tree.root, 1, None, &mut row)?;
        }
        if walk.entry_count != tree.entry_count {
            return Err(format!("{} rows are there, {} were written", walk.entry_count, tree.entry_count));
        }
        Ok(())
    }

    /// `until`: where the next page's keys begin.
    fn page(
        &mut self,
        walk: &mut Walk<'_>,
        number_of_page: u64,
        level: u16,
        until: Option<&[u8]>,
        row: &mut OnRow<'_, Self>,
    ) -> Result<(), Fault> {
        let fault = |what: &str| format!("page {number_of_page} {what}");
        let page = self.read(number_of_page, 1)?;
        let is_leaf = level == walk.depth;
        if short(&page, 10) != if is_leaf { LEAF } else { BRANCH } {
            return Err(fault("is not what its place asks for"));
        }
        let nodes = nodes(&page).ok_or_else(|| fault("points outside itself"))?;
        for (place, node) in nodes.iter().enumerate() {
            let next = nodes.get(place + 1).map(|next| next.key).or(until);
            if !is_leaf {
                // The keys of a branch are bounds. The first one is left out: it is the bound of the branch itself.
                let is_below =
                    place == 0 || walk.before.as_deref().is_none_or(|before| (walk.in_order)(before, node.key));
                if !is_below {
                    return Err(fault("is out of order"));
                }
                self.page(walk, node.child(), level + 1, next, row)?;
                continue;
            }
            let ascends = walk.before.as_deref().is_none_or(|before| (walk.in_order)(before, node.key))
                && next.is_none_or(|next| (walk.in_order)(node.key, next));
            if !ascends {
                return Err(fault("is out of order"));
            }
            walk.before = Some(node.key.to_vec());
            walk.entry_count += 1;
            match node.flags {
                0 => {
                    let value =
                        node.rest.get(..node.value_len()).ok_or_else(|| fault("has a value that is too long"))?;
                    row(self, node.key, value)?;
                }
                BIG if node.rest.len() >= 8 => {
                    let count = (HEAD_LEN + node.value_len()).div_ceil(self.page_len);
                    let pages = self.read(number(node.rest), count)?;
                    if short(&pages, 10) != OVERFLOW || number(&pages[8..]) >> 32 != count as u64 {
                        return Err(fault("has a value that is not where it should be"));
                    }
                    row(self, node.key, &pages[HEAD_LEN..][..node.value_len()])?;
                }
                _ => return Err(fault("has a node of no known kind")),
            }
        }
        Ok(())
    }

    /// Reads pages that nobody used so far.
    fn read(&mut self, first: u64, count: usize) -> Result<Vec<u8>, Fault> {
        for page in 0..count as u64 {
            self.take(first.saturating_add(page))?;
        }
        let mut bytes = vec![0; count * self.page_len];
        self.file.read_exact_at(&mut bytes, first * self.page_len as u64).map_err(|error| error.to_string())?;
        if number(&bytes) == first { Ok(bytes) } else { Err(format!("page {first} is another one")) }
    }

    fn take(&mut self, page: u64) -> Result<(), Fault> {
        let seen = usize::try_from(page).ok().and_then(|page| self.seen.get_mut(page)).filter(|_| page > 1);
        match seen.map(|seen| std::mem::replace(seen, true)) {
            Some(false) => Ok(()),
            Some(true) => Err(format!("page {page} is used twice")),
            None => Err(format!("there is no page {page}")),
        }
    }
}

struct Node<'p> {
    low: u16,
    high: u16,
    flags: u16,
    key: &'p [u8],
    /// All behind the key, to the page's end.
    rest: &'p [u8],
}

impl Node<'_> {
    fn value_len(&self) -> usize {
        usize::from(self.low) | usize::from(self.high) << 16
    }

    fn child(&self) -> u64 {
        u64::from(self.low) | u64::from(self.high) << 16 | u64::from(self.flags) << 32
    }
}

/// The nodes of a page in its order; `None` if one does not lie in it.
fn nodes(page: &[u8]) -> Option<Vec<Node<'_>>> {
    let (lower, upper) = (usize::from(short(page, 12)), usize::from(short(page, 14)));
    if !(HEAD_LEN..=upper).contains(&lower) || upper > page.len() || !lower.is_multiple_of(2) {
        return None;
    }
    let places = page[HEAD_LEN..lower].chunks_exact(2).map(|place| usize::from(short(place, 0)));
    places
        .map(|place| {
            let node = page.get(place..).filter(|node| place >= upper && node.len() >= NODE_LEN)?;
            let (key, rest) = node[NODE_LEN..].split_at_checked(short(node, 6).into())?;
            Some(Node { low: short(node, 0), high: short(node, 2), flags: short(node, 4), key, rest })
        })
        .collect()
}
