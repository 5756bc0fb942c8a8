//! Key rows, their hash, and which group and subtask they go to.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Field, FieldRef};
use keygroup::{
    GroupCount, Parallelism, default_max_parallelism, group_of, hash_of, range_of, subtask_of,
};
use serde_json::Value;
use state_codec::{RowForm, RowLayout, Rows, Select};

use crate::conform::report::{Unread, Verdict};
use crate::golden::format::{DefaultLine, KeyGroupLine, RangeLine, RangesLine};
use crate::golden::value::{SqlType, bytes_of_hex, hex_of_bytes};

/// The bytes and the routing of one key.
pub(crate) fn key(line: &KeyGroupLine) -> Verdict {
    match KeyColumns::read(line) {
        Ok(columns) => verdict(check_key(line, &columns)),
        Err(unread) => unread.into(),
    }
}

/// A range of a subtask, or a default max parallelism.
pub(crate) fn range(line: &RangesLine) -> Verdict {
    verdict(check_range(line))
}

fn verdict(result: Result<(), String>) -> Verdict {
    match result {
        Ok(()) => Verdict::Passed,
        Err(how) => Verdict::Failed(how),
    }
}

fn check_key(line: &KeyGroupLine, columns: &KeyColumns) -> Result<(), String> {
    expect(
        "key row",
        &line.row_hex,
        &hex_of_bytes(&columns.row(RowForm::Key)?),
    )?;
    let payload_hex = line.serializer_hex.as_ref().unwrap_or(&line.row_hex);
    expect(
        "payload row",
        payload_hex,
        &hex_of_bytes(&columns.row(RowForm::Payload)?),
    )?;

    let row = bytes_of_hex(&line.row_hex).ok_or("row_hex is not hexadecimal")?;
    expect("hash", &line.hash, &hash_of(&row))?;
    for (groups, expected) in &line.groups {
        let count = group_count(groups)?;
        expect(
            &format!("group of {groups}"),
            expected,
            &group_of(&row, count).get(),
        )?;
    }
    for (shape, expected) in &line.index {
        let (groups, subtasks) = shape.split_once('/').ok_or("an index without a slash")?;
        let count = group_count(groups)?;
        let parallelism = parallelism(subtasks)?;
        let subtask = subtask_of(group_of(&row, count), count, parallelism);
        expect(&format!("subtask of {shape}"), expected, &subtask)?;
    }
    Ok(())
}

fn check_range(line: &RangesLine) -> Result<(), String> {
    match *line {
        RangesLine::Range(RangeLine {
            max_parallelism,
            parallelism,
            index,
            start,
            end,
        }) => {
            let groups = GroupCount::new(max_parallelism).map_err(|error| error.to_string())?;
            let parallelism = Parallelism::new(parallelism).map_err(|error| error.to_string())?;
            let range = range_of(index, groups, parallelism).map_err(|error| error.to_string())?;
            expect("start", &start, &range.start().get())?;
            expect("end", &end, &range.end().get())?;
            expect(
                "subtask of the start",
                &index,
                &subtask_of(range.start(), groups, parallelism),
            )?;
            expect(
                "subtask of the end",
                &index,
                &subtask_of(range.end(), groups, parallelism),
            )
        }
        RangesLine::Default(DefaultLine {
            parallelism,
            default_max_parallelism: expected,
        }) => {
            let parallelism = Parallelism::new(parallelism).map_err(|error| error.to_string())?;
            expect(
                "default max parallelism",
                &expected,
                &default_max_parallelism(parallelism).get(),
            )
        }
    }
}

fn group_count(text: &str) -> Result<GroupCount, String> {
    let number = text
        .parse()
        .map_err(|_| format!("{text:?} is not a number of groups"))?;
    GroupCount::new(number).map_err(|error| error.to_string())
}

fn parallelism(text: &str) -> Result<Parallelism, String> {
    let number = text
        .parse()
        .map_err(|_| format!("{text:?} is not a parallelism"))?;
    Parallelism::new(number).map_err(|error| error.to_string())
}

fn expect<T: PartialEq + std::fmt::Display>(
    what: &str,
    expected: &T,
    got: &T,
) -> Result<(), String> {
    if expected == got {
        Ok(())
    } else {
        Err(format!("{what}\nexpected {expected}\ngot      {got}"))
    }
}

/// Key columns of one row.
struct KeyColumns {
    fields: Vec<FieldRef>,
    arrays: Vec<ArrayRef>,
    /// Columns whose array holds a timestamp cut to microseconds, and the nanoseconds cut off.
    cut: Vec<(usize, u32)>,
}

impl KeyColumns {
    fn read(line: &KeyGroupLine) -> Result<Self, Unread> {
        if line.types.len() != line.values.len() {
            let problem = format!(
                "{} types for {} values",
                line.types.len(),
                line.values.len()
            );
            return Err(problem.into());
        }
        let mut columns = Self {
            fields: Vec::new(),
            arrays: Vec::new(),
            cut: Vec::new(),
        };
        for (i, (name, value)) in line.types.iter().zip(&line.values).enumerate() {
            let place = format!("column {i}");
            let sql_type = SqlType::parse(name).map_err(|error| Unread::of_type(&place, &error))?;
            let (array, nanos) = match sql_type.array(std::iter::once(value)) {
                Ok(array) => (array, 0),
                Err(error) if error.is_beyond_arrow() => cut_to_micros(name, value)?,
                Err(error) => return Err(Unread::of_value(&place, &error)),
            };
            if nanos > 0 {
                columns.cut.push((i, nanos));
            }
            let field = Field::new(format!("f{i}"), array.data_type().clone(), true);
            columns.fields.push(Arc::new(field));
            columns.arrays.push(array);
        }
        Ok(columns)
    }

    fn row(&self, form: RowForm) -> Result<Vec<u8>, String> {
        let layout = RowLayout::new(&self.fields, form).map_err(|error| error.to_string())?;
        let mut rows = Rows::new();
        // No column tells how many rows there are, so the row of no columns is written by index.
        layout
            .encode_into(&self.arrays, Select::Indices(&[0]), &mut rows)
            .map_err(|error| error.to_string())?;
        let mut row = rows.get(0).to_vec();
        let header_bytes = (self.fields.len() + 63 + 8) / 64 * 8;
        for (column, nanos) in &self.cut {
            let slot = header_bytes + 8 * column;
            let number: &mut [u8; 4] = row[slot..]
                .first_chunk_mut()
                .expect("every column has a slot");
            *number = (u32::from_le_bytes(*number) + nanos).to_le_bytes();
        }
        Ok(row)
    }
}

/// A timestamp of more than 6 digits that Arrow's nanoseconds cannot count (before 1677 or after
/// 2262), cut to microseconds, and the nanoseconds cut off. Its row differs from that of the cut
/// value in the nanoseconds of its slot alone, so these are added to the encoded row.
fn cut_to_micros(type_name: &str, value: &Value) -> Result<(ArrayRef, u32), String> {
    let text = value.as_str().ok_or("a timestamp that is not a string")?;
    let (text, end) = text
        .strip_suffix('Z')
        .map_or((text, ""), |text| (text, "Z"));
    let (whole, fraction) = text
        .split_once('.')
        .ok_or("a timestamp without a fraction")?;
    let (micros, nanos) = fraction.split_at(6);
    let cut_type = format!("{}(6)", type_name.split('(').next().unwrap_or_default());
    let cut = Value::String(format!("{whole}.{micros}{end}"));
    let array = SqlType::parse(&cut_type)
        .map_err(|error| error.to_string())?
        .array(std::iter::once(&cut))
        .map_err(|error| error.to_string())?;
    let nanos = format!("{nanos:0<3}")
        .parse()
        .map_err(|_| format!("{text} has no nanoseconds"))?;
    Ok((array, nanos))
}
