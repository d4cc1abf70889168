//! Calls of functions with a constant value: the few statements that such functions are made of, executed.

use std::cell::Cell;
use std::ops::Range;

use crate::expr::evaluate;
use crate::lex::{Token, TokenKind};

use super::classes::{bracket_close, segments};
use super::names::View;
use super::{Binding, Function, Model};

/// Statements executed at most in one call.
const MAX_STEPS: u32 = 2000;

/// How a statement ended.
enum Flow {
    Next,
    Return(Option<i64>),
}

struct Run<'a, 'v> {
    view: &'v View<'a, 'v>,
    model: &'a Model,
    toks: Vec<Token>,
    variables: Vec<(String, Binding)>,
    steps: &'v Cell<u32>,
}

impl<'a> View<'a, '_> {
    /// The value of `name(arguments)`, where the function is known and simple.
    pub(super) fn call_function(&self, name: &str, arguments: &[i64]) -> Option<i64> {
        let path = segments(name)?;
        let ((last, template), _) = path.split_last()?;
        let closed: Vec<String> = template
            .iter()
            .flatten()
            .map(|a| self.closed_argument(a))
            .collect();
        for m in self.files() {
            for index in m.index().functions.get(last) {
                let f = m.functions.get(index).filter(|f| f.name == *last)?;
                if f.params.len() != arguments.len() || f.template_params.len() < closed.len() {
                    continue;
                }
                return self.execute(m, f, &closed, arguments);
            }
        }
        None
    }

    fn execute(
        &self,
        m: &'a Model,
        f: &'a Function,
        template: &[String],
        arguments: &[i64],
    ) -> Option<i64> {
        let mut variables = self.bound(&f.template_params, template, m, f.range.start, &[]);
        variables.extend(
            f.params
                .iter()
                .zip(arguments)
                .map(|(p, v)| (p.name.clone(), Binding::Value(*v))),
        );
        let toks = m.code(f.body.clone());
        if toks.len() > 4000 {
            return None;
        }
        let steps = Cell::new(MAX_STEPS);
        let mut run = Run {
            view: self,
            model: m,
            variables,
            steps: &steps,
            toks,
        };
        let end = run.toks.len().checked_sub(1)?;
        match run.block(1..end, 0)? {
            Flow::Return(value) => value,
            Flow::Next => None,
        }
    }
}

impl Run<'_, '_> {
    fn word(&self, i: usize) -> &str {
        self.toks.get(i).map_or("", |t| t.text(&self.model.text))
    }

    fn text(&self, range: Range<usize>) -> Option<&str> {
        let from = self.toks.get(range.start)?.range.start;
        let to = self.toks.get(range.end.checked_sub(1)?)?.range.end;
        self.model.text.get(from..to)
    }

    fn value(&self, range: Range<usize>) -> Option<i64> {
        let at = self.toks.get(range.start)?.range.start;
        let view = self.view.elsewhere(self.model, at, &self.variables)?;
        evaluate(self.text(range)?, &view)
    }

    fn close(&self, open: usize) -> Option<usize> {
        bracket_close(&self.toks, open, &self.model.text)
    }

    /// The `;` that ends the statement at `i`.
    fn semicolon(&self, mut i: usize, end: usize) -> Option<usize> {
        while i < end {
            match self.word(i) {
                ";" => return Some(i),
                "(" | "[" | "{" => i = self.close(i)? + 1,
                _ => i += 1,
            }
        }
        None
    }

    fn block(&mut self, range: Range<usize>, depth: u32) -> Option<Flow> {
        let known = self.variables.len();
        let mut i = range.start;
        while i < range.end {
            let (flow, next) = self.statement(i, range.end, depth, true)?;
            if let Flow::Return(_) = flow {
                return Some(flow);
            }
            i = next.max(i + 1);
        }
        self.variables.truncate(known);
        Some(Flow::Next)
    }

    /// Execute the statement at `i` (or only find its end); the token after it.
    fn statement(
        &mut self,
        i: usize,
        end: usize,
        depth: u32,
        doing: bool,
    ) -> Option<(Flow, usize)> {
        let left = self.steps.get().checked_sub(1)?;
        self.steps.set(left);
        if depth > 24 {
            return None;
        }
        match self.word(i) {
            ";" => Some((Flow::Next, i + 1)),
            "{" => {
                let close = self.close(i)?;
                let flow = if doing {
                    self.block(i + 1..close, depth + 1)?
                } else {
                    Flow::Next
                };
                Some((flow, close + 1))
            }
            "return" => {
                let stop = self.semicolon(i, end)?;
                let value = if doing { self.value(i + 1..stop) } else { None };
                let flow = if doing {
                    Flow::Return(value)
                } else {
                    Flow::Next
                };
                Some((flow, stop + 1))
            }
            "if" => {
                let open = i + 1 + usize::from(self.word(i + 1) == "constexpr");
                let close = self.close(open)?;
                let taken = if doing {
                    self.value(open + 1..close)? != 0
                } else {
                    false
                };
                let (flow, mut next) = self.statement(close + 1, end, depth + 1, taken)?;
                let mut result = flow;
                if self.word(next) == "else" {
                    let (other, after) =
                        self.statement(next + 1, end, depth + 1, doing && !taken)?;
                    next = after;
                    if !taken {
                        result = other;
                    }
                }
                Some((result, next))
            }
            "for" => {
                let close = self.close(i + 1)?;
                let first = self.semicolon(i + 2, close)?;
                let second = self.semicolon(first + 1, close)?;
                let known = self.variables.len();
                if doing {
                    self.simple(i + 2..first)?;
                    while self.value(first + 1..second)? != 0 {
                        let (flow, _) = self.statement(close + 1, end, depth + 1, true)?;
                        if let Flow::Return(_) = flow {
                            return Some((flow, end));
                        }
                        self.simple(second + 1..close)?;
                    }
                    self.variables.truncate(known);
                }
                let (_, next) = self.statement(close + 1, end, depth + 1, false)?;
                Some((Flow::Next, next))
            }
            "while" => {
                let close = self.close(i + 1)?;
                while doing && self.value(i + 2..close)? != 0 {
                    let (flow, _) = self.statement(close + 1, end, depth + 1, true)?;
                    if let Flow::Return(_) = flow {
                        return Some((flow, end));
                    }
                }
                let (_, next) = self.statement(close + 1, end, depth + 1, false)?;
                Some((Flow::Next, next))
            }
            "static_assert" | "assert" | "using" | "typedef" => {
                Some((Flow::Next, self.semicolon(i, end)? + 1))
            }
            "switch" | "do" | "goto" | "break" | "continue" | "case" | "try" => None,
            _ => {
                let stop = self.semicolon(i, end)?;
                if doing {
                    self.simple(i..stop)?;
                }
                Some((Flow::Next, stop + 1))
            }
        }
    }

    fn set(&mut self, name: &str, value: i64) -> Option<()> {
        let (_, slot) = self.variables.iter_mut().rev().find(|(n, _)| n == name)?;
        *slot = Binding::Value(value);
        Some(())
    }

    /// A declaration with a value, an assignment, or a step.
    fn simple(&mut self, range: Range<usize>) -> Option<()> {
        if range.is_empty() {
            return Some(());
        }
        let is_name =
            |run: &Self, i: usize| run.toks.get(i).is_some_and(|t| t.kind == TokenKind::Ident);
        let words: Vec<String> = range.clone().map(|i| self.word(i).to_owned()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["++", name] | [name, "++"] => {
                let value = self.value_of(name)?;
                return self.set(name, value.checked_add(1)?);
            }
            ["--", name] | [name, "--"] => {
                let value = self.value_of(name)?;
                return self.set(name, value.checked_sub(1)?);
            }
            _ => {}
        }
        if is_name(self, range.start)
            && let Some(op) = words
                .get(1)
                .filter(|w| w.ends_with('=') && !matches!(**w, "==" | "!=" | "<=" | ">="))
        {
            let name = words.first()?;
            let right = self.value(range.start + 2..range.end)?;
            let value = match *op {
                "=" => right,
                op => {
                    let at = self.toks.get(range.start)?.range.start;
                    let left = self.value_of(name)?;
                    let view = self.view.elsewhere(self.model, at, &self.variables)?;
                    evaluate(
                        &format!("({left}) {} ({right})", op.trim_end_matches('=')),
                        &view,
                    )?
                }
            };
            return self.set(name, value);
        }
        // `const int n = value, m = value`
        let equals = words.iter().position(|w| matches!(*w, "=" | "{"))?;
        let name = words.get(equals.checked_sub(1)?)?;
        if equals < 2 || words.contains(&",") {
            return None;
        }
        let value = if words.get(equals) == Some(&"{") {
            self.value(range.start + equals + 1..range.end.checked_sub(1)?)?
        } else {
            self.value(range.start + equals + 1..range.end)?
        };
        let ty = self.text(range.start..range.start + equals - 1)?.to_owned();
        let at = self.toks.get(range.start)?.range.start;
        let view = self.view.elsewhere(self.model, at, &self.variables)?;
        let value = if ty.contains("auto") {
            value
        } else {
            let plain = ty.replace("constexpr", "");
            crate::expr::cast(&plain, Some(value), &view)?
        };
        let name = (*name).to_owned();
        self.variables.push((name, Binding::Value(value)));
        Some(())
    }

    fn value_of(&self, name: &str) -> Option<i64> {
        match self.variables.iter().rev().find(|(n, _)| n == name)?.1 {
            Binding::Value(v) => Some(v),
            Binding::Type(_) => None,
        }
    }
}
