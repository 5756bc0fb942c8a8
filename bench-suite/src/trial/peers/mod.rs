//! What a user could pick instead, beside Weir in the same run. Each does the same work as far as it can; what
//! differs is said where it is.

mod differential; // an incremental Top-1
mod polars; // a batch engine
mod uwheel; // sliding sums

pub(crate) use differential::Differential;
pub(crate) use polars::run_cell as polars;
pub(crate) use uwheel::{Wheels, can_slide};

use crate::stores::Store;
use crate::trial::cell::{Arrival, Cell, Emission, KeyForm, OrderForm, Spread};

/// Whether the peers can rank the rows of a cell and have the same changes: a batch is a point in time for them, so a
/// key must not change twice in it.
pub(crate) fn can_rank(cell: &Cell) -> bool {
    let changes_once = match cell.arrival {
        Arrival::Rejected | Arrival::Fresh => true,
        Arrival::Improving | Arrival::Mixed => cell.spread == Spread::OncePerBatch,
    };
    changes_once
        && cell.store == Store::Memory
        && cell.key == KeyForm::Bigint
        && cell.order == OrderForm::Single
        && cell.emission == Emission::Immediate
        && !cell.nullable
        && !cell.rank
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::{can_rank, can_slide};
    use crate::stores::Store;
    use crate::trial::cell::{Arrival, Cell, Spread};
    use crate::trial::engine::EngineKind;
    use crate::trial::outcome::Outcome;
    use crate::trial::run::{Effort, Flights, run};
    use crate::trial::suite::Trial;
    use crate::trial::window::{List, Shape, WindowCell};

    fn outcomes(trial: Trial) -> Vec<Outcome> {
        let effort = Effort {
            samples: 1,
            time_per_trial: Duration::ZERO,
            peers: true,
        };
        run(trial, effort, &mut Flights::default()).expect("runs")
    }

    fn has_polars() -> bool {
        let python = Command::new("python3")
            .args(["-c", "import polars"])
            .output();
        python.is_ok_and(|output| output.status.success())
    }

    #[test]
    fn peers_that_rank_have_the_same_answers() {
        for arrival in [Arrival::Rejected, Arrival::Improving, Arrival::Fresh] {
            let cell = Cell {
                spread: Spread::OncePerBatch,
                ..Cell::plain(Store::Memory, arrival)
            };
            assert!(can_rank(&cell));
            let outcomes = outcomes(Trial::AppendTop1(cell));
            let peers: Vec<&Outcome> = outcomes.iter().filter(|it| it.engine.is_peer()).collect();
            assert_eq!(
                peers.iter().map(|it| it.engine).collect::<Vec<_>>(),
                [EngineKind::Differential, EngineKind::Polars]
            );
            assert!(peers[0].result.is_ok(), "{:?}", peers[0]);
            assert_eq!(peers[1].result.is_ok(), has_polars(), "{:?}", peers[1]);
        }
    }

    #[test]
    fn wheels_have_the_same_sums() {
        for shape in [Shape::Hop10By2, Shape::Hop60By1] {
            let cell = WindowCell {
                shape,
                list: List::Sum,
                keys: 8,
                ..WindowCell::plain()
            };
            assert!(can_slide(&cell));
            let outcomes = outcomes(Trial::Windows(cell));
            let wheels = outcomes.last().expect("there are some");
            assert_eq!(wheels.engine, EngineKind::Uwheel);
            assert!(wheels.result.is_ok(), "{wheels:?}");
        }
    }
}
