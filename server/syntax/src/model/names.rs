//! Constants: what names, types and calls in a model are worth.

use std::borrow::Cow;
use std::cell::Cell;

use crate::expr::{Macro, Names, evaluate};
use crate::lex::{TokenKind, split_arguments, tokens};
use crate::types::{self, Layout};

use super::{Binding, Expr, Function, Launch, Model, Scope, SharedArray, StaticLds, Variable};

/// How deep definitions may refer to definitions.
const MAX_DEPTH: u32 = 24;
/// Definitions looked at in one evaluation, so that those that fan out come to an end.
const BUDGET: u32 = 500;

/// A model seen from one place.
struct View<'a> {
    model: &'a Model,
    at: usize,
    bindings: &'a [(String, Binding)],
    depth: u32,
    budget: &'a Cell<u32>,
}

impl View<'_> {
    /// The same model from another place, one definition deeper.
    fn elsewhere<'b>(&'b self, at: usize, bindings: &'b [(String, Binding)]) -> Option<View<'b>> {
        let left = self.budget.get();
        if self.depth == 0 || left == 0 {
            return None;
        }
        self.budget.set(left - 1);
        Some(View {
            model: self.model,
            at,
            bindings,
            depth: self.depth - 1,
            budget: self.budget,
        })
    }

    /// Seen from the initializer of `v`, which has the template arguments if it stands in the same function.
    fn at_initializer<'b>(&'b self, v: &Variable, at: usize) -> Option<View<'b>> {
        let same = self.model.function_at(v.name_range.start) == self.model.function_at(self.at);
        self.elsewhere(at, if same { self.bindings } else { &[] })
    }

    fn variable(&self, v: &Variable) -> Option<i64> {
        let init = v.init.as_ref()?;
        if v.ty.pointers > 0 || !self.model.is_unchanged(v) {
            return None;
        }
        let view = self.at_initializer(v, init.range.start)?;
        let value = evaluate(strip_braces(&init.text), &view)?;
        // `unsigned char n = 300` is 44, and `float x = 3` is no integer.
        match v.ty.base.as_str() {
            "auto" | "" => Some(value),
            base => crate::expr::cast(base, Some(value), &view),
        }
    }

    fn layout(&self, ty: &str) -> Option<Layout> {
        types::size_of(ty, &|name| {
            let bound = self.bindings.iter().rev().find(|(n, _)| n == name);
            if let Some((_, Binding::Type(bound))) = bound {
                // A type argument is written where the template is used.
                return self.elsewhere(usize::MAX, &[])?.layout(bound);
            }
            if let Some((_, other)) = self.model.aliases.iter().rev().find(|(n, _)| n == name) {
                return self.elsewhere(self.at, self.bindings)?.layout(other);
            }
            if let Some(m) = self.model.macro_at(name, self.at)
                && m.parameters.is_none()
            {
                return self.elsewhere(self.at, self.bindings)?.layout(&m.body);
            }
            self.struct_layout(name)
        })
    }

    fn struct_layout(&self, name: &str) -> Option<Layout> {
        let s = self.model.structs.iter().rev().find(|s| s.name == name)?;
        if let Some(known) = s.layout.get() {
            return Some(*known);
        }
        let view = self.elsewhere(s.range.end, &[])?;
        let mut whole = Layout { size: 0, align: 1 };
        for field in s.fields.as_ref()? {
            let one = view.layout(&field.ty)?;
            let mut size = one.size;
            for dim in &field.dims {
                size = size.checked_mul(u64::try_from(evaluate(dim, &view)?).ok()?)?;
            }
            whole.align = whole.align.max(one.align);
            whole.size = if s.is_union {
                whole.size.max(size)
            } else {
                let at = whole.size.checked_next_multiple_of(one.align.max(1))?;
                at.checked_add(size)?
            };
        }
        whole.align = whole.align.max(s.align.unwrap_or(1));
        whole.size = whole.size.max(1).checked_next_multiple_of(whole.align)?;
        let _ = s.layout.set(whole);
        Some(whole)
    }

    fn enumerator(&self, at: usize) -> Option<i64> {
        // Walk back to the last one with a value of its own.
        let mut count = 0i64;
        let mut e = self.model.enumerators.get(at)?;
        loop {
            if let Some(value) = &e.value {
                let view = self.elsewhere(e.at, &[])?;
                return evaluate(value, &view)?.checked_add(count);
            }
            let Some(previous) = e.previous else {
                return Some(count);
            };
            count += 1;
            e = self.model.enumerators.get(previous)?;
        }
    }

    fn dims_of_variable(&self, v: &Variable) -> Option<[Option<i64>; 3]> {
        if !self.model.is_unchanged(v) {
            return None;
        }
        let init = v.init.as_ref()?;
        Some(self.at_initializer(v, init.range.start)?.dims(&init.text))
    }

    fn dims_deeper(&self, text: &str) -> [Option<i64>; 3] {
        self.elsewhere(self.at, self.bindings)
            .map_or([None; 3], |v| v.dims(text))
    }

    /// Value of a `dim3` as written: a call, a list in brackets, a variable or a number.
    fn dims(&self, text: &str) -> [Option<i64>; 3] {
        let mut text = text.trim();
        if let Some(rest) = text.strip_prefix("dim3").map(str::trim_start)
            && rest.starts_with(['(', '{'])
        {
            text = rest;
        }
        let is_list = text.starts_with(['(', '{'])
            && crate::lex::matching_close(text, 0) == Some(text.len() - 1);
        if is_list {
            let inner = &text[1..text.len() - 1];
            let parts = split_arguments(inner, 0..inner.len());
            if let [one] = parts.as_slice() {
                return self.dims_deeper(&inner[one.clone()]);
            }
            let mut all = [Some(1); 3];
            for (slot, part) in all.iter_mut().zip(&parts) {
                *slot = evaluate(&inner[part.clone()], self);
            }
            return all;
        }
        if !text.is_empty() && text.bytes().all(crate::lex::is_ident) {
            if let Some(m) = self.model.macro_at(text, self.at)
                && m.parameters.is_none()
            {
                return self.dims_deeper(&m.body);
            }
            if let Some(v) = self.model.variable_at(text, self.at)
                && v.is_dim3()
            {
                return self.dims_of_variable(v).unwrap_or([None; 3]);
            }
        }
        match evaluate(text, self) {
            Some(v) => [Some(v), Some(1), Some(1)],
            None => [None; 3],
        }
    }
}

impl Names for View<'_> {
    fn find_macro(&self, name: &str) -> Option<Cow<'_, Macro>> {
        self.model.macro_at(name, self.at).map(Cow::Borrowed)
    }

    fn value(&self, name: &str) -> Option<i64> {
        if let Some((variable, component)) = name.split_once('.') {
            let v = self.model.variable_at(variable, self.at)?;
            let index = ["x", "y", "z"].iter().position(|c| *c == component)?;
            return if v.is_dim3() {
                self.dims_of_variable(v)?[index]
            } else {
                None
            };
        }
        if let Some((_, binding)) = self.bindings.iter().rev().find(|(n, _)| n == name) {
            return match binding {
                Binding::Value(v) => Some(*v),
                Binding::Type(_) => None,
            };
        }
        if let Some(v) = self.model.variable_at(name, self.at) {
            return self.variable(v);
        }
        // A template parameter without a value hides what has the same name outside.
        if let Some(f) = self.model.function_at(self.at)
            && self.model.functions[f]
                .template_params
                .iter()
                .any(|p| p.name == name)
        {
            return None;
        }
        let qualified = name.contains("::");
        let enumerator = self.model.enumerators.iter().rposition(|e| {
            if qualified {
                e.qualified == name || name.ends_with(&format!("::{}", e.qualified))
            } else {
                e.name == name
            }
        });
        if let Some(at) = enumerator {
            return self.enumerator(at);
        }
        if !qualified {
            // A class's members see its constants.
            let inside = self
                .model
                .structs
                .iter()
                .filter(|s| !s.path.is_empty() && s.range.contains(&self.at))
                .filter_map(|s| {
                    let name = format!("{}{name}", s.path);
                    let v = self.model.variables.iter().find(|v| v.name == name)?;
                    Some((s.range.len(), v))
                })
                .min_by_key(|(len, _)| *len);
            if let Some((_, v)) = inside {
                return self.variable(v);
            }
        }
        if qualified {
            // Namespaces before the name are not followed; a class's member is known under the class's name.
            let v = self.model.variables.iter().find(|v| {
                v.scope.start == 0 && (v.name == name || name.ends_with(&format!("::{}", v.name)))
            })?;
            return self.variable(v);
        }
        (name == "warpSize").then(|| i64::from(self.model.target.wave_size))
    }

    fn size_of(&self, ty: &str) -> Option<u64> {
        self.layout(ty).map(|l| l.size)
    }

    fn is_type(&self, name: &str) -> bool {
        self.bindings
            .iter()
            .any(|(n, b)| n == name && matches!(b, Binding::Type(_)))
            || self.model.aliases.iter().any(|(n, _)| n == name)
            || self.model.structs.iter().any(|s| s.name == name)
            || self.model.function_at(self.at).is_some_and(|f| {
                self.model.functions[f]
                    .template_params
                    .iter()
                    .any(|p| p.is_type && p.name == name)
            })
    }

    /// One-line functions: `return expression;`
    fn call(&self, name: &str, arguments: &[i64]) -> Option<i64> {
        let last = name.rsplit("::").next()?;
        let f = self.model.functions.iter().find(|f| f.name == last)?;
        if f.params.len() != arguments.len() || !f.template_params.iter().all(|p| p.is_type) {
            return None;
        }
        let start = f.body.start + 1;
        let body = self.model.text.get(start..f.body.end.checked_sub(1)?)?;
        let toks = tokens(body);
        let semicolons = toks.iter().filter(|t| t.text(body) == ";").count();
        let (first, last) = (toks.first()?, toks.last()?);
        if first.text(body) != "return" || last.text(body) != ";" || semicolons != 1 {
            return None;
        }
        let bindings: Vec<(String, Binding)> = f
            .params
            .iter()
            .zip(arguments)
            .map(|(p, v)| (p.name.clone(), Binding::Value(*v)))
            .collect();
        let view = self.elsewhere(start, &bindings)?;
        evaluate(body.get(first.range.end..last.range.start)?, &view)
    }
}

/// `{x}` as an initializer is `x`.
fn strip_braces(text: &str) -> &str {
    let t = text.trim();
    t.strip_prefix('{')
        .and_then(|t| t.strip_suffix('}'))
        .map_or(t, str::trim)
}

/// Functions known not to change their arguments (or no functions at all).
fn leaves_arguments_alone(name: &str) -> bool {
    name.starts_with("hip")
        || name.starts_with("cuda")
        || matches!(
            name,
            "dim3"
                | "min"
                | "max"
                | "abs"
                | "ceil"
                | "floor"
                | "sqrt"
                | "pow"
                | "printf"
                | "fprintf"
                | "assert"
                | "sizeof"
                | "if"
                | "while"
                | "for"
                | "switch"
                | "return"
                | "malloc"
                | "calloc"
                | "resize"
        )
}

impl Variable {
    fn is_dim3(&self) -> bool {
        self.ty.base == "dim3"
            || (self.ty.base == "auto"
                && self
                    .init
                    .as_ref()
                    .is_some_and(|i| i.text.starts_with("dim3")))
    }
}

impl Model {
    fn view<'a>(&'a self, scope: &Scope<'a>, budget: &'a Cell<u32>) -> View<'a> {
        View {
            model: self,
            at: scope.at,
            bindings: scope.bindings,
            depth: MAX_DEPTH,
            budget,
        }
    }

    /// The value of a C++ integer constant expression, `None` if it has none or it is not known.
    ///
    /// Knows macros (also function-like ones), `const`, `constexpr` and never-changed variables, enumerators,
    /// constants of classes, one-line functions, `sizeof`, casts, template parameters bound in `scope`, components of
    /// `dim3` variables, and `warpSize` (the target's).
    pub fn eval(&self, expression: &str, scope: &Scope<'_>) -> Option<i64> {
        let budget = Cell::new(BUDGET);
        evaluate(expression, &self.view(scope, &budget))
    }

    /// The value of a `dim3` as written, `[x, y, z]` with 1 for what is not given.
    pub fn eval_dims(&self, expression: &str, scope: &Scope<'_>) -> Option<[i64; 3]> {
        let budget = Cell::new(BUDGET);
        match self.view(scope, &budget).dims(expression) {
            [Some(x), Some(y), Some(z)] => Some([x, y, z]),
            _ => None,
        }
    }

    /// Size of a type in bytes, on the device.
    pub fn size_of(&self, ty: &str, scope: &Scope<'_>) -> Option<u64> {
        let budget = Cell::new(BUDGET);
        self.view(scope, &budget).size_of(ty)
    }

    /// Alignment of a type in bytes, on the device.
    pub fn align_of(&self, ty: &str, scope: &Scope<'_>) -> Option<u64> {
        let budget = Cell::new(BUDGET);
        self.view(scope, &budget).layout(ty).map(|l| l.align)
    }

    /// Whether nothing changes the variable after its initialization: it is `const`, or a local that is never assigned,
    /// incremented, taken the address of, or passed to a function that could change it.
    pub fn is_unchanged(&self, v: &Variable) -> bool {
        if v.is_const {
            return true;
        }
        // A variable outside functions can be changed from another file.
        if v.scope == (0..self.text.len()) {
            return false;
        }
        *v.unchanged.get_or_init(|| self.never_changed(v))
    }

    fn never_changed(&self, v: &Variable) -> bool {
        let Some(text) = self.text.get(v.scope.clone()) else {
            return false;
        };
        let Some(declared) = v.name_range.start.checked_sub(v.scope.start) else {
            return false;
        };
        let toks = tokens(text);
        let word = |n: usize| toks.get(n).map_or("", |t| t.text(text));
        let before = |i: usize, n: usize| i.checked_sub(n).map_or("", word);
        // Names of the calls whose brackets are open, "" for a bracket that is no call's.
        let mut calls: Vec<&str> = Vec::new();
        for (i, t) in toks.iter().enumerate() {
            match t.text(text) {
                "(" => {
                    let is_call = i > 0 && toks[i - 1].kind == TokenKind::Ident;
                    calls.push(if is_call { before(i, 1) } else { "" });
                }
                ")" => {
                    calls.pop();
                }
                w if w == v.name && t.range.start != declared => {
                    let prev = before(i, 1);
                    if matches!(prev, "." | "->" | "::") {
                        continue;
                    }
                    let component = word(i + 1) == "." && matches!(word(i + 2), "x" | "y" | "z");
                    let next = if component { i + 3 } else { i + 1 };
                    let after = word(next);
                    let assigned = matches!(
                        after,
                        "=" | "+="
                            | "-="
                            | "*="
                            | "/="
                            | "%="
                            | "<<="
                            | "&="
                            | "|="
                            | "^="
                            | "++"
                            | "--"
                    ) || (after == ">" && word(next + 1) == ">=");
                    let stepped = matches!(prev, "++" | "--");
                    let prev2 = before(i, 2);
                    let binary = i >= 2
                        && prev2 != "return"
                        && (toks[i - 2].kind != TokenKind::Punct || matches!(prev2, ")" | "]"));
                    let address = prev == "&" && !binary;
                    let read_in = prev == ">" && prev2 == ">";
                    let bare =
                        matches!(prev, "(" | ",") && matches!(after, ")" | ",") && !component;
                    let passed = bare
                        && calls.last().is_some_and(|name| {
                            !name.is_empty()
                                && !leaves_arguments_alone(name)
                                && !self.takes_by_value(name)
                                // `dim3 block(n, n)`: the bracket belongs to a declared variable.
                                && self.variable_at(name, v.scope.start + t.range.start).is_none()
                        });
                    if assigned || stepped || address || read_in || passed {
                        return false;
                    }
                }
                _ => {}
            }
        }
        true
    }

    /// Whether all functions of this file called `name` (at least one) take what they take by value or as `const`.
    fn takes_by_value(&self, name: &str) -> bool {
        let mut found = self.functions.iter().filter(|f| f.name == name).peekable();
        found.peek().is_some()
            && found.all(|f| f.params.iter().all(|p| !p.ty.is_reference || p.ty.is_const))
    }

    /// What the launches of this file bind a kernel's template parameters to, without repetition. A function without
    /// template parameters has one instance, with nothing bound. Arguments whose value is not known are left out.
    pub fn instances(&self, function: usize) -> Vec<Vec<(String, Binding)>> {
        let Some(f) = self.functions.get(function) else {
            return Vec::new();
        };
        if f.template_params.is_empty() {
            return vec![Vec::new()];
        }
        let mut all: Vec<Vec<(String, Binding)>> = Vec::new();
        for launch in self.launches_of(function) {
            let bound = self.instance_of(function, launch);
            if !all.contains(&bound) {
                all.push(bound);
            }
        }
        all
    }

    /// What one launch binds the template parameters of the kernel `function` to.
    pub fn instance_of(&self, function: usize, launch: &Launch) -> Vec<(String, Binding)> {
        self.functions.get(function).map_or_else(Vec::new, |f| {
            self.bind(f, &launch.template_args, &Scope::at(launch.range.start))
        })
    }

    /// Bind the template parameters of `f` to `arguments`, which stand at `scope`.
    fn bind(&self, f: &Function, arguments: &[Expr], scope: &Scope<'_>) -> Vec<(String, Binding)> {
        let mut bound: Vec<(String, Binding)> = Vec::new();
        for (i, p) in f.template_params.iter().enumerate() {
            let here = Scope::at(f.range.start).with(&bound);
            let binding = match (arguments.get(i), &p.default) {
                (Some(a), _) if p.is_type => Some(Binding::Type(resolve_type(&a.text, scope))),
                (Some(a), _) => self.eval(&a.text, scope).map(Binding::Value),
                (None, Some(d)) if p.is_type => Some(Binding::Type(resolve_type(d, &here))),
                (None, Some(d)) => self.eval(d, &here).map(Binding::Value),
                (None, None) => None,
            };
            if let Some(b) = binding {
                bound.push((p.name.clone(), b));
            }
        }
        bound
    }

    /// Size of one `__shared__` array in bytes; `None` for a dynamic one and where it is not known.
    pub fn shared_bytes(&self, array: &SharedArray, bindings: &[(String, Binding)]) -> Option<u64> {
        if array.dynamic {
            return None;
        }
        let scope = Scope::at(array.name_range.start).with(bindings);
        let mut bytes = self.size_of(&array.element, &scope)?;
        for dim in &array.dims {
            bytes = bytes.checked_mul(u64::try_from(self.eval(&dim.text, &scope)?).ok()?)?;
        }
        Some(bytes)
    }

    /// Static LDS of a kernel with its template parameters bound, the device functions that it calls included.
    pub fn static_lds(&self, function: usize, bindings: &[(String, Binding)]) -> StaticLds {
        let mut visited: Vec<(usize, Vec<(String, Binding)>)> = Vec::new();
        let mut todo = vec![(function, bindings.to_vec())];
        let mut sizes: Vec<(u64, u64)> = Vec::new();
        let mut out = StaticLds::default();
        let mut known = true;
        while let Some((f, bound)) = todo.pop() {
            if visited.len() > 64 || visited.iter().any(|(g, b)| *g == f && *b == bound) {
                continue;
            }
            let Some(function) = self.functions.get(f) else {
                continue;
            };
            for (index, array) in self.shared_of(f).filter(|(_, s)| !s.dynamic) {
                out.arrays.push(index);
                let scope = Scope::at(array.name_range.start).with(&bound);
                match self.shared_bytes(array, &bound) {
                    Some(bytes) => {
                        let align = array
                            .align
                            .or_else(|| self.align_of(&array.element, &scope));
                        sizes.push((align.unwrap_or(1).max(1), bytes));
                    }
                    None => known = false,
                }
            }
            for call in self.calls.iter().filter(|c| function.body.contains(&c.at)) {
                for (g, callee) in self.functions.iter().enumerate() {
                    if callee.is_device() && callee.name == call.name {
                        let scope = Scope::at(call.at).with(&bound);
                        todo.push((g, self.bind(callee, &call.template_args, &scope)));
                    }
                }
            }
            visited.push((f, bound));
        }
        // The compiler lays the largest alignments out first.
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let total = sizes.iter().try_fold(0u64, |at, (align, bytes)| {
            at.checked_next_multiple_of(*align)?.checked_add(*bytes)
        });
        out.bytes = if known { total } else { None };
        out
    }
}

/// A type argument, with a template parameter of the surrounding function replaced by what it is bound to.
fn resolve_type(text: &str, scope: &Scope<'_>) -> String {
    match scope.bindings.iter().find(|(n, _)| n == text.trim()) {
        Some((_, Binding::Type(t))) => t.clone(),
        _ => text.trim().to_owned(),
    }
}
