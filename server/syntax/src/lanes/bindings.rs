//! Which declaration a name in a function means, and how often it is written.

use std::collections::HashMap;
use std::ops::Range;

use crate::tree::{Node, Notable};

/// How a name came to be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BindingKind {
    /// A value parameter of the function's template, or of the class template around it.
    Template,
    /// A parameter of the function.
    Parameter,
    /// A local variable.
    Local,
    /// Declared in the head of a `for`.
    Loop,
}

/// A parameter or local variable of one function.
#[derive(Clone, Debug)]
pub struct Binding<'t> {
    /// What it is.
    pub kind: BindingKind,
    /// The node of its name.
    pub name: Node<'t>,
    /// Its whole declaration or parameter declaration.
    pub declaration: Node<'t>,
    /// The initial value, when it has one.
    pub init: Option<Node<'t>>,
    /// The type as written, without declarator: `const unsigned int`.
    pub type_text: String,
    /// Not a plain scalar: pointer, reference or array.
    pub compound: bool,
    /// Bytes where the name is visible.
    pub scope: Range<usize>,
    /// Assignments after the declaration: the whole assignment or update expression.
    pub writes: Vec<Node<'t>>,
    /// Its address is taken or it is bound to a reference.
    pub escapes: bool,
}

/// All bindings of one function.
#[derive(Clone, Debug, Default)]
pub struct Bindings<'t> {
    all: Vec<Binding<'t>>,
    by_name: HashMap<String, Vec<usize>>,
}

fn text<'s>(source: &'s str, node: Node<'_>) -> &'s str {
    source.get(node.byte_range()).unwrap_or("")
}

/// The identifier in a declarator, and whether the declarator is more than a name.
fn declarator_name(mut node: Node<'_>) -> Option<(Node<'_>, bool)> {
    let mut compound = false;
    loop {
        match node.kind() {
            "identifier" => return Some((node, compound)),
            "pointer_declarator" | "array_declarator" | "reference_declarator" => {
                compound = true;
                node = node.child_by_field_name("declarator").or_else(|| {
                    node.named_child(node.named_child_count().checked_sub(1)? as u32)
                })?;
            }
            // `unsigned x(expr);` reads as a function declarator when expr is a name.
            "init_declarator" | "parenthesized_declarator" | "attributed_declarator" => {
                node = node
                    .child_by_field_name("declarator")
                    .or_else(|| node.named_child(0))?;
            }
            _ => return None,
        }
    }
}

impl<'t> Bindings<'t> {
    /// Read the function definition `function` of `source`.
    pub fn of(source: &str, function: Node<'t>) -> Bindings<'t> {
        let mut out = Bindings::default();
        let Some(body) = function.child_by_field_name("body") else {
            return out;
        };
        let mut outer = function.parent();
        while let Some(node) = outer {
            if node.kind() == "template_declaration"
                && let Some(parameters) = node.child_by_field_name("parameters")
            {
                // The innermost template hides those around it.
                out.parameters(source, parameters, BindingKind::Template, node.byte_range());
            }
            outer = node.parent();
        }
        if let Some(parameters) = parameter_list(function) {
            out.parameters(
                source,
                parameters,
                BindingKind::Parameter,
                body.byte_range(),
            );
        }
        // Declarations first, so that a write finds its binding whatever the order of the walk.
        let mut writes = Vec::new();
        for (what, node) in body.notable() {
            match what {
                Notable::Declaration => out.declaration(source, node),
                Notable::ForRange => {
                    let declarator = node
                        .child_by_field_name("declarator")
                        .and_then(declarator_name);
                    if let Some((name, compound)) = declarator {
                        out.push(
                            source,
                            Binding {
                                kind: BindingKind::Local,
                                name,
                                declaration: node,
                                init: None,
                                type_text: type_text(source, node),
                                compound,
                                scope: node.byte_range(),
                                writes: vec![node],
                                escapes: true,
                            },
                        );
                    }
                }
                Notable::Assignment | Notable::Update => writes.push(node),
                Notable::Pointer if text(source, node).starts_with('&') => writes.push(node),
                Notable::Capture if text(source, node).contains('&') => writes.push(node),
                _ => {}
            }
        }
        for node in writes {
            let target = match node.kind() {
                "assignment_expression" => node.child_by_field_name("left"),
                _ => node.child_by_field_name("argument"),
            };
            let Some(mut target) = target else { continue };
            while target.kind() == "parenthesized_expression" {
                let Some(inner) = target.named_child(0) else {
                    break;
                };
                target = inner;
            }
            if target.kind() != "identifier" {
                continue;
            }
            if let Some(index) = out.index(text(source, target), target.start_byte()) {
                if node.kind() == "pointer_expression" {
                    out.all[index].escapes = true;
                } else {
                    out.all[index].writes.push(node);
                }
            }
        }
        out
    }

    fn parameters(
        &mut self,
        source: &str,
        parameters: Node<'t>,
        kind: BindingKind,
        scope: Range<usize>,
    ) {
        for p in parameters.named_children() {
            if !matches!(
                p.kind(),
                "parameter_declaration" | "optional_parameter_declaration"
            ) {
                continue;
            }
            let Some(declarator) = p.child_by_field_name("declarator") else {
                continue;
            };
            let Some((name, compound)) = declarator_name(declarator) else {
                continue;
            };
            self.push(
                source,
                Binding {
                    kind,
                    name,
                    declaration: p,
                    init: None,
                    type_text: type_text(source, p),
                    compound,
                    scope: scope.clone(),
                    writes: Vec::new(),
                    escapes: false,
                },
            );
        }
    }

    fn push(&mut self, source: &str, binding: Binding<'t>) {
        let name = text(source, binding.name).to_owned();
        self.by_name.entry(name).or_default().push(self.all.len());
        self.all.push(binding);
    }

    fn declaration(&mut self, source: &str, node: Node<'t>) {
        let Some(parent) = node.parent() else { return };
        let (kind, scope) = match parent.kind() {
            "for_statement" | "init_statement" => (BindingKind::Loop, parent.byte_range()),
            _ => (BindingKind::Local, node.start_byte()..parent.end_byte()),
        };
        let type_text = type_text(source, node);
        let declarators: Vec<Node<'t>> = node.children_by_field_name("declarator").collect();
        for declarator in declarators {
            let Some((name, compound)) = declarator_name(declarator) else {
                continue;
            };
            let mut init = match declarator.kind() {
                "init_declarator" => declarator.child_by_field_name("value"),
                _ => None,
            };
            // `unsigned x(expr);`
            if let Some(list) = init.filter(|i| i.kind() == "argument_list") {
                init = list
                    .named_child(0)
                    .filter(|_| list.named_child_count() == 1);
            }
            self.push(
                source,
                Binding {
                    kind,
                    name,
                    declaration: node,
                    init,
                    type_text: type_text.clone(),
                    compound,
                    scope: scope.clone(),
                    writes: Vec::new(),
                    escapes: false,
                },
            );
        }
    }

    fn index(&self, name: &str, at: usize) -> Option<usize> {
        // The innermost declaration in whose scope the use stands.
        self.by_name
            .get(name)?
            .iter()
            .copied()
            .filter(|i| {
                let b = &self.all[*i];
                b.scope.contains(&at) && (b.kind != BindingKind::Local || b.name.start_byte() <= at)
            })
            .min_by_key(|i| self.all[*i].scope.len())
    }

    /// What `name` means when it is used at byte `at`.
    pub fn resolve(&self, name: &str, at: usize) -> Option<&Binding<'t>> {
        self.index(name, at).and_then(|i| self.all.get(i))
    }

    /// All bindings, parameters first.
    pub fn iter(&self) -> impl Iterator<Item = &Binding<'t>> {
        self.all.iter()
    }
}

fn type_text(source: &str, declaration: Node<'_>) -> String {
    let mut out = String::new();
    for child in declaration.children() {
        if matches!(
            child.kind(),
            "type_qualifier"
                | "primitive_type"
                | "sized_type_specifier"
                | "type_identifier"
                | "qualified_identifier"
                | "template_type"
                | "placeholder_type_specifier"
                | "dependent_type"
                | "decltype"
                | "storage_class_specifier"
        ) {
            if !out.is_empty() {
                out.push(' ');
            }
            out.push_str(text(source, child));
        }
    }
    out
}

fn parameter_list(function: Node<'_>) -> Option<Node<'_>> {
    let mut node = function.child_by_field_name("declarator")?;
    for _ in 0..8 {
        if let Some(parameters) = node.child_by_field_name("parameters") {
            return Some(parameters);
        }
        node = node
            .child_by_field_name("declarator")
            .or_else(|| node.named_child(node.named_child_count().checked_sub(1)? as u32))?;
    }
    None
}
