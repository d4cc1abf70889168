//! Constants: what names, types and calls in a model are worth.

use std::borrow::Cow;
use std::cell::Cell;

use crate::expr::{Macro, Names, evaluate};
use crate::lex::{TokenKind, split_arguments, tokens};

use super::classes::{ClassRef, Meaning, Segment, canonical, segments};
use super::{Binding, Expr, Function, Launch, Model, Scope, SharedArray, Variable};

/// How deep definitions may refer to definitions.
const MAX_DEPTH: u32 = 32;
/// Definitions looked at in one evaluation, so that those that fan out come to an end.
const BUDGET: u32 = 2000;

/// A model seen from one place, with what the headers around it know.
#[derive(Clone, Copy)]
pub(super) struct View<'a, 'v> {
    /// The file that the question is about.
    pub(super) root: &'a Model,
    /// The file that the place is in: the same, or one of its headers.
    pub(super) model: &'a Model,
    pub(super) at: usize,
    pub(super) bindings: &'v [(String, Binding)],
    depth: u32,
    budget: &'v Cell<u32>,
}

impl<'a, 'v> View<'a, 'v> {
    /// The same question from another place, one definition deeper.
    pub(super) fn elsewhere<'b>(
        &self,
        model: &'a Model,
        at: usize,
        bindings: &'b [(String, Binding)],
    ) -> Option<View<'a, 'b>>
    where
        'v: 'b,
    {
        let left = self.budget.get();
        if self.depth == 0 || left == 0 {
            return None;
        }
        self.budget.set(left - 1);
        Some(View {
            root: self.root,
            model,
            at,
            bindings,
            depth: self.depth - 1,
            budget: self.budget,
        })
    }

    /// The files whose names are known here: this one and its headers first, then those around the one that asks.
    pub(super) fn files(&self) -> impl Iterator<Item = &'a Model> + use<'a> {
        let (root, model) = (self.root, self.model);
        let with_headers = |m: &'a Model| {
            std::iter::once(m).chain(m.headers().iter().rev().map(|h| h.model().as_ref()))
        };
        let others = (!std::ptr::eq(root, model)).then(|| with_headers(root));
        with_headers(model).chain(others.into_iter().flatten())
    }

    /// Where names are looked up in `file`: at this place, or at its end when it is another file.
    fn place_in(&self, file: &Model) -> usize {
        if std::ptr::eq(file, self.model) {
            self.at
        } else {
            usize::MAX
        }
    }

    fn find_variable(&self, name: &str) -> Option<(&'a Model, &'a Variable)> {
        self.files()
            .find_map(|m| Some((m, m.variable_at(name, self.place_in(m))?)))
    }

    /// Seen from the initializer of `v`, which has the template arguments if it stands in the same function.
    fn at_initializer(&self, m: &'a Model, v: &Variable, at: usize) -> Option<View<'a, 'v>> {
        let same = std::ptr::eq(m, self.model)
            && m.function_at(v.name_range.start) == m.function_at(self.at);
        self.elsewhere(m, at, if same { self.bindings } else { &[] })
    }

    fn variable(&self, m: &'a Model, v: &Variable) -> Option<i64> {
        let init = v.init.as_ref()?;
        if v.ty.pointers > 0 || !m.is_unchanged(v) {
            return None;
        }
        let view = self.at_initializer(m, v, init.range.start)?;
        let value = evaluate(strip_braces(&init.text), &view)?;
        // `unsigned char n = 300` is 44, and `float x = 3` is no integer.
        match v.ty.base.as_str() {
            "auto" | "" => Some(value),
            base => crate::expr::cast(base, Some(value), &view),
        }
    }

    pub(super) fn enumerator(
        &self,
        m: &'a Model,
        at: usize,
        bindings: &[(String, Binding)],
    ) -> Option<i64> {
        // Walk back to the last one with a value of its own.
        let mut count = 0i64;
        let mut e = m.enumerators.get(at)?;
        loop {
            if let Some(value) = &e.value {
                let view = self.elsewhere(m, e.at, bindings)?;
                return evaluate(value, &view)?.checked_add(count);
            }
            let Some(previous) = e.previous else {
                return Some(count);
            };
            count += 1;
            e = m.enumerators.get(previous)?;
        }
    }

    fn dims_of_variable(&self, m: &'a Model, v: &Variable) -> Option<[Option<i64>; 3]> {
        if !m.is_unchanged(v) {
            return None;
        }
        let init = v.init.as_ref()?;
        Some(
            self.at_initializer(m, v, init.range.start)?
                .dims(&init.text),
        )
    }

    fn dims_deeper(&self, text: &str) -> [Option<i64>; 3] {
        self.elsewhere(self.model, self.at, self.bindings)
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
            if let Some(m) = self.find_macro(text)
                && m.parameters.is_none()
            {
                return self.dims_deeper(&m.body);
            }
            if let Some((m, v)) = self.find_variable(text)
                && v.is_dim3()
            {
                return self.dims_of_variable(m, v).unwrap_or([None; 3]);
            }
        }
        match evaluate(text, self) {
            Some(v) => [Some(v), Some(1), Some(1)],
            None => [None; 3],
        }
    }

    /// `A::B<T>::name`
    fn qualified(&self, name: &str) -> Option<i64> {
        let path = segments(name)?;
        let ((last, arguments), before) = path.split_last()?;
        if let Some(value) = self.library_value(&path) {
            return Some(value);
        }
        // A variable template is not known.
        if arguments.is_some() {
            return None;
        }
        if let Some(class) = self.class_of(before) {
            return self
                .elsewhere(self.model, self.at, self.bindings)?
                .member_value(&class, last, 0);
        }
        for m in self.files() {
            let enumerator = m.index().enumerators.get(last).rev().find(|i| {
                m.enumerators.get(*i).is_some_and(|e| {
                    e.name == *last
                        && (e.qualified == name || name.ends_with(&format!("::{}", e.qualified)))
                })
            });
            if let Some(at) = enumerator {
                return self.enumerator(m, at, &[]);
            }
            // Namespaces before the name are not followed; a class's member is known under the class's name.
            let v = m
                .index()
                .variables
                .get(last)
                .filter_map(|i| m.variables.get(i))
                .find(|v| {
                    v.scope.start == 0
                        && (v.name == name || name.ends_with(&format!("::{}", v.name)))
                });
            if let Some(v) = v {
                return self.variable(m, v);
            }
        }
        None
    }

    fn class_of(&self, path: &[Segment]) -> Option<ClassRef<'a>> {
        if path.is_empty() {
            return None;
        }
        let text: Vec<String> = path
            .iter()
            .map(|(name, arguments)| match arguments {
                None => name.clone(),
                Some(all) => format!("{name}<{}>", all.join(", ")),
            })
            .collect();
        let view = self.elsewhere(self.model, self.at, self.bindings)?;
        match view.meaning(&text.join("::"))? {
            Meaning::Class(class) => Some(class),
            _ => None,
        }
    }

    /// Type traits.
    fn library_value(&self, path: &[Segment]) -> Option<i64> {
        let path = path
            .strip_prefix([("std".to_owned(), None)].as_slice())
            .unwrap_or(path);
        let (name, arguments) = match path {
            [(name, Some(arguments))] => (name.strip_suffix("_v")?, arguments),
            [(name, Some(arguments)), (member, None)] if member == "value" => {
                (name.as_str(), arguments)
            }
            _ => return None,
        };
        let view = self.elsewhere(self.model, self.at, self.bindings)?;
        let is = |kind: &dyn Fn(&str) -> bool, ty: &str| -> Option<i64> {
            match view.meaning(ty)? {
                Meaning::Plain(text) => Some(i64::from(kind(&canonical(&text)))),
                _ => Some(0),
            }
        };
        match (name, arguments.as_slice()) {
            ("is_same", [a, b]) => {
                // A type that nobody here knows may be another name for the other one.
                let (a, b) = (view.closed(a), view.closed(b));
                if view.same_type(&a, &b) {
                    return Some(1);
                }
                view.meaning(&a)?;
                view.meaning(&b)?;
                Some(0)
            }
            ("is_floating_point", [a]) => {
                is(&|t| matches!(t, "float" | "double" | "long double"), a)
            }
            ("is_integral", [a]) => is(
                &|t| {
                    !matches!(t, "float" | "double" | "long double" | "__half")
                        && !t.contains('*')
                        && t.split(' ').all(|w| {
                            matches!(
                                w,
                                "unsigned" | "signed" | "char" | "short" | "int" | "long" | "bool"
                            )
                        })
                },
                a,
            ),
            ("is_pointer", [a]) => is(&|t| t.contains('*'), a),
            ("integral_constant", [_, v]) => evaluate(v, &view),
            ("bool_constant", [v]) => evaluate(v, &view),
            _ => None,
        }
    }
}

impl Names for View<'_, '_> {
    fn find_macro(&self, name: &str) -> Option<Cow<'_, Macro>> {
        if let Some(m) = self.model.macro_at(name, self.at) {
            return Some(Cow::Borrowed(m));
        }
        // A header sees what was defined before it was included.
        if std::ptr::eq(self.model, self.root) {
            return None;
        }
        self.root.macro_at(name, usize::MAX).map(Cow::Borrowed)
    }

    fn value(&self, name: &str) -> Option<i64> {
        if let Some((variable, component)) = name.split_once('.') {
            let (m, v) = self.find_variable(variable)?;
            let index = ["x", "y", "z"].iter().position(|c| *c == component)?;
            return if v.is_dim3() {
                self.dims_of_variable(m, v)?[index]
            } else {
                None
            };
        }
        if name.contains("::") || name.contains('<') {
            return self.qualified(name);
        }
        if let Some((_, binding)) = self.bindings.iter().rev().find(|(n, _)| n == name) {
            return match binding {
                Binding::Value(v) => Some(*v),
                Binding::Type(_) => None,
            };
        }
        let own = self.model.variable_at(name, self.at);
        if let Some(v) = own
            && v.scope.len() < self.model.text.len()
        {
            return self.variable(self.model, v);
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
        // A class's members see its constants.
        for class in self.classes_around() {
            if let Some(value) = self
                .elsewhere(self.model, self.at, self.bindings)?
                .member_value(&class, name, 0)
            {
                return Some(value);
            }
        }
        for m in self.files() {
            if let Some(v) = m.variable_at(name, self.place_in(m)) {
                return self.variable(m, v);
            }
            let enumerator = m
                .index()
                .enumerators
                .get(name)
                .rev()
                .find(|i| m.enumerators.get(*i).is_some_and(|e| e.name == name));
            if let Some(at) = enumerator {
                return self.enumerator(m, at, &[]);
            }
        }
        (name == "warpSize").then(|| i64::from(self.model.target.wave_size))
    }

    fn size_of(&self, ty: &str) -> Option<u64> {
        if let Some(layout) = self.layout(ty) {
            return Some(layout.size);
        }
        // An expression: so far only the name of a variable.
        let (m, v) = self.find_variable(ty)?;
        if v.ty.pointers > 0 || v.ty.is_reference {
            return None;
        }
        let view = self.at_initializer(m, v, v.name_range.start)?;
        view.layout(&v.ty.base).map(|l| l.size)
    }

    fn align_of(&self, ty: &str) -> Option<u64> {
        self.layout(ty).map(|l| l.align)
    }

    fn is_type(&self, name: &str) -> bool {
        self.bindings
            .iter()
            .any(|(n, b)| n == name && matches!(b, Binding::Type(_)))
            || self.files().any(|m| {
                m.index()
                    .aliases
                    .get(name)
                    .any(|i| m.aliases[i].name == name)
                    || m.index()
                        .classes
                        .get(name)
                        .any(|i| m.classes[i].plain_name() == name)
            })
            || self.model.function_at(self.at).is_some_and(|f| {
                self.model.functions[f]
                    .template_params
                    .iter()
                    .any(|p| p.is_type && p.name == name)
            })
    }

    fn call(&self, name: &str, arguments: &[i64]) -> Option<i64> {
        self.call_function(name, arguments)
    }
}

/// A value as a demangled name writes it: `(Mode)2`, `4u`, `-1`, `true`.
pub(super) fn demangled_value(text: &str) -> Option<i64> {
    let mut text = text.trim();
    if text.starts_with('(') {
        let close = crate::lex::matching_close(text, 0)?;
        text = text.get(close + 1..)?.trim();
    }
    match text {
        "true" => return Some(1),
        "false" => return Some(0),
        _ => {}
    }
    text.trim_end_matches(['u', 'l', 'U', 'L']).parse().ok()
}

/// `{x}` as an initializer is `x`.
pub(super) fn strip_braces(text: &str) -> &str {
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
    pub(super) fn view<'a, 'v>(
        &'a self,
        root: &'a Model,
        scope: &Scope<'v>,
        budget: &'v Cell<u32>,
    ) -> View<'a, 'v> {
        View {
            root,
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
        evaluate(expression, &self.view(self, scope, &budget))
    }

    /// The value of a `dim3` as written, `[x, y, z]` with 1 for what is not given.
    pub fn eval_dims(&self, expression: &str, scope: &Scope<'_>) -> Option<[i64; 3]> {
        let budget = Cell::new(BUDGET);
        match self.view(self, scope, &budget).dims(expression) {
            [Some(x), Some(y), Some(z)] => Some([x, y, z]),
            _ => None,
        }
    }

    /// Size of a type in bytes, on the device.
    pub fn size_of(&self, ty: &str, scope: &Scope<'_>) -> Option<u64> {
        let budget = Cell::new(BUDGET);
        self.view(self, scope, &budget).size_of(ty)
    }

    /// Alignment of a type in bytes, on the device.
    pub fn align_of(&self, ty: &str, scope: &Scope<'_>) -> Option<u64> {
        let budget = Cell::new(BUDGET);
        self.view(self, scope, &budget).layout(ty).map(|l| l.align)
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
    pub(super) fn bind(
        &self,
        f: &Function,
        arguments: &[Expr],
        scope: &Scope<'_>,
    ) -> Vec<(String, Binding)> {
        let budget = fresh_budget();
        let view = self.view(self, scope, &budget);
        let closed: Vec<String> = arguments
            .iter()
            .map(|a| view.closed_argument(&a.text))
            .collect();
        view.bound(&f.template_params, &closed, self, f.range.start, &[])
    }

    /// Size of one `__shared__` array in bytes; `None` for a dynamic one and where it is not known.
    pub fn shared_bytes(&self, array: &SharedArray, bindings: &[(String, Binding)]) -> Option<u64> {
        self.shared_bytes_for(self, array, bindings)
    }

    /// As [`Model::shared_bytes`], in a header of `root`.
    pub(super) fn shared_bytes_for(
        &self,
        root: &Model,
        array: &SharedArray,
        bindings: &[(String, Binding)],
    ) -> Option<u64> {
        if array.dynamic {
            return None;
        }
        let budget = fresh_budget();
        let scope = Scope::at(array.name_range.start).with(bindings);
        let view = self.view(root, &scope, &budget);
        let mut bytes = view.layout(&array.element)?.size;
        for dim in &array.dims {
            bytes = bytes.checked_mul(u64::try_from(evaluate(&dim.text, &view)?).ok()?)?;
        }
        Some(bytes)
    }

    /// Text of the alias declared at `at`.
    pub(super) fn alias_starting(&self, at: usize) -> Option<&str> {
        self.aliases
            .iter()
            .find(|a| a.at == at)
            .map(|a| a.ty.as_str())
    }
}

pub(super) fn fresh_budget() -> Cell<u32> {
    Cell::new(BUDGET)
}
