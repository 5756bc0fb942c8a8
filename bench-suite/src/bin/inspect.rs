//! Shows what a directory of checkpoints holds.
#![expect(clippy::print_stderr, reason = "a command line program")]

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use bench_suite::conform::error_chain;
use clap::Parser;
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{ContentArrangement, Table};
use state_codec::checkpoint::{CheckpointKind, CheckpointRef, Manifest, SectionReader};

/// Shows what a directory of checkpoints holds: manifests, files, sections, key groups, rows, bytes.
#[derive(Parser)]
#[command(name = "inspect", version)]
struct Options {
    /// Directory of checkpoints, or the manifest of one
    path: PathBuf,
    /// Only this checkpoint
    #[arg(long)]
    id: Option<u64>,
    /// Print so many rows of each canonical checkpoint
    #[arg(long, default_value_t = 0)]
    rows: usize,
    /// Read every file and section, and hold them against their checksums
    #[arg(long)]
    verify: bool,
}

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    match run(&Options::parse(), &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", error_chain(&*error));
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options, out: &mut impl Write) -> Outcome<()> {
    let (dir, named) = directory(&options.path);
    let ids = match options.id.or(named) {
        Some(id) => vec![id],
        None => Manifest::ids(&dir)?,
    };
    if ids.is_empty() {
        return Err(format!("{} has no checkpoint", dir.display()).into());
    }
    for id in ids {
        show(&dir, id, options, out)?;
    }
    Ok(())
}

/// The directory of a path to it, or to a manifest in it, which then has a number.
fn directory(path: &Path) -> (PathBuf, Option<u64>) {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let number = stem.and_then(|stem| stem.parse().ok());
    let is_manifest = path
        .extension()
        .is_some_and(|extension| extension == "manifest");
    match (number.filter(|_| is_manifest), path.parent()) {
        (Some(id), Some(dir)) => (dir.to_owned(), Some(id)),
        _ => (path.to_owned(), None),
    }
}

fn show(dir: &Path, id: u64, options: &Options, out: &mut impl Write) -> Outcome<()> {
    let manifest = Manifest::read(dir, id)?;
    let bytes: u64 = manifest.files.iter().map(|file| file.bytes).sum();
    let rows: u64 = manifest.sections.iter().map(|section| section.rows).sum();
    writeln!(out, "checkpoint {id}: {}", manifest.kind)?;
    writeln!(out, "  state      {}", manifest.fingerprint)?;
    let groups = manifest.group_count.get();
    writeln!(out, "  key groups {} of {groups}", manifest.groups)?;
    writeln!(
        out,
        "  files      {} of {bytes} bytes",
        manifest.files.len()
    )?;
    let mut files = table(&["file", "bytes", "sha-256"]);
    for file in &manifest.files {
        let sha256: String = file
            .sha256
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        files.add_row([file.name.clone(), file.bytes.to_string(), sha256]);
    }
    writeln!(out, "{files}")?;
    if manifest.kind == CheckpointKind::Canonical {
        writeln!(
            out,
            "  sections   {} of {rows} rows",
            manifest.sections.len()
        )?;
        let mut sections = table(&["key group", "rows", "offset", "bytes", "crc-32"]);
        for section in &manifest.sections {
            sections.add_row([
                section.group.get().to_string(),
                section.rows.to_string(),
                section.offset.to_string(),
                section.bytes.to_string(),
                format!("{:08x}", section.crc32),
            ]);
        }
        writeln!(out, "{sections}")?;
    }
    if options.verify {
        manifest.verify_files(dir)?;
        if manifest.kind == CheckpointKind::Canonical {
            reader(dir, &manifest)?.verify(manifest.groups)?;
        }
        writeln!(out, "  every checksum holds")?;
    }
    if options.rows > 0 && manifest.kind == CheckpointKind::Canonical {
        show_rows(dir, &manifest, options.rows, out)?;
    }
    Ok(())
}

fn reader(dir: &Path, manifest: &Manifest) -> Outcome<SectionReader> {
    let from = CheckpointRef {
        dir: dir.to_owned(),
        id: manifest.id,
    };
    let reader = SectionReader::open(&from, &manifest.fingerprint, manifest.group_count)?;
    Ok(reader)
}

fn show_rows(dir: &Path, manifest: &Manifest, limit: usize, out: &mut impl Write) -> Outcome<()> {
    let mut reader = reader(dir, manifest)?;
    let mut shown = None;
    let mut left = limit;
    for section in &manifest.sections {
        let Some(schema) = reader.schema(section.group)? else {
            continue;
        };
        let Some(batches) = reader.section(section.group, &schema)? else {
            continue;
        };
        let names = schema.fields().iter().map(|field| field.name().as_str());
        let header: Vec<&str> = ["key group"].into_iter().chain(names).collect();
        let rows = shown.get_or_insert_with(|| table(&header));
        for batch in batches {
            let batch = batch?;
            let count = batch.num_rows().min(left);
            add_rows(rows, section.group.get(), &batch, count)?;
            left -= count;
            if left == 0 {
                break;
            }
        }
        if left == 0 {
            break;
        }
    }
    if let Some(rows) = shown {
        writeln!(out, "{rows}")?;
    }
    Ok(())
}

fn add_rows(table: &mut Table, group: u16, batch: &RecordBatch, count: usize) -> Outcome<()> {
    let options = FormatOptions::default().with_null("NULL");
    let columns = batch.columns().iter();
    let columns = columns
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
        .collect::<Result<Vec<_>, _>>()?;
    for row in 0..count {
        let cells = columns.iter().map(|column| column.value(row).to_string());
        table.add_row([group.to_string()].into_iter().chain(cells));
    }
    Ok(())
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(ASCII_MARKDOWN)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    table
}
