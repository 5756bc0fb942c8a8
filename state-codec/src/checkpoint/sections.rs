//! Canonical checkpoints: sections of Arrow IPC by key group.
use super::*;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use keygroup::{GroupCount, KeyGroup};

/// Writes the sections of a canonical checkpoint.
#[derive(Debug)]
pub struct SectionWriter<'a> {
    _w: CheckpointWriter<'a>,
}
#[allow(missing_docs, unused_variables)]
impl<'a> SectionWriter<'a> {
    pub fn new(
        writer: CheckpointWriter<'a>,
        schema: SchemaRef,
        group_count: GroupCount,
        groups: GroupRange,
        fingerprint: &str,
    ) -> Result<Self, CheckpointError> {
        todo!()
    }
    pub fn begin(&mut self, group: KeyGroup) -> Result<(), CheckpointError> {
        todo!()
    }
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), CheckpointError> {
        todo!()
    }
    pub fn finish(self) -> Result<Manifest, CheckpointError> {
        todo!()
    }
}
/// Reads them.
#[derive(Debug)]
pub struct SectionReader {}
#[allow(missing_docs, unused_variables)]
impl SectionReader {
    pub fn open(
        from: &CheckpointRef,
        fingerprint: &str,
        group_count: GroupCount,
    ) -> Result<Self, CheckpointError> {
        todo!()
    }
    pub fn manifest(&self) -> &Manifest {
        todo!()
    }
    pub fn verify(&mut self, groups: GroupRange) -> Result<(), CheckpointError> {
        todo!()
    }
    pub fn section(
        &mut self,
        group: KeyGroup,
        schema: &SchemaRef,
    ) -> Result<Option<std::vec::IntoIter<Result<RecordBatch, CheckpointError>>>, CheckpointError>
    {
        todo!()
    }
}
