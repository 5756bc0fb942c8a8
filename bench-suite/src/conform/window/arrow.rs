//! Rows of cells as Arrow record batches, and batches as rows.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, RecordBatch,
    StringArray,
};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Field, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Schema, SchemaRef, TimeUnit, TimestampMillisecondType,
};
use arrow::error::ArrowError;
use serde_json::Value;

use crate::conform::window::case::{Column, WindowCase, cells};
use crate::conform::window::cell::{BadCell, Cell};

/// Why there is no batch, or there are no rows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// A value of a recording is not of its type.
    #[error(transparent)]
    Cell(#[from] BadCell),
    /// A cell is not of its column's type: "cell true does not belong in a column of Int8".
    #[error("cell {cell} does not belong in a column of {data_type}")]
    Foreign {
        /// The cell.
        cell: Cell,
        /// The type of the column.
        data_type: DataType,
    },
    /// A column of a type that recordings do not have: "no recording has a column of Binary".
    #[error("no recording has a column of {0}")]
    Type(DataType),
    /// Arrow refused.
    #[error("arrow refused the columns")]
    Arrow(#[from] ArrowError),
}

/// The schema of the rows that arrive. Every column may hold NULL.
#[must_use]
pub fn input_schema(case: &WindowCase) -> SchemaRef {
    schema(&case.types.input, |_| true)
}

/// The schema of the answer.
#[must_use]
pub fn output_schema(case: &WindowCase) -> SchemaRef {
    schema(&case.types.output, |column| column.nullable)
}

fn schema(columns: &[Column], nullable: impl Fn(&Column) -> bool) -> SchemaRef {
    let field = |column: &Column| {
        let data_type = column.sql_type.arrow().clone();
        Field::new(&column.name, data_type, nullable(column))
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// A batch of rows that arrive, in the order given.
///
/// # Errors
///
/// [`BatchError`] if a value is not of its type.
pub fn input_batch<'a>(
    case: &WindowCase,
    rows: impl IntoIterator<Item = &'a Vec<Value>>,
) -> Result<RecordBatch, BatchError> {
    let read = |row: &'a Vec<Value>| cells(&case.types.input, row);
    let rows: Vec<_> = rows.into_iter().map(read).collect::<Result<_, _>>()?;
    batch(&input_schema(case), &rows)
}

/// A batch of rows.
///
/// # Errors
///
/// [`BatchError`] if a cell is not of its column's type.
///
/// # Panics
///
/// If a row is shorter than the schema.
pub fn batch(schema: &SchemaRef, rows: &[Vec<Cell>]) -> Result<RecordBatch, BatchError> {
    let columns = schema.fields().iter().enumerate();
    let columns = columns
        .map(|(number, field)| {
            let cells = rows.iter().map(|row| &row[number]);
            array(field.data_type(), cells)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let batch = RecordBatch::try_new_with_options(schema.clone(), columns, &options)?;
    Ok(batch)
}

fn array<'a>(
    data_type: &DataType,
    cells: impl Iterator<Item = &'a Cell>,
) -> Result<ArrayRef, BatchError> {
    let cells: Vec<&Cell> = cells.collect();
    match data_type {
        DataType::Boolean => Ok(Arc::new(
            values(data_type, &cells, |cell| match cell {
                Cell::Boolean(value) => Some(*value),
                _ => None,
            })?
            .into_iter()
            .collect::<BooleanArray>(),
        )),
        DataType::Utf8 => Ok(Arc::new(
            values(data_type, &cells, |cell| match cell {
                Cell::Text(text) => Some(text.clone()),
                _ => None,
            })?
            .into_iter()
            .collect::<StringArray>(),
        )),
        DataType::Int8 => primitive::<Int8Type>(data_type, &cells, integer),
        DataType::Int16 => primitive::<Int16Type>(data_type, &cells, integer),
        DataType::Int32 => primitive::<Int32Type>(data_type, &cells, integer),
        DataType::Int64 => primitive::<Int64Type>(data_type, &cells, integer),
        DataType::Date32 => primitive::<Date32Type>(data_type, &cells, integer),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            primitive::<TimestampMillisecondType>(data_type, &cells, integer)
        }
        DataType::Float32 => primitive::<Float32Type>(data_type, &cells, |cell| match cell {
            Cell::Float(value) => Some(*value),
            _ => None,
        }),
        DataType::Float64 => primitive::<Float64Type>(data_type, &cells, |cell| match cell {
            Cell::Double(value) => Some(*value),
            _ => None,
        }),
        DataType::Decimal128(_, of) => {
            primitive::<Decimal128Type>(data_type, &cells, |cell| match cell {
                Cell::Decimal { unscaled, scale } if scale == of => Some(*unscaled),
                _ => None,
            })
        }
        other => Err(BatchError::Type(other.clone())),
    }
}

fn integer<T: TryFrom<i64>>(cell: &Cell) -> Option<T> {
    match cell {
        Cell::Integer(value) => T::try_from(*value).ok(),
        _ => None,
    }
}

fn primitive<T: ArrowPrimitiveType>(
    data_type: &DataType,
    cells: &[&Cell],
    read: impl Fn(&Cell) -> Option<T::Native>,
) -> Result<ArrayRef, BatchError> {
    let values = values(data_type, cells, read)?;
    let array: PrimitiveArray<T> = values.into_iter().collect();
    Ok(Arc::new(array.with_data_type(data_type.clone())))
}

fn values<T>(
    data_type: &DataType,
    cells: &[&Cell],
    read: impl Fn(&Cell) -> Option<T>,
) -> Result<Vec<Option<T>>, BatchError> {
    let one = |cell: &&Cell| match cell {
        Cell::Null => Ok(None),
        _ => read(cell).map(Some).ok_or_else(|| BatchError::Foreign {
            cell: (*cell).clone(),
            data_type: data_type.clone(),
        }),
    };
    cells.iter().map(one).collect()
}

/// The rows of a batch.
///
/// # Errors
///
/// [`BatchError::Type`] for a column of a type that recordings do not have.
pub fn rows(batch: &RecordBatch) -> Result<Vec<Vec<Cell>>, BatchError> {
    (0..batch.num_rows())
        .map(|row| {
            let columns = batch.columns().iter();
            columns.map(|column| cell(column, row)).collect()
        })
        .collect()
}

fn cell(column: &ArrayRef, row: usize) -> Result<Cell, BatchError> {
    fn integer<T: ArrowPrimitiveType<Native: Into<i64>>>(column: &ArrayRef, row: usize) -> Cell {
        Cell::Integer(column.as_primitive::<T>().value(row).into())
    }
    if column.is_null(row) {
        return Ok(Cell::Null);
    }
    Ok(match column.data_type() {
        DataType::Boolean => Cell::Boolean(column.as_boolean().value(row)),
        DataType::Utf8 => Cell::Text(column.as_string::<i32>().value(row).to_owned()),
        DataType::Int8 => integer::<Int8Type>(column, row),
        DataType::Int16 => integer::<Int16Type>(column, row),
        DataType::Int32 => integer::<Int32Type>(column, row),
        DataType::Int64 => integer::<Int64Type>(column, row),
        DataType::Date32 => integer::<Date32Type>(column, row),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            integer::<TimestampMillisecondType>(column, row)
        }
        DataType::Float32 => Cell::Float(column.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => Cell::Double(column.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal128(_, scale) => Cell::Decimal {
            unscaled: column.as_primitive::<Decimal128Type>().value(row),
            scale: *scale,
        },
        other => return Err(BatchError::Type(other.clone())),
    })
}
