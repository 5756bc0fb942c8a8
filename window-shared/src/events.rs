//! What an engine may want to log: with the feature `tracing`, as its events; without, as nothing.

use keygroup::GroupRange;
use state_codec::StoreError;
use state_codec::checkpoint::Manifest;

use crate::error::WindowError;
use crate::spec::WindowSpec;

/// An operator was opened.
pub(crate) fn opened(name: &str, spec: &WindowSpec) {
    #[cfg(feature = "tracing")]
    tracing::info!(
        state = name,
        fingerprint = spec.fingerprint(),
        "window operator opened"
    );
    let _ = (name, spec);
}

/// A checkpoint is complete.
pub(crate) fn saved(manifest: &Manifest) {
    #[cfg(feature = "tracing")]
    tracing::info!(
        id = manifest.id,
        kind = %manifest.kind,
        groups = %manifest.groups,
        bytes = manifest.files.iter().map(|file| file.bytes).sum::<u64>(),
        "checkpoint complete"
    );
    let _ = manifest;
}

/// A state was made of checkpoints.
pub(crate) fn restored(name: &str, parts: usize, groups: GroupRange) {
    #[cfg(feature = "tracing")]
    tracing::info!(state = name, checkpoints = parts, groups = %groups, "state restored");
    let _ = (name, parts, groups);
}

/// Passes a result on, and tells of a refusal by the memory budget.
pub(crate) fn refusals<T, E: StoreError>(
    result: Result<T, WindowError<E>>,
) -> Result<T, WindowError<E>> {
    #[cfg(feature = "tracing")]
    if let Err(error) = &result
        && let Some(denied) = error.denied()
    {
        tracing::warn!(%denied, "refused by the memory budget");
    }
    result
}
