//! What the classes in a ROOT file look like: it says so itself, once for each class and version.
//!
//! ```text
//!  TList ─▶ TStreamerInfo: name of the class, its version, TObjArray ─▶ elements: name, kind, type … in their order
//! ```

use super::cursor::Cursor;
use crate::error::{LayoutError, Result};
use crate::limits;
use std::collections::HashMap;

/// Members of a class. `TTree` has 33 today.
pub(crate) const MEMBER_COUNT_MAX: usize = 64;

/// Of each class in each version its members.
#[derive(Debug, Default)]
pub(crate) struct Streamers {
    classes: HashMap<(String, u16), Vec<Member>>,
}

/// One member of a class, or a base.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// How a member is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    PlainObject,
    Named,
    Text,
    /// As many numbers as the class says, of so many bytes.
    Numbers {
        width: usize,
        count: usize,
    },
    /// One of eight bytes. Until 2005 entries were counted so.
    Float,
    /// Behind a byte that says whether there are any: as many as the member of that number says.
    Array {
        width: usize,
        count: usize,
    },
    /// A number of numbers of so many bytes, which stands before them.
    Counted {
        width: usize,
    },
    /// It says how long it is.
    Object,
    Pointer,
    /// Whatever comes behind it cannot be found.
    Unknown,
}

impl Streamers {
    /// `TTree` and what is in it: the rest of the classes is of no interest.
    pub(crate) fn read(object: &[u8], key_len: usize) -> Result<Self> {
        let mut cursor = Cursor::new(object, key_len);
        let (_, mut list) = cursor.object()?;
        list.plain_object()?;
        list.text()?;
        let mut streamers = Self::default();
        for _ in 0..list.count()? {
            if let Some((b"TStreamerInfo", mut info)) = list.pointer()? {
                streamers.add(&mut info)?;
            }
            list.text()?;
        }
        Ok(streamers)
    }

    pub(crate) fn members(&self, class: &str, version: u16) -> Result<&[Member]> {
        let members = self.classes.get(&(class.to_owned(), version));
        Ok(members.ok_or(LayoutError::Unknown("it has trees of a version that it does not describe"))?)
    }

    fn add(&mut self, info: &mut Cursor<'_>) -> Result<()> {
        let (_, mut info) = info.object()?;
        let name = info.named()?;
        if !is_of_trees(name) {
            return Ok(());
        }
        info.take(4)?;
        let version = info.u32()? as u16;
        let Some((_, mut elements)) = info.pointer()? else { return Ok(()) };
        let (count, mut elements) = elements.elements()?;
        let mut members = Vec::new();
        for _ in 0..count {
            if let Some((_, mut element)) = elements.pointer()? {
                if members.len() == MEMBER_COUNT_MAX {
                    return Err(LayoutError::Unknown("a class of its trees has more members than are known"));
                }
                members.push(member(&mut element, &members)?);
            }
        }
        self.classes.insert((limits::name(name)?.into_owned(), version), members);
        Ok(())
    }
}

fn is_of_trees(class: &[u8]) -> bool {
    matches!(class, b"TTree" | b"TNtuple" | b"TNtupleD") || class.starts_with(b"TBranch")
}

/// An element is an object of a class of its own, whose base is the object that is read here.
fn member(element: &mut Cursor<'_>, before: &[Member]) -> Result<Member> {
    let (_, mut element) = element.object()?;
    let (version, mut base) = element.object()?;
    let name = limits::name(base.named()?)?.into_owned();
    let kind = base.i32()?;
    base.take(4)?;
    let array_len = base.count()?;
    base.take(4)?;
    let sizes_len = if version == 1 { base.count()?.saturating_mul(4) as usize } else { 20 };
    base.take(sizes_len)?;
    let kind = match kind {
        // Of an array of pointers the element says what counts it.
        41..=59 => {
            element.take(4)?;
            let name = element.text()?;
            let count = before.iter().position(|member| member.name.as_bytes() == name);
            width(kind - 40).zip(count).map(|(width, count)| Kind::Array { width, count })
        }
        // Of fixed arrays.
        21..=39 => {
            width(kind - 20)
                // A member of no bytes would let a few bytes ask for endless work.
                .zip(usize::try_from(array_len).ok().filter(|count| *count > 0))
                .map(|(width, count)| Kind::Numbers { width, count })
        }
        0 | 61 | 62 | 63 | 68 => Some(match base.text()? {
            b"TArrayC" => Kind::Counted { width: 1 },
            b"TArrayS" => Kind::Counted { width: 2 },
            b"TArrayI" | b"TArrayF" => Kind::Counted { width: 4 },
            b"TArrayD" | b"TArrayL" | b"TArrayL64" => Kind::Counted { width: 8 },
            _ => Kind::Object,
        }),
        64 | 69 => Some(Kind::Pointer),
        65 => Some(Kind::Text),
        66 => Some(Kind::PlainObject),
        67 => Some(Kind::Named),
        7 => Some(Kind::Counted { width: 1 }),
        300 | 500 | 501 => Some(Kind::Object),
        8 => Some(Kind::Float),
        _ => width(kind).map(|width| Kind::Numbers { width, count: 1 }),
    };
    Ok(Member { name, kind: kind.unwrap_or(Kind::Unknown) })
}

/// Bytes of a number, by ROOT's number of its type. Those that are packed have none.
fn width(kind: i32) -> Option<usize> {
    match kind {
        1 | 11 | 18 => Some(1),
        2 | 12 => Some(2),
        3 | 5 | 6 | 13 | 15 => Some(4),
        4 | 8 | 14 | 16 | 17 => Some(8),
        _ => None,
    }
}
