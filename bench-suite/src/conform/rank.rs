//! Ranking and deduplication jobs: every way to cut the input into batches, over each store, by each
//! implementation, must emit what is recorded.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use rank_top1::{OrderBy, RankRange, RankSpec, RankSpecBuilder, Ties};
use serde_json::Value;
use state_codec::StateBackend;

use crate::conform::changelog::{Changes, Implementation, error_chain};
use crate::conform::model::Excuse;
use crate::conform::report::{Unread, Verdict};
use crate::flights::kind_of;
use crate::golden::format::RankLine;
use crate::golden::value::SqlType;
use crate::seed::Seed;
use crate::stores::{self, Store};

/// Random ways to cut the input, besides one row a batch and all rows in one.
const RANDOM_CUTS: usize = 3;

/// A ranking job.
pub(crate) fn rank(line: &RankLine) -> Verdict {
    verdict(line, Job::build(line, Ties::KeepFirst, None))
}

/// A ranking job by a time attribute. By event time descending and by processing time descending a
/// tie replaces. The processing time is not among the rows: it is their number of arrival here.
pub(crate) fn dedup(line: &RankLine) -> Verdict {
    let [term] = line.order_by.as_slice() else {
        return Verdict::Failed(format!(
            "order_by has {} terms where the time attribute alone belongs",
            line.order_by.len()
        ));
    };
    let descending = !term.asc;
    match (line.time_attribute.as_deref(), descending) {
        (Some("rowtime"), true) => verdict(line, Job::build(line, Ties::KeepLast, None)),
        (Some("rowtime"), false) => {
            Verdict::Unsupported("deduplication that waits for a watermark".to_owned())
        }
        (Some("proctime"), _) => {
            let ties = if descending {
                Ties::KeepLast
            } else {
                Ties::KeepFirst
            };
            verdict(line, Job::build(line, ties, Some(term.col.as_str())))
        }
        (other, _) => Verdict::Failed(format!("time_attribute is {other:?}")),
    }
}

fn verdict(line: &RankLine, job: Result<Job, Unread>) -> Verdict {
    let job = match job {
        Ok(job) => job,
        Err(unread) => return unread.into(),
    };
    let outcomes = match job.run_all(line) {
        Ok(outcomes) => outcomes,
        Err(how) => return Verdict::Failed(how),
    };
    let mut differences = outcomes.differences;
    if differences.is_empty() {
        return match job.excuse {
            Some(excuse) if outcomes.excused > 0 => Verdict::Divergent(excuse.decision),
            _ => Verdict::Passed,
        };
    }
    let (variant, difference) = differences.swap_remove(0);
    let others = differences.len();
    Verdict::Failed(format!("{variant}, {others} other variants\n{difference}"))
}

/// A job as the product takes it.
pub(crate) struct Job {
    pub(crate) spec: RankSpec,
    pub(crate) input: RecordBatch,
    pub(crate) recorded: Changes,
    excuse: Option<Excuse>,
}

struct Outcomes {
    variants: usize,
    /// Variant and difference.
    differences: Vec<(String, String)>,
    /// Variants that differ from what is recorded as a decision says.
    excused: usize,
}

impl Job {
    /// With a column of arrival numbers called `arrival`, if the order column is not in the rows.
    fn build(line: &RankLine, ties: Ties, arrival: Option<&str>) -> Result<Self, Unread> {
        let types = column_types(line)?;
        let mut fields: Vec<Field> = line
            .columns
            .iter()
            .zip(&types)
            .map(|(name, sql_type)| Field::new(name, sql_type.arrow().clone(), true))
            .collect();
        let mut columns = columns(&line.columns, &types, line.input.iter(), "input")?;
        if let Some(arrival) = arrival {
            fields.push(Field::new(arrival, DataType::Int64, true));
            columns.push(Arc::new(Int64Array::from_iter_values(
                0..line.input.len() as i64,
            )));
        }
        let schema = Arc::new(Schema::new(fields));
        let input = batch(&schema, columns, line.input.len())?;

        let rank_column = line.output_rank.then(|| unused_name("rank", &line.columns));
        let spec = spec(line, ties, &input.schema(), rank_column.as_deref())?
            .build()
            .map_err(|error| error_chain(&error))?;
        let recorded = recorded(line, &types, &spec, arrival)?;
        let excuse =
            Excuse::find(line, input.columns(), &recorded).map_err(|error| error_chain(&error))?;
        Ok(Self {
            spec,
            input,
            recorded,
            excuse,
        })
    }

    /// A job whose rows live for so long.
    pub(crate) fn build_expiring(line: &RankLine, ttl_ms: u64) -> Result<Self, Unread> {
        let mut job = Self::build(line, Ties::KeepFirst, None)?;
        let rank_column = line.output_rank.then(|| unused_name("rank", &line.columns));
        let builder = spec(
            line,
            Ties::KeepFirst,
            &job.input.schema(),
            rank_column.as_deref(),
        )?;
        let ttl = Duration::from_millis(ttl_ms);
        job.spec = builder
            .ttl(ttl)
            .build()
            .map_err(|error| error_chain(&error))?;
        Ok(job)
    }

    fn run_all(&self, line: &RankLine) -> Result<Outcomes, String> {
        let implementations = Implementation::of(&self.spec);
        let rows = self.input.num_rows();
        let mut cuts = vec![("one row a batch".to_owned(), vec![1; rows])];
        cuts.push(("all rows in one batch".to_owned(), vec![rows]));
        let mut seed = Seed::of_name(&line.name);
        for number in 1..=RANDOM_CUTS {
            cuts.push((format!("random cut {number}"), random_cut(rows, &mut seed)));
        }
        let mut outcomes = Outcomes {
            variants: 0,
            differences: Vec::new(),
            excused: 0,
        };
        for store in Store::ALL {
            match store {
                Store::Memory => {
                    self.run_over(
                        &stores::memory(),
                        store,
                        &implementations,
                        &cuts,
                        &mut outcomes,
                    )?;
                }
                Store::Rocks => {
                    let (_directory, backend) =
                        stores::rocks().map_err(|error| error_chain(&error))?;
                    self.run_over(&backend, store, &implementations, &cuts, &mut outcomes)?;
                }
            }
        }
        Ok(outcomes)
    }

    fn run_over<B: StateBackend>(
        &self,
        backend: &B,
        store: Store,
        implementations: &[Implementation],
        cuts: &[(String, Vec<usize>)],
        outcomes: &mut Outcomes,
    ) -> Result<(), String> {
        for implementation in implementations {
            for (how, cut) in cuts {
                let name = format!("state-{}", outcomes.variants);
                let mut start = 0;
                let batches = cut.iter().map(|&rows| {
                    let batch = self.input.slice(start, rows);
                    start += rows;
                    batch
                });
                let schema = self.recorded.schema();
                let spec = self.spec.clone();
                let changes =
                    Changes::of_ranker(backend, *implementation, &name, spec, batches, &schema)
                        .map_err(|error| format!("{store}, {implementation}, {how}: {error}"))?;
                outcomes.variants += 1;
                if let Some(difference) = changes.difference(&self.recorded) {
                    if let Some(excuse) = &self.excuse
                        && changes.difference(&excuse.answer).is_none()
                    {
                        outcomes.excused += 1;
                        continue;
                    }
                    let variant = format!("{store}, {implementation}, {how}");
                    outcomes.differences.push((variant, difference));
                }
            }
        }
        Ok(())
    }
}

fn spec(
    line: &RankLine,
    ties: Ties,
    schema: &SchemaRef,
    rank_column: Option<&str>,
) -> Result<RankSpecBuilder, String> {
    let [start, end] = line.rank_range;
    let terms = line.order_by.iter().map(|term| {
        let column = term.col.as_str();
        let order = if term.asc {
            OrderBy::asc(column)
        } else {
            OrderBy::desc(column)
        };
        match term.nulls_first {
            None => order,
            Some(true) => order.nulls_first(),
            Some(false) => order.nulls_last(),
        }
    });
    let mut builder = RankSpec::builder(schema.clone())
        .partition_by(line.partition_by.iter().map(String::as_str))
        .order_by(terms)
        .range(RankRange::new(start, end).map_err(|error| error_chain(&error))?)
        .update_before(line.update_before)
        .ties(ties);
    if let Some(name) = rank_column {
        builder = builder.output_rank(name);
    }
    Ok(builder)
}

/// The recorded changelog in the columns that the ranker emits, but for the arrival numbers.
fn recorded(
    line: &RankLine,
    types: &[SqlType],
    spec: &RankSpec,
    arrival: Option<&str>,
) -> Result<Changes, Unread> {
    let kinds = line
        .expected
        .iter()
        .map(|change| {
            kind_of(&change.kind).ok_or_else(|| format!("expected has a kind {:?}", change.kind))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let output = spec.output_schema().fields().iter();
    let fields: Vec<_> = output
        .filter(|field| Some(field.name().as_str()) != arrival)
        .cloned()
        .collect();
    let names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
    let mut types = types.to_vec();
    if line.output_rank {
        types.push(SqlType::parse("BIGINT").map_err(|error| Unread::of_type("rank", &error))?);
    }
    let rows = line.expected.iter().map(|change| &change.row);
    let columns = columns(&names, &types, rows, "expected")?;
    let rows = batch(&Arc::new(Schema::new(fields)), columns, line.expected.len())?;
    Ok(Changes::new(kinds, rows))
}

fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, String> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
        .map_err(|error| error.to_string())
}

fn column_types(line: &RankLine) -> Result<Vec<SqlType>, Unread> {
    line.columns
        .iter()
        .map(|name| {
            let text = line
                .types
                .get(name)
                .ok_or_else(|| format!("column {name} has no type"))?;
            SqlType::parse(text).map_err(|error| Unread::of_type(&format!("column {name}"), &error))
        })
        .collect()
}

fn columns<'a>(
    names: &[String],
    types: &[SqlType],
    rows: impl Iterator<Item = &'a Vec<Value>> + Clone,
    what: &str,
) -> Result<Vec<ArrayRef>, Unread> {
    for (i, row) in rows.clone().enumerate() {
        if row.len() != types.len() {
            let problem = format!(
                "{what} row {i} has {} values for {} columns",
                row.len(),
                types.len()
            );
            return Err(problem.into());
        }
    }
    names
        .iter()
        .zip(types)
        .enumerate()
        .map(|(column, (name, sql_type))| {
            let values = rows.clone().map(|row| &row[column]);
            sql_type
                .array(values)
                .map_err(|error| Unread::of_value(&format!("{what} column {name}"), &error))
        })
        .collect()
}

fn unused_name(wanted: &str, names: &[String]) -> String {
    let mut name = wanted.to_owned();
    while names.contains(&name) {
        name.push('_');
    }
    name
}

/// Lengths that add up to `rows`, now and then 0.
fn random_cut(rows: usize, seed: &mut Seed) -> Vec<usize> {
    let mut lengths = Vec::new();
    let mut left = rows;
    while left > 0 {
        let longest = 1 + seed.below(left as u64);
        let length = seed.below(longest + 1) as usize;
        lengths.push(length);
        left -= length;
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::random_cut;
    use crate::seed::Seed;

    #[test]
    fn a_random_cut_covers_all_rows() {
        let mut seed = Seed::new(7);
        for rows in 0..200 {
            assert_eq!(random_cut(rows, &mut seed).iter().sum::<usize>(), rows);
        }
    }
}
