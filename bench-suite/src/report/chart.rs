//! Times as dots on a logarithmic axis, one line a cell: HTML around strips of SVG that stretch with the page.

use maud::{Markup, html};

/// A value with the least and the greatest of its samples.
pub(crate) struct Dot {
    /// Which engine: also the class that colours it.
    pub(crate) engine: String,
    pub(crate) value: f64,
    pub(crate) least: f64,
    pub(crate) greatest: f64,
    /// Whether the value is written at the end of the line.
    pub(crate) is_labelled: bool,
}

/// A line of a chart.
pub(crate) struct Strip {
    pub(crate) label: String,
    pub(crate) dots: Vec<Dot>,
}

/// The axis of a chart, from its least value to its greatest, with some room.
struct Axis {
    least: f64,
    greatest: f64,
}

impl Axis {
    fn of(strips: &[Strip]) -> Self {
        let dots = || strips.iter().flat_map(|strip| &strip.dots);
        let least = dots().map(|dot| dot.least).fold(1.0, f64::min);
        let greatest = dots().map(|dot| dot.greatest).fold(2.0, f64::max);
        Self { least, greatest }
    }

    /// Where a value is, in percent of the width: room is left for the number at the end of the line.
    fn place(&self, value: f64) -> f64 {
        2.0 + 84.0 * (value / self.least).ln() / (self.greatest / self.least).ln()
    }

    /// Powers of ten and their halves that lie on it.
    fn ticks(&self) -> Vec<f64> {
        let exponents = -6..=9;
        let steps =
            exponents.flat_map(|exponent| [1.0, 2.0, 5.0].map(|step| step * 10_f64.powi(exponent)));
        let on_axis: Vec<f64> = steps
            .filter(|&tick| tick >= self.least * 0.999 && tick <= self.greatest)
            .collect();
        // What is too many for the width of a phone.
        let powers = on_axis.len() > 7;
        on_axis
            .into_iter()
            .filter(|tick| !powers || (tick.log10().fract().abs() < 1e-9))
            .collect()
    }
}

/// Percent of the width, to a hundredth.
fn percent(place: f64) -> String {
    format!("{place:.2}%")
}

/// `0.5×`, `12×`.
fn shown(value: f64, unit: &str) -> String {
    if value < 10.0 {
        let text = format!("{value:.2}");
        format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
    } else {
        format!("{value:.0}{unit}")
    }
}

/// A chart of values in `unit`.
pub(crate) fn chart(strips: &[Strip], unit: &str) -> Markup {
    let axis = Axis::of(strips);
    html! {
        div class="chart" {
            div class="strip axis" {
                div class="label" {}
                svg width="100%" height="18" role="presentation" {
                    @for tick in axis.ticks() {
                        text x=(percent(axis.place(tick))) y="13" text-anchor="middle" { (shown(tick, unit)) }
                    }
                }
            }
            @for strip in strips {
                div class="strip" {
                    div class="label" { (strip.label) }
                    svg width="100%" height="24" role="img" aria-label=(described(strip, unit)) {
                        @for tick in axis.ticks() {
                            @let at = percent(axis.place(tick));
                            line class="tick" x1=(at) x2=(at) y1="0" y2="24" {}
                        }
                        @for dot in &strip.dots {
                            g class=(dot.engine) {
                                line x1=(percent(axis.place(dot.least))) x2=(percent(axis.place(dot.greatest))) y1="12" y2="12" {}
                                circle cx=(percent(axis.place(dot.value))) cy="12" r="5" {
                                    title { (dot.engine) ": " (shown(dot.value, unit)) }
                                }
                                @if dot.is_labelled {
                                    text x="100%" y="16" text-anchor="end" { (shown(dot.value, unit)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn described(strip: &Strip, unit: &str) -> String {
    let dots = strip.dots.iter();
    let dots = dots.map(|dot| format!("{} {}", dot.engine, shown(dot.value, unit)));
    format!("{}: {}", strip.label, dots.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::{Axis, Dot, Strip, chart, shown};

    fn strip(value: f64) -> Strip {
        Strip {
            label: "<cell>".to_owned(),
            dots: vec![Dot {
                engine: "top-1".to_owned(),
                value,
                least: value * 0.9,
                greatest: value * 1.1,
                is_labelled: true,
            }],
        }
    }

    #[test]
    fn values_lie_on_a_logarithmic_axis() {
        let axis = Axis {
            least: 1.0,
            greatest: 100.0,
        };
        assert_eq!(
            [1.0, 10.0, 100.0].map(|value| axis.place(value)),
            [2.0, 44.0, 86.0]
        );
        assert_eq!(axis.ticks(), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        assert_eq!(
            [0.5, 2.0, 3.254, 12.4].map(|value| shown(value, "×")),
            ["0.5×", "2×", "3.25×", "12×"]
        );
    }

    #[test]
    fn a_chart_says_in_words_what_it_shows_and_escapes_them() {
        let page = chart(&[strip(4.0)], "×").into_string();
        assert!(
            page.contains(r#"aria-label="&lt;cell&gt;: top-1 4×""#),
            "{page}"
        );
        assert!(page.contains(r#"<circle cx="80.60%""#), "{page}");
    }
}
