//! `hipsmith.toml`: subjects that somebody declared. `docs/hipsmith-toml.md` describes the file for people.
//!
//! A declared program runs as the user; callers decide whether the workspace is trusted before they ask.

use std::path::{Path, PathBuf};

use hipsmith_devices::harness::Arg;
use serde::Deserialize;

use crate::subject::{Data, Shape};
use crate::verify::cases::mix;
use crate::verify::element::Element;

/// Name of the file.
pub const FILE: &str = "hipsmith.toml";

/// Our part of the file; the rest is for `hipsmith check` and checked there.
#[derive(Clone, Debug, Default, Deserialize)]
struct Config {
    #[serde(default)]
    subject: Vec<Declared>,
}

/// One `[[subject]]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declared {
    /// The kernel's name in the source.
    pub kernel: String,
    /// The file that holds it, relative to `hipsmith.toml`; without it, any file.
    pub file: Option<PathBuf>,
    /// Program and arguments whose run gives the data; a program with a slash is relative to `hipsmith.toml`.
    pub program: Option<Vec<String>>,
    /// More compiler flags.
    #[serde(default)]
    pub flags: Vec<String>,
    /// Launches with made-up data, where there is no program; the first is timed, others are held out.
    #[serde(default)]
    pub launch: Vec<DeclaredLaunch>,
    /// Folder of the file; not part of it.
    #[serde(skip)]
    pub folder: PathBuf,
}

/// One `[[subject.launch]]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredLaunch {
    /// Workgroups, one to three numbers.
    pub grid: Vec<u32>,
    /// Threads of a workgroup, one to three numbers.
    pub block: Vec<u32>,
    /// Dynamic LDS, bytes.
    #[serde(default)]
    pub dynamic_lds: u32,
    /// Kernel arguments, in order.
    pub args: Vec<DeclaredArg>,
}

/// One argument of a declared launch.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredArg {
    /// `f32`, `f64`, `f16`, `bf16`, `i8`, `i32`, `i64`, `u8`, `u32`, `u64`.
    #[serde(rename = "type")]
    pub ty: String,
    /// By value: the number.
    pub value: Option<f64>,
    /// A buffer: how many elements.
    pub count: Option<usize>,
    /// A buffer's contents: `random` (-1 to 1; integers 0 to 99), `zeros`, `ones`, `index`.
    #[serde(default)]
    pub fill: Fill,
    /// A buffer that the kernel writes.
    #[serde(default)]
    pub out: bool,
}

/// Contents of a declared buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fill {
    /// Random numbers, the same in every job.
    #[default]
    Random,
    /// All 0.
    Zeros,
    /// All 1.
    Ones,
    /// 0, 1, 2 and so on.
    Index,
}

/// The subject that the nearest `hipsmith.toml` at or above the file's folder declares for this kernel.
///
/// # Errors
/// One sentence when that file cannot be read or has a mistake.
pub fn find(file: &Path, kernel: &str) -> Result<Option<Declared>, String> {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let Some(path) = absolute
        .ancestors()
        .skip(1)
        .map(|dir| dir.join(FILE))
        .find(|p| p.is_file())
    else {
        return Ok(None);
    };
    let text = std::fs::read_to_string(&path)
        .map_err(|e| format!("{} cannot be read: {e}", path.display()))?;
    let config: Config =
        toml::from_str(&text).map_err(|e| format!("{} has a mistake: {e}", path.display()))?;
    let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
    let same = |declared: &Path| {
        let there = folder.join(declared);
        there == absolute
            || matches!((there.canonicalize(), absolute.canonicalize()), (Ok(a), Ok(b)) if a == b)
    };
    let found = config
        .subject
        .into_iter()
        .find(|s| s.kernel == kernel && s.file.as_deref().is_none_or(same));
    let Some(mut found) = found else {
        return Ok(None);
    };
    crate::compile::allowed_flags(&found.flags)?;
    // Relative include folders count from the file that names them.
    for flag in &mut found.flags {
        if let Some(dir) = flag.strip_prefix("-I") {
            *flag = format!("-I{}", folder.join(dir).display());
        }
    }
    if let Some(program) = found.program.as_mut().and_then(|p| p.first_mut())
        && program.contains('/')
    {
        *program = folder.join(&*program).display().to_string();
    }
    found.folder = folder;
    Ok(Some(found))
}

impl DeclaredLaunch {
    /// The launch with its data made up.
    ///
    /// # Errors
    /// One sentence that names the argument that is wrong.
    pub fn shape(&self) -> Result<Shape, String> {
        let dims = |what: &str, given: &[u32]| {
            let mut all = [1u32; 3];
            if given.is_empty() || given.len() > 3 || given.contains(&0) {
                return Err(format!(
                    "hipsmith.toml: `{what}` must be one to three numbers above 0"
                ));
            }
            all[..given.len()].copy_from_slice(given);
            Ok(all)
        };
        let mut args = Vec::new();
        let mut buffers = Vec::new();
        for (i, arg) in self.args.iter().enumerate() {
            let bad = |why: &str| format!("hipsmith.toml: argument {i} of the launch {why}");
            let number = Number::of(&arg.ty).ok_or_else(|| {
                bad("has an unknown `type`; use f32, f64, f16, bf16, i8, i32, i64, u8, u32 or u64")
            })?;
            match (arg.value, arg.count) {
                (Some(value), None) => args.push(Arg::Value(number.bytes(value))),
                (None, Some(count)) => {
                    if count.saturating_mul(number.size()) > 1 << 30 {
                        return Err(bad("is larger than 1 GiB"));
                    }
                    args.push(Arg::Pointer {
                        buffer: buffers.len(),
                        offset: 0,
                    });
                    buffers.push(Data {
                        before: number.fill(arg.fill, count, i as u64),
                        after: None,
                        element: number.element(),
                        writable: arg.out,
                    });
                }
                _ => return Err(bad("needs either `value` or `count`")),
            }
        }
        Ok(Shape {
            grid: dims("grid", &self.grid)?,
            block: dims("block", &self.block)?,
            dynamic_lds: self.dynamic_lds,
            args,
            buffers,
            globals: Vec::new(),
        })
    }
}

/// A number type of a declared argument.
#[derive(Clone, Copy, Debug)]
enum Number {
    Float(Element),
    Integer(usize),
}

impl Number {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "f64" => Self::Float(Element::F64),
            "f32" => Self::Float(Element::F32),
            "f16" => Self::Float(Element::F16),
            "bf16" => Self::Float(Element::Bf16),
            "i8" | "u8" => Self::Integer(1),
            "i32" | "u32" => Self::Integer(4),
            "i64" | "u64" => Self::Integer(8),
            _ => return None,
        })
    }
    fn element(self) -> Element {
        match self {
            Self::Float(e) => e,
            Self::Integer(_) => Element::Bytes,
        }
    }
    fn size(self) -> usize {
        match self {
            Self::Float(e) => e.size(),
            Self::Integer(n) => n,
        }
    }
    fn bytes(self, value: f64) -> Vec<u8> {
        match self {
            Self::Float(e) => {
                let mut bytes = vec![0; e.size()];
                e.put(&mut bytes, 0, value);
                bytes
            }
            Self::Integer(n) => (value as i64).to_le_bytes()[..n].to_vec(),
        }
    }
    fn fill(self, fill: Fill, count: usize, salt: u64) -> Vec<u8> {
        let mut state = mix(salt);
        let mut unit = || {
            state = mix(state);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let mut value = |i: usize| match (fill, self) {
            (Fill::Random, Self::Float(_)) => 2.0 * unit() - 1.0,
            (Fill::Random, Self::Integer(_)) => (unit() * 100.0).floor(),
            (Fill::Zeros, _) => 0.0,
            (Fill::Ones, _) => 1.0,
            (Fill::Index, _) => i as f64,
        };
        (0..count).flat_map(|i| self.bytes(value(i))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
[[subject]]
kernel = "scale"
file = "src/scale.hip"
program = ["./build/scale", "64"]
flags = ["-DN=4", "-Iinclude"]

[[subject]]
kernel = "made_up"
[[subject.launch]]
grid = [4]
block = [16, 16]
args = [
  { type = "f32", count = 8 },
  { type = "f32", count = 8, fill = "zeros", out = true },
  { type = "i32", value = 8 },
]
"#;

    #[test]
    fn the_nearest_file_decides_and_paths_count_from_it() {
        let dir = tempfile::tempdir().unwrap();
        let src = dir.path().join("src");
        std::fs::create_dir(&src).unwrap();
        std::fs::write(dir.path().join(FILE), TEXT).unwrap();
        let found = find(&src.join("scale.hip"), "scale").unwrap().unwrap();
        let folder = dir.path().display();
        assert_eq!(
            found.program.unwrap(),
            [format!("{folder}/./build/scale"), "64".into()]
        );
        assert_eq!(found.flags, ["-DN=4".into(), format!("-I{folder}/include")]);
        assert_eq!(find(&src.join("other.hip"), "scale").unwrap(), None);
        let made_up = find(&src.join("other.hip"), "made_up").unwrap().unwrap();
        let shape = made_up.launch[0].shape().unwrap();
        assert_eq!((shape.grid, shape.block), ([4, 1, 1], [16, 16, 1]));
        assert_eq!(shape.args[2], Arg::Value(vec![8, 0, 0, 0]));
        assert_eq!(shape.buffers[1].before, [0; 32]);
        assert_ne!(shape.buffers[0].before, [0; 32]);
    }

    #[test]
    fn mistakes_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("k.hip");
        for (text, part) in [
            ("[[subject]]\nkernle = \"k\"\n", "kernle"),
            ("[[subject]\n", "mistake"),
            (
                "[[subject]]\nkernel = \"k\"\nflags = [\"-fplugin=x\"]\n",
                "-fplugin",
            ),
        ] {
            std::fs::write(dir.path().join(FILE), text).unwrap();
            let why = find(&file, "k").unwrap_err();
            assert!(why.contains(part), "{why}");
        }
        let bad = DeclaredLaunch {
            grid: vec![],
            block: vec![1],
            dynamic_lds: 0,
            args: vec![],
        };
        bad.shape().unwrap_err();
    }
}
