//! The footer of an ORC file: the names of its columns, and where its stripes are.

use super::proto::{self, Fields, Numbers};
use super::stripe::{ENCRYPTED_COLUMNS, Stripe};
use crate::error::{LayoutError, Result};
use crate::limits::{self, Budget};
use crate::tables::{Column, Table};
use crate::want::Want;
use crate::what::What;

/// The column of what each stripe says of its columns: who reads any of them reads that. As no column of a struct can
/// be selected by.
pub(crate) const ROOT_NAME: &str = "(stripe footers)";

/// Types within each other. A guess: as in Parquet's schemas.
const DEPTH_MAX: usize = 128;

/// Each is a read of its own. A guess: 4 TB in stripes as they mostly are, and six times as many reads as may be.
const STRIPE_COUNT_MAX: usize = 1 << 16;

const LIST: u64 = 10;
const MAP: u64 = 11;
const STRUCT: u64 = 12;
const UNION: u64 = 13;

const DAMAGED_TYPES: LayoutError = LayoutError::Damaged("its types do not fit together");
const DAMAGED_ROWS: LayoutError = LayoutError::Damaged("its stripes have not the rows that it has");

/// A table without pieces, and its stripes that have rows. `data_len`: what lies before footer and statistics, and
/// holds all stripes.
pub(super) fn read(bytes: &[u8], data_len: u64, budget: &mut Budget) -> Result<(Table, Vec<Stripe>)> {
    let (mut stripes, mut types, mut row_count, mut entries) = (Vec::new(), Types::default(), None, 0_u64);
    for field in proto::fields(bytes) {
        match field? {
            (3, value) => {
                let stripe = Stripe::of(value.bytes()?, entries, data_len)?;
                entries = entries.checked_add(stripe.row_count).ok_or(DAMAGED_ROWS)?;
                if stripe.row_count == 0 {
                    continue;
                }
                if stripes.len() == STRIPE_COUNT_MAX {
                    let (asked, max) = (stripes.len() as u64 + 1, STRIPE_COUNT_MAX as u64);
                    return Err(LayoutError::TooLarge { what: What::Questions, asked, max });
                }
                budget.list::<Stripe>(1)?;
                stripes.push(stripe);
            }
            (4, value) => types.add(value.bytes()?, budget)?,
            (6, value) => row_count = Some(value.number()?),
            (10, _) => return Err(ENCRYPTED_COLUMNS),
            _ => {}
        }
    }
    if row_count.is_some_and(|count| count != entries) {
        return Err(DAMAGED_ROWS);
    }
    Ok((Table { name: String::new(), entries, columns: types.columns()? }, stripes))
}

/// The columns so far, one for each type: they stand as one comes by them from the root, and each says which are its
/// children.
#[derive(Default)]
struct Types<'a> {
    columns: Vec<Column>,
    /// What the last one is in.
    above: Vec<Parent<'a>>,
    path: String,
}

/// A type, and which of its children are to come.
struct Parent<'a> {
    kind: u64,
    left_count: u64,
    taken_count: u64,
    children: Fields<'a>,
    numbers: Numbers<'a>,
    names: Fields<'a>,
    /// Of the path that leads to it.
    path_len: usize,
}

impl<'a> Types<'a> {
    fn add(&mut self, bytes: &'a [u8], budget: &mut Budget) -> Result<()> {
        self.pass();
        let number = self.columns.len() as u64;
        match self.above.last_mut() {
            Some(parent) => parent.enter(number, &mut self.path)?,
            None if number == 0 => {}
            None => return Err(DAMAGED_TYPES),
        }
        if self.above.len() == DEPTH_MAX {
            return Err(DAMAGED_TYPES);
        }
        let name = if number == 0 { ROOT_NAME } else { &self.path };
        budget.name(name)?;
        self.columns.push(Column { name: name.to_owned(), pieces: Vec::new() });
        self.above.push(Parent::read(bytes, self.path.len())?);
        Ok(())
    }

    /// Goes up, past those that have had all of their children.
    fn pass(&mut self) {
        while self.above.pop_if(|parent| parent.left_count == 0).is_some() {}
    }

    fn columns(mut self) -> Result<Vec<Column>> {
        self.pass();
        if self.above.is_empty() && !self.columns.is_empty() { Ok(self.columns) } else { Err(DAMAGED_TYPES) }
    }
}

impl<'a> Parent<'a> {
    fn read(bytes: &'a [u8], path_len: usize) -> Result<Self> {
        let (mut kind, mut child_count, mut name_count) = (0, 0, 0);
        for field in proto::fields(bytes) {
            match field? {
                (1, value) => kind = value.number()?,
                (2, value) => child_count += value.numbers()?.count() as u64,
                (3, _) => name_count += 1,
                _ => {}
            }
        }
        let fits = match kind {
            LIST => child_count == 1,
            MAP => child_count == 2,
            STRUCT => child_count == name_count,
            UNION => true,
            _ => child_count == 0,
        };
        if !fits {
            return Err(DAMAGED_TYPES);
        }
        let fields = proto::fields(bytes);
        let (left_count, taken_count, numbers) = (child_count, 0, Numbers::default());
        Ok(Self { kind, left_count, taken_count, children: fields, numbers, names: fields, path_len })
    }

    /// Goes on to the next child, which has to be this one. The names are those of ORC's own tools.
    fn enter(&mut self, number: u64, path: &mut String) -> Result<()> {
        if self.child()? != number {
            return Err(DAMAGED_TYPES);
        }
        path.truncate(self.path_len);
        if !path.is_empty() {
            path.push('.');
        }
        match (self.kind, self.taken_count) {
            (STRUCT, _) => path.push_str(&limits::name(self.name()?)?),
            (LIST, _) => path.push_str("_elem"),
            (MAP, 0) => path.push_str("_key"),
            (MAP, _) => path.push_str("_value"),
            (_, count) => path.push_str(&count.to_string()),
        }
        self.taken_count += 1;
        self.left_count -= 1;
        Ok(())
    }

    /// The number of the next one.
    fn child(&mut self) -> Result<u64> {
        loop {
            if let Some(number) = self.numbers.next() {
                return number;
            }
            if let (2, value) = self.children.next().ok_or(DAMAGED_TYPES)?? {
                self.numbers = value.numbers()?;
            }
        }
    }

    fn name(&mut self) -> Result<&'a [u8]> {
        loop {
            if let (3, value) = self.names.next().ok_or(DAMAGED_TYPES)?? {
                return value.bytes();
            }
        }
    }
}

impl Stripe {
    /// As the footer has it. `first`: its first row.
    fn of(bytes: &[u8], first: u64, data_len: u64) -> Result<Self> {
        let (mut offset, mut index_len, mut streams_len, mut footer_len, mut row_count) = (0, 0, 0, 0, 0);
        for field in proto::fields(bytes) {
            match field? {
                (1, value) => offset = value.number()?,
                (2, value) => index_len = value.number()?,
                (3, value) => streams_len = value.number()?,
                (4, value) => footer_len = value.number()?,
                (5, value) => row_count = value.number()?,
                (6 | 7, _) => return Err(ENCRYPTED_COLUMNS),
                _ => {}
            }
        }
        let streams_end = u64::checked_add(offset, index_len).and_then(|end| end.checked_add(streams_len));
        let footer = streams_end.map(|offset| Want { offset, len: footer_len });
        let is_within = |footer: &Want| footer.end().is_some_and(|end| end <= data_len);
        let footer = footer.filter(is_within).ok_or(LayoutError::Damaged("a stripe lies behind the data"))?;
        // A wish for nothing ends no list that is bounded by bytes.
        if footer.len == 0 && row_count > 0 {
            return Err(LayoutError::Unknown("a stripe does not say where its columns are"));
        }
        Ok(Self { first, row_count, offset, footer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    /// A field of bytes.
    fn field(id: u8, bytes: &[u8]) -> Vec<u8> {
        [&[id << 3 | 2, bytes.len() as u8][..], bytes].concat()
    }

    /// Numbers of less than 14 bits.
    fn of_type(kind: u64, children: &[u16], names: &[&str]) -> Vec<u8> {
        let names: Vec<u8> = names.iter().flat_map(|name| field(3, name.as_bytes())).collect();
        let children: Vec<u8> = children.iter().flat_map(|child| [*child as u8 | 0x80, (*child >> 7) as u8]).collect();
        [&[8, kind as u8][..], &field(2, &children), &names].concat()
    }

    fn names(types: &[Vec<u8>]) -> Result<Vec<String>> {
        let footer: Vec<u8> = types.iter().flat_map(|one| field(4, one)).collect();
        let (table, stripes) = read(&footer, 0, &mut Budget::new(Limits::default()))?;
        assert!(stripes.is_empty());
        Ok(table.columns.into_iter().map(|column| column.name).collect())
    }

    #[test]
    fn columns_have_the_names_of_all_that_is_above_them() {
        let types = [
            of_type(STRUCT, &[1, 2, 4, 9], &["a", "list", "map", "last"]),
            of_type(3, &[], &[]),
            of_type(LIST, &[3], &[]),
            of_type(7, &[], &[]),
            of_type(MAP, &[5, 6], &[]),
            of_type(7, &[], &[]),
            of_type(UNION, &[7, 8], &[]),
            of_type(3, &[], &[]),
            of_type(STRUCT, &[], &[]),
            of_type(3, &[], &[]),
        ];
        let found = [
            ROOT_NAME,
            "a",
            "list",
            "list._elem",
            "map",
            "map._key",
            "map._value",
            "map._value.0",
            "map._value.1",
            "last",
        ];
        assert_eq!(names(&types).unwrap(), found);
    }

    #[test]
    fn types_that_do_not_fit_are_damaged() {
        let int = || of_type(3, &[], &[]);
        for types in [
            vec![],
            // Two roots, a child that is missing, another one's child, itself, and a name too few.
            vec![int(), int()],
            vec![of_type(STRUCT, &[1, 2], &["a", "b"]), int()],
            vec![of_type(STRUCT, &[2, 1], &["a", "b"]), int(), int()],
            vec![of_type(LIST, &[0], &[])],
            vec![of_type(STRUCT, &[1], &[]), int()],
            vec![of_type(MAP, &[1], &[]), int()],
            vec![of_type(3, &[1], &[]), int()],
            // Lists within each other, a stack of them.
            (1..200).map(|child| of_type(LIST, &[child], &[])).chain([int()]).collect(),
        ] {
            let count = types.len();
            assert_eq!(names(&types), Err(DAMAGED_TYPES), "{count} types");
        }
    }

    #[test]
    fn stripes_lie_within_the_data() {
        let stripe = |numbers: [u8; 5]| -> Vec<u8> {
            (1..).zip(numbers).flat_map(|(id, number): (u8, u8)| [id << 3, number]).collect()
        };
        let of = |numbers| Stripe::of(&stripe(numbers), 7, 100);
        let footer = Want { offset: 63, len: 20 };
        assert_eq!(of([3, 10, 50, 20, 9]), Ok(Stripe { first: 7, row_count: 9, offset: 3, footer }));
        assert!(of([3, 10, 50, 37, 9]).is_ok());
        assert!(of([3, 10, 50, 38, 9]).is_err());
        assert!(matches!(of([3, 10, 50, 0, 9]), Err(LayoutError::Unknown(_))), "rows and no footer");
        assert!(of([3, 10, 50, 0, 0]).is_ok());
    }

    /// In a few bytes each, whose footers would be asked for one by one.
    #[test]
    fn stripes_have_a_limit() {
        let (one, int) = (field(3, &[4 << 3, 1, 5 << 3, 1]), field(4, &of_type(3, &[], &[])));
        let count_of = |count: usize| {
            let footer = [one.repeat(count), int.clone()].concat();
            read(&footer, 1, &mut Budget::new(Limits::default())).map(|(table, stripes)| (table.entries, stripes.len()))
        };
        assert_eq!(count_of(STRIPE_COUNT_MAX), Ok((STRIPE_COUNT_MAX as u64, STRIPE_COUNT_MAX)));
        assert!(matches!(count_of(STRIPE_COUNT_MAX + 1), Err(LayoutError::TooLarge { what: What::Questions, .. })));
    }

    #[test]
    fn what_contradicts_the_number_of_rows_is_damaged() {
        let footer = [field(3, &[4 << 3, 1, 5 << 3, 7]), field(4, &of_type(3, &[], &[])), vec![6 << 3, 8]].concat();
        assert_eq!(read(&footer, 1, &mut Budget::new(Limits::default())), Err(DAMAGED_ROWS));
    }
}
