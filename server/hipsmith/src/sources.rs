//! Files and folders named on the command line: which HIP sources they hold, and their bytes.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use hipsmith_syntax::MAX_BYTES;

/// The files to check, in order, with whether the user named them; and what could not be looked at.
pub fn find(paths: &[PathBuf]) -> (Vec<(PathBuf, bool)>, Vec<String>) {
    let mut files = BTreeSet::new();
    let mut troubles = Vec::new();
    for path in paths {
        match fs::metadata(path) {
            Err(e) => troubles.push(format!("{}: {e}", path.display())),
            Ok(m) if m.is_dir() => {
                for entry in ignore::WalkBuilder::new(path).build() {
                    match entry {
                        Ok(e) => {
                            let is_file = e.file_type().is_some_and(|t| t.is_file());
                            if is_file && is_source(e.path()) {
                                files.insert((e.into_path(), false));
                            }
                        }
                        Err(e) => troubles.push(e.to_string()),
                    }
                }
            }
            Ok(m) if m.is_file() => {
                files.insert((path.clone(), true));
            }
            // Reading a pipe or a device could wait for ever.
            Ok(_) => troubles.push(format!("{}: neither a file nor a folder", path.display())),
        }
    }
    (files.into_iter().collect(), troubles)
}

fn is_source(path: &Path) -> bool {
    const EXTENSIONS: [&str; 13] = [
        "hip", "cu", "cuh", "hiph", "h", "H", "hh", "hpp", "hxx", "cpp", "cc", "cxx", "inl",
    ];
    path.extension()
        .and_then(|e| e.to_str())
        .is_some_and(|e| EXTENSIONS.contains(&e))
}

/// A file's bytes. `None` for a file found in a folder that is no text (a `.h` can be anything); an error for one that
/// the user named.
pub fn read(path: &Path, named: bool) -> Result<Option<Vec<u8>>, String> {
    let say = |why: String| Err(format!("{}: {why}", path.display()));
    let mut bytes = Vec::new();
    let limit = MAX_BYTES as u64;
    let read = fs::File::open(path).and_then(|f| f.take(limit + 1).read_to_end(&mut bytes));
    if let Err(e) = read {
        return say(format!("cannot be read: {e}"));
    }
    if bytes.iter().take(8192).any(|b| *b == 0) {
        return if named {
            say("is a binary file; hipsmith checks HIP source text".to_owned())
        } else {
            Ok(None)
        };
    }
    if bytes.len() as u64 > limit {
        return say(format!("is larger than {} MiB; not checked", limit >> 20));
    }
    Ok(Some(bytes))
}

/// The text. Bytes that are not UTF-8 become `?`, one for one, so that places stay right.
pub fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| {
        let mut text = String::new();
        for chunk in e.as_bytes().utf8_chunks() {
            text.push_str(chunk.valid());
            text.extend(chunk.invalid().iter().map(|_| '?'));
        }
        text
    })
}

/// Replace a file's content so that whoever reads it, or an interruption at any moment, finds the old or the new one
/// whole. Keeps the file's rights; a link stays a link.
///
/// # Errors
/// One sentence when that fails; the file is then as it was.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let say = |e: std::io::Error| format!("{}: cannot be written: {e}", path.display());
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(_) => path.to_owned(),
    };
    let folder = match real.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".hipsmith-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The umask takes away what a new file should not have; an old one's rights are set below.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let mut new = builder.tempfile_in(folder).map_err(say)?;
    new.write_all(bytes).map_err(say)?;
    if let Ok(old) = fs::metadata(&real) {
        if old.permissions().readonly() {
            return Err(format!(
                "{}: is read-only; it was not written",
                path.display()
            ));
        }
        new.as_file()
            .set_permissions(old.permissions())
            .map_err(say)?;
    }
    new.as_file().sync_all().map_err(say)?;
    new.persist(&real).map_err(|e| say(e.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_keep_their_place() {
        assert_eq!(into_text(b"a\xe9\xff b\xc3\xa9".to_vec()), "a?? bé");
    }
}
