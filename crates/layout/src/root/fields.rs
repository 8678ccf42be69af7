//! The members of an object, one after the other, as the file itself describes its class.

use super::cursor::Cursor;
use super::streamers::{Kind, MEMBER_COUNT_MAX, Streamers};
use crate::error::{LayoutError, Result};

/// A member that may be of interest.
#[derive(Debug)]
pub(crate) enum Field<'a> {
    /// One, or an array.
    Numbers(Numbers<'a>),
    Text(&'a [u8]),
    /// At the begin of the object.
    Object(Cursor<'a>),
}

/// Big-endian.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Numbers<'a> {
    /// With their sign.
    Whole { bytes: &'a [u8], width: usize },
    /// One, which stands for a whole one.
    Float(f64),
}

/// None.
impl Default for Numbers<'_> {
    fn default() -> Self {
        Self::Whole { bytes: &[], width: 1 }
    }
}

impl Numbers<'_> {
    pub(crate) fn get(&self, at: usize) -> Option<i64> {
        let (bytes, width) = match *self {
            Self::Whole { bytes, width } => (bytes, width),
            Self::Float(number) => return Some(number as i64).filter(|_| at == 0),
        };
        let bytes = bytes.get(at.checked_mul(width)?..)?.get(..width)?;
        match *bytes {
            [a] => Some(i8::from_be_bytes([a]).into()),
            [a, b] => Some(i16::from_be_bytes([a, b]).into()),
            [a, b, c, d] => Some(i32::from_be_bytes([a, b, c, d]).into()),
            _ => Some(i64::from_be_bytes(bytes.try_into().ok()?)),
        }
    }
}

/// What goes on after a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Go {
    On,
    /// The rest is of no interest.
    Enough,
}

type OnField<'f, 'a> = &'f mut dyn FnMut(&str, Field<'a>) -> Result<Go>;

/// Bases within each other: `TBranchRef`, `TBranch`, `TNamed`, `TObject`. A guess, above.
const DEPTH_MAX: u32 = 8;

/// Calls `on_field` with each member of the object that the cursor is at, those of its bases among them.
pub(crate) fn read<'a>(
    object: &mut Cursor<'a>,
    class: &str,
    streamers: &Streamers,
    on_field: OnField<'_, 'a>,
) -> Result<()> {
    read_at(object, class, streamers, on_field, 0).map(drop)
}

fn read_at<'a>(
    object: &mut Cursor<'a>,
    class: &str,
    streamers: &Streamers,
    on_field: OnField<'_, 'a>,
    depth: u32,
) -> Result<Go> {
    let (version, mut cursor) = object.object()?;
    // Of each member the number that it is, if it may count an array.
    let mut counts = [0; MEMBER_COUNT_MAX];
    for (member, at) in streamers.members(class, version)?.iter().zip(0..) {
        let field = match &member.kind {
            Kind::PlainObject => {
                cursor.plain_object()?;
                continue;
            }
            Kind::Named => Field::Text(cursor.named()?),
            Kind::Text => Field::Text(cursor.text()?),
            Kind::Numbers { width, count } => {
                let bytes = cursor.take(width.saturating_mul(*count))?;
                let numbers = Numbers::Whole { bytes, width: *width };
                // What counts an array is one of these.
                if *count == 1
                    && *width == 4
                    && let Some(count) = counts.get_mut::<usize>(at)
                {
                    *count = numbers.get(0).and_then(|number| usize::try_from(number).ok()).unwrap_or(0);
                }
                Field::Numbers(numbers)
            }
            Kind::Float => Field::Numbers(Numbers::Float(cursor.f64()?)),
            Kind::Array { width, count } => {
                let flag = cursor.u8()?;
                // Until version 9 branches had places of four bytes, whatever the class says, unless the flag is 2.
                let is_short = class == "TBranch" && version < 10 && flag != 2;
                let width = if is_short { 4.min(*width) } else { *width };
                let count = counts.get(*count).copied().filter(|_| flag != 0).unwrap_or(0);
                Field::Numbers(Numbers::Whole { bytes: cursor.take(width.saturating_mul(count))?, width })
            }
            Kind::Counted { width } => {
                let count = cursor.count()? as usize;
                Field::Numbers(Numbers::Whole { bytes: cursor.take(width.saturating_mul(count))?, width: *width })
            }
            Kind::Object if depth < DEPTH_MAX && matches!(&*member.name, "TTree" | "TBranch") => {
                if read_at(&mut cursor, &member.name, streamers, on_field, depth + 1)? == Go::Enough {
                    return Ok(Go::Enough);
                }
                continue;
            }
            Kind::Object => {
                let here = cursor;
                cursor.object()?;
                Field::Object(here)
            }
            Kind::Pointer => {
                cursor.pointed()?;
                continue;
            }
            Kind::Unknown => {
                return Err(LayoutError::Unknown("its trees have members whose length it does not say"));
            }
        };
        if on_field(&member.name, field)? == Go::Enough {
            return Ok(Go::Enough);
        }
    }
    Ok(Go::On)
}
