//! The time that the caller says it is.

use crate::error::ClockUnset;
use crate::spec::RankSpec;

/// Milliseconds since an epoch of the caller's. Never goes back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    now_ms: i64,
}

/// No time was given.
const UNSET: i64 = i64::MIN;

impl Default for Clock {
    fn default() -> Self {
        Self { now_ms: UNSET }
    }
}

impl Clock {
    pub(crate) fn advance(&mut self, now_ms: i64) {
        self.now_ms = self.now_ms.max(now_ms);
    }

    pub(crate) fn now_ms(self) -> i64 {
        self.now_ms
    }

    /// Rows that expire need to know when they came.
    pub(crate) fn check(self, spec: &RankSpec) -> Result<(), ClockUnset> {
        if self.now_ms == UNSET && spec.ttl_ms.is_some() {
            return Err(ClockUnset);
        }
        Ok(())
    }
}
