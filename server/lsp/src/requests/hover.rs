//! `textDocument/hover`: a finding's rule, a kernel's resources, an LDS array's share. Nothing elsewhere, since
//! another server answers there.

use std::fmt::Write as _;

use hipsmith_rounds::resources::KernelResources;
use hipsmith_syntax::{Binding, Function, Model};
use hipsmith_target::{Limiter, Resources as Needs, occupancy};
use lsp_types as lsp;

use crate::convert;
use crate::session::Snapshot;

pub fn hover(snapshot: &Snapshot, at: lsp::Position) -> Option<lsp::Hover> {
    let encoding = snapshot.client.encoding;
    let offset = convert::offset(&snapshot.document, encoding, at);
    let model = snapshot.document.model();
    let mut parts = Vec::new();
    let mut range = None;
    let mut covers = |part: &std::ops::Range<usize>| {
        let inside = part.start <= offset && offset <= part.end;
        if inside {
            range = Some(convert::range(&snapshot.document, encoding, part));
        }
        inside
    };
    for (index, kernel) in model.kernels() {
        if covers(&kernel.name_range) {
            parts.push(kernel_text(snapshot, model, index, kernel));
        }
    }
    for array in &model.shared {
        if covers(&array.name_range) {
            parts.push(array_text(snapshot, array));
        }
    }
    for finding in snapshot.findings().iter() {
        if covers(&finding.range)
            && let Some(rule) = hipsmith_lint::rule(finding.rule)
        {
            parts.push(rule_text(rule));
        }
    }
    (!parts.is_empty()).then(|| lsp::Hover {
        contents: lsp::MarkupContent {
            kind: lsp::MarkupKind::Markdown,
            value: parts.join("\n\n---\n\n"),
        }
        .into(),
        range,
    })
}

/// What the rule says, why that matters on this hardware, and where the rest stands.
fn rule_text(rule: &hipsmith_lint::Rule) -> String {
    let mut text = format!(
        "**{}** ({}): {}",
        rule.id,
        rule.family.title(),
        rule.summary
    );
    if let Some(why) = section(rule.docs, "Why it matters on 64 lanes") {
        let _ = write!(text, "\n\n**Why on this hardware:** {why}");
    }
    let _ = write!(
        text,
        "\n\n`hipsmith explain {}` has the whole page.",
        rule.id
    );
    text
}

/// The text under a heading of a rule's page.
fn section<'a>(page: &'a str, heading: &str) -> Option<&'a str> {
    let (_, rest) = page.split_once(&format!("## {heading}\n"))?;
    let text = rest.split("\n## ").next()?.trim();
    (!text.is_empty()).then_some(text)
}

fn kernel_text(snapshot: &Snapshot, model: &Model, index: usize, kernel: &Function) -> String {
    let target = snapshot.document.target();
    let mut text = format!("**{}** on {}\n", kernel.name, target.name);
    let limit = target.lds.max_bytes_per_workgroup;
    for bindings in model.instances(index) {
        let shown: Vec<String> = bindings
            .iter()
            .map(|(name, binding)| match binding {
                Binding::Value(value) => format!("{name} = {value}"),
                Binding::Type(ty) => format!("{name} = {ty}"),
            })
            .collect();
        let of = if shown.is_empty() {
            String::new()
        } else {
            format!(" ({})", shown.join(", "))
        };
        let _ = match model.static_lds(index, &bindings).bytes {
            Some(bytes) => write!(text, "\n- static LDS{of}: {bytes} of {limit} B"),
            None => write!(text, "\n- static LDS{of}: not known before compilation"),
        };
    }
    if let Some(max) = kernel.launch_bounds.as_ref().and_then(|b| b.max_threads) {
        let _ = write!(text, "\n- launch bounds: {max} lanes");
    }
    let blocks: Vec<String> = model
        .block_shapes(index)
        .iter()
        .map(|[x, y, z]| format!("{x}x{y}x{z}"))
        .collect();
    if !blocks.is_empty() {
        let _ = write!(text, "\n- launched with {} lanes", blocks.join(", "));
    }
    let workgroup = model
        .block_shapes(index)
        .iter()
        .filter_map(|shape| u32::try_from(shape.iter().product::<i64>()).ok())
        .max();
    text.push_str(&compiled_text(snapshot, &kernel.name, workgroup));
    text
}

fn compiled_text(snapshot: &Snapshot, kernel: &str, workgroup: Option<u32>) -> String {
    let Some(resources) = &snapshot.resources else {
        return if snapshot.settings.trusted {
            "\n- registers and occupancy: not compiled yet".to_owned()
        } else {
            "\n- registers and occupancy: not compiled, since the workspace is not trusted"
                .to_owned()
        };
    };
    let compilation = match &resources.result {
        Ok(compilation) => compilation,
        Err(why) => return format!("\n- registers and occupancy: not known: {why}"),
    };
    let mut text = String::new();
    for found in compilation.kernels.iter().filter(|k| k.kernel == kernel) {
        text.push_str(&instance_text(snapshot, found, workgroup));
    }
    if text.is_empty() {
        return "\n- registers and occupancy: the compiler emitted no code for it (a template that nothing launches?)"
            .to_owned();
    }
    let age = if *resources.text == *snapshot.document.text() {
        ""
    } else {
        "; the text has changed since: save to compile again"
    };
    let _ = write!(
        text,
        "\n\n*compiled for {} by {}{age}*",
        compilation.arch, compilation.compiler
    );
    text
}

fn instance_text(snapshot: &Snapshot, found: &KernelResources, workgroup: Option<u32>) -> String {
    let target = snapshot.document.target();
    let mut text = format!(
        "\n- {} VGPRs, {} SGPRs, {} B LDS",
        found.vgprs, found.sgprs, found.lds
    );
    if found.scratch > 0 {
        let _ = write!(
            text,
            ", {} B scratch per lane (memory traffic)",
            found.scratch
        );
    }
    if let Some(workgroup) = workgroup {
        let occupancy = occupancy(
            target,
            &Needs {
                vgprs: found.vgprs,
                sgprs: found.sgprs,
                lds_bytes: found.lds,
                workgroup,
            },
        );
        let _ = write!(
            text,
            "\n- occupancy: {} of {} wavefronts per SIMD with {workgroup} lanes per workgroup, limited by {}",
            occupancy.waves_per_simd,
            target.exec.max_waves_per_simd,
            limit_text(occupancy.limiter)
        );
    }
    text
}

fn limit_text(limiter: Limiter) -> &'static str {
    match limiter {
        Limiter::Waves => "the hardware's wavefront slots",
        Limiter::Vgprs => "VGPRs",
        Limiter::Sgprs => "SGPRs",
        Limiter::Lds => "LDS",
        Limiter::Workgroups => "the number or size of workgroups",
        Limiter::DoesNotFit => "resources that do not fit at all: it cannot be launched",
    }
}

fn array_text(snapshot: &Snapshot, array: &hipsmith_syntax::SharedArray) -> String {
    let limit = snapshot.document.target().lds.max_bytes_per_workgroup;
    if array.dynamic {
        return format!(
            "**{}**: dynamic LDS; its size comes from the launch, up to {limit} B with the static arrays",
            array.name
        );
    }
    let elements = array.dim_values.iter().try_fold(1_u64, |all, dim| {
        all.checked_mul(u64::try_from((*dim)?).ok()?)
    });
    match elements
        .zip(array.element_size)
        .and_then(|(n, size)| n.checked_mul(size))
    {
        Some(bytes) => format!(
            "**{}**: {bytes} B of LDS, {:.1} % of the {limit} B a workgroup may have on {}",
            array.name,
            bytes as f64 * 100.0 / f64::from(limit),
            snapshot.document.target().name
        ),
        None => format!(
            "**{}**: LDS of a size that depends on template arguments",
            array.name
        ),
    }
}
