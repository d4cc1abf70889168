//! `textDocument/inlayHint`: bytes at LDS arrays, LDS and occupancy at kernels. All of it is predicted, and says so.

use std::fmt::Write as _;

use hipsmith_syntax::{Model, SharedArray};
use hipsmith_target::Limiter;
use lsp_types as lsp;

use crate::session::Snapshot;
use crate::{convert, figures};

/// The hints between two places of the text.
pub fn inlay_hints(snapshot: &Snapshot, range: lsp::Range) -> Vec<lsp::InlayHint> {
    let wanted = snapshot.settings.hints;
    if !wanted.enable {
        return Vec::new();
    }
    let encoding = snapshot.client.encoding;
    let start = convert::offset(&snapshot.document, encoding, range.start);
    let end = convert::offset(&snapshot.document, encoding, range.end);
    let shown = |at: &usize| start <= *at && *at <= end;
    let model = snapshot.document.model();
    let mut hints: Vec<(usize, Hint)> = Vec::new();
    if wanted.lds_bytes {
        for array in &model.shared {
            let at = end_of(model, array);
            if shown(&at) {
                hints.extend(array_hint(snapshot, model, array).map(|hint| (at, hint)));
            }
        }
    }
    if wanted.occupancy {
        for (index, kernel) in model.kernels() {
            let at = kernel.name_range.end;
            if shown(&at) {
                hints.extend(kernel_hint(snapshot, model, index).map(|hint| (at, hint)));
            }
        }
    }
    hints.sort_by_key(|(at, _)| *at);
    hints
        .into_iter()
        .map(|(at, hint)| lsp::InlayHint {
            position: convert::position(&snapshot.document, encoding, at),
            label: hint.label.into(),
            kind: None,
            text_edits: None,
            tooltip: Some(hint.tooltip.into()),
            padding_left: Some(true),
            padding_right: Some(true),
            data: None,
        })
        .collect()
}

struct Hint {
    label: String,
    tooltip: String,
}

/// Behind the last bracket of an array, or behind a scalar's name.
fn end_of(model: &Model, array: &SharedArray) -> usize {
    let Some(last) = array.dims.last() else {
        return array.name_range.end;
    };
    let behind = last.range.end;
    let bracket = model
        .text()
        .get(behind..array.range.end)
        .and_then(|rest| rest.find(']'));
    bracket.map_or(behind, |at| behind + at + 1)
}

fn array_hint(snapshot: &Snapshot, model: &Model, array: &SharedArray) -> Option<Hint> {
    let bytes = figures::array_bytes(model, array);
    let text = bytes.text()?;
    let target = snapshot.document.target();
    let limit = target.lds.max_bytes_per_workgroup;
    let share = bytes.single().map_or_else(String::new, |bytes| {
        format!(
            ", {:.1} % of what a workgroup may have",
            bytes as f64 * 100.0 / f64::from(limit)
        )
    });
    Some(Hint {
        label: text.clone(),
        tooltip: format!(
            "Predicted for {}: {} takes {text} of the {} B of LDS{share}.",
            target.name,
            array.name,
            figures::grouped(limit.into()),
        ),
    })
}

fn kernel_hint(snapshot: &Snapshot, model: &Model, kernel: usize) -> Option<Hint> {
    let target = snapshot.document.target();
    let lds = figures::static_lds(model, kernel);
    let mut labels = Vec::new();
    let mut tooltip = format!("Predicted for {}, not measured.", target.name);
    if lds.single() != Some(0)
        && let Some(text) = lds.text()
    {
        let limit = target.lds.max_bytes_per_workgroup;
        let _ = write!(
            tooltip,
            " Static LDS: {text} of {} B.",
            figures::grouped(limit.into())
        );
        labels.push(format!("LDS {text}"));
    }
    if let Some(predicted) = figures::predicted(snapshot, model, kernel) {
        let most = target.exec.max_waves_per_simd;
        let waves = predicted.occupancy.waves_per_simd;
        let with = format!(
            "{} lanes and {} B of LDS per workgroup",
            predicted.workgroup,
            figures::grouped(predicted.lds_bytes.into())
        );
        if predicted.occupancy.limiter == Limiter::DoesNotFit {
            labels.push("does not fit".to_owned());
            let _ = write!(tooltip, " A launch with {with} does not fit.");
        } else {
            let (bound, at_most) = match predicted.registers {
                Some(_) => ("", ""),
                None => ("\u{2264} ", "at most "),
            };
            labels.push(format!("occupancy {bound}{waves}/{most}"));
            let _ = write!(
                tooltip,
                " Occupancy: {at_most}{waves} of {most} wavefronts per SIMD with {with}, limited by {}.",
                predicted.occupancy.limiter
            );
            match predicted.registers {
                Some((vgprs, sgprs)) => {
                    let _ = write!(tooltip, " Compiled: {vgprs} VGPRs, {sgprs} SGPRs.");
                }
                None => tooltip
                    .push_str(" Registers are not known before compilation and can lower it."),
            }
        }
    }
    (!labels.is_empty()).then(|| Hint {
        label: labels.join(", "),
        tooltip,
    })
}
